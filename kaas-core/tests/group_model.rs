//! Any sequence of calls and ticks on a slot of groups: nobody who waits is forgotten, what lasts is what was written, a generation
//! has one leader, and committed offsets change by commits, deletions and age only.

#![allow(clippy::unwrap_used)]

#[path = "support/histories.rs"]
mod histories;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use bytes::Bytes;
use histories::histories;
use kaas_core::coordinator::{Machine, Now, Outbox};
use kaas_core::group::{
    CommitRequest, Committer, GroupEntry, GroupError, GroupOptions, GroupReply, GroupSlot, GroupState,
    HeartbeatRequest, JoinRequest, Joined, LeaveRequest, LeavingMember, OffsetToCommit, StoredPartition,
    SyncRequest, TxnCommitRequest,
};
use kaas_core::{TxnProof, Uuid};
use proptest::prelude::*;

const GROUPS: [&str; 2] = ["g", "h"];
const TOPICS: [&str; 2] = ["t", "u"];
const INSTANCES: [&str; 2] = ["i", "j"];
const PRODUCERS: i64 = 2;
const RETENTION_MS: i64 = 3_600_000;

/// Numbers choose among what there is by then: known members, groups, topics.
#[derive(Debug, Clone)]
enum Call {
    Join {
        group: usize,
        instance: Option<usize>,
        known: Option<usize>,
        asks_id: bool,
        skips: bool,
        news: u8,
    },
    Sync {
        member: usize,
        assigns: bool,
    },
    Heartbeat {
        member: usize,
    },
    Leave {
        member: usize,
        by_instance: bool,
    },
    Commit {
        group: usize,
        member: Option<usize>,
        topic: usize,
        offset: i64,
    },
    CommitIn {
        group: usize,
        producer: i64,
        topic: usize,
        offset: i64,
    },
    Complete {
        producer: i64,
        committed: bool,
    },
    DeleteGroup {
        group: usize,
    },
    DeleteOffsets {
        group: usize,
        topic: usize,
    },
    DeleteTopic {
        topic: usize,
    },
    Pass {
        ms: u64,
    },
    /// Everyone who was a member, or has a member id, joins.
    Gather {
        group: usize,
    },
    /// All but the leader ask for their assignment.
    Follow {
        group: usize,
    },
    /// The journal is a snapshot perhaps.
    Restart {
        compacted: bool,
    },
}

fn call() -> impl Strategy<Value = Call> {
    let (group, topic, member) = (0..GROUPS.len(), 0..TOPICS.len(), any::<prop::sample::Index>());
    let member = member.prop_map(|index| index.index(1 << 16));
    let join = (
        group.clone(),
        prop::option::weighted(0.3, 0..INSTANCES.len()),
        prop::option::weighted(0.6, member.clone()),
        any::<bool>(),
        any::<bool>(),
        0..3_u8,
    );
    let join = join.prop_map(|(group, instance, known, asks_id, skips, news)| Call::Join {
        group,
        instance,
        known,
        asks_id,
        skips,
        news,
    });
    let commit = (group.clone(), prop::option::of(member.clone()), topic.clone(), 0..100_i64);
    let pending = (group.clone(), 0..PRODUCERS, topic.clone(), 0..100_i64);
    let passing = prop_oneof![8 => 1..3_000_u64, 3 => 3_000..30_000_u64, 1 => 60_000..400_000_u64];
    prop_oneof![
        8 => join,
        6 => (member.clone(), any::<bool>()).prop_map(|(member, assigns)| Call::Sync { member, assigns }),
        2 => member.clone().prop_map(|member| Call::Heartbeat { member }),
        3 => (member, any::<bool>()).prop_map(|(member, by_instance)| Call::Leave { member, by_instance }),
        3 => commit.prop_map(|(group, member, topic, offset)| Call::Commit { group, member, topic, offset }),
        2 => pending.prop_map(|(group, producer, topic, offset)| Call::CommitIn { group, producer, topic, offset }),
        2 => (0..PRODUCERS, any::<bool>()).prop_map(|(producer, committed)| Call::Complete { producer, committed }),
        1 => group.clone().prop_map(|group| Call::DeleteGroup { group }),
        1 => (group, topic.clone()).prop_map(|(group, topic)| Call::DeleteOffsets { group, topic }),
        1 => topic.prop_map(|topic| Call::DeleteTopic { topic }),
        4 => passing.prop_map(|ms| Call::Pass { ms }),
        4 => (0..GROUPS.len()).prop_map(|group| Call::Gather { group }),
        3 => (0..GROUPS.len()).prop_map(|group| Call::Follow { group }),
        1 => any::<bool>().prop_map(|compacted| Call::Restart { compacted }),
    ]
}

