use super::*;

const DAY_MS: u64 = 24 * 60 * 60 * 1_000;
const CHECK_MS: u64 = 600_000;

fn partition(topic: &str) -> StoredPartition {
    StoredPartition::new(topic, 0)
}

#[test]
fn offsets_of_readers_that_are_no_members_age_from_their_commit() {
    let mut world = World::new();
    world.commit(outsider("g"), "t", 1).unwrap();
    world.pass(6 * DAY_MS);
    world.commit(outsider("g"), "u", 1).unwrap();
    world.pass(DAY_MS);
    assert_eq!(world.fetch("t", true), Ok(None));
    assert_eq!(world.fetch("u", true), Ok(Some(1)));
    assert_eq!(world.entries.last().unwrap().removed_offsets.as_deref(), Some(&[partition("t")][..]));
    world.pass(6 * DAY_MS);
    assert_eq!(world.state(), "Dead");
    assert!(world.entries.last().unwrap().removed);
}

#[test]
fn offsets_of_a_group_age_from_when_it_is_empty() {
    let mut world = World::new();
    let members = world.stable(&["a"]);
    world.commit(insider(&members[0]), "t", 1).unwrap();
    for _ in 0..(8 * DAY_MS / 9_000) {
        world.pass(9_000);
        assert_eq!(world.heartbeat(&members[0]), Ok(()));
    }
    assert_eq!(world.fetch("t", true), Ok(Some(1)), "the topic is subscribed to");
    world.pass(6 * DAY_MS);
    assert_eq!((world.state(), world.fetch("t", true)), ("Empty", Ok(Some(1))));
    world.pass(DAY_MS + CHECK_MS);
    assert_eq!(world.state(), "Dead");
}

#[test]
fn topics_that_are_subscribed_to_no_more_age_from_their_commit() {
    let mut world = World::with(GroupOptions {
        initial_rebalance_delay_ms: 0,
        offsets_retention_ms: 20_000,
        offsets_retention_check_interval_ms: 10_000,
        ..GroupOptions::default()
    });
    let members = world.stable(&["a"]);
    world.commit(insider(&members[0]), "t", 1).unwrap();
    world.commit(insider(&members[0]), "u", 1).unwrap();
    for _ in 0..4 {
        world.pass(9_000);
        assert_eq!(world.heartbeat(&members[0]), Ok(()));
    }
    assert_eq!(world.fetch("t", true), Ok(Some(1)));
    assert_eq!(world.fetch("u", true), Ok(None));
}

#[test]
fn members_that_are_no_consumers_keep_all_their_offsets() {
    let mut world = World::with(GroupOptions {
        initial_rebalance_delay_ms: 0,
        offsets_retention_ms: 1,
        offsets_retention_check_interval_ms: 1_000,
        ..GroupOptions::default()
    });
    let request = JoinRequest { protocol_type: "connect".to_owned(), ..old_member("w") };
    let joined = world.joined(request);
    world.sync(&joined, &[]);
    world.commit(insider(&joined), "t", 1).unwrap();
    world.pass(5_000);
    assert_eq!(world.fetch("t", true), Ok(Some(1)));
    world.leave(&joined.member_id, None).unwrap();
    world.pass(1_000);
    assert_eq!(world.state(), "Dead");
}

#[test]
fn a_committer_may_say_how_long_to_keep_its_offset() {
    let mut world = World::new();
    let commit = |world: &mut World, topic, retention_ms, commit_timestamp_ms| {
        let offset = OffsetToCommit { commit_timestamp_ms, ..offset_of(topic, 1) };
        let offsets = vec![offset];
        world.commit_with(CommitRequest { committer: outsider("g"), offsets, retention_ms }).unwrap();
    };
    commit(&mut world, "short", Some(1_000), None);
    let retention_ms = i64::try_from(30 * DAY_MS).unwrap();
    commit(&mut world, "long", Some(retention_ms), None);
    commit(&mut world, "old", None, Some(0));
    commit(&mut world, "plain", None, None);
    world.pass(CHECK_MS);
    assert_eq!(world.fetch("short", true), Ok(None));
    assert_eq!(world.fetch("old", true), Ok(None));
    assert_eq!(world.fetch("plain", true), Ok(Some(1)));
    world.pass(29 * DAY_MS);
    assert_eq!(world.fetch("plain", true), Ok(None));
    assert_eq!(world.fetch("long", true), Ok(Some(1)));
}

#[test]
fn a_deleted_topics_offsets_go_the_pending_ones_too() {
    let mut world = World::new();
    world.commit(outsider("g"), "t", 1).unwrap();
    world.commit(outsider("g"), "u", 1).unwrap();
    world.commit_in(7, "t", 5).unwrap();
    world.forget(|topic, _| topic == "t");
    assert_eq!(world.fetch("t", true), Ok(None));
    world.complete(7, true);
    assert_eq!(world.fetch("t", true), Ok(None));
    assert_eq!(world.fetch("u", true), Ok(Some(1)));
    world.forget(|topic, _| topic == "u");
    assert_eq!(world.state(), "Dead", "no members and no offsets");
    assert!(world.entries.last().unwrap().removed);
}

