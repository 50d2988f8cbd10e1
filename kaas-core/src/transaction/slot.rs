//! One slot: its transactional ids, the order in which they are due, and how they are loaded.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use super::end::Owed;
use super::{Entry, Metadata, ProducerIdentity, State, TransactionError, WriteMarkers};
use crate::coordinator::{Machine, Now, Outbox};

/// Transactional ids of one slot.
pub const TRANSACTIONAL_IDS_MAX: usize = 100_000;

/// Partitions of one transaction.
pub const PARTITIONS_MAX: usize = 50_000;

/// The coordinator's settings.
#[derive(Debug, Clone, Copy)]
pub struct Config {
    /// `transaction.max.timeout.ms`: the longest timeout that a producer may ask for.
    pub timeout_max_ms: i32,
    /// `transactional.id.expiration.ms`: how long an id without a transaction is remembered.
    pub expiration_ms: i64,
    /// `transaction.remove.expired.transaction.cleanup.interval.ms`: how often expired ids are looked for.
    pub expiration_interval: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            timeout_max_ms: 15 * 60 * 1000,
            expiration_ms: 7 * 24 * 60 * 60 * 1000,
            expiration_interval: Duration::from_secs(60 * 60),
        }
    }
}

/// One transactional id.
#[derive(Debug)]
pub(super) struct Transaction {
    pub(super) metadata: Metadata,
    /// When the ongoing transaction is over.
    deadline: Option<Duration>,
    /// The markers that a decided one still owes.
    pub(super) owed: Option<Owed>,
}

/// The transactional ids of one slot.
#[derive(Debug)]
pub struct Slot {
    pub(super) config: Config,
    pub(super) coordinator_epoch: i32,
    pub(super) transactions: BTreeMap<Arc<str>, Transaction>,
    /// Ongoing transactions, by their end.
    pub(super) timeouts: BTreeSet<(Duration, Arc<str>)>,
    /// Ids without a transaction, by their last change on the wall clock.
    pub(super) idle: BTreeSet<(i64, Arc<str>)>,
    /// When expired ids are looked for again.
    pub(super) expiration_check: Duration,
    /// Decisions so far in this life of the slot.
    pub(super) decisions: u64,
}

impl Slot {
    /// An empty slot, to be loaded. The epoch goes into its markers: higher than that of whoever had the slot before.
    pub fn new(config: Config, coordinator_epoch: i32) -> Self {
        Self {
            config,
            coordinator_epoch,
            transactions: BTreeMap::new(),
            timeouts: BTreeSet::new(),
            idle: BTreeSet::new(),
            expiration_check: Duration::ZERO,
            decisions: 0,
        }
    }

    /// What is durable about an id, once its entries are.
    pub fn metadata(&self, transactional_id: &str) -> Option<&Metadata> {
        self.transactions.get(transactional_id).map(|transaction| &transaction.metadata)
    }

    /// The id's state, if it has this producer.
    pub(super) fn of_producer(
        &self,
        transactional_id: &str,
        producer: ProducerIdentity,
    ) -> Result<&Metadata, TransactionError> {
        if transactional_id.is_empty() {
            return Err(TransactionError::InvalidRequest);
        }
        let metadata = self.metadata(transactional_id).ok_or(TransactionError::InvalidProducerIdMapping)?;
        if metadata.producer_id != producer.producer_id {
            return Err(TransactionError::InvalidProducerIdMapping);
        }
        if metadata.producer_epoch != producer.producer_epoch {
            return Err(TransactionError::ProducerFenced);
        }
        Ok(metadata)
    }

    /// Brings an id into its new state, and whatever follows from that.
    pub(super) fn change(
        &mut self,
        transactional_id: &str,
        metadata: Metadata,
        now: Now,
        out: &mut Outbox<Self>,
    ) {
        let old = self.take(transactional_id);
        debug_assert!(old.as_ref().is_none_or(|(_, old)| metadata.status.may_follow(old.metadata.status)));
        out.entries.push(Entry::state(transactional_id, metadata.clone()));
        let (id, old_deadline) = match old {
            Some((id, old)) => (id, old.deadline),
            None => (transactional_id.into(), None),
        };
        let fresh_deadline = || now.mono.saturating_add(millis(metadata.timeout_ms.into()));
        let deadline =
            (metadata.status == State::Ongoing).then(|| old_deadline.unwrap_or_else(fresh_deadline));
        let prepared = metadata.status.is_prepared();
        self.put(Arc::clone(&id), Transaction { metadata, deadline, owed: None });
        if prepared {
            self.ask_for_markers(&id, now, out);
        }
    }

    /// Forgets an id.
    pub(super) fn remove(&mut self, transactional_id: &str, out: &mut Outbox<Self>) {
        let old = self.take(transactional_id);
        debug_assert!(old.is_some_and(|(_, old)| State::Dead.may_follow(old.metadata.status)));
        out.entries.push(Entry::removed(transactional_id));
    }

    fn take(&mut self, transactional_id: &str) -> Option<(Arc<str>, Transaction)> {
        let (id, old) = self.transactions.remove_entry(transactional_id)?;
        if let Some(deadline) = old.deadline {
            self.timeouts.remove(&(deadline, Arc::clone(&id)));
        }
        if old.metadata.status.is_idle() {
            self.idle.remove(&(old.metadata.last_update_timestamp_ms, Arc::clone(&id)));
        }
        Some((id, old))
    }

