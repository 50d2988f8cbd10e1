//! The chain of claims: which epochs a log is made of, and which bytes of them exist.
//!
//! Every epoch begins where the seal of the one before says that it ends. Bytes past a seal do not exist, whatever the
//! file shows: a deposed writer may go on for as long as it likes.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::sync::Arc;

use super::checkpoint::{self, Checkpoint};
use super::claim::{self, Claim, Seal, Standing};
use super::recover::{RecoverError, damaged};
use super::segment::Segment;
use crate::layout::{SegmentFile, SegmentName, parse_checkpoint, parse_claim};
use crate::mutant::{Mutant, Mutants};
use crate::volume::{Access, Volume};

/// Epoch of a partition that nobody has claimed.
const FIRST_EPOCH: i32 = 1;

/// The claims of a partition, followed from the newest back.
pub(crate) struct Chain {
    /// The newest epoch, and whether its claim exists already.
    pub(crate) epoch: i32,
    pub(crate) claimed: bool,
    /// The highest epoch that a claim file was seen for.
    pub(crate) epoch_seen: i32,
    /// First offset of every epoch.
    pub(crate) starts: BTreeMap<i32, i64>,
    /// The end of every epoch but the newest.
    pub(crate) seals: BTreeMap<i32, Seal>,
}

/// All epochs that a claim file is seen for, ascending.
pub(crate) fn claimed_epochs(names: &[String]) -> Vec<i32> {
    let mut epochs: Vec<i32> = names.iter().filter_map(|name| parse_claim(name)).collect();
    epochs.sort_unstable();
    epochs
}

impl Chain {
    /// The chain as a broker finds it that has the volume to itself: what was not completed never will be.
    pub(crate) fn load(volume: &dyn Volume, dir: &str, names: &[String]) -> Result<Self, RecoverError> {
        let epochs = claimed_epochs(names);
        let epoch_seen = epochs.last().copied().unwrap_or(0);
        for epoch in epochs.into_iter().rev() {
            match claim::standing(volume, dir, epoch)? {
                Standing::Counts(claim, prev) => return Self::follow(volume, dir, epoch_seen, &claim, prev),
                // A claim is synced before anything is written under it: a torn one was never used.
                Standing::Torn(error) => tracing::warn!(%error, "claim skipped"),
                Standing::Undecided(..) | Standing::Void => {
                    tracing::info!(dir, epoch, "takeover that was not completed skipped");
                }
                Standing::Missing => {}
            }
        }
        Ok(Self::empty(epoch_seen))
    }

    /// The chain of a log that nothing was ever written to.
    pub(crate) fn empty(epoch_seen: i32) -> Self {
        let epoch = epoch_seen.max(FIRST_EPOCH - 1) + 1;
        let starts = BTreeMap::from([(epoch, 0)]);
        Self { epoch, claimed: false, epoch_seen, starts, seals: BTreeMap::new() }
    }

    /// The chain that ends with `newest`, which begins where `prev` says.
    pub(crate) fn follow(
        volume: &dyn Volume,
        dir: &str,
        epoch_seen: i32,
        newest: &Claim,
        mut prev: Option<Seal>,
    ) -> Result<Self, RecoverError> {
        let mut chain = Self {
            epoch: newest.epoch,
            claimed: true,
            epoch_seen,
            starts: BTreeMap::new(),
            seals: BTreeMap::new(),
        };
        let mut epoch = newest.epoch;
        let mut limit = i64::MAX;
        while let Some(seal) = prev {
            if seal.epoch >= epoch || seal.offset > limit || seal.base_offset > seal.offset {
                return Err(damaged(format!("the seal of epoch {} does not fit: {seal:?}", seal.epoch)));
            }
            chain.starts.insert(epoch, seal.offset);
            chain.seals.insert(seal.epoch, seal);
            (epoch, limit) = (seal.epoch, seal.offset);
            prev = match claim::standing(volume, dir, epoch)? {
                Standing::Counts(_, prev) => prev,
                Standing::Torn(error) => return Err(damaged(error.to_string())),
                other => return Err(damaged(format!("the claim of epoch {epoch} is missing: {other:?}"))),
            };
        }
        chain.starts.insert(epoch, 0);
        Ok(chain)
    }

    /// The segments that exist by the chain's word, in order; the last of a sealed epoch has its length.
    pub(crate) fn visible(
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
            let cut = name.cleaned.is_none() && !mutants.has(Mutant::NoSeal);
            let len = match self.seals.get(&name.epoch).filter(|_| cut) {
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

    /// Holds the end of every sealed epoch against what its seal says of it.
    pub(crate) fn verify_seals(
        &self,
        volume: &dyn Volume,
        segments: &[Arc<Segment>],
    ) -> Result<(), RecoverError> {
        for segment in segments {
            let name = segment.name();
            let Some(seal) = self.seals.get(&name.epoch) else { continue };
            let (Some(end), true) = (segment.visible(), seal.base_offset == name.base_offset) else {
                continue;
            };
            let path = segment.path(SegmentFile::Log);
            let file = volume.open(&path, Access::Read)?;
            let len = file.byte_len()?;
            if len < end {
                return Err(damaged(format!("{path} has {len} bytes, less than its seal says")));
            }
            if let Some(sealed) = seal.crc
                && claim::tail_crc(&*file, end)? != sealed
            {
                return Err(damaged(format!("{path} does not end at byte {end} as its seal says")));
            }
        }
        Ok(())
    }

    /// The newest checkpoint that can be trusted: a deposed writer may have written one that covers bytes past its seal.
    pub(crate) fn checkpoint(
        &self,
        volume: &dyn Volume,
        dir: &str,
        names: &[String],
    ) -> Result<Option<Checkpoint>, RecoverError> {
        let mut epochs: Vec<i32> = names.iter().filter_map(|name| parse_checkpoint(name)).collect();
        epochs.sort_unstable();
        for epoch in epochs.into_iter().rev().filter(|epoch| self.starts.contains_key(epoch)) {
            let Some(found) = checkpoint::load(volume, dir, epoch)? else { continue };
            if self.covers_checkpoint(&found) {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Whether a checkpoint speaks of bytes that exist.
    pub(crate) fn covers_checkpoint(&self, checkpoint: &Checkpoint) -> bool {
        let Checkpoint { epoch, base_offset, position, offset, .. } = checkpoint;
        self.starts.contains_key(epoch)
            && self.seals.get(epoch).is_none_or(|seal| {
                *offset <= seal.offset
                    && (*base_offset < seal.base_offset
                        || (*base_offset == seal.base_offset && *position <= seal.position))
            })
    }

    /// The epoch that the record at `offset` is of, by the chain's word.
    pub(crate) fn epoch_at(&self, offset: i64) -> Option<i32> {
        self.starts.iter().rev().find(|(_, start)| **start <= offset).map(|(epoch, _)| *epoch)
    }

    /// Whether a snapshot that `epoch` wrote as of `offset` speaks of batches that exist.
    pub(crate) fn covers(&self, epoch: i32, offset: i64) -> bool {
        self.starts.contains_key(&epoch) && self.seals.get(&epoch).is_none_or(|seal| offset <= seal.offset)
    }
}

/// The names in a partition's directory; none when it does not exist.
pub(crate) fn names_in(volume: &dyn Volume, dir: &str) -> std::io::Result<Vec<String>> {
    match volume.list(dir) {
        Ok(entries) => Ok(entries.into_iter().map(|entry| entry.name).collect()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}
