//! The offsets of one group: committed ones, and those that wait for a transaction.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use uuid::Uuid;

use super::entry::{GroupEntry, PendingIn, StoredOffset, StoredPartition};

/// Something by topic and partition.
#[derive(Debug, Clone)]
pub(super) struct ByPartition<V>(BTreeMap<String, BTreeMap<i32, V>>);

impl<V> Default for ByPartition<V> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<V> ByPartition<V> {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn get(&self, topic: &str, partition: i32) -> Option<&V> {
        self.0.get(topic)?.get(&partition)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, i32, &V)> {
        self.0.iter().flat_map(|(topic, partitions)| {
            partitions.iter().map(move |(&partition, value)| (topic.as_str(), partition, value))
        })
    }

    pub(super) fn topics(&self) -> impl Iterator<Item = (&str, &BTreeMap<i32, V>)> {
        self.0.iter().map(|(topic, partitions)| (topic.as_str(), partitions))
    }

    fn insert(&mut self, topic: String, partition: i32, value: V) {
        self.0.entry(topic).or_default().insert(partition, value);
    }

    /// Removes what is at a place, if `goes` says so of it. True if it was there.
    fn remove_if(&mut self, topic: &str, partition: i32, goes: impl FnOnce(&V) -> bool) -> bool {
        let Some(partitions) = self.0.get_mut(topic) else { return false };
        if !partitions.get(&partition).is_some_and(goes) {
            return false;
        }
        partitions.remove(&partition);
        if partitions.is_empty() {
            self.0.remove(topic);
        }
        true
    }
}

/// One offset, as it was committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommittedOffset {
    /// The topic's identity: to another topic of that name the offset means nothing.
    pub topic_id: Uuid,
    /// The next record to read.
    pub offset: i64,
    /// The leader epoch of the last record that was read.
    pub leader_epoch: Option<i32>,
    /// Whatever the committer wants to remember.
    pub metadata: String,
    /// Milliseconds since the epoch.
    pub commit_timestamp_ms: i64,
    /// Until when to keep it, if the committer said so.
    pub expire_timestamp_ms: Option<i64>,
}

#[derive(Debug, Clone)]
struct Commit {
    /// Counts the calls that committed: a transaction's offset that is older than a committed one does not replace it.
    order: u64,
    committed: CommittedOffset,
}

#[derive(Debug, Clone)]
struct Pending {
    producer_epoch: i16,
    offsets: ByPartition<Commit>,
}

/// The offsets of one group.
#[derive(Debug, Default)]
pub(super) struct Offsets {
    committed: ByPartition<Commit>,
    pending: HashMap<i64, Pending>,
    order: u64,
}

impl Offsets {
    pub(super) fn is_empty(&self) -> bool {
        self.committed.is_empty() && self.pending.is_empty()
    }

