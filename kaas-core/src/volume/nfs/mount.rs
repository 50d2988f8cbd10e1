//! The volume as a process on one machine sees it.

use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind, IoSlice};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::MutexGuard;

use super::client::{PAGE_BYTES, extents};
use super::server::ESTALE;
use super::{EIO, Nfs, State};
use crate::volume::tree::{DirNode, FileNode, Node, ROOT};
use crate::volume::{Access, DirEntry, Op, OpKind, Volume, VolumeFile, parent};

type Pace = Arc<dyn Fn(&Op) + Send + Sync>;

/// A process's view of an [`Nfs`]. Clones are the same process's.
#[derive(Clone)]
pub struct NfsMount {
    nfs: Nfs,
    client: usize,
    /// The machine's boot that the process belongs to.
    boots: u64,
    killed: Arc<AtomicBool>,
    pace: Pace,
}

impl fmt::Debug for NfsMount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NfsMount").field("client", &self.client).finish_non_exhaustive()
    }
}

impl NfsMount {
    pub(super) fn new(nfs: Nfs, client: usize, boots: u64, pace: Pace) -> Self {
        Self { nfs, client, boots, killed: Arc::default(), pace }
    }

    /// Kills the process: nothing it does from now on happens. What its machine holds stays there.
    pub fn kill(&self) {
        self.killed.store(true, Ordering::SeqCst);
    }

    /// The state, if the process still exists.
    fn alive(&self) -> io::Result<MutexGuard<'_, State>> {
        let state = self.nfs.state.lock();
        if self.killed.load(Ordering::SeqCst) || state.clients[self.client].boots != self.boots {
            return Err(io::Error::other("the process is dead"));
        }
        Ok(state)
    }

    /// Before a request.
    fn request(&self, kind: OpKind, path: &str) -> io::Result<MutexGuard<'_, State>> {
        drop(self.alive()?);
        (self.pace)(&Op { kind, path: path.to_owned() });
        self.alive()
    }

    /// As [`request`](Self::request), for one that may fail.
    fn risky(&self, kind: OpKind, path: &str) -> io::Result<MutexGuard<'_, State>> {
        let mut state = self.request(kind, path)?;
        let faults = state.faults;
        for (chance, errno) in [(faults.error, EIO), (faults.stale_handle, ESTALE)] {
            if state.happens(chance) {
                return Err(io::Error::from_raw_os_error(errno));
            }
        }
        Ok(state)
    }

    fn open_node(
        &self,
        state: &mut State,
        node: usize,
        path: &str,
        writable: bool,
    ) -> io::Result<Arc<dyn VolumeFile>> {
        let attributes = state.server.attributes(node)?;
        let file = state.clients[self.client].files.entry(node).or_default();
        file.revalidate(attributes);
        // An error that nobody was told of is told to whoever syncs next.
        let seen = AtomicU64::new(if file.reported < file.errors { file.reported } else { file.errors });
        let (mount, path) = (self.clone(), path.to_owned());
        Ok(Arc::new(NfsFile { mount, node, path, writable, seen }))
    }

    /// Ends a request that changes names: this machine's memory of the directory goes, and the reply may be lost.
    fn named(
        &self,
        state: &mut State,
        path: &str,
        outcome: io::Result<()>,
        otherwise: ErrorKind,
    ) -> io::Result<()> {
        state.forget_names(self.client, parent(path));
        outcome?;
        let lost = state.faults.lost_reply;
        match state.happens(lost) {
            false => Ok(()),
            true if state.random.coin() => Err(io::Error::from_raw_os_error(EIO)),
            true => Err(otherwise.into()),
        }
    }
}

impl State {
    fn forget_names(&mut self, client: usize, dir: &str) {
        if let Ok(dir) = self.server.tree.find(dir) {
            self.clients[client].dirs.remove(&dir);
        }
    }

    /// What a path names, as far as the machine knows.
    fn look_up(&mut self, client: usize, path: &str) -> io::Result<usize> {
        path.split('/').filter(|part| !part.is_empty()).try_fold(ROOT, |dir, name| {
            let faults = self.faults;
            if self.clients[client].dirs.get(&dir).is_some_and(|dir| dir.absent.contains(name)) {
                if self.happens(faults.stale_name) {
                    return Err(ErrorKind::NotFound.into());
                }
                self.clients[client].dirs.remove(&dir);
            }
            let known = self.clients[client].dirs.get(&dir).and_then(|dir| dir.present.get(name)).copied();
            if let Some(node) = known.filter(|node| self.server.is_linked(*node))
                && self.happens(faults.stale_name)
            {
                return Ok(node);
            }
            let found = self.server.tree.dir(dir)?.current.get(name).copied();
            let memory = self.clients[client].dirs.entry(dir).or_default();
            match found {
                Some(node) => {
                    memory.present.insert(name.to_owned(), node);
                    Ok(node)
                }
                None => {
                    memory.present.remove(name);
                    memory.absent.insert(name.to_owned());
                    Err(ErrorKind::NotFound.into())
                }
            }
        })
    }
}

