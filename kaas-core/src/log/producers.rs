//! The producers of a partition (KIP-98, KIP-360): what each appended last, and which transactions are open.
//!
//! Pure: the caller holds the lock and does the I/O. Each append hands back what it replaced, so that a
//! failed write can be undone exactly.

mod compare;

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use super::producer::{AppendedBatch, Producer};
use crate::error::{AppendError, CoordinatorFenced, InvalidProducerEpoch, OutOfOrderSequence};
use crate::record::{BatchHeader, EndTxnMarker};

/// Below this many producers nobody is searched for expired ones.
const EXPIRE_MIN: usize = 1024;

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

/// Who counts as known: whoever appended within `expiration_ms` (`producer.id.expiration.ms`) before `now_ms`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Expiry {
    pub(crate) now_ms: i64,
    pub(crate) expiration_ms: i64,
}

/// What the coordinator's word on a producer allows; see [`super::verification`].
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Grant {
    /// Whether a transaction may begin here.
    pub(crate) may_begin: bool,
    /// The least sequence number that was asked for: a later one may not come first.
    pub(crate) lowest_sequence: Option<i32>,
}

/// A producer that could still append, as `DescribeProducers` shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ActiveProducer {
    /// Its id.
    pub producer_id: i64,
    /// Its epoch.
    pub producer_epoch: i16,
    /// The last sequence number of that epoch, or -1.
    pub last_sequence: i32,
    /// The timestamp of its last batch or marker, milliseconds; -1 when that has none.
    pub last_timestamp: i64,
    /// The epoch of the coordinator that last decided a transaction of it, or -1.
    pub coordinator_epoch: i32,
    /// Where its open transaction begins in this partition.
    pub txn_first_offset: Option<i64>,
    /// The last offset of its newest batch; `None` when all that is known of its epoch is a marker.
    pub last_offset: Option<i64>,
}

/// All producers of one partition.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "StoredProducers", from = "StoredProducers")]
pub(crate) struct Producers {
    by_id: HashMap<i64, Producer>,
    /// First offset of every open transaction, and whose it is.
    open: BTreeMap<i64, i64>,
    /// First offset of every transaction whose marker is not visible yet, and the marker's.
    deciding: BTreeMap<i64, i64>,
    /// Producers whose first batch here failed: their later ones, already on their way, must not come before it.
    interrupted: HashMap<i64, Interrupted>,
    expire_at: usize,
}

/// A first batch that was refused after it had been given its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Interrupted {
    epoch: i16,
    first_sequence: i32,
    failed_ms: i64,
}

#[derive(Serialize, Deserialize)]
struct StoredProducers {
    by_id: HashMap<i64, Producer>,
}

impl From<Producers> for StoredProducers {
    fn from(producers: Producers) -> Self {
        Self { by_id: producers.by_id }
    }
}

impl From<StoredProducers> for Producers {
    fn from(StoredProducers { by_id }: StoredProducers) -> Self {
        let open = by_id.iter().filter_map(|(id, known)| Some((known.txn_first_offset?, *id))).collect();
        Self { by_id, open, ..Self::default() }
    }
}

impl Producers {
    pub(crate) fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// Where the oldest transaction begins that is open, or whose marker is not visible yet.
    pub(crate) fn first_unstable(&self) -> Option<i64> {
        let first = |offsets: &BTreeMap<i64, i64>| offsets.first_key_value().map(|(first, _)| *first);
        first(&self.open).into_iter().chain(first(&self.deciding)).min()
    }

    /// The open transactions: producer id and first offset.
    pub(crate) fn open_transactions(&self) -> impl Iterator<Item = (i64, i64)> {
        self.open.iter().map(|(first, id)| (*id, *first))
    }

    /// Whether the producer has an open transaction.
    pub(crate) fn is_in_transaction(&self, producer_id: i64) -> bool {
        self.by_id.get(&producer_id).is_some_and(|known| known.txn_first_offset.is_some())
    }

