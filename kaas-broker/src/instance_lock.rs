//! One broker process a folder: a lock that the kernel releases when its owner dies, with the owner's pid in it.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::path::Path;

use rustix::fs::{FlockOperation, flock};

/// The name of the lock's file in the data folder.
const FILE_NAME: &str = "kaas.lock";

/// The lock; dropping it frees the folder.
#[derive(Debug)]
pub struct InstanceLock {
    _file: File,
}

/// Why the folder was not locked.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another broker has it.
    #[error("{folder} is in use by another kaas, pid {pid}")]
    Owned {
        /// The folder.
        folder: String,
        /// The pid that the owner wrote, or a question mark.
        pid: String,
    },
    /// The folder cannot be used.
    #[error("cannot lock {folder}: {source}")]
    Io {
        /// The folder.
        folder: String,
        /// What the system said.
        source: io::Error,
    },
}

impl InstanceLock {
    /// Locks a folder, creating it when it is not there.
    pub fn acquire(folder: &Path) -> Result<InstanceLock, LockError> {
        let name = folder.display().to_string();
        let failed = |source: io::Error| LockError::Io { folder: name.clone(), source };
        std::fs::create_dir_all(folder).map_err(failed)?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let mut file = options.open(folder.join(FILE_NAME)).map_err(failed)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let mut pid = String::new();
                let _ = file.read_to_string(&mut pid);
                let pid = if pid.trim().is_empty() { "?".to_owned() } else { pid.trim().to_owned() };
                return Err(LockError::Owned { folder: name, pid });
            }
            Err(error) => return Err(failed(error.into())),
        }
        let write = |file: &mut File| {
            file.set_len(0)?;
            file.rewind()?;
            writeln!(file, "{}", std::process::id())
        };
        write(&mut file).map_err(failed)?;
        Ok(InstanceLock { _file: file })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_instance_is_told_the_pid_of_the_first() {
        let folder = tempfile::tempdir().unwrap();
        let first = InstanceLock::acquire(folder.path()).unwrap();
        let error = InstanceLock::acquire(folder.path()).unwrap_err().to_string();
        assert!(error.contains(&format!("pid {}", std::process::id())), "{error}");
        drop(first);
        assert!(InstanceLock::acquire(folder.path()).is_ok());
    }
}