    pub(super) fn committed(&self, topic: &str, partition: i32) -> Option<&CommittedOffset> {
        self.committed.get(topic, partition).map(|commit| &commit.committed)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (&str, i32, &CommittedOffset)> {
        self.committed.iter().map(|(topic, partition, commit)| (topic, partition, &commit.committed))
    }

    pub(super) fn topics(&self) -> impl Iterator<Item = (&str, impl Iterator<Item = i32>)> {
        self.committed.topics().map(|(topic, partitions)| (topic, partitions.keys().copied()))
    }

    /// Whether a transaction that is not decided commits this offset.
    pub(super) fn is_pending(&self, topic: &str, partition: i32) -> bool {
        self.pending.values().any(|pending| pending.offsets.get(topic, partition).is_some())
    }

    pub(super) fn producer_epoch(&self, producer_id: i64) -> Option<i16> {
        self.pending.get(&producer_id).map(|pending| pending.producer_epoch)
    }

    pub(super) fn producers(&self) -> impl Iterator<Item = i64> {
        self.pending.keys().copied()
    }

    pub(super) fn commit(&mut self, offsets: Vec<StoredOffset>, pending_in: Option<PendingIn>) {
        self.order += 1;
        let order = self.order;
        let target = match pending_in {
            None => &mut self.committed,
            Some(PendingIn { producer_id, producer_epoch }) if !offsets.is_empty() => {
                let pending = self
                    .pending
                    .entry(producer_id)
                    .or_insert_with(|| Pending { producer_epoch, offsets: ByPartition::default() });
                pending.producer_epoch = producer_epoch;
                &mut pending.offsets
            }
            Some(_) => return,
        };
        for stored in offsets {
            let (topic, partition, committed) = stored.parts();
            target.insert(topic, partition, Commit { order, committed });
        }
    }

    /// What was pending becomes committed, or nothing. False if nothing was.
    pub(super) fn decide(&mut self, producer_id: i64, committed: bool) -> bool {
        let Some(pending) = self.pending.remove(&producer_id) else { return false };
        if committed {
            for (topic, partition, commit) in pending.offsets.iter() {
                if self.committed.get(topic, partition).is_none_or(|current| current.order < commit.order) {
                    self.committed.insert(topic.to_owned(), partition, commit.clone());
                }
            }
        }
        true
    }

    /// Removes committed and pending offsets. True if there were any.
    pub(super) fn remove(&mut self, gone: &StoredPartition) -> bool {
        let StoredPartition { topic, topic_id, partition } = gone;
        let goes = |commit: &Commit| topic_id.is_none_or(|id| id == commit.committed.topic_id);
        let mut removed = self.committed.remove_if(topic, *partition, goes);
        self.pending.retain(|_, pending| {
            removed |= pending.offsets.remove_if(topic, *partition, goes);
            !pending.offsets.is_empty()
        });
        removed
    }

    /// The partitions that have offsets, committed or pending, of topics that are `gone`.
    pub(super) fn of_topics(&self, gone: &dyn Fn(&str, Uuid) -> bool) -> Vec<StoredPartition> {
        let pending = self.pending.values().map(|pending| &pending.offsets);
        let all = pending.chain([&self.committed]).flat_map(ByPartition::iter);
        let found: BTreeSet<StoredPartition> = all
            .map(|(topic, partition, commit)| (topic, partition, commit.committed.topic_id))
            .filter(|(topic, _, id)| gone(topic, *id))
            .map(|(topic, partition, id)| StoredPartition {
                topic_id: Some(id),
                ..StoredPartition::new(topic, partition)
            })
            .collect();
        found.into_iter().collect()
    }

    /// Entries that make the same offsets in an empty group.
    ///
    /// A pending offset is written before the committed one if it is older, for then it will not replace it: what counts of the
    /// order of commits is kept, and nothing else.
    pub(super) fn snapshot(&self, group: &str, entries: &mut Vec<GroupEntry>) {
        let mut before: BTreeMap<(u64, i64), Vec<StoredOffset>> = BTreeMap::new();
        let mut after = before.clone();
        for (&producer_id, pending) in &self.pending {
            for (topic, partition, commit) in pending.offsets.iter() {
                let current = self.committed.get(topic, partition);
                let side = if current.is_some_and(|current| current.order > commit.order) {
                    &mut before
                } else {
                    &mut after
                };
                let stored = StoredOffset::of(topic, partition, &commit.committed);
                side.entry((commit.order, producer_id)).or_default().push(stored);
            }
        }
        let pending = |((_, producer_id), offsets): ((u64, i64), Vec<StoredOffset>)| {
            let producer_epoch = self.producer_epoch(producer_id).unwrap_or_default();
            GroupEntry::offsets(group, offsets, Some(PendingIn { producer_id, producer_epoch }))
        };
        entries.extend(before.into_iter().map(pending));
        if !self.committed.is_empty() {
            let committed =
                self.all().map(|(topic, partition, offset)| StoredOffset::of(topic, partition, offset));
            entries.push(GroupEntry::offsets(group, committed.collect(), None));
        }
        entries.extend(after.into_iter().map(pending));
    }
}

impl StoredOffset {
    fn of(topic: &str, partition: i32, committed: &CommittedOffset) -> Self {
        Self {
            topic: topic.to_owned(),
            topic_id: committed.topic_id,
            partition,
            offset: committed.offset,
            leader_epoch: committed.leader_epoch,
            metadata: committed.metadata.clone(),
            commit_timestamp_ms: committed.commit_timestamp_ms,
            expire_timestamp_ms: committed.expire_timestamp_ms,
        }
    }

    fn parts(self) -> (String, i32, CommittedOffset) {
        let committed = CommittedOffset {
            topic_id: self.topic_id,
            offset: self.offset,
            leader_epoch: self.leader_epoch,
            metadata: self.metadata,
            commit_timestamp_ms: self.commit_timestamp_ms,
            expire_timestamp_ms: self.expire_timestamp_ms,
        };
        (self.topic, self.partition, committed)
    }
}

impl StoredPartition {
    pub(super) fn new(topic: &str, partition: i32) -> Self {
        Self { topic: topic.to_owned(), topic_id: None, partition }
    }
}
