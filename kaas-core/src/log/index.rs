//! The sparse index of a segment: offset to position, and timestamp to offset.
//!
//! One entry covers at least `index.interval.bytes` of log. Next to each entry stands the greatest
//! timestamp before it, which makes the same entries searchable by time.
//!
//! ```text
//! .index      "kaasidx1", covered u64, next offset i64, max timestamp i64, count u32,
//!             count * (relative offset u32, position u32), crc32c u32
//! .timeindex  "kaastix1", count u32, count * (greatest timestamp before the entry i64), crc32c u32
//! ```
//! All big-endian. The files are a cache: one that is missing, damaged or short is rebuilt from the log.

use crate::record::BatchHeader;

const INDEX_MAGIC: &[u8; 8] = b"kaasidx1";
const TIME_MAGIC: &[u8; 8] = b"kaastix1";
const CRC_BYTES: usize = 4;

/// Bytes of one entry in Kafka's offset index; `segment.index.bytes` counts these.
const ENTRY_BYTES: usize = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry {
    relative_offset: u32,
    position: u32,
}

/// An entry of an index, as others see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IndexEntry {
    /// First offset of a batch.
    pub offset: i64,
    /// Where that begins.
    pub position: u64,
    /// The greatest timestamp of all batches before it, or -1.
    pub max_timestamp_before: i64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Index {
    base_offset: i64,
    entries: Vec<Entry>,
    /// `times[i]` is the greatest timestamp of all batches before `entries[i]`.
    times: Vec<i64>,
    covered: u64,
    next_offset: i64,
    max_timestamp: i64,
}

impl Index {
    pub(crate) fn new(base_offset: i64) -> Self {
        Self {
            base_offset,
            entries: Vec::new(),
            times: Vec::new(),
            covered: 0,
            next_offset: base_offset,
            max_timestamp: -1,
        }
    }

    /// Bytes of log that the index knows.
    pub(crate) fn covered(&self) -> u64 {
        self.covered
    }

    /// The greatest timestamp of the covered batches, or -1.
    pub(crate) fn max_timestamp(&self) -> i64 {
        self.max_timestamp
    }

    /// The offset behind the covered batches.
    pub(crate) fn next_offset(&self) -> i64 {
        self.next_offset
    }

    /// The entry with this number.
    pub(crate) fn entry(&self, at: usize) -> Option<IndexEntry> {
        let Entry { relative_offset, position } = *self.entries.get(at)?;
        Some(IndexEntry {
            offset: self.base_offset + i64::from(relative_offset),
            position: u64::from(position),
            max_timestamp_before: *self.times.get(at)?,
        })
    }

    pub(crate) fn is_full(&self, bytes_max: u32) -> bool {
        (self.entries.len() + 1) * ENTRY_BYTES > bytes_max as usize
    }

    /// Adds the batch that lies at [`covered`](Self::covered).
    pub(crate) fn push(&mut self, header: &BatchHeader, interval_bytes: u32) {
        let last = self.entries.last().map_or(0, |entry| u64::from(entry.position));
        if self.covered - last > u64::from(interval_bytes) {
            let relative = u32::try_from(header.base_offset - self.base_offset);
            // Entries ascend: one that a later batch contradicts was not that batch's offset.
            while self
                .entries
                .last()
                .is_some_and(|entry| relative.is_ok_and(|new| entry.relative_offset >= new))
            {
                self.entries.pop();
                self.times.pop();
            }
            if let (Ok(relative_offset), Ok(position)) = (relative, u32::try_from(self.covered)) {
                self.entries.push(Entry { relative_offset, position });
                self.times.push(self.max_timestamp);
            }
        }
        self.covered += header.size as u64;
        self.next_offset = header.next_offset();
        // A batch that compaction has emptied has no record with its time.
        if header.record_count > 0 {
            self.max_timestamp = self.max_timestamp.max(header.max_timestamp);
        }
    }

