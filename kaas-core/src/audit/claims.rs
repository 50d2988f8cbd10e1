//! The claims, seals and resignations of a partition, each on its own, and the chain that they make.

use super::partition::PartitionAudit;
use super::{Problem, Severity, load_state};
use crate::layout::{PartitionFile, claim_file, seal_file};
use crate::log::chain::{Chain, claimed_epochs};
use crate::log::claim::{self, SealRecord, Standing};
use crate::volume::Access;

impl PartitionAudit<'_> {
    /// The chain of claims; `None` when they make none.
    pub(super) fn claims(&mut self) -> Option<Chain> {
        for epoch in claimed_epochs(&self.names) {
            let path = self.path(&claim_file(epoch));
            match claim::standing(self.volume, &self.dir, epoch) {
                Err(error) => self.found(Severity::Damage, path, Problem::Unreadable(error.to_string())),
                // One that nothing was written under is skipped; if something was, its segments have no claim.
                Ok(Standing::Torn(error)) => {
                    let severity = self.severity_of_torn(&path);
                    self.found(severity, path, Problem::State(error.why));
                }
                Ok(Standing::Undecided(..) | Standing::Void) => {
                    self.found(Severity::Note, path, Problem::Takeover(epoch));
                }
                Ok(Standing::Counts(..) | Standing::Missing) => {}
            }
        }
        for name in self.names.clone() {
            match PartitionFile::parse(&name) {
                Some(PartitionFile::Seal(epoch)) => self.epoch_record(&name, epoch),
                Some(PartitionFile::Resigned(epoch)) => self.epoch_record(&name, epoch),
                _ => {}
            }
        }
        match Chain::load(self.volume, &self.dir, &self.names) {
            Ok(chain) => Some(chain),
            Err(error) => {
                self.found(Severity::Damage, self.dir.to_string(), Problem::Chain(error.to_string()));
                None
            }
        }
    }

    /// One that is empty was created and not written: by a broker that died, or that is at it at this moment.
    fn severity_of_torn(&self, path: &str) -> Severity {
        let len = self.volume.open(path, Access::Read).and_then(|file| file.byte_len());
        if len.is_ok_and(|len| len == 0) { Severity::Note } else { Severity::Warning }
    }

    /// A seal or a resignation: what it says must be of the epoch in its name, whose claim must be there.
    fn epoch_record(&mut self, name: &str, epoch: i32) {
        let path = self.path(name);
        let record: SealRecord = match load_state(self.volume, &path) {
            None => return,
            Some(Ok(record)) => record,
            // A seal that its writer did not finish is as good as none.
            Some(Err(problem)) => {
                let severity =
                    if name == seal_file(epoch) { self.severity_of_torn(&path) } else { Severity::Warning };
                return self.found(severity, path, problem);
            }
        };
        if record.epoch != epoch {
            let why = format!("it speaks of epoch {}", record.epoch);
            self.found(Severity::Warning, &*path, Problem::Contradiction(why));
        }
        if !self.names.contains(&claim_file(epoch)) {
            // Nothing of an epoch is written before its claim.
            self.found(Severity::Damage, self.path(&claim_file(epoch)), Problem::Missing);
        } else if name != seal_file(epoch)
            && let Ok(Standing::Counts(claim, _) | Standing::Undecided(claim, _)) =
                claim::standing(self.volume, &self.dir, epoch)
            && claim.nonce != record.nonce
        {
            let why = "it is not by the owner of the claim".to_owned();
            self.found(Severity::Warning, path, Problem::Contradiction(why));
        }
    }
}
