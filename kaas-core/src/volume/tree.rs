//! The files and directories of a simulated volume: what the device holds, what the cache shows, and the
//! changes between them.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};

/// A write may be torn between sectors of this many bytes.
const SECTOR_BYTES: usize = 512;

/// "No space left on device".
const ENOSPC: i32 = 28;

/// The root directory's place among the nodes.
pub(super) const ROOT: usize = 0;

/// All nodes; names refer to them by index. Nothing is ever removed, so open files stay valid.
#[derive(Default)]
pub(super) struct Tree {
    pub(super) nodes: Vec<Node>,
    pub(super) capacity: Option<u64>,
}

#[derive(Clone)]
pub(super) enum Node {
    File(FileNode),
    Dir(DirNode),
}

#[derive(Clone, Default)]
pub(super) struct FileNode {
    pub(super) current: Vec<u8>,
    pub(super) durable: Vec<u8>,
    pub(super) unsynced: Vec<FileChange>,
}

#[derive(Clone)]
pub(super) enum FileChange {
    Write { position: usize, bytes: Vec<u8> },
    SetLen(usize),
}

#[derive(Clone, Default)]
pub(super) struct DirNode {
    pub(super) current: BTreeMap<String, usize>,
    pub(super) durable: BTreeMap<String, usize>,
    pub(super) unsynced: Vec<DirChange>,
}

#[derive(Clone)]
pub(super) enum DirChange {
    Link(String, usize),
    Unlink(String),
    Rename { from: String, to: String, node: usize },
}

impl FileChange {
    pub(super) fn apply(&self, bytes: &mut Vec<u8>) {
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
    pub(super) fn apply_torn(&self, bytes: &mut Vec<u8>, random: &mut Random) {
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
    pub(super) fn apply(&self, names: &mut BTreeMap<String, usize>) {
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
    pub(super) fn change(&mut self, change: DirChange) {
        change.apply(&mut self.current);
        self.unsynced.push(change);
    }
}

impl FileNode {
    pub(super) fn change(&mut self, change: FileChange) {
        change.apply(&mut self.current);
        self.unsynced.push(change);
    }
}

impl Tree {
    pub(super) fn find(&self, path: &str) -> io::Result<usize> {
        path.split('/').filter(|part| !part.is_empty()).try_fold(ROOT, |node, name| {
            self.dir(node)?.current.get(name).copied().ok_or_else(|| ErrorKind::NotFound.into())
        })
    }

    pub(super) fn parent<'a>(&self, path: &'a str) -> io::Result<(usize, &'a str)> {
        let name = path.rsplit('/').next().unwrap_or(path);
        Ok((self.find(crate::volume::parent(path))?, name))
    }

    pub(super) fn dir(&self, node: usize) -> io::Result<&DirNode> {
        match &self.nodes[node] {
            Node::Dir(dir) => Ok(dir),
            Node::File(_) => Err(ErrorKind::NotADirectory.into()),
        }
    }

    pub(super) fn dir_mut(&mut self, node: usize) -> io::Result<&mut DirNode> {
        match &mut self.nodes[node] {
            Node::Dir(dir) => Ok(dir),
            Node::File(_) => Err(ErrorKind::NotADirectory.into()),
        }
    }

    pub(super) fn file(&self, node: usize) -> io::Result<&FileNode> {
        match &self.nodes[node] {
            Node::File(file) => Ok(file),
            Node::Dir(_) => Err(ErrorKind::IsADirectory.into()),
        }
    }

    pub(super) fn file_mut(&mut self, node: usize) -> io::Result<&mut FileNode> {
        match &mut self.nodes[node] {
            Node::File(file) => Ok(file),
            Node::Dir(_) => Err(ErrorKind::IsADirectory.into()),
        }
    }

    pub(super) fn link_new(&mut self, path: &str, node: Node) -> io::Result<usize> {
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

    pub(super) fn write(&mut self, node: usize, position: u64, bytes: Vec<u8>) -> io::Result<()> {
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

    pub(super) fn collect(&self, node: usize, path: String, files: &mut Vec<String>) {
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

/// A small generator, so that a seed means the same everywhere.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(super) fn coin(&mut self) -> bool {
        self.next() & 1 == 1
    }

    /// A number below `end`, which is not 0.
    pub(super) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
}
