use super::*;

#[test]
fn a_first_member_gets_its_id_first_and_leads() {
    let mut world = World::new();
    let refused = world.refused(new_member("c"));
    assert_eq!(refused.error, GroupError::MemberIdRequired);
    assert!(refused.member_id.starts_with("c-"));
    assert_eq!(world.state(), "Empty");
    let joined = world.joined(member("c", &refused.member_id));
    assert_eq!(joined.generation, 1);
    assert_eq!(joined.leader.as_ref(), Some(&refused.member_id));
    assert_eq!(joined.protocol_type.as_deref(), Some("consumer"));
    assert_eq!(joined.protocol.as_deref(), Some("range"));
    assert_eq!(joined.members.len(), 1);
    assert_eq!(joined.members[0].metadata, subscription("t"));
    assert_eq!(world.state(), "CompletingRebalance");
    assert!(world.entries.is_empty(), "nothing lasts before the leader assigns");
}

#[test]
fn what_cannot_be_joined() {
    let mut world = World::new();
    let refuse = |world: &mut World, request: JoinRequest| world.refused(request).error;
    let nowhere = JoinRequest { group: String::new(), ..new_member("c") };
    assert_eq!(refuse(&mut world, nowhere), GroupError::InvalidGroupId);
    for session_timeout_ms in [5_999, 1_800_001, -1] {
        let request = JoinRequest { session_timeout_ms, ..new_member("c") };
        assert_eq!(refuse(&mut world, request), GroupError::InvalidSessionTimeout);
    }
    assert_eq!(refuse(&mut world, member("c", "c-1")), GroupError::UnknownMemberId);
    assert_eq!(world.state(), "Dead", "a member id makes no group");
    for request in [
        JoinRequest { protocols: Vec::new(), ..new_member("c") },
        JoinRequest { protocol_type: String::new(), ..new_member("c") },
    ] {
        assert_eq!(refuse(&mut world, request), GroupError::InconsistentGroupProtocol);
    }
    assert_eq!(world.state(), "Empty", "as in Kafka");
    world.stable(&["a"]);
    for request in [
        JoinRequest { protocols: vec![("sticky".to_owned(), Bytes::new())], ..new_member("b") },
        JoinRequest { protocol_type: "connect".to_owned(), ..new_member("b") },
    ] {
        assert_eq!(refuse(&mut world, request), GroupError::InconsistentGroupProtocol);
    }
    assert_eq!(refuse(&mut world, member("c", "c-1")), GroupError::UnknownMemberId);
    assert_eq!(world.state(), "Stable");
}

#[test]
fn a_member_id_that_was_handed_out_is_a_dynamic_members() {
    let mut world = World::new();
    let id = world.refused(new_member("c")).member_id;
    let request = JoinRequest { instance_id: Some("i".to_owned()), ..member("c", &id) };
    let refused = world.refused(request);
    assert_eq!(refused, JoinRefused { error: GroupError::PendingMemberIsDynamic, member_id: String::new() });
}

#[test]
fn the_initial_delay_waits_for_more_members_but_not_for_ever() {
    let mut world =
        World::with(GroupOptions { initial_rebalance_delay_ms: 3_000, ..GroupOptions::default() });
    let short = |client| JoinRequest { rebalance_timeout_ms: 7_000, ..old_member(client) };
    let first = world.join(short("a"));
    world.pass(2_999);
    let second = world.join(short("b"));
    world.pass(1);
    assert!(world.waits(first), "somebody came");
    // Delays of 3 seconds each, and 4 that may follow the first one: then it is over, whoever comes.
    world.pass(2_999);
    world.join(short("c"));
    world.pass(1);
    assert!(world.waits(first));
    world.join(short("d"));
    world.pass(999);
    assert!(world.waits(second));
    world.pass(1);
    let leader = world.take_joined(first);
    assert_eq!((leader.generation, leader.members.len()), (1, 4));
    assert!(world.take_joined(second).members.is_empty());
}

#[test]
fn the_initial_delay_is_not_extended_when_nobody_comes_nor_in_later_lives_of_the_group() {
    let mut world =
        World::with(GroupOptions { initial_rebalance_delay_ms: 3_000, ..GroupOptions::default() });
    let first = world.join(old_member("a"));
    world.pass(3_000);
    let joined = world.take_joined(first);
    assert_eq!(world.leave(&joined.member_id, None), Ok(()));
    assert_eq!(world.state(), "Empty");
    let next = world.join(old_member("a"));
    world.pass(1_000);
    let other = world.join(old_member("b"));
    world.pass(2_000);
    assert_eq!(world.take_joined(next).generation, 3, "one was the empty one's");
    assert_eq!(world.take_joined(other).generation, 3);
}

#[test]
fn a_new_member_makes_the_others_join_again() {
    let mut world = World::new();
    let members = world.stable(&["a"]);
    let id = world.refused(new_member("b")).member_id;
    assert_eq!(world.state(), "Stable", "an id disturbs nobody");
    let second = world.join(member("b", &id));
    assert_eq!(world.state(), "PreparingRebalance");
    assert_eq!(world.heartbeat(&members[0]), Err(GroupError::RebalanceInProgress));
    let first = world.join(again("a", &members[0]));
    assert_eq!(world.take_joined(first).generation, 2);
    assert_eq!(world.take_joined(second).generation, 2);
}

