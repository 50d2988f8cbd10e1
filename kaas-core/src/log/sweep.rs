//! What an interrupted removal left in a partition's directory is removed when the log is opened.

use std::collections::HashSet;

use super::log_start;
use crate::layout::{DELETED_SUFFIX, SegmentFile, SegmentName, parse_start};
use crate::volume::Volume;

/// The names that mean nothing any more: files that were set aside, what belongs to segments that end below
/// `log_start`, and marks of lower starts. `live` are the segments of the log. Other names are left alone.
fn leftovers<'a>(names: &'a [String], live: &[SegmentName], log_start: i64) -> Vec<&'a String> {
    let live: HashSet<&SegmentName> = live.iter().collect();
    let logs: HashSet<SegmentName> = names.iter().filter_map(|name| SegmentName::parse_log(name)).collect();
    let is_dead = |segment: &SegmentName| !live.contains(segment) && segment.base_offset < log_start;
    let is_leftover = |name: &&String| {
        if let Some(original) = name.strip_suffix(DELETED_SUFFIX) {
            return SegmentName::parse(original).is_some();
        }
        if let Some(offset) = parse_start(name) {
            return offset < log_start;
        }
        match SegmentName::parse(name) {
            Some((segment, SegmentFile::Log)) => is_dead(&segment),
            Some((segment, _)) => is_dead(&segment) || !logs.contains(&segment),
            None => false,
        }
    };
    names.iter().filter(is_leftover).collect()
}

/// Makes the log start durable that the names speak of, and then removes what lies below it.
pub(crate) fn sweep(
    volume: &dyn Volume,
    dir: &str,
    names: &[String],
    live: &[SegmentName],
    log_start: i64,
) -> std::io::Result<()> {
    let leftovers = leftovers(names, live, log_start);
    if log_start::greatest(names).is_some() || !leftovers.is_empty() {
        // Whoever made the names may have died before they were durable.
        volume.sync_dir(dir)?;
    }
    for name in leftovers {
        let path = format!("{dir}/{name}");
        match volume.remove_file(&path) {
            Ok(()) => tracing::info!(path, "removal finished"),
            Err(error) => tracing::warn!(path, %error, "removal not finished"),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_known_and_dead_is_left_over() {
        let segment = |base_offset| SegmentName { base_offset, epoch: 1 };
        let names: Vec<String> = [
            "00000001-00000000000000000000.log",
            "00000001-00000000000000000000.index",
            "00000001-00000000000000000005.timeindex",
            "00000001-00000000000000000010.log",
            "00000001-00000000000000000010.index",
            "00000001-00000000000000000010.index.deleted",
            "00000001-00000000000000000007.start",
            "00000001-00000000000000000012.start",
            "00000001-00000000000000000020.log",
            "00000001.claim",
            "checkpoint.json",
            "notes.txt",
            "notes.deleted",
        ]
        .map(str::to_owned)
        .to_vec();
        assert_eq!(
            leftovers(&names, &[segment(10)], 12),
            [
                "00000001-00000000000000000000.log",
                "00000001-00000000000000000000.index",
                "00000001-00000000000000000005.timeindex",
                "00000001-00000000000000000010.index.deleted",
                "00000001-00000000000000000007.start",
            ]
        );
    }
}
