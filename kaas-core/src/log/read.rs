//! Reading record batches as they are stored.

use std::fs::File;
use std::sync::Arc;

use bytes::Bytes;

use super::index::Index;
use super::partition::Partition;
use super::scan::{ScanError, Scanner};
use super::segment::Segment;
use super::state::State;
use super::txn_index::AbortedTxn;
use crate::error::{OffsetOutOfRange, ReadError, StorageError};
use crate::layout::SegmentFile;
use crate::mutant::Mutant;
use crate::volume::VolumeFile;

/// Rolled segments of one partition that are kept open for readers.
const ROLLED_OPEN_MAX: usize = 4;

/// One byte of this many is probed to tell whether a range is in memory; read-ahead works in such units.
const PROBE_STRIDE: u64 = 64 << 10;

/// Bytes read at a time while bringing a range into memory.
const WARM_BYTES: usize = 256 << 10;

/// Which records a reader may see.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Isolation {
    /// Everything below the high watermark.
    #[default]
    ReadUncommitted,
    /// Everything below the last stable offset.
    ReadCommitted,
}

/// What to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadSpec {
    /// The first offset that is wanted.
    pub offset: i64,
    /// Most bytes to return.
    pub bytes_max: usize,
    /// Return the first batch whole, though it be larger than `bytes_max` (KIP-74); otherwise nothing when it does not fit.
    pub at_least_one_batch: bool,
    /// Which records may be seen.
    pub isolation: Isolation,
    /// Whether the call may wait for the disk; if so it also brings the result into memory, so that a
    /// `sendfile` of it does not wait either.
    pub blocking: bool,
}

/// Stored bytes: whole batches, of which the last may be cut off.
#[derive(Debug, Clone)]
pub enum Slice {
    /// Nothing.
    Empty,
    /// A range of a file, for `sendfile`.
    File {
        /// The segment.
        file: Arc<File>,
        /// Where the range starts.
        position: u64,
        /// Its bytes.
        len: u32,
    },
    /// Bytes in memory, from a volume that has no files.
    Bytes(Bytes),
}

impl Slice {
    /// Bytes of the slice.
    pub fn len(&self) -> usize {
        match self {
            Self::Empty => 0,
            Self::File { len, .. } => *len as usize,
            Self::Bytes(bytes) => bytes.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Fills `buffer` with the bytes from `at` on; may block.
    ///
    /// # Errors
    /// What the operating system says; `UnexpectedEof` past the end.
    pub(crate) fn read_exact_at(&self, buffer: &mut [u8], at: usize) -> std::io::Result<()> {
        let end = at.checked_add(buffer.len()).filter(|end| *end <= self.len());
        let end = end.ok_or(std::io::ErrorKind::UnexpectedEof)?;
        match self {
            Self::Empty => Ok(()),
            Self::Bytes(bytes) => {
                buffer.copy_from_slice(&bytes[at..end]);
                Ok(())
            }
            Self::File { file, position, .. } => {
                std::os::unix::fs::FileExt::read_exact_at(&**file, buffer, *position + at as u64)
            }
        }
    }

    /// The bytes, read from the file if need be; may block.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn to_bytes(&self) -> std::io::Result<Bytes> {
        match self {
            Self::Empty => Ok(Bytes::new()),
            Self::Bytes(bytes) => Ok(bytes.clone()),
            Self::File { file, position, len } => {
                let mut bytes = vec![0; *len as usize];
                std::os::unix::fs::FileExt::read_exact_at(&**file, &mut bytes, *position)?;
                Ok(bytes.into())
            }
        }
    }
}

/// What was read, and the offsets at that moment.
#[derive(Debug, Clone)]
pub struct ReadData {
    /// Starts with the batch that contains the wanted offset, which may begin before it.
    pub slice: Slice,
    /// First offset.
    pub log_start: i64,
    /// Every transaction below is decided.
    pub last_stable: i64,
    /// Everything below is visible.
    pub high_watermark: i64,
    /// For [`Isolation::ReadCommitted`]: the aborted transactions that have records in the slice, or a little behind
    /// it, in the order of their markers.
    pub aborted: Vec<AbortedTxn>,
}

/// The outcome of a read.
#[derive(Debug, Clone)]
pub enum Read {
    /// The read would wait for the disk: repeat it with `blocking` where that is allowed.
    WouldBlock,
    /// Data, or nothing at the end of the log.
    Data(ReadData),
}

/// Bytes that were found, and where.
struct Found {
    slice: Slice,
    place: Place,
    end_position: u64,
}

/// A place in the log, found under the lock.
#[derive(Clone)]
pub(super) struct Place {
    pub(super) segment: Arc<Segment>,
    /// Bytes of the segment that may be seen, if known.
    pub(super) end: Option<u64>,
    /// The exact position, if a recent commit ended there.
    pub(super) exact: Option<u64>,
    pub(super) next: Option<i64>,
    pub(super) is_last: bool,
}

impl State {
    /// The segment that contains `offset`.
    pub(super) fn place(&self, offset: i64) -> Option<Place> {
        let at = self.segments.partition_point(|segment| segment.base_offset() <= offset).checked_sub(1)?;
        let segment = Arc::clone(&self.segments[at]);
        let next = self.segments.get(at + 1).map(|segment| segment.base_offset());
        let exact = next.is_none().then(|| self.recent_ends.iter().rev().find(|(end, _)| *end == offset));
        let exact = exact.flatten().map(|(_, position)| *position);
        Some(Place { end: segment.visible(), exact, is_last: next.is_none(), next, segment })
    }
}

impl Partition {
    /// Reads stored batches from `spec.offset` on. Never past the high watermark, and only of one segment,
    /// so less than is there may come back.
    ///
    /// # Errors
    /// [`ReadError`]; `OffsetOutOfRange` below the log start and above the log end.
    pub fn read(&self, spec: ReadSpec) -> Result<Read, ReadError> {
        let mut from = spec.offset;
        loop {
            match self.try_read(&spec, from) {
                Ok(data) => return Ok(Read::Data(data)),
                Err(Stop::WouldBlock) => return Ok(Read::WouldBlock),
                Err(Stop::Error(error)) => return Err(self.noted(error)),
                // The log begins further up now: look again.
                Err(Stop::Removed) => {}
                // As if for the first time: what is visible by now, and which transactions are decided, is seen together.
                Err(Stop::Gap { next }) => from = next,
            }
        }
    }

