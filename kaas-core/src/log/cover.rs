//! Which of the segments that a directory names are the log: a compacted segment stands for all that it was made from.
//!
//! Compaction makes one rename, of a segment that is complete and synced; from then on it is the log, and what it was
//! made from is not, whatever has been removed of it.

use std::collections::BTreeMap;

use crate::layout::SegmentName;

/// The names that are the log, by base offset, and those that compacted segments stand for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Cover {
    pub(crate) live: Vec<SegmentName>,
    pub(crate) superseded: Vec<SegmentName>,
}

/// Two compacted segments of which neither is older claim the same offsets.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("compacted segments {0:?} and {1:?} overlap")]
pub(crate) struct Overlap(SegmentName, SegmentName);

/// Sorts the names out. The highest epoch counts, then the highest generation: what a leader made that had been replaced
/// without knowing yields where its successor compacted, and is as good where it did not.
pub(crate) fn resolve(mut names: Vec<SegmentName>) -> Result<Cover, Overlap> {
    let rank = |name: &SegmentName| name.cleaned.map(|cleaned| (name.epoch, cleaned.generation));
    names.sort_by(|a, b| rank(b).cmp(&rank(a)).then(a.cmp(b)));
    let mut cover = Cover { live: Vec::with_capacity(names.len()), superseded: Vec::new() };
    // The compacted ones so far, by base offset; none of them overlap.
    let mut compacted: BTreeMap<i64, (i64, SegmentName)> = BTreeMap::new();
    for name in names {
        let end = name.cleaned.map_or(name.base_offset.saturating_add(1), |cleaned| cleaned.end_offset);
        let below = compacted.range(..end).next_back().map(|(_, other)| *other);
        match below.filter(|(other_end, _)| *other_end > name.base_offset) {
            Some((_, other)) if rank(&other) == rank(&name) => return Err(Overlap(other, name)),
            Some(_) => cover.superseded.push(name),
            None => {
                if name.cleaned.is_some() {
                    compacted.insert(name.base_offset, (end, name));
                }
                cover.live.push(name);
            }
        }
    }
    cover.live.sort_unstable();
    cover.superseded.sort_unstable();
    Ok(cover)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Cleaned;

    fn cleaned(epoch: i32, base_offset: i64, end_offset: i64, generation: u32) -> SegmentName {
        SegmentName { base_offset, epoch, cleaned: Some(Cleaned { end_offset, generation }) }
    }

    fn plain(base_offset: i64) -> SegmentName {
        SegmentName::new(1, base_offset)
    }

    #[test]
    fn a_compacted_segment_stands_for_what_it_was_made_from() {
        let names = vec![plain(0), cleaned(1, 0, 20, 1), plain(10), plain(20)];
        let cover = resolve(names).unwrap();
        assert_eq!(cover.live, [cleaned(1, 0, 20, 1), plain(20)]);
        assert_eq!(cover.superseded, [plain(0), plain(10)]);
    }

    #[test]
    fn the_later_generation_counts_and_the_later_epoch_before_it() {
        let names = vec![cleaned(1, 0, 20, 1), cleaned(1, 0, 30, 2), plain(20), plain(30)];
        assert_eq!(resolve(names).unwrap().live, [cleaned(1, 0, 30, 2), plain(30)]);
        let names = vec![cleaned(1, 10, 40, 7), cleaned(2, 0, 20, 1), plain(20), plain(30)];
        let cover = resolve(names).unwrap();
        assert_eq!(cover.live, [cleaned(2, 0, 20, 1), plain(20), plain(30)]);
    }

    #[test]
    fn nobody_guesses_between_two_of_the_same_age() {
        assert!(resolve(vec![cleaned(1, 0, 20, 1), cleaned(1, 10, 30, 1)]).is_err());
        assert!(resolve(vec![cleaned(1, 0, 20, 1), cleaned(1, 20, 30, 1)]).is_ok());
    }
}
