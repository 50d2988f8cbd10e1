//! Idempotent producers (KIP-98, KIP-360): what was appended last, per producer id.
//!
//! Pure: the caller holds the lock and does the I/O. Each append hands back what it replaced, so that a
//! failed write can be undone exactly.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::error::{AppendError, InvalidProducerEpoch, OutOfOrderSequence};
use crate::record::BatchHeader;

/// Batches remembered per producer: Kafka's clients have at most five requests in flight.
const BATCHES_KEPT: usize = 5;

/// Below this many producers nobody is searched for expired ones.
const EXPIRE_MIN: usize = 1024;

/// One appended batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct AppendedBatch {
    pub(crate) first_sequence: i32,
    pub(crate) last_sequence: i32,
    pub(crate) base_offset: i64,
    pub(crate) last_offset: i64,
    pub(crate) timestamp: i64,
}

/// What is known about one producer. `Copy`, so that undoing is a plain store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "StoredProducer", from = "StoredProducer")]
pub(crate) struct Producer {
    epoch: i16,
    last_append_ms: i64,
    kept: u8,
    /// The last `kept` batches, oldest first.
    batches: [AppendedBatch; BATCHES_KEPT],
}

/// What an append replaced.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Undo {
    producer_id: i64,
    before: Option<Producer>,
}

/// What to do with a batch.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Append,
    Duplicate(AppendedBatch),
}

/// All producers of one partition.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Producers {
    by_id: HashMap<i64, Producer>,
    #[serde(skip)]
    expire_at: usize,
}

/// A producer as it is stored: epoch, last append, and per batch its sequences, offsets and timestamp.
#[derive(Serialize, Deserialize)]
struct StoredProducer(i16, i64, Vec<(i32, i32, i64, i64, i64)>);

impl From<Producer> for StoredProducer {
    fn from(producer: Producer) -> Self {
        let stored = |batch: &AppendedBatch| {
            let AppendedBatch { first_sequence, last_sequence, base_offset, last_offset, timestamp } = *batch;
            (first_sequence, last_sequence, base_offset, last_offset, timestamp)
        };
        Self(producer.epoch, producer.last_append_ms, producer.batches().iter().map(stored).collect())
    }
}

impl From<StoredProducer> for Producer {
    fn from(StoredProducer(epoch, last_append_ms, stored): StoredProducer) -> Self {
        let mut producer = Self { epoch, last_append_ms, kept: 0, batches: Default::default() };
        for (first_sequence, last_sequence, base_offset, last_offset, timestamp) in stored {
            producer.remember(AppendedBatch {
                first_sequence,
                last_sequence,
                base_offset,
                last_offset,
                timestamp,
            });
        }
        producer
    }
}

impl Producer {
    fn remember(&mut self, batch: AppendedBatch) {
        if usize::from(self.kept) >= BATCHES_KEPT {
            self.batches.rotate_left(1);
            self.kept = BATCHES_KEPT as u8 - 1;
        }
        self.batches[usize::from(self.kept)] = batch;
        self.kept += 1;
    }

    fn batches(&self) -> &[AppendedBatch] {
        &self.batches[..usize::from(self.kept).min(BATCHES_KEPT)]
    }
}

impl Producers {
    pub(crate) fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// Whether the batch may be appended, was appended before, or breaks the sequence.
    pub(crate) fn check(&self, header: &BatchHeader) -> Result<Verdict, AppendError> {
        let producer_id = header.producer_id;
        let Some(known) = (producer_id >= 0).then(|| self.by_id.get(&producer_id)).flatten() else {
            // A producer that is not known, or not any more, may start anywhere.
            return Ok(Verdict::Append);
        };
        let received = header.producer_epoch;
        if received < known.epoch {
            return Err(InvalidProducerEpoch { producer_id, received, current: known.epoch }.into());
        }
        let first = header.base_sequence;
        if received > known.epoch {
            return match first {
                0 => Ok(Verdict::Append),
                _ => Err(OutOfOrderSequence { producer_id, received: first, last: -1 }.into()),
            };
        }
        let last = last_sequence(header);
        let same = |batch: &&AppendedBatch| batch.first_sequence == first && batch.last_sequence == last;
        if let Some(batch) = known.batches().iter().find(same) {
            return Ok(Verdict::Duplicate(*batch));
        }
        match known.batches().last() {
            Some(batch) if first != add_sequence(batch.last_sequence, 1) => {
                Err(OutOfOrderSequence { producer_id, received: first, last: batch.last_sequence }.into())
            }
            _ => Ok(Verdict::Append),
        }
    }

    /// Remembers a batch that [`check`](Self::check) let pass. The header carries its final offsets.
    pub(crate) fn append(&mut self, header: &BatchHeader, now_ms: i64) -> Option<Undo> {
        if header.producer_id < 0 {
            return None;
        }
        let before = self.by_id.get(&header.producer_id).copied();
        let mut after = match before {
            Some(known) if known.epoch == header.producer_epoch => known,
            _ => Producer {
                epoch: header.producer_epoch,
                last_append_ms: now_ms,
                kept: 0,
                batches: Default::default(),
            },
        };
        after.remember(AppendedBatch {
            first_sequence: header.base_sequence,
            last_sequence: last_sequence(header),
            base_offset: header.base_offset,
            last_offset: header.last_offset(),
            timestamp: header.max_timestamp,
        });
        after.last_append_ms = now_ms;
        self.by_id.insert(header.producer_id, after);
        Some(Undo { producer_id: header.producer_id, before })
    }

