//! A volume in memory that forgets what was not synced: deterministic crashes, failures, full disks and stalls.
//!
//! Every file keeps what a device would hold (`durable`) next to what a page cache would show (`current`), and
//! the changes between the two. A directory does the same with its names. A crash keeps some of the unsynced
//! changes, by choice of the test: none, all, any subset, or writes torn at sectors.

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind, IoSlice};
use std::sync::Arc;

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::tree::{DirChange, DirNode, FileChange, FileNode, Node, ROOT, Random, Tree};
use super::{Access, DirEntry, Volume, VolumeFile};

/// A kind of operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OpKind {
    /// Exclusive create of a file.
    Create,
    /// Opening a file.
    Open,
    /// Writing.
    Write,
    /// Reading.
    Read,
    /// `fdatasync`.
    Sync,
    /// Cutting or extending.
    SetLen,
    /// Creating a directory.
    CreateDir,
    /// Renaming.
    Rename,
    /// Unlinking a file or removing a directory.
    Remove,
    /// `fsync` of a directory.
    SyncDir,
    /// Listing a directory.
    List,
}

impl OpKind {
    /// Whether the operation can change what is on the device: only these are counted for crashes.
    fn changes(self) -> bool {
        !matches!(self, Self::Open | Self::Read | Self::List)
    }
}

/// An operation that is about to happen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Op {
    /// What it does.
    pub kind: OpKind,
    /// The path it was opened or called with.
    pub path: String,
}

/// What to do to an operation instead of performing it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// Fail with this operating-system error. A failed sync drops the dirty state as Linux does: what was not
    /// written stays visible in the cache, and later syncs do not write it.
    Errno(i32),
    /// Write this many bytes and then fail with the error.
    Torn(usize, i32),
}

/// Which unsynced changes a crash keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CrashKeep {
    /// Only what was synced.
    Nothing,
    /// All of it: a process that was killed.
    Everything,
    /// The changes whose bit is set, in the order of [`MemVolume::unsynced_changes`].
    Mask(u64),
    /// A random subset, with writes torn between sectors.
    Torn(u64),
}

type Watcher = Box<dyn FnMut(&Op) + Send>;
type FaultPlan = Box<dyn FnMut(&Op) -> Option<Fault> + Send>;

/// The volume. Clones are handles to the same one.
#[derive(Clone)]
pub struct MemVolume {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    tree: Tree,
    ops: u64,
    counts: HashMap<OpKind, u64>,
    crash_at: Option<u64>,
    crashed: bool,
    plan: Option<FaultPlan>,
    watchers: Vec<Watcher>,
    cold: bool,
    stall: Option<(OpKind, String)>,
    stalled: usize,
}

impl fmt::Debug for MemVolume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemVolume").field("ops", &self.shared.state.lock().ops).finish_non_exhaustive()
    }
}

impl Default for MemVolume {
    fn default() -> Self {
        Self::new()
    }
}

impl MemVolume {
    /// An empty volume.
    pub fn new() -> Self {
        Self::from_nodes(vec![Node::Dir(DirNode::default())])
    }

    /// How many operations have been able to change the device.
    pub fn ops(&self) -> u64 {
        self.shared.state.lock().ops
    }

    /// How many operations of a kind there were.
    pub fn count(&self, kind: OpKind) -> u64 {
        self.shared.state.lock().counts.get(&kind).copied().unwrap_or(0)
    }

    /// Cuts the power when the operation with this number (from 0, as [`ops`](Self::ops) counts) is about to
    /// happen: it is not performed, but a write may reach the device. Everything after it fails.
    pub fn crash_at(&self, op: u64) {
        self.shared.state.lock().crash_at = Some(op);
    }

    /// Whether the power was cut.
    pub fn has_crashed(&self) -> bool {
        self.shared.state.lock().crashed
    }

    /// Decides the fate of every operation from now on.
    pub fn plan(&self, plan: impl FnMut(&Op) -> Option<Fault> + Send + 'static) {
        self.shared.state.lock().plan = Some(Box::new(plan));
    }

    /// Shows every operation from now on to `watcher`, which must not use the volume.
    pub fn watch(&self, watcher: impl FnMut(&Op) + Send + 'static) {
        self.shared.state.lock().watchers.push(Box::new(watcher));
    }

    /// Ends the plan.
    pub fn no_plan(&self) {
        self.shared.state.lock().plan = None;
    }

