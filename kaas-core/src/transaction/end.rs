//! EndTxn: the decision, and the markers that carry it out.

use super::{Metadata, Partitions, ProducerIdentity, Slot, State, TransactionError};
use crate::coordinator::{Now, Outbox};

/// One decision of a slot, by which its markers are reported: another life of the slot, and another transaction of the same
/// producer, have others.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Decision {
    /// Whose transaction.
    pub transactional_id: String,
    /// Which life of the slot.
    pub coordinator_epoch: i32,
    number: u64,
}

/// The markers of a decision, to be written until they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteMarkers {
    /// For the reports.
    pub decision: Decision,
    /// The producer, with the epoch that the markers carry.
    pub producer: ProducerIdentity,
    /// Or abort.
    pub commit: bool,
    /// Where.
    pub partitions: Partitions,
}

/// What a decision still owes.
#[derive(Debug)]
pub(super) struct Owed {
    pub(super) number: u64,
    pub(super) partitions: Partitions,
}

impl Slot {
    /// Commits or aborts the producer's transaction.
    ///
    /// The answer may go out when the decision is durable: its markers are written afterwards. The same decision again is no error.
    pub fn end(
        &mut self,
        transactional_id: &str,
        producer: ProducerIdentity,
        commit: bool,
        now: Now,
        out: &mut Outbox<Self>,
    ) -> Result<(), TransactionError> {
        let metadata = self.of_producer(transactional_id, producer)?;
        let status = match metadata.status {
            State::Ongoing if commit => State::PrepareCommit,
            State::Ongoing => State::PrepareAbort,
            State::PrepareCommit | State::PrepareAbort => {
                return Err(TransactionError::ConcurrentTransactions);
            }
            State::CompleteCommit if commit => return Ok(()),
            State::CompleteAbort if !commit => return Ok(()),
            State::Empty
            | State::CompleteCommit
            | State::CompleteAbort
            | State::Dead
            | State::PrepareEpochFence => return Err(TransactionError::InvalidTransactionState),
        };
        let metadata = Metadata { status, last_update_timestamp_ms: now.wall_ms, ..metadata.clone() };
        self.change(transactional_id, metadata, now, out);
        Ok(())
    }

    /// Whether a decision is this slot's and still waits for markers. Not so after a reload, or when all have been reported.
    pub fn owes(&self, decision: &Decision) -> bool {
        decision.coordinator_epoch == self.coordinator_epoch
            && self
                .transactions
                .get(decision.transactional_id.as_str())
                .and_then(|transaction| transaction.owed.as_ref())
                .is_some_and(|owed| owed.number == decision.number)
    }

    /// A marker of a decision is durable, or its partition is gone. The last one completes the transaction.
    pub fn marker_written(
        &mut self,
        decision: &Decision,
        topic: &str,
        partition: i32,
        now: Now,
        out: &mut Outbox<Self>,
    ) {
        if !self.owes(decision) {
            return;
        }
        let Some(transaction) = self.transactions.get_mut(decision.transactional_id.as_str()) else { return };
        let Some(owed) = &mut transaction.owed else { return };
        owed.partitions.remove(topic, partition);
        if owed.partitions.is_empty() {
            self.complete(&decision.transactional_id, now, out);
        }
    }

    /// Asks the host for the markers of a decided transaction.
    pub(super) fn ask_for_markers(&mut self, transactional_id: &str, now: Now, out: &mut Outbox<Self>) {
        let Some(transaction) = self.transactions.get_mut(transactional_id) else { return };
        let partitions = transaction.metadata.partitions.clone();
        if partitions.is_empty() {
            return self.complete(transactional_id, now, out);
        }
        self.decisions += 1;
        transaction.owed = Some(Owed { number: self.decisions, partitions: partitions.clone() });
        out.effects.push(WriteMarkers {
            decision: Decision {
                transactional_id: transactional_id.to_owned(),
                coordinator_epoch: self.coordinator_epoch,
                number: self.decisions,
            },
            producer: transaction.metadata.producer(),
            commit: transaction.metadata.status == State::PrepareCommit,
            partitions,
        });
    }

    fn complete(&mut self, transactional_id: &str, now: Now, out: &mut Outbox<Self>) {
        let Some(metadata) = self.metadata(transactional_id) else { return };
        let commit = metadata.status == State::PrepareCommit;
        let metadata = Metadata {
            status: if commit { State::CompleteCommit } else { State::CompleteAbort },
            partitions: Partitions::default(),
            last_update_timestamp_ms: now.wall_ms,
            ..metadata.clone()
        };
        self.change(transactional_id, metadata, now, out);
    }
}

