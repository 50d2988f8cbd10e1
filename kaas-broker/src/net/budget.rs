//! Memory for requests: a frame's bytes are accounted before they are buffered and until its reply is flushed.
//!
//! Backpressure is not reading the socket: a connection that gets no permit waits, and its client with it.
//!
//! A permit grows with the frame, so connections that all hold a part could wait for each other for ever. Therefore one of them at a time
//! may go over the budget: it is completed, served and flushed, and its permit is what the others wait for.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The unit of account. Kafka's bounds reach 2 GiB and more; a semaphore counts in 32 bits.
const UNIT: usize = 1024;

/// The bytes that requests may occupy at the same time (`queued.max.request.bytes`).
#[derive(Clone, Debug)]
pub struct Budget {
    units: Option<Units>,
}

#[derive(Clone, Debug)]
struct Units {
    free: Arc<Semaphore>,
    total: usize,
    /// The right to go over the budget, of which there is one.
    overdraft: Arc<Semaphore>,
}

/// Bytes that are accounted for; dropping it gives them back.
#[derive(Debug, Default)]
pub struct Permit {
    bytes: usize,
    held: Vec<OwnedSemaphorePermit>,
    overdrawn: bool,
}

impl Budget {
    /// A budget of so many bytes; `None` has no bound.
    pub fn new(bytes: Option<usize>) -> Budget {
        let units = bytes.map(|bytes| {
            let total = (bytes / UNIT).clamp(1, Semaphore::MAX_PERMITS);
            Units { free: Arc::new(Semaphore::new(total)), total, overdraft: Arc::new(Semaphore::new(1)) }
        });
        Budget { units }
    }

    /// Raises `permit` to `bytes`, waiting until they are free. Cancelling leaves the permit as it was.
    ///
    /// The first bytes are always waited for; a permit that has some may go over the budget when no other does. So requests occupy the
    /// budget and one request more, at most.
    pub async fn raise(&self, permit: &mut Permit, bytes: usize) {
        let Some(Units { free, total, overdraft }) = &self.units else { return };
        let wanted = bytes.div_ceil(UNIT).min(*total);
        let has = permit.bytes.div_ceil(UNIT).min(*total);
        if wanted > has && !permit.overdrawn {
            let more = u32::try_from(wanted - has).unwrap_or(u32::MAX);
            let taken = tokio::select! {
                biased;
                taken = Arc::clone(free).acquire_many_owned(more) => taken,
                taken = Arc::clone(overdraft).acquire_owned(), if has > 0 => {
                    permit.overdrawn = true;
                    taken
                }
            };
            permit.held.push(taken.expect("the budget's semaphores are never closed"));
        }
        permit.bytes = permit.bytes.max(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_request_waits_for_the_bytes_of_another_and_gets_them_when_it_is_flushed() {
        let budget = Budget::new(Some(10 * UNIT));
        let mut first = Permit::default();
        budget.raise(&mut first, 6 * UNIT).await;
        let mut second = Permit::default();
        {
            let mut waiting = tokio_test::task::spawn(budget.raise(&mut second, 5 * UNIT));
            assert!(waiting.poll().is_pending());
            drop(first);
            assert!(waiting.is_woken());
            assert!(waiting.poll().is_ready());
        }
        budget.raise(&mut second, 8 * UNIT).await;
        let semaphore = &budget.units.as_ref().unwrap().free;
        assert_eq!(semaphore.available_permits(), 2);
        drop(second);
        assert_eq!(semaphore.available_permits(), 10);
    }

    #[tokio::test]
    async fn a_request_larger_than_the_budget_is_served_alone() {
        let budget = Budget::new(Some(2 * UNIT));
        let mut permit = Permit::default();
        budget.raise(&mut permit, 100 * UNIT).await;
        assert_eq!(budget.units.as_ref().unwrap().free.available_permits(), 0);
    }

    #[tokio::test]
    async fn of_permits_that_wait_for_each_other_one_goes_over_the_budget_and_the_others_follow() {
        let budget = Budget::new(Some(10 * UNIT));
        let (mut first, mut second, mut third) = Default::default();
        budget.raise(&mut first, 5 * UNIT).await;
        budget.raise(&mut second, 5 * UNIT).await;
        // Who has nothing holds nobody up, and waits.
        let mut newcomer = tokio_test::task::spawn(budget.raise(&mut third, UNIT));
        assert!(newcomer.poll().is_pending());
        for bytes in [8 * UNIT, 20 * UNIT] {
            assert!(tokio_test::task::spawn(budget.raise(&mut first, bytes)).poll().is_ready());
        }
        let mut waiting = tokio_test::task::spawn(budget.raise(&mut second, 8 * UNIT));
        assert!(waiting.poll().is_pending(), "one at a time");
        drop(first);
        assert!(waiting.poll().is_ready());
        drop(waiting);
        drop(second);
        assert!(newcomer.poll().is_ready());
        drop(newcomer);
        drop(third);
        let units = budget.units.as_ref().unwrap();
        assert_eq!((units.free.available_permits(), units.overdraft.available_permits()), (10, 1));
    }
}
