//! Which segments a log may let go of: Kafka's rules, without I/O of their own.

use crate::config::LogConfig;

/// A segment as retention sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Candidate {
    /// The offset after its last record.
    pub(crate) end_offset: i64,
    /// Its place among the log's segments.
    pub(crate) at: usize,
    /// Whether appends may still go into it.
    pub(crate) active: bool,
}

/// What has to be looked up, and only for the segments whose turn it is.
pub(crate) trait Look {
    /// Why a look may fail.
    type Error;
    /// Bytes of the segment at this place.
    fn bytes(&mut self, at: usize) -> Result<u64, Self::Error>;
    /// Its greatest timestamp in milliseconds; `None` when nothing tells its age.
    fn largest_timestamp(&mut self, at: usize) -> Result<Option<i64>, Self::Error>;
}

/// How many segments, from the oldest on, are to be removed.
///
/// In this order: what lies below the log start, what is too much, what is too old. Only a log whose
/// `cleanup.policy` contains `delete` has the last two. The active segment may be among them: then it must be
/// rolled first. Segments go in order, so one record with a timestamp in the future keeps all that follow it.
pub(crate) fn removable<L: Look>(
    config: &LogConfig,
    now_ms: i64,
    log_start: i64,
    segments: &[Candidate],
    look: &mut L,
) -> Result<usize, L::Error> {
    let mut removed = segments.iter().take_while(|s| !s.active && s.end_offset <= log_start).count();
    if !config.delete {
        return Ok(removed);
    }
    if let Ok(retention_bytes) = u64::try_from(config.retention_bytes) {
        let mut sizes = Vec::with_capacity(segments.len() - removed);
        for segment in &segments[removed..] {
            sizes.push(look.bytes(segment.at)?);
        }
        let mut excess = sizes.iter().sum::<u64>().checked_sub(retention_bytes);
        for size in sizes {
            excess = excess.and_then(|excess| excess.checked_sub(size));
            if excess.is_none() {
                break;
            }
            removed += 1;
        }
    }
    if config.retention_ms >= 0 {
        for segment in &segments[removed..] {
            let expired = |at: i64| now_ms.saturating_sub(at) > config.retention_ms;
            if !look.largest_timestamp(segment.at)?.is_some_and(expired) {
                break;
            }
            removed += 1;
        }
    }
    Ok(removed)
}

/// Whether a segment is old enough to be closed before a batch of `timestamp` goes into it: Kafka counts from the
/// greatest timestamp of its first batch, and where that has none, from when the file was opened.
pub(crate) fn is_time_to_roll(age: SegmentAge, segment_ms: i64, timestamp: i64, now_ms: i64) -> bool {
    let waited = if age.first_timestamp >= 0 {
        timestamp.saturating_sub(age.first_timestamp)
    } else {
        now_ms.saturating_sub(age.opened_ms)
    };
    waited > segment_ms
}

/// What the age of a segment is counted from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SegmentAge {
    /// The greatest timestamp of its first batch, or -1.
    pub(crate) first_timestamp: i64,
    /// When it was created, or opened again.
    pub(crate) opened_ms: i64,
}

