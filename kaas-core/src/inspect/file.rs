//! Any file of the format, by its name: what is in it, once its checksum has been found right.

use std::path::Path;

use serde_json::Value;
use uuid::Uuid;

use super::{Batches, InspectError, batches};
use crate::engine::fence::content;
use crate::journal::{JOURNAL_BYTES_MAX, read_line};
use crate::layout::{
    CLEANING_SUFFIX, DELETED_SUFFIX, PartitionFile, SegmentFile, TMP_SUFFIX, VOLUME_FILE, parse_fence,
    parse_journal, parse_producer_ids, parse_topic_stem,
};
use crate::log::AbortedTxn;
use crate::log::index::{StoredIndex, read_index, read_times};
use crate::log::segment::INDEX_FILE_BYTES_MAX;
use crate::log::txn_index::TxnIndex;
use crate::state_file::{self, STATE_FILE_BYTES_MAX};
use crate::volume::{OsVolume, read_file};

/// What a file is and holds.
#[derive(Debug)]
#[non_exhaustive]
pub enum Inspected {
    /// A segment: batches, read one by one.
    Segment(Batches),
    /// An offset index.
    Index {
        /// Bytes of the log that it knows.
        covered: u64,
        /// The offset behind them.
        next_offset: i64,
        /// The greatest timestamp in them, or -1.
        max_timestamp: i64,
        /// Offsets, counted from the segment's first, and positions.
        entries: Vec<(u32, u32)>,
    },
    /// A time index: the greatest timestamp before each entry of the offset index.
    TimeIndex(Vec<i64>),
    /// A transaction index.
    TxnIndex {
        /// Bytes of the log that it knows.
        covered: u64,
        /// The offset behind them.
        next_offset: i64,
        /// Producer and first offset of the transactions that are open there.
        open: Vec<(i64, i64)>,
        /// The aborted ones, in the order of their markers.
        aborted: Vec<AbortedTxn>,
    },
    /// A state file: what kind, and its content without the checksum.
    State(&'static str, Value),
    /// A fence.
    Fence {
        /// Whose.
        broker_id: i32,
        /// Which of its lives.
        incarnation: Uuid,
        /// Whether it may acknowledge; `None` when the file is torn, which counts as revoked.
        stands: Option<bool>,
    },
    /// A mark, which is its name: what kind, and the offset.
    Mark(&'static str, i64),
    /// A coordinator's journal.
    Journal {
        /// Its lines that can be read, without their checksums; the first is the header.
        lines: Vec<Value>,
        /// Bytes behind them, which end a write that was interrupted, or are damaged: an audit knows.
        unread: u64,
    },
}

/// Reads a file of a volume, or one that was copied out of it under its own name. A `.log` of any name is a segment.
///
/// # Errors
/// [`InspectError`].
pub fn inspect(path: impl AsRef<Path>) -> Result<Inspected, InspectError> {
    let path = path.as_ref();
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let suffixes = [DELETED_SUFFIX, CLEANING_SUFFIX, TMP_SUFFIX];
    let bare = suffixes.iter().find_map(|suffix| name.strip_suffix(suffix)).unwrap_or(name);
    if bare.ends_with(".log") {
        return Ok(Inspected::Segment(batches(path).map_err(storage)?));
    }
    if parse_journal(bare).is_some() {
        return Ok(journal(&bytes(path, name, JOURNAL_BYTES_MAX)?));
    }
    if let Some((broker_id, incarnation)) = parse_fence(bare) {
        let found = bytes(path, name, STATE_FILE_BYTES_MAX)?;
        let is = |revoked| content(broker_id, incarnation, revoked).is_ok_and(|right| right == found);
        let stands = if is(false) { Some(true) } else { is(true).then_some(false) };
        return Ok(Inspected::Fence { broker_id, incarnation, stands });
    }
    let kind = match PartitionFile::parse(bare) {
        Some(PartitionFile::Start(offset)) => return mark(path, "the log begins at", offset),
        Some(PartitionFile::Clean(offset)) => return mark(path, "the log is compacted below", offset),
        Some(PartitionFile::Segment(_, kind)) => return index(path, name, kind),
        Some(PartitionFile::Claim(_)) => "claim",
        Some(PartitionFile::Seal(_)) => "seal",
        Some(PartitionFile::Resigned(_)) => "resignation",
        Some(PartitionFile::Checkpoint(_)) => "checkpoint",
        Some(PartitionFile::Producers(..)) => "producers",
        Some(PartitionFile::Leftover) | None => control(bare)?,
    };
    let value: Value = state_file::decode(name, &bytes(path, name, STATE_FILE_BYTES_MAX)?)?;
    Ok(Inspected::State(kind, value))
}

/// What a file of the control state is.
fn control(name: &str) -> Result<&'static str, InspectError> {
    let stem = name.strip_suffix(".json").unwrap_or_default();
    match name {
        VOLUME_FILE => Ok("volume"),
        "cluster.json" => Ok("cluster"),
        _ if parse_producer_ids(name).is_some() => Ok("producer ids"),
        _ if parse_topic_stem(stem).is_some() => Ok("topic"),
        _ => Err(InspectError::NotRecognised(name.to_owned())),
    }
}

fn journal(mut bytes: &[u8]) -> Inspected {
    let mut lines = Vec::new();
    while let Some(end) = bytes.iter().position(|byte| *byte == b'\n')
        && let Some(line) = read_line::<Value>(&bytes[..end])
    {
        lines.push(without_checksum(line));
        bytes = &bytes[end + 1..];
    }
    Inspected::Journal { lines, unread: bytes.len() as u64 }
}

fn without_checksum(mut line: Value) -> Value {
    if let Some(members) = line.as_object_mut() {
        members.remove("crc32c");
    }
    line
}

fn index(path: &Path, name: &str, kind: SegmentFile) -> Result<Inspected, InspectError> {
    let file = bytes(path, name, INDEX_FILE_BYTES_MAX)?;
    let inspected = match kind {
        SegmentFile::Log => None,
        SegmentFile::Index => read_index(&file, false).map(|index| {
            let StoredIndex { covered, next_offset, max_timestamp, entries } = index;
            Inspected::Index { covered, next_offset, max_timestamp, entries }
        }),
        SegmentFile::TimeIndex => read_times(&file, false).map(Inspected::TimeIndex),
        SegmentFile::TxnIndex => TxnIndex::decode(u64::MAX, &file, false).map(|index| Inspected::TxnIndex {
            covered: index.covered(),
            next_offset: index.next_offset(),
            open: index.open().collect(),
            aborted: index.aborted().to_vec(),
        }),
    };
    inspected.ok_or(InspectError::Index)
}

fn mark(path: &Path, what: &'static str, offset: i64) -> Result<Inspected, InspectError> {
    std::fs::metadata(path).map_err(storage)?;
    Ok(Inspected::Mark(what, offset))
}

fn bytes(path: &Path, name: &str, bytes_max: u64) -> Result<Vec<u8>, InspectError> {
    // The file must exist: a volume would otherwise be created around a misspelt path.
    std::fs::metadata(path).map_err(storage)?;
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    read_file(&OsVolume::at(dir).map_err(storage)?, name, bytes_max).map_err(storage)
}

fn storage(error: std::io::Error) -> InspectError {
    InspectError::Storage(error.into())
}
