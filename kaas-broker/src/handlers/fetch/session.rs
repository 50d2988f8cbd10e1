//! Fetch sessions (KIP-227) as a pure state: what a client asked for and what it was last told.
//!
//! A session spares a client that follows many partitions from naming them in every poll, and the broker from answering for those where
//! nothing changed.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use kaas_proto::ErrorCode;
use kaas_proto::messages::FetchResponse;
use parking_lot::Mutex;

use super::items::{Item, Items, Key, Shared};
use super::read::Round;
use super::response::{self, PartitionData};

/// A new full fetch that may begin a session.
pub(super) const INITIAL_EPOCH: i32 = 0;
/// A full fetch without a session; it ends the one it names.
pub(super) const FINAL_EPOCH: i32 = -1;

/// The epoch after this one; 0 and below mean other things.
pub(super) fn next_epoch(epoch: i32) -> i32 {
    if epoch == i32::MAX { 1 } else { epoch + 1 }
}

/// One partition of a session.
#[derive(Clone, Debug)]
struct Cached {
    item: Item,
    /// The high watermark and the log start offset that the client knows; -1 makes the next answer name them.
    high_watermark: i64,
    log_start: i64,
}

/// One session.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) id: i32,
    pub(super) epoch: i32,
    pub(super) by_id: bool,
    /// By turn, the order in which they are served: partitions that gave data take a new turn at the end, so that none starves.
    partitions: BTreeMap<u64, Cached>,
    /// The turn of each partition: a client may follow very many, so none is searched for.
    turns: HashMap<Key, u64>,
    next_turn: u64,
}

impl Session {
    pub(super) fn new(id: i32, by_id: bool, items: &[Item]) -> Session {
        let mut session = Session {
            id,
            epoch: next_epoch(INITIAL_EPOCH),
            by_id,
            partitions: BTreeMap::new(),
            turns: HashMap::with_capacity(items.len()),
            next_turn: 0,
        };
        for item in items {
            session.want(item.clone());
        }
        session
    }

    pub(super) fn len(&self) -> usize {
        self.partitions.len()
    }

    /// Takes the changes of an incremental fetch: new and changed partitions, and those to forget.
    pub(super) fn update(&mut self, items: Items) {
        for item in items.wanted {
            self.want(item);
        }
        for key in items.forgotten {
            if let Some(turn) = self.turns.remove(&key) {
                self.partitions.remove(&turn);
            }
        }
    }

    fn want(&mut self, item: Item) {
        match self.turns.get(&item.key).and_then(|turn| self.partitions.get_mut(turn)) {
            Some(cached) => cached.item.want = item.want,
            None => self.put_last(Cached { item, high_watermark: -1, log_start: -1 }),
        }
    }

    fn put_last(&mut self, cached: Cached) {
        self.turns.insert(cached.item.key.clone(), self.next_turn);
        self.partitions.insert(self.next_turn, cached);
        self.next_turn += 1;
    }

    pub(super) fn items(&self) -> Shared {
        Arc::new(self.partitions.values().map(|cached| cached.item.clone()).collect())
    }

    /// Remembers what the client is told, and says whether it must be told.
    pub(super) fn tell(&mut self, key: &Key, data: &PartitionData) -> bool {
        let Some(turn) = self.turns.get(key).copied() else { return true };
        let Some(cached) = self.partitions.get_mut(&turn) else { return true };
        let failed = data.error_code != ErrorCode::None.code();
        let has_records = data.records.as_ref().is_some_and(|records| !records.is_empty());
        let moved = cached.high_watermark != data.high_watermark || cached.log_start != data.log_start_offset;
        cached.high_watermark = if failed { -1 } else { data.high_watermark };
        cached.log_start = data.log_start_offset;
        if has_records && let Some(served) = self.partitions.remove(&turn) {
            self.put_last(served);
        }
        has_records || moved || failed || data.diverging_epoch.end_offset >= 0
    }
}

/// How the answer of one fetch relates to a session.
pub(super) enum Context {
    /// Everything is answered, and nothing is remembered.
    Sessionless(Shared),
    /// Everything is answered; a session with this id has begun.
    Full(Shared, Arc<Mutex<Session>>),
    /// Only what changed is answered.
    Incremental(Shared, Arc<Mutex<Session>>),
}

impl Context {
    /// The partitions to look at.
    pub(super) fn items(&self) -> &Shared {
        match self {
            Context::Sessionless(items) | Context::Full(items, _) | Context::Incremental(items, _) => items,
        }
    }

    /// The response for what a look gave.
    pub(super) fn answer(&self, round: Round) -> FetchResponse {
        let rows = response::partitions(self.items(), round).into_iter();
        match self {
            Context::Sessionless(_) => response::group(0, rows),
            Context::Full(_, session) => {
                let mut session = session.lock();
                let told: Vec<_> = rows
                    .inspect(|(item, data)| {
                        session.tell(&item.key, data);
                    })
                    .collect();
                response::group(session.id, told.into_iter())
            }
            Context::Incremental(_, session) => {
                let mut session = session.lock();
                let told: Vec<_> = rows.filter(|(item, data)| session.tell(&item.key, data)).collect();
                response::group(session.id, told.into_iter())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::items::Want;
    use super::*;

    fn item(partition: i32, offset: i64) -> Item {
        let key = Key { topic: "t".into(), topic_id: Default::default(), by_id: false, partition };
        Item {
            key,
            want: Want { offset, bytes_max: 1, leader_epoch: -1, last_fetched_epoch: -1 },
            name: None,
        }
    }

    fn told(high_watermark: i64) -> PartitionData {
        PartitionData { high_watermark, log_start_offset: 0, ..response::empty() }
    }

    #[test]
    fn only_changes_are_told() {
        let mut session = Session::new(7, false, &[item(0, 0), item(1, 0)]);
        assert!(session.tell(&item(0, 0).key, &told(5)));
        assert!(!session.tell(&item(0, 0).key, &told(5)));
        assert!(session.tell(&item(0, 0).key, &told(6)));
        let failed = PartitionData { error_code: 3, ..told(6) };
        assert!(session.tell(&item(0, 0).key, &failed));
        assert!(session.tell(&item(0, 0).key, &told(6)), "the end of an error is told");
        assert!(!session.tell(&item(0, 0).key, &told(6)));
    }

    #[test]
    fn updates_change_add_and_forget() {
        let mut session = Session::new(7, false, &[item(0, 0), item(1, 0)]);
        let items = Items { wanted: vec![item(1, 9), item(2, 3)], forgotten: vec![item(0, 0).key] };
        session.update(items);
        assert_eq!(*session.items(), vec![item(1, 9), item(2, 3)]);
    }

    #[test]
    fn a_partition_that_gave_records_is_served_last() {
        let mut session = Session::new(7, false, &[item(0, 0), item(1, 0), item(2, 0)]);
        let records = Some(kaas_proto::Records::Bytes(bytes::Bytes::from_static(b"records")));
        session.tell(&item(0, 0).key, &PartitionData { records, ..told(5) });
        session.tell(&item(1, 0).key, &told(5));
        assert_eq!(*session.items(), vec![item(1, 0), item(2, 0), item(0, 0)]);
        assert_eq!(session.len(), 3);
        session.update(Items { wanted: Vec::new(), forgotten: vec![item(0, 0).key] });
        assert_eq!(*session.items(), vec![item(1, 0), item(2, 0)]);
    }

    #[test]
    fn epochs_skip_the_special_ones() {
        assert_eq!(next_epoch(1), 2);
        assert_eq!(next_epoch(i32::MAX), 1);
    }
}