    /// Limits the bytes of all files together; writes beyond fail with `ENOSPC`.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.shared.state.lock().tree.capacity = bytes;
    }

    /// Whether reads that may not wait find nothing in memory.
    pub fn set_cold(&self, cold: bool) {
        self.shared.state.lock().cold = cold;
    }

    /// Holds every operation of this kind on paths that contain `path`, until [`release`](Self::release).
    pub fn stall(&self, kind: OpKind, path: &str) {
        self.shared.state.lock().stall = Some((kind, path.to_owned()));
    }

    /// Lets the held operations go.
    pub fn release(&self) {
        self.shared.state.lock().stall = None;
        self.shared.changed.notify_all();
    }

    /// Waits until an operation is being held.
    pub fn wait_until_stalled(&self) {
        let mut state = self.shared.state.lock();
        while state.stalled == 0 {
            self.shared.changed.wait(&mut state);
        }
    }

    /// Changes that a crash may lose.
    pub fn unsynced_changes(&self) -> usize {
        let state = self.shared.state.lock();
        let unsynced = |node: &Node| match node {
            Node::File(file) => file.unsynced.len(),
            Node::Dir(dir) => dir.unsynced.len(),
        };
        state.tree.nodes.iter().map(unsynced).sum()
    }

    /// The volume as it is found after a crash now.
    pub fn after_crash(&self, keep: CrashKeep) -> Self {
        let mut random = Random(if let CrashKeep::Torn(seed) = keep { seed } else { 0 });
        let mut bit = 0;
        let mut kept = || {
            bit += 1;
            match keep {
                CrashKeep::Nothing => false,
                CrashKeep::Everything => true,
                CrashKeep::Mask(mask) => mask.checked_shr(bit - 1).is_some_and(|mask| mask & 1 == 1),
                CrashKeep::Torn(_) => random.coin(),
            }
        };
        let mut tear = Random(if let CrashKeep::Torn(seed) = keep { !seed } else { 0 });
        let mut nodes = self.shared.state.lock().tree.nodes.clone();
        for node in &mut nodes {
            match node {
                Node::Dir(dir) => {
                    for change in std::mem::take(&mut dir.unsynced).iter().filter(|_| kept()) {
                        change.apply(&mut dir.durable);
                    }
                    dir.current = dir.durable.clone();
                }
                Node::File(file) => {
                    for change in std::mem::take(&mut file.unsynced).iter().filter(|_| kept()) {
                        match keep {
                            CrashKeep::Torn(_) => change.apply_torn(&mut file.durable, &mut tear),
                            _ => change.apply(&mut file.durable),
                        }
                    }
                    file.current = file.durable.clone();
                }
            }
        }
        Self::from_nodes(nodes)
    }

    /// The bytes that a reader of the file sees.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn contents(&self, path: &str) -> io::Result<Vec<u8>> {
        let state = self.shared.state.lock();
        let node = state.tree.find(path)?;
        Ok(state.tree.file(node)?.current.clone())
    }

    /// Changes a file behind the engine's back, durably.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn tamper(&self, path: &str, change: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        let mut state = self.shared.state.lock();
        let node = state.tree.find(path)?;
        let file = state.tree.file_mut(node)?;
        change(&mut file.current);
        file.durable = file.current.clone();
        file.unsynced.clear();
        Ok(())
    }

    /// All files, sorted.
    pub fn files(&self) -> Vec<String> {
        let state = self.shared.state.lock();
        let mut files = Vec::new();
        state.tree.collect(ROOT, String::new(), &mut files);
        files
    }

    fn from_nodes(nodes: Vec<Node>) -> Self {
        let tree = Tree { nodes, capacity: None };
        let state = Mutex::new(State { tree, ..State::default() });
        Self { shared: Arc::new(Shared { state, changed: Condvar::new() }) }
    }
}

impl Shared {
    /// Counts the operation, and fails it if it should fail. A torn write says how much of it happens.
    fn begin(&self, kind: OpKind, path: &str) -> Result<MutexGuard<'_, State>, Failure<'_>> {
        let mut state = self.state.lock();
        while state.stall.as_ref().is_some_and(|(held, part)| *held == kind && path.contains(part.as_str())) {
            state.stalled += 1;
            self.changed.notify_all();
            self.changed.wait(&mut state);
            state.stalled -= 1;
        }
        *state.counts.entry(kind).or_default() += 1;
        if state.crashed {
            return Err(Failure { error: power_cut(), torn: None, state });
        }
        let op = Op { kind, path: path.to_owned() };
        let mut watchers = std::mem::take(&mut state.watchers);
        watchers.iter_mut().for_each(|watcher| watcher(&op));
        state.watchers = watchers;
        let fault = state.plan.as_mut().and_then(|plan| plan(&op));
        if kind.changes() {
            let number = state.ops;
            state.ops += 1;
            if state.crash_at == Some(number) {
                state.crashed = true;
                return Err(Failure { error: power_cut(), torn: Some(usize::MAX), state });
            }
        }
        match fault {
            None => Ok(state),
            Some(Fault::Errno(errno)) => {
                Err(Failure { error: io::Error::from_raw_os_error(errno), torn: None, state })
            }
            Some(Fault::Torn(bytes, errno)) => {
                Err(Failure { error: io::Error::from_raw_os_error(errno), torn: Some(bytes), state })
            }
        }
    }
}

