//! Opening a partition's log after any kind of stop.
//!
//! What the checkpoint covers was synced, so damage there is damage to acknowledged records: the partition
//! goes offline and nothing is changed. Behind the checkpoint batches are read and verified; the log ends at
//! the first that is not whole, and what follows is cut, because it was never acknowledged.

use std::io::IoSlice;
use std::sync::Arc;

use super::chain::{Chain, names_in};
use super::checkpoint::{self, Checkpoint};
use super::claim::tail_crc;
use super::cover::{self, Cover};
use super::marks;
use super::producers::{Expiry, Producers};
use super::scan::{ScanError, Scanner};
use super::segment::Segment;
use super::sweep::{self, sweep};
use super::writer::GROUP_BYTES_MAX;
use crate::error::{Offline, StorageError};
use crate::layout::{SegmentFile, SegmentName, parse_clean, parse_producers, parse_start};
use crate::mutant::{Mutant, Mutants};
use crate::record::{BATCH_OVERHEAD, BatchHeader, EndTxnMarker, batch_crc};
use crate::volume::{Access, Volume, VolumeFile, read_exact_at};

/// Bytes read at a time while looking for a valid batch behind a damaged one, or while writing a tail again.
const SEARCH_BYTES: u64 = 1 << 20;

/// What becomes of the bytes behind the last whole batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tail {
    /// They are cut: nobody else writes to the volume.
    Cut,
    /// They stay, for a seal to hide: a deposed writer may be adding to them at this moment.
    Seal,
}

#[derive(Clone, Copy)]
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
    /// Those that compacted ones stand for.
    pub(crate) superseded: Vec<SegmentName>,
    /// Whether the last segment may be appended to, and up to where it is checkpointed.
    pub(crate) active: Option<u64>,
    pub(crate) log_start: i64,
    /// Everything below was compacted.
    pub(crate) clean_below: i64,
    pub(crate) log_end: i64,
    pub(crate) producers: Producers,
    /// As of which offset the producers' state is durable apart from the log.
    pub(crate) producers_kept_at: i64,
    /// Whether segments that are needed for it are about to be removed.
    pub(crate) producers_at_risk: bool,
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

pub(crate) fn damaged(why: impl Into<Arc<str>>) -> RecoverError {
    RecoverError::Damaged(Offline { why: why.into() })
}

/// Opens the log in `dir`. A directory that does not exist is an empty log.
pub(crate) fn recover(
    context: &RecoverContext<'_>,
    dir: &Arc<str>,
    flush_messages: u64,
) -> Result<Recovered, RecoverError> {
    let names = names_in(context.volume, dir)?;
    let chain = Chain::load(context.volume, dir, &names)?;
    recover_chain(context, dir, &names, chain, Tail::Cut, flush_messages)
}

/// Opens the log that `chain` describes.
pub(crate) fn recover_chain(
    context: &RecoverContext<'_>,
    dir: &Arc<str>,
    names: &[String],
    chain: Chain,
    tail: Tail,
    flush_messages: u64,
) -> Result<Recovered, RecoverError> {
    let marked = marks::greatest(names, parse_start).unwrap_or(0);
    let found = names.iter().filter_map(|name| SegmentName::parse_log(name)).collect();
    let Cover { live, superseded } = cover::resolve(found).map_err(|error| damaged(error.to_string()))?;
    let mut segments = chain.visible(dir, live, context.mutants)?;
    let dead = segments.iter().skip(1).take_while(|segment| segment.base_offset() <= marked).count();
    let dead = segments.drain(..dead).collect();
    tile(&segments)?;
    chain.verify_seals(context.volume, &segments)?;
    let checkpoint = chain.checkpoint(context.volume, dir, names)?;
    let mut recovery =
        Recovery { context, dir, chain, segments, dead, checkpoint, marked, tail, flush_messages };
    let (mut log_end, mut active) = recovery.find_end()?;
    if log_end < marked || (log_end == marked && active.is_none()) {
        // Everything was removed, but for files that a crash has brought back.
        recovery.dead.append(&mut recovery.segments);
        (log_end, active) = (marked, None);
    }
    let (kept_at, producers) = recovery.producers(names, log_end)?;
    let at_risk = !recovery.dead.is_empty() && kept_at < log_end && !producers.is_empty();
    let first = recovery.segments.first().map_or(log_end, |segment| segment.base_offset());
    if first > marked {
        // A log start is durable before anything below it goes: these were not removed, they are lost.
        return Err(damaged(format!("the records from offset {marked} to {first} are missing")));
    }
    let log_start = marked;
    let live: Vec<SegmentName> = recovery.segments.iter().map(|segment| segment.name()).collect();
    let mut producers_kept_at = kept_at;
    if tail == Tail::Cut {
        if at_risk {
            let epoch = recovery.chain.epoch;
            checkpoint::store_producers(context.volume, dir, (epoch, log_end), producers.clone(), true)?;
            producers_kept_at = log_end;
        }
        sweep(context.volume, dir, &sweep::Found { names, live: &live, superseded: &superseded, log_start })?;
    }
    Ok(Recovered {
        epoch: recovery.chain.epoch,
        claimed: recovery.chain.claimed,
        epoch_seen: recovery.chain.epoch_seen,
        epochs: recovery.chain.starts.iter().map(|(epoch, start)| (*epoch, *start)).collect(),
        log_start,
        clean_below: marks::greatest(names, parse_clean).unwrap_or(0),
        segments: recovery.segments,
        superseded,
        active,
        log_end,
        producers,
        producers_kept_at,
        producers_at_risk: at_risk,
    })
}