    /// Reads what comes at or after `from`; between the wanted offset and that there is nothing.
    fn try_read(&self, spec: &ReadSpec, from: i64) -> Result<ReadData, Stop> {
        let look = |state: &mut State| (state.offsets(), state.place(from));
        let (offsets, place) = self.with_readable(look).map_err(Stop::Error)?;
        if spec.offset < offsets.log_start || spec.offset > offsets.log_end {
            let (requested, log_start, log_end) = (spec.offset, offsets.log_start, offsets.log_end);
            return Err(Stop::Error(OffsetOutOfRange { requested, log_start, log_end }.into()));
        }
        let limit = match spec.isolation {
            Isolation::ReadUncommitted => offsets.high_watermark,
            Isolation::ReadCommitted => offsets.last_stable,
        };
        let below = (limit < offsets.high_watermark).then_some(limit);
        let found = match place {
            Some(place) if from < limit => self.read_from(place, spec, below)?,
            _ => None,
        };
        let (slice, aborted) = match found {
            None => (Slice::Empty, Vec::new()),
            Some(found) => {
                let aborted = match spec.isolation {
                    Isolation::ReadUncommitted => Vec::new(),
                    Isolation::ReadCommitted => self.aborted_among(&found, spec, limit)?,
                };
                (found.slice, aborted)
            }
        };
        Ok(ReadData {
            slice,
            log_start: offsets.log_start,
            last_stable: offsets.last_stable,
            high_watermark: offsets.high_watermark,
            aborted,
        })
    }

    /// The aborted transactions among what was found below `limit`.
    fn aborted_among(&self, found: &Found, spec: &ReadSpec, limit: i64) -> Result<Vec<AbortedTxn>, Stop> {
        let place = found.place.clone();
        let (file, end) = self.open_segment(&place, spec.blocking)?;
        let behind = |index: &Index| index.offset_behind(found.end_position);
        let upper = self.with_index(&place.segment, &*file, end, spec.blocking, behind)?;
        let upper = upper.or(place.next).unwrap_or(limit).min(limit);
        self.aborted_between(place, spec.offset, upper, spec.blocking)
    }

