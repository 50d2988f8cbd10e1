//! One partition: what its directory holds, told apart by name, and looked at again when it changed meanwhile.

use std::sync::Arc;

use super::{Audit, Finding, Problem, Severity, Summary};
use crate::layout::{PartitionFile, SegmentFile, SegmentName, parse_clean, parse_start};
use crate::log::chain::names_in;
use crate::log::marks;
use crate::volume::{Access, Volume};

/// How often a partition is looked at that has changed under the audit and seems wrong.
const LOOKS_MAX: usize = 3;

/// Findings of one partition that are reported one by one.
const FINDINGS_MAX: usize = 1000;

impl Audit<'_> {
    /// Audits the log in `dir`.
    pub(super) fn partition(&mut self, dir: &str) {
        self.summary.partitions += 1;
        for look in 1.. {
            let before = fingerprint(self.volume, dir);
            let mut partition = PartitionAudit::new(self.volume, dir);
            partition.run();
            let wrong = partition.findings.iter().any(|finding| finding.severity > Severity::Note);
            let changed = wrong && before != fingerprint(self.volume, dir);
            if changed && look < LOOKS_MAX {
                continue;
            }
            if changed {
                partition.found(Severity::Note, dir, Problem::Changing);
            }
            let PartitionAudit { findings, more, summary, .. } = partition;
            self.summary.segments += summary.segments;
            self.summary.batches += summary.batches;
            self.summary.bytes += summary.bytes;
            findings.into_iter().for_each(|finding| self.report(finding));
            if more.0 > 0 {
                self.found(more.1, dir, Problem::More(more.0));
            }
            return;
        }
    }
}

/// The names in a directory, and the lengths of what is written as a whole. A log that grows is no change.
fn fingerprint(volume: &dyn Volume, dir: &str) -> Vec<(String, Option<u64>)> {
    let names = names_in(volume, dir).unwrap_or_default();
    let len = |name: &String| {
        let file = volume.open(&format!("{dir}/{name}"), Access::Read).ok()?;
        SegmentName::parse_log(name).is_none().then(|| file.byte_len().ok()).flatten()
    };
    names.into_iter().map(|name| (name.clone(), len(&name))).collect()
}

/// One look at one partition.
pub(super) struct PartitionAudit<'a> {
    pub(super) volume: &'a dyn Volume,
    pub(super) dir: Arc<str>,
    pub(super) names: Vec<String>,
    pub(super) summary: Summary,
    findings: Vec<Finding>,
    /// How many there are that were not kept, and the greatest severity of those.
    more: (u64, Severity),
}

impl<'a> PartitionAudit<'a> {
    fn new(volume: &'a dyn Volume, dir: &str) -> Self {
        let (names, summary, findings) = (Vec::new(), Summary::default(), Vec::new());
        Self { volume, dir: dir.into(), names, summary, findings, more: (0, Severity::Note) }
    }

    fn run(&mut self) {
        match names_in(self.volume, &self.dir) {
            Ok(names) => self.names = names,
            Err(error) => {
                let dir = self.dir.to_string();
                return self.found(Severity::Damage, dir, Problem::Unreadable(error.to_string()));
            }
        }
        self.files();
        let chain = self.claims();
        self.marks();
        self.log(chain);
    }

    /// The path of a file in the partition's directory.
    pub(super) fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.dir)
    }

    pub(super) fn found(&mut self, severity: Severity, path: impl Into<String>, problem: Problem) {
        self.report(Finding { severity, path: path.into(), position: None, problem });
    }

    pub(super) fn found_at(&mut self, severity: Severity, path: &str, position: u64, problem: Problem) {
        self.report(Finding { severity, path: path.to_owned(), position: Some(position), problem });
    }

    fn report(&mut self, finding: Finding) {
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(finding);
        } else {
            self.more = (self.more.0 + 1, self.more.1.max(finding.severity));
        }
    }

    /// Names that are not of this format, and files that stand alone.
    fn files(&mut self) {
        for name in self.names.clone() {
            let path = self.path(&name);
            match PartitionFile::parse(&name) {
                None => self.found(Severity::Warning, path, Problem::UnknownName),
                Some(PartitionFile::Leftover) => {
                    self.found(Severity::Note, path, Problem::Leftover("set aside, or not finished"));
                }
                Some(PartitionFile::Segment(segment, kind)) if kind != SegmentFile::Log => {
                    if !self.names.contains(&segment.file(SegmentFile::Log)) {
                        self.found(Severity::Note, path, Problem::Leftover("an index without its log"));
                    }
                }
                Some(_) => {}
            }
        }
    }

    fn marks(&mut self) {
        let kinds = [
            ("a lower log start", parse_start as fn(&str) -> Option<i64>),
            ("an older mark of compaction", parse_clean),
        ];
        for (why, parse) in kinds {
            let greatest = marks::greatest(&self.names, parse);
            for name in self.names.clone() {
                if parse(&name).is_some_and(|offset| Some(offset) < greatest) {
                    self.found(Severity::Note, self.path(&name), Problem::Leftover(why));
                }
            }
        }
    }
}