    /// Where to start looking for `offset`: at or before its batch.
    pub(crate) fn position_of(&self, offset: i64) -> u64 {
        let before = |entry: &Entry| self.base_offset + i64::from(entry.relative_offset) <= offset;
        self.position_before(self.entries.partition_point(before))
    }

    /// The last known batch at or before `position`: where it is, and its first offset.
    pub(crate) fn anchor(&self, position: u64) -> (u64, i64) {
        let count = self.entries.partition_point(|entry| u64::from(entry.position) <= position);
        count.checked_sub(1).map_or((0, self.base_offset), |at| {
            let Entry { relative_offset, position } = self.entries[at];
            (u64::from(position), self.base_offset + i64::from(relative_offset))
        })
    }

    /// Where to start looking for the first batch with a timestamp of at least `timestamp`.
    pub(crate) fn position_of_timestamp(&self, timestamp: i64) -> u64 {
        self.position_before(self.times.partition_point(|before| *before < timestamp))
    }

    /// An offset that no batch before `position` reaches: that of the first entry at or behind it.
    pub(crate) fn offset_behind(&self, position: u64) -> Option<i64> {
        let at = self.entries.partition_point(|entry| u64::from(entry.position) < position);
        self.entries.get(at).map(|entry| self.base_offset + i64::from(entry.relative_offset))
    }

    fn position_before(&self, count: usize) -> u64 {
        count.checked_sub(1).map_or(0, |at| u64::from(self.entries[at].position))
    }

    /// The contents of the two files.
    pub(crate) fn encode(&self) -> (Vec<u8>, Vec<u8>) {
        let count = (self.entries.len() as u32).to_be_bytes();
        let mut index = INDEX_MAGIC.to_vec();
        index.extend_from_slice(&self.covered.to_be_bytes());
        index.extend_from_slice(&self.next_offset.to_be_bytes());
        index.extend_from_slice(&self.max_timestamp.to_be_bytes());
        index.extend_from_slice(&count);
        for entry in &self.entries {
            index.extend_from_slice(&entry.relative_offset.to_be_bytes());
            index.extend_from_slice(&entry.position.to_be_bytes());
        }
        let mut times = TIME_MAGIC.to_vec();
        times.extend_from_slice(&count);
        for time in &self.times {
            times.extend_from_slice(&time.to_be_bytes());
        }
        (sealed(index), sealed(times))
    }

    /// Reads the two files back; `None` when either is damaged or covers more than `end` bytes of log. `unchecked` is
    /// a seeded bug.
    pub(crate) fn decode(
        base_offset: i64,
        end: u64,
        index: &[u8],
        times: &[u8],
        unchecked: bool,
    ) -> Option<Self> {
        let StoredIndex { covered, next_offset, max_timestamp, entries } = read_index(index, unchecked)?;
        let times = read_times(times, unchecked).filter(|times| times.len() == entries.len())?;
        let entries = entries
            .into_iter()
            .map(|(relative_offset, position)| Entry { relative_offset, position })
            .collect();
        let decoded = Self { base_offset, entries, times, covered, next_offset, max_timestamp };
        (covered <= end).then_some(decoded)
    }
}

/// What is in a `.index` file.
pub(crate) struct StoredIndex {
    pub(crate) covered: u64,
    pub(crate) next_offset: i64,
    pub(crate) max_timestamp: i64,
    /// Offsets, counted from the segment's first, and positions.
    pub(crate) entries: Vec<(u32, u32)>,
}

pub(crate) fn read_index(file: &[u8], unchecked: bool) -> Option<StoredIndex> {
    let mut fields = Fields::new(file, INDEX_MAGIC, unchecked)?;
    let covered = u64::from_be_bytes(fields.take()?);
    let next_offset = i64::from_be_bytes(fields.take()?);
    let max_timestamp = i64::from_be_bytes(fields.take()?);
    let count = u32::from_be_bytes(fields.take()?) as usize;
    if fields.left() != count.checked_mul(8)? {
        return None;
    }
    let mut entries = Vec::with_capacity(count);
    for _ in 0..count {
        entries.push((u32::from_be_bytes(fields.take()?), u32::from_be_bytes(fields.take()?)));
    }
    Some(StoredIndex { covered, next_offset, max_timestamp, entries })
}