    /// Takes back the newest append that has not been taken back.
    pub(crate) fn undo(&mut self, undo: Undo) {
        match undo.before {
            Some(before) => self.by_id.insert(undo.producer_id, before),
            None => self.by_id.remove(&undo.producer_id),
        };
    }

    /// Forgets producers that have been silent for `expiration_ms`, when there are many more than after
    /// the last time.
    pub(crate) fn expire(&mut self, now_ms: i64, expiration_ms: i64) {
        if self.by_id.len() < self.expire_at.max(EXPIRE_MIN) {
            return;
        }
        self.by_id.retain(|_, known| now_ms.saturating_sub(known.last_append_ms) < expiration_ms);
        self.expire_at = self.by_id.len() * 2;
    }
}

fn last_sequence(header: &BatchHeader) -> i32 {
    add_sequence(header.base_sequence, header.last_offset_delta)
}

/// Sequence numbers wrap from 2^31-1 to 0.
fn add_sequence(sequence: i32, n: i32) -> i32 {
    ((i64::from(sequence) + i64::from(n)) & i64::from(i32::MAX)) as i32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::RecordBatchBuilder;

    fn batch(id: i64, epoch: i16, sequence: i32, count: i32, offset: i64) -> BatchHeader {
        let mut builder = RecordBatchBuilder::new().producer(id, epoch, sequence);
        for _ in 0..count {
            builder = builder.push(None, Some(b"v"), 0);
        }
        BatchHeader { base_offset: offset, ..BatchHeader::parse(&builder.build()).unwrap() }
    }

    fn is_order(result: Result<Verdict, AppendError>) -> bool {
        matches!(result, Err(AppendError::OutOfOrderSequence(_)))
    }

    #[test]
    fn the_last_five_batches_are_duplicates_and_an_older_one_is_out_of_order() {
        let mut table = Producers::default();
        for n in 0..7 {
            let header = batch(1, 0, n * 2, 2, i64::from(n) * 2);
            assert_eq!(table.check(&header).unwrap(), Verdict::Append);
            table.append(&header, 0);
        }
        for n in 2..7 {
            let Verdict::Duplicate(found) = table.check(&batch(1, 0, n * 2, 2, 99)).unwrap() else {
                panic!("batch {n} is not known")
            };
            assert_eq!(found.base_offset, i64::from(n) * 2);
        }
        assert!(is_order(table.check(&batch(1, 0, 2, 2, 99))), "older than five");
        assert!(is_order(table.check(&batch(1, 0, 4, 1, 99))), "same start, other end");
        assert!(is_order(table.check(&batch(1, 0, 16, 1, 99))), "a gap");
    }

    #[test]
    fn sequences_wrap_and_epochs_fence() {
        let mut table = Producers::default();
        let header = batch(1, 3, i32::MAX - 1, 3, 0);
        assert_eq!(table.check(&header).unwrap(), Verdict::Append, "unknown producers start anywhere");
        table.append(&header, 0);
        assert_eq!(table.check(&batch(1, 3, 1, 1, 3)).unwrap(), Verdict::Append, "MAX-1, MAX, 0, then 1");
        assert!(matches!(table.check(&batch(1, 2, 1, 1, 3)), Err(AppendError::InvalidProducerEpoch(_))));
        assert!(is_order(table.check(&batch(1, 4, 1, 1, 3))), "a new epoch starts at 0");
        assert_eq!(table.check(&batch(1, 4, 0, 1, 3)).unwrap(), Verdict::Append);
    }

    #[test]
    fn undoing_restores_evicted_batches_and_epochs() {
        let mut table = Producers::default();
        for n in 0..5 {
            table.append(&batch(1, 0, n, 1, i64::from(n)), 0);
        }
        let before = table.clone();
        let undos: Vec<Undo> = [batch(1, 0, 5, 1, 5), batch(1, 1, 0, 1, 6), batch(2, 0, 0, 1, 7)]
            .iter()
            .filter_map(|header| table.append(header, 0))
            .collect();
        assert_ne!(table, before);
        for undo in undos.into_iter().rev() {
            table.undo(undo);
        }
        assert_eq!(table, before);
    }

    #[test]
    fn a_stored_table_is_the_same_table() {
        let mut table = Producers::default();
        for n in 0..9 {
            table.append(&batch(i64::from(n % 2), 1, n, 1, i64::from(n)), i64::from(n));
        }
        let stored = serde_json::to_value(&table).unwrap();
        assert_eq!(serde_json::from_value::<Producers>(stored).unwrap(), table);
    }

    #[test]
    fn silent_producers_are_forgotten() {
        let mut table = Producers::default();
        for id in 0..EXPIRE_MIN as i64 {
            table.append(&batch(id, 0, 0, 1, id), id);
        }
        table.expire(1100, 100);
        assert_eq!(table.by_id.len(), EXPIRE_MIN - 1001);
    }
}