#[test]
fn a_member_id_that_is_not_used_holds_the_rebalance_up() {
    let mut world = World::new();
    let members = world.stable(&["a", "b"]);
    let id = world.refused(new_member("c")).member_id;
    let leader = world.join(again("a", &members[0]));
    let follower = world.join(again("b", &members[1]));
    assert!(world.waits(leader) && world.waits(follower));
    assert_eq!(world.leave(&id, None), Ok(()));
    assert_eq!(world.take_joined(leader).generation, 2);
    assert_eq!(world.take_joined(follower).generation, 2);
}

#[test]
fn who_joins_again_without_news() {
    let mut world = World::new();
    let members = world.completing(&["a", "b"]);
    let (leader, follower) = if leads(&members[0]) { (0, 1) } else { (1, 0) };
    let clients = ["a", "b"];
    for index in [leader, follower] {
        let repeated = world.joined(again(clients[index], &members[index]));
        assert_eq!(repeated, members[index], "the answer may have been lost");
    }
    world.sync(&members[leader], &[]);
    let repeated = world.joined(again(clients[follower], &members[follower]));
    assert_eq!(repeated, members[follower]);
    assert_eq!(world.state(), "Stable");
    let token = world.join(again(clients[leader], &members[leader]));
    assert!(world.waits(token), "a leader that joins again wants to assign anew");
    assert_eq!(world.state(), "PreparingRebalance");
}

#[test]
fn who_joins_again_with_news() {
    let mut world = World::new();
    let members = world.completing(&["a", "b"]);
    let follower = usize::from(leads(&members[0]));
    let client = ["a", "b"][follower];
    let waiting = world.sync(&members[follower], &[]);
    let news = |topic| JoinRequest {
        protocols: vec![("range".to_owned(), subscription(topic))],
        ..again(client, &members[follower])
    };
    let token = world.join(news("u"));
    assert_eq!(world.state(), "PreparingRebalance");
    assert_eq!(world.take_synced(waiting), Err(GroupError::RebalanceInProgress));
    assert!(world.waits(token));
    let replaced = token;
    world.join(news("v"));
    assert_eq!(world.take_refused(replaced).error, GroupError::RebalanceInProgress, "nobody is forgotten");
}

#[test]
fn the_group_takes_as_many_members_as_it_may_have() {
    let mut world =
        World::with(GroupOptions { max_size: 1, initial_rebalance_delay_ms: 0, ..GroupOptions::default() });
    let late = world.refused(new_member("b")).member_id;
    let id = world.refused(new_member("a")).member_id;
    let first = world.join(member("a", &id));
    assert!(world.waits(first), "there is another member id");
    let full = JoinRefused { error: GroupError::GroupMaxSizeReached, member_id: String::new() };
    assert_eq!(world.refused(member("b", &late)), full);
    let leader = world.take_joined(first);
    assert_eq!(leader.members.len(), 1, "the one that was refused is waited for no more");
    assert_eq!(world.refused(new_member("c")), full);
    world.sync(&leader, &[]);
    assert_eq!(world.refused(old_member("c")), full);
    let again = world.joined(again("a", &leader));
    assert_eq!(again.generation, 2);
}

#[test]
fn members_go_and_the_last_one_leaves_an_empty_group() {
    let mut world = World::new();
    let members = world.stable(&["a", "b"]);
    assert_eq!(world.leave("c-1", None), Err(GroupError::UnknownMemberId));
    assert_eq!(world.leave(&members[0].member_id, None), Ok(()));
    assert_eq!(world.state(), "PreparingRebalance");
    let token = world.join(again("b", &members[1]));
    let alone = world.take_joined(token);
    assert!(leads(&alone));
    let waiting = world.sync(&Joined { leader: None, ..alone.clone() }, &[]);
    assert_eq!(world.assignment(waiting), Bytes::new());
    assert_eq!(world.leave(&alone.member_id, None), Ok(()));
    assert_eq!(world.state(), "Empty");
    let state = world.entries.last().unwrap().state.clone().unwrap();
    assert_eq!((state.generation, state.members.len(), state.protocol), (3, 0, None));
    assert_eq!(world.heartbeat(&alone), Err(GroupError::UnknownMemberId));
}

#[test]
fn one_who_leaves_while_it_waits_is_told() {
    let mut world = World::new();
    let members = world.completing(&["a", "b"]);
    let follower = usize::from(leads(&members[0]));
    let syncing = world.sync(&members[follower], &[]);
    assert_eq!(world.leave(&members[follower].member_id, None), Ok(()));
    assert_eq!(world.take_synced(syncing), Err(GroupError::UnknownMemberId));
    let leader = 1 - follower;
    let id = world.refused(new_member("c")).member_id;
    let joining = world.join(again(["a", "b"][leader], &members[leader]));
    assert!(world.waits(joining));
    assert_eq!(world.leave(&members[leader].member_id, None), Ok(()));
    assert_eq!(world.take_refused(joining).error, GroupError::UnknownMemberId);
    assert_eq!(world.state(), "PreparingRebalance");
    assert_eq!(world.leave(&id, None), Ok(()));
    assert_eq!(world.state(), "Empty");
}

#[test]
fn groups_of_a_slot_are_bounded() {
    let mut world = World::with(GroupOptions { groups_max: 1, ..GroupOptions::default() });
    world.refused(new_member("c"));
    let other = JoinRequest { group: "h".to_owned(), ..new_member("c") };
    assert_eq!(world.refused(other).error, GroupError::TooManyGroups);
    assert_eq!(world.commit(outsider("h"), "t", 1), Err(GroupError::TooManyGroups));
    assert_eq!(world.commit(outsider("g"), "t", 1), Ok(()));
}
