//! Leaf errors and one enum per operation.
//!
//! Three kinds, said on each variant: the caller's fault (a retry fails again), wait and retry, and
//! a partition that is out of service until someone acts.

use std::io;
use std::sync::Arc;

use crate::ids::InvalidTopicName;
use crate::state_file::DamagedState;

/// An I/O error that can be handed to many waiters.
#[derive(Debug, Clone, thiserror::Error)]
#[error("storage: {0}")]
pub struct StorageError(#[source] pub Arc<io::Error>);

impl From<io::Error> for StorageError {
    fn from(error: io::Error) -> Self {
        Self(Arc::new(error))
    }
}

/// A batch whose framing or checksum is wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("corrupt record batch: {why}")]
pub struct CorruptBatch {
    /// What is wrong.
    pub why: String,
}

/// A batch or record that contradicts itself or the topic's rules.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct InvalidRecord {
    /// For the client.
    pub message: String,
    /// The records at fault: index in the batch, and why.
    pub record_errors: Vec<(i32, String)>,
}

/// Records whose timestamps the topic does not allow.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct InvalidTimestamp {
    /// For the client.
    pub message: String,
    /// The records at fault: index in the batch, and why.
    pub record_errors: Vec<(i32, String)>,
}

/// A batch larger than `max.message.bytes`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the record batch has {size} bytes, more than the maximum of {limit}")]
pub struct MessageTooLarge {
    /// Bytes of the batch as it came; of one that was being converted or recompressed, a lower bound.
    pub size: usize,
    /// The topic's limit.
    pub limit: u32,
}

/// A batch larger than a segment.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the record batch has {size} bytes, more than a segment of {segment_bytes}")]
pub struct RecordListTooLarge {
    /// Bytes of the batch as it would be stored.
    pub size: usize,
    /// The topic's `segment.bytes`.
    pub segment_bytes: u32,
}

/// A sequence number that does not follow the last one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("producer {producer_id}: sequence {received} does not follow {last}")]
pub struct OutOfOrderSequence {
    /// The producer.
    pub producer_id: i64,
    /// The batch's first sequence number.
    pub received: i32,
    /// The last sequence number that was appended, or -1 in a new epoch.
    pub last: i32,
}

/// A batch of a producer epoch that a newer one has replaced.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("producer {producer_id}: epoch {received} is older than {current}")]
pub struct InvalidProducerEpoch {
    /// The producer.
    pub producer_id: i64,
    /// The batch's epoch.
    pub received: i16,
    /// The epoch that is known.
    pub current: i16,
}

/// A marker of a coordinator that a newer one has replaced.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("producer {producer_id}: coordinator epoch {received} is older than {current}")]
pub struct CoordinatorFenced {
    /// The producer.
    pub producer_id: i64,
    /// The marker's coordinator epoch.
    pub received: i32,
    /// The epoch that is known.
    pub current: i32,
}

/// A partition that is out of service until a restart or a repair.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the partition is offline: {why}")]
pub struct Offline {
    /// What took it out of service.
    pub why: Arc<str>,
}

