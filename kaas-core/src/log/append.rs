//! What an append is made of: its options and result, the wait for its commit, and the group it is written in.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::sync::oneshot;

use super::producers::Undo;
use super::segment::Segment;
use super::verification::TxnProof;
use crate::error::AppendError;
use crate::record::{BATCH_OVERHEAD, BatchHeader, EndTxnMarker};

/// Who appends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Origin {
    /// A client's produce request.
    #[default]
    Client,
    /// A transaction coordinator, which appends [end-transaction markers](crate::record::EndTxnMarker) and nothing
    /// else.
    Coordinator,
}

/// How to append.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AppendOptions {
    /// Who appends.
    pub origin: Origin,
    /// Whether message sets of magic 0 and 1 are taken, and converted to a record batch. That is work for the caller's
    /// thread, as is recompression.
    pub old_formats: bool,
    /// Whether a client's transactional batch may begin a transaction here. Without it the engine refuses all but
    /// those that go on with an open one.
    pub transaction: TxnProof,
}

/// Where a batch went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    /// Offset of its first record.
    pub base_offset: i64,
    /// Offset of its last record.
    pub last_offset: i64,
    /// The broker's time in its header, or -1 when the topic keeps the producer's timestamps.
    pub log_append_time_ms: i64,
    /// First offset of the log.
    pub log_start_offset: i64,
    /// The batch had been appended before; the offsets are the original's.
    pub duplicate: bool,
}

/// The offsets that bound a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offsets {
    /// First offset.
    pub log_start: i64,
    /// Every transaction below is decided.
    pub last_stable: i64,
    /// Everything below is acknowledged and visible.
    pub high_watermark: i64,
    /// The next offset to be given out.
    pub log_end: i64,
}

/// An append whose place is fixed and whose commit is under way.
#[derive(Debug)]
pub struct PendingAppend {
    pub(super) outcome: oneshot::Receiver<Result<Appended, AppendError>>,
    pub(super) stored_bytes: usize,
}

impl PendingAppend {
    /// Bytes that the batch has in the log, and in memory until it is written. More than came when it was decompressed.
    pub fn stored_bytes(&self) -> usize {
        self.stored_bytes
    }

    /// Blocks until the append is committed. Not for use inside an async runtime.
    ///
    /// # Errors
    /// As the future.
    pub fn wait(self) -> Result<Appended, AppendError> {
        self.outcome.blocking_recv().unwrap_or(Err(AppendError::Closed))
    }
}

impl Future for PendingAppend {
    type Output = Result<Appended, AppendError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.outcome).poll(context).map(|result| result.unwrap_or(Err(AppendError::Closed)))
    }
}

pub(super) type Waiter = oneshot::Sender<Result<Appended, AppendError>>;

/// A batch with its offset, not yet committed.
#[derive(Debug)]
pub(crate) struct PendingBatch {
    pub(crate) header: BatchHeader,
    pub(crate) head_bytes: [u8; BATCH_OVERHEAD],
    pub(crate) body: Bytes,
    pub(super) marker: Option<EndTxnMarker>,
    pub(super) undo: Option<Undo>,
    pub(super) waiter: Waiter,
    pub(super) result: Appended,
}

/// The batches of one write, in one segment.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) batches: Vec<PendingBatch>,
    pub(crate) segment: Arc<Segment>,
    pub(crate) start_position: u64,
    pub(crate) end_position: u64,
    pub(crate) end_offset: i64,
}

impl Group {
    pub(crate) fn new(batches: Vec<PendingBatch>, segment: Arc<Segment>, start_position: u64) -> Self {
        let bytes: u64 = batches.iter().map(|batch| batch.header.size as u64).sum();
        let end_offset = batches.last().map_or(0, |batch| batch.header.next_offset());
        Self { batches, segment, start_position, end_position: start_position + bytes, end_offset }
    }

    pub(crate) fn records(&self) -> u64 {
        self.batches.iter().map(|batch| batch.header.record_count.unsigned_abs() as u64).sum()
    }

    /// The first offset of the group: the high watermark while the group is under way.
    pub(crate) fn start_offset(&self) -> i64 {
        self.batches.first().map_or(self.end_offset, |batch| batch.header.base_offset)
    }
}
