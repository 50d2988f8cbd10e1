//! The session deadline: a second check that shares nothing with the fence file.
//!
//! Whoever grants the session promises to let its whole length pass, on a clock of its own, before it gives this
//! broker's partitions to another. The deadline counts from when the renewal was sent, and is looked at after the
//! sync. It holds as long as no clock runs much faster than another; the fence file holds without any clock.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::fence::{Fence, Fenced};

/// A clock that never jumps and goes on while the machine sleeps.
pub trait BootClock: Send + Sync + fmt::Debug {
    /// Time since an arbitrary moment before the program started.
    fn now(&self) -> Duration;
}

/// `CLOCK_BOOTTIME`.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemBootClock;

impl BootClock for SystemBootClock {
    fn now(&self) -> Duration {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        Duration::try_from(time).unwrap_or(Duration::ZERO)
    }
}

/// A fence that holds until a deadline, which renewals move. Give it to [`EngineOptions::fence`](crate::EngineOptions::fence).
#[derive(Debug)]
pub struct Session {
    clock: Arc<dyn BootClock>,
    /// Nanoseconds on the clock; 0 before the first renewal.
    deadline: AtomicU64,
}

impl Session {
    /// A session that has not begun: it lets nothing pass before the first [`renewed`](Self::renewed).
    pub fn new(clock: Arc<dyn BootClock>) -> Self {
        Self { clock, deadline: AtomicU64::new(0) }
    }

    /// The session was granted for `length` by the answer to a request that was sent at `sent`, on the same clock.
    /// A deadline never moves back.
    pub fn renewed(&self, sent: Duration, length: Duration) {
        let deadline = u64::try_from((sent + length).as_nanos()).unwrap_or(u64::MAX);
        self.deadline.fetch_max(deadline, Ordering::AcqRel);
    }
}

impl Fence for Session {
    fn check(&self) -> Result<(), Fenced> {
        let now = u64::try_from(self.clock.now().as_nanos()).unwrap_or(u64::MAX);
        if now < self.deadline.load(Ordering::Acquire) { Ok(()) } else { Err(Fenced) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default)]
    struct Hand(AtomicU64);

    impl BootClock for Hand {
        fn now(&self) -> Duration {
            Duration::from_secs(self.0.load(Ordering::SeqCst))
        }
    }

    #[test]
    fn a_session_ends_when_it_was_not_renewed_in_time() {
        let hand = Arc::new(Hand::default());
        let session = Session::new(Arc::clone(&hand) as Arc<dyn BootClock>);
        assert_eq!(session.check(), Err(Fenced), "it has not begun");
        session.renewed(Duration::from_secs(0), Duration::from_secs(10));
        hand.0.store(9, Ordering::SeqCst);
        assert_eq!(session.check(), Ok(()));
        session.renewed(Duration::from_secs(8), Duration::from_secs(1));
        assert_eq!(session.check(), Ok(()), "a late answer does not shorten it");
        hand.0.store(10, Ordering::SeqCst);
        assert_eq!(session.check(), Err(Fenced), "the deadline counts from the request");
    }
}