/// `segment.ms` of one segment: less `segment.jitter.ms` times a fraction that its name decides, so that segments
/// which began together do not all end together, and the same one always ends the same way.
pub(crate) fn segment_ms(config: &LogConfig, dir: &str, base_offset: i64) -> i64 {
    // What must be compacted in time must be closed in time.
    let longest =
        if config.compact { config.segment_ms.min(config.max_compaction_lag_ms) } else { config.segment_ms };
    let jitter_max = config.segment_jitter_ms.min(longest);
    if jitter_max <= 0 {
        return longest;
    }
    let seed = crc32c::crc32c_append(crc32c::crc32c(dir.as_bytes()), &base_offset.to_be_bytes());
    longest - (i64::from(seed) << 31 | i64::from(seed >> 1)) % jitter_max
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Known(Vec<(u64, Option<i64>)>, Vec<usize>);

    impl Look for Known {
        type Error = ();

        fn bytes(&mut self, at: usize) -> Result<u64, ()> {
            Ok(self.0[at].0)
        }

        fn largest_timestamp(&mut self, at: usize) -> Result<Option<i64>, ()> {
            self.1.push(at);
            Ok(self.0[at].1)
        }
    }

    fn config(retention_ms: i64, retention_bytes: i64) -> LogConfig {
        LogConfig { retention_ms, retention_bytes, ..LogConfig::default() }
    }

    /// Segments of ten records each; the last is active.
    fn count(config: &LogConfig, now_ms: i64, log_start: i64, known: &[(u64, Option<i64>)]) -> usize {
        let last = known.len() - 1;
        let candidate = |at: usize| Candidate { end_offset: at as i64 * 10 + 10, at, active: at == last };
        let segments: Vec<Candidate> = (0..known.len()).map(candidate).collect();
        removable(config, now_ms, log_start, &segments, &mut Known(known.to_vec(), Vec::new())).unwrap()
    }

    const THREE: [(u64, Option<i64>); 3] = [(100, Some(10)), (100, Some(20)), (50, Some(30))];

    #[test]
    fn age_is_strict_and_ends_at_the_first_segment_that_is_young() {
        assert_eq!(count(&config(100, -1), 110, 0, &THREE), 0, "exactly as old as retention.ms");
        assert_eq!(count(&config(100, -1), 111, 0, &THREE), 1);
        assert_eq!(count(&config(100, -1), 1000, 0, &THREE), 3, "the active one too");
        assert_eq!(count(&config(-1, -1), i64::MAX, 0, &THREE), 0);
        let pinned = [(1, Some(10)), (1, Some(i64::MAX)), (1, Some(10))];
        assert_eq!(count(&config(100, -1), 1000, 0, &pinned), 1);
        assert_eq!(count(&config(100, -1), 1000, 0, &[(1, None), (1, Some(1))]), 0, "nothing tells its age");
    }

    #[test]
    fn size_keeps_at_least_retention_bytes() {
        assert_eq!(count(&config(-1, 250), 0, 0, &THREE), 0);
        assert_eq!(count(&config(-1, 151), 0, 0, &THREE), 0);
        assert_eq!(count(&config(-1, 150), 0, 0, &THREE), 1);
        assert_eq!(count(&config(-1, 50), 0, 0, &THREE), 2);
        assert_eq!(count(&config(-1, 0), 0, 0, &THREE), 3);
        assert_eq!(count(&config(5, 150), 30, 0, &THREE), 2, "size first, then age");
    }

    #[test]
    fn what_lies_below_the_log_start_goes_whatever_the_policy_says_but_for_the_active_one() {
        let compact = LogConfig { delete: false, compact: true, ..config(0, 0) };
        assert_eq!(count(&compact, 1000, 9, &THREE), 0);
        assert_eq!(count(&compact, 1000, 10, &THREE), 1);
        assert_eq!(count(&compact, 1000, 30, &THREE), 2);
        assert_eq!(count(&config(-1, -1), 1000, 30, &THREE), 2);
    }

    #[test]
    fn only_the_first_young_segment_is_looked_at() {
        let mut known = Known(THREE.to_vec(), Vec::new());
        let segments = [0, 1, 2].map(|at| Candidate { end_offset: 1, at, active: at == 2 });
        removable(&config(1_000_000, -1), 100, 0, &segments, &mut known).unwrap();
        assert_eq!(known.1, [0]);
    }

    #[test]
    fn rolling_counts_from_the_first_timestamp_and_jitter_only_shortens() {
        let age = SegmentAge { first_timestamp: 1000, opened_ms: 5 };
        assert!(!is_time_to_roll(age, 100, 1100, i64::MAX));
        assert!(is_time_to_roll(age, 100, 1101, 0));
        let no_time = SegmentAge { first_timestamp: -1, ..age };
        assert!(!is_time_to_roll(no_time, 100, i64::MAX, 105));
        assert!(is_time_to_roll(no_time, 100, -1, 106));
        let config = LogConfig { segment_ms: 1000, segment_jitter_ms: 300, ..LogConfig::default() };
        let ages: Vec<i64> = (0..50).map(|base| segment_ms(&config, "topics/t/0", base)).collect();
        assert!(ages.iter().all(|ms| (701..=1000).contains(ms)), "{ages:?}");
        assert!(ages.iter().collect::<std::collections::BTreeSet<_>>().len() > 25);
        assert_eq!(ages[7], segment_ms(&config, "topics/t/0", 7));
    }
}
