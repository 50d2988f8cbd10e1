//! The fence: whether this broker may still acknowledge.

use std::fmt;
use std::io::{self, ErrorKind, IoSlice};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;
use uuid::Uuid;

use crate::layout::{BROKERS_DIR, fence_file, parse_fence};
use crate::state_file;
use crate::volume::{Access, Volume, VolumeFile, ensure_dir};

/// Bytes of a fence that stands. One sector: it is never seen half.
const STANDING_BYTES: usize = 512;

/// Bytes of a revoked one. Another length than before, so that a client of a network file system notices the change
/// even if the file's times are too coarse to tell.
const REVOKED_BYTES: usize = 1024;

/// Another broker has taken over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this broker has been fenced")]
pub struct Fenced;

/// Asked once per commit cycle, after the syncs and before the acknowledgements.
pub trait Fence: Send + Sync + fmt::Debug {
    /// Reads the fence afresh.
    ///
    /// # Errors
    /// [`Fenced`]: nothing of this cycle may be acknowledged, nor anything after it.
    fn check(&self) -> Result<(), Fenced>;

    /// Whether [`check`](Self::check) costs nothing, so that it may be asked for every batch instead of once for a
    /// cycle. Only then may an append that needs no sync be committed by the thread that makes it.
    fn is_free(&self) -> bool {
        false
    }
}

/// The only broker there is: nobody takes over from it.
#[derive(Debug, Clone, Copy, Default)]
pub struct SingleNode;

impl Fence for SingleNode {
    fn check(&self) -> Result<(), Fenced> {
        Ok(())
    }

    fn is_free(&self) -> bool {
        true
    }
}

/// All that stands between a sync and its acknowledgements: the fence file of a broker that shares its volume, and
/// the fence that the embedder has given. Once it has failed it stays so.
#[derive(Debug)]
pub(crate) struct Gate {
    file: Option<FenceFile>,
    other: Arc<dyn Fence>,
    failed: AtomicBool,
}

impl Gate {
    pub(crate) fn new(file: Option<FenceFile>, other: Arc<dyn Fence>) -> Self {
        Self { file, other, failed: AtomicBool::new(false) }
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }
}

impl Fence for Gate {
    fn check(&self) -> Result<(), Fenced> {
        let stands = !self.has_failed()
            && self.file.as_ref().is_none_or(FenceFile::stands)
            && self.other.check().is_ok();
        if stands {
            return Ok(());
        }
        self.failed.store(true, Ordering::Release);
        Err(Fenced)
    }

    fn is_free(&self) -> bool {
        self.file.is_none() && self.other.is_free()
    }
}

/// The content of a fence file, which is then filled up with spaces.
#[derive(Serialize)]
struct FenceRecord {
    broker_id: i32,
    incarnation: Uuid,
    revoked: bool,
}

/// The fence file of this incarnation.
///
/// It exists before the broker leads anything, and is revoked by writing over it. A file of its own for the revocation
/// would be one whose absence means yes, and absence is what a client of a network file system remembers longest; a
/// file that always exists is looked at afresh at every open. All who ever write over it write the same bytes, and its
/// owner never does, so that a revocation can be neither torn into a fence that stands nor taken back.
#[derive(Debug)]
pub(crate) struct FenceFile {
    volume: Arc<dyn Volume>,
    path: String,
    standing: Vec<u8>,
}

impl FenceFile {
    /// Puts the fence of a new incarnation up, and revokes those of all others of the same broker id.
    pub(crate) fn register(volume: Arc<dyn Volume>, broker_id: i32, incarnation: Uuid) -> io::Result<Self> {
        ensure_dir(&*volume, BROKERS_DIR)?;
        let path = fence_file(broker_id, &incarnation);
        let standing = content(broker_id, incarnation, false)?;
        create(&*volume, &path, &standing)?;
        for entry in volume.list(BROKERS_DIR)? {
            if let Some((id, other)) = parse_fence(&entry.name)
                && id == broker_id
                && other != incarnation
                && stands(&*volume, id, other)?
            {
                revoke(&*volume, id, other)?;
            }
        }
        Ok(Self { volume, path, standing })
    }