#[test]
fn a_deleted_topics_offsets_go_and_those_of_the_next_of_its_name_stay() {
    let mut world = World::new();
    let [first, second] = [Uuid::from_u128(1), Uuid::from_u128(2)];
    let offset = |topic_id, offset| OffsetToCommit { topic_id, ..offset_of("t", offset) };
    let commit = |world: &mut World, offset| {
        let (committer, offsets) = (outsider("g"), vec![offset]);
        world.commit_with(CommitRequest { committer, offsets, retention_ms: None }).unwrap();
    };
    world.commit_txn(outsider("g"), 7, 0, offset(first, 5)).unwrap();
    commit(&mut world, offset(second, 9));
    world.forget(|_, id| id == first);
    world.complete(7, true);
    assert_eq!(world.fetch("t", true), Ok(Some(9)));
    // What was committed for the first one when it was there is nothing that the second one is asked about.
    commit(&mut world, offset(first, 5));
    world.forget(|_, id| id == second);
    assert_eq!(world.fetch("t", true), Ok(Some(5)));
    world.forget(|_, id| id == first);
    assert_eq!(world.state(), "Dead");
}

#[test]
fn a_group_with_a_pending_transaction_is_kept() {
    let mut world = World::new();
    world.commit_in(7, "t", 5).unwrap();
    world.pass(30 * DAY_MS);
    assert_eq!(world.fetch("t", true), Err(GroupError::UnstableOffsetCommit));
    world.complete(7, false);
    world.pass(CHECK_MS);
    assert_eq!(world.state(), "Dead");
}

#[test]
fn an_old_offset_that_a_transaction_is_about_to_replace_is_kept() {
    let mut world = World::new();
    world.commit(outsider("g"), "t", 1).unwrap();
    world.commit_in(7, "t", 5).unwrap();
    world.pass(30 * DAY_MS);
    world.complete(7, true);
    assert_eq!(world.fetch("t", true), Ok(Some(5)));
}

#[test]
fn only_empty_groups_are_deleted() {
    let mut world = World::new();
    assert_eq!(world.slot.delete_group("g", &mut world.out), Err(GroupError::GroupIdNotFound));
    let members = world.stable(&["a"]);
    world.commit(insider(&members[0]), "t", 1).unwrap();
    assert_eq!(world.slot.delete_group("g", &mut world.out), Err(GroupError::NonEmptyGroup));
    world.leave(&members[0].member_id, None).unwrap();
    world.commit_in(7, "t", 5).unwrap();
    assert_eq!(world.slot.delete_group("g", &mut world.out), Ok(()));
    world.settle();
    assert_eq!((world.state(), world.fetch("t", true)), ("Dead", Ok(None)));
    assert!(world.entries.last().unwrap().removed);
    assert!(world.slot.verification(7, 0, world.now).is_some(), "its transaction has nothing here any more");
    world.pass(CHECK_MS);
}

#[test]
fn offsets_of_topics_that_nobody_reads_are_deleted() {
    let mut world = World::new();
    let delete = |world: &mut World, topics: &[&str]| {
        let partitions: Vec<_> = topics.iter().map(|topic| partition(topic)).collect();
        let results = world.slot.delete_offsets("g", &partitions, world.now, &mut world.out);
        world.settle();
        results
    };
    assert_eq!(delete(&mut world, &["t"]), Err(GroupError::GroupIdNotFound));
    let members = world.stable(&["a"]);
    for topic in ["t", "u"] {
        world.commit(insider(&members[0]), topic, 1).unwrap();
    }
    let results = delete(&mut world, &["t", "u", "none"]).unwrap();
    assert_eq!(results, [Err(GroupError::GroupSubscribedToTopic), Ok(()), Ok(())]);
    assert_eq!(world.fetch("u", true), Ok(None));
    assert_eq!(world.entries.last().unwrap().removed_offsets.as_deref(), Some(&[partition("u")][..]));
    world.leave(&members[0].member_id, None).unwrap();
    assert_eq!(delete(&mut world, &["t"]).unwrap(), [Ok(())]);
    assert_eq!(world.state(), "Dead");
    let request = JoinRequest { protocol_type: "connect".to_owned(), ..old_member("w") };
    world.joined(request);
    assert_eq!(delete(&mut world, &["t"]), Err(GroupError::NonEmptyGroup));
}

#[test]
fn groups_that_are_loaded_together_are_looked_at_one_by_one() {
    let mut world = World::new();
    for group in 0..100 {
        world.commit(outsider(&format!("g{group}")), "t", 1).unwrap();
    }
    world.restart();
    let first = world.slot.deadline().unwrap();
    assert!(first < world.now.mono + Duration::from_millis(CHECK_MS / 10), "some soon");
    world.pass(CHECK_MS / 2);
    assert!(world.slot.deadline().unwrap() < first + Duration::from_millis(CHECK_MS), "some late");
}
