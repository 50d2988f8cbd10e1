//! What is known about one producer of a partition, and what of it is stored.

use serde::{Deserialize, Serialize};

use crate::record::{BatchHeader, EndTxnMarker};

/// Batches remembered per producer: Kafka's clients have at most five requests in flight.
const BATCHES_KEPT: usize = 5;

/// The epoch of a coordinator that has not said anything.
const NO_COORDINATOR_EPOCH: i32 = -1;

/// One appended batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct AppendedBatch {
    pub(crate) first_sequence: i32,
    pub(crate) last_sequence: i32,
    pub(crate) base_offset: i64,
    pub(crate) last_offset: i64,
    pub(crate) timestamp: i64,
}

/// One producer. `Copy`, so that undoing is a plain store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "StoredProducer", from = "StoredProducer")]
pub(crate) struct Producer {
    pub(super) epoch: i16,
    pub(super) coordinator_epoch: i32,
    /// When it last appended, by this broker's clock.
    pub(super) last_append_ms: i64,
    /// The greatest timestamp of its last batch, or that of its last marker.
    pub(super) last_timestamp: i64,
    /// Where its open transaction begins in this partition.
    pub(super) txn_first_offset: Option<i64>,
    kept: u8,
    /// The last `kept` batches, oldest first.
    batches: [AppendedBatch; BATCHES_KEPT],
}

/// A producer as it is stored: epoch, coordinator epoch, last append, last timestamp, where its open transaction
/// begins, and per batch its sequences, offsets and timestamp.
#[derive(Serialize, Deserialize)]
struct StoredProducer(i16, i32, i64, i64, Option<i64>, Vec<(i32, i32, i64, i64, i64)>);

impl From<Producer> for StoredProducer {
    fn from(producer: Producer) -> Self {
        let stored = |batch: &AppendedBatch| {
            let AppendedBatch { first_sequence, last_sequence, base_offset, last_offset, timestamp } = *batch;
            (first_sequence, last_sequence, base_offset, last_offset, timestamp)
        };
        let batches = producer.batches().iter().map(stored).collect();
        let Producer { epoch, coordinator_epoch, last_append_ms, last_timestamp, txn_first_offset, .. } =
            producer;
        Self(epoch, coordinator_epoch, last_append_ms, last_timestamp, txn_first_offset, batches)
    }
}

impl From<StoredProducer> for Producer {
    fn from(stored: StoredProducer) -> Self {
        let StoredProducer(
            epoch,
            coordinator_epoch,
            last_append_ms,
            last_timestamp,
            txn_first_offset,
            batches,
        ) = stored;
        let mut producer = Self {
            epoch,
            coordinator_epoch,
            last_append_ms,
            last_timestamp,
            txn_first_offset,
            kept: 0,
            batches: Default::default(),
        };
        for (first_sequence, last_sequence, base_offset, last_offset, timestamp) in batches {
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
    /// A producer that has not appended anything.
    pub(super) fn new(epoch: i16) -> Self {
        StoredProducer(epoch, NO_COORDINATOR_EPOCH, 0, -1, None, Vec::new()).into()
    }

    /// A newer epoch begins its sequence anew; an open transaction stays open until its marker.
    fn enter_epoch(&mut self, epoch: i16) {
        if self.epoch != epoch {
            self.epoch = epoch;
            self.kept = 0;
            self.batches = Default::default();
        }
    }

    /// After a batch of data whose header carries its final offsets.
    pub(super) fn after_data(mut self, header: &BatchHeader, now_ms: i64) -> Self {
        self.enter_epoch(header.producer_epoch);
        self.remember(AppendedBatch {
            first_sequence: header.base_sequence,
            last_sequence: last_sequence(header),
            base_offset: header.base_offset,
            last_offset: header.last_offset(),
            timestamp: header.max_timestamp,
        });
        if header.is_transactional() {
            self.txn_first_offset = self.txn_first_offset.or(Some(header.base_offset));
        }
        self.last_append_ms = now_ms;
        self.last_timestamp = header.max_timestamp;
        self
    }

    /// After a marker, stored in a batch with this header.
    pub(super) fn after_marker(mut self, header: &BatchHeader, marker: &EndTxnMarker, now_ms: i64) -> Self {
        self.enter_epoch(marker.producer_epoch);
        self.coordinator_epoch = marker.coordinator_epoch;
        self.txn_first_offset = None;
        self.last_append_ms = now_ms;
        self.last_timestamp = header.max_timestamp;
        self
    }

    fn remember(&mut self, batch: AppendedBatch) {
        if usize::from(self.kept) >= BATCHES_KEPT {
            self.batches.rotate_left(1);
            self.kept = BATCHES_KEPT as u8 - 1;
        }
        self.batches[usize::from(self.kept)] = batch;
        self.kept += 1;
    }

    /// The remembered batches of the current epoch, oldest first.
    pub(super) fn batches(&self) -> &[AppendedBatch] {
        &self.batches[..usize::from(self.kept).min(BATCHES_KEPT)]
    }

    /// The newest batch of the current epoch.
    pub(super) fn last_batch(&self) -> Option<&AppendedBatch> {
        self.batches().last()
    }

    /// The last sequence number of the current epoch, or -1.
    pub(super) fn last_sequence(&self) -> i32 {
        self.last_batch().map_or(-1, |batch| batch.last_sequence)
    }

    /// The remembered batch that this one repeats.
    pub(super) fn duplicate(&self, header: &BatchHeader) -> Option<AppendedBatch> {
        let range = (header.base_sequence, last_sequence(header));
        let same = |batch: &&AppendedBatch| (batch.first_sequence, batch.last_sequence) == range;
        self.batches().iter().find(same).filter(|_| header.producer_epoch == self.epoch).copied()
    }

    /// Whether a batch that begins with this sequence number follows the last one.
    pub(super) fn is_next(&self, epoch: i16, first_sequence: i32) -> bool {
        first_sequence == if epoch == self.epoch { add_sequence(self.last_sequence(), 1) } else { 0 }
    }

    /// Whether it may be forgotten: not while its transaction is open, however long it has been silent.
    pub(super) fn is_expired(&self, now_ms: i64, expiration_ms: i64) -> bool {
        self.txn_first_offset.is_none() && now_ms.saturating_sub(self.last_append_ms) >= expiration_ms
    }
}

fn last_sequence(header: &BatchHeader) -> i32 {
    add_sequence(header.base_sequence, header.last_offset_delta)
}

/// Sequence numbers wrap from 2^31-1 to 0.
fn add_sequence(sequence: i32, n: i32) -> i32 {
    ((i64::from(sequence) + i64::from(n)) & i64::from(i32::MAX)) as i32
}