    /// Whether the file says, read afresh, what it said when it was put up. Whatever else happens is a no: a file
    /// that has vanished, cannot be read or is damaged protects nobody.
    fn stands(&self) -> bool {
        match read(&*self.volume, &self.path) {
            Ok(found) if found == self.standing => true,
            Ok(_) => {
                tracing::error!(path = self.path, "this broker's fence was revoked");
                false
            }
            Err(error) => {
                tracing::error!(path = self.path, %error, "this broker's fence cannot be read");
                false
            }
        }
    }
}

/// Revokes a fence for good, durably, whether or not it was revoked before: the earlier revocation may not have
/// become durable.
pub(crate) fn revoke(volume: &dyn Volume, broker_id: i32, incarnation: Uuid) -> io::Result<()> {
    let path = fence_file(broker_id, &incarnation);
    let revoked = content(broker_id, incarnation, true)?;
    match volume.open(&path, Access::ReadWrite) {
        Ok(file) => write(&*file, &revoked),
        // It was tidied away, or its absence is an old memory: creating it tells.
        Err(error) if error.kind() == ErrorKind::NotFound => {
            ensure_dir(volume, BROKERS_DIR)?;
            match create(volume, &path, &revoked) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    write(&*volume.open(&path, Access::ReadWrite)?, &revoked)
                }
                created => created,
            }
        }
        Err(error) => Err(error),
    }
}

/// Whether a fence will never stand again; when it is revoked already, makes sure that the revocation is durable.
pub(crate) fn is_down_for_good(volume: &dyn Volume, broker_id: i32, incarnation: Uuid) -> io::Result<bool> {
    let path = fence_file(broker_id, &incarnation);
    let found = match read(volume, &path) {
        // Gone, or an old memory of a time before it was there: creating it tells, and settles it.
        Err(error) if error.kind() == ErrorKind::NotFound => {
            ensure_dir(volume, BROKERS_DIR)?;
            match create(volume, &path, &content(broker_id, incarnation, true)?) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => read(volume, &path)?,
                created => return created.map(|()| true),
            }
        }
        found => found?,
    };
    if found == content(broker_id, incarnation, false)? {
        return Ok(false);
    }
    revoke(volume, broker_id, incarnation)?;
    Ok(true)
}

/// Whether a fence is there and not revoked.
fn stands(volume: &dyn Volume, broker_id: i32, incarnation: Uuid) -> io::Result<bool> {
    match read(volume, &fence_file(broker_id, &incarnation)) {
        Ok(found) => Ok(found == content(broker_id, incarnation, false)?),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// The whole content of a fence file that stands, or of one that is revoked.
pub(crate) fn content(broker_id: i32, incarnation: Uuid, revoked: bool) -> io::Result<Vec<u8>> {
    let mut bytes = state_file::encode(&FenceRecord { broker_id, incarnation, revoked })?;
    let len = if revoked { REVOKED_BYTES } else { STANDING_BYTES };
    bytes.resize(len - 1, b' ');
    bytes.push(b'\n');
    Ok(bytes)
}

fn create(volume: &dyn Volume, path: &str, bytes: &[u8]) -> io::Result<()> {
    write(&*volume.create_new(path)?, bytes)?;
    volume.sync_dir(BROKERS_DIR)
}

fn write(file: &dyn VolumeFile, bytes: &[u8]) -> io::Result<()> {
    file.write_all_at(&mut [IoSlice::new(bytes)], 0)?;
    file.sync_data()
}

/// The first bytes of the file, through a descriptor of their own: enough to tell a fence that stands.
fn read(volume: &dyn Volume, path: &str) -> io::Result<Vec<u8>> {
    let file = volume.open(path, Access::Read)?;
    let mut bytes = vec![0; STANDING_BYTES + 1];
    let mut len = 0;
    while len < bytes.len() {
        match file.read_at(&mut bytes[len..], len as u64)? {
            0 => break,
            read => len += read,
        }
    }
    bytes.truncate(len);
    Ok(bytes)
}
