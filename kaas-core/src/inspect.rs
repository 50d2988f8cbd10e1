//! Reading files of a volume from outside: what is in them, and what is wrong with them.

mod file;

pub use file::{Inspected, inspect};

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::log::{ScanError, Scanner};
use crate::record::{BatchHeader, MalformedRecord, Record, read_batch};
use crate::volume::{Access, OsVolume, Volume, VolumeFile};

/// A batch of a segment file.
#[derive(Debug, Clone)]
pub struct InspectedBatch {
    /// Where it starts in the file.
    pub position: u64,
    /// Its header.
    pub header: BatchHeader,
    bytes: Vec<u8>,
}

impl InspectedBatch {
    /// Its records, decompressed.
    ///
    /// # Errors
    /// [`MalformedRecord`].
    pub fn records(&self) -> Result<Vec<Record>, MalformedRecord> {
        Ok(read_batch(&self.bytes)?.map(|batch| batch.records).unwrap_or_default())
    }
}

/// Why a file cannot be shown, or not to its end.
#[derive(Debug, Clone, thiserror::Error)]
pub enum InspectError {
    /// The file could not be read.
    #[error(transparent)]
    Storage(#[from] crate::error::StorageError),
    /// Its name says nothing of this format.
    #[error("{0:?} is not a name of this format")]
    NotRecognised(String),
    /// A state file that cannot be trusted.
    #[error(transparent)]
    State(#[from] crate::state_file::DamagedState),
    /// An index that is short, damaged or of another format.
    #[error("the index is damaged, or of another format")]
    Index,
    /// There is no whole, valid batch at this place.
    #[error("byte {position}: {why}")]
    Damaged {
        /// Where in the file.
        position: u64,
        /// What is wrong.
        why: String,
    },
}

/// The batches of a segment file, verified one by one; ends after the first that is damaged.
#[derive(Debug)]
pub struct Batches {
    file: Arc<dyn VolumeFile>,
    position: u64,
    end: u64,
}

/// Opens a segment file.
///
/// # Errors
/// What the operating system says.
///
/// ```no_run
/// for batch in kaas_core::inspect::batches("00000001-00000000000000000000.log")? {
///     let batch = batch?;
///     println!("{} at byte {}", batch.header.base_offset, batch.position);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn batches(path: impl AsRef<Path>) -> io::Result<Batches> {
    let path = path.as_ref();
    // The file must exist: a volume would otherwise be created around a misspelt path.
    File::open(path)?;
    let name = path.file_name().and_then(|name| name.to_str());
    let name = name.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let file = OsVolume::at(dir)?.open(name, Access::Read)?;
    let end = file.byte_len()?;
    Ok(Batches { file, position: 0, end })
}

impl Iterator for Batches {
    type Item = Result<InspectedBatch, InspectError>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut scanner = Scanner::new(&*self.file, self.position, self.end, true);
        let item = match scanner.next_batch() {
            Ok(None) => return None,
            Ok(Some((position, header, bytes))) => {
                self.position = position + header.size as u64;
                return Some(Ok(InspectedBatch { position, header, bytes: bytes.to_vec() }));
            }
            Err(ScanError::Bad { position, why }) => InspectError::Damaged { position, why },
            Err(ScanError::Storage(error)) => error.into(),
            Err(ScanError::WouldBlock) => {
                InspectError::Storage(io::Error::from(io::ErrorKind::WouldBlock).into())
            }
        };
        self.position = self.end;
        Some(Err(item))
    }
}