struct Failure<'a> {
    error: io::Error,
    /// Bytes of a write that happen all the same.
    torn: Option<usize>,
    state: MutexGuard<'a, State>,
}

impl From<Failure<'_>> for io::Error {
    fn from(failure: Failure<'_>) -> Self {
        failure.error
    }
}

fn power_cut() -> io::Error {
    io::Error::other("the power is cut")
}

struct MemFile {
    shared: Arc<Shared>,
    node: usize,
    path: String,
    writable: bool,
}

impl fmt::Debug for MemFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MemFile").field(&self.path).finish()
    }
}

impl MemVolume {
    fn handle(&self, node: usize, path: &str, writable: bool) -> Arc<dyn VolumeFile> {
        Arc::new(MemFile { shared: Arc::clone(&self.shared), node, path: path.to_owned(), writable })
    }
}

impl Volume for MemVolume {
    fn create_new(&self, path: &str) -> io::Result<Arc<dyn VolumeFile>> {
        let mut state = self.shared.begin(OpKind::Create, path)?;
        let node = state.tree.link_new(path, Node::File(FileNode::default()))?;
        Ok(self.handle(node, path, true))
    }

    fn open(&self, path: &str, access: Access) -> io::Result<Arc<dyn VolumeFile>> {
        let state = self.shared.begin(OpKind::Open, path)?;
        let node = state.tree.find(path)?;
        state.tree.file(node)?;
        Ok(self.handle(node, path, access == Access::ReadWrite))
    }

    fn create_dir(&self, path: &str) -> io::Result<()> {
        let mut state = self.shared.begin(OpKind::CreateDir, path)?;
        state.tree.link_new(path, Node::Dir(DirNode::default())).map(|_| ())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.shared.begin(OpKind::Rename, from)?;
        let node = state.tree.find(from)?;
        let ((from_dir, from), (to_dir, to)) = (state.tree.parent(from)?, state.tree.parent(to)?);
        if from_dir != to_dir {
            return Err(ErrorKind::Unsupported.into());
        }
        let (from, to) = (from.to_owned(), to.to_owned());
        state.tree.dir_mut(from_dir)?.change(DirChange::Rename { from, to, node });
        Ok(())
    }

    fn remove_file(&self, path: &str) -> io::Result<()> {
        let mut state = self.shared.begin(OpKind::Remove, path)?;
        let node = state.tree.find(path)?;
        state.tree.file(node)?;
        let (parent, name) = state.tree.parent(path)?;
        state.tree.dir_mut(parent)?.change(DirChange::Unlink(name.to_owned()));
        Ok(())
    }

    fn remove_dir(&self, path: &str) -> io::Result<()> {
        let mut state = self.shared.begin(OpKind::Remove, path)?;
        let node = state.tree.find(path)?;
        if !state.tree.dir(node)?.current.is_empty() {
            return Err(ErrorKind::DirectoryNotEmpty.into());
        }
        let (parent, name) = state.tree.parent(path)?;
        state.tree.dir_mut(parent)?.change(DirChange::Unlink(name.to_owned()));
        Ok(())
    }

    fn sync_dir(&self, path: &str) -> io::Result<()> {
        let mut state = self.shared.begin(OpKind::SyncDir, path)?;
        let node = state.tree.find(path)?;
        let dir = state.tree.dir_mut(node)?;
        dir.unsynced.clear();
        dir.durable = dir.current.clone();
        Ok(())
    }

    fn list(&self, path: &str) -> io::Result<Vec<DirEntry>> {
        let state = self.shared.begin(OpKind::List, path)?;
        let names = &state.tree.dir(state.tree.find(path)?)?.current;
        let entry = |(name, node): (&String, &usize)| DirEntry {
            name: name.clone(),
            is_dir: matches!(state.tree.nodes[*node], Node::Dir(_)),
        };
        Ok(names.iter().map(entry).collect())
    }
}

