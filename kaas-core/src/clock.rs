//! The wall clock as a seam: timestamps come from here, never from the system directly.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Wall-clock time in milliseconds; used for timestamps only, never to decide what is durable.
pub trait Clock: Send + Sync + fmt::Debug {
    /// Milliseconds since the Unix epoch.
    fn now_ms(&self) -> i64;

    /// Time since an arbitrary moment, for measuring how long something took; it never goes back. A clock that
    /// does not measure stands still, and so do the statistics.
    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }
}

/// The operating system's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now_ms(&self) -> i64 {
        // A clock set before 1970 reads as 0: a wrong timestamp must not stop the log.
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |elapsed| i64::try_from(elapsed.as_millis()).unwrap_or(i64::MAX))
    }

    fn monotonic(&self) -> Duration {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        Duration::try_from(time).unwrap_or(Duration::ZERO)
    }
}

/// A clock that moves only when told to.
#[cfg(feature = "test-util")]
#[derive(Debug, Default)]
pub struct ManualClock {
    wall_ms: std::sync::atomic::AtomicI64,
    mono_ms: std::sync::atomic::AtomicU64,
}

#[cfg(feature = "test-util")]
impl ManualClock {
    /// A clock that shows `now_ms`.
    pub fn at(now_ms: i64) -> Self {
        Self { wall_ms: std::sync::atomic::AtomicI64::new(now_ms), ..Self::default() }
    }

    /// Moves the clock by `delta_ms`, which may be negative; its monotonic time then stands still.
    pub fn advance(&self, delta_ms: i64) {
        self.wall_ms.fetch_add(delta_ms, std::sync::atomic::Ordering::SeqCst);
        let passed = u64::try_from(delta_ms).unwrap_or(0);
        self.mono_ms.fetch_add(passed, std::sync::atomic::Ordering::SeqCst);
    }
}

#[cfg(feature = "test-util")]
impl Clock for ManualClock {
    fn now_ms(&self) -> i64 {
        self.wall_ms.load(std::sync::atomic::Ordering::SeqCst)
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.mono_ms.load(std::sync::atomic::Ordering::SeqCst))
    }
}
