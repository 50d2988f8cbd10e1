//! The journals of coordinators: the newest file of a slot must be one that counts.

use serde::de::IgnoredAny;

use super::{Audit, Problem, Severity};
use crate::journal::{FIRST, JOURNAL_BYTES_MAX, JournalFile, Verdict};
use crate::layout::{parse_journal, parse_slot};
use crate::volume::read_file;

impl Audit<'_> {
    /// All slots of one kind of coordinator.
    pub(super) fn journals(&mut self, dir: &str) {
        for entry in self.list(dir) {
            let path = format!("{dir}/{}", entry.name);
            if parse_slot(&entry.name).is_some() {
                self.journal(&path);
            } else {
                self.found(Severity::Warning, path, Problem::UnknownName);
            }
        }
    }

    fn journal(&mut self, dir: &str) {
        let mut files = Vec::new();
        for entry in self.list(dir) {
            match parse_journal(&entry.name) {
                Some(name) => files.push((name, format!("{dir}/{}", entry.name))),
                None => {
                    let path = format!("{dir}/{}", entry.name);
                    self.found(Severity::Warning, path, Problem::UnknownName);
                }
            }
        }
        files.sort_unstable();
        let first = files.first().map(|(name, path)| (*name, path.clone()));
        while let Some((_, path)) = files.pop() {
            let bytes = match read_file(self.volume, &path, JOURNAL_BYTES_MAX) {
                // A broker beside has begun the next one.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => return,
                Err(error) => {
                    return self.found(Severity::Damage, path, Problem::Unreadable(error.to_string()));
                }
                Ok(bytes) => bytes,
            };
            match JournalFile(&bytes).read(|_: IgnoredAny| {}) {
                Verdict::Whole(end) => {
                    let bytes = (bytes.len() as u64).saturating_sub(end);
                    if bytes > 0 {
                        let why = "a write that was interrupted".to_owned();
                        self.found(Severity::Note, path, Problem::Tail { bytes, why });
                    }
                    for (_, path) in files {
                        self.found(Severity::Note, path, Problem::Leftover("a later file counts"));
                    }
                    return;
                }
                Verdict::Unfinished => {
                    self.found(Severity::Note, path, Problem::Leftover("it was never finished"));
                }
                Verdict::Damaged(position) => {
                    let why = format!("it cannot be read from byte {position} on");
                    return self.found(Severity::Damage, path, Problem::State(why));
                }
                Verdict::UnknownFormat(format) => {
                    return self.found(
                        Severity::Damage,
                        path,
                        Problem::State(format!("it has format {format}")),
                    );
                }
            }
        }
        if let Some((name, path)) = first
            && name != FIRST
        {
            self.found(Severity::Damage, path, Problem::State("the slot has no file that counts".to_owned()));
        }
    }
}