/// A compacted segment stands for everything up to the next one; if it does not, records are missing between them.
fn tile(segments: &[Arc<Segment>]) -> Result<(), RecoverError> {
    for pair in segments.windows(2) {
        let (name, next) = (pair[0].name(), pair[1].base_offset());
        if let Some(cleaned) = name.cleaned.filter(|cleaned| cleaned.end_offset != next) {
            let end = cleaned.end_offset;
            return Err(damaged(format!("the compacted segment ends at {end}, the next begins at {next}")));
        }
    }
    Ok(())
}

struct Recovery<'a> {
    context: &'a RecoverContext<'a>,
    dir: &'a Arc<str>,
    chain: Chain,
    segments: Vec<Arc<Segment>>,
    /// Those that end below the log start, ascending: only the producers' state may still need them.
    dead: Vec<Arc<Segment>>,
    checkpoint: Option<Checkpoint>,
    /// The log start that the directory's names speak of, or 0.
    marked: i64,
    tail: Tail,
    flush_messages: u64,
}

impl Recovery<'_> {
    /// The log end offset, and the checkpointed position of the last segment if it may be appended to.
    fn find_end(&mut self) -> Result<(i64, Option<u64>), RecoverError> {
        let start = self.chain.starts.get(&self.chain.epoch).copied().unwrap_or(0);
        let Some(last) = self.segments.last().cloned() else {
            return match self.checkpoint.take() {
                Some(lost) if lost.offset > self.marked => {
                    Err(damaged(format!("segment {:?} is missing", lost.segment())))
                }
                _ => Ok((start, None)),
            };
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
        last.add_sound(from, end);
        // Whoever reads or writes here opens the file again: idle partitions hold no descriptor.
        last.release();
        Ok((log_end, Some(from)))
    }

    /// Verifies the batches between `from` and `len` and makes them durable; they end at the first that is not whole.
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
        let writes_again = self.tail == Tail::Seal && !self.context.mutants.has(Mutant::TailNotRewritten);
        let mut again = Rewriter { file, at: from, bytes: Vec::new() };
        let mut scanner = Scanner::new(file, from, len, true);
        let bad = loop {
            let before = scanner.position();
            match scanner.next_batch() {
                Ok(None) => break None,
                Ok(Some((_, header, bytes)))
                    if header.base_offset == expected && header.last_offset_delta >= 0 =>
                {
                    expected = header.next_offset();
                    if writes_again {
                        again.push(bytes)?;
                    }
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
                tracing::warn!(path, position, len, why, "unacknowledged tail ends the log");
                if self.tail == Tail::Cut {
                    file.set_len(position)?;
                }
                position
            }
        };
        again.flush()?;
        file.sync_data()?;
        Ok((end, expected))
    }

    /// The producers at `log_end`: the newest snapshot that can be trusted, and the batches after it. Also the offset of
    /// that snapshot.
    fn producers(&self, names: &[String], log_end: i64) -> Result<(i64, Producers), RecoverError> {
        let empty_at = self.checkpoint.as_ref().filter(|c| !c.has_producers && c.offset <= log_end);
        let empty_at = empty_at.map_or(-1, |checkpoint| checkpoint.offset);
        let believed =
            |(epoch, offset): &(i32, i64)| *offset <= log_end && self.chain.covers(*epoch, *offset);
        let mut snapshots: Vec<(i32, i64)> =
            names.iter().filter_map(|name| parse_producers(name)).filter(believed).collect();
        snapshots.sort_unstable_by_key(|(epoch, offset)| (*offset, *epoch));
        let first =
            self.dead.first().or(self.segments.first()).map_or(log_end, |segment| segment.base_offset());
        let mut found = (first.max(empty_at), Producers::default());
        for (epoch, offset) in snapshots.into_iter().rev().take_while(|(_, offset)| *offset > empty_at) {
            if let Some(producers) = checkpoint::load_producers(self.context.volume, self.dir, epoch, offset)?
            {
                found = (offset, producers);
                break;
            }
        }
        let (from, mut producers) = found;
        if !self.context.mutants.has(Mutant::ProducersNotRebuilt) {
            self.replay(from, log_end, &mut producers)?;
        }
        Ok((from, producers))
    }

    fn replay(&self, from: i64, log_end: i64, producers: &mut Producers) -> Result<(), RecoverError> {
        if from >= log_end {
            return Ok(());
        }
        let segments: Vec<&Arc<Segment>> = self.dead.iter().chain(&self.segments).collect();
        let start = segments.partition_point(|segment| segment.base_offset() <= from).saturating_sub(1);
        for (at, segment) in segments.into_iter().enumerate().skip(start) {
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
                    // Its records were deleted: what else it told is not worth the partition.
                    Err(ScanError::Bad { position, why }) if at < self.dead.len() => {
                        tracing::warn!(path, position, why, "producers' state may lack what was here");
                        break;
                    }
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

/// Writes what was verified again, where it is. It may have come from a writer on another machine that died before it
/// made it durable, and a sync from here covers on a network file system only what was written from here. The bytes are
/// those that were looked at: the file may show others by now, if its server has restarted.
struct Rewriter<'a> {
    file: &'a dyn VolumeFile,
    at: u64,
    bytes: Vec<u8>,
}

impl Rewriter<'_> {
    fn push(&mut self, bytes: &[u8]) -> Result<(), StorageError> {
        self.bytes.extend_from_slice(bytes);
        if self.bytes.len() as u64 >= SEARCH_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), StorageError> {
        if !self.bytes.is_empty() {
            self.file.write_all_at(&mut [IoSlice::new(&self.bytes)], self.at)?;
        }
        self.at += self.bytes.len() as u64;
        self.bytes.clear();
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
    Ok(next_batch_behind(file, position, len, expected)?.is_some())
}

/// Where behind `position` the next whole, valid batch with an offset of at least `expected` starts.
pub(crate) fn next_batch_behind(
    file: &dyn VolumeFile,
    position: u64,
    len: u64,
    expected: i64,
) -> Result<Option<u64>, StorageError> {
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
                return Ok(Some(begin));
            }
        }
        at += SEARCH_BYTES + 1;
    }
    Ok(None)
}

