//! Reading the segments of a group and writing what survives of them into one new file.

use std::io::{ErrorKind, IoSlice};
use std::sync::Arc;

use super::plan::Part;
use super::survive::{Fate, Rules, Scratch, judge};
use super::transactions::Transactions;
use super::{CompactError, Pace};
use crate::layout::{CLEANING_SUFFIX, SegmentFile, SegmentName};
use crate::log::index::Index;
use crate::log::scan::{ScanError, Scanner};
use crate::log::segment::Segment;
use crate::record::BatchHeader;
use crate::volume::{Volume, VolumeFile, remove_if_there};

/// Bytes that are collected before they are written.
const WRITE_BYTES: usize = 1 << 20;

/// Bytes that are written before they are synced: a large sync at the end would hold up those of appends.
const SYNC_BYTES: u64 = 8 << 20;

/// A new segment that is complete and synced, and not yet under its name.
pub(super) struct Rewritten {
    pub(super) name: SegmentName,
    pub(super) path: String,
    pub(super) bytes: u64,
    pub(super) index: Index,
}

/// What all groups of a pass share.
pub(super) struct Rewriter<'a> {
    pub(super) volume: &'a dyn Volume,
    pub(super) dir: &'a str,
    pub(super) index_interval_bytes: u32,
    pub(super) rules: Rules<'a>,
    pub(super) transactions: Transactions,
    pub(super) scratch: Scratch,
    pub(super) pace: Pace<'a>,
}

impl Rewriter<'_> {
    /// Writes what survives of `segments` under a name of its own; on an error nothing is left of it.
    pub(super) fn rewrite(
        &mut self,
        segments: &[Arc<Segment>],
        parts: &[Part],
        name: SegmentName,
    ) -> Result<Rewritten, CompactError> {
        let path = format!("{}/{}{CLEANING_SUFFIX}", self.dir, name.file(SegmentFile::Log));
        remove_if_there(self.volume, &path)?;
        let file = self.volume.create_new(&path)?;
        let index = Index::new(name.base_offset);
        let interval_bytes = self.index_interval_bytes;
        let mut output = Output { file, buffer: Vec::new(), position: 0, synced: 0, index, interval_bytes };
        let mut each = segments.iter().zip(parts);
        let result = each.try_for_each(|(segment, part)| self.copy(segment, part, &mut output));
        match result.and_then(|()| output.finish()) {
            Ok(()) => Ok(Rewritten { name, path, bytes: output.position, index: output.index }),
            Err(error) => {
                // What remains is removed by the next try, or when the log is opened.
                let _ = self.volume.remove_file(&path);
                Err(error)
            }
        }
    }

    fn copy(&mut self, segment: &Segment, part: &Part, output: &mut Output) -> Result<(), CompactError> {
        each_batch(self.volume, segment, part, |position, header, batch| {
            let fate = judge(header, batch, &self.rules, &mut self.transactions, &mut self.scratch)
                .map_err(|error| CompactError::damaged(segment, position, error.to_string()))?;
            let written = match fate {
                Fate::Whole => output.push(header, batch)?,
                Fate::Gone => 0,
                Fate::Rebuilt(batch) => {
                    let header = BatchHeader::parse(&batch)
                        .map_err(|error| CompactError::damaged(segment, position, error.to_string()))?;
                    output.push(&header, &batch)?
                }
            };
            if (self.pace)((batch.len() + written) as u64) { Ok(true) } else { Err(CompactError::Stopped) }
        })
    }
}

/// Calls `visit` with the place, the header and all bytes of every batch, verified, until it says false. No checksum
/// covers offsets: they must follow each other within the part.
pub(super) fn each_batch(
    volume: &dyn Volume,
    segment: &Segment,
    part: &Part,
    mut visit: impl FnMut(u64, &BatchHeader, &[u8]) -> Result<bool, CompactError>,
) -> Result<(), CompactError> {
    let (file, end) = segment.look(volume)?;
    let mut scanner = Scanner::new(&*file, 0, end, true);
    let mut expected = part.base_offset;
    loop {
        match scanner.next_batch() {
            Ok(None) => return Ok(()),
            Ok(Some((position, header, batch))) => {
                let follows = header.base_offset >= expected && header.last_offset_delta >= 0;
                if !follows || header.next_offset() > part.end_offset {
                    let why = format!("offset {} is out of place", header.base_offset);
                    return Err(CompactError::damaged(segment, position, why));
                }
                expected = header.next_offset();
                if !visit(position, &header, batch)? {
                    return Ok(());
                }
            }
            Err(ScanError::Storage(error)) => return Err(error.into()),
            Err(ScanError::Bad { position, why }) => {
                return Err(CompactError::damaged(segment, position, why));
            }
            Err(ScanError::WouldBlock) => return Err(std::io::Error::from(ErrorKind::WouldBlock).into()),
        }
    }
}

struct Output {
    file: Arc<dyn VolumeFile>,
    buffer: Vec<u8>,
    /// Bytes of the file, those in the buffer included.
    position: u64,
    synced: u64,
    index: Index,
    interval_bytes: u32,
}

impl Output {
    fn push(&mut self, header: &BatchHeader, batch: &[u8]) -> Result<usize, CompactError> {
        self.index.push(header, self.interval_bytes);
        self.buffer.extend_from_slice(batch);
        self.position += batch.len() as u64;
        if self.buffer.len() >= WRITE_BYTES {
            self.write()?;
        }
        if self.position - self.synced >= SYNC_BYTES {
            self.write()?;
            self.file.sync_data()?;
            self.synced = self.position;
        }
        Ok(batch.len())
    }

    fn write(&mut self) -> Result<(), CompactError> {
        let begin = self.position - self.buffer.len() as u64;
        self.file.write_all_at(&mut [IoSlice::new(&self.buffer)], begin)?;
        self.buffer.clear();
        Ok(())
    }

    fn finish(&mut self) -> Result<(), CompactError> {
        self.write()?;
        Ok(self.file.sync_data()?)
    }
}
