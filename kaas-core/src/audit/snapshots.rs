//! Checkpoints and producer snapshots, held against the log as the audit walks over it.

use super::partition::PartitionAudit;
use super::{Problem, Severity};
use crate::layout::{SegmentName, checkpoint_file, parse_checkpoint, parse_producers, producers_file};
use crate::log::chain::Chain;
use crate::log::checkpoint::{Checkpoint, Snapshot};
use crate::log::producers::{Expiry, Producers};
use crate::record::{BatchHeader, EndTxnMarker};

/// Everything stored that speaks of a place in the log which has not been reached yet.
pub(super) struct Stored {
    checkpoints: Vec<Checkpoint>,
    /// Epoch and offset of the snapshots, by offset.
    snapshots: Vec<(i32, i64)>,
    /// The producers, rebuilt up to here.
    producers: Producers,
    /// Where the rebuilding began, and below which offset compaction has left gaps.
    start: i64,
    compacted_below: i64,
    /// Batches are missing: nothing can be rebuilt any more.
    lost: bool,
}

impl Stored {
    /// Reads the checkpoints; before the log, which then has at least what they speak of.
    pub(super) fn load(audit: &mut PartitionAudit<'_>, chain: Option<&Chain>) -> Self {
        let mut checkpoints = Vec::new();
        for epoch in audit.names.clone().iter().filter_map(|name| parse_checkpoint(name)) {
            let path = audit.path(&checkpoint_file(epoch));
            match super::load_state::<Checkpoint>(audit.volume, &path) {
                None => {}
                Some(Err(problem)) => audit.found(Severity::Warning, path, problem),
                Some(Ok(found)) if found.epoch != epoch => {
                    let why = format!("it speaks of epoch {}", found.epoch);
                    audit.found(Severity::Warning, path, Problem::Contradiction(why));
                }
                Some(Ok(found)) if chain.is_some_and(|chain| chain.covers_checkpoint(&found)) => {
                    checkpoints.push(found);
                }
                Some(Ok(_)) => audit.found(Severity::Note, path, NOT_OF_THE_CHAIN),
            }
        }
        let mut snapshots: Vec<(i32, i64)> =
            audit.names.iter().filter_map(|name| parse_producers(name)).collect();
        snapshots.sort_unstable_by_key(|(epoch, offset)| (*offset, *epoch));
        let (producers, start, compacted_below) = (Producers::default(), 0, 0);
        let mut stored =
            Self { checkpoints, snapshots, producers, start, compacted_below, lost: chain.is_none() };
        stored.snapshots.retain(|(epoch, offset)| {
            let believed = chain.is_none_or(|chain| chain.covers(*epoch, *offset));
            if !believed {
                let path = audit.path(&producers_file(*epoch, *offset));
                audit.found(Severity::Note, path, NOT_OF_THE_CHAIN);
            }
            believed
        });
        stored
    }

    /// Up to where a segment is known to be synced.
    pub(super) fn checkpointed(&self, segment: SegmentName) -> u64 {
        let of_it = self.checkpoints.iter().filter(|checkpoint| checkpoint.segment() == segment);
        of_it.map(|checkpoint| checkpoint.position).max().unwrap_or(0)
    }

    /// The log begins at `offset`: of what lies below nothing can be said.
    pub(super) fn begin(&mut self, audit: &mut PartitionAudit<'_>, offset: i64) {
        (self.start, self.compacted_below) = (offset, offset);
        let older = self.snapshots.partition_point(|(_, at)| *at < offset);
        for (epoch, at) in self.snapshots.drain(..older).collect::<Vec<_>>() {
            load(audit, epoch, at);
        }
    }

    /// What comes next, from `base` to `end`, was compacted: there is not a batch at every offset, and not every record.
    pub(super) fn compacted(&mut self, audit: &mut PartitionAudit<'_>, (base, end): (i64, i64)) {
        self.reach(audit, base);
        self.compacted_below = self.compacted_below.max(end);
    }

    /// Batches are missing or damaged: what follows from all of them cannot be told any more.
    pub(super) fn lose(&mut self) {
        self.lost = true;
    }

    /// The batch at `position` of a segment comes next.
    pub(super) fn batch(
        &mut self,
        audit: &mut PartitionAudit<'_>,
        (segment, position): (SegmentName, u64),
        header: &BatchHeader,
        marker: Option<&EndTxnMarker>,
    ) {
        self.boundary(audit, (segment, position), header.base_offset);
        self.reach(audit, header.base_offset);
        self.producers.append(header, marker, Expiry::never(0));
        self.producers.published(header.next_offset());
    }