    /// Those that are not expired, by id.
    pub(crate) fn active(&self, expiry: Expiry) -> Vec<ActiveProducer> {
        let shown = |(id, known): (&i64, &Producer)| ActiveProducer {
            producer_id: *id,
            producer_epoch: known.epoch,
            last_sequence: known.last_sequence(),
            last_timestamp: known.last_timestamp,
            coordinator_epoch: known.coordinator_epoch,
            txn_first_offset: known.txn_first_offset,
            last_offset: known.last_batch().map(|batch| batch.last_offset),
        };
        let mut active: Vec<_> = self.by_id.iter().filter(|(_, p)| expiry.counts(p)).map(shown).collect();
        active.sort_unstable_by_key(|producer| producer.producer_id);
        active
    }

    /// Whether a client's batch may be appended, was appended before, or must be refused; the order of the checks
    /// is Kafka's.
    pub(crate) fn check(
        &self,
        header: &BatchHeader,
        grant: Grant,
        expiry: Expiry,
    ) -> Result<Verdict, AppendError> {
        let producer_id = header.producer_id;
        if producer_id < 0 {
            let nobodys = header.is_transactional();
            return if nobodys { Err(AppendError::InvalidTransactionState) } else { Ok(Verdict::Append) };
        }
        // A producer that is not known, or not any more, may start anywhere.
        let known = self.by_id.get(&producer_id).filter(|known| expiry.counts(known));
        if let Some(original) = known.and_then(|known| known.duplicate(header)) {
            return Ok(Verdict::Duplicate(original));
        }
        let in_transaction = known.is_some_and(|known| known.txn_first_offset.is_some());
        if header.is_transactional() && !in_transaction && !grant.may_begin {
            return Err(AppendError::InvalidTransactionState);
        }
        if let Some(known) = known {
            check_epoch(producer_id, header.producer_epoch, known)?;
        }
        let received = header.base_sequence;
        let out_of_order =
            |last: i32| Err(AppendError::from(OutOfOrderSequence { producer_id, received, last }));
        if grant.lowest_sequence.is_some_and(|lowest| received > lowest) {
            return out_of_order(known.map_or(-1, Producer::last_sequence));
        }
        let interrupted = self.interrupted.get(&producer_id).filter(|first| {
            known.is_none()
                && first.epoch == header.producer_epoch
                && first.first_sequence != received
                && !expiry.is_over(first.failed_ms)
        });
        if interrupted.is_some() {
            return out_of_order(-1);
        }
        if let Some(known) = known.filter(|known| !known.is_next(header.producer_epoch, received)) {
            return out_of_order(if header.producer_epoch == known.epoch {
                known.last_sequence()
            } else {
                -1
            });
        }
        if in_transaction && !header.is_transactional() {
            return Err(AppendError::InvalidTransactionState);
        }
        Ok(Verdict::Append)
    }

    /// Whether a coordinator's marker may be appended. One for a producer that is not known is.
    pub(crate) fn check_marker(&self, marker: &EndTxnMarker) -> Result<(), AppendError> {
        let Some(known) = self.by_id.get(&marker.producer_id) else { return Ok(()) };
        check_epoch(marker.producer_id, marker.producer_epoch, known)?;
        if marker.coordinator_epoch < known.coordinator_epoch {
            return Err(CoordinatorFenced {
                producer_id: marker.producer_id,
                received: marker.coordinator_epoch,
                current: known.coordinator_epoch,
            }
            .into());
        }
        Ok(())
    }

    /// Remembers a batch that was let pass, or was found in the log. The header carries its final offsets.
    pub(crate) fn append(
        &mut self,
        header: &BatchHeader,
        marker: Option<&EndTxnMarker>,
        expiry: Expiry,
    ) -> Option<Undo> {
        let producer_id = header.producer_id;
        // A control batch without a marker was emptied by compaction: what it decided is gone as well.
        if producer_id < 0 || (marker.is_none() && header.is_control()) {
            return None;
        }
        let before = self.by_id.get(&producer_id).copied();
        let known = before.filter(|known| expiry.counts(known));
        let known = known.unwrap_or_else(|| Producer::new(header.producer_epoch));
        let after = match marker {
            Some(marker) => known.after_marker(header, marker, expiry.now_ms),
            None => known.after_data(header, expiry.now_ms),
        };
        match (known.txn_first_offset, after.txn_first_offset) {
            (None, Some(first)) => drop(self.open.insert(first, producer_id)),
            (Some(first), None) => {
                self.open.remove(&first);
                self.deciding.insert(first, header.base_offset);
            }
            _ => {}
        }
        self.by_id.insert(producer_id, after);
        if !self.interrupted.is_empty() {
            self.interrupted.remove(&producer_id);
        }
        Some(Undo { producer_id, before })
    }

