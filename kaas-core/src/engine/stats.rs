//! What an engine counts, for a host that shows metrics.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Buckets of a [`Histogram`]: the last takes everything from about half an hour on.
const BUCKETS: usize = 32;

/// Durations, counted in buckets of powers of two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Histogram {
    /// How many durations were below `2^n` microseconds and not below `2^(n-1)`, by `n`; the last has no limit.
    pub buckets: [u64; BUCKETS],
    /// The sum of them all, in microseconds.
    pub sum_us: u64,
}

impl Histogram {
    /// How many durations there are.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }
}

/// What an engine has counted since it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EngineStats {
    /// Damaged places in segments that a read has met; each counts once for as long as its partition is open.
    pub damaged_ranges: u64,
    /// From the write of a group of batches to its acknowledgement, by the [`Clock`](crate::Clock)'s
    /// [`monotonic`](crate::Clock::monotonic): one for each partition in a commit cycle. Appends to the page cache
    /// that took no cycle are not among them.
    pub commits: Histogram,
}

/// The counters behind [`EngineStats`].
#[derive(Debug, Default)]
pub(crate) struct Counters {
    damaged_ranges: AtomicU64,
    buckets: [AtomicU64; BUCKETS],
    sum_us: AtomicU64,
}

impl Counters {
    pub(crate) fn damaged_range(&self) {
        self.damaged_ranges.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn committed(&self, took: Duration) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let bits = (u64::BITS - us.leading_zeros()) as usize;
        self.buckets[bits.min(BUCKETS - 1)].fetch_add(1, Ordering::Relaxed);
        self.sum_us.fetch_add(us, Ordering::Relaxed);
    }

    pub(crate) fn snapshot(&self) -> EngineStats {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let buckets = std::array::from_fn(|n| load(&self.buckets[n]));
        let commits = Histogram { buckets, sum_us: load(&self.sum_us) };
        EngineStats { damaged_ranges: load(&self.damaged_ranges), commits }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_below_the_power_of_its_bucket() {
        let counters = Counters::default();
        for us in [0, 1, 2, 3, 4, 1023, 1024, u64::MAX / 1000] {
            counters.committed(Duration::from_micros(us));
        }
        let commits = counters.snapshot().commits;
        let counted: Vec<(usize, u64)> =
            commits.buckets.iter().copied().enumerate().filter(|(_, n)| *n > 0).collect();
        assert_eq!(counted, [(0, 1), (1, 1), (2, 2), (3, 1), (10, 1), (11, 1), (31, 1)]);
        assert_eq!(commits.count(), 8);
    }
}