/// One that once was a member, or was given a member id.
#[derive(Debug, Clone)]
struct Known {
    group: usize,
    member_id: String,
    instance: Option<usize>,
    generation: i32,
}

struct World {
    slot: GroupSlot<u32>,
    options: GroupOptions,
    now: Now,
    out: Outbox<GroupSlot<u32>>,
    entries: Vec<GroupEntry>,
    calls: u32,
    waiting: HashMap<u32, (usize, Option<usize>)>,
    known: Vec<Known>,
    leaders: HashMap<(usize, i32), String>,
    /// Committed offsets, and the number of the commit.
    committed: BTreeMap<(usize, usize), (i64, u32)>,
    pending: BTreeMap<(i64, usize, usize), (i64, u32)>,
}

impl World {
    fn new(initial_rebalance_delay_ms: i32, max_size: usize) -> Self {
        let options = GroupOptions {
            initial_rebalance_delay_ms,
            max_size,
            offsets_retention_ms: RETENTION_MS,
            offsets_retention_check_interval_ms: 100_000,
            ..GroupOptions::default()
        };
        Self {
            slot: GroupSlot::new(options),
            options,
            now: Now { wall_ms: 1_700_000_000_000, mono: Duration::ZERO },
            out: Outbox::default(),
            entries: Vec::new(),
            calls: 0,
            waiting: HashMap::new(),
            known: Vec::new(),
            leaders: HashMap::new(),
            committed: BTreeMap::new(),
            pending: BTreeMap::new(),
        }
    }

    fn pick(&self, member: usize) -> Option<Known> {
        (!self.known.is_empty()).then(|| self.known[member % self.known.len()].clone())
    }

