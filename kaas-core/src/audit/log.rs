//! The log that a partition's segments make: which of them count, that they follow each other, and that what is stored
//! beside them agrees.

use std::sync::Arc;

use super::partition::PartitionAudit;
use super::snapshots::Stored;
use super::{Problem, Severity};
use crate::layout::{SegmentFile, SegmentName, clean_file, parse_clean, parse_start, start_file};
use crate::log::chain::Chain;
use crate::log::cover::{self, Cover};
use crate::log::marks;
use crate::log::segment::Segment;
use crate::mutant::Mutants;

/// What is carried from one segment of a log to the next.
pub(super) struct Walk<'a> {
    /// The chain of claims, if there is one that can be followed.
    pub(super) chain: Option<&'a Chain>,
    pub(super) stored: Stored,
    /// The offset that comes next, if that is known.
    pub(super) next: Option<i64>,
    /// The offset after the last batch by its own word, when that was not believed.
    pub(super) other: Option<i64>,
    /// Bytes were passed over that are no batch.
    pub(super) skipped: bool,
    /// The transactions that are open: producer and first offset.
    pub(super) open: Vec<(i64, i64)>,
    /// Where the log begins.
    pub(super) first: i64,
    /// Batches are missing or damaged: what follows from all of them cannot be told any more.
    pub(super) lost: bool,
}

impl Walk<'_> {
    pub(super) fn lose(&mut self) {
        self.lost = true;
        self.stored.lose();
    }
}

impl PartitionAudit<'_> {
    pub(super) fn log(&mut self, chain: Option<Chain>) {
        let chain = chain.as_ref();
        let stored = Stored::load(self, chain);
        let (next, other, skipped, open, first, lost) = (None, None, false, Vec::new(), 0, chain.is_none());
        let mut walk = Walk { chain, stored, next, other, skipped, open, first, lost };
        let found: Vec<SegmentName> =
            self.names.iter().filter_map(|name| SegmentName::parse_log(name)).collect();
        let live = match cover::resolve(found.clone()) {
            Ok(Cover { live, superseded }) => {
                self.leftover(&superseded, "a segment that a compacted one stands for");
                live
            }
            Err(error) => {
                self.found(Severity::Damage, self.dir.to_string(), Problem::Chain(error.to_string()));
                return self.each_alone(&mut walk, &found);
            }
        };
        let Some(chain) = chain else { return self.each_alone(&mut walk, &live) };
        match chain.visible(&self.dir, live.clone(), Mutants::default()) {
            Ok(segments) => self.chained(walk, chain, &live, segments),
            Err(error) => {
                self.found(Severity::Damage, self.dir.to_string(), Problem::Chain(error.to_string()));
                self.each_alone(&mut walk, &live);
            }
        }
    }

    /// The segments do not make a log; their batches are looked at all the same.
    fn each_alone(&mut self, walk: &mut Walk<'_>, names: &[SegmentName]) {
        walk.chain = None;
        walk.lose();
        for name in names {
            walk.next = None;
            self.segment(walk, *name, None, false);
        }
    }

    fn chained(
        &mut self,
        mut walk: Walk<'_>,
        chain: &Chain,
        live: &[SegmentName],
        mut segments: Vec<Arc<Segment>>,
    ) {
        let marked = marks::greatest(&self.names, parse_start).unwrap_or(0);
        let hidden: Vec<SegmentName> = live
            .iter()
            .filter(|name| !segments.iter().any(|segment| segment.name() == **name))
            .copied()
            .collect();
        self.leftover(&hidden, "a segment from behind the seal of its epoch");
        let dead = segments.iter().skip(1).take_while(|segment| segment.base_offset() <= marked).count();
        let dead: Vec<SegmentName> = segments.drain(..dead).map(|segment| segment.name()).collect();
        self.leftover(&dead, "a segment from below the log start");
        walk.first = segments.first().map_or(marked, |first| first.base_offset());
        if let Some(first) = segments.first() {
            // Nothing is removed before a mark says so.
            if walk.first > marked {
                self.gap(&mut walk, first.name(), marked);
            }
            walk.next = Some(walk.first);
        }
        let first = walk.first;
        walk.stored.begin(self, first);
        for (at, segment) in segments.iter().enumerate() {
            let (name, is_last) = (segment.name(), at + 1 == segments.len());
            match walk.next {
                Some(next) if next < name.base_offset => self.gap(&mut walk, name, next),
                Some(next) if next > name.base_offset => {
                    let problem = Problem::OutOfPlace { expected: next, found: name.base_offset };
                    self.found(Severity::Damage, self.path(&name.file(SegmentFile::Log)), problem);
                    walk.lose();
                }
                _ => {}
            }
            (walk.next, walk.other) = (Some(name.base_offset), None);
            let grows = is_last && name.cleaned.is_none() && name.epoch == chain.epoch;
            self.segment(&mut walk, name, segment.visible(), grows);
        }
        self.end(walk, chain, marked, live);
    }

    fn end(&mut self, mut walk: Walk<'_>, chain: &Chain, marked: i64, live: &[SegmentName]) {
        let known_end = walk.next.or_else(|| live.is_empty().then_some(marked));
        if let Some(log_end) = known_end {
            let begins = chain.starts.get(&chain.epoch).copied().unwrap_or(0);
            if begins > log_end.max(marked) {
                let problem = Problem::Gap { from: log_end, to: begins };
                self.found(Severity::Damage, self.dir.to_string(), problem);
                walk.lose();
            }
            let kinds = [
                (parse_start as fn(&str) -> Option<i64>, start_file as fn(i32, i64) -> String),
                (parse_clean, clean_file),
            ];
            for (parse, file) in kinds {
                if let Some(offset) = marks::greatest(&self.names, parse).filter(|offset| *offset > log_end)
                    && !live.is_empty()
                {
                    let path = self.path(&file(chain.epoch, offset));
                    let why = format!("it is of offset {offset}, and the log ends at {log_end}");
                    self.found(Severity::Warning, path, Problem::Mark(why));
                }
            }
        }
        let cleaned = |offset: i64| {
            let of = |name: &&SegmentName| name.cleaned.is_some_and(|cleaned| cleaned.end_offset >= offset);
            live.iter().any(|name| of(&name))
        };
        walk.stored.finish(self, (marked, known_end.unwrap_or(marked)), cleaned);
    }

    /// Offsets from `from` on to where the segment begins are in no file.
    fn gap(&mut self, walk: &mut Walk<'_>, name: SegmentName, from: i64) {
        let path = self.path(&name.file(SegmentFile::Log));
        self.found(Severity::Damage, path, Problem::Gap { from, to: name.base_offset });
        walk.lose();
    }

    fn leftover(&mut self, names: &[SegmentName], why: &'static str) {
        for name in names {
            self.found(Severity::Note, self.path(&name.file(SegmentFile::Log)), Problem::Leftover(why));
        }
    }
}
