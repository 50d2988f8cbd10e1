//! Compaction: of each key the last record stays (`cleanup.policy=compact`).
//!
//! A pass reads the part of a log that was never compacted into a map of keys, as far as memory allows, and then rewrites
//! all segments up to there. [`plan`] says which and when, [`survive`] what of each batch stays, [`rewrite`] does
//! the work, off the commit loop. A new segment is written beside the log, synced, and takes the place of those it was
//! made from by one rename, whose name says what it stands for ([`cover`](super::cover)): a reader and a
//! recovery see either the old ones or the new. The old ones are set aside when that is durable and the fence was read.
//! Offsets never change; a log that was compacted has gaps.

mod key_map;
mod plan;
mod rewrite;
mod survive;
#[cfg(test)]
mod tests;
mod transactions;

use std::sync::Arc;

use self::key_map::{Full, KeyMap};
use self::plan::{Part, Stretch};
use self::rewrite::{Rewriter, Rewritten, each_batch};
use self::survive::{Rules, Scratch};
use self::transactions::Transactions;
use super::marks;
use super::partition::Partition;
use super::retain::{Doomed, RetainError};
use super::segment::Segment;
use super::state::State;
use crate::config::LogConfig;
use crate::error::{ReadError, StorageError};
use crate::layout::{Cleaned, SegmentFile, SegmentName, clean_file, parse_clean};
use crate::mutant::Mutant;

/// Told of bytes that were read and written, and waits as it likes; false to stop.
pub(crate) type Pace<'a> = &'a dyn Fn(u64) -> bool;

/// Why a pass over one log ended early. What was swapped until then stays.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CompactError {
    #[error(transparent)]
    Storage(#[from] StorageError),
    #[error("the log cannot be read: {0}")]
    Read(#[from] ReadError),
    #[error("a single batch has more keys than log.cleaner.dedupe.buffer.size has room for")]
    BufferTooSmall,
    #[error("this broker has been fenced")]
    Fenced,
    #[error("the log was opened under another epoch meanwhile")]
    Late,
    #[error("stopped")]
    Stopped,
}

impl From<std::io::Error> for CompactError {
    fn from(error: std::io::Error) -> Self {
        Self::Storage(error.into())
    }
}

impl From<RetainError> for CompactError {
    fn from(error: RetainError) -> Self {
        match error {
            RetainError::Read(error) => error.into(),
            RetainError::Storage(error) => error.into(),
            RetainError::Fenced => Self::Fenced,
        }
    }
}

impl CompactError {
    fn damaged(segment: &Segment, position: u64, why: String) -> Self {
        Self::Read(ReadError::Damaged { segment: segment.path(SegmentFile::Log), position, why })
    }

    /// Whether the next pass would fail in the same way.
    pub(crate) fn is_lasting(&self) -> bool {
        matches!(self, Self::BufferTooSmall | Self::Read(ReadError::Damaged { .. }))
    }
}

/// A log as a pass found it.
struct View {
    epoch: i32,
    claimed: bool,
    segments: Vec<Arc<Segment>>,
    parts: Vec<Part>,
    clean_below: i64,
    last_stable: i64,
}

/// What became of a new segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Swap {
    Done,
    /// Retention has removed all that it was made from.
    Gone,
    /// The log was opened anew meanwhile, under another epoch, and its segments may be this one.
    Late,
}

impl State {
    fn compact_view(&self) -> View {
        let count = self.segments.len();
        let end =
            |at: usize| self.segments.get(at + 1).map_or(self.high_watermark, |next| next.base_offset());
        let part = |at: usize| Part {
            base_offset: self.segments[at].base_offset(),
            end_offset: end(at),
            active: at + 1 == count && !self.last_closed || end(at) > self.producers_kept_at,
        };
        View {
            epoch: self.epoch,
            claimed: self.claimed,
            segments: self.segments.clone(),
            parts: (0..count).map(part).collect(),
            clean_below: self.clean_below.max(self.log_start),
            last_stable: self.offsets().last_stable,
        }
    }

