//! The transactions of a segment: which were aborted in it, and which are open at its end.
//!
//! It follows from the batches alone, folded one by one, and from what was open before the segment. A transaction is
//! listed where its marker is, in the order of the markers.
//!
//! ```text
//! .txnindex   "kaastxn1", covered u64, next offset i64, open count u32, aborted count u32,
//!             open * (producer id i64, first offset i64),
//!             aborted * (producer id i64, first offset i64, last offset i64, last stable offset i64), crc32c u32
//! ```
//! All big-endian. The file is a cache: one that is missing, damaged or short is rebuilt from the log.

use std::collections::BTreeMap;

use super::index::{Fields, sealed};
use super::scan::{ScanError, Scanner};
use crate::record::{BatchHeader, EndTxnMarker, TxnOutcome};

const MAGIC: &[u8; 8] = b"kaastxn1";
const OPEN_BYTES: usize = 16;
const ABORTED_BYTES: usize = 32;

/// An aborted transaction, as one partition saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AbortedTxn {
    /// The producer.
    pub producer_id: i64,
    /// The transaction's first offset in this partition.
    pub first_offset: i64,
    /// The offset of the marker that aborted it.
    pub last_offset: i64,
    /// Where the oldest other transaction began that was open when this one was aborted; else the offset after the
    /// marker.
    pub last_stable: i64,
}

