//! What an interrupted removal left in a partition's directory is removed when the log is opened.

use std::collections::HashSet;

use super::marks;
use crate::layout::{CLEANING_SUFFIX, DELETED_SUFFIX, SegmentFile, SegmentName, parse_clean, parse_start};
use crate::volume::Volume;

/// What a directory was found to hold.
pub(crate) struct Found<'a> {
    pub(crate) names: &'a [String],
    /// The segments of the log.
    pub(crate) live: &'a [SegmentName],
    /// Those that compacted ones stand for.
    pub(crate) superseded: &'a [SegmentName],
    pub(crate) log_start: i64,
}

/// The names that mean nothing any more: files that were set aside or not finished, what belongs to segments that end
/// below the log start or that a compacted one stands for, and marks that higher ones follow. Others are left alone.
fn leftovers<'a>(found: &Found<'a>) -> Vec<&'a String> {
    let Found { names, log_start, .. } = *found;
    let live: HashSet<&SegmentName> = found.live.iter().collect();
    let superseded: HashSet<&SegmentName> = found.superseded.iter().collect();
    let clean = marks::greatest(names, parse_clean);
    let logs: HashSet<SegmentName> = names.iter().filter_map(|name| SegmentName::parse_log(name)).collect();
    let is_dead = |segment: &SegmentName| {
        !live.contains(segment) && (segment.base_offset < log_start || superseded.contains(segment))
    };
    let is_leftover = |name: &&String| {
        if let Some(original) = name.strip_suffix(DELETED_SUFFIX).or(name.strip_suffix(CLEANING_SUFFIX)) {
            return SegmentName::parse(original).is_some();
        }
        if let Some(offset) = parse_start(name) {
            return offset < log_start;
        }
        if let Some(offset) = parse_clean(name) {
            return Some(offset) < clean;
        }
        match SegmentName::parse(name) {
            Some((segment, SegmentFile::Log)) => is_dead(&segment),
            Some((segment, _)) => is_dead(&segment) || !logs.contains(&segment),
            None => false,
        }
    };
    names.iter().filter(is_leftover).collect()
}

/// Makes durable what the names say of the log, and then removes what they leave over.
pub(crate) fn sweep(volume: &dyn Volume, dir: &str, found: &Found<'_>) -> std::io::Result<()> {
    let leftovers = leftovers(found);
    if marks::greatest(found.names, parse_start).is_some() || !leftovers.is_empty() {
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
        let segment = |base_offset| SegmentName::new(1, base_offset);
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
            "00000001.checkpoint",
            "00000001-00000000000000000010-00000000000000000020-00000001.log.cleaning",
            "00000001-00000000000000000008.clean",
            "00000001-00000000000000000011.clean",
            "00000001-00000000000000000030.log",
            "00000001-00000000000000000030.index",
            "notes.txt",
            "notes.deleted",
        ]
        .map(str::to_owned)
        .to_vec();
        assert_eq!(
            leftovers(&Found {
                names: &names,
                live: &[segment(10)],
                superseded: &[segment(30)],
                log_start: 12
            }),
            [
                "00000001-00000000000000000000.log",
                "00000001-00000000000000000000.index",
                "00000001-00000000000000000005.timeindex",
                "00000001-00000000000000000010.index.deleted",
                "00000001-00000000000000000007.start",
                "00000001-00000000000000000010-00000000000000000020-00000001.log.cleaning",
                "00000001-00000000000000000008.clean",
                "00000001-00000000000000000030.log",
                "00000001-00000000000000000030.index",
            ]
        );
    }
}
