//! The storage seam: the few file operations that the log's durability rests on.
//!
//! A path is relative to the volume's root, with `/` between its parts. A new or renamed file is durable
//! only after its own `sync_data` and a [`Volume::sync_dir`] of the directory that names it.

mod os;

#[cfg(feature = "test-util")]
mod mem;
#[cfg(feature = "test-util")]
mod nfs;
#[cfg(feature = "test-util")]
mod tree;

#[cfg(feature = "test-util")]
pub use mem::{CrashKeep, Fault, MemVolume, Op, OpKind};
#[cfg(feature = "test-util")]
pub use nfs::{Machine, Nfs, NfsFaults, NfsMount};
pub use os::OsVolume;

use std::fmt;
use std::fs::File;
use std::io::{self, IoSlice};
use std::sync::Arc;

use crate::layout::TMP_SUFFIX;

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// For reading only.
    Read,
    /// For reading and writing.
    ReadWrite,
}

/// One name in a directory.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DirEntry {
    /// The name, without its directory. Names that are not UTF-8 are not listed.
    pub name: String,
    /// Whether the name is a directory.
    pub is_dir: bool,
}

/// A shared, mountable tree of files.
pub trait Volume: Send + Sync + fmt::Debug {
    /// Creates a file that must not exist yet, for reading and writing.
    fn create_new(&self, path: &str) -> io::Result<Arc<dyn VolumeFile>>;
    /// Opens an existing file.
    fn open(&self, path: &str, access: Access) -> io::Result<Arc<dyn VolumeFile>>;
    /// Creates one directory; its parent must exist, it must not.
    fn create_dir(&self, path: &str) -> io::Result<()>;
    /// Renames a file (replacing another) or a directory.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Unlinks a file.
    fn remove_file(&self, path: &str) -> io::Result<()>;
    /// Removes an empty directory.
    fn remove_dir(&self, path: &str) -> io::Result<()>;
    /// Makes the creates, renames and removes in a directory durable.
    fn sync_dir(&self, path: &str) -> io::Result<()>;
    /// The names in a directory, sorted.
    fn list(&self, path: &str) -> io::Result<Vec<DirEntry>>;
}

/// An open file, addressed by position: there is no cursor and no append mode.
pub trait VolumeFile: Send + Sync + fmt::Debug {
    /// Writes all of `parts`, one after the other, from `position`.
    fn write_all_at(&self, parts: &mut [IoSlice<'_>], position: u64) -> io::Result<()>;
    /// Reads up to `buf.len()` bytes; 0 means end of file.
    fn read_at(&self, buf: &mut [u8], position: u64) -> io::Result<usize>;
    /// As [`read_at`](Self::read_at), but `None` when the bytes are not in memory.
    fn try_read_at(&self, buf: &mut [u8], position: u64) -> io::Result<Option<usize>>;
    /// Makes the file's bytes and length durable.
    fn sync_data(&self) -> io::Result<()>;
    /// Cuts or extends the file.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// The file's length in bytes.
    fn byte_len(&self) -> io::Result<u64>;
    /// Drops clean cached pages, so that the next read shows what the device holds.
    fn drop_cache(&self) -> io::Result<()>;
    /// The operating system's file, when there is one, for `sendfile`.
    fn os_file(&self) -> Option<Arc<File>>;
}

/// Reads exactly `buf.len()` bytes.
pub(crate) fn read_exact_at(file: &dyn VolumeFile, mut buf: &mut [u8], mut position: u64) -> io::Result<()> {
    while !buf.is_empty() {
        match file.read_at(buf, position)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n => {
                buf = &mut buf[n..];
                position += n as u64;
            }
        }
    }
    Ok(())
}

/// Reads a whole file of at most `bytes_max` bytes.
pub(crate) fn read_file(volume: &dyn Volume, path: &str, bytes_max: u64) -> io::Result<Vec<u8>> {
    let file = volume.open(path, Access::Read)?;
    let len = file.byte_len()?;
    if len > bytes_max {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("{path} has {len} bytes")));
    }
    let mut bytes = vec![0; usize::try_from(len).unwrap_or(usize::MAX)];
    read_exact_at(&*file, &mut bytes, 0)?;
    Ok(bytes)
}

/// Writes `bytes` under `path` so that a crash leaves either the old content or the new, whole.
///
/// The directory is synced too when `sync_dir` is set: without it the name may still show the old
/// content after a crash, which is enough for hints.
pub(crate) fn replace_file(volume: &dyn Volume, path: &str, bytes: &[u8], sync_dir: bool) -> io::Result<()> {
    let (tmp, file) = write_beside(volume, path, bytes)?;
    file.sync_data()?;
    volume.rename(&tmp, path)?;
    if sync_dir {
        volume.sync_dir(parent(path))?;
    }
    Ok(())
}

/// As [`replace_file`] for a cache with a checksum: nothing is synced, and a crash may leave anything.
pub(crate) fn replace_cache(volume: &dyn Volume, path: &str, bytes: &[u8]) -> io::Result<()> {
    let (tmp, _) = write_beside(volume, path, bytes)?;
    volume.rename(&tmp, path)
}

fn write_beside(volume: &dyn Volume, path: &str, bytes: &[u8]) -> io::Result<(String, Arc<dyn VolumeFile>)> {
    let tmp = format!("{path}{TMP_SUFFIX}");
    remove_if_there(volume, &tmp)?;
    let file = volume.create_new(&tmp)?;
    file.write_all_at(&mut [IoSlice::new(bytes)], 0)?;
    Ok((tmp, file))
}

/// The directory part of a path; the root is "".
pub(crate) fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(dir, _)| dir)
}

/// Removes a file; one that is not there is as good.
pub(crate) fn remove_if_there(volume: &dyn Volume, path: &str) -> io::Result<()> {
    match volume.remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Creates a directory if it does not exist, and makes its name durable.
pub(crate) fn ensure_dir(volume: &dyn Volume, path: &str) -> io::Result<()> {
    match volume.create_dir(path) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    // Synced even when it existed: the one who created it may have crashed before syncing.
    volume.sync_dir(parent(path))
}