    /// Takes back the newest append that has not been taken back, and that is not visible.
    pub(crate) fn undo(&mut self, Undo { producer_id, before }: Undo) {
        let now = self.by_id.remove(&producer_id);
        let first = |producer: Option<Producer>| producer.and_then(|producer| producer.txn_first_offset);
        match (first(before), first(now)) {
            (None, Some(begun)) => drop(self.open.remove(&begun)),
            (Some(decided), None) => {
                self.deciding.remove(&decided);
                self.open.insert(decided, producer_id);
            }
            _ => {}
        }
        if let Some(before) = before {
            self.by_id.insert(producer_id, before);
        }
    }

    /// As [`undo`](Self::undo), for an append that failed: the producer may go on only with that very batch.
    pub(crate) fn fail(&mut self, undo: Undo) {
        let failed = self.by_id.get(&undo.producer_id).copied().filter(|_| undo.before.is_none());
        self.undo(undo);
        if let Some((failed, batch)) = failed.and_then(|failed| Some((failed, *failed.last_batch()?))) {
            let (epoch, first_sequence) = (failed.epoch, batch.first_sequence);
            let failed_ms = failed.last_append_ms;
            self.interrupted.insert(undo.producer_id, Interrupted { epoch, first_sequence, failed_ms });
        }
    }

    /// As [`fail`](Self::fail), for a batch that was refused before it got a place, though it may come again.
    pub(crate) fn refuse(&mut self, header: &BatchHeader, failed_ms: i64) {
        let (epoch, first_sequence) = (header.producer_epoch, header.base_sequence);
        if header.producer_id >= 0 && !self.by_id.contains_key(&header.producer_id) {
            let first = Interrupted { epoch, first_sequence, failed_ms };
            let known = self.interrupted.entry(header.producer_id).or_insert(first);
            if known.epoch < epoch {
                *known = first;
            }
        }
    }

    /// Goes on holding back what `before` held back, when the log has been read again: the batches that are on their way know nothing
    /// of that.
    pub(crate) fn inherit(&mut self, before: &mut Self) {
        self.interrupted = std::mem::take(&mut before.interrupted);
    }

    /// Notes that everything below `high_watermark` is visible, markers included.
    pub(crate) fn published(&mut self, high_watermark: i64) {
        self.deciding.retain(|_, marker| *marker >= high_watermark);
    }

    /// Forgets producers that have been silent for too long, when there are many more than after the last time.
    pub(crate) fn expire(&mut self, expiry: Expiry) {
        if self.by_id.len() + self.interrupted.len() < self.expire_at.max(EXPIRE_MIN) {
            return;
        }
        self.by_id.retain(|_, known| expiry.counts(known));
        self.interrupted.retain(|_, first| !expiry.is_over(first.failed_ms));
        self.expire_at = (self.by_id.len() + self.interrupted.len()) * 2;
    }
}

impl Expiry {
    /// Nobody is expired: for the log as it was written.
    pub(crate) fn never(now_ms: i64) -> Self {
        Self { now_ms, expiration_ms: i64::MAX }
    }

    fn is_over(self, last_ms: i64) -> bool {
        self.now_ms.saturating_sub(last_ms) >= self.expiration_ms
    }

    fn counts(self, known: &Producer) -> bool {
        !known.is_expired(self.now_ms, self.expiration_ms)
    }
}

fn check_epoch(producer_id: i64, received: i16, known: &Producer) -> Result<(), AppendError> {
    if received < known.epoch {
        return Err(InvalidProducerEpoch { producer_id, received, current: known.epoch }.into());
    }
    Ok(())
}

#[cfg(test)]
mod tests;