    fn apply(&mut self, call: Call) {
        self.calls += 1;
        match call {
            Call::Join { group, instance, known, asks_id, skips, news } => {
                let known = known.and_then(|member| self.pick(member));
                let (group, instance) =
                    known.as_ref().map_or((group, instance), |known| (known.group, known.instance));
                let request = JoinRequest {
                    group: GROUPS[group].to_owned(),
                    member_id: known.map(|known| known.member_id).unwrap_or_default(),
                    instance_id: instance.map(|instance| INSTANCES[instance].to_owned()),
                    client_id: "c".to_owned(),
                    client_host: String::new(),
                    rebalance_timeout_ms: 20_000,
                    session_timeout_ms: 10_000,
                    protocol_type: "consumer".to_owned(),
                    protocols: vec![("range".to_owned(), subscription(news))],
                    requires_known_member_id: asks_id && instance.is_none(),
                    supports_skip_assignment: skips,
                    uuid: Uuid::from_u128(self.calls.into()),
                };
                self.waiting.insert(self.calls, (group, instance));
                self.slot.join(request, self.calls, self.now, &mut self.out);
            }
            Call::Sync { member, assigns } => {
                let Some(known) = self.pick(member) else { return };
                let assignments = if assigns {
                    vec![(known.member_id.clone(), Bytes::from_static(b"x"))]
                } else {
                    Vec::new()
                };
                let request = SyncRequest {
                    group: GROUPS[known.group].to_owned(),
                    member_id: known.member_id,
                    instance_id: known.instance.map(|instance| INSTANCES[instance].to_owned()),
                    generation: known.generation,
                    protocol_type: None,
                    protocol: None,
                    assignments,
                };
                self.waiting.insert(self.calls, (known.group, known.instance));
                self.slot.sync(request, self.calls, self.now, &mut self.out);
            }
            Call::Heartbeat { member } => {
                let Some(known) = self.pick(member) else { return };
                let request = HeartbeatRequest {
                    group: GROUPS[known.group].to_owned(),
                    member_id: known.member_id,
                    instance_id: None,
                    generation: known.generation,
                };
                let _ = self.slot.heartbeat(&request, self.now);
            }
            Call::Leave { member, by_instance } => {
                let Some(known) = self.pick(member) else { return };
                let leaving = LeavingMember {
                    member_id: if by_instance { String::new() } else { known.member_id },
                    instance_id: known.instance.map(|instance| INSTANCES[instance].to_owned()),
                };
                let request = LeaveRequest { group: GROUPS[known.group].to_owned(), members: vec![leaving] };
                self.slot.leave(&request, self.now, &mut self.out).unwrap();
            }
            Call::Commit { group, member, topic, offset } => self.commit(group, member, topic, offset),
            Call::CommitIn { group, producer, topic, offset } => {
                let proof = match self.slot.verification(producer, 0, self.now) {
                    Some(guard) => TxnProof::Verified(guard),
                    None => TxnProof::None,
                };
                let request = TxnCommitRequest {
                    committer: outsider(group),
                    offsets: vec![offset_of(topic, offset)],
                    producer_id: producer,
                    producer_epoch: 0,
                    proof,
                };
                if self.slot.commit_transactional(request, self.now, &mut self.out).is_ok() {
                    self.pending.insert((producer, group, topic), (offset, self.calls));
                }
            }
            Call::Complete { producer, committed } => {
                self.slot.complete_transaction(producer, 0, committed, &mut self.out).unwrap();
                let decided: Vec<_> = self
                    .pending
                    .iter()
                    .filter(|(key, _)| key.0 == producer)
                    .map(|(&key, &pending)| (key, pending))
                    .collect();
                self.pending.retain(|key, _| key.0 != producer);
                for ((_, group, topic), pending) in decided.into_iter().filter(|_| committed) {
                    let current = self.committed.entry((group, topic)).or_insert(pending);
                    if current.1 < pending.1 {
                        *current = pending;
                    }
                }
            }
            Call::DeleteGroup { group } => {
                if self.slot.delete_group(GROUPS[group], &mut self.out).is_ok() {
                    self.committed.retain(|key, _| key.0 != group);
                    self.pending.retain(|key, _| key.1 != group);
                }
            }
            Call::DeleteOffsets { group, topic } => {
                let partition =
                    StoredPartition { topic: TOPICS[topic].to_owned(), topic_id: None, partition: 0 };
                let results = self.slot.delete_offsets(GROUPS[group], &[partition], self.now, &mut self.out);
                if results.is_ok_and(|results| results[0].is_ok()) {
                    self.committed.remove(&(group, topic));
                    self.pending.retain(|key, _| (key.1, key.2) != (group, topic));
                }
            }
            Call::DeleteTopic { topic } => {
                self.slot.forget_topics(&|name, _| name == TOPICS[topic], self.now, &mut self.out);
                self.committed.retain(|key, _| key.1 != topic);
                self.pending.retain(|key, _| key.2 != topic);
            }
            Call::Pass { ms } => self.pass(ms),
            Call::Gather { group } => {
                let known: Vec<usize> =
                    (0..self.known.len()).filter(|&at| self.known[at].group == group).collect();
                // Twice: followers that come before the leader are told that nothing has changed.
                for &member in known.iter().chain(&known) {
                    let known = Some(member);
                    self.apply(Call::Join {
                        group,
                        instance: None,
                        known,
                        asks_id: false,
                        skips: false,
                        news: 0,
                    });
                }
            }
            Call::Follow { group } => {
                for member in 0..self.known.len() {
                    let Known { group: own, ref member_id, generation, .. } = self.known[member];
                    if own == group && self.leaders.get(&(group, generation)) != Some(member_id) {
                        self.apply(Call::Sync { member, assigns: false });
                    }
                }
            }
            Call::Restart { compacted } => {
                if compacted {
                    self.entries = self.slot.snapshot();
                }
                self.slot = replayed(self.options, &self.entries);
                self.waiting.clear();
                self.leaders.clear();
                self.slot.loaded(self.now, &mut self.out);
            }
        }
    }