fn is_valid(file: &dyn VolumeFile, begin: u64, header: &BatchHeader) -> Result<bool, StorageError> {
    let mut batch = vec![0; header.size];
    read_exact_at(file, &mut batch, begin)?;
    Ok(batch_crc(&batch) == header.crc)
}

/// Verifies the batches of a segment up to `end`, as the device holds them; returns the checksum for its seal.
pub(crate) fn verify_prefix(
    volume: &dyn Volume,
    segment: &Segment,
    from: u64,
    end: u64,
) -> Result<u32, RecoverError> {
    let path = segment.path(SegmentFile::Log);
    // A fresh descriptor: the old one belongs to a file whose sync failed.
    let file = volume.open(&path, Access::Read)?;
    file.drop_cache()?;
    let mut scanner = Scanner::new(&*file, from, end, true);
    loop {
        match scanner.next_batch() {
            Ok(None) => return Ok(tail_crc(&*file, end)?),
            Ok(Some(_)) => {}
            Err(ScanError::Storage(error)) => return Err(error.into()),
            Err(ScanError::Bad { position, why }) => {
                return Err(damaged(format!("{path} is damaged at byte {position}: {why}")));
            }
            Err(ScanError::WouldBlock) => return Err(damaged("a blocking read said that it would block")),
        }
    }
}
