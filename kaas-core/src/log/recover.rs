//! Opening a partition's log after any kind of stop.
//!
//! What the checkpoint covers was synced, so damage there is damage to acknowledged records: the partition
//! goes offline and nothing is changed. Behind the checkpoint batches are read and verified; the log ends at
//! the first that is not whole, and what follows is cut, because it was never acknowledged.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::checkpoint::{self, Checkpoint};
use super::claim::{self, Claim, Seal};
use super::cover::{self, Cover};
use super::marks;
use super::producers::{Expiry, Producers};
use super::scan::{ScanError, Scanner};
use super::segment::Segment;
use super::sweep::{self, sweep};
use super::writer::GROUP_BYTES_MAX;
use crate::error::{Offline, StorageError};
use crate::layout::{SegmentFile, SegmentName, parse_claim, parse_clean, parse_producers, parse_start};
use crate::mutant::{Mutant, Mutants};
use crate::record::{BATCH_OVERHEAD, BatchHeader, EndTxnMarker, batch_crc};
use crate::volume::{Access, Volume, VolumeFile, read_exact_at};

/// Epoch of a partition that nobody has claimed.
const FIRST_EPOCH: i32 = 1;

/// Bytes read at a time while looking for a valid batch behind a damaged one.
const SEARCH_BYTES: u64 = 1 << 20;

pub(crate) struct RecoverContext<'a> {
    pub(crate) volume: &'a dyn Volume,
    pub(crate) now_ms: i64,
    pub(crate) mutants: Mutants,
}

/// An opened log.
pub(crate) struct Recovered {
    /// The leader epoch, and whether its claim exists already.
    pub(crate) epoch: i32,
    pub(crate) claimed: bool,
    /// The highest epoch that a claim file was seen for.
    pub(crate) epoch_seen: i32,
    /// First offset of every epoch, ascending.
    pub(crate) epochs: Vec<(i32, i64)>,
    pub(crate) segments: Vec<Arc<Segment>>,
    /// Whether the last segment may be appended to, and up to where it is checkpointed.
    pub(crate) active: Option<u64>,
    pub(crate) log_start: i64,
    /// Everything below was compacted.
    pub(crate) clean_below: i64,
    pub(crate) log_end: i64,
    pub(crate) producers: Producers,
}

/// Why a log did not open.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RecoverError {
    #[error(transparent)]
    Storage(StorageError),
    #[error(transparent)]
    Damaged(Offline),
}

impl From<StorageError> for RecoverError {
    fn from(error: StorageError) -> Self {
        Self::Storage(error)
    }
}

impl From<std::io::Error> for RecoverError {
    fn from(error: std::io::Error) -> Self {
        Self::Storage(error.into())
    }
}

fn damaged(why: impl Into<Arc<str>>) -> RecoverError {
    RecoverError::Damaged(Offline { why: why.into() })
}