impl Volume for NfsMount {
    fn create_new(&self, path: &str) -> io::Result<Arc<dyn VolumeFile>> {
        let mut state = self.risky(OpKind::Create, path)?;
        state.look_up(self.client, parent(path))?;
        let created = state.server.create(path, Node::File(FileNode::default()));
        let outcome = created.as_ref().map(|_| ()).map_err(|error| error.kind().into());
        self.named(&mut state, path, outcome, ErrorKind::AlreadyExists)?;
        let node = created?;
        self.open_node(&mut state, node, path, true)
    }

    fn open(&self, path: &str, access: Access) -> io::Result<Arc<dyn VolumeFile>> {
        let mut state = self.risky(OpKind::Open, path)?;
        let node = state.look_up(self.client, path)?;
        self.open_node(&mut state, node, path, access == Access::ReadWrite)
    }

    fn create_dir(&self, path: &str) -> io::Result<()> {
        let mut state = self.risky(OpKind::CreateDir, path)?;
        state.look_up(self.client, parent(path))?;
        let outcome = state.server.create(path, Node::Dir(DirNode::default())).map(|_| ());
        self.named(&mut state, path, outcome, ErrorKind::AlreadyExists)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.risky(OpKind::Rename, from)?;
        let outcome = state.server.rename(self.client, from, to);
        self.named(&mut state, from, outcome, ErrorKind::NotFound)
    }

    fn remove_file(&self, path: &str) -> io::Result<()> {
        let mut state = self.risky(OpKind::Remove, path)?;
        let outcome = state.server.unlink(self.client, path);
        self.named(&mut state, path, outcome, ErrorKind::NotFound)
    }

    fn remove_dir(&self, path: &str) -> io::Result<()> {
        let mut state = self.risky(OpKind::Remove, path)?;
        let node = state.server.tree.find(path)?;
        if !state.server.tree.dir(node)?.current.is_empty() {
            return Err(ErrorKind::DirectoryNotEmpty.into());
        }
        let outcome = state.server.unlink(self.client, path);
        self.named(&mut state, path, outcome, ErrorKind::NotFound)
    }

    fn sync_dir(&self, path: &str) -> io::Result<()> {
        let mut state = self.risky(OpKind::SyncDir, path)?;
        state.look_up(self.client, path)?;
        state.server.sync_dir(path)?;
        let lost = state.faults.lost_reply;
        if state.happens(lost) { Err(io::Error::from_raw_os_error(EIO)) } else { Ok(()) }
    }

    fn list(&self, path: &str) -> io::Result<Vec<DirEntry>> {
        let mut state = self.risky(OpKind::List, path)?;
        let node = state.look_up(self.client, path)?;
        let stale = state.faults.stale_name;
        let known = state.clients[self.client].dirs.get(&node).and_then(|dir| dir.listing.clone());
        if let Some(listing) = known
            && state.happens(stale)
        {
            return Ok(listing);
        }
        let names = &state.server.tree.dir(node)?.current;
        let entry = |(name, node): (&String, &usize)| {
            let is_dir = matches!(state.server.tree.nodes[*node], Node::Dir(_));
            DirEntry { name: name.clone(), is_dir }
        };
        let listing: Vec<DirEntry> = names.iter().map(entry).collect();
        state.clients[self.client].dirs.entry(node).or_default().listing = Some(listing.clone());
        Ok(listing)
    }
}

struct NfsFile {
    mount: NfsMount,
    node: usize,
    path: String,
    writable: bool,
    /// How many of the file's write errors this handle has been told of.
    seen: AtomicU64,
}

impl fmt::Debug for NfsFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("NfsFile").field(&self.path).finish()
    }
}

impl NfsFile {
    /// The bytes of a page, from memory if they are there.
    fn page(&self, page: u64) -> io::Result<Vec<u8>> {
        let Self { mount, node, .. } = self;
        let mut state = mount.alive()?;
        let file = state.clients[mount.client].files.entry(*node).or_default();
        if !file.has_page(page) && file.len() > page * PAGE_BYTES {
            drop(state);
            state = mount.risky(OpKind::Read, &self.path)?;
            state.server.handle(mount.client, *node)?;
            let bytes = &state.server.tree.file(*node)?.current;
            let start = bytes.len().min((page * PAGE_BYTES) as usize);
            let bytes = bytes[start..bytes.len().min(start + PAGE_BYTES as usize)].to_vec();
            state.clients[mount.client].files.entry(*node).or_default().put_page(page, bytes);
        }
        Ok(state.clients[mount.client].files.entry(*node).or_default().page(page))
    }

