//! InitProducerId: who has the transactional id from now on.

use super::{Metadata, Partitions, ProducerIdentity, Slot, State, TRANSACTIONAL_IDS_MAX, TransactionError};
use crate::coordinator::{Now, Outbox};

/// The request, for a transactional id.
#[derive(Debug, Clone, Copy)]
pub struct InitProducerId<'a> {
    /// Whose.
    pub transactional_id: &'a str,
    /// How long its transactions may take, in milliseconds.
    pub timeout_ms: i32,
    /// What the producer has, when it goes on after an error instead of beginning (KIP-360).
    pub current: Option<ProducerIdentity>,
}

/// What becomes of the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Initialized {
    /// The producer that may go on; all before it are fenced.
    Producer(ProducerIdentity),
    /// Nothing has changed: call again with a producer id that nobody ever had.
    NeedsProducerId,
}

impl Slot {
    /// Gives the transactional id to a new producer, or moves its producer on to the next epoch.
    ///
    /// `fresh_producer_id` is what was claimed after [`Initialized::NeedsProducerId`]; it may turn out not to be needed any more, and is
    /// lost then. An ongoing transaction is fenced and aborted first: the caller retries until that is done.
    pub fn init_producer_id(
        &mut self,
        request: InitProducerId<'_>,
        fresh_producer_id: Option<i64>,
        now: Now,
        out: &mut Outbox<Self>,
    ) -> Result<Initialized, TransactionError> {
        if request.transactional_id.is_empty() {
            return Err(TransactionError::InvalidRequest);
        }
        if request.timeout_ms <= 0 || request.timeout_ms > self.config.timeout_max_ms {
            return Err(TransactionError::InvalidTransactionTimeout);
        }
        let next = match self.metadata(request.transactional_id) {
            None if self.transactions.len() >= TRANSACTIONAL_IDS_MAX => {
                return Err(TransactionError::TooManyTransactionalIds);
            }
            None => Next::FreshId { last: None, last_epoch: None },
            Some(metadata) if metadata.status.is_prepared() => {
                return Err(TransactionError::ConcurrentTransactions);
            }
            Some(metadata) if !may_name(metadata, request.current) => {
                return Err(TransactionError::ProducerFenced);
            }
            Some(metadata) if metadata.status == State::Ongoing => {
                let fenced = fence(metadata, now);
                self.change(request.transactional_id, fenced, now, out);
                return Err(TransactionError::ConcurrentTransactions);
            }
            Some(metadata) => next(metadata, request.current)?,
        };
        let (producer, last_producer_id, last_producer_epoch) = match next {
            Next::Epoch { producer, last, last_epoch } => (producer, last, last_epoch),
            Next::FreshId { last, last_epoch } => {
                let Some(producer_id) = fresh_producer_id else { return Ok(Initialized::NeedsProducerId) };
                (ProducerIdentity { producer_id, producer_epoch: 0 }, last, last_epoch)
            }
        };
        let metadata = Metadata {
            status: State::Empty,
            producer_id: producer.producer_id,
            producer_epoch: producer.producer_epoch,
            last_producer_id,
            last_producer_epoch,
            timeout_ms: request.timeout_ms,
            partitions: Partitions::default(),
            start_timestamp_ms: self
                .metadata(request.transactional_id)
                .and_then(|old| old.start_timestamp_ms),
            last_update_timestamp_ms: now.wall_ms,
        };
        self.change(request.transactional_id, metadata, now, out);
        Ok(Initialized::Producer(producer))
    }
}

/// The abort of a transaction whose producer is fenced: nobody ever gets the epoch that it is aborted under.
pub(super) fn fence(metadata: &Metadata, now: Now) -> Metadata {
    debug_assert!(State::PrepareEpochFence.may_follow(metadata.status));
    Metadata {
        status: State::PrepareAbort,
        // A producer's own epoch is below the highest, so that there is always one to fence it with.
        producer_epoch: metadata.producer_epoch.saturating_add(1),
        last_producer_epoch: None,
        last_update_timestamp_ms: now.wall_ms,
        ..metadata.clone()
    }
}

/// Which producer comes next.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    Epoch { producer: ProducerIdentity, last: Option<i64>, last_epoch: Option<i16> },
    FreshId { last: Option<i64>, last_epoch: Option<i16> },
}

/// Whether a producer may name this identity: its id is the current one, or the exhausted one before it, which is then a retry.
fn may_name(metadata: &Metadata, current: Option<ProducerIdentity>) -> bool {
    current.is_none_or(|current| {
        current.producer_id == metadata.producer_id
            || (Some(current.producer_id) == metadata.last_producer_id && current.is_exhausted())
    })
}

