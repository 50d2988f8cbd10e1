//! A walk over the batches of a segment file, header by header or with checksums.

use std::io;

use crate::error::StorageError;
use crate::record::{BATCH_OVERHEAD, BatchHeader, EndTxnMarker, batch_crc};
use crate::volume::VolumeFile;

/// Bytes fetched at a time; most header walks are served by one such read per index interval.
const WINDOW_BYTES: usize = 16 << 10;

/// Why a walk stopped early.
#[derive(Debug, Clone)]
pub(crate) enum ScanError {
    /// The bytes are not in memory, and the walk may not wait.
    WouldBlock,
    Storage(StorageError),
    /// There is no whole, valid batch at this position.
    Bad {
        position: u64,
        why: String,
    },
}

/// A verified batch: its position, its header and all of its bytes.
pub(crate) type Whole<'a> = (u64, BatchHeader, &'a [u8]);

impl From<io::Error> for ScanError {
    fn from(error: io::Error) -> Self {
        Self::Storage(error.into())
    }
}

/// A cursor over the batches between two positions.
pub(crate) struct Scanner<'a> {
    file: &'a dyn VolumeFile,
    position: u64,
    end: u64,
    blocking: bool,
    window: Vec<u8>,
    window_at: u64,
}

impl<'a> Scanner<'a> {
    pub(crate) fn new(file: &'a dyn VolumeFile, position: u64, end: u64, blocking: bool) -> Self {
        Self { file, position, end, blocking, window: Vec::new(), window_at: position }
    }

    /// Another cursor at the same place.
    pub(crate) fn ahead(&self) -> Scanner<'a> {
        Scanner::new(self.file, self.position, self.end, self.blocking)
    }

    /// Where the next batch starts.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// The next batch's position and header, without looking at its records; `None` at the end.
    pub(crate) fn next_header(&mut self) -> Result<Option<(u64, BatchHeader)>, ScanError> {
        if self.position >= self.end {
            return Ok(None);
        }
        let at = self.position;
        let left = self.end - at;
        let head = self.bytes(at, BATCH_OVERHEAD.min(usize::try_from(left).unwrap_or(BATCH_OVERHEAD)))?;
        let header = BatchHeader::parse(head)
            .map_err(|error| ScanError::Bad { position: at, why: error.to_string() })?;
        if header.size as u64 > left {
            let why = format!("a batch of {} bytes with {left} bytes left", header.size);
            return Err(ScanError::Bad { position: at, why });
        }
        self.position = at + header.size as u64;
        Ok(Some((at, header)))
    }

    /// The next batch, its checksum verified, and all of its bytes.
    pub(crate) fn next_batch(&mut self) -> Result<Option<Whole<'_>>, ScanError> {
        let Some((at, header)) = self.next_header()? else { return Ok(None) };
        if let Err(error) = self.verified(at, &header) {
            self.position = at;
            return Err(error);
        }
        // Fetched again only to end the borrow that the error path needed; it is in the window.
        let bytes = self.bytes(at, header.size)?;
        Ok(Some((at, header, bytes)))
    }

    /// The marker in a batch that was just passed, verified; `None` in any other.
    pub(crate) fn verified_marker(
        &mut self,
        at: u64,
        header: &BatchHeader,
    ) -> Result<Option<EndTxnMarker>, ScanError> {
        let marker = EndTxnMarker::read(header, self.verified(at, header)?);
        marker.map_err(|error| ScanError::Bad { position: at, why: error.to_string() })
    }

    fn verified(&mut self, at: u64, header: &BatchHeader) -> Result<&[u8], ScanError> {
        let bytes = self.bytes(at, header.size)?;
        let computed = batch_crc(bytes);
        if computed != header.crc {
            let why = format!("stored checksum {:#x}, computed {computed:#x}", header.crc);
            return Err(ScanError::Bad { position: at, why });
        }
        Ok(bytes)
    }

    fn bytes(&mut self, at: u64, len: usize) -> Result<&[u8], ScanError> {
        let inside = at >= self.window_at && at + len as u64 <= self.window_at + self.window.len() as u64;
        if !inside {
            self.load(at, len)?;
        }
        let start = (at - self.window_at) as usize;
        Ok(&self.window[start..start + len])
    }

    fn load(&mut self, at: u64, len: usize) -> Result<(), ScanError> {
        let left = usize::try_from(self.end - at).unwrap_or(usize::MAX);
        self.window.clear();
        self.window_at = at;
        self.window.resize(len.max(WINDOW_BYTES.min(left)), 0);
        let mut filled = 0;
        while filled < len {
            let rest = &mut self.window[filled..];
            let position = at + filled as u64;
            let read = if self.blocking {
                self.file.read_at(rest, position)?
            } else {
                self.file.try_read_at(rest, position)?.ok_or(ScanError::WouldBlock)?
            };
            if read == 0 {
                self.window.clear();
                return Err(ScanError::Bad { position: at, why: "the file ends early".to_owned() });
            }
            filled += read;
        }
        self.window.truncate(filled);
        Ok(())
    }
}
