//! The server: what all clients see, what its disk holds, and who may still use which handle.

use std::collections::BTreeMap;
use std::io;

use crate::volume::tree::{DirChange, FileChange, Node, ROOT, Random, Tree};

/// "Stale file handle".
pub(super) const ESTALE: i32 = 116;

/// Requests during which a server with coarse times gives out the same time.
const COARSE_TICK: u64 = 8;

/// A file's change attribute: two contents with the same one are taken for the same.
pub(super) type Version = (u64, u64);

/// What a reply tells of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Attributes {
    pub(super) version: Version,
    pub(super) len: u64,
}

pub(super) struct Server {
    pub(super) tree: Tree,
    /// Times have a granularity, so that only the length tells contents apart that are close in time.
    pub(super) coarse_times: bool,
    /// Another after every restart: unstable writes that were acknowledged under another one may be lost.
    pub(super) verifier: u64,
    versions: BTreeMap<usize, u64>,
    /// Files without a name, and whose client took it: it alone goes on using them.
    unlinked: BTreeMap<usize, usize>,
    requests: u64,
}

impl Server {
    pub(super) fn new(tree: Tree) -> Self {
        let (versions, unlinked) = (BTreeMap::new(), BTreeMap::new());
        Self { tree, coarse_times: false, verifier: 1, versions, unlinked, requests: 0 }
    }

    pub(super) fn attributes(&self, node: usize) -> io::Result<Attributes> {
        let len = self.tree.file(node)?.current.len() as u64;
        let version = self.versions.get(&node).copied().unwrap_or(0);
        Ok(Attributes {
            version: if self.coarse_times { (version / COARSE_TICK, len) } else { (version, 0) },
            len,
        })
    }

    /// Whether the client may use a handle of the file: one whose name another client took is stale.
    pub(super) fn handle(&self, client: usize, node: usize) -> io::Result<()> {
        match self.unlinked.get(&node) {
            Some(by) if *by != client => Err(io::Error::from_raw_os_error(ESTALE)),
            _ => Ok(()),
        }
    }

    pub(super) fn is_linked(&self, node: usize) -> bool {
        !self.unlinked.contains_key(&node)
    }

    /// An unstable write; returns the verifier that it was done under.
    pub(super) fn write(&mut self, node: usize, position: u64, bytes: &[u8]) -> io::Result<u64> {
        self.tree.write(node, position, bytes.to_vec())?;
        self.touch(node);
        Ok(self.verifier)
    }

    /// Makes everything that was written to the file stable.
    pub(super) fn commit(&mut self, node: usize) -> io::Result<u64> {
        let file = self.tree.file_mut(node)?;
        for change in std::mem::take(&mut file.unsynced) {
            change.apply(&mut file.durable);
        }
        Ok(self.verifier)
    }

    pub(super) fn set_len(&mut self, node: usize, len: u64) -> io::Result<()> {
        let len = usize::try_from(len).map_err(io::Error::other)?;
        self.tree.file_mut(node)?.change(FileChange::SetLen(len));
        self.touch(node);
        Ok(())
    }

    pub(super) fn create(&mut self, path: &str, node: Node) -> io::Result<usize> {
        let node = self.tree.link_new(path, node)?;
        self.touch(node);
        Ok(node)
    }

    pub(super) fn rename(&mut self, client: usize, from: &str, to: &str) -> io::Result<()> {
        let node = self.tree.find(from)?;
        let replaced = self.tree.find(to).ok().filter(|replaced| *replaced != node);
        let ((from_dir, from), (to_dir, to)) = (self.tree.parent(from)?, self.tree.parent(to)?);
        if from_dir != to_dir {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let (from, to) = (from.to_owned(), to.to_owned());
        self.tree.dir_mut(from_dir)?.change(DirChange::Rename { from, to, node });
        self.unlinked.extend(replaced.map(|replaced| (replaced, client)));
        Ok(())
    }

    pub(super) fn unlink(&mut self, client: usize, path: &str) -> io::Result<()> {
        let node = self.tree.find(path)?;
        let (parent, name) = self.tree.parent(path)?;
        self.tree.dir_mut(parent)?.change(DirChange::Unlink(name.to_owned()));
        self.unlinked.insert(node, client);
        Ok(())
    }

    /// Makes the names in a directory stable. Most servers do so before they answer; some do not.
    pub(super) fn sync_dir(&mut self, path: &str) -> io::Result<()> {
        let node = self.tree.find(path)?;
        let dir = self.tree.dir_mut(node)?;
        dir.unsynced.clear();
        dir.durable = dir.current.clone();
        Ok(())
    }

    /// A bit of a file whose path is `wanted` is lost.
    pub(super) fn rot(&mut self, random: &mut Random, wanted: impl Fn(&str) -> bool) {
        let mut paths = Vec::new();
        self.tree.collect(ROOT, String::new(), &mut paths);
        paths.retain(|path| wanted(path));
        if paths.is_empty() {
            return;
        }
        let node = self.tree.find(&paths[random.below(paths.len())]);
        let Ok(Node::File(file)) = node.map(|node| &mut self.tree.nodes[node]) else { return };
        if file.current.is_empty() {
            return;
        }
        let (at, bit) = (random.below(file.current.len()), 1 << random.below(8));
        for bytes in [&mut file.current, &mut file.durable] {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= bit;
            }
        }
    }

    /// Starts again: unstable writes are kept or lost sector by sector, names are kept.
    pub(super) fn restart(&mut self, random: &mut Random) {
        self.verifier += 1;
        for index in 0..self.tree.nodes.len() {
            let Node::File(file) = &mut self.tree.nodes[index] else { continue };
            if file.unsynced.is_empty() {
                continue;
            }
            for change in std::mem::take(&mut file.unsynced) {
                change.apply_torn(&mut file.durable, random);
            }
            file.current = file.durable.clone();
            self.touch(index);
        }
    }

    /// As [`restart`](Self::restart), and names that were not synced are kept or lost too.
    pub(super) fn power_cut(&mut self, random: &mut Random) {
        self.restart(random);
        for node in &mut self.tree.nodes {
            let Node::Dir(dir) = node else { continue };
            for change in std::mem::take(&mut dir.unsynced) {
                if random.coin() {
                    change.apply(&mut dir.durable);
                }
            }
            dir.current = dir.durable.clone();
        }
        self.unlinked.clear();
    }

    fn touch(&mut self, node: usize) {
        self.requests += 1;
        self.versions.insert(node, self.requests);
    }
}
