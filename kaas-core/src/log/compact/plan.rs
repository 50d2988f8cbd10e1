//! Which part of a log is to be compacted, whether it is time to, and in which groups segments are merged: Kafka's
//! rules, without I/O of their own.

use crate::config::LogConfig;
use crate::log::segment::Measures;

/// A segment as compaction sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) base_offset: i64,
    pub(crate) end_offset: i64,
    /// Whether appends may still go into it, or it alone tells what its producers' last batches were.
    pub(crate) active: bool,
}

/// What could be compacted now.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Stretch {
    /// Where what was never compacted begins.
    pub(crate) first_dirty: i64,
    /// How many segments, from the oldest on, take part.
    pub(crate) segments: usize,
    pub(crate) dirty_bytes: u64,
    /// The share of the bytes that was never compacted.
    pub(crate) dirty_ratio: f64,
    /// Whether `max.compaction.lag.ms` is over for some record.
    pub(crate) overdue: bool,
}

impl Stretch {
    /// Whether it is time.
    pub(crate) fn is_due(&self, config: &LogConfig) -> bool {
        self.dirty_bytes > 0 && (self.overdue || self.dirty_ratio > config.min_cleanable_dirty_ratio)
    }
}

/// What could be compacted: whole segments, never the active one, nothing at or above `last_stable`, nothing younger
/// than `min.compaction.lag.ms`. `None` when there is nothing new.
pub(crate) fn stretch<E>(
    config: &LogConfig,
    now_ms: i64,
    clean_below: i64,
    last_stable: i64,
    parts: &[Part],
    mut measure: impl FnMut(usize) -> Result<Measures, E>,
) -> Result<Option<Stretch>, E> {
    let closed = parts.iter().take_while(|part| !part.active && part.end_offset <= last_stable).count();
    let first = parts.partition_point(|part| part.end_offset <= clean_below);
    if first >= closed {
        return Ok(None);
    }
    let (mut dirty_bytes, mut clean_bytes) = (0, 0);
    let mut end = closed;
    let mut overdue = false;
    let lag_over = now_ms.saturating_sub(config.max_compaction_lag_ms.max(0));
    for at in first..closed {
        let measured = measure(at)?;
        let youngest = measured.largest_timestamp.unwrap_or(i64::MAX);
        if config.min_compaction_lag_ms > 0 && youngest > now_ms.saturating_sub(config.min_compaction_lag_ms)
        {
            end = end.min(at);
        }
        // What lies behind a segment that is too young may be overdue all the same, as in Kafka.
        overdue |= measured.first_timestamp > 0 && measured.first_timestamp < lag_over;
        dirty_bytes += if at < end { measured.bytes } else { 0 };
    }
    for at in 0..first {
        clean_bytes += measure(at)?.bytes;
    }
    let total = (clean_bytes + dirty_bytes) as f64;
    Ok((end > first).then(|| Stretch {
        first_dirty: clean_below.max(parts[first].base_offset),
        segments: end,
        dirty_bytes,
        dirty_ratio: if total > 0.0 { dirty_bytes as f64 / total } else { 0.0 },
        overdue,
    }))
}

/// Neighbours that fit into one segment together: how many segments each group has. The result of compaction is
/// never larger than what went in.
pub(crate) fn groups(config: &LogConfig, parts: &[Part], bytes: &[u64]) -> Vec<usize> {
    let mut groups = Vec::new();
    let (mut first, mut size) = (0, 0);
    for (at, part) in parts.iter().enumerate() {
        let offsets = part.end_offset - parts[first].base_offset;
        let fits = size + bytes[at] <= u64::from(config.segment_bytes) && offsets <= i64::from(i32::MAX);
        if at > first && !fits {
            groups.push(at - first);
            (first, size) = (at, 0);
        }
        size += bytes[at];
    }
    if first < parts.len() {
        groups.push(parts.len() - first);
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten records a segment; the last is active.
    fn parts(count: i64) -> Vec<Part> {
        (0..count)
            .map(|n| Part { base_offset: n * 10, end_offset: n * 10 + 10, active: n == count - 1 })
            .collect()
    }

    fn find(config: &LogConfig, now_ms: i64, clean_below: i64, last_stable: i64) -> Option<Stretch> {
        let measure = |at: usize| {
            let time = 1000 * at as i64 + 1000;
            Ok::<_, ()>(Measures { bytes: 100, first_timestamp: time, largest_timestamp: Some(time + 500) })
        };
        stretch(config, now_ms, clean_below, last_stable, &parts(5), measure).unwrap()
    }

    #[test]
    fn only_closed_and_decided_segments_take_part() {
        let config = LogConfig::default();
        let all = find(&config, 10_000, 0, 50).unwrap();
        assert_eq!((all.first_dirty, all.segments, all.dirty_bytes, all.dirty_ratio), (0, 4, 400, 1.0));
        assert_eq!(find(&config, 10_000, 0, 39).unwrap().segments, 3, "a transaction is open at 39");
        assert_eq!(find(&config, 10_000, 0, 9), None);
        let half = find(&config, 10_000, 25, 50).unwrap();
        assert_eq!((half.first_dirty, half.dirty_bytes, half.dirty_ratio), (25, 200, 0.5));
        assert!(!half.is_due(&config), "exactly the ratio");
        assert_eq!(find(&config, 10_000, 40, 50), None, "all is clean");
    }

    #[test]
    fn lags_hold_back_and_press_on() {
        let young = LogConfig { min_compaction_lag_ms: 1000, ..LogConfig::default() };
        assert_eq!(find(&young, 3500, 0, 50).unwrap().segments, 2, "largest timestamps 1500 and 2500");
        assert_eq!(find(&young, 3499, 0, 50).unwrap().segments, 1);
        assert_eq!(find(&young, 2000, 0, 50), None);
        let old =
            LogConfig { max_compaction_lag_ms: 1000, min_cleanable_dirty_ratio: 1.0, ..LogConfig::default() };
        assert!(!find(&old, 2000, 0, 50).unwrap().is_due(&old));
        assert!(find(&old, 2001, 0, 50).unwrap().is_due(&old));
    }

    #[test]
    fn groups_fill_a_segment_and_no_more() {
        let config = LogConfig { segment_bytes: 250, ..LogConfig::default() };
        assert_eq!(groups(&config, &parts(6), &[100, 100, 100, 300, 0, 250]), [2, 1, 1, 2]);
        let apart =
            [0, 1 << 31].map(|base_offset| Part { base_offset, end_offset: base_offset + 1, active: false });
        assert_eq!(groups(&config, &apart, &[1, 1]), [1, 1]);
        assert!(groups(&config, &[], &[]).is_empty());
    }
}
