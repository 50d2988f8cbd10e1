//! Checkpoints and producer snapshots: how much of a log is known to be durable, so that recovery reads
//! only what lies behind. Neither ever claims more than was synced.
//!
//! Both carry the epoch of their writer in their names: what a deposed writer leaves behind its seal is not believed.

use serde::{Deserialize, Serialize};

use super::producers::Producers;
use crate::error::StorageError;
use crate::layout::{SegmentName, checkpoint_file, parse_checkpoint, parse_producers, producers_file};
use crate::state_file;
use crate::volume::{Volume, replace_file};

/// Producer snapshots that are kept: the newest, and one to fall back on.
const SNAPSHOTS_KEPT: usize = 2;

/// The content of a checkpoint file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Checkpoint {
    /// Epoch of the segment.
    pub(crate) epoch: i32,
    /// Base offset of the segment.
    pub(crate) base_offset: i64,
    /// Bytes of the segment that are synced.
    pub(crate) position: u64,
    /// The first offset after them.
    pub(crate) offset: i64,
    /// Whether there were producers, and so a snapshot, at `offset`.
    pub(crate) has_producers: bool,
}

impl Checkpoint {
    pub(crate) fn segment(&self) -> SegmentName {
        SegmentName::new(self.epoch, self.base_offset)
    }
}

/// The content of a snapshot's file.
#[derive(Serialize, Deserialize)]
pub(crate) struct Snapshot {
    pub(crate) offset: i64,
    pub(crate) producers: Producers,
}

/// Writes the producer snapshot (when there are producers) and then the checkpoint that relies on it.
pub(crate) fn store(
    volume: &dyn Volume,
    dir: &str,
    checkpoint: &Checkpoint,
    producers: Producers,
) -> Result<(), StorageError> {
    if checkpoint.has_producers {
        store_producers(volume, dir, (checkpoint.epoch, checkpoint.offset), producers, false)?;
    }
    // One directory sync makes both names durable; neither is relied on before recovery has checked it.
    let path = format!("{dir}/{}", checkpoint_file(checkpoint.epoch));
    replace_file(volume, &path, &state_file::encode(checkpoint)?, true)?;
    remove_old(volume, dir, checkpoint.epoch)
}

/// Writes a producer snapshot; its name is durable on return only with `sync_dir`.
pub(crate) fn store_producers(
    volume: &dyn Volume,
    dir: &str,
    (epoch, offset): (i32, i64),
    producers: Producers,
    sync_dir: bool,
) -> Result<(), StorageError> {
    let bytes = state_file::encode_compact(&Snapshot { offset, producers })?;
    Ok(replace_file(volume, &format!("{dir}/{}", producers_file(epoch, offset)), &bytes, sync_dir)?)
}

/// Removes the snapshots and checkpoints that newer ones of `epoch` or before have replaced.
fn remove_old(volume: &dyn Volume, dir: &str, epoch: i32) -> Result<(), StorageError> {
    let names = volume.list(dir)?;
    // Names of equal length sort as their epochs and offsets do.
    let snapshots =
        names.iter().filter(|entry| parse_producers(&entry.name).is_some_and(|(by, _)| by <= epoch));
    let old_snapshots = snapshots.rev().skip(SNAPSHOTS_KEPT);
    let checkpoints = names.iter().filter(|entry| parse_checkpoint(&entry.name).is_some_and(|by| by < epoch));
    for old in old_snapshots.chain(checkpoints) {
        volume.remove_file(&format!("{dir}/{}", old.name))?;
    }
    Ok(())
}

/// The checkpoint of `epoch`, if its bytes can be trusted.
pub(crate) fn load(volume: &dyn Volume, dir: &str, epoch: i32) -> Result<Option<Checkpoint>, StorageError> {
    let path = format!("{dir}/{}", checkpoint_file(epoch));
    match state_file::load::<Checkpoint>(volume, &path)? {
        None => Ok(None),
        Some(Ok(checkpoint)) => Ok(Some(checkpoint).filter(|checkpoint| checkpoint.epoch == epoch)),
        Some(Err(error)) => {
            tracing::warn!(%error, "checkpoint ignored: the whole segment will be read");
            Ok(None)
        }
    }
}

/// The producers as of `offset` by the word of `epoch`, if their snapshot can be trusted.
pub(crate) fn load_producers(
    volume: &dyn Volume,
    dir: &str,
    epoch: i32,
    offset: i64,
) -> Result<Option<Producers>, StorageError> {
    match state_file::load::<Snapshot>(volume, &format!("{dir}/{}", producers_file(epoch, offset)))? {
        Some(Ok(snapshot)) if snapshot.offset == offset => Ok(Some(snapshot.producers)),
        None | Some(Ok(_)) => Ok(None),
        Some(Err(error)) => {
            tracing::warn!(%error, "producer snapshot ignored: it will be rebuilt from the log");
            Ok(None)
        }
    }
}