impl AbortedTxn {
    /// Whether the batches from `from` on make this of the same transaction. Others may have begun before, too.
    fn is_as(&self, rebuilt: &Self, from: i64) -> bool {
        let is_older = self.first_offset < from;
        let stable = self.last_stable < from || self.last_stable == rebuilt.last_stable;
        self.producer_id == rebuilt.producer_id
            && (is_older || (stable && self.first_offset == rebuilt.first_offset))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TxnIndex {
    /// The open transactions: producer id and first offset.
    open: BTreeMap<i64, i64>,
    aborted: Vec<AbortedTxn>,
    covered: u64,
    next_offset: i64,
}

impl TxnIndex {
    /// The index of an empty segment; `open` are the transactions that are open before it.
    pub(crate) fn new(base_offset: i64, open: impl IntoIterator<Item = (i64, i64)>) -> Self {
        Self { open: open.into_iter().collect(), aborted: Vec::new(), covered: 0, next_offset: base_offset }
    }

    /// Bytes of log that the index knows.
    pub(crate) fn covered(&self) -> u64 {
        self.covered
    }

    /// The offset behind the covered batches.
    pub(crate) fn next_offset(&self) -> i64 {
        self.next_offset
    }

    /// The aborted transactions, in the order of their markers.
    pub(crate) fn aborted(&self) -> &[AbortedTxn] {
        &self.aborted
    }

    /// The transactions that are open behind what is covered: producer id and first offset.
    pub(crate) fn open(&self) -> impl Iterator<Item = (i64, i64)> {
        self.open.iter().map(|(id, first)| (*id, *first))
    }

    /// Whether this says the same as what its batches give from `from` on, of all transactions that begin there or
    /// further on. Of one that began before, `rebuilt` may know the rest, or nothing.
    pub(crate) fn agrees_with(&self, rebuilt: &Self, from: i64) -> bool {
        let is_older = |first: Option<&i64>| first.is_some_and(|first| *first < from);
        let mut ids = self.open.keys().chain(rebuilt.open.keys());
        let same_open =
            ids.all(|id| is_older(self.open.get(id)) || self.open.get(id) == rebuilt.open.get(id));
        // Each marker has its own offset, and they ascend.
        let with_marker = |index: &Self, last: i64| {
            let at = index.aborted.binary_search_by_key(&last, |txn| txn.last_offset);
            at.ok().map(|at| index.aborted[at])
        };
        let known =
            |txn: &AbortedTxn| with_marker(self, txn.last_offset).is_some_and(|mine| mine.is_as(txn, from));
        let mut newer = self.aborted.iter().filter(|txn| txn.first_offset >= from);
        self.next_offset == rebuilt.next_offset
            && same_open
            && rebuilt.aborted.iter().all(known)
            && newer.all(|txn| with_marker(rebuilt, txn.last_offset).is_some())
    }

    /// Whether every transaction that begins below `offset` is decided in what is covered, or before it.
    pub(crate) fn is_stable_to(&self, offset: i64) -> bool {
        self.first_unstable().unwrap_or(self.next_offset) >= offset
    }

    /// The aborted transactions that have a record in `start..upper`, in the order of their markers.
    pub(crate) fn overlapping(&self, start: i64, upper: i64) -> impl Iterator<Item = AbortedTxn> {
        // Markers come in the order of their offsets.
        let from = self.aborted.partition_point(|txn| txn.last_offset < start);
        self.aborted[from..].iter().filter(move |txn| txn.first_offset < upper).copied()
    }

    /// Adds the batch that lies at [`covered`](Self::covered), unless it was added before.
    pub(crate) fn push(&mut self, header: &BatchHeader, marker: Option<&EndTxnMarker>) {
        if header.base_offset < self.next_offset {
            return;
        }
        if let Some(marker) = marker {
            let first = self.open.remove(&marker.producer_id);
            if let Some(first_offset) = first.filter(|_| marker.outcome == TxnOutcome::Abort) {
                let last_offset = header.base_offset;
                let last_stable = self.first_unstable().unwrap_or(last_offset + 1);
                let producer_id = marker.producer_id;
                self.aborted.push(AbortedTxn { producer_id, first_offset, last_offset, last_stable });
            }
        } else if begins(header) {
            self.open.entry(header.producer_id).or_insert(header.base_offset);
        }
        self.covered += header.size as u64;
        self.next_offset = header.next_offset();
    }

    /// Adds what the scanner finds. Whatever counts is verified by its checksum.
    pub(crate) fn extend(&mut self, scanner: &mut Scanner<'_>) -> Result<(), ScanError> {
        while let Some((position, header)) = scanner.next_header()? {
            if header.base_offset < self.next_offset || header.last_offset_delta < 0 {
                let why = format!("offset {} is out of place", header.base_offset);
                return Err(ScanError::Bad { position, why });
            }
            let counts =
                header.is_control() || (begins(&header) && !self.open.contains_key(&header.producer_id));
            let marker = if counts { scanner.verified_marker(position, &header)? } else { None };
            self.push(&header, marker.as_ref());
        }
        Ok(())
    }

    fn first_unstable(&self) -> Option<i64> {
        self.open.values().min().copied()
    }

    /// The content of the file.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut file = MAGIC.to_vec();
        file.extend_from_slice(&self.covered.to_be_bytes());
        file.extend_from_slice(&self.next_offset.to_be_bytes());
        file.extend_from_slice(&(self.open.len() as u32).to_be_bytes());
        file.extend_from_slice(&(self.aborted.len() as u32).to_be_bytes());
        for (id, first) in &self.open {
            file.extend_from_slice(&id.to_be_bytes());
            file.extend_from_slice(&first.to_be_bytes());
        }
        for AbortedTxn { producer_id, first_offset, last_offset, last_stable } in &self.aborted {
            for field in [producer_id, first_offset, last_offset, last_stable] {
                file.extend_from_slice(&field.to_be_bytes());
            }
        }
        sealed(file)
    }

    /// Reads the file back; `None` when it is damaged or covers more than `end` bytes of log.
    pub(crate) fn decode(end: u64, file: &[u8], unchecked: bool) -> Option<Self> {
        let mut fields = Fields::new(file, MAGIC, unchecked)?;
        let covered = u64::from_be_bytes(fields.take()?);
        let next_offset = i64::from_be_bytes(fields.take()?);
        let open_count = u32::from_be_bytes(fields.take()?) as usize;
        let aborted_count = u32::from_be_bytes(fields.take()?) as usize;
        let open_bytes = open_count.checked_mul(OPEN_BYTES)?;
        if fields.left() != open_bytes.checked_add(aborted_count.checked_mul(ABORTED_BYTES)?)? {
            return None;
        }
        let mut index = Self { open: BTreeMap::new(), aborted: Vec::new(), covered, next_offset };
        for _ in 0..open_count {
            index.open.insert(i64::from_be_bytes(fields.take()?), i64::from_be_bytes(fields.take()?));
        }
        for _ in 0..aborted_count {
            index.aborted.push(AbortedTxn {
                producer_id: i64::from_be_bytes(fields.take()?),
                first_offset: i64::from_be_bytes(fields.take()?),
                last_offset: i64::from_be_bytes(fields.take()?),
                last_stable: i64::from_be_bytes(fields.take()?),
            });
        }
        (covered <= end).then_some(index)
    }
}

/// Whether a batch may begin a transaction.
fn begins(header: &BatchHeader) -> bool {
    header.is_transactional() && !header.is_control() && header.producer_id >= 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::RecordBatchBuilder;

    fn data(index: &mut TxnIndex, producer_id: i64, attributes: i16) {
        let batch = RecordBatchBuilder::new().producer(producer_id, 0, 0).attributes(attributes);
        let batch = batch.push(None, Some(b"v"), 0).build();
        let header = BatchHeader::parse(&batch).unwrap();
        index.push(&BatchHeader { base_offset: index.next_offset, ..header }, None);
    }

    fn end(index: &mut TxnIndex, producer_id: i64, outcome: TxnOutcome) {
        let marker = EndTxnMarker { producer_id, producer_epoch: 0, coordinator_epoch: 0, outcome };
        let header = BatchHeader::parse(&marker.to_batch(0)).unwrap();
        index.push(&BatchHeader { base_offset: index.next_offset, ..header }, Some(&marker));
    }

    /// Producers 1 to 4, interleaved; 9 is open from the segment before.
    fn sample() -> TxnIndex {
        let mut index = TxnIndex::new(100, [(9, 42)]);
        for id in [1, 2, 3] {
            data(&mut index, id, 0x10); // 100, 101, 102
        }
        data(&mut index, 5, 0); // 103
        end(&mut index, 2, TxnOutcome::Abort); // 104
        end(&mut index, 1, TxnOutcome::Commit); // 105
        end(&mut index, 9, TxnOutcome::Abort); // 106
        end(&mut index, 4, TxnOutcome::Abort); // 107: of nothing
        data(&mut index, 4, 0x10); // 108
        end(&mut index, 3, TxnOutcome::Abort); // 109
        index
    }

    fn aborted(producer_id: i64, first_offset: i64, last_offset: i64, last_stable: i64) -> AbortedTxn {
        AbortedTxn { producer_id, first_offset, last_offset, last_stable }
    }

    #[test]
    fn aborted_transactions_are_listed_in_the_order_of_their_markers() {
        let index = sample();
        assert_eq!(
            index.overlapping(0, 1000).collect::<Vec<_>>(),
            [aborted(2, 101, 104, 42), aborted(9, 42, 106, 102), aborted(3, 102, 109, 108)]
        );
        assert_eq!(index.overlapping(105, 102).collect::<Vec<_>>(), [aborted(9, 42, 106, 102)]);
        assert_eq!(index.overlapping(110, 1000).count(), 0);
        assert_eq!(index.open().collect::<Vec<_>>(), [(4, 108)]);
        assert!(index.is_stable_to(108) && !index.is_stable_to(109));
    }

    #[test]
    fn a_file_round_trips_and_any_flipped_bit_is_noticed() {
        let index = sample();
        let file = index.encode();
        assert_eq!(TxnIndex::decode(index.covered(), &file, false), Some(index.clone()));
        assert_eq!(TxnIndex::decode(index.covered() - 1, &file, false), None, "covers too much");
        for at in 0..file.len() {
            let mut bad = file.clone();
            bad[at] ^= 0x04;
            assert_eq!(TxnIndex::decode(u64::MAX, &bad, false), None, "byte {at}");
            assert_eq!(TxnIndex::decode(u64::MAX, &file[..at], false), None, "cut {at}");
        }
    }

    #[test]
    fn a_batch_counts_once() {
        let mut index = sample();
        let before = index.clone();
        let header = BatchHeader::parse(&RecordBatchBuilder::new().push(None, None, 0).build()).unwrap();
        index.push(&BatchHeader { base_offset: 109, ..header }, None);
        assert_eq!(index, before);
    }
}