    /// A batch ends, or the segment begins, at `position`, and `offset` comes next.
    pub(super) fn boundary(&mut self, audit: &mut PartitionAudit<'_>, at: (SegmentName, u64), offset: i64) {
        let here = |checkpoint: &mut Checkpoint| (checkpoint.segment(), checkpoint.position) == at;
        for checkpoint in self.checkpoints.extract_if(.., here).collect::<Vec<_>>() {
            let path = audit.path(&checkpoint_file(checkpoint.epoch));
            if checkpoint.offset != offset && !self.lost {
                let why = format!("at byte {} comes offset {offset}, not {}", at.1, checkpoint.offset);
                audit.found(Severity::Damage, &*path, Problem::Checkpoint(why));
            }
            let snapshot = producers_file(checkpoint.epoch, checkpoint.offset);
            if checkpoint.has_producers && !audit.names.contains(&snapshot) {
                audit.found(Severity::Warning, audit.path(&snapshot), Problem::Missing);
            } else if !checkpoint.has_producers && !self.lost {
                self.compare(audit, &path, &Producers::default());
            }
        }
    }

    /// The segment ends: what was said of a place in it that is no boundary is wrong.
    pub(super) fn end_of(&mut self, audit: &mut PartitionAudit<'_>, segment: SegmentName) {
        for checkpoint in self.checkpoints.extract_if(.., |checkpoint| checkpoint.segment() == segment) {
            let path = audit.path(&checkpoint_file(checkpoint.epoch));
            let why = format!("no batch ends at byte {} of {segment:?}", checkpoint.position);
            audit.found(Severity::Damage, path, Problem::Checkpoint(why));
        }
    }

    /// The log ends at `log_end`; `covered` says whether a compacted segment stands for an offset.
    pub(super) fn finish(
        &mut self,
        audit: &mut PartitionAudit<'_>,
        (marked, log_end): (i64, i64),
        covered: impl Fn(i64) -> bool,
    ) {
        self.reach(audit, log_end);
        for checkpoint in std::mem::take(&mut self.checkpoints) {
            if checkpoint.offset > marked && !covered(checkpoint.offset) {
                let path = audit.path(&checkpoint_file(checkpoint.epoch));
                let why = format!("{:?}, of which it speaks, is missing", checkpoint.segment());
                audit.found(Severity::Damage, path, Problem::Checkpoint(why));
            }
        }
        for (epoch, offset) in std::mem::take(&mut self.snapshots) {
            if load(audit, epoch, offset).is_some() && !self.lost {
                let path = audit.path(&producers_file(epoch, offset));
                let why = format!("it is as of offset {offset}, and the log ends at {log_end}");
                audit.found(Severity::Warning, path, Problem::Producers(why));
            }
        }
    }

    /// Compares the snapshots as of what has been rebuilt, with `offset` coming next.
    fn reach(&mut self, audit: &mut PartitionAudit<'_>, offset: i64) {
        let reached = self.snapshots.partition_point(|(_, at)| *at <= offset);
        for (epoch, at) in self.snapshots.drain(..reached).collect::<Vec<_>>() {
            let Some(stored) = load(audit, epoch, at).filter(|_| !self.lost) else { continue };
            let path = audit.path(&producers_file(epoch, at));
            if at == offset || at <= self.compacted_below {
                self.compare(audit, &path, &stored);
            } else {
                let why = format!("it is as of offset {at}, which is inside of a batch");
                audit.found(Severity::Damage, path, Problem::Producers(why));
            }
        }
    }

    fn compare(&self, audit: &mut PartitionAudit<'_>, path: &str, stored: &Producers) {
        if let Some((id, why)) = stored.contradiction(&self.producers, self.start, self.compacted_below) {
            let why = format!("producer {id} is not what the log gives: {why}");
            audit.found(Severity::Damage, path, Problem::Producers(why));
        }
    }
}

/// A snapshot that can be trusted.
fn load(audit: &mut PartitionAudit<'_>, epoch: i32, offset: i64) -> Option<Producers> {
    let path = audit.path(&producers_file(epoch, offset));
    match super::load_state::<Snapshot>(audit.volume, &path)? {
        Ok(snapshot) if snapshot.offset == offset => return Some(snapshot.producers),
        Ok(snapshot) => {
            let why = format!("it is as of offset {}", snapshot.offset);
            audit.found(Severity::Warning, path, Problem::Contradiction(why));
        }
        // There is another, or it is rebuilt.
        Err(problem) => audit.found(Severity::Warning, path, problem),
    }
    None
}

const NOT_OF_THE_CHAIN: Problem =
    Problem::Leftover("of an epoch that does not count, or from behind its seal");
