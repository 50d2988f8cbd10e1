//! A histogram of durations with a bounded relative error, after HdrHistogram.

use std::time::Duration;

/// Each power of two is cut into so many buckets: the error is below 1/64.
const BUCKETS_PER_OCTAVE: u64 = 64;
const OCTAVES: u64 = 40;

/// Counts of durations from a nanosecond to minutes.
#[derive(Clone, Debug)]
pub(crate) struct Histogram {
    counts: Vec<u64>,
    total: u64,
}

impl Histogram {
    /// No durations yet.
    pub(crate) fn new() -> Self {
        Self { counts: vec![0; (BUCKETS_PER_OCTAVE * OCTAVES) as usize], total: 0 }
    }

    /// Counts one duration.
    pub(crate) fn record(&mut self, duration: Duration) {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let last = self.counts.len() - 1;
        self.counts[bucket(nanos).min(last)] += 1;
        self.total += 1;
    }

    /// The number of durations.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// The duration that `share` (0 to 1) of all do not exceed, in microseconds; 0 when there are none.
    pub(crate) fn percentile_us(&self, share: f64) -> f64 {
        let wanted = ((self.total as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return upper_end(index) as f64 / 1000.0;
            }
        }
        0.0
    }
}

fn bucket(nanos: u64) -> usize {
    if nanos < BUCKETS_PER_OCTAVE {
        return nanos as usize;
    }
    let octave = u64::from(nanos.ilog2() - BUCKETS_PER_OCTAVE.ilog2());
    let within = (nanos >> octave) - BUCKETS_PER_OCTAVE;
    ((octave + 1) * BUCKETS_PER_OCTAVE + within) as usize
}

fn upper_end(index: usize) -> u64 {
    let index = index as u64;
    if index < BUCKETS_PER_OCTAVE {
        return index;
    }
    let octave = index / BUCKETS_PER_OCTAVE - 1;
    ((index % BUCKETS_PER_OCTAVE + BUCKETS_PER_OCTAVE + 1) << octave) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_holds_what_falls_into_it() {
        for nanos in (0..200_000u64).chain([1 << 20, 123_456_789, 60_000_000_000]) {
            let end = upper_end(bucket(nanos));
            assert!(end >= nanos && (end - nanos) as f64 <= nanos as f64 / 63.0, "{nanos} {end}");
            assert!(bucket(end + 1) > bucket(nanos), "{nanos}");
        }
    }

    #[test]
    fn percentiles_are_those_of_the_durations() {
        let mut histogram = Histogram::new();
        (1..=1000).for_each(|micros| histogram.record(Duration::from_micros(micros)));
        for (share, micros) in [(0.5, 500.0), (0.99, 990.0), (1.0, 1000.0)] {
            let found = histogram.percentile_us(share);
            assert!((found - micros).abs() / micros < 0.02, "{share}: {found}");
        }
        assert_eq!(Histogram::new().percentile_us(0.5), 0.0);
    }
}
