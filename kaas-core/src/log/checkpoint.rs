//! Checkpoints and producer snapshots: how much of a log is known to be durable, so that recovery reads
//! only what lies behind. Neither ever claims more than was synced.

use serde::{Deserialize, Serialize};

use super::producers::Producers;
use crate::error::StorageError;
use crate::layout::{CHECKPOINT_FILE, SegmentName, parse_producers, producers_file};
use crate::state_file;
use crate::volume::{Volume, replace_file};

/// Producer snapshots that are kept: the newest, and one to fall back on.
const SNAPSHOTS_KEPT: usize = 2;

/// The content of `checkpoint.json`.
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

#[derive(Serialize, Deserialize)]
struct Snapshot {
    offset: i64,
    producers: Producers,
}

/// Writes the producer snapshot (when there are producers) and then the checkpoint that relies on it.
pub(crate) fn store(
    volume: &dyn Volume,
    dir: &str,
    checkpoint: &Checkpoint,
    producers: Producers,
) -> Result<(), StorageError> {
    if checkpoint.has_producers {
        let offset = checkpoint.offset;
        let bytes = state_file::encode_compact(&Snapshot { offset, producers })?;
        replace_file(volume, &format!("{dir}/{}", producers_file(offset)), &bytes, false)?;
    }
    // One directory sync makes both names durable; neither is relied on before recovery has checked it.
    replace_file(volume, &format!("{dir}/{CHECKPOINT_FILE}"), &state_file::encode(checkpoint)?, true)?;
    remove_old_snapshots(volume, dir)
}

fn remove_old_snapshots(volume: &dyn Volume, dir: &str) -> Result<(), StorageError> {
    let names = volume.list(dir)?;
    let snapshots: Vec<_> = names.iter().filter(|entry| parse_producers(&entry.name).is_some()).collect();
    for old in snapshots.iter().rev().skip(SNAPSHOTS_KEPT) {
        volume.remove_file(&format!("{dir}/{}", old.name))?;
    }
    Ok(())
}

/// The checkpoint, if there is one that can be trusted.
pub(crate) fn load(volume: &dyn Volume, dir: &str) -> Result<Option<Checkpoint>, StorageError> {
    match state_file::load(volume, &format!("{dir}/{CHECKPOINT_FILE}"))? {
        None => Ok(None),
        Some(Ok(checkpoint)) => Ok(Some(checkpoint)),
        Some(Err(error)) => {
            tracing::warn!(%error, "checkpoint ignored: the whole segment will be read");
            Ok(None)
        }
    }
}

/// The producers as of `offset`, if their snapshot can be trusted.
pub(crate) fn load_producers(
    volume: &dyn Volume,
    dir: &str,
    offset: i64,
) -> Result<Option<Producers>, StorageError> {
    match state_file::load::<Snapshot>(volume, &format!("{dir}/{}", producers_file(offset)))? {
        Some(Ok(snapshot)) if snapshot.offset == offset => Ok(Some(snapshot.producers)),
        None | Some(Ok(_)) => Ok(None),
        Some(Err(error)) => {
            tracing::warn!(%error, "producer snapshot ignored: it will be rebuilt from the log");
            Ok(None)
        }
    }
}
