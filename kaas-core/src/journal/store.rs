//! The files of one journal: which counts, how the next one begins, when the earlier ones go.

use std::io::{self, IoSlice};
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use super::file::{JournalFile, Line, Verdict, beginning};
use super::line::push_line;
use crate::error::StorageError;
use crate::layout::{journal_file, parse_journal};
use crate::mutant::{Mutant, Mutants};
use crate::volume::{Volume, VolumeFile, ensure_dir, parent, read_file};

/// The largest journal that is read: far above what a slot's state and [`Writer::is_long`] let a file become.
pub(crate) const JOURNAL_BYTES_MAX: u64 = 2 << 30;

/// Epoch and sequence of a slot's first file ever.
pub(crate) const FIRST: (u32, u32) = (1, 0);

/// Why a journal cannot be read.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum JournalError {
    #[error(transparent)]
    Storage(#[from] StorageError),
    #[error("{path} is damaged from byte {position} on")]
    Damaged { path: String, position: u64 },
    #[error("{path} has format {format}")]
    UnknownFormat { path: String, format: u32 },
}

impl From<io::Error> for JournalError {
    fn from(error: io::Error) -> Self {
        Self::Storage(error.into())
    }
}

/// Where a journal is and who writes it.
#[derive(Clone)]
pub(crate) struct JournalStore {
    pub(crate) volume: Arc<dyn Volume>,
    /// The directory of the slot.
    pub(crate) dir: String,
    pub(crate) broker_id: i32,
    pub(crate) incarnation: Uuid,
    /// Whether a change counts when it is synced, or already when it is written.
    pub(crate) sync: bool,
    /// Bytes of changes after which a new file begins, however small the state is.
    pub(crate) changes_bytes_min: u64,
    pub(crate) mutants: Mutants,
}

/// What was found in a journal's directory.
#[derive(Debug)]
pub(crate) struct Loaded<S> {
    /// The epoch of this life: no file has it, or a higher one.
    pub(crate) epoch: u32,
    /// The state.
    pub(crate) state: S,
    /// Whether a file counted, so that there is a state that rests on it.
    pub(crate) found: bool,
}

impl JournalStore {
    /// Repeats the newest whole file on an empty state.
    pub(crate) fn load<S, E: DeserializeOwned>(
        &self,
        empty: impl Fn(u32) -> S,
        replay: impl Fn(&mut S, E),
    ) -> Result<Loaded<S>, JournalError> {
        let files = self.files()?;
        let epoch = files.last().map_or(FIRST.0, |(epoch, _)| epoch.saturating_add(1));
        for &(epoch_found, sequence) in files.iter().rev() {
            let path = self.path(epoch_found, sequence);
            let bytes = read_file(&*self.volume, &path, JOURNAL_BYTES_MAX)?;
            let mut state = empty(epoch);
            match JournalFile(&bytes).read(|entry| replay(&mut state, entry)) {
                Verdict::Whole(_) => return Ok(Loaded { epoch, state, found: true }),
                Verdict::Unfinished => {}
                Verdict::Damaged(position) => return Err(JournalError::Damaged { path, position }),
                Verdict::UnknownFormat(format) => return Err(JournalError::UnknownFormat { path, format }),
            }
        }
        match files.first() {
            // Files go only when a later one is whole and durable; so one was, and is no more.
            Some(&(epoch, sequence)) if (epoch, sequence) != FIRST => {
                Err(JournalError::Damaged { path: self.path(epoch, sequence), position: 0 })
            }
            _ => Ok(Loaded { epoch, state: empty(epoch), found: false }),
        }
    }

    /// Begins a file with all there is; what was in the files before it counts no more once this has returned.
    ///
    /// The file is synced and named durably even when changes are not: it takes the place of others.
    pub(crate) fn begin<E: Serialize>(
        &self,
        (epoch, sequence): (u32, u32),
        snapshot: &[E],
    ) -> io::Result<Writer> {
        let bytes = beginning(self.broker_id, self.incarnation, snapshot)?;
        ensure_dir(&*self.volume, parent(&self.dir))?;
        ensure_dir(&*self.volume, &self.dir)?;
        let path = self.path(epoch, sequence);
        let file = self.volume.create_new(&path)?;
        let written = file.write_all_at(&mut [IoSlice::new(&bytes)], 0);
        if let Err(error) = written {
            // A full disk would otherwise fill up with the beginnings of files. Nobody was told of this one; should it stay, it is
            // unfinished and stands for nothing.
            let _ = self.volume.remove_file(&path);
            return Err(error);
        }
        if !self.mutants.has(Mutant::AckBeforeSync) {
            file.sync_data()?;
        }
        if !self.mutants.has(Mutant::NoDirectorySync) {
            self.volume.sync_dir(&self.dir)?;
        }
        let len = bytes.len() as u64;
        let Self { sync, changes_bytes_min, mutants, .. } = *self;
        Ok(Writer { file, begun: len, written: len, synced: len, sync, changes_bytes_min, mutants })
    }

    /// Removes the files before `name`, which is whole and durable. Only what was judged at loading is there.
    pub(crate) fn remove_before(&self, name: (u32, u32)) -> io::Result<()> {
        for (epoch, sequence) in self.files()? {
            if (epoch, sequence) < name {
                crate::volume::remove_if_there(&*self.volume, &self.path(epoch, sequence))?;
            }
        }
        Ok(())
    }

    fn path(&self, epoch: u32, sequence: u32) -> String {
        format!("{}/{}", self.dir, journal_file(epoch, sequence))
    }

    /// Epochs and sequences of all files, in order.
    fn files(&self) -> io::Result<Vec<(u32, u32)>> {
        let entries = match self.volume.list(&self.dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut files: Vec<_> = entries.iter().filter_map(|entry| parse_journal(&entry.name)).collect();
        files.sort_unstable();
        Ok(files)
    }
}

/// The file that changes are written to.
pub(crate) struct Writer {
    file: Arc<dyn VolumeFile>,
    /// Bytes of its beginning.
    begun: u64,
    written: u64,
    synced: u64,
    sync: bool,
    changes_bytes_min: u64,
    mutants: Mutants,
}

impl Writer {
    /// Whether the changes have become long enough for a new file: longer than what it began with, so that the cost
    /// of beginning anew stays in proportion.
    pub(crate) fn is_long(&self) -> bool {
        self.written - self.begun > self.changes_bytes_min.max(self.begun)
    }

    /// Writes changes behind the others, and syncs them when they count only then. After an error the file is of no use.
    pub(crate) fn write<E: Serialize>(&mut self, entries: &[E]) -> io::Result<()> {
        let mut bytes = Vec::new();
        for entry in entries {
            push_line(&mut bytes, &Line { synced: self.synced, entry })?;
        }
        self.file.write_all_at(&mut [IoSlice::new(&bytes)], self.written)?;
        self.written += bytes.len() as u64;
        if self.sync { self.sync() } else { Ok(()) }
    }

    /// Makes what was written durable.
    pub(crate) fn sync(&mut self) -> io::Result<()> {
        crate::engine::sync_file(&*self.file, self.mutants).map_err(io::Error::other)?;
        self.synced = self.written;
        Ok(())
    }
}