impl VolumeFile for MemFile {
    fn write_all_at(&self, parts: &mut [IoSlice<'_>], position: u64) -> io::Result<()> {
        if !self.writable {
            return Err(ErrorKind::PermissionDenied.into());
        }
        let mut bytes: Vec<u8> = parts.iter().flat_map(|part| part.iter().copied()).collect();
        match self.shared.begin(OpKind::Write, &self.path) {
            Ok(mut state) => state.tree.write(self.node, position, bytes),
            Err(Failure { error, torn, mut state }) => {
                if let Some(torn) = torn {
                    bytes.truncate(torn);
                    state.tree.write(self.node, position, bytes)?;
                }
                Err(error)
            }
        }
    }

    fn read_at(&self, buf: &mut [u8], position: u64) -> io::Result<usize> {
        let state = self.shared.begin(OpKind::Read, &self.path)?;
        let bytes = &state.tree.file(self.node)?.current;
        let start = usize::try_from(position).unwrap_or(usize::MAX).min(bytes.len());
        let read = buf.len().min(bytes.len() - start);
        buf[..read].copy_from_slice(&bytes[start..start + read]);
        Ok(read)
    }

    fn try_read_at(&self, buf: &mut [u8], position: u64) -> io::Result<Option<usize>> {
        if self.shared.state.lock().cold {
            return Ok(None);
        }
        self.read_at(buf, position).map(Some)
    }

    fn sync_data(&self) -> io::Result<()> {
        match self.shared.begin(OpKind::Sync, &self.path) {
            Ok(mut state) => {
                let file = state.tree.file_mut(self.node)?;
                for change in std::mem::take(&mut file.unsynced) {
                    change.apply(&mut file.durable);
                }
                Ok(())
            }
            Err(Failure { error, mut state, .. }) => {
                if !state.crashed {
                    state.tree.file_mut(self.node)?.unsynced.clear();
                }
                Err(error)
            }
        }
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut state = self.shared.begin(OpKind::SetLen, &self.path)?;
        let len = usize::try_from(len).map_err(io::Error::other)?;
        state.tree.file_mut(self.node)?.change(FileChange::SetLen(len));
        Ok(())
    }

    fn byte_len(&self) -> io::Result<u64> {
        let state = self.shared.begin(OpKind::Read, &self.path)?;
        Ok(state.tree.file(self.node)?.current.len() as u64)
    }

    fn drop_cache(&self) -> io::Result<()> {
        let mut state = self.shared.begin(OpKind::Read, &self.path)?;
        let file = state.tree.file_mut(self.node)?;
        file.current = file.durable.clone();
        for change in &file.unsynced {
            change.apply(&mut file.current);
        }
        Ok(())
    }

    fn os_file(&self) -> Option<Arc<File>> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(file: &dyn VolumeFile, bytes: &[u8], position: u64) {
        file.write_all_at(&mut [IoSlice::new(bytes)], position).unwrap();
    }

    #[test]
    fn a_crash_forgets_what_was_not_synced() {
        let volume = MemVolume::new();
        let file = volume.create_new("f").unwrap();
        write(&*file, b"one", 0);
        file.sync_data().unwrap();
        assert!(volume.after_crash(CrashKeep::Nothing).contents("f").is_err(), "its name was not synced");
        volume.sync_dir("").unwrap();
        write(&*file, b"two", 3);
        volume.rename("f", "g").unwrap();
        let after = volume.after_crash(CrashKeep::Nothing);
        assert_eq!(after.contents("f").unwrap(), b"one");
        let after = volume.after_crash(CrashKeep::Everything);
        assert_eq!(after.contents("g").unwrap(), b"onetwo");
        assert_eq!(volume.unsynced_changes(), 2);
    }

    #[test]
    fn a_failed_sync_loses_the_write_and_hides_it() {
        let volume = MemVolume::new();
        let file = volume.create_new("f").unwrap();
        volume.sync_dir("").unwrap();
        write(&*file, b"lost", 0);
        volume.plan(|op| (op.kind == OpKind::Sync).then_some(Fault::Errno(5)));
        file.sync_data().unwrap_err();
        volume.no_plan();
        file.sync_data().unwrap();
        assert_eq!(volume.contents("f").unwrap(), b"lost", "the cache still shows it");
        assert_eq!(volume.after_crash(CrashKeep::Everything).contents("f").unwrap(), b"");
        file.drop_cache().unwrap();
        assert_eq!(volume.contents("f").unwrap(), b"");
    }
}
