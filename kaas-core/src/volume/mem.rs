//! A volume in memory that forgets what was not synced: deterministic crashes, failures, full disks and stalls.
//!
//! Every file keeps what a device would hold (`durable`) next to what a page cache would show (`current`), and
//! the changes between the two. A directory does the same with its names. A crash keeps some of the unsynced
//! changes, by choice of the test: none, all, any subset, or writes torn at sectors.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind, IoSlice};
use std::sync::Arc;

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::{Access, DirEntry, Volume, VolumeFile};

/// A write may be torn between sectors of this many bytes.
const SECTOR_BYTES: usize = 512;

const ROOT: usize = 0;

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
    nodes: Vec<Node>,
    ops: u64,
    counts: HashMap<OpKind, u64>,
    crash_at: Option<u64>,
    crashed: bool,
    plan: Option<FaultPlan>,
    watchers: Vec<Watcher>,
    capacity: Option<u64>,
    cold: bool,
    stall: Option<(OpKind, String)>,
    stalled: usize,
}

#[derive(Clone)]
enum Node {
    File(FileNode),
    Dir(DirNode),
}

#[derive(Clone, Default)]
struct FileNode {
    current: Vec<u8>,
    durable: Vec<u8>,
    unsynced: Vec<FileChange>,
}

#[derive(Clone)]
enum FileChange {
    Write { position: usize, bytes: Vec<u8> },
    SetLen(usize),
}

#[derive(Clone, Default)]
struct DirNode {
    current: BTreeMap<String, usize>,
    durable: BTreeMap<String, usize>,
    unsynced: Vec<DirChange>,
}

#[derive(Clone)]
enum DirChange {
    Link(String, usize),
    Unlink(String),
    Rename { from: String, to: String, node: usize },
}

impl FileChange {
    fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::SetLen(len) => bytes.resize(*len, 0),
            Self::Write { position, bytes: written } => {
                let end = position + written.len();
                bytes.resize(bytes.len().max(end), 0);
                bytes[*position..end].copy_from_slice(written);
            }
        }
    }

    /// Applies only some sectors of a write.
    fn apply_torn(&self, bytes: &mut Vec<u8>, random: &mut Random) {
        let Self::Write { position, bytes: written } = self else { return self.apply(bytes) };
        for (index, sector) in written.chunks(SECTOR_BYTES).enumerate() {
            if random.coin() {
                let position = position + index * SECTOR_BYTES;
                Self::Write { position, bytes: sector.to_vec() }.apply(bytes);
            }
        }
    }
}

impl DirChange {
    fn apply(&self, names: &mut BTreeMap<String, usize>) {
        match self {
            Self::Link(name, node) => {
                names.insert(name.clone(), *node);
            }
            Self::Unlink(name) => {
                names.remove(name);
            }
            Self::Rename { from, to, node } => {
                names.remove(from);
                names.insert(to.clone(), *node);
            }
        }
    }
}

impl DirNode {
    fn change(&mut self, change: DirChange) {
        change.apply(&mut self.current);
        self.unsynced.push(change);
    }
}

impl FileNode {
    fn change(&mut self, change: FileChange) {
        change.apply(&mut self.current);
        self.unsynced.push(change);
    }
}

/// A small generator, so that a seed means the same everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn coin(&mut self) -> bool {
        self.next() & 1 == 1
    }
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
        self.shared.state.lock().capacity = bytes;
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
        state.nodes.iter().map(unsynced).sum()
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
        let mut nodes = self.shared.state.lock().nodes.clone();
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
        let node = state.find(path)?;
        Ok(state.file(node)?.current.clone())
    }

    /// Changes a file behind the engine's back, durably.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn tamper(&self, path: &str, change: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        let mut state = self.shared.state.lock();
        let node = state.find(path)?;
        let file = state.file_mut(node)?;
        change(&mut file.current);
        file.durable = file.current.clone();
        file.unsynced.clear();
        Ok(())
    }

    /// All files, sorted.
    pub fn files(&self) -> Vec<String> {
        let state = self.shared.state.lock();
        let mut files = Vec::new();
        state.collect(ROOT, String::new(), &mut files);
        files
    }

    fn from_nodes(nodes: Vec<Node>) -> Self {
        let state = Mutex::new(State { nodes, ..State::default() });
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

impl State {
    fn find(&self, path: &str) -> io::Result<usize> {
        path.split('/').filter(|part| !part.is_empty()).try_fold(ROOT, |node, name| {
            self.dir(node)?.current.get(name).copied().ok_or_else(|| ErrorKind::NotFound.into())
        })
    }

    fn parent<'a>(&self, path: &'a str) -> io::Result<(usize, &'a str)> {
        let name = path.rsplit('/').next().unwrap_or(path);
        Ok((self.find(super::parent(path))?, name))
    }

    fn dir(&self, node: usize) -> io::Result<&DirNode> {
        match &self.nodes[node] {
            Node::Dir(dir) => Ok(dir),
            Node::File(_) => Err(ErrorKind::NotADirectory.into()),
        }
    }

    fn dir_mut(&mut self, node: usize) -> io::Result<&mut DirNode> {
        match &mut self.nodes[node] {
            Node::Dir(dir) => Ok(dir),
            Node::File(_) => Err(ErrorKind::NotADirectory.into()),
        }
    }

    fn file(&self, node: usize) -> io::Result<&FileNode> {
        match &self.nodes[node] {
            Node::File(file) => Ok(file),
            Node::Dir(_) => Err(ErrorKind::IsADirectory.into()),
        }
    }

    fn file_mut(&mut self, node: usize) -> io::Result<&mut FileNode> {
        match &mut self.nodes[node] {
            Node::File(file) => Ok(file),
            Node::Dir(_) => Err(ErrorKind::IsADirectory.into()),
        }
    }

    fn link_new(&mut self, path: &str, node: Node) -> io::Result<usize> {
        let (parent, name) = self.parent(path)?;
        if self.dir(parent)?.current.contains_key(name) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        self.nodes.push(node);
        let node = self.nodes.len() - 1;
        self.dir_mut(parent)?.change(DirChange::Link(name.to_owned(), node));
        Ok(node)
    }

    fn bytes_used(&self) -> u64 {
        let used = |node: &Node| if let Node::File(file) = node { file.current.len() as u64 } else { 0 };
        self.nodes.iter().map(used).sum()
    }

    fn write(&mut self, node: usize, position: u64, bytes: Vec<u8>) -> io::Result<()> {
        let position = usize::try_from(position).map_err(io::Error::other)?;
        let grows = (position + bytes.len()).saturating_sub(self.file(node)?.current.len()) as u64;
        if self.capacity.is_some_and(|capacity| self.bytes_used() + grows > capacity) {
            return Err(io::Error::from_raw_os_error(ENOSPC));
        }
        if !bytes.is_empty() {
            self.file_mut(node)?.change(FileChange::Write { position, bytes });
        }
        Ok(())
    }

    fn collect(&self, node: usize, path: String, files: &mut Vec<String>) {
        match &self.nodes[node] {
            Node::File(_) => files.push(path),
            Node::Dir(dir) => {
                for (name, node) in &dir.current {
                    let path = if path.is_empty() { name.clone() } else { format!("{path}/{name}") };
                    self.collect(*node, path, files);
                }
            }
        }
    }
}