    /// A machine short of memory forgets pages, and now and then asks what has changed.
    fn maybe_forget(&self) -> io::Result<()> {
        let Self { mount, node, .. } = self;
        let mut state = mount.alive()?;
        let chance = state.faults.forget;
        if !state.happens(chance) {
            return Ok(());
        }
        if state.random.coin() {
            state.clients[mount.client].files.entry(*node).or_default().drop_pages();
            return Ok(());
        }
        drop(state);
        let mut state = mount.request(OpKind::Read, &self.path)?;
        state.server.handle(mount.client, *node)?;
        let attributes = state.server.attributes(*node)?;
        state.clients[mount.client].files.entry(*node).or_default().revalidate(attributes);
        Ok(())
    }
}

impl VolumeFile for NfsFile {
    fn write_all_at(&self, parts: &mut [IoSlice<'_>], position: u64) -> io::Result<()> {
        if !self.writable {
            return Err(ErrorKind::PermissionDenied.into());
        }
        let bytes: Vec<u8> = parts.iter().flat_map(|part| part.iter().copied()).collect();
        let Self { mount, node, .. } = self;
        let mut state = mount.request(OpKind::Write, &self.path)?;
        for extent in extents(position, &bytes) {
            let page = extent.position / PAGE_BYTES;
            if let Err(apart) = state.clients[mount.client].files.entry(*node).or_default().write(extent) {
                state.send(mount.client, *node, page);
                _ = state.clients[mount.client].files.entry(*node).or_default().write(apart);
            }
        }
        Ok(())
    }

    fn read_at(&self, buf: &mut [u8], position: u64) -> io::Result<usize> {
        self.maybe_forget()?;
        let mut read = 0;
        while read < buf.len() {
            let at = position + read as u64;
            let page = self.page(at / PAGE_BYTES)?;
            let from = ((at % PAGE_BYTES) as usize).min(page.len());
            let bytes = &page[from..page.len().min(from + buf.len() - read)];
            buf[read..read + bytes.len()].copy_from_slice(bytes);
            read += bytes.len();
            if bytes.is_empty() {
                break;
            }
        }
        Ok(read)
    }

    fn try_read_at(&self, buf: &mut [u8], position: u64) -> io::Result<Option<usize>> {
        self.read_at(buf, position).map(Some)
    }

    fn sync_data(&self) -> io::Result<()> {
        let Self { mount, node, .. } = self;
        loop {
            let state = mount.alive()?;
            let dirty =
                state.clients[mount.client].files.get(node).map(|file| file.dirty.keys().copied().collect());
            drop(state);
            let mut dirty: Vec<u64> = dirty.unwrap_or_default();
            while !dirty.is_empty() {
                let mut state = mount.request(OpKind::Write, &self.path)?;
                let next = state.random.below(dirty.len());
                state.send(mount.client, *node, dirty.swap_remove(next));
            }
            let mut state = mount.request(OpKind::Sync, &self.path)?;
            let faults = state.faults;
            let file = state.clients[mount.client].files.entry(*node).or_default();
            if file.sent.is_empty() && file.errors == self.seen.load(Ordering::SeqCst) {
                // What others have written is theirs to have committed.
                return Ok(());
            }
            if state.happens(faults.error) {
                // What it was to cover is nobody's concern any more.
                let file = state.clients[mount.client].files.entry(*node).or_default();
                file.sent.clear();
                file.errors += 1;
            } else if !state.commit(mount.client, *node).unwrap_or(true) {
                continue;
            }
            if state.happens(faults.lost_reply) {
                return Err(io::Error::from_raw_os_error(EIO));
            }
            let file = state.clients[mount.client].files.entry(*node).or_default();
            if self.seen.swap(file.errors, Ordering::SeqCst) < file.errors {
                file.reported = file.errors;
                return Err(io::Error::from_raw_os_error(EIO));
            }
            return Ok(());
        }
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let Self { mount, node, .. } = self;
        let mut state = mount.risky(OpKind::SetLen, &self.path)?;
        let dirty: Vec<u64> = state.clients[mount.client]
            .files
            .get(node)
            .map_or_else(Vec::new, |file| file.dirty.keys().copied().collect());
        dirty.into_iter().for_each(|page| state.send(mount.client, *node, page));
        state.server.handle(mount.client, *node)?;
        state.server.set_len(*node, len)?;
        let attributes = state.server.attributes(*node)?;
        let file = state.clients[mount.client].files.entry(*node).or_default();
        file.sent.clear();
        file.drop_pages();
        file.revalidate(attributes);
        Ok(())
    }

    fn byte_len(&self) -> io::Result<u64> {
        let mut state = self.mount.alive()?;
        Ok(state.clients[self.mount.client].files.entry(self.node).or_default().len())
    }

    fn drop_cache(&self) -> io::Result<()> {
        let mut state = self.mount.alive()?;
        state.clients[self.mount.client].files.entry(self.node).or_default().drop_pages();
        Ok(())
    }

    fn os_file(&self) -> Option<Arc<File>> {
        None
    }
}
