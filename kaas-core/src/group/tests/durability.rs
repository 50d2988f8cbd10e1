use super::*;

#[test]
fn members_survive_a_restart_and_have_a_session_to_come_back() {
    let mut world = World::new();
    let members = world.stable(&["a", "b"]);
    let id = world.refused(new_member("c")).member_id;
    world.restart();
    assert_eq!(world.state(), "Stable");
    assert_eq!(world.heartbeat(&members[0]), Ok(()));
    for (member, client) in members.iter().zip(["a", "b"]) {
        let token = world.sync(member, &[]);
        assert_eq!(world.assignment(token), client);
    }
    assert_eq!(world.refused(member("c", &id)).error, GroupError::UnknownMemberId);
    world.pass(10_000);
    assert_eq!(world.state(), "Empty");
}

#[test]
fn a_rebalance_does_not_survive_a_restart_but_the_generation_before_it_does() {
    let mut world = World::new();
    let members = world.stable(&["a"]);
    world.join(old_member("b"));
    assert_eq!(world.state(), "PreparingRebalance");
    world.restart();
    assert_eq!(world.state(), "Stable");
    assert_eq!(world.heartbeat(&members[0]), Ok(()));
    let token = world.join(again("a", &members[0]));
    assert_eq!(world.take_joined(token).generation, 2);
}

#[test]
fn static_members_that_were_replaced_survive_a_restart() {
    let mut world = World::new();
    let old = world.joined(static_member("i"));
    world.sync(&old, &[(&old.member_id, "x")]);
    let new = world.joined(static_member("i"));
    world.restart();
    let fenced = Err(GroupError::FencedInstanceId);
    assert_eq!(world.heartbeat_as(&old.member_id, Some("i"), 1), fenced);
    assert_eq!(world.heartbeat_as(&new.member_id, Some("i"), 1), Ok(()));
    let newer = world.joined(static_member("i"));
    assert_eq!((newer.generation, world.state()), (1, "Stable"));
}

#[test]
fn a_group_that_is_too_large_after_a_restart_rebalances() {
    let mut world = World::new();
    let members = world.stable(&["a", "b"]);
    world.options.max_size = 1;
    world.restart();
    assert_eq!(world.state(), "PreparingRebalance");
    let first = world.join(again("a", &members[0]));
    let refused = world.refused(again("b", &members[1]));
    assert_eq!(refused.error, GroupError::GroupMaxSizeReached);
    assert_eq!(world.take_joined(first).members.len(), 1);
}

#[test]
fn pending_offsets_survive_a_restart() {
    let mut world = World::new();
    world.commit(outsider("g"), "t", 1).unwrap();
    world.commit_in(7, "t", 5).unwrap();
    world.restart();
    assert_eq!(world.fetch("t", true), Err(GroupError::UnstableOffsetCommit));
    assert_eq!(world.slot.verification(7, 0, world.now), None);
    world.complete(7, true);
    world.restart();
    assert_eq!(world.fetch("t", true), Ok(Some(5)));
}

#[test]
fn a_snapshot_keeps_what_counts_of_the_order_of_commits() {
    let mut world = World::new();
    world.commit_in(7, "t", 5).unwrap();
    world.commit_in(7, "u", 5).unwrap();
    world.commit(outsider("g"), "t", 9).unwrap();
    world.commit_in(8, "t", 7).unwrap();
    world.entries = world.slot.snapshot();
    world.restart();
    assert_eq!(world.slot.snapshot(), world.entries);
    world.complete(7, true);
    assert_eq!(world.fetch("t", false), Ok(Some(9)), "it was committed later");
    assert_eq!(world.fetch("u", true), Ok(Some(5)));
    world.complete(8, true);
    assert_eq!(world.fetch("t", true), Ok(Some(7)));
}

#[test]
fn entries_that_make_no_sense_change_nothing() {
    let mut world = World::new();
    for line in [
        r#"{"group":"g"}"#,
        r#"{"group":"g","removed":true}"#,
        r#"{"group":"g","removed":false}"#,
        r#"{"group":"g","offsets":[]}"#,
        r#"{"group":"g","offsets":[],"pending_in":{"producer_id":1,"producer_epoch":0}}"#,
        r#"{"group":"g","transaction":{"producer_id":1,"committed":true}}"#,
        r#"{"group":"g","removed_offsets":[{"topic":"t","partition":0}]}"#,
        r#"{"group":"g","something":"else"}"#,
    ] {
        world.entries.push(serde_json::from_str(line).unwrap());
    }
    world.restart();
    assert_eq!(world.state(), "Dead");
    assert!(world.slot.snapshot().is_empty());
}

#[test]
fn a_state_that_contradicts_itself_still_makes_a_group() {
    let member = |id: &str, instance: &str| {
        format!(
            r#"{{"member_id":"{id}","group_instance_id":"{instance}","client_id":"","client_host":"","rebalance_timeout_ms":-5,
            "session_timeout_ms":-1,"subscription":"","assignment":""}}"#
        )
    };
    let members = [member("a", "i"), member("a", "i"), member("b", "i")].join(",");
    let line = format!(
        r#"{{"group":"g","state":{{"generation":2147483647,"protocol_type":"consumer","protocol":null,"leader":"nobody",
        "members":[{members}],"state_timestamp_ms":-9223372036854775808}}}}"#
    );
    let mut world = World::new();
    world.entries.push(serde_json::from_str(&line).unwrap());
    world.restart();
    assert_eq!(world.state(), "Stable");
    world.pass(1);
    assert_eq!(world.state(), "Empty");
    world.pass(600_000);
    assert_eq!(world.state(), "Dead");
}
