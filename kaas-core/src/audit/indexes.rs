//! An index that was stored, held against the batches that it speaks of.

use crate::log::index::Index;
use crate::record::BatchHeader;

/// Follows a segment's batches beside its index.
pub(super) struct IndexCheck {
    index: Index,
    /// Entries that have been met.
    met: usize,
    max_timestamp: i64,
    next_offset: i64,
    complete: bool,
    wrong: Option<String>,
}

impl IndexCheck {
    pub(super) fn new(index: Index, base_offset: i64) -> Self {
        Self { index, met: 0, max_timestamp: -1, next_offset: base_offset, complete: false, wrong: None }
    }

    /// The batch at `position`.
    pub(super) fn batch(&mut self, position: u64, header: &BatchHeader) {
        self.boundary(position);
        while let Some(entry) = self.index.entry(self.met).filter(|entry| entry.position <= position) {
            if entry.position < position {
                self.say(|| format!("the entry of offset {} points into a batch", entry.offset));
            } else if entry.offset != header.base_offset {
                let (has, found) = (entry.offset, header.base_offset);
                self.say(|| format!("byte {position} is said to have offset {has}, and has {found}"));
            } else if entry.max_timestamp_before != self.max_timestamp {
                let (has, found) = (entry.max_timestamp_before, self.max_timestamp);
                self.say(|| {
                    format!(
                        "the greatest timestamp before byte {position} is said to be {has}, and is {found}"
                    )
                });
            }
            self.met += 1;
        }
        if header.record_count > 0 {
            self.max_timestamp = self.max_timestamp.max(header.max_timestamp);
        }
        self.next_offset = header.next_offset();
    }

    /// What is wrong with the index of a segment that ends at `end`.
    pub(super) fn finish(mut self, end: u64) -> Option<String> {
        self.boundary(end);
        if !self.complete {
            self.say(|| "it ends inside of a batch".to_owned());
        } else if self.index.entry(self.met).is_some() {
            self.say(|| "it has entries behind its end".to_owned());
        }
        self.wrong
    }

    fn boundary(&mut self, position: u64) {
        if self.index.covered() != position {
            return;
        }
        self.complete = true;
        if (self.index.next_offset(), self.index.max_timestamp()) != (self.next_offset, self.max_timestamp) {
            self.say(|| "its last offset or its greatest timestamp is not the log's".to_owned());
        }
    }

    fn say(&mut self, why: impl FnOnce() -> String) {
        if self.wrong.is_none() {
            self.wrong = Some(why());
        }
    }
}