    fn commit(&mut self, group: usize, member: Option<usize>, topic: usize, offset: i64) {
        let known = member.and_then(|member| self.pick(member));
        let group = known.as_ref().map_or(group, |known| known.group);
        let committer = known.map_or(outsider(group), |known| Committer {
            member_id: known.member_id,
            generation: known.generation,
            ..outsider(group)
        });
        let request =
            CommitRequest { committer, offsets: vec![offset_of(topic, offset)], retention_ms: None };
        if self.slot.commit(request, self.now, &mut self.out).is_ok() {
            self.committed.insert((group, topic), (offset, self.calls));
        }
    }

    fn pass(&mut self, ms: u64) {
        self.now.wall_ms += i64::try_from(ms).unwrap();
        self.now.mono += Duration::from_millis(ms);
        self.slot.tick(self.now, &mut self.out);
        assert!(self.slot.deadline().is_none_or(|at| at > self.now.mono), "a tick leaves nothing due");
    }

    fn check(&mut self) {
        self.take_replies();
        self.entries.append(&mut self.out.entries);
        self.check_durability();
        self.check_members();
        self.check_offsets();
    }

    fn take_replies(&mut self) {
        for (token, reply) in self.out.replies.drain(..) {
            let (group, instance) = self.waiting.remove(&token).expect("answered twice, or never asked");
            let (member_id, generation) = match reply {
                GroupReply::Join(Ok(joined)) => {
                    check_joined(&joined);
                    if joined.leader.as_ref() == Some(&joined.member_id) && !joined.skip_assignment {
                        let leader = self.leaders.entry((group, joined.generation));
                        let leader = leader.or_insert_with(|| joined.member_id.clone());
                        assert_eq!(leader, &joined.member_id, "two leaders of a generation");
                    }
                    (joined.member_id, joined.generation)
                }
                GroupReply::Join(Err(refused)) if refused.error == GroupError::MemberIdRequired => {
                    (refused.member_id, -1)
                }
                GroupReply::Join(Err(_)) | GroupReply::Sync(_) => continue,
            };
            if !member_id.is_empty() {
                self.known.retain(|known| known.member_id != member_id);
                self.known.push(Known { group, member_id, instance, generation });
            }
        }
        // Whoever comes next counts generations from the beginning.
        self.leaders.retain(|(group, _), _| self.slot.describe(GROUPS[*group]).is_some());
        if self.known.len() > 6 {
            self.known.remove(0);
        }
    }

    fn check_durability(&self) {
        let live = sorted(self.slot.snapshot());
        assert_eq!(sorted(replayed(self.options, &self.entries).snapshot()), live, "all entries");
        assert_eq!(sorted(replayed(self.options, &live).snapshot()), live, "the snapshot");
    }

    fn check_members(&self) {
        for group in GROUPS {
            let Some(described) = self.slot.describe(group) else { continue };
            let members = &described.members;
            if described.state == GroupState::Stable {
                let stored = self
                    .slot
                    .snapshot()
                    .into_iter()
                    .find_map(|entry| entry.state.filter(|_| entry.group == group));
                let stored = stored.expect("a stable group lasts").members;
                let told = members.iter().map(|member| (&member.member_id, &member.assignment));
                assert!(told.eq(stored.iter().map(|member| (&member.member_id, &member.assignment))));
            }
            let ids: HashSet<_> = members.iter().map(|member| &member.member_id).collect();
            let instances: Vec<_> = members.iter().filter_map(|member| member.instance_id.as_ref()).collect();
            assert_eq!(ids.len(), members.len());
            assert_eq!(instances.iter().collect::<HashSet<_>>().len(), instances.len());
            assert_eq!(
                described.state.name() == "Empty",
                members.is_empty() && described.state.name() != "PreparingRebalance"
            );
        }
    }

