//! The damaged places of a log that reads have met.
//!
//! A read never hands out what is damaged, whether or not it is listed here: the list is for people, and so that each
//! place is counted and logged once.

use std::collections::BTreeSet;

use crate::error::ReadError;

/// Places that are remembered for a partition; beyond it they are counted anew at each read.
const RANGES_MAX: usize = 1024;

/// A place in a segment where there is no batch as it was written.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DamagedRange {
    /// The segment's path on the volume.
    pub segment: String,
    /// Where in it the damaged batch begins.
    pub position: u64,
}

#[derive(Debug, Default)]
pub(super) struct Quarantine(BTreeSet<DamagedRange>);

impl Quarantine {
    /// Whether an error is damage that was not met before.
    pub(super) fn meets(&mut self, error: &ReadError) -> bool {
        let ReadError::Damaged { segment, position, .. } = error else { return false };
        let range = DamagedRange { segment: segment.clone(), position: *position };
        if self.0.len() >= RANGES_MAX {
            return !self.0.contains(&range);
        }
        self.0.insert(range)
    }

    pub(super) fn ranges(&self) -> Vec<DamagedRange> {
        self.0.iter().cloned().collect()
    }
}