    /// Finds the batch that contains the offset, and cuts from there; only what begins before `below`.
    fn read_from(&self, place: Place, spec: &ReadSpec, below: Option<i64>) -> Result<Option<Found>, Stop> {
        let (file, end) = self.open_segment(&place, spec.blocking)?;
        let mut visible = end;
        if let Some(offset) = below.filter(|below| place.next.is_none_or(|next| *below < next)) {
            let here = Place { exact: None, ..place.clone() };
            let first_hidden = self.locate(&here, &*file, end, &ReadSpec { offset, ..*spec })?;
            visible = first_hidden.map_or(end, |(position, _)| position);
        }
        let Some((position, first_bytes)) = self.locate(&place, &*file, end, spec)? else {
            // The offset lies in a gap at the end of this segment.
            return place.next.map_or(Ok(None), |next| Err(Stop::Gap { next }));
        };
        let wanted = spec.bytes_max as u64;
        if !spec.at_least_one_batch && wanted < first_bytes {
            // A part of the first batch is of no use to anyone.
            return Ok(None);
        }
        let wanted = if spec.at_least_one_batch { wanted.max(first_bytes) } else { wanted };
        let len = wanted.min(visible.saturating_sub(position)).min(u64::from(u32::MAX));
        let len = self.sound_len(&place, &*file, (position, len), end, spec)?;
        let slice = cut(&file, position, len as u32, spec.blocking)?;
        Ok(Some(Found { slice, place, end_position: position + len }))
    }

    /// The segment's file and how much of it may be seen; keeps few rolled segments open.
    pub(super) fn open_segment(
        &self,
        place: &Place,
        blocking: bool,
    ) -> Result<(Arc<dyn VolumeFile>, u64), Stop> {
        let segment = &place.segment;
        let file = match segment.opened() {
            Some(file) => file,
            None if !blocking => return Err(Stop::WouldBlock),
            None => {
                let file = segment.open(&*self.volume).map_err(|error| self.unopened(segment, error))?;
                if !place.is_last {
                    self.keep_open(segment);
                }
                file
            }
        };
        let end = place.end.or_else(|| segment.visible()).unwrap_or(0);
        Ok((file, end))
    }

    pub(super) fn unopened(&self, segment: &Arc<Segment>, error: StorageError) -> Stop {
        let is_there = |state: &mut State| state.segments.iter().any(|other| Arc::ptr_eq(other, segment));
        match self.with_readable(is_there) {
            Ok(false) => Stop::Removed,
            Ok(true) => Stop::Error(error.into()),
            Err(error) => Stop::Error(error),
        }
    }

    /// Notes that a rolled segment is open, and closes the one that was opened longest ago.
    pub(super) fn keep_open(&self, segment: &Arc<Segment>) {
        let closed = self.with_readable(|state| {
            state.read_rolled.push_back(Arc::clone(segment));
            (state.read_rolled.len() > ROLLED_OPEN_MAX).then(|| state.read_rolled.pop_front()).flatten()
        });
        if let Ok(Some(closed)) = closed {
            closed.release();
        }
    }

    /// Position of the batch that contains the offset, and the bytes of that batch.
    fn locate(
        &self,
        place: &Place,
        file: &dyn VolumeFile,
        end: u64,
        spec: &ReadSpec,
    ) -> Result<Option<(u64, u64)>, Stop> {
        if let Some(position) = place.exact.filter(|position| *position < end) {
            let left = end - position;
            if left <= spec.bytes_max as u64 {
                return Ok(Some((position, 0)));
            }
            let mut scanner = Scanner::new(file, position, end, spec.blocking);
            let header = scanner.next_header().map_err(|error| Stop::scan(&place.segment, error))?;
            return Ok(header.map(|(_, header)| (position, header.size as u64)));
        }
        let look = |index: &Index| index.position_of(spec.offset);
        let start = self.with_index(&place.segment, file, end, spec.blocking, look)?;
        match self.walk(place, file, start, end, spec) {
            Err(Walk::Astray) if place.is_last => {
                let segment = place.segment.path(SegmentFile::Index);
                let why = "no batch where the index says".to_owned();
                Err(Stop::Error(ReadError::Damaged { segment, position: start, why }))
            }
            Err(Walk::Astray) if !spec.blocking => Err(Stop::WouldBlock),
            Err(Walk::Astray) => {
                let interval_bytes = self.config().index_interval_bytes;
                let rebuilt = place.segment.rebuild_index(file, end, interval_bytes);
                rebuilt.map_err(|error| Stop::scan(&place.segment, error))?;
                // From the beginning nothing leads astray.
                self.walk(place, file, 0, end, spec).map_err(Walk::into_stop)
            }
            walked => walked.map_err(Walk::into_stop),
        }
    }