    /// Puts the new segment in the place of the old ones, as far as retention has not removed them meanwhile.
    fn swap(&mut self, old: &[Arc<Segment>], new: &Arc<Segment>) -> Swap {
        if self.epoch != new.name().epoch {
            return Swap::Late;
        }
        let is_old = |segment: &Arc<Segment>| old.iter().any(|other| Arc::ptr_eq(other, segment));
        let Some(at) = self.segments.iter().position(is_old) else { return Swap::Gone };
        if self.segments.last().is_some_and(is_old) {
            self.recent_ends.clear();
        }
        self.segments[at] = Arc::clone(new);
        self.segments.retain(|segment| !is_old(segment));
        self.read_rolled.retain(|segment| !is_old(segment));
        Swap::Done
    }
}

/// A log that is due: how much of it was never compacted, from 0 to 1.
pub(crate) type DirtyRatio = f64;

impl Partition {
    /// How dirty the log is, if it is time to compact it. Blocks.
    pub(crate) fn compaction_due(&self, now_ms: i64) -> Result<Option<DirtyRatio>, CompactError> {
        let config = self.config();
        if !config.compact {
            return Ok(None);
        }
        let view = self.with_readable(|state| state.compact_view())?;
        let stretch = self.stretch(&config, &view, now_ms)?;
        Ok(stretch.filter(|stretch| stretch.is_due(&config)).map(|stretch| stretch.dirty_ratio))
    }

    /// Compacts what the map has room for, if it is time to; returns the files that are to be removed. Blocks.
    pub(crate) fn compact(
        &self,
        now_ms: i64,
        dedupe_bytes_max: usize,
        pace: Pace<'_>,
    ) -> Result<Vec<Doomed>, CompactError> {
        let config = self.config();
        let view = self.with_readable(|state| state.compact_view())?;
        let due = self.stretch(&config, &view, now_ms)?.filter(|stretch| stretch.is_due(&config));
        let Some(stretch) = due else { return Ok(Vec::new()) };
        let map = self.key_map(&view, &stretch, dedupe_bytes_max, pace)?;
        let count =
            view.parts.partition_point(|part| part.base_offset < map.end_offset()).min(stretch.segments);
        let facts = self.cleaning_facts(view.parts[0].base_offset, view.parts[count - 1].end_offset)?;
        let mut rewriter = Rewriter {
            volume: &*self.volume,
            dir: self.dir(),
            index_interval_bytes: config.index_interval_bytes,
            rules: Rules {
                map: &map,
                facts: &facts,
                now_ms,
                delete_retention_ms: config.delete_retention_ms,
            },
            transactions: Transactions::default(),
            scratch: Scratch::default(),
            pace,
        };
        let bytes: Vec<u64> = view.segments[..count]
            .iter()
            .map(|s| self.measure(s).map(|m| m.bytes))
            .collect::<Result<_, _>>()?;
        let due_ms = now_ms.saturating_add(config.file_delete_delay_ms);
        let mut doomed = Vec::new();
        let mut at = 0;
        for size in plan::groups(&config, &view.parts[..count], &bytes) {
            let old = &view.segments[at..at + size];
            let parts = &view.parts[at..at + size];
            let name = self.cleaned_name(view.epoch, old, parts[size - 1].end_offset);
            let rewritten = rewriter.rewrite(old, parts, name)?;
            doomed.extend(self.swap(old, rewritten, due_ms)?);
            at += size;
        }
        self.mark_clean(view.epoch, map.end_offset())?;
        Ok(doomed)
    }

    fn stretch(&self, config: &LogConfig, view: &View, now_ms: i64) -> Result<Option<Stretch>, CompactError> {
        // A name may carry an epoch only when its claim is durable.
        if !view.claimed {
            return Ok(None);
        }
        let measure = |at: usize| Ok::<_, CompactError>(self.measure(&view.segments[at])?);
        plan::stretch(config, now_ms, view.clean_below, view.last_stable, &view.parts, measure)
    }

