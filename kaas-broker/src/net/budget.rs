//! Memory for requests: a frame's bytes are accounted before they are buffered and until its reply is flushed.
//!
//! Backpressure is not reading the socket: a connection that gets no permit waits, and its client with it.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The unit of account. Kafka's bounds reach 2 GiB and more; a semaphore counts in 32 bits.
const UNIT: usize = 1024;

/// The bytes that requests may occupy at the same time (`queued.max.request.bytes`).
#[derive(Clone, Debug)]
pub struct Budget {
    units: Option<(Arc<Semaphore>, usize)>,
}

/// Bytes that are accounted for; dropping it gives them back.
#[derive(Debug, Default)]
pub struct Permit {
    bytes: usize,
    held: Vec<OwnedSemaphorePermit>,
}

impl Budget {
    /// A budget of so many bytes; `None` has no bound.
    pub fn new(bytes: Option<usize>) -> Budget {
        let units = bytes.map(|bytes| {
            let units = (bytes / UNIT).clamp(1, Semaphore::MAX_PERMITS);
            (Arc::new(Semaphore::new(units)), units)
        });
        Budget { units }
    }

    /// Raises `permit` to `bytes`, waiting until they are free. Cancelling leaves the permit as it was.
    ///
    /// A request larger than the whole budget waits for all of it, so that it can be served alone.
    pub async fn raise(&self, permit: &mut Permit, bytes: usize) {
        let Some((semaphore, total)) = &self.units else { return };
        let wanted = bytes.div_ceil(UNIT).min(*total);
        let has = permit.bytes.div_ceil(UNIT).min(*total);
        if wanted > has {
            let more = u32::try_from(wanted - has).unwrap_or(u32::MAX);
            let taken = Arc::clone(semaphore).acquire_many_owned(more).await;
            permit.held.push(taken.expect("the budget's semaphore is never closed"));
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
        let (semaphore, _) = budget.units.as_ref().unwrap();
        assert_eq!(semaphore.available_permits(), 2);
        drop(second);
        assert_eq!(semaphore.available_permits(), 10);
    }

    #[tokio::test]
    async fn a_request_larger_than_the_budget_is_served_alone() {
        let budget = Budget::new(Some(2 * UNIT));
        let mut permit = Permit::default();
        budget.raise(&mut permit, 100 * UNIT).await;
        assert_eq!(budget.units.as_ref().unwrap().0.available_permits(), 0);
    }
}