/// Opens the log in `dir`. A directory that does not exist is an empty log.
pub(crate) fn recover(
    context: &RecoverContext<'_>,
    dir: &Arc<str>,
    flush_messages: u64,
) -> Result<Recovered, RecoverError> {
    let names = match context.volume.list(dir) {
        Ok(entries) => entries.into_iter().map(|entry| entry.name).collect(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    let chain = Chain::load(context.volume, dir, &names)?;
    let marked = marks::greatest(&names, parse_start).unwrap_or(0);
    let found = names.iter().filter_map(|name| SegmentName::parse_log(name)).collect();
    let Cover { live, superseded } = cover::resolve(found).map_err(|error| damaged(error.to_string()))?;
    let mut segments = chain.visible(dir, live, context.mutants)?;
    let dead = segments.iter().skip(1).take_while(|segment| segment.base_offset() <= marked).count();
    segments.drain(..dead);
    let checkpoint = if segments.is_empty() { None } else { checkpoint::load(context.volume, dir)? };
    let mut recovery = Recovery { context, dir, chain, segments, checkpoint, marked, flush_messages };
    let (mut log_end, mut active) = recovery.find_end()?;
    if log_end < marked || (log_end == marked && active.is_none()) {
        // Everything was removed, but for files that a crash has brought back.
        recovery.segments.clear();
        (log_end, active) = (marked, None);
    }
    let producers = recovery.producers(&names, log_end)?;
    let first = recovery.segments.first().map_or(log_end, |segment| segment.base_offset());
    let log_start = first.max(marked);
    let live: Vec<SegmentName> = recovery.segments.iter().map(|segment| segment.name()).collect();
    let found = sweep::Found { names: &names, live: &live, superseded: &superseded, log_start };
    sweep(context.volume, dir, &found)?;
    Ok(Recovered {
        epoch: recovery.chain.epoch,
        claimed: recovery.chain.claimed,
        epoch_seen: recovery.chain.epoch_seen,
        epochs: recovery.chain.starts.iter().map(|(epoch, start)| (*epoch, *start)).collect(),
        log_start,
        clean_below: marks::greatest(&names, parse_clean).unwrap_or(0),
        segments: recovery.segments,
        active,
        log_end,
        producers,
    })
}

/// The claims of a partition, followed from the newest back.
struct Chain {
    epoch: i32,
    claimed: bool,
    epoch_seen: i32,
    starts: BTreeMap<i32, i64>,
    seals: BTreeMap<i32, Seal>,
}

impl Chain {
    fn load(volume: &dyn Volume, dir: &str, names: &[String]) -> Result<Self, RecoverError> {
        let mut epochs: Vec<i32> = names.iter().filter_map(|name| parse_claim(name)).collect();
        epochs.sort_unstable();
        let epoch_seen = epochs.last().copied().unwrap_or(0);
        let mut newest = None;
        for epoch in epochs.into_iter().rev() {
            match claim::load(volume, dir, epoch)? {
                Some(Ok(claim)) => {
                    newest = Some(claim);
                    break;
                }
                // A claim is synced before anything is written under it: a torn one was never used.
                Some(Err(error)) => tracing::warn!(%error, "claim skipped"),
                None => {}
            }
        }
        let Some(newest) = newest else {
            let epoch = epoch_seen.max(FIRST_EPOCH - 1) + 1;
            let starts = BTreeMap::from([(epoch, 0)]);
            return Ok(Self { epoch, claimed: false, epoch_seen, starts, seals: BTreeMap::new() });
        };
        let mut chain = Self {
            epoch: newest.epoch,
            claimed: true,
            epoch_seen,
            starts: BTreeMap::new(),
            seals: BTreeMap::new(),
        };
        chain.follow(volume, dir, newest)?;
        Ok(chain)
    }

    fn follow(&mut self, volume: &dyn Volume, dir: &str, newest: Claim) -> Result<(), RecoverError> {
        let mut claim = newest;
        loop {
            let Some(seal) = claim.prev else {
                self.starts.insert(claim.epoch, 0);
                return Ok(());
            };
            if seal.epoch >= claim.epoch {
                return Err(damaged(format!("claim {} seals epoch {}", claim.epoch, seal.epoch)));
            }
            self.starts.insert(claim.epoch, seal.offset);
            self.seals.insert(seal.epoch, seal);
            claim = match claim::load(volume, dir, seal.epoch)? {
                Some(Ok(claim)) => claim,
                Some(Err(error)) => return Err(damaged(error.to_string())),
                None => return Err(damaged(format!("the claim of epoch {} is missing", seal.epoch))),
            };
        }
    }

    /// The segments that exist by the chain's word, in order; the last of a sealed epoch has its length.
    fn visible(
        &self,
        dir: &Arc<str>,
        found: Vec<SegmentName>,
        mutants: Mutants,
    ) -> Result<Vec<Arc<Segment>>, RecoverError> {
        let mut segments: Vec<Arc<Segment>> = Vec::new();
        for name in found {
            // Nothing is written under an epoch before its claim is durable.
            if !self.claimed || !self.starts.contains_key(&name.epoch) {
                return Err(damaged(format!("segment {name:?} has no claim")));
            }
            // A compacted segment has only what was acknowledged: no seal cuts it.
            let len = match self.seals.get(&name.epoch).filter(|_| name.cleaned.is_none()) {
                Some(seal) if name.base_offset > seal.base_offset => continue,
                Some(seal) if name.base_offset == seal.base_offset => Some(seal.position),
                _ => None,
            };
            if len == Some(0) {
                continue;
            }
            if segments.last().is_some_and(|last| last.base_offset() == name.base_offset) {
                return Err(damaged(format!("two segments start at offset {}", name.base_offset)));
            }
            segments.push(Arc::new(Segment::closed(Arc::clone(dir), name, len, mutants)));
        }
        Ok(segments)
    }
}

struct Recovery<'a> {
    context: &'a RecoverContext<'a>,
    dir: &'a Arc<str>,
    chain: Chain,
    segments: Vec<Arc<Segment>>,
    checkpoint: Option<Checkpoint>,
    /// The log start that the directory's names speak of, or 0.
    marked: i64,
    flush_messages: u64,
}

impl Recovery<'_> {
    /// The log end offset, and the checkpointed position of the last segment if it may be appended to.
    fn find_end(&mut self) -> Result<(i64, Option<u64>), RecoverError> {
        let start = self.chain.starts.get(&self.chain.epoch).copied().unwrap_or(0);
        let Some(last) = self.segments.last().cloned() else {
            return Ok((start, None));
        };
        let name = last.name();
        if let Some(cleaned) = name.cleaned
            && self.checkpoint.as_ref().is_none_or(|checkpoint| checkpoint.offset <= cleaned.end_offset)
        {
            // All was closed and compacted: the log goes on in a new segment.
            return Ok((cleaned.end_offset.max(start), None));
        }
        if let Some(checkpoint) = &self.checkpoint
            && checkpoint.segment() > name
        {
            if checkpoint.offset <= self.marked {
                return Ok((self.marked, None));
            }
            return Err(damaged(format!("segment {:?} is missing", checkpoint.segment())));
        }
        if name.epoch < self.chain.epoch {
            let path = last.path(SegmentFile::Log);
            let len = self.context.volume.open(&path, Access::Read)?.byte_len()?;
            if last.visible().is_some_and(|sealed| len < sealed) {
                return Err(damaged(format!("{path} has {len} bytes, less than its seal says")));
            }
            // Nothing was written under the newest claim: the log ends at its seal.
            return Ok((start, None));
        }
        let covered = self.checkpoint.as_ref().filter(|checkpoint| checkpoint.segment() == name);
        let (from, offset) = covered.map_or((0, name.base_offset), |c| (c.position, c.offset));
        let file = last.open_for_write(self.context.volume)?;
        let len = file.byte_len()?;
        if len < from {
            let path = last.path(SegmentFile::Log);
            return Err(damaged(format!("{path} has {len} bytes, {from} of it were synced")));
        }
        let (end, log_end) =
            if len == from { (len, offset) } else { self.scan_tail(&last, &*file, from, offset, len)? };
        last.set_visible(end);
        // Whoever reads or writes here opens the file again: idle partitions hold no descriptor.
        last.release();
        Ok((log_end, Some(from)))
    }

    /// Verifies the batches between `from` and `len`, cuts what is not whole and makes the rest durable.
    fn scan_tail(
        &self,
        segment: &Segment,
        file: &dyn VolumeFile,
        from: u64,
        offset: i64,
        len: u64,
    ) -> Result<(u64, i64), RecoverError> {
        // The page cache may show bytes that a failed sync never wrote: look at the device.
        file.drop_cache()?;
        let mut expected = offset;
        let mut scanner = Scanner::new(file, from, len, true);
        let bad = loop {
            let before = scanner.position();
            match scanner.next_batch() {
                Ok(None) => break None,
                Ok(Some((_, header, _)))
                    if header.base_offset == expected && header.last_offset_delta >= 0 =>
                {
                    expected = header.next_offset();
                }
                Ok(Some(_)) => break Some((before, "its offset does not follow".to_owned())),
                Err(ScanError::Bad { position, why }) => break Some((position, why)),
                Err(ScanError::Storage(error)) => return Err(error.into()),
                Err(ScanError::WouldBlock) => {
                    return Err(damaged("a blocking read said that it would block"));
                }
            }
        };
        let end = match bad {
            None => len,
            Some((position, why)) => {
                let path = segment.path(SegmentFile::Log);
                // What was never acknowledged is at most the last group. Valid batches further behind mean
                // that acknowledged records are damaged, which no one may cut away.
                let beyond_a_group = self.flush_messages <= 1 && len - position > GROUP_BYTES_MAX;
                if beyond_a_group && has_batch_behind(file, position, len, expected)? {
                    return Err(damaged(format!("{path} is damaged at byte {position}: {why}")));
                }
                tracing::warn!(path, position, len, why, "unacknowledged tail cut");
                file.set_len(position)?;
                position
            }
        };
        file.sync_data()?;
        Ok((end, expected))
    }

    /// The producers at `log_end`: the newest snapshot that can be trusted, and the batches after it.
    fn producers(&self, names: &[String], log_end: i64) -> Result<Producers, RecoverError> {
        let mut snapshots: Vec<i64> = names.iter().filter_map(|name| parse_producers(name)).collect();
        let empty_at = self.checkpoint.as_ref().filter(|c| !c.has_producers && c.offset <= log_end);
        snapshots.extend(empty_at.map(|checkpoint| checkpoint.offset));
        snapshots.retain(|offset| *offset <= log_end);
        snapshots.sort_unstable();
        let first = self.segments.first().map_or(log_end, |segment| segment.base_offset());
        let mut found = (first, Producers::default());
        for offset in snapshots.into_iter().rev() {
            if empty_at.is_some_and(|checkpoint| checkpoint.offset == offset) {
                found = (offset, Producers::default());
                break;
            }
            if let Some(producers) = checkpoint::load_producers(self.context.volume, self.dir, offset)? {
                found = (offset, producers);
                break;
            }
        }
        let (from, mut producers) = found;
        if !self.context.mutants.has(Mutant::ProducersNotRebuilt) {
            self.replay(from, log_end, &mut producers)?;
        }
        Ok(producers)
    }

    fn replay(&self, from: i64, log_end: i64, producers: &mut Producers) -> Result<(), RecoverError> {
        if from >= log_end {
            return Ok(());
        }
        let start = self.segments.partition_point(|segment| segment.base_offset() <= from).saturating_sub(1);
        for segment in &self.segments[start..] {
            let path = segment.path(SegmentFile::Log);
            let file = self.context.volume.open(&path, Access::Read)?;
            let end = match segment.visible() {
                Some(end) => end,
                None => file.byte_len()?,
            };
            let covered = self.checkpoint.as_ref();
            let here = covered.filter(|c| c.segment() == segment.name() && c.offset <= from);
            let mut scanner = Scanner::new(&*file, here.map_or(0, |c| c.position), end, true);
            loop {
                match scanner.next_batch() {
                    Ok(None) => break,
                    Ok(Some((position, header, bytes))) if header.base_offset >= from => {
                        let marker = EndTxnMarker::read(&header, bytes)
                            .map_err(|error| damaged(format!("{path} at byte {position}: {error}")))?;
                        producers.append(&header, marker.as_ref(), Expiry::never(self.context.now_ms));
                        producers.published(header.next_offset());
                    }
                    Ok(Some(_)) => {}
                    Err(ScanError::Storage(error)) => return Err(error.into()),
                    Err(ScanError::Bad { position, why }) => {
                        return Err(damaged(format!("{path} is damaged at byte {position}: {why}")));
                    }
                    Err(ScanError::WouldBlock) => {
                        return Err(damaged("a blocking read said that it would block"));
                    }
                }
            }
        }
        Ok(())
    }
}

