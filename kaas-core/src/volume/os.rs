//! A volume on a mounted file system.

use std::fs::{self, File, OpenOptions};
use std::io::{self, IoSlice, IoSliceMut};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::Advice;
use rustix::io::{Errno, ReadWriteFlags};

use super::{Access, DirEntry, Volume, VolumeFile};

/// Most parts of one `pwritev`; Linux allows 1,024.
const WRITE_PARTS_MAX: usize = 1024;

/// A directory of the operating system.
#[derive(Debug, Clone)]
pub struct OsVolume {
    root: PathBuf,
}

#[derive(Debug)]
struct OsFile(Arc<File>);

impl OsVolume {
    /// The volume at `root`, which is created when it does not exist.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn at(root: impl Into<PathBuf>) -> io::Result<Self> {
        let root = root.into();
        fs::create_dir_all(&root)?;
        Ok(Self { root })
    }

    /// Where the volume is mounted.
    pub fn root(&self) -> &Path {
        &self.root
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }
}

impl Volume for OsVolume {
    fn create_new(&self, path: &str) -> io::Result<Arc<dyn VolumeFile>> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(self.path(path))?;
        Ok(Arc::new(OsFile(Arc::new(file))))
    }

    fn open(&self, path: &str, access: Access) -> io::Result<Arc<dyn VolumeFile>> {
        let write = access == Access::ReadWrite;
        let file = OpenOptions::new().read(true).write(write).open(self.path(path))?;
        Ok(Arc::new(OsFile(Arc::new(file))))
    }

    fn create_dir(&self, path: &str) -> io::Result<()> {
        fs::create_dir(self.path(path))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path(from), self.path(to))
    }

    fn remove_file(&self, path: &str) -> io::Result<()> {
        fs::remove_file(self.path(path))
    }

    fn remove_dir(&self, path: &str) -> io::Result<()> {
        fs::remove_dir(self.path(path))
    }

    fn sync_dir(&self, path: &str) -> io::Result<()> {
        File::open(self.path(path))?.sync_all()
    }

    fn list(&self, path: &str) -> io::Result<Vec<DirEntry>> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(self.path(path))? {
            let entry = entry?;
            if let Ok(name) = entry.file_name().into_string() {
                entries.push(DirEntry { name, is_dir: entry.file_type()?.is_dir() });
            }
        }
        entries.sort();
        Ok(entries)
    }
}

impl VolumeFile for OsFile {
    fn write_all_at(&self, parts: &mut [IoSlice<'_>], mut position: u64) -> io::Result<()> {
        let mut rest = parts;
        IoSlice::advance_slices(&mut rest, 0);
        while !rest.is_empty() {
            let now = rest.len().min(WRITE_PARTS_MAX);
            match rustix::io::pwritev(&*self.0, &rest[..now], position) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => {
                    position += n as u64;
                    IoSlice::advance_slices(&mut rest, n);
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn read_at(&self, buf: &mut [u8], position: u64) -> io::Result<usize> {
        loop {
            match FileExt::read_at(&*self.0, buf, position) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result,
            }
        }
    }

    fn try_read_at(&self, buf: &mut [u8], position: u64) -> io::Result<Option<usize>> {
        let mut parts = [IoSliceMut::new(buf)];
        match rustix::io::preadv2(&*self.0, &mut parts, position, ReadWriteFlags::NOWAIT) {
            Ok(n) => Ok(Some(n)),
            // A file system without RWF_NOWAIT is always taken to be slow.
            Err(Errno::AGAIN | Errno::OPNOTSUPP | Errno::NOSYS | Errno::INTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn byte_len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn drop_cache(&self) -> io::Result<()> {
        Ok(rustix::fs::fadvise(&*self.0, 0, None, Advice::DontNeed)?)
    }

    fn os_file(&self) -> Option<Arc<File>> {
        Some(Arc::clone(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectored_writes_are_whole_past_the_kernels_limit_of_parts() {
        let dir = tempfile::tempdir().unwrap();
        let volume = OsVolume::at(dir.path()).unwrap();
        let file = volume.create_new("f").unwrap();
        let bytes: Vec<u8> = (0..5000u32).flat_map(u32::to_be_bytes).collect();
        let mut parts: Vec<IoSlice<'_>> = bytes.chunks(7).map(IoSlice::new).collect();
        parts.insert(3, IoSlice::new(&[]));
        file.write_all_at(&mut parts, 5).unwrap();
        assert_eq!(file.byte_len().unwrap(), 5 + bytes.len() as u64);
        let mut back = vec![0; bytes.len()];
        super::super::read_exact_at(&*file, &mut back, 5).unwrap();
        assert_eq!(back, bytes);
        assert_eq!(
            volume.create_new("f").map(|_| ()).unwrap_err().kind(),
            io::ErrorKind::AlreadyExists,
            "create is exclusive"
        );
    }
}
