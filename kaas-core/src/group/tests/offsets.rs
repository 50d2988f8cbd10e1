use super::*;

#[test]
fn anyone_may_commit_for_a_group_without_members() {
    let mut world = World::new();
    assert_eq!(world.fetch("t", true), Ok(None));
    assert_eq!(
        world.commit(Committer { generation: 0, ..outsider("g") }, "t", 1),
        Err(GroupError::IllegalGeneration)
    );
    assert_eq!(world.state(), "Dead");
    assert_eq!(world.commit(outsider("g"), "t", 1), Ok(()));
    assert_eq!(world.state(), "Empty");
    assert_eq!(world.slot.describe("g").unwrap().protocol_type, "");
    assert_eq!(world.fetch("t", true), Ok(Some(1)));
    assert_eq!(world.fetch("u", true), Ok(None));
    assert_eq!(world.commit(outsider("g"), "t", 0), Ok(()), "back is a direction");
    assert_eq!(world.fetch("t", true), Ok(Some(0)));
    assert_eq!(world.commit(outsider(""), "t", 1), Ok(()), "the empty group is one");
    let stranger = Committer { generation: 1, member_id: "c-1".to_owned(), ..outsider("g") };
    assert_eq!(world.commit(stranger, "t", 1), Err(GroupError::UnknownMemberId));
}

#[test]
fn only_members_commit_for_a_group_that_has_some() {
    let mut world = World::new();
    let members = world.stable(&["a"]);
    let own = insider(&members[0]);
    assert_eq!(world.commit(outsider("g"), "t", 1), Err(GroupError::UnknownMemberId));
    assert_eq!(
        world.commit(Committer { generation: 0, ..own.clone() }, "t", 1),
        Err(GroupError::IllegalGeneration)
    );
    assert_eq!(
        world.commit(Committer { generation: -1, ..own.clone() }, "t", 1),
        Err(GroupError::IllegalGeneration)
    );
    let stranger = Committer { member_id: "c-1".to_owned(), ..own.clone() };
    assert_eq!(world.commit(stranger, "t", 1), Err(GroupError::UnknownMemberId));
    assert_eq!(world.commit(own.clone(), "t", 1), Ok(()));
    let other = world.join(old_member("b"));
    assert_eq!(world.state(), "PreparingRebalance");
    assert_eq!(world.commit(own.clone(), "t", 2), Ok(()), "before it joins again");
    let joining = world.join(again("a", &members[0]));
    let (joined, _) = (world.take_joined(joining), world.take_joined(other));
    assert_eq!(world.commit(own, "t", 3), Err(GroupError::IllegalGeneration));
    assert_eq!(world.commit(insider(&joined), "t", 3), Err(GroupError::RebalanceInProgress));
    assert_eq!(world.fetch("t", true), Ok(Some(2)));
}

#[test]
fn metadata_is_bounded_in_javas_characters() {
    let mut world = World::with(GroupOptions { offset_metadata_max: 2, ..GroupOptions::default() });
    let mut commit = |metadata: &str| {
        let offset = OffsetToCommit { metadata: metadata.to_owned(), ..offset_of("t", 1) };
        world.commit_with(CommitRequest {
            committer: outsider("g"),
            offsets: vec![offset],
            retention_ms: None,
        })
    };
    assert_eq!(commit("ab"), Ok(()));
    assert_eq!(commit("\u{20ac}\u{20ac}"), Ok(()));
    assert_eq!(commit("\u{1f600}"), Ok(()));
    assert_eq!(commit("abc"), Err(GroupError::OffsetMetadataTooLarge));
    assert_eq!(commit("\u{1f600}a"), Err(GroupError::OffsetMetadataTooLarge));
    assert_eq!(world.entries.len(), 3, "what is refused is not written");
}