    fn check_offsets(&mut self) {
        for (group, name) in GROUPS.iter().enumerate() {
            for (topic, topic_name) in TOPICS.iter().enumerate() {
                let topics = [((*topic_name).to_owned(), vec![0])];
                let fetched = self.slot.fetch_offsets(name, Some(&topics), false);
                let found = fetched[0].1[0].1.clone().unwrap();
                let expected = self.committed.get(&(group, topic)).map(|committed| committed.0);
                if found.is_none() && self.now.wall_ms - 1_700_000_000_000 >= RETENTION_MS {
                    // It may have been too old.
                    self.committed.remove(&(group, topic));
                    continue;
                }
                assert_eq!(found.map(|found| found.offset), expected, "{name} {topic_name}");
                let stable = self.slot.fetch_offsets(name, Some(&topics), true)[0].1[0].1.is_ok();
                let pending = self.pending.keys().any(|key| (key.1, key.2) == (group, topic));
                assert_eq!(stable, !pending);
            }
        }
    }
}

fn check_joined(joined: &Joined) {
    let leads = joined.leader.as_ref() == Some(&joined.member_id);
    assert_eq!(leads, !joined.members.is_empty(), "the leader, and nobody else, is told who there is");
    assert!(!joined.skip_assignment || leads);
}

fn replayed(options: GroupOptions, entries: &[GroupEntry]) -> GroupSlot<u32> {
    let mut slot = GroupSlot::new(options);
    entries.iter().for_each(|entry| slot.replay(entry.clone()));
    slot
}

/// Groups are in no order; what is said about one is.
fn sorted(mut entries: Vec<GroupEntry>) -> Vec<GroupEntry> {
    entries.sort_by(|one, other| one.group.cmp(&other.group));
    entries
}

fn subscription(news: u8) -> Bytes {
    let topic = TOPICS[usize::from(news) % TOPICS.len()].as_bytes();
    Bytes::from([b"\0\0\0\0\0\x01\0\x01", topic, b"\xff\xff\xff\xff", &[news]].concat())
}

fn outsider(group: usize) -> Committer {
    Committer { group: GROUPS[group].to_owned(), member_id: String::new(), instance_id: None, generation: -1 }
}

fn offset_of(topic: usize, offset: i64) -> OffsetToCommit {
    OffsetToCommit {
        topic: TOPICS[topic].to_owned(),
        topic_id: Uuid::nil(),
        partition: 0,
        offset,
        leader_epoch: None,
        metadata: String::new(),
        commit_timestamp_ms: None,
    }
}

proptest! {
    #![proptest_config(histories(400))]

    #[test]
    fn any_sequence_of_calls(
        calls in prop::collection::vec(call(), 1..120),
        initial_delay_ms in prop_oneof![Just(0), Just(3_000)],
        max_size in prop_oneof![Just(2_usize), Just(100)],
    ) {
        let mut world = World::new(initial_delay_ms, max_size);
        for call in calls {
            world.apply(call);
            world.check();
        }
        // Nobody calls any more: everyone's time comes.
        for _ in 0..200 {
            world.apply(Call::Pass { ms: 10_000 });
            world.check();
        }
        prop_assert!(world.waiting.is_empty(), "forgotten: {:?}", world.waiting);
        for group in GROUPS {
            let state = world.slot.describe(group).map(|group| group.state.name());
            prop_assert!(matches!(state, None | Some("Empty")), "{:?}", state);
        }
    }
}
