//! One machine's cache: pages, attributes and names that it believes, and writes that the server has not heard of.

use std::collections::{BTreeMap, BTreeSet};

use super::server::{Attributes, Version};
use crate::volume::DirEntry;

/// Bytes of a page. A sector's worth, so that small files have many.
pub(super) const PAGE_BYTES: u64 = 512;

/// A machine that mounts the volume. What runs on it shares its caches.
#[derive(Default)]
pub(super) struct Client {
    /// How often it has crashed: whatever ran on it before is gone.
    pub(super) boots: u64,
    pub(super) files: BTreeMap<usize, CachedFile>,
    pub(super) dirs: BTreeMap<usize, CachedDir>,
}

/// What it remembers of a directory, however old.
#[derive(Default)]
pub(super) struct CachedDir {
    pub(super) absent: BTreeSet<String>,
    pub(super) present: BTreeMap<String, usize>,
    pub(super) listing: Option<Vec<DirEntry>>,
}

/// Written bytes within one page.
#[derive(Debug, Clone)]
pub(super) struct Extent {
    pub(super) position: u64,
    pub(super) bytes: Vec<u8>,
}

/// A write that the server has taken and not made stable.
pub(super) struct Sent {
    pub(super) extent: Extent,
    pub(super) verifier: u64,
}

#[derive(Default)]
pub(super) struct CachedFile {
    /// What the clean pages are pages of.
    version: Option<Version>,
    len: u64,
    pages: BTreeMap<u64, Vec<u8>>,
    pub(super) dirty: BTreeMap<u64, Extent>,
    pub(super) sent: Vec<Sent>,
    /// Failed writes, and how many of them some sync has reported.
    pub(super) errors: u64,
    pub(super) reported: u64,
}

impl Extent {
    fn page(&self) -> u64 {
        self.position / PAGE_BYTES
    }

    fn end(&self) -> u64 {
        self.position + self.bytes.len() as u64
    }

    /// Lays the extent over the page that starts at `start`.
    fn cover(&self, start: u64, page: &mut Vec<u8>) {
        let at = (self.position - start) as usize;
        page.resize(page.len().max(at + self.bytes.len()), 0);
        page[at..at + self.bytes.len()].copy_from_slice(&self.bytes);
    }

    /// Adds what was written later, if the two touch.
    fn absorb(&mut self, later: &Self) -> bool {
        if later.position > self.end() || self.position > later.end() {
            return false;
        }
        let start = self.position.min(later.position);
        let mut bytes = Vec::new();
        self.cover(start, &mut bytes);
        later.cover(start, &mut bytes);
        *self = Self { position: start, bytes };
        true
    }
}

/// Cuts a write into pages.
pub(super) fn extents(position: u64, bytes: &[u8]) -> Vec<Extent> {
    let mut extents = Vec::new();
    let (mut position, mut rest) = (position, bytes);
    while !rest.is_empty() {
        let room = (PAGE_BYTES - position % PAGE_BYTES) as usize;
        let (now, later) = rest.split_at(room.min(rest.len()));
        extents.push(Extent { position, bytes: now.to_vec() });
        position += now.len() as u64;
        rest = later;
    }
    extents
}

impl CachedFile {
    /// Takes over what the server says; pages of another version are dropped.
    pub(super) fn revalidate(&mut self, attributes: Attributes) {
        if self.version != Some(attributes.version) {
            self.pages.clear();
        }
        self.version = Some(attributes.version);
        self.len = attributes.len;
    }

    /// After a write of its own: nobody else's is noticed if it came between.
    pub(super) fn wrote(&mut self, before: Attributes, after: Attributes) {
        if self.version == Some(before.version) {
            self.version = Some(after.version);
        }
        self.len = self.len.max(after.len);
    }

    pub(super) fn drop_pages(&mut self) {
        self.pages.clear();
    }

    /// The length as it appears here.
    pub(super) fn len(&self) -> u64 {
        let own = self.dirty.values().chain(self.sent.iter().map(|sent| &sent.extent));
        own.map(Extent::end).fold(self.len, u64::max)
    }

    pub(super) fn has_page(&self, page: u64) -> bool {
        self.pages.contains_key(&page)
    }

    /// Takes in a page as the server has it; what was written here lies over it.
    pub(super) fn put_page(&mut self, page: u64, mut bytes: Vec<u8>) {
        self.cover(page, &mut bytes);
        self.pages.insert(page, bytes);
    }

    /// Adds a write. One that cannot be joined with what is dirty in its page is returned: that must be sent first.
    pub(super) fn write(&mut self, extent: Extent) -> Result<(), Extent> {
        let page = extent.page();
        if let Some(dirty) = self.dirty.get_mut(&page) {
            if !dirty.absorb(&extent) {
                return Err(extent);
            }
        } else {
            self.dirty.insert(page, extent.clone());
        }
        if let Some(bytes) = self.pages.get_mut(&page) {
            extent.cover(page * PAGE_BYTES, bytes);
        }
        Ok(())
    }

    /// The bytes of a page that is cached, own writes included.
    pub(super) fn page(&self, page: u64) -> Vec<u8> {
        let mut bytes = self.pages.get(&page).cloned().unwrap_or_default();
        self.cover(page, &mut bytes);
        let len = self.len().saturating_sub(page * PAGE_BYTES).min(PAGE_BYTES) as usize;
        bytes.resize(len, 0);
        bytes
    }

    fn cover(&self, page: u64, bytes: &mut Vec<u8>) {
        let own = self.sent.iter().map(|sent| &sent.extent).chain(self.dirty.values());
        own.filter(|extent| extent.page() == page).for_each(|extent| extent.cover(page * PAGE_BYTES, bytes));
    }
}
