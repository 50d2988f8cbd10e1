//! One segment: a log file, how much of it readers may see, and its index.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock, RwLockReadGuard};

use super::index::Index;
use super::scan::{ScanError, Scanner};
use super::sound::Sound;
use super::txn_index::TxnIndex;
use crate::error::StorageError;
use crate::layout::{SegmentFile, SegmentName};
use crate::mutant::{Mutant, Mutants};
use crate::volume::{Access, Volume, VolumeFile, read_file, replace_cache};

/// The visible length is that of the file, which has not been opened yet.
const UNKNOWN: u64 = u64::MAX;

/// The largest index file that is read: ten times Kafka's default for `segment.index.bytes`.
pub(crate) const INDEX_FILE_BYTES_MAX: u64 = 100 << 20;

#[derive(Debug)]
pub(crate) struct Segment {
    name: SegmentName,
    dir: Arc<str>,
    visible: AtomicU64,
    file: Mutex<Option<Arc<dyn VolumeFile>>>,
    index: RwLock<Option<Index>>,
    txns: RwLock<Option<TxnIndex>>,
    mutants: Mutants,
    measured: Mutex<Option<Measures>>,
    /// What was written from here on was written by this process.
    written_from: AtomicU64,
    sound: Mutex<Sound>,
}

/// What rolling and retention ask of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Measures {
    /// Visible bytes.
    pub(crate) bytes: u64,
    /// The greatest timestamp of the first batch, or -1.
    pub(crate) first_timestamp: i64,
    /// The greatest timestamp of all; where no record has one, when the file was last written, if that is known.
    pub(crate) largest_timestamp: Option<i64>,
}

impl Segment {
    /// A segment whose file has not been looked at; `len` when a seal or a scan has told its length.
    pub(crate) fn closed(dir: Arc<str>, name: SegmentName, len: Option<u64>, mutants: Mutants) -> Self {
        Self {
            name,
            dir,
            visible: AtomicU64::new(len.unwrap_or(UNKNOWN)),
            file: Mutex::new(None),
            index: RwLock::new(None),
            txns: RwLock::new(None),
            mutants,
            measured: Mutex::new(None),
            written_from: AtomicU64::new(UNKNOWN),
            sound: Mutex::default(),
        }
    }

    /// A segment that was just created: empty, open, with empty indexes. `open` are the transactions before it.
    pub(crate) fn created(
        dir: Arc<str>,
        name: SegmentName,
        file: Arc<dyn VolumeFile>,
        open: Vec<(i64, i64)>,
        mutants: Mutants,
    ) -> Self {
        let segment = Self::closed(dir, name, Some(0), mutants);
        *segment.file.lock() = Some(file);
        *segment.index.write() = Some(Index::new(name.base_offset));
        *segment.txns.write() = Some(TxnIndex::new(name.base_offset, open));
        segment.set_written_from(0);
        segment
    }

    /// A segment that compaction has written: complete, closed, its index in memory.
    pub(crate) fn compacted(
        dir: Arc<str>,
        name: SegmentName,
        bytes: u64,
        index: Index,
        mutants: Mutants,
    ) -> Self {
        Self { index: RwLock::new(Some(index)), ..Self::closed(dir, name, Some(bytes), mutants) }
    }

    pub(crate) fn name(&self) -> SegmentName {
        self.name
    }

    pub(crate) fn base_offset(&self) -> i64 {
        self.name.base_offset
    }

    pub(crate) fn path(&self, kind: SegmentFile) -> String {
        format!("{}/{}", self.dir, self.name.file(kind))
    }

    pub(crate) fn set_visible(&self, bytes: u64) {
        self.visible.store(bytes, Ordering::Release);
    }

    /// Bytes that readers may see, if known without I/O.
    pub(crate) fn visible(&self) -> Option<u64> {
        Some(self.visible.load(Ordering::Acquire)).filter(|bytes| *bytes != UNKNOWN)
    }

    /// Notes that all bytes from `position` on will be this process's own.
    pub(crate) fn set_written_from(&self, position: u64) {
        self.written_from.store(position, Ordering::Release);
    }

    /// Notes that the batches of a range have their checksums.
    pub(crate) fn add_sound(&self, start: u64, end: u64) {
        self.sound.lock().add(start, end);
    }