/// "No space left on device".
const ENOSPC: i32 = 28;

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
        let node = state.link_new(path, Node::File(FileNode::default()))?;
        Ok(self.handle(node, path, true))
    }

    fn open(&self, path: &str, access: Access) -> io::Result<Arc<dyn VolumeFile>> {
        let state = self.shared.begin(OpKind::Open, path)?;
        let node = state.find(path)?;
        state.file(node)?;
        Ok(self.handle(node, path, access == Access::ReadWrite))
    }

    fn create_dir(&self, path: &str) -> io::Result<()> {
        let mut state = self.shared.begin(OpKind::CreateDir, path)?;
        state.link_new(path, Node::Dir(DirNode::default())).map(|_| ())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.shared.begin(OpKind::Rename, from)?;
        let node = state.find(from)?;
        let ((from_dir, from), (to_dir, to)) = (state.parent(from)?, state.parent(to)?);
        if from_dir != to_dir {
            return Err(ErrorKind::Unsupported.into());
        }
        let (from, to) = (from.to_owned(), to.to_owned());
        state.dir_mut(from_dir)?.change(DirChange::Rename { from, to, node });
        Ok(())
    }

    fn remove_file(&self, path: &str) -> io::Result<()> {
        let mut state = self.shared.begin(OpKind::Remove, path)?;
        let node = state.find(path)?;
        state.file(node)?;
        let (parent, name) = state.parent(path)?;
        state.dir_mut(parent)?.change(DirChange::Unlink(name.to_owned()));
        Ok(())
    }

    fn remove_dir(&self, path: &str) -> io::Result<()> {
        let mut state = self.shared.begin(OpKind::Remove, path)?;
        let node = state.find(path)?;
        if !state.dir(node)?.current.is_empty() {
            return Err(ErrorKind::DirectoryNotEmpty.into());
        }
        let (parent, name) = state.parent(path)?;
        state.dir_mut(parent)?.change(DirChange::Unlink(name.to_owned()));
        Ok(())
    }

    fn sync_dir(&self, path: &str) -> io::Result<()> {
        let mut state = self.shared.begin(OpKind::SyncDir, path)?;
        let node = state.find(path)?;
        let dir = state.dir_mut(node)?;
        dir.unsynced.clear();
        dir.durable = dir.current.clone();
        Ok(())
    }

    fn list(&self, path: &str) -> io::Result<Vec<DirEntry>> {
        let state = self.shared.begin(OpKind::List, path)?;
        let names = &state.dir(state.find(path)?)?.current;
        let entry = |(name, node): (&String, &usize)| DirEntry {
            name: name.clone(),
            is_dir: matches!(state.nodes[*node], Node::Dir(_)),
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
            Ok(mut state) => state.write(self.node, position, bytes),
            Err(Failure { error, torn, mut state }) => {
                if let Some(torn) = torn {
                    bytes.truncate(torn);
                    state.write(self.node, position, bytes)?;
                }
                Err(error)
            }
        }
    }

    fn read_at(&self, buf: &mut [u8], position: u64) -> io::Result<usize> {
        let state = self.shared.begin(OpKind::Read, &self.path)?;
        let bytes = &state.file(self.node)?.current;
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
                let file = state.file_mut(self.node)?;
                for change in std::mem::take(&mut file.unsynced) {
                    change.apply(&mut file.durable);
                }
                Ok(())
            }
            Err(Failure { error, mut state, .. }) => {
                if !state.crashed {
                    state.file_mut(self.node)?.unsynced.clear();
                }
                Err(error)
            }
        }
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut state = self.shared.begin(OpKind::SetLen, &self.path)?;
        let len = usize::try_from(len).map_err(io::Error::other)?;
        state.file_mut(self.node)?.change(FileChange::SetLen(len));
        Ok(())
    }

    fn byte_len(&self) -> io::Result<u64> {
        let state = self.shared.begin(OpKind::Read, &self.path)?;
        Ok(state.file(self.node)?.current.len() as u64)
    }

    fn drop_cache(&self) -> io::Result<()> {
        let mut state = self.shared.begin(OpKind::Read, &self.path)?;
        let file = state.file_mut(self.node)?;
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