/// Whether a whole, valid batch with an offset of at least `expected` starts anywhere behind `position`.
fn has_batch_behind(
    file: &dyn VolumeFile,
    position: u64,
    len: u64,
    expected: i64,
) -> Result<bool, StorageError> {
    let mut at = position + 1;
    while at + BATCH_OVERHEAD as u64 <= len {
        // Windows overlap by one header, so that none is split between two of them.
        let size = (len - at).min(SEARCH_BYTES + BATCH_OVERHEAD as u64);
        let mut window = vec![0; usize::try_from(size).unwrap_or(usize::MAX)];
        read_exact_at(file, &mut window, at)?;
        for start in 0..=window.len() - BATCH_OVERHEAD {
            let Ok(header) = BatchHeader::parse(&window[start..]) else { continue };
            let begin = at + start as u64;
            let plausible = header.base_offset >= expected
                && header.record_count > 0
                && header.last_offset_delta >= 0
                && header.size as u64 <= len - begin;
            if plausible && is_valid(file, begin, &header)? {
                return Ok(true);
            }
        }
        at += SEARCH_BYTES + 1;
    }
    Ok(false)
}

fn is_valid(file: &dyn VolumeFile, begin: u64, header: &BatchHeader) -> Result<bool, StorageError> {
    let mut batch = vec![0; header.size];
    read_exact_at(file, &mut batch, begin)?;
    Ok(batch_crc(&batch) == header.crc)
}

/// Verifies the batches of a segment up to `end`, as the device holds them.
pub(crate) fn verify_prefix(
    volume: &dyn Volume,
    segment: &Segment,
    from: u64,
    end: u64,
) -> Result<(), RecoverError> {
    let path = segment.path(SegmentFile::Log);
    // A fresh descriptor: the old one belongs to a file whose sync failed.
    let file = volume.open(&path, Access::Read)?;
    file.drop_cache()?;
    let mut scanner = Scanner::new(&*file, from, end, true);
    loop {
        match scanner.next_batch() {
            Ok(None) => return Ok(()),
            Ok(Some(_)) => {}
            Err(ScanError::Storage(error)) => return Err(error.into()),
            Err(ScanError::Bad { position, why }) => {
                return Err(damaged(format!("{path} is damaged at byte {position}: {why}")));
            }
            Err(ScanError::WouldBlock) => return Err(damaged("a blocking read said that it would block")),
        }
    }
}
