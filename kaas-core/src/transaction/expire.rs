//! What time ends: transactions that take too long, and ids that nobody uses.

use super::Slot;
use super::init::fence;
use crate::coordinator::{Now, Outbox};

/// Ids that one tick forgets: the next ones wait for the next tick, which is due at once.
const EXPIRED_PER_TICK: usize = 1000;

impl Slot {
    /// Fences the producers whose transactions are over, and aborts these.
    pub(super) fn abort_timed_out(&mut self, now: Now, out: &mut Outbox<Self>) {
        while let Some((deadline, id)) = self.timeouts.first().cloned() {
            if deadline > now.mono {
                return;
            }
            let Some(metadata) = self.metadata(&id) else { return };
            let fenced = fence(metadata, now);
            self.change(&id, fenced, now, out);
        }
    }

    /// Forgets the ids without a transaction that nobody has used for `transactional.id.expiration.ms`.
    pub(super) fn remove_expired(&mut self, now: Now, out: &mut Outbox<Self>) {
        if now.mono < self.expiration_check {
            return;
        }
        let newest = now.wall_ms.saturating_sub(self.config.expiration_ms);
        let is_expired = |(last_update, _): &&(i64, _)| *last_update <= newest;
        let expired: Vec<_> =
            self.idle.iter().take_while(is_expired).take(EXPIRED_PER_TICK).cloned().collect();
        for (_, id) in &expired {
            self.remove(id, out);
        }
        if expired.len() < EXPIRED_PER_TICK {
            self.expiration_check = now.mono.saturating_add(self.config.expiration_interval);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::testing::{Bench, TIMEOUT_MS};
    use super::super::{Entry, ProducerIdentity, State, TransactionError as Error};
    use super::*;
    use crate::coordinator::Machine;

    const TIMEOUT: u64 = TIMEOUT_MS as u64;
    const WEEK: u64 = 7 * 24 * 60 * 60 * 1000;

    fn begun() -> (Bench, ProducerIdentity) {
        let mut bench = Bench::new();
        let producer = bench.init();
        // Nobody looks for expired ids in these tests.
        bench.tick();
        bench.add(producer, &[("a", 0)]).unwrap();
        (bench, producer)
    }

    #[test]
    fn a_transaction_that_takes_too_long_is_fenced_and_aborted() {
        let (mut bench, producer) = begun();
        assert_eq!(bench.slot.deadline(), Some(bench.now.mono + Duration::from_millis(TIMEOUT)));
        bench.pass(TIMEOUT - 1);
        bench.add(producer, &[("b", 0)]).unwrap();
        bench.tick();
        assert_eq!(bench.state(), State::Ongoing);
        bench.pass(1);
        bench.tick();
        assert_eq!(bench.state(), State::PrepareAbort, "more partitions give no more time");
        assert_eq!(bench.effects[0].producer.producer_epoch, producer.producer_epoch + 1);
        assert_eq!(bench.slot.deadline(), None);
        assert_eq!(bench.end(producer, true), Err(Error::ProducerFenced));
        bench.write_markers();
        assert_eq!(bench.state(), State::CompleteAbort);
        assert_eq!(bench.try_init(Some(producer)), Err(Error::ProducerFenced));
    }

    #[test]
    fn the_wall_clock_ends_no_transaction() {
        let (mut bench, _) = begun();
        bench.now.wall_ms += i64::try_from(WEEK).unwrap();
        bench.tick();
        assert_eq!(bench.state(), State::Ongoing);
    }

    #[test]
    fn a_decided_transaction_does_not_time_out() {
        let (mut bench, producer) = begun();
        bench.end(producer, true).unwrap();
        bench.pass(10 * TIMEOUT);
        bench.tick();
        assert_eq!(bench.state(), State::PrepareCommit);
    }

    #[test]
    fn a_reload_gives_what_the_wall_clock_leaves_of_the_time() {
        let (mut bench, _) = begun();
        bench.pass(TIMEOUT / 3);
        bench.reload();
        let left = |bench: &Bench| bench.slot.deadline().unwrap().saturating_sub(bench.now.mono);
        assert_eq!(left(&bench), Duration::from_millis(TIMEOUT - TIMEOUT / 3));
        bench.now.wall_ms -= i64::try_from(WEEK).unwrap();
        bench.reload();
        assert_eq!(left(&bench), Duration::from_millis(TIMEOUT), "never more than all of it");
        bench.now.wall_ms += i64::try_from(2 * WEEK).unwrap();
        bench.reload();
        assert_eq!(left(&bench), Duration::ZERO);
        bench.tick();
        assert_eq!(bench.state(), State::PrepareAbort);
    }

    #[test]
    fn an_id_that_nobody_uses_is_forgotten() {
        let mut bench = Bench::new();
        bench.init();
        bench.tick();
        let hour = Duration::from_secs(60 * 60);
        assert_eq!(bench.slot.deadline(), Some(bench.now.mono + hour));
        bench.pass(WEEK - 1);
        bench.tick();
        assert!(bench.slot.metadata("t").is_some());
        bench.pass(1);
        bench.tick();
        assert!(bench.slot.metadata("t").is_some(), "not every moment is looked at");
        bench.now.mono += hour;
        bench.tick();
        assert!(bench.slot.metadata("t").is_none());
        assert_eq!(bench.journal.last(), Some(&Entry::removed("t")));
        assert_eq!(bench.slot.deadline(), None);
        bench.reload();
        assert!(bench.slot.metadata("t").is_none());
        // Whoever comes back gets a producer id that nobody had.
        assert_eq!(bench.init(), ProducerIdentity { producer_id: 1001, producer_epoch: 0 });
    }

    #[test]
    fn an_id_with_a_transaction_does_not_expire() {
        let (mut bench, producer) = begun();
        bench.end(producer, true).unwrap();
        bench.pass(2 * WEEK);
        bench.tick();
        assert_eq!(bench.state(), State::PrepareCommit);
        bench.write_markers();
        bench.tick();
        assert_eq!(bench.state(), State::CompleteCommit, "its time begins with its last change");
    }

    #[test]
    fn one_tick_forgets_no_more_than_its_limit() {
        let mut bench = Bench::new();
        bench.init();
        let state = bench.slot.metadata("t").unwrap().clone();
        for number in 0..EXPIRED_PER_TICK {
            bench.slot.replay(Entry::state(&number.to_string(), state.clone()));
        }
        bench.pass(2 * WEEK);
        bench.tick();
        assert_eq!(bench.slot.snapshot().len(), 1);
        assert!(bench.slot.deadline().unwrap() <= bench.now.mono, "the rest is due");
        bench.tick();
        assert_eq!(bench.slot.snapshot(), []);
    }
}