    /// Walks from `start`, which an index gave, to the batch that contains the offset.
    fn walk(
        &self,
        place: &Place,
        file: &dyn VolumeFile,
        start: u64,
        end: u64,
        spec: &ReadSpec,
    ) -> Result<Option<(u64, u64)>, Walk> {
        let checked = start > 0 && !self.mutants.has(Mutant::IndexTrusted);
        let mut scanner = Scanner::new(file, start, end, spec.blocking);
        loop {
            let (position, header) = match scanner.next_header() {
                Ok(None) => return Ok(None),
                Ok(Some(found)) => found,
                Err(ScanError::Bad { position, .. }) if checked && position == start => {
                    return Err(Walk::Astray);
                }
                Err(error) => return Err(Walk::Stop(Stop::scan(&place.segment, error))),
            };
            if checked && position == start && header.base_offset > spec.offset {
                return Err(Walk::Astray);
            }
            if header.last_offset() >= spec.offset {
                return Ok(Some((position, header.size as u64)));
            }
        }
    }

    pub(super) fn with_index<T>(
        &self,
        segment: &Segment,
        file: &dyn VolumeFile,
        end: u64,
        blocking: bool,
        look: impl Fn(&Index) -> T,
    ) -> Result<T, Stop> {
        loop {
            if let Some(index) = segment.index().as_ref() {
                return Ok(look(index));
            }
            if !blocking {
                return Err(Stop::WouldBlock);
            }
            segment
                .load_index(&*self.volume, file, end, self.config().index_interval_bytes)
                .map_err(|error| Stop::scan(segment, error))?;
        }
    }
}

/// Why a read stopped.
pub(super) enum Stop {
    WouldBlock,
    /// The segment is not part of the log any more.
    Removed,
    /// There is nothing between the wanted offset and this one, where the next segment began.
    Gap {
        next: i64,
    },
    Error(ReadError),
}

/// Why a walk from a place that an index gave stopped.
enum Walk {
    /// The index was wrong.
    Astray,
    Stop(Stop),
}

impl Walk {
    fn into_stop(self) -> Stop {
        match self {
            Self::Stop(stop) => stop,
            Self::Astray => Stop::WouldBlock.into_error().into(),
        }
    }
}

impl From<ReadError> for Stop {
    fn from(error: ReadError) -> Self {
        Self::Error(error)
    }
}

impl Stop {
    /// For those who may wait and hold no segment that could be removed meanwhile.
    pub(super) fn into_error(self) -> ReadError {
        match self {
            Self::Error(error) => error,
            Self::WouldBlock | Self::Removed | Self::Gap { .. } => {
                ReadError::Storage(std::io::Error::from(std::io::ErrorKind::WouldBlock).into())
            }
        }
    }

    pub(super) fn scan(segment: &Segment, error: ScanError) -> Self {
        match error {
            ScanError::WouldBlock => Self::WouldBlock,
            ScanError::Storage(error) => Self::Error(error.into()),
            ScanError::Bad { position, why } => {
                let segment = segment.path(SegmentFile::Log);
                Self::Error(ReadError::Damaged { segment, position, why })
            }
        }
    }
}

fn cut(file: &Arc<dyn VolumeFile>, position: u64, len: u32, blocking: bool) -> Result<Slice, Stop> {
    if len == 0 {
        return Ok(Slice::Empty);
    }
    let Some(os_file) = file.os_file() else {
        let mut bytes = vec![0; len as usize];
        crate::volume::read_exact_at(&**file, &mut bytes, position).map_err(stop)?;
        return Ok(Slice::Bytes(bytes.into()));
    };
    if !is_resident(&**file, position, len).map_err(stop)? {
        if !blocking {
            return Err(Stop::WouldBlock);
        }
        warm(&**file, position, len).map_err(stop)?;
    }
    Ok(Slice::File { file: os_file, position, len })
}

fn stop(error: std::io::Error) -> Stop {
    Stop::Error(ReadError::Storage(error.into()))
}

/// Probes whether a range is in memory, cheaply: its first and last byte, and some in between.
fn is_resident(file: &dyn VolumeFile, position: u64, len: u32) -> std::io::Result<bool> {
    let last = position + u64::from(len) - 1;
    let mut at = position;
    loop {
        if file.try_read_at(&mut [0], at)?.is_none() {
            return Ok(false);
        }
        if at == last {
            return Ok(true);
        }
        at = (at + PROBE_STRIDE).min(last);
    }
}

fn warm(file: &dyn VolumeFile, position: u64, len: u32) -> std::io::Result<()> {
    let mut buffer = vec![0; WARM_BYTES.min(len as usize)];
    let end = position + u64::from(len);
    let mut at = position;
    while at < end {
        let wanted = buffer.len().min(usize::try_from(end - at).unwrap_or(buffer.len()));
        match file.read_at(&mut buffer[..wanted], at)? {
            0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            read => at += read as u64,
        }
    }
    Ok(())
}