fn next(metadata: &Metadata, current: Option<ProducerIdentity>) -> Result<Next, TransactionError> {
    let producer = metadata.producer();
    let is_current = current.is_none_or(|current| current.producer_epoch == producer.producer_epoch);
    // Only a producer that goes on may retry: one that begins has fenced all before it.
    let last_epoch = current.map(|_| producer.producer_epoch);
    if is_current && producer.is_exhausted() {
        return Ok(Next::FreshId { last: Some(producer.producer_id), last_epoch });
    }
    if is_current {
        let producer_epoch = producer.producer_epoch + 1;
        let producer = ProducerIdentity { producer_epoch, ..producer };
        return Ok(Next::Epoch { producer, last: None, last_epoch });
    }
    // The answer to a call that moved the producer on was lost: it gets it again.
    if current.map(|current| current.producer_epoch) == metadata.last_producer_epoch {
        let (last, last_epoch) = (metadata.last_producer_id, metadata.last_producer_epoch);
        return Ok(Next::Epoch { producer, last, last_epoch });
    }
    Err(TransactionError::ProducerFenced)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Bench, TIMEOUT_MS};
    use super::super::{Entry, TransactionError as Error};
    use super::*;
    use crate::coordinator::Machine;

    fn at(producer: ProducerIdentity, producer_epoch: i16) -> Option<ProducerIdentity> {
        Some(ProducerIdentity { producer_epoch, ..producer })
    }

    /// A bench whose id has this epoch already.
    fn with_epoch(producer_epoch: i16, last_producer_epoch: Option<i16>) -> (Bench, ProducerIdentity) {
        let mut bench = Bench::new();
        let producer = bench.init();
        let old = bench.slot.metadata("t").unwrap().clone();
        let entry = Entry::state("t", Metadata { producer_epoch, last_producer_epoch, ..old });
        bench.journal.push(entry);
        bench.reload();
        (bench, ProducerIdentity { producer_epoch, ..producer })
    }

    #[test]
    fn what_cannot_be_asked_for_is_refused() {
        let mut bench = Bench::new();
        for timeout_ms in [0, -1, 15 * 60 * 1000 + 1, i32::MAX] {
            assert_eq!(bench.init_for(timeout_ms, None), Err(Error::InvalidTransactionTimeout));
        }
        // The id is looked at before the timeout.
        let empty = InitProducerId { transactional_id: "", timeout_ms: 0, current: None };
        let answer = bench.call(|slot, now, out| slot.init_producer_id(empty, None, now, out));
        assert_eq!(answer, Err(Error::InvalidRequest));
        assert_eq!(bench.journal, []);
        assert!(bench.init_for(15 * 60 * 1000, None).is_ok());
    }

    #[test]
    fn a_new_id_has_a_fresh_producer_and_a_known_one_the_next_epoch() {
        let mut bench = Bench::new();
        let request = InitProducerId { transactional_id: "t", timeout_ms: TIMEOUT_MS, current: None };
        let answer = bench.call(|slot, now, out| slot.init_producer_id(request, None, now, out));
        assert_eq!(answer, Ok(Initialized::NeedsProducerId));
        assert_eq!(bench.journal, [], "nothing has changed");
        let first = bench.init();
        assert_eq!(first, ProducerIdentity { producer_id: 1000, producer_epoch: 0 });
        let second = bench.init();
        assert_eq!(second, ProducerIdentity { producer_epoch: 1, ..first });
        assert_eq!(bench.add(first, &[("a", 0)]), Err(Error::ProducerFenced));
        assert_eq!(bench.end(first, true), Err(Error::ProducerFenced));
        assert_eq!(bench.verify(first, "a"), Err(Error::ProducerFenced));
        assert_eq!(bench.try_init(Some(first)), Err(Error::ProducerFenced));
    }

    #[test]
    fn a_producer_that_goes_on_names_its_epoch_or_repeats_its_call() {
        let mut bench = Bench::new();
        let first = bench.init();
        let second = bench.try_init(Some(first)).unwrap();
        assert_eq!(second.producer_epoch, 1);
        assert_eq!(bench.try_init(Some(first)), Ok(second), "its answer was lost");
        bench.reload();
        assert_eq!(bench.try_init(Some(first)), Ok(second), "after a restart too");
        let third = bench.try_init(Some(second)).unwrap();
        assert_eq!(bench.try_init(Some(first)), Err(Error::ProducerFenced));
        let other = ProducerIdentity { producer_id: third.producer_id + 1, ..third };
        assert_eq!(bench.try_init(Some(other)), Err(Error::ProducerFenced));
        // One that begins has fenced all before it: there is nothing to repeat.
        bench.init();
        assert_eq!(bench.try_init(Some(third)), Err(Error::ProducerFenced));
        assert_eq!(bench.try_init(Some(second)), Err(Error::ProducerFenced));
    }

    #[test]
    fn an_id_that_is_not_known_takes_whatever_its_producer_names() {
        let mut bench = Bench::new();
        let named = ProducerIdentity { producer_id: 7, producer_epoch: 5 };
        let producer = bench.try_init(Some(named)).unwrap();
        assert_eq!(producer, ProducerIdentity { producer_id: 1000, producer_epoch: 0 });
    }

    #[test]
    fn an_ongoing_transaction_is_fenced_and_aborted_first() {
        let mut bench = Bench::new();
        let first = bench.init();
        bench.add(first, &[("a", 0)]).unwrap();
        assert_eq!(bench.try_init(None), Err(Error::ConcurrentTransactions));
        assert_eq!(bench.state(), State::PrepareAbort);
        assert_eq!(bench.effects.len(), 1);
        assert_eq!(bench.effects[0].producer, at(first, 1).unwrap());
        assert!(!bench.effects[0].commit);
        assert_eq!(bench.end(first, true), Err(Error::ProducerFenced));
        assert_eq!(bench.try_init(None), Err(Error::ConcurrentTransactions), "until the markers are written");
        assert_eq!(bench.try_init(at(first, 9)), Err(Error::ConcurrentTransactions), "whoever asks");
        assert_eq!(bench.effects.len(), 1);
        bench.write_markers();
        assert_eq!(bench.state(), State::CompleteAbort);
        // The epoch of the abort was nobody's; the one that was fenced cannot go on.
        assert_eq!(bench.try_init(Some(first)), Err(Error::ProducerFenced));
        assert_eq!(bench.init(), at(first, 2).unwrap());
    }

    #[test]
    fn a_wrong_producer_id_does_not_fence_but_a_wrong_epoch_does() {
        let mut bench = Bench::new();
        let first = bench.init();
        bench.add(first, &[("a", 0)]).unwrap();
        let other = ProducerIdentity { producer_id: first.producer_id + 1, ..first };
        assert_eq!(bench.try_init(Some(other)), Err(Error::ProducerFenced));
        assert_eq!(bench.state(), State::Ongoing);
        assert_eq!(bench.try_init(at(first, 30)), Err(Error::ConcurrentTransactions));
        assert_eq!(bench.state(), State::PrepareAbort);
    }

    #[test]
    fn exhausted_epochs_are_followed_by_a_fresh_producer() {
        let (mut bench, last) = with_epoch(i16::MAX - 1, None);
        let fresh = bench.init();
        assert_eq!(fresh, ProducerIdentity { producer_id: last.producer_id + 1, producer_epoch: 0 });
        assert_eq!(bench.add(last, &[("a", 0)]), Err(Error::InvalidProducerIdMapping));
        assert_eq!(bench.try_init(Some(last)), Err(Error::ProducerFenced), "another producer had begun");

        let (mut bench, last) = with_epoch(i16::MAX - 1, Some(i16::MAX - 2));
        let before = at(last, i16::MAX - 2);
        assert_eq!(bench.try_init(before), Ok(last), "a repeated call");
        let fresh = bench.try_init(Some(last)).unwrap();
        assert_eq!(fresh.producer_epoch, 0);
        assert_eq!(bench.try_init(Some(last)), Ok(fresh), "a repeated call");
        assert_eq!(bench.try_init(Some(last)), Ok(fresh), "once more");
        assert_eq!(bench.try_init(before), Err(Error::ProducerFenced));
    }

    #[test]
    fn the_last_epoch_can_still_be_fenced() {
        let (mut bench, last) = with_epoch(i16::MAX - 1, None);
        bench.add(last, &[("a", 0)]).unwrap();
        assert_eq!(bench.try_init(None), Err(Error::ConcurrentTransactions));
        assert_eq!(bench.effects[0].producer.producer_epoch, i16::MAX);
        bench.write_markers();
        assert_eq!(bench.try_init(Some(last)), Err(Error::ProducerFenced));
        assert_eq!(bench.init().producer_epoch, 0);
    }

    #[test]
    fn a_slot_takes_no_more_ids_than_its_limit() {
        let mut bench = Bench::new();
        bench.init();
        let state = bench.slot.metadata("t").unwrap().clone();
        for number in 1..TRANSACTIONAL_IDS_MAX {
            bench.slot.replay(Entry::state(&number.to_string(), state.clone()));
        }
        let request = InitProducerId { transactional_id: "u", timeout_ms: TIMEOUT_MS, current: None };
        let answer = bench.call(|slot, now, out| slot.init_producer_id(request, None, now, out));
        assert_eq!(answer, Err(Error::TooManyTransactionalIds));
        assert!(bench.try_init(None).is_ok(), "known ones go on");
    }
}
