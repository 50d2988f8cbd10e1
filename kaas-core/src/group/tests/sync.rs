use super::*;

#[test]
fn followers_wait_for_the_leader_and_those_left_out_get_nothing() {
    let mut world = World::new();
    let members = world.completing(&["a", "b"]);
    let leader = usize::from(!leads(&members[0]));
    let (leader, follower) = (&members[leader], &members[1 - leader]);
    let waiting = world.sync(follower, &[]);
    assert!(world.waits(waiting));
    assert_eq!(world.heartbeat(follower), Ok(()), "consumers send heartbeats by now");
    let own = world.sync(leader, &[(&leader.member_id, "all"), ("nobody", "x")]);
    assert_eq!(world.state(), "Stable");
    let synced = world.take_synced(own).unwrap();
    assert_eq!(synced.assignment, "all");
    assert_eq!(synced.protocol_type.as_deref(), Some("consumer"));
    assert_eq!(synced.protocol.as_deref(), Some("range"));
    assert_eq!(world.assignment(waiting), Bytes::new());
    let later = world.sync(leader, &[(&leader.member_id, "other")]);
    assert_eq!(world.assignment(later), "all", "a stable group has its assignment");
    let stored = world.entries.last().unwrap().state.clone().unwrap();
    assert_eq!((world.entries.len(), stored.generation), (1, 1));
    assert_eq!(stored.leader.as_ref(), Some(&leader.member_id));
    let stored = stored.members.iter().find(|stored| stored.member_id == leader.member_id).unwrap();
    assert_eq!((&stored.assignment[..], &stored.subscription), (&b"all"[..], &subscription("t")));
}

#[test]
fn who_may_not_sync() {
    let mut world = World::new();
    let refused = |world: &mut World, request: SyncRequest| {
        let token = world.sync_with(request);
        world.take_synced(token).unwrap_err()
    };
    let stranger = Joined {
        member_id: "c-1".to_owned(),
        generation: 1,
        protocol_type: None,
        protocol: None,
        leader: None,
        skip_assignment: false,
        members: Vec::new(),
    };
    let request = sync_request(&stranger, &[]);
    assert_eq!(refused(&mut world, request.clone()), GroupError::UnknownMemberId);
    let nowhere = SyncRequest { group: String::new(), ..request.clone() };
    assert_eq!(refused(&mut world, nowhere), GroupError::InvalidGroupId);
    let members = world.completing(&["a"]);
    assert_eq!(refused(&mut world, request), GroupError::UnknownMemberId);
    let request = sync_request(&members[0], &[]);
    let old = SyncRequest { generation: 0, ..request.clone() };
    assert_eq!(refused(&mut world, old), GroupError::IllegalGeneration);
    for (protocol_type, protocol) in [("connect", "range"), ("consumer", "sticky")] {
        let (protocol_type, protocol) = (Some(protocol_type.to_owned()), Some(protocol.to_owned()));
        let other = SyncRequest { protocol_type, protocol, ..request.clone() };
        assert_eq!(refused(&mut world, other), GroupError::InconsistentGroupProtocol);
    }
    let id = world.refused(new_member("b")).member_id;
    world.join(member("b", &id));
    assert_eq!(world.state(), "PreparingRebalance");
    assert_eq!(refused(&mut world, request), GroupError::RebalanceInProgress);
}

#[test]
fn a_second_sync_of_a_member_takes_the_firsts_place() {
    let mut world = World::new();
    let members = world.completing(&["a", "b"]);
    let follower = usize::from(leads(&members[0]));
    let first = world.sync(&members[follower], &[]);
    let second = world.sync(&members[follower], &[]);
    assert_eq!(world.take_synced(first), Err(GroupError::RebalanceInProgress));
    world.sync(&members[1 - follower], &[]);
    assert_eq!(world.assignment(second), Bytes::new());
}

#[test]
fn heartbeats_are_checked() {
    let mut world = World::new();
    assert_eq!(world.heartbeat_as("c-1", None, 1), Err(GroupError::UnknownMemberId));
    let members = world.stable(&["a"]);
    let id = &members[0].member_id;
    assert_eq!(world.heartbeat(&members[0]), Ok(()));
    assert_eq!(world.heartbeat_as(id, None, 0), Err(GroupError::IllegalGeneration));
    assert_eq!(world.heartbeat_as(id, None, 2), Err(GroupError::IllegalGeneration));
    assert_eq!(world.heartbeat_as("c-1", None, 1), Err(GroupError::UnknownMemberId));
    assert_eq!(world.heartbeat_as(id, Some("i"), 1), Err(GroupError::UnknownMemberId));
}

#[test]
fn tools_see_members_whole_when_the_group_is_stable() {
    let mut world = World::new();
    assert!(world.slot.describe("g").is_none());
    let members = world.stable(&["a"]);
    let described = world.slot.describe("g").unwrap();
    assert_eq!((described.state, described.protocol.as_str()), (GroupState::Stable, "range"));
    assert_eq!(described.protocol_type, "consumer");
    let one = DescribedMember {
        member_id: members[0].member_id.clone(),
        instance_id: None,
        client_id: "a".to_owned(),
        client_host: "/127.0.0.1".to_owned(),
        metadata: subscription("t"),
        assignment: Bytes::from_static(b"a"),
    };
    assert_eq!(described.members, std::slice::from_ref(&one));
    world.join(again("a", &members[0]));
    let described = world.slot.describe("g").unwrap();
    assert_eq!((described.state, described.protocol.as_str()), (GroupState::CompletingRebalance, ""));
    assert_eq!(
        described.members,
        [DescribedMember { metadata: Bytes::new(), assignment: Bytes::new(), ..one }]
    );
    let listed: Vec<ListedGroup> = world.slot.list().collect();
    let expected = ListedGroup {
        group: "g".to_owned(),
        protocol_type: "consumer".to_owned(),
        state: GroupState::CompletingRebalance,
    };
    assert_eq!(listed, [expected]);
}
