use super::*;

#[test]
fn a_silent_member_is_removed_and_heartbeats_keep_it() {
    let mut world = World::new();
    let members = world.stable(&["a", "b"]);
    for _ in 0..3 {
        world.pass(9_000);
        assert_eq!(world.heartbeat(&members[0]), Ok(()));
        assert_eq!(world.heartbeat(&members[1]), Ok(()));
    }
    world.pass(9_000);
    assert_eq!(world.heartbeat(&members[0]), Ok(()));
    world.pass(999);
    assert_eq!(world.state(), "Stable");
    world.pass(1);
    assert_eq!(world.state(), "PreparingRebalance");
    assert_eq!(world.heartbeat(&members[1]), Err(GroupError::UnknownMemberId));
    let token = world.join(again("a", &members[0]));
    assert_eq!(world.take_joined(token).generation, 2);
}

#[test]
fn a_commit_is_a_sign_of_life() {
    let mut world = World::new();
    let members = world.stable(&["a"]);
    world.pass(9_000);
    assert_eq!(world.commit(insider(&members[0]), "t", 1), Ok(()));
    world.pass(9_999);
    assert_eq!(world.state(), "Stable");
    world.pass(1);
    assert_eq!(world.state(), "Empty");
}

#[test]
fn a_member_id_is_forgotten() {
    let mut world = World::new();
    let id = world.refused(new_member("a")).member_id;
    world.pass(10_000);
    assert_eq!(world.refused(member("a", &id)).error, GroupError::UnknownMemberId);
}

#[test]
fn those_who_do_not_come_are_gone_when_the_rebalance_is() {
    let mut world = World::new();
    let members = world.stable(&["a", "b"]);
    let leader = usize::from(!leads(&members[0]));
    let joining = world.join(again(["a", "b"][leader], &members[leader]));
    for _ in 0..11 {
        world.pass(5_000);
        let late = world.heartbeat(&members[1 - leader]);
        assert_eq!(late, Err(GroupError::RebalanceInProgress));
    }
    assert!(world.waits(joining));
    world.pass(5_000);
    assert_eq!(world.take_joined(joining).members.len(), 1);
    assert_eq!(world.heartbeat(&members[1 - leader]), Err(GroupError::UnknownMemberId));
}

#[test]
fn the_rebalance_waits_as_long_as_its_most_patient_member() {
    let mut world = World::new();
    let members = world.stable(&["a", "b"]);
    let patient = JoinRequest { rebalance_timeout_ms: 90_000, ..again("a", &members[0]) };
    let patient = if leads(&members[0]) {
        patient
    } else {
        JoinRequest { protocols: vec![("range".to_owned(), subscription("u"))], ..patient }
    };
    let joining = world.join(patient);
    for _ in 0..17 {
        world.pass(5_000);
        assert_eq!(world.heartbeat(&members[1]), Err(GroupError::RebalanceInProgress));
    }
    assert!(world.waits(joining));
    world.pass(5_000);
    world.take_joined(joining);
}

#[test]
fn a_new_member_is_given_up_after_five_minutes() {
    let mut world = World::new();
    let members = world.stable(&["a"]);
    let patient = JoinRequest { rebalance_timeout_ms: 600_000, ..old_member("b") };
    let joining = world.join(patient);
    for _ in 0..59 {
        world.pass(5_000);
        assert_eq!(world.heartbeat(&members[0]), Err(GroupError::RebalanceInProgress));
    }
    assert!(world.waits(joining));
    world.pass(5_000);
    let refused = world.take_refused(joining);
    assert_eq!(refused, JoinRefused { error: GroupError::UnknownMemberId, member_id: String::new() });
}

#[test]
fn members_that_wait_need_no_heartbeats() {
    let mut world = World::new();
    let members = world.stable(&["a", "b"]);
    let leader = usize::from(!leads(&members[0]));
    let joining = world.join(again(["a", "b"][leader], &members[leader]));
    for _ in 0..5 {
        world.pass(9_000);
        assert_eq!(world.heartbeat(&members[1 - leader]), Err(GroupError::RebalanceInProgress));
    }
    assert!(world.waits(joining));
    world.join(again(["a", "b"][1 - leader], &members[1 - leader]));
    let joined = world.take_joined(joining);
    assert_eq!(joined.members.len(), 2);
    world.pass(9_999);
    assert_eq!(world.heartbeat(&joined), Ok(()), "its session began when its wait ended");
}

#[test]
fn a_member_that_never_asks_for_its_assignment_is_removed() {
    let mut world = World::new();
    let members = world.completing(&["a", "b"]);
    let leader = usize::from(!leads(&members[0]));
    let token = world.sync(&members[leader], &[]);
    world.take_synced(token).unwrap();
    assert_eq!(world.state(), "Stable");
    for _ in 0..11 {
        world.pass(5_000);
        assert_eq!(world.heartbeat(&members[leader]), Ok(()));
        assert_eq!(world.heartbeat(&members[1 - leader]), Ok(()));
    }
    world.pass(5_000);
    assert_eq!(world.state(), "PreparingRebalance");
    assert_eq!(world.heartbeat(&members[leader]), Err(GroupError::RebalanceInProgress));
    assert_eq!(world.heartbeat(&members[1 - leader]), Err(GroupError::UnknownMemberId));
}

#[test]
fn a_leader_that_never_assigns_is_removed() {
    let mut world = World::new();
    let members = world.completing(&["a", "b"]);
    let leader = usize::from(!leads(&members[0]));
    let follower = world.sync(&members[1 - leader], &[]);
    for _ in 0..11 {
        world.pass(5_000);
        assert_eq!(world.heartbeat(&members[leader]), Ok(()));
    }
    assert!(world.waits(follower));
    world.pass(5_000);
    assert_eq!(world.take_synced(follower), Err(GroupError::RebalanceInProgress));
    assert_eq!(world.state(), "PreparingRebalance");
}

#[test]
fn a_group_whose_members_never_come_back_ends_empty() {
    let mut world = World::new();
    let mut member = world.joined(static_member("i"));
    world.sync(&member, &[]);
    // Static members that are away are kept until their sessions end, however often the rebalance is tried again.
    let request = JoinRequest { rebalance_timeout_ms: 0, ..static_member("j") };
    let joining = world.join(request);
    world.pass(60_000);
    member.generation = 2;
    assert!(!world.waits(joining));
    world.pass(300_000);
    assert_eq!(world.state(), "Empty");
    world.pass(600_000);
    assert_eq!(world.state(), "Dead", "nothing is left of it");
    assert!(world.entries.last().unwrap().removed);
}

#[test]
fn deadlines_are_found_without_looking_at_all_groups() {
    let mut world = World::new();
    let members = world.stable(&["a"]);
    world.pass(1);
    let before = world.slot.deadline();
    world.pass(4_999);
    assert_eq!(world.heartbeat(&members[0]), Ok(()));
    assert_eq!(world.slot.deadline(), before, "a heartbeat only puts the member off");
    world.pass(5_000);
    assert_eq!(world.state(), "Stable");
    assert!(world.slot.deadline() > before);
}