#[cfg(test)]
mod tests {
    use super::super::TransactionError as Error;
    use super::super::testing::{Bench, partitions};
    use super::*;

    fn begun() -> (Bench, ProducerIdentity) {
        let mut bench = Bench::new();
        let producer = bench.init();
        bench.add(producer, &[("a", 0), ("b", 0)]).unwrap();
        (bench, producer)
    }

    #[test]
    fn a_decision_is_complete_when_all_its_markers_are_written() {
        for (commit, prepared, complete) in [
            (true, State::PrepareCommit, State::CompleteCommit),
            (false, State::PrepareAbort, State::CompleteAbort),
        ] {
            let (mut bench, producer) = begun();
            bench.end(producer, commit).unwrap();
            assert_eq!(bench.state(), prepared);
            let effect = bench.effects.pop().unwrap();
            assert_eq!((effect.producer, effect.commit), (producer, commit));
            assert_eq!(effect.partitions, partitions(&[("a", 0), ("b", 0)]));
            for again in [true, false] {
                assert_eq!(bench.end(producer, again), Err(Error::ConcurrentTransactions));
            }
            bench.written(&effect.decision, "a", 0);
            bench.written(&effect.decision, "a", 0);
            assert_eq!(bench.state(), prepared);
            bench.written(&effect.decision, "b", 0);
            assert_eq!(bench.state(), complete);
            assert!(bench.slot.metadata("t").unwrap().partitions.is_empty());
            assert_eq!(bench.told(), [State::Empty, State::Ongoing, prepared, complete]);
            assert_eq!(bench.end(producer, commit), Ok(()), "the same again");
            assert_eq!(bench.end(producer, !commit), Err(Error::InvalidTransactionState));
            assert_eq!(bench.journal.len(), 4);
        }
    }

    #[test]
    fn there_is_nothing_to_end_before_a_transaction() {
        let mut bench = Bench::new();
        let producer = ProducerIdentity { producer_id: 1000, producer_epoch: 0 };
        assert_eq!(bench.end(producer, true), Err(Error::InvalidProducerIdMapping));
        assert_eq!(bench.init(), producer);
        for commit in [true, false] {
            assert_eq!(bench.end(producer, commit), Err(Error::InvalidTransactionState));
        }
        let newer = ProducerIdentity { producer_epoch: 1, ..producer };
        assert_eq!(bench.end(newer, true), Err(Error::ProducerFenced));
        let empty = bench.call(|slot, now, out| slot.end("", producer, true, now, out));
        assert_eq!(empty, Err(Error::InvalidRequest));
    }

    #[test]
    fn a_transaction_without_partitions_is_complete_at_once() {
        let mut bench = Bench::new();
        let producer = bench.init();
        bench.add(producer, &[]).unwrap();
        bench.end(producer, true).unwrap();
        assert_eq!(bench.effects, []);
        let told = [State::Empty, State::Ongoing, State::PrepareCommit, State::CompleteCommit];
        assert_eq!(bench.told(), told);
        // The same when the second entry is lost.
        bench.journal.truncate(3);
        bench.reload();
        assert_eq!(bench.state(), State::CompleteCommit);
        assert_eq!(bench.told(), told);
    }

    #[test]
    fn what_was_decided_is_asked_for_again_after_a_reload() {
        let (mut bench, producer) = begun();
        bench.end(producer, true).unwrap();
        let first = bench.effects[0].clone();
        bench.written(&first.decision, "a", 0);
        bench.reload();
        let second = bench.effects[0].clone();
        assert_eq!(second.decision.coordinator_epoch, 2);
        assert_eq!((second.producer, second.commit), (producer, true));
        assert_eq!(second.partitions, first.partitions, "which ones were written is not durable");
        bench.written(&second.decision, "a", 0);
        bench.written(&first.decision, "b", 0);
        assert_eq!(bench.state(), State::PrepareCommit, "a report to an earlier life does not count");
        assert!(bench.slot.owes(&second.decision) && !bench.slot.owes(&first.decision));
        bench.written(&second.decision, "b", 0);
        assert_eq!(bench.state(), State::CompleteCommit);
        assert!(!bench.slot.owes(&second.decision));
    }

    #[test]
    fn a_late_report_says_nothing_about_the_next_transaction() {
        let (mut bench, producer) = begun();
        bench.end(producer, true).unwrap();
        let first = bench.effects[0].decision.clone();
        bench.write_markers();
        bench.add(producer, &[("a", 0)]).unwrap();
        bench.written(&first, "a", 0);
        assert_eq!(bench.state(), State::Ongoing);
        bench.end(producer, false).unwrap();
        bench.written(&first, "a", 0);
        assert_eq!(bench.state(), State::PrepareAbort);
    }
}
