//! Which markers have become useless: those of transactions of which no batch is left. Pure.

use std::collections::HashSet;

use crate::log::CleaningFacts;
use crate::record::{BatchHeader, RecordSlice};

/// The type in the key of a marker's record: version i16, type i16.
const ABORT: i16 = 0;
const COMMIT: i16 = 1;

/// Follows a log from its beginning, batch by batch.
#[derive(Debug, Default)]
pub(crate) struct Transactions {
    /// Producers of which a batch was met since their last marker: of a transaction that was aborted, or of one that
    /// was committed.
    aborted: HashSet<i64>,
    committed: HashSet<i64>,
}

impl Transactions {
    /// Passes a batch of records; whether they are of an aborted transaction.
    pub(crate) fn pass(&mut self, header: &BatchHeader, facts: &CleaningFacts) -> bool {
        let aborted = facts.is_aborted(header);
        if header.is_transactional() {
            if aborted { &mut self.aborted } else { &mut self.committed }.insert(header.producer_id);
        }
        aborted
    }

    /// Passes a batch of the broker's own; whether it says nothing any more: no batch of its transaction is left, or
    /// its marker was removed before.
    pub(crate) fn pass_control(&mut self, header: &BatchHeader, marker: Option<RecordSlice<'_>>) -> bool {
        let Some(marker) = marker else { return true };
        match kind(marker.key) {
            Some(ABORT) => !self.aborted.remove(&header.producer_id),
            Some(COMMIT) => !self.committed.remove(&header.producer_id),
            // Of a kind that is not known: whoever wrote it needs it.
            _ => false,
        }
    }
}

fn kind(key: Option<&[u8]>) -> Option<i16> {
    Some(i16::from_be_bytes(*key?.get(2..)?.first_chunk()?))
}
