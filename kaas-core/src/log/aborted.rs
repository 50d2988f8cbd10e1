//! The aborted transactions of a range of the log, over as many segments as their markers are in.

use std::collections::HashMap;
use std::sync::Arc;

use super::partition::Partition;
use super::producers::ActiveProducer;
use super::read::{Place, Stop};
use super::scan::Scanner;
use super::segment::Segment;
use super::txn_index::{AbortedTxn, TxnIndex};
use crate::error::ReadError;
use crate::record::BatchHeader;
use crate::volume::VolumeFile;

impl Partition {
    /// The aborted transactions with a record in `start..upper`, in the order of their markers; `place` has `start`.
    pub(super) fn aborted_between(
        &self,
        mut place: Place,
        start: i64,
        upper: i64,
        blocking: bool,
    ) -> Result<Vec<AbortedTxn>, Stop> {
        let mut found = Vec::new();
        loop {
            let (here, complete) = self.with_txns(&place, blocking, |txns| {
                (txns.overlapping(start, upper).collect::<Vec<_>>(), txns.is_stable_to(upper))
            })?;
            found.extend(here);
            // Markers further on decide transactions that begin further on.
            let Some(next) = place.next.filter(|_| !complete) else { return Ok(found) };
            match self.with_readable(|state| state.place(next)).map_err(Stop::Error)? {
                Some(following) => place = following,
                None => return Ok(found),
            }
        }
    }

    fn with_txns<T>(&self, place: &Place, blocking: bool, look: impl Fn(&TxnIndex) -> T) -> Result<T, Stop> {
        loop {
            if let Some(seen) = place.segment.txns().as_ref().map(&look) {
                return Ok(seen);
            }
            if !blocking {
                return Err(Stop::WouldBlock);
            }
            // Opening it bounds how many indexes are in memory: they go with the descriptor.
            self.open_segment(place, true)?;
            self.load_txns(&place.segment)?;
        }
    }

    /// Brings the transactions of a segment into memory, as far as it is visible. May block.
    pub(super) fn load_txns(&self, segment: &Arc<Segment>) -> Result<(), Stop> {
        if segment.txns().is_some() {
            return Ok(());
        }
        let mut txns = self.build_txns(segment)?;
        loop {
            // What is published from here on is added by the one who publishes it.
            let current = self.with_readable(|_| segment.put_txns(&mut txns)).map_err(Stop::Error)?;
            if current {
                return Ok(());
            }
            let (file, end) = self.file_of(segment)?;
            extend(&mut txns, segment, &*file, end)?;
        }
    }

    /// From the file of the segment if that is intact; else from what was open before it, which the files of the
    /// segments before tell, or the log.
    fn build_txns(&self, segment: &Arc<Segment>) -> Result<TxnIndex, Stop> {
        let segments = self.with_readable(|state| state.segments.clone()).map_err(Stop::Error)?;
        let at = segments.iter().position(|other| Arc::ptr_eq(other, segment)).ok_or(Stop::Removed)?;
        let mut from = 0;
        let mut known = None;
        for (index, segment) in segments[..=at].iter().enumerate().rev() {
            let (_, end) = self.file_of(segment)?;
            // Let go of before the file is read: the commit loop may want it.
            let in_memory = segment.txns().clone();
            known = in_memory.or_else(|| segment.stored_txns(&*self.volume, end));
            if known.is_some() {
                from = index;
                break;
            }
        }
        // Before the first segment nothing is left that a transaction could hide.
        let mut txns = known.unwrap_or_else(|| TxnIndex::new(segments[0].base_offset(), []));
        for (index, segment) in segments[..=at].iter().enumerate().skip(from) {
            if index > from {
                txns = TxnIndex::new(segment.base_offset(), txns.open());
            }
            let (file, end) = self.file_of(segment)?;
            extend(&mut txns, segment, &*file, end)?;
        }
        Ok(txns)
    }

    /// The segment's file and its visible bytes; keeps no descriptor that was not open. May block.
    fn file_of(&self, segment: &Arc<Segment>) -> Result<(Arc<dyn VolumeFile>, u64), Stop> {
        segment.look(&*self.volume).map_err(|error| self.unopened(segment, error))
    }

    /// What compaction needs to know of the producers of `start..upper`, which must lie below the last stable
    /// offset. Blocks.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn cleaning_facts(&self, start: i64, upper: i64) -> Result<CleaningFacts, ReadError> {
        // Without what is pending: that may still fail, and what came before it is then the last.
        let active = self.committed_producers().active(self.expiry());
        let last_of_active = active.into_iter().map(|p| (p.producer_id, p)).collect();
        loop {
            let Some(place) = self.with_readable(|state| state.place(start))? else {
                return Ok(CleaningFacts::new(Vec::new(), last_of_active));
            };
            match self.aborted_between(place, start, upper, true) {
                Ok(aborted) => return Ok(CleaningFacts::new(aborted, last_of_active)),
                Err(Stop::Removed) => {}
                Err(stop) => return Err(stop.into_error()),
            }
        }
    }
}

fn extend(txns: &mut TxnIndex, segment: &Segment, file: &dyn VolumeFile, end: u64) -> Result<(), Stop> {
    let mut scanner = Scanner::new(file, txns.covered(), end, true);
    txns.extend(&mut scanner).map_err(|error| Stop::scan(segment, error))
}

/// Which batches of a range compaction may empty, and which it must keep, for the sake of transactions and producers.
#[derive(Debug)]
pub struct CleaningFacts {
    /// By producer: first and last offsets of its aborted transactions, ascending.
    aborted: HashMap<i64, Vec<(i64, i64)>>,
    last_of_active: HashMap<i64, ActiveProducer>,
}

impl CleaningFacts {
    pub(crate) fn new(aborted: Vec<AbortedTxn>, last_of_active: HashMap<i64, ActiveProducer>) -> Self {
        let mut by_producer: HashMap<i64, Vec<(i64, i64)>> = HashMap::new();
        for txn in aborted {
            by_producer.entry(txn.producer_id).or_default().push((txn.first_offset, txn.last_offset));
        }
        Self { aborted: by_producer, last_of_active }
    }

    /// Whether the batch holds data of an aborted transaction: nobody may see it, so it may go.
    pub fn is_aborted(&self, header: &BatchHeader) -> bool {
        let Some(aborted) = self.aborted.get(&header.producer_id) else { return false };
        let at = aborted.partition_point(|(_, last)| *last < header.base_offset);
        let inside = aborted.get(at).is_some_and(|(first, _)| *first <= header.base_offset);
        inside && header.is_transactional() && !header.is_control()
    }

    /// Whether the batch is the last word of a producer that may still append: its last data, or, when there is none
    /// in its epoch, its marker. It must stay, though without records, or the producer's state could not be rebuilt.
    pub fn is_last_of_producer(&self, header: &BatchHeader) -> bool {
        let Some(last) = self.last_of_active.get(&header.producer_id) else { return false };
        match last.last_offset {
            Some(offset) => header.last_offset() == offset,
            None => header.is_control() && header.producer_epoch == last.producer_epoch,
        }
    }
}