/// What is in a `.timeindex` file: the greatest timestamp before each entry of the index.
pub(crate) fn read_times(file: &[u8], unchecked: bool) -> Option<Vec<i64>> {
    let mut fields = Fields::new(file, TIME_MAGIC, unchecked)?;
    let count = u32::from_be_bytes(fields.take()?) as usize;
    if fields.left() != count.checked_mul(8)? {
        return None;
    }
    (0..count).map(|_| Some(i64::from_be_bytes(fields.take()?))).collect()
}

/// The content of an index file, with its checksum.
pub(super) fn sealed(mut file: Vec<u8>) -> Vec<u8> {
    let crc = crc32c::crc32c(&file);
    file.extend_from_slice(&crc.to_be_bytes());
    file
}

/// Whether an index file of any kind has its checksum.
pub(crate) fn is_intact(file: &[u8]) -> bool {
    let sum = |(content, crc): (&[u8], &[u8; CRC_BYTES])| crc32c::crc32c(content) == u32::from_be_bytes(*crc);
    file.split_last_chunk::<CRC_BYTES>().is_some_and(sum)
}

/// The checked content of one file.
pub(super) struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    pub(super) fn new(file: &'a [u8], magic: &[u8; 8], unchecked: bool) -> Option<Self> {
        let (content, crc) = file.split_last_chunk::<CRC_BYTES>()?;
        let intact = unchecked || crc32c::crc32c(content) == u32::from_be_bytes(*crc);
        intact.then(|| content.strip_prefix(magic.as_slice()).map(Self)).flatten()
    }

    /// Bytes that have not been taken.
    pub(super) fn left(&self) -> usize {
        self.0.len()
    }

    pub(super) fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::RecordBatchBuilder;

    fn sample() -> (Index, Vec<(i64, u64, i64)>) {
        let mut index = Index::new(100);
        let mut batches = Vec::new();
        for n in 0..200i64 {
            let timestamp = if n % 7 == 0 { n * 10 } else { n };
            let bytes = RecordBatchBuilder::new().push(None, Some(&[0; 50]), timestamp).build();
            let header = BatchHeader { base_offset: 100 + n, ..BatchHeader::parse(&bytes).unwrap() };
            batches.push((header.base_offset, index.covered(), timestamp));
            index.push(&header, 500);
        }
        (index, batches)
    }

    #[test]
    fn lookups_start_at_or_before_their_batch_and_not_too_early() {
        let (index, batches) = sample();
        assert!(index.entries.len() > 20);
        for &(offset, position, _) in &batches {
            let start = index.position_of(offset);
            assert!(start <= position && position - start <= 1000, "{offset}");
        }
        for wanted in 0..2000 {
            let start = index.position_of_timestamp(wanted);
            let first = batches.iter().find(|(_, _, timestamp)| *timestamp >= wanted);
            assert!(first.is_none_or(|(_, position, _)| start <= *position), "{wanted}");
        }
    }

    #[test]
    fn files_round_trip_and_any_flipped_bit_is_noticed() {
        let (index, _) = sample();
        let (offsets, times) = index.encode();
        assert_eq!(Index::decode(100, index.covered(), &offsets, &times, false), Some(index.clone()));
        assert_eq!(Index::decode(100, index.covered() - 1, &offsets, &times, false), None, "covers too much");
        for at in 0..offsets.len() {
            let mut bad = offsets.clone();
            bad[at] ^= 0x10;
            assert_eq!(Index::decode(100, u64::MAX, &bad, &times, false), None, "byte {at}");
        }
        for cut in 0..times.len() {
            assert_eq!(Index::decode(100, u64::MAX, &offsets, &times[..cut], false), None, "cut {cut}");
        }
    }
}
