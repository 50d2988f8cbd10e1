//! The one system call that cuts a filesystem's power.
#![allow(unsafe_code, reason = "the ioctl has no safe wrapper")]

use std::fs::File;
use std::io;
use std::path::Path;

use rustix::ioctl::{Setter, ioctl, opcode};

/// `FS_IOC_SHUTDOWN`, `_IOR('X', 125, __u32)`: the filesystem stops all I/O at once.
const FS_IOC_SHUTDOWN: rustix::ioctl::Opcode = opcode::read::<u32>(b'X', 125);
/// `FS_SHUTDOWN_FLAGS_NOLOGFLUSH`: the journal is not flushed either.
const NO_LOG_FLUSH: u32 = 2;

/// Stops all I/O of the filesystem that is mounted at `mount`.
pub(crate) fn cut_power(mount: &Path) -> io::Result<()> {
    let root = File::open(mount)?;
    // SAFETY: FS_IOC_SHUTDOWN reads one u32 through the pointer that it is given, which is what `Setter` passes, and writes nothing.
    unsafe { ioctl(&root, Setter::<FS_IOC_SHUTDOWN, u32>::new(NO_LOG_FLUSH)) }?;
    Ok(())
}