#[test]
fn offsets_of_a_transaction_wait_for_it() {
    let mut world = World::new();
    world.commit(outsider("g"), "t", 1).unwrap();
    assert_eq!(world.commit_in(7, "t", 5), Ok(()));
    assert_eq!(world.fetch("t", true), Err(GroupError::UnstableOffsetCommit));
    assert_eq!(world.fetch("t", false), Ok(Some(1)));
    assert_eq!(world.slot.fetch_offsets("g", None, true)[0].1[0].1, Err(GroupError::UnstableOffsetCommit));
    world.complete(7, false);
    assert_eq!(world.fetch("t", true), Ok(Some(1)));
    assert_eq!(world.commit_in(7, "t", 6), Ok(()));
    world.complete(8, true);
    assert_eq!(world.fetch("t", false), Ok(Some(1)), "another producer's");
    world.complete(7, true);
    assert_eq!(world.fetch("t", true), Ok(Some(6)));
    assert_eq!(world.commit_in(7, "u", 1), Ok(()));
    assert_eq!(world.slot.fetch_offsets("g", None, true).len(), 1, "what is only pending is not listed");
}

#[test]
fn what_was_committed_later_wins() {
    let mut world = World::new();
    world.commit_in(7, "t", 5).unwrap();
    world.commit(outsider("g"), "t", 9).unwrap();
    world.commit_in(8, "t", 7).unwrap();
    world.complete(8, true);
    assert_eq!(world.fetch("t", true), Err(GroupError::UnstableOffsetCommit));
    world.complete(7, true);
    assert_eq!(world.fetch("t", true), Ok(Some(7)));
}

#[test]
fn producers_before_kip_447_do_not_say_who_they_are() {
    let mut world = World::new();
    let members = world.stable(&["a"]);
    assert_eq!(world.commit_in(7, "t", 5), Ok(()));
    let own = insider(&members[0]);
    assert_eq!(world.commit_txn(own.clone(), 7, 0, offset_of("t", 6)), Ok(()));
    let zombie = Committer { generation: 0, ..own.clone() };
    assert_eq!(world.commit_txn(zombie, 7, 0, offset_of("t", 6)), Err(GroupError::IllegalGeneration));
    let stranger = Committer { member_id: "c-1".to_owned(), ..own };
    assert_eq!(world.commit_txn(stranger, 7, 0, offset_of("t", 6)), Err(GroupError::UnknownMemberId));
    assert_eq!(world.commit_txn(outsider(""), 7, 0, offset_of("t", 6)), Err(GroupError::InvalidGroupId));
}

#[test]
fn a_commit_behind_its_transactions_end_is_refused() {
    let mut world = World::new();
    let commit = |world: &mut World, proof| {
        let (committer, offsets) = (outsider("g"), vec![offset_of("t", 1)]);
        let request = TxnCommitRequest { committer, offsets, producer_id: 7, producer_epoch: 0, proof };
        world.slot.commit_transactional(request, world.now, &mut world.out)
    };
    assert_eq!(commit(&mut world, TxnProof::None), Err(GroupError::InvalidTxnState));
    let guard = world.slot.verification(7, 0, world.now).unwrap();
    world.complete(7, false);
    assert_eq!(commit(&mut world, TxnProof::Verified(guard)), Err(GroupError::InvalidTxnState));
    let guard = world.slot.verification(7, 0, world.now).unwrap();
    assert_eq!(commit(&mut world, TxnProof::Verified(guard)), Ok(vec![Ok(())]));
    assert_eq!(world.slot.verification(7, 0, world.now), None, "it is open here");
    assert_eq!(commit(&mut world, TxnProof::None), Ok(vec![Ok(())]));
    assert_eq!(commit(&mut world, TxnProof::NotRequired), Ok(vec![Ok(())]));
}

#[test]
fn an_older_producer_epoch_is_fenced() {
    let mut world = World::new();
    world.commit_txn(outsider("g"), 7, 2, offset_of("t", 5)).unwrap();
    assert_eq!(
        world.commit_txn(outsider("g"), 7, 1, offset_of("t", 6)),
        Err(GroupError::InvalidProducerEpoch)
    );
    let old = world.slot.complete_transaction(7, 1, true, &mut world.out);
    assert_eq!(old, Err(GroupError::InvalidProducerEpoch));
    assert_eq!(world.slot.complete_transaction(7, 3, true, &mut world.out), Ok(()));
    assert_eq!(world.fetch("t", true), Ok(Some(5)));
}