    /// Whether the bytes of a range were checked, by this process's own append or since.
    pub(crate) fn is_sound(&self, start: u64, end: u64) -> bool {
        let end = end.min(self.written_from.load(Ordering::Acquire));
        start >= end || self.sound.lock().covers(start, end)
    }

    /// The file if it is open already.
    pub(crate) fn opened(&self) -> Option<Arc<dyn VolumeFile>> {
        self.file.lock().clone()
    }

    /// The file and its visible bytes; a descriptor that was not open is not kept. May block.
    pub(crate) fn look(&self, volume: &dyn Volume) -> Result<(Arc<dyn VolumeFile>, u64), StorageError> {
        let file = match self.opened() {
            Some(file) => file,
            None => volume.open(&self.path(SegmentFile::Log), Access::Read)?,
        };
        let bytes = match self.visible() {
            Some(bytes) => bytes,
            None => {
                let bytes = file.byte_len()?;
                self.set_visible(bytes);
                bytes
            }
        };
        Ok((file, bytes))
    }

    /// Opens the file for reading unless it is open; may block.
    pub(crate) fn open(&self, volume: &dyn Volume) -> Result<Arc<dyn VolumeFile>, StorageError> {
        if let Some(file) = self.opened() {
            return Ok(file);
        }
        let file = volume.open(&self.path(SegmentFile::Log), Access::Read)?;
        if self.visible().is_none() {
            self.set_visible(file.byte_len()?);
        }
        *self.file.lock() = Some(Arc::clone(&file));
        Ok(file)
    }

    /// Opens the file for writing, and keeps that descriptor for reading too.
    pub(crate) fn open_for_write(&self, volume: &dyn Volume) -> Result<Arc<dyn VolumeFile>, StorageError> {
        let file = volume.open(&self.path(SegmentFile::Log), Access::ReadWrite)?;
        *self.file.lock() = Some(Arc::clone(&file));
        Ok(file)
    }

    /// Lets go of the descriptor and the indexes of a segment that is rarely read.
    pub(crate) fn release(&self) {
        *self.file.lock() = None;
        *self.index.write() = None;
        *self.txns.write() = None;
    }