    fn key_map(
        &self,
        view: &View,
        stretch: &Stretch,
        bytes_max: usize,
        pace: Pace<'_>,
    ) -> Result<KeyMap, CompactError> {
        let from = stretch.first_dirty;
        let end = view.parts[stretch.segments - 1].end_offset;
        let mut map = KeyMap::new(from, stretch.dirty_bytes, bytes_max);
        let facts = self.cleaning_facts(from, end)?;
        let mut scratch = Scratch::default();
        let mut full = false;
        for (segment, part) in view.segments.iter().zip(&view.parts).take(stretch.segments) {
            if part.end_offset <= from {
                continue;
            }
            each_batch(&*self.volume, segment, part, |position, header, batch| {
                if header.last_offset() < from {
                    return Ok(true);
                }
                let damaged = |error: crate::record::MalformedRecord| {
                    CompactError::damaged(segment, position, error.to_string())
                };
                if !header.is_control() && !facts.is_aborted(header) {
                    for record in scratch.records(header, batch).map_err(damaged)? {
                        let record = record.map_err(damaged)?;
                        let offset = header.base_offset + i64::from(record.offset_delta);
                        let Some(key) = record.key.filter(|_| offset >= from) else { continue };
                        if let Err(Full) = map.put(key, offset) {
                            full = true;
                            return Ok(false);
                        }
                    }
                }
                map.complete(header.next_offset());
                if pace(batch.len() as u64) { Ok(true) } else { Err(CompactError::Stopped) }
            })?;
            if full {
                break;
            }
            map.complete(part.end_offset);
        }
        if map.end_offset() > from { Ok(map) } else { Err(CompactError::BufferTooSmall) }
    }

    fn cleaned_name(&self, epoch: i32, old: &[Arc<Segment>], end_offset: i64) -> SegmentName {
        let known =
            old.iter().filter_map(|segment| segment.name().cleaned).map(|cleaned| cleaned.generation).max();
        let failed = self.with_state(|state| state.failed_generation);
        let generation = known.unwrap_or(0).max(failed) + 1;
        let cleaned = Some(Cleaned { end_offset, generation });
        SegmentName { cleaned, ..SegmentName::new(epoch, old[0].base_offset()) }
    }

    /// The moment at which the new segment is the log and the old ones are not; then they are set aside.
    fn swap(
        &self,
        old: &[Arc<Segment>],
        rewritten: Rewritten,
        due_ms: i64,
    ) -> Result<Vec<Doomed>, CompactError> {
        let Rewritten { name, path, bytes, index } = rewritten;
        self.fence.check().map_err(|_| CompactError::Fenced)?;
        // A pass may outlive its leadership: what it would rename now, a successor may not expect any more.
        if self.with_readable(|state| state.epoch)? != name.epoch {
            return Err(CompactError::Late);
        }
        let new = Arc::new(Segment::compacted(Arc::clone(self.dir()), name, bytes, index, self.mutants));
        let renamed = self.volume.rename(&path, &new.path(SegmentFile::Log));
        let unsynced = self.mutants.has(Mutant::SwapNotDurable);
        if let Err(error) =
            renamed.and_then(|()| if unsynced { Ok(()) } else { self.volume.sync_dir(self.dir()) })
        {
            // The name may be there now or after a crash: the next try must have another, that counts more.
            if let Some(cleaned) = name.cleaned {
                self.with_state(|state| {
                    state.failed_generation = state.failed_generation.max(cleaned.generation)
                });
            }
            // And it stays if it is there: it is a right compaction, which a successor may have found by now.
            let _ = self.volume.remove_file(&path);
            return Err(error.into());
        }
        self.fence.check().map_err(|_| CompactError::Fenced)?;
        match self.with_readable(|state| state.swap(old, &new))? {
            Swap::Done => {}
            Swap::Gone => return Ok(self.set_aside(&new, due_ms).collect()),
            // It is a right compaction, and whoever opened the log may have found it.
            Swap::Late => return Err(CompactError::Late),
        }
        if let Err(error) = new.store_index(&*self.volume) {
            tracing::debug!(partition = %self.dir(), %error, "index not stored: it is rebuilt when needed");
        }
        new.release();
        Ok(old.iter().flat_map(|segment| self.set_aside(segment, due_ms)).collect())
    }

    fn mark_clean(&self, epoch: i32, offset: i64) -> Result<(), CompactError> {
        marks::store(&*self.volume, self.dir(), &clean_file(epoch, offset))?;
        self.with_state(|state| state.clean_below = state.clean_below.max(offset));
        if let Err(error) = marks::remove_below(&*self.volume, self.dir(), parse_clean, offset) {
            tracing::debug!(partition = %self.dir(), %error, "old marks of compaction remain");
        }
        Ok(())
    }
}