    fn put(&mut self, id: Arc<str>, transaction: Transaction) {
        if let Some(deadline) = transaction.deadline {
            self.timeouts.insert((deadline, Arc::clone(&id)));
        }
        if transaction.metadata.status.is_idle() {
            self.idle.insert((transaction.metadata.last_update_timestamp_ms, Arc::clone(&id)));
        }
        self.transactions.insert(id, transaction);
    }

    /// An ongoing transaction has what the wall clock leaves of its time: at least nothing, at most all of it.
    fn arm_again(&mut self, id: &Arc<str>, now: Now) {
        let Some((id, mut transaction)) = self.take(id) else { return };
        let timeout = i64::from(transaction.metadata.timeout_ms).max(0);
        let begun = transaction.metadata.start_timestamp_ms.unwrap_or(now.wall_ms);
        let left = begun.saturating_add(timeout).saturating_sub(now.wall_ms).clamp(0, timeout);
        transaction.deadline = Some(now.mono.saturating_add(millis(left)));
        self.put(id, transaction);
    }
}

impl Machine for Slot {
    type Entry = Entry;
    type Token = Infallible;
    type Reply = Infallible;
    type Effect = WriteMarkers;

    fn replay(&mut self, entry: Entry) {
        match entry.state {
            Some(metadata) if metadata.is_sound() => {
                let id = match self.take(&entry.transactional_id) {
                    Some((id, _)) => id,
                    None => entry.transactional_id.into(),
                };
                self.put(id, Transaction { metadata, deadline: None, owed: None });
            }
            Some(_) => {}
            None if entry.removed => drop(self.take(&entry.transactional_id)),
            None => {}
        }
    }

    fn snapshot(&self) -> Vec<Entry> {
        let entry =
            |(id, transaction): (&Arc<str>, &Transaction)| Entry::state(id, transaction.metadata.clone());
        self.transactions.iter().map(entry).collect()
    }

    fn loaded(&mut self, now: Now, out: &mut Outbox<Self>) {
        self.expiration_check = now.mono;
        let undone = |(id, transaction): (&Arc<str>, &Transaction)| {
            let status = transaction.metadata.status;
            (!status.is_idle()).then(|| (Arc::clone(id), status))
        };
        for (id, status) in self.transactions.iter().filter_map(undone).collect::<Vec<_>>() {
            if status.is_prepared() {
                self.ask_for_markers(&id, now, out);
            } else {
                self.arm_again(&id, now);
            }
        }
    }

    fn deadline(&self) -> Option<Duration> {
        let timeout = self.timeouts.first().map(|(deadline, _)| *deadline);
        let expiration = (!self.idle.is_empty()).then_some(self.expiration_check);
        timeout.into_iter().chain(expiration).min()
    }

    fn tick(&mut self, now: Now, out: &mut Outbox<Self>) {
        self.abort_timed_out(now, out);
        self.remove_expired(now, out);
    }
}

/// A duration of so many milliseconds; a negative one is none.
fn millis(ms: i64) -> Duration {
    Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::super::testing::Bench;
    use super::*;

    #[test]
    fn a_snapshot_is_the_state() {
        let mut bench = Bench::new();
        let producer = bench.init();
        bench.add(producer, &[("a", 0)]).unwrap();
        bench.end(producer, true).unwrap();
        let mut copy = Slot::new(Config::default(), 2);
        for entry in bench.slot.snapshot() {
            copy.replay(entry);
        }
        assert_eq!(copy.metadata("t"), bench.slot.metadata("t"));
        assert_eq!(copy.snapshot(), bench.slot.snapshot());
    }

    #[test]
    fn entries_that_make_no_sense_change_nothing() {
        let mut bench = Bench::new();
        bench.init();
        let good = bench.slot.metadata("t").unwrap().clone();
        let partitions = super::super::testing::partitions(&[("a", 0)]);
        for bad in [
            Metadata { status: State::Dead, ..good.clone() },
            Metadata { status: State::PrepareEpochFence, ..good.clone() },
            Metadata { producer_id: -1, ..good.clone() },
            Metadata { producer_epoch: -1, ..good.clone() },
            Metadata { partitions, ..good.clone() },
        ] {
            bench.slot.replay(Entry::state("t", bad));
        }
        bench.slot.replay(Entry { transactional_id: "t".to_owned(), state: None, removed: false });
        bench.slot.replay(Entry::removed("never seen"));
        assert_eq!(bench.slot.metadata("t"), Some(&good));
        assert_eq!(bench.slot.snapshot().len(), 1);
    }

    #[test]
    fn a_stored_state_may_have_any_numbers() {
        let mut bench = Bench::new();
        let producer = bench.init();
        bench.add(producer, &[("a", 0)]).unwrap();
        let good = bench.slot.metadata("t").unwrap().clone();
        for (timeout_ms, start) in [(i32::MIN, Some(i64::MIN)), (i32::MAX, Some(i64::MAX)), (0, None)] {
            let odd = Metadata {
                timeout_ms,
                start_timestamp_ms: start,
                producer_epoch: i16::MAX,
                last_update_timestamp_ms: i64::MIN,
                ..good.clone()
            };
            bench.journal = vec![Entry::state("t", odd)];
            bench.reload();
            bench.pass(u64::from(i32::MAX.unsigned_abs()));
            bench.tick();
            assert_eq!(bench.state(), State::PrepareAbort);
            bench.write_markers();
            assert_eq!(bench.init().producer_epoch, 0);
        }
    }
}