/// Why a batch was not appended. A failed append had no effect, except after [`Storage`](Self::Storage)
/// from the commit itself, where the effect is unknown.
#[derive(Debug, Clone, thiserror::Error)]
pub enum AppendError {
    /// Caller's fault: framing or checksum.
    #[error(transparent)]
    CorruptBatch(#[from] CorruptBatch),
    /// Caller's fault: the batch contradicts itself or the topic's rules.
    #[error(transparent)]
    InvalidRecord(#[from] InvalidRecord),
    /// Caller's fault: timestamps.
    #[error(transparent)]
    InvalidTimestamp(#[from] InvalidTimestamp),
    /// Caller's fault: larger than `max.message.bytes`.
    #[error(transparent)]
    MessageTooLarge(#[from] MessageTooLarge),
    /// Caller's fault: larger than `segment.bytes`.
    #[error(transparent)]
    RecordListTooLarge(#[from] RecordListTooLarge),
    /// Caller's fault: a codec that does not exist.
    #[error("compression codec {codec} is not known")]
    UnsupportedCompression {
        /// The codec bits.
        codec: u8,
    },
    /// Caller's fault: a message set of magic 0 or 1, which must be converted first.
    #[error("magic {magic} must be converted before it is appended")]
    UnsupportedMagic {
        /// The magic byte.
        magic: u8,
    },
    /// Caller's fault: a transactional batch of a transaction that this partition is not known to be part of, or
    /// one that is not transactional while its producer has an open transaction here.
    #[error("the batch does not belong to the producer's transaction on this partition")]
    InvalidTransactionState,
    /// Caller's fault: idempotence.
    #[error(transparent)]
    OutOfOrderSequence(#[from] OutOfOrderSequence),
    /// Caller's fault: idempotence.
    #[error(transparent)]
    InvalidProducerEpoch(#[from] InvalidProducerEpoch),
    /// Caller's fault: a coordinator that is not the coordinator any more.
    #[error(transparent)]
    CoordinatorFenced(#[from] CoordinatorFenced),
    /// Wait and retry: the disk is full or failed.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// Wait and retry elsewhere: another broker owns what this one led.
    #[error("this broker has been fenced")]
    Fenced,
    /// Retry elsewhere: this broker does not lead the partition.
    #[error("this broker does not lead the partition")]
    NotLeader,
    /// Out of service.
    #[error(transparent)]
    Offline(#[from] Offline),
    /// The topic is gone.
    #[error("the topic was deleted")]
    Deleted,
    /// The engine is closing or gone.
    #[error("the engine is closed")]
    Closed,
}

/// Why this broker does not lead a partition, or does not any more.
#[derive(Debug, Clone, thiserror::Error)]
pub enum LeadError {
    /// Caller's fault: the engine has the volume to itself, and leads everything.
    #[error("the engine does not share its volume")]
    NotShared,
    /// The epoch, or one above it, is taken or in doubt. Nothing else has changed: claim a higher one if this broker
    /// is still meant to lead.
    #[error("epoch {epoch} is lost")]
    Lost {
        /// The epoch that was to be claimed.
        epoch: i32,
    },
    /// Who led before may still acknowledge: revoke its fence first.
    #[error("broker {broker_id}, incarnation {incarnation}, has not been fenced")]
    NotRevoked {
        /// The broker.
        broker_id: i32,
        /// Its incarnation.
        incarnation: uuid::Uuid,
    },
    /// Another thread is at it.
    #[error("the partition is being taken over or given up already")]
    Busy,
    /// This broker does not lead the partition.
    #[error("this broker does not lead the partition")]
    NotLeader,
    /// This broker has been fenced, for good: it must start anew.
    #[error("this broker has been fenced")]
    Fenced,
    /// Wait and retry.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// What is on the volume contradicts itself. Nothing was changed, but for a claim that does not count.
    #[error(transparent)]
    Offline(#[from] Offline),
    /// The topic is gone.
    #[error("the topic was deleted")]
    Deleted,
    /// The engine is closing or gone.
    #[error("the engine is closed")]
    Closed,
}

impl From<io::Error> for LeadError {
    fn from(error: io::Error) -> Self {
        Self::Storage(error.into())
    }
}

/// An offset outside the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("offset {requested} is outside of {log_start}..={log_end}")]
pub struct OffsetOutOfRange {
    /// What was asked for.
    pub requested: i64,
    /// First offset.
    pub log_start: i64,
    /// The offset after the last.
    pub log_end: i64,
}

/// Why nothing could be read.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ReadError {
    /// Caller's fault.
    #[error(transparent)]
    OffsetOutOfRange(#[from] OffsetOutOfRange),
    /// Wait and retry: the read failed.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The stored bytes are damaged at this place.
    #[error("{segment} at byte {position}: {why}")]
    Damaged {
        /// The segment's path on the volume.
        segment: String,
        /// Where in it.
        position: u64,
        /// What is wrong.
        why: String,
    },
    /// Retry elsewhere: another broker owns what this one led.
    #[error("this broker has been fenced")]
    Fenced,
    /// Retry elsewhere: this broker does not lead the partition.
    #[error("this broker does not lead the partition")]
    NotLeader,
    /// Out of service.
    #[error(transparent)]
    Offline(#[from] Offline),
    /// The topic is gone.
    #[error("the topic was deleted")]
    Deleted,
}

/// Why records were not deleted. After [`Storage`](Self::Storage) and [`Fenced`](Self::Fenced) they may be gone all
/// the same after the next open.
#[derive(Debug, Clone, thiserror::Error)]
pub enum DeleteRecordsError {
    /// Caller's fault: an offset above the high watermark, or negative.
    #[error(transparent)]
    OffsetOutOfRange(#[from] OffsetOutOfRange),
    /// Caller's fault: `cleanup.policy` does not contain `delete`.
    #[error("the topic's cleanup.policy does not allow records to be deleted")]
    Policy,
    /// Wait and retry: the storage failed.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// Wait and retry elsewhere: another broker owns the partition now.
    #[error("this broker has been fenced")]
    Fenced,
    /// Retry elsewhere: this broker does not lead the partition.
    #[error("this broker does not lead the partition")]
    NotLeader,
    /// Out of service.
    #[error(transparent)]
    Offline(#[from] Offline),
    /// The topic is gone.
    #[error("the topic was deleted")]
    Deleted,
    /// The engine is closing or gone.
    #[error("the engine is closed")]
    Closed,
}

/// Why the engine did not open.
#[derive(Debug, Clone, thiserror::Error)]
pub enum OpenError {
    /// The storage failed.
    #[error("{path}: {error}")]
    Storage {
        /// What was being read or written.
        path: String,
        /// How it failed.
        #[source]
        error: StorageError,
    },
    /// Control state that cannot be trusted. Nothing was changed.
    #[error(transparent)]
    Damaged(#[from] DamagedState),
    /// A volume of a format that this version does not know. Nothing was changed.
    #[error("the volume has format version {found}, this program reads {known}")]
    UnknownFormat {
        /// The version on the volume.
        found: u32,
        /// The version of this program.
        known: u32,
    },
    /// The volume says that it belongs to another cluster than the control state.
    #[error("the volume belongs to cluster {volume}, the control state to {cluster}")]
    ForeignVolume {
        /// The id in the volume's file.
        volume: String,
        /// The id in the cluster's file.
        cluster: String,
    },
    /// Two topics of one name.
    #[error("topic {name} exists twice: {first} and {second}")]
    DuplicateTopic {
        /// The name.
        name: String,
        /// One id.
        first: uuid::Uuid,
        /// The other id.
        second: uuid::Uuid,
    },
}

/// Why a topic was not created.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CreateTopicError {
    /// Caller's fault.
    #[error(transparent)]
    InvalidName(#[from] InvalidTopicName),
    /// Caller's fault: there is a topic of this name.
    #[error("topic {0} exists")]
    Exists(String),
    /// Caller's fault: no partitions, or more than [`PARTITIONS_MAX`](crate::PARTITIONS_MAX).
    #[error("{0} partitions")]
    PartitionCount(u32),
    /// Wait and retry.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The engine is closing or gone.
    #[error("the engine is closed")]
    Closed,
}

/// Why a topic was not deleted.
#[derive(Debug, Clone, thiserror::Error)]
pub enum DeleteTopicError {
    /// Caller's fault.
    #[error("topic {0} does not exist")]
    Unknown(String),
    /// Wait and retry: the topic may or may not be gone; a restart settles it.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The engine is closing or gone.
    #[error("the engine is closed")]
    Closed,
}

/// Why no producer id could be given out.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ProducerIdError {
    /// Wait and retry.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// All 2^63 of them are taken.
    #[error("there are no producer ids left")]
    Exhausted,
}

/// What went wrong while closing. What was acknowledged is safe; the next open may take longer.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CloseError {
    /// Syncing or writing a checkpoint failed.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The engine had already been closed.
    #[error("the engine is closed")]
    Closed,
}
