//! Whether what was stored of the producers is what their batches in the log give.
//!
//! The log may know less: what retention and compaction have removed is in the snapshot alone. And a producer that was
//! silent for long may have been forgotten, of which the log has everything.

use super::super::producer::Producer;
use super::{EXPIRE_MIN, Producers};

impl Producers {
    /// The first producer of whom a snapshot says something else than the log, and what. `rebuilt` are the producers by
    /// all batches from `start` on; below `from` some of those may have lost records.
    pub(crate) fn contradiction(&self, rebuilt: &Self, start: i64, from: i64) -> Option<(i64, &'static str)> {
        let mut ids: Vec<i64> = self.by_id.keys().chain(rebuilt.by_id.keys()).copied().collect();
        ids.sort_unstable();
        ids.into_iter().find_map(|id| {
            let why = match (self.by_id.get(&id), rebuilt.by_id.get(&id)) {
                (Some(stored), Some(logged)) => differs(stored, logged, start, from),
                (Some(stored), None) => invented(stored, from),
                (None, Some(logged)) => self.forgotten(logged, rebuilt, from),
                (None, None) => None,
            };
            why.map(|why| (id, why))
        })
    }

    fn forgotten(&self, logged: &Producer, rebuilt: &Self, from: i64) -> Option<&'static str> {
        if logged.txn_first_offset.is_some_and(|first| first >= from) {
            return Some("its transaction is open and is not known");
        }
        // Of few producers none is forgotten.
        let known = logged.last_batch().is_some_and(|batch| batch.base_offset >= from);
        (known && rebuilt.by_id.len() < EXPIRE_MIN).then_some("it is not known")
    }
}

fn invented(stored: &Producer, from: i64) -> Option<&'static str> {
    let behind = stored.last_batch().is_some_and(|batch| batch.base_offset >= from);
    behind.then_some("the log has no batch of it")
}

fn differs(stored: &Producer, logged: &Producer, start: i64, from: i64) -> Option<&'static str> {
    // What was last said of it may be gone from the log.
    let last = logged.last_batch().filter(|batch| batch.base_offset >= from)?;
    if stored.epoch != logged.epoch {
        return Some("its epoch is another");
    }
    if stored.last_batch() != Some(last) {
        return Some("its last batch is another");
    }
    if start == from {
        let pairs = stored.batches().iter().rev().zip(logged.batches().iter().rev());
        if pairs.into_iter().any(|(a, b)| a != b) {
            return Some("its batches are others");
        }
    }
    if stored.last_timestamp != logged.last_timestamp {
        return Some("its last timestamp is another");
    }
    if logged.coordinator_epoch >= 0 && stored.coordinator_epoch != logged.coordinator_epoch {
        return Some("the epoch of its coordinator is another");
    }
    let older = stored.txn_first_offset.is_some_and(|first| first < from);
    if !older && stored.txn_first_offset != logged.txn_first_offset {
        return Some("its open transaction is another");
    }
    None
}