    /// The index, if it is in memory.
    pub(crate) fn index(&self) -> RwLockReadGuard<'_, Option<Index>> {
        self.index.read()
    }

    /// Brings the index into memory, from its files as far as they go and from the log beyond; may block.
    pub(crate) fn load_index(
        &self,
        volume: &dyn Volume,
        file: &dyn VolumeFile,
        end: u64,
        interval_bytes: u32,
    ) -> Result<(), ScanError> {
        if self.index.read().is_some() {
            return Ok(());
        }
        let index = self.read_index(volume, file, end, interval_bytes)?;
        // Two readers may have built it at once; the writer's own, if there is one, knows most.
        self.index.write().get_or_insert(index);
        Ok(())
    }

    /// The index as of `end`, from its files as far as they go and from the log beyond.
    fn read_index(
        &self,
        volume: &dyn Volume,
        file: &dyn VolumeFile,
        end: u64,
        interval_bytes: u32,
    ) -> Result<Index, ScanError> {
        let base_offset = self.base_offset();
        let read = |kind| read_file(volume, &self.path(kind), INDEX_FILE_BYTES_MAX).ok();
        let unchecked = self.mutants.has(Mutant::IndexTrusted);
        let stored = match (read(SegmentFile::Index), read(SegmentFile::TimeIndex)) {
            (Some(index), Some(times)) => Index::decode(base_offset, end, &index, &times, unchecked),
            _ => None,
        };
        let index = stored.unwrap_or_else(|| Index::new(base_offset));
        extended(index, file, end, interval_bytes)
    }

    /// Makes the index from the log alone: the one that there is has led astray. Only for a segment that does not
    /// grow; may block.
    pub(crate) fn rebuild_index(
        &self,
        file: &dyn VolumeFile,
        end: u64,
        interval_bytes: u32,
    ) -> Result<(), ScanError> {
        tracing::warn!(segment = self.path(SegmentFile::Log), "wrong index: made anew from the log");
        let index = extended(Index::new(self.base_offset()), file, end, interval_bytes)?;
        *self.index.write() = Some(index);
        Ok(())
    }

    /// The transactions, if they are in memory.
    pub(crate) fn txns(&self) -> RwLockReadGuard<'_, Option<TxnIndex>> {
        self.txns.read()
    }

    /// The transactions by the segment's file, as far as it goes, if it can be trusted; may block.
    pub(crate) fn stored_txns(&self, volume: &dyn Volume, end: u64) -> Option<TxnIndex> {
        let file = read_file(volume, &self.path(SegmentFile::TxnIndex), INDEX_FILE_BYTES_MAX).ok()?;
        TxnIndex::decode(end, &file, self.mutants.has(Mutant::IndexTrusted))
    }

    /// Takes the transactions into memory if they cover all that is visible, or if they are there already. What is
    /// visible must not change meanwhile.
    pub(crate) fn put_txns(&self, txns: &mut TxnIndex) -> bool {
        let mut slot = self.txns.write();
        let current = slot.is_some() || self.visible() == Some(txns.covered());
        if current {
            slot.get_or_insert_with(|| txns.clone());
        }
        current
    }

    /// Changes the transactions that are in memory, if they are.
    pub(crate) fn update_txns(&self, change: impl FnOnce(&mut TxnIndex)) {
        if let Some(txns) = self.txns.write().as_mut() {
            change(txns);
        }
    }

    /// Writes the transactions' file, if that covers no more than `synced` bytes.
    pub(crate) fn store_txns(&self, volume: &dyn Volume, synced: u64) -> Result<(), StorageError> {
        let encode = |txns: &TxnIndex| (txns.covered() <= synced).then(|| txns.encode());
        let Some(bytes) = self.txns.read().as_ref().and_then(encode) else { return Ok(()) };
        Ok(replace_cache(volume, &self.path(SegmentFile::TxnIndex), &bytes)?)
    }

    /// Looks at the segment, once for every length it has; keeps neither descriptor nor index. May block.
    pub(crate) fn measure(&self, volume: &dyn Volume, interval_bytes: u32) -> Result<Measures, ScanError> {
        let known = *self.measured.lock();
        if let (Some(known), Some(visible)) = (known, self.visible())
            && known.bytes == visible
        {
            return Ok(known);
        }
        let (file, bytes) = self.look(volume).map_err(ScanError::Storage)?;
        let in_memory = self.index.read().as_ref().map(Index::max_timestamp);
        let largest = match in_memory {
            Some(timestamp) => timestamp,
            None => self.read_index(volume, &*file, bytes, interval_bytes)?.max_timestamp(),
        };
        let first = Scanner::new(&*file, 0, bytes, true).next_header()?;
        let measured = Measures {
            bytes,
            first_timestamp: first.map_or(-1, |(_, header)| header.max_timestamp),
            largest_timestamp: if largest >= 0 { Some(largest) } else { modified_ms(&*file) },
        };
        *self.measured.lock() = Some(measured);
        Ok(measured)
    }

    /// Changes the index that is in memory, if it is.
    pub(crate) fn update_index<T>(&self, change: impl FnOnce(&mut Index) -> T) -> Option<T> {
        self.index.write().as_mut().map(change)
    }

    /// Writes the index files. They are a cache, so they are not made durable.
    pub(crate) fn store_index(&self, volume: &dyn Volume) -> Result<(), StorageError> {
        let Some((index, times)) = self.index.read().as_ref().map(Index::encode) else { return Ok(()) };
        replace_cache(volume, &self.path(SegmentFile::Index), &index)?;
        Ok(replace_cache(volume, &self.path(SegmentFile::TimeIndex), &times)?)
    }
}

fn extended(
    mut index: Index,
    file: &dyn VolumeFile,
    end: u64,
    interval_bytes: u32,
) -> Result<Index, ScanError> {
    let mut scanner = Scanner::new(file, index.covered(), end, true);
    while let Some((_, header)) = scanner.next_header()? {
        index.push(&header, interval_bytes);
    }
    Ok(index)
}

/// When the file was last written, if the storage can tell.
fn modified_ms(file: &dyn VolumeFile) -> Option<i64> {
    let modified = file.os_file()?.metadata().ok()?.modified().ok()?;
    let since_1970 = modified.duration_since(std::time::UNIX_EPOCH).ok()?;
    i64::try_from(since_1970.as_millis()).ok()
}
