use super::*;

/// A stable group of one static member, which is assigned `old`.
fn stable(world: &mut World) -> Joined {
    let joined = world.joined(static_member("i"));
    world.sync(&joined, &[(&joined.member_id, "old")]);
    joined
}

#[test]
fn a_static_member_comes_back_without_a_rebalance() {
    for supports_skip_assignment in [false, true] {
        let mut world = World::new();
        let old = stable(&mut world);
        assert!(old.member_id.starts_with("i-"));
        let new = world.joined(JoinRequest { supports_skip_assignment, ..static_member("i") });
        assert_ne!(new.member_id, old.member_id);
        assert_eq!((new.generation, world.state()), (1, "Stable"));
        assert_eq!(new.skip_assignment, supports_skip_assignment);
        let leader = if supports_skip_assignment { &new } else { &old };
        assert_eq!(new.leader.as_ref(), Some(&leader.member_id), "an old client must not lead");
        assert_eq!(new.members.len(), usize::from(supports_skip_assignment));
        let stored = world.entries.last().unwrap().state.clone().unwrap();
        assert_eq!((world.entries.len(), &stored.members[0].member_id), (2, &new.member_id));
        let token = world.sync(&new, &[]);
        assert_eq!(world.assignment(token), "old");
        for instance in [Some("i"), None] {
            let expected =
                if instance.is_some() { GroupError::FencedInstanceId } else { GroupError::UnknownMemberId };
            assert_eq!(world.heartbeat_as(&old.member_id, instance, 1), Err(expected));
        }
        assert_eq!(world.heartbeat_as(&new.member_id, Some("i"), 1), Ok(()));
    }
}

#[test]
fn the_old_id_is_fenced_everywhere() {
    let mut world = World::new();
    let old = stable(&mut world);
    world.joined(static_member("i"));
    let fenced = GroupError::FencedInstanceId;
    let instance_id = Some("i".to_owned());
    let join = JoinRequest { member_id: old.member_id.clone(), ..static_member("i") };
    assert_eq!(world.refused(join), JoinRefused { error: fenced, member_id: old.member_id.clone() });
    let token = world.sync_with(SyncRequest { instance_id: instance_id.clone(), ..sync_request(&old, &[]) });
    assert_eq!(world.take_synced(token), Err(fenced));
    let committer = Committer { instance_id, ..insider(&old) };
    assert_eq!(world.commit(committer.clone(), "t", 1), Err(fenced));
    assert_eq!(world.commit_txn(committer, 1, 0, offset_of("t", 1)), Err(fenced));
    assert_eq!(world.leave(&old.member_id, Some("i")), Err(fenced));
    assert_eq!(world.leave("c-1", Some("unknown")), Err(GroupError::UnknownMemberId));
}

#[test]
fn a_change_of_the_chosen_protocol_makes_the_group_rebalance() {
    let mut world = World::new();
    let protocols =
        |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), subscription("t"))).collect();
    let join = JoinRequest { protocols: protocols(&["range", "sticky"]), ..static_member("i") };
    let joined = world.joined(join);
    world.sync(&joined, &[]);
    let join = JoinRequest { protocols: protocols(&["sticky"]), ..static_member("i") };
    let new = world.joined(join);
    assert_eq!((new.generation, new.protocol.as_deref()), (2, Some("sticky")));
}

#[test]
fn a_member_that_comes_back_during_a_rebalance_starts_over() {
    let mut world = World::new();
    let old = world.joined(static_member("i"));
    let other = world.join(static_member("j"));
    let waiting = world.join(JoinRequest { member_id: old.member_id.clone(), ..static_member("i") });
    let other = world.take_joined(other);
    let old = world.take_joined(waiting);
    assert_eq!((old.generation, world.state()), (2, "CompletingRebalance"));
    let (leader, follower) = if leads(&old) { (old, other) } else { (other, old) };
    let syncing = world.sync(&follower, &[]);
    let instance = follower.member_id.split('-').next().unwrap().to_owned();
    let joining = world.join(static_member(&instance));
    assert_eq!(world.take_synced(syncing), Err(GroupError::FencedInstanceId));
    assert_eq!(world.state(), "PreparingRebalance");
    let newer = world.join(static_member(&instance));
    let refused = world.take_refused(joining);
    assert_eq!(refused.error, GroupError::FencedInstanceId, "two that use one instance id");
    let instance = leader.member_id.split('-').next().unwrap().to_owned();
    world.join(JoinRequest { member_id: leader.member_id, ..static_member(&instance) });
    assert_eq!(world.take_joined(newer).generation, 3);
}

#[test]
fn static_members_are_kept_while_they_are_away() {
    let mut world = World::new();
    let a = stable(&mut world);
    let joining = world.join(static_member("j"));
    let request = JoinRequest { member_id: a.member_id.clone(), ..static_member("i") };
    let again = world.join(request);
    let (a, b) = (world.take_joined(again), world.take_joined(joining));
    world.sync(if leads(&a) { &a } else { &b }, &[]);
    // One joins, the other is away for as long as the rebalance lasts: it lives by heartbeats.
    let leader_away = leads(&a);
    let present = world.join(JoinRequest {
        member_id: b.member_id.clone(),
        protocols: vec![("range".to_owned(), subscription("u"))],
        ..static_member("j")
    });
    for _ in 0..12 {
        assert!(world.waits(present));
        world.pass(5_000);
        world.heartbeat_as(&a.member_id, Some("i"), 2).unwrap_or_default();
    }
    let joined = world.take_joined(present);
    assert_eq!(joined.generation, 3);
    assert!(leads(&joined) || !leader_away, "the leader is one who joined");
    assert_eq!(world.slot.describe("g").unwrap().members.len(), 2);
}

#[test]
fn an_administrator_removes_a_member_by_its_instance_id() {
    let mut world = World::new();
    stable(&mut world);
    assert_eq!(world.leave("", Some("j")), Err(GroupError::UnknownMemberId));
    assert_eq!(world.leave("", None), Err(GroupError::UnknownMemberId));
    assert_eq!(world.leave("", Some("i")), Ok(()));
    assert_eq!(world.state(), "Empty");
}
