//! What is wrong with a volume: every file held against its checksum, its name and the files that it must agree with.
//!
//! An audit only reads, and never says that something is fine which it has not looked at: every batch's checksum is
//! computed, offsets and leader epochs, which no checksum covers, are held against their neighbours and the chain of
//! claims, and what can be rebuilt from the log is rebuilt and compared. It may run beside a broker: what changes
//! under it is looked at again. Memory is bounded by one batch, one segment's indexes and one partition's producers.
//!
//! One thing it cannot see: in a compacted segment, which has gaps, a flipped base offset that still lies between its
//! neighbours', unless the segment's index names the batch.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path();
//! # kaas_core::Engine::open(kaas_core::EngineOptions::at(path)?)?.close()?;
//! let summary = kaas_core::audit::audit_dir(path, &mut |finding| println!("{finding}"))?;
//! assert_eq!(summary.worst(), None);
//! # Ok(())
//! # }
//! ```

mod claims;
mod cluster;
mod finding;
mod indexes;
mod journals;
mod log;
mod partition;
mod segment;
mod snapshots;
mod topics;

pub use finding::{Finding, Problem, Severity, Summary};

use std::path::Path;

use serde::de::DeserializeOwned;

use crate::error::StorageError;
use crate::state_file;
use crate::volume::{DirEntry, OsVolume, Volume};

/// Why a volume cannot be audited.
#[derive(Debug, Clone, thiserror::Error)]
pub enum AuditError {
    /// The directory itself cannot be read.
    #[error("{path}: {error}")]
    Storage {
        /// What was being read.
        path: String,
        /// How it failed.
        #[source]
        error: StorageError,
    },
    /// There is nothing of this format in it.
    #[error("there is no kaas volume here")]
    NotAVolume,
    /// A format that this version does not know.
    #[error("the volume has format version {found}, this program reads {known}")]
    UnknownFormat {
        /// The version on the volume.
        found: u32,
        /// The version of this program.
        known: u32,
    },
}

/// Audits the volume in a directory, and tells `sink` what it finds as it finds it.
///
/// # Errors
/// [`AuditError`]: nothing can be said about the volume.
pub fn audit_dir(path: impl AsRef<Path>, sink: &mut dyn FnMut(Finding)) -> Result<Summary, AuditError> {
    let path = path.as_ref();
    let storage =
        |error: std::io::Error| AuditError::Storage { path: path.display().to_string(), error: error.into() };
    // It must exist: a volume would otherwise be created around a misspelt path.
    std::fs::read_dir(path).map_err(storage)?;
    audit(&OsVolume::at(path).map_err(storage)?, sink)
}

/// As [`audit_dir`], for any volume.
///
/// # Errors
/// [`AuditError`]: nothing can be said about the volume.
pub fn audit(volume: &dyn Volume, sink: &mut dyn FnMut(Finding)) -> Result<Summary, AuditError> {
    let mut audit = Audit { volume, sink, summary: Summary::default() };
    audit.cluster()?;
    audit.topics()?;
    Ok(audit.summary)
}

/// An audit under way.
struct Audit<'a> {
    volume: &'a dyn Volume,
    sink: &'a mut dyn FnMut(Finding),
    summary: Summary,
}

impl Audit<'_> {
    fn report(&mut self, finding: Finding) {
        self.summary.count(finding.severity);
        (self.sink)(finding);
    }

    fn found(&mut self, severity: Severity, path: impl Into<String>, problem: Problem) {
        self.report(Finding { severity, path: path.into(), position: None, problem });
    }

    /// The names in a directory; what cannot be listed is damage, and what is not there is empty.
    fn list(&mut self, dir: &str) -> Vec<DirEntry> {
        match self.volume.list(dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            Err(error) => {
                self.found(Severity::Damage, dir, Problem::Unreadable(error.to_string()));
                Vec::new()
            }
        }
    }

    /// The content of a state file that can be trusted; `severity` is that of one that cannot.
    fn state<T: DeserializeOwned>(&mut self, path: &str, severity: Severity) -> Option<T> {
        match load_state(self.volume, path)? {
            Ok(state) => Some(state),
            Err(problem) => {
                self.found(severity, path, problem);
                None
            }
        }
    }
}

/// The content of a state file, or what is wrong with it; `None` when it has vanished.
fn load_state<T: DeserializeOwned>(volume: &dyn Volume, path: &str) -> Option<Result<T, Problem>> {
    match state_file::load(volume, path) {
        Ok(loaded) => Some(loaded?.map_err(|error| Problem::State(error.why))),
        Err(error) => Some(Err(Problem::Unreadable(error.to_string()))),
    }
}
