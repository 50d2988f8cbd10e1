//! One look at all partitions of a fetch: what is there, what is wrong, and whether it is enough.

use std::sync::Arc;

use kaas_core::{Isolation, Partition, Read, ReadData, ReadSpec, Topic, Topics};
use kaas_proto::ErrorCode;
use kaas_proto::messages::FetchRequest;

use super::items::{Item, Want};
use crate::broker::{Broker, check_leader_epoch, partition_of};
use crate::error::{ApiError, read_code};

/// `isolation_level` for all records, and for those of committed transactions.
const READ_UNCOMMITTED: i8 = 0;
const READ_COMMITTED: i8 = 1;

/// The first version whose limits give way to the first batch.
const FIRST_BATCH_WHOLE_FROM: i16 = 3;

/// What bounds a fetch as a whole.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    bytes_min: usize,
    bytes_max: usize,
    /// Whether the first batch comes whole, though it be larger than the limits (KIP-74).
    first_batch_whole: bool,
    isolation: Isolation,
}

impl Limits {
    /// An isolation level that does not exist fails the whole request.
    pub(super) fn of(
        request: &FetchRequest,
        version: i16,
        configured_max: usize,
    ) -> Result<Limits, ApiError> {
        let isolation = match request.isolation_level {
            READ_UNCOMMITTED => Isolation::ReadUncommitted,
            READ_COMMITTED => Isolation::ReadCommitted,
            _ => return Err(ApiError::new(ErrorCode::UnknownServerError)),
        };
        let bytes_max = usize::try_from(request.max_bytes).unwrap_or(0).min(configured_max);
        let bytes_min = usize::try_from(request.min_bytes).unwrap_or(0).min(bytes_max);
        Ok(Limits { bytes_min, bytes_max, first_batch_whole: version >= FIRST_BATCH_WHOLE_FROM, isolation })
    }
}

/// Whether a look may wait for the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Blocking {
    Yes,
    No,
}

/// What one partition gave.
#[derive(Debug)]
pub(super) enum Outcome {
    /// Records, maybe none.
    Data(ReadData),
    /// The log of the client went another way: the epoch where, and its end.
    Diverged { epoch: i32, end_offset: i64, at: kaas_core::Offsets },
    /// An error of the partition itself, which ends a long poll.
    Failed(ErrorCode),
    /// The client's version cannot read what is there.
    Unreadable(ErrorCode),
    /// No such topic or partition, which does not end a long poll of others.
    Unknown(ErrorCode),
}

/// What all partitions gave.
#[derive(Debug)]
pub(super) struct Round {
    /// In the order of the items.
    pub(super) outcomes: Vec<Outcome>,
    /// Some pages were not in memory; look again where waiting is allowed.
    pub(super) cold: bool,
    /// Whether the client asked for committed transactions only.
    pub(super) read_committed: bool,
    bytes: usize,
    watched: Vec<Arc<Partition>>,
    urgent: bool,
}

impl Round {
    /// Whether a long poll ends with this.
    pub(super) fn is_final(&self, limits: &Limits) -> bool {
        !self.cold && (self.urgent || self.watched.is_empty() || self.bytes >= limits.bytes_min)
    }

    /// The partitions whose progress would change the outcome.
    pub(super) fn watched(&self) -> &[Arc<Partition>] {
        &self.watched
    }
}

/// Looks at every item in order. The first partition with data returns a whole batch, however large (KIP-74).
pub(super) fn round(broker: &Broker, items: &[Item], limits: &Limits, blocking: Blocking) -> Round {
    let mut round = Round {
        outcomes: Vec::with_capacity(items.len()),
        cold: false,
        read_committed: limits.isolation == Isolation::ReadCommitted,
        bytes: 0,
        watched: Vec::new(),
        urgent: false,
    };
    let topics = broker.engine.topics();
    let mut last: Option<(&Item, Option<Arc<Topic>>)> = None;
    for item in items {
        let topic = match &last {
            Some((before, topic)) if before.key.same_topic(&item.key) => topic.clone(),
            _ if !item.key.by_id => topics.by_name(&item.key.topic),
            _ => topics.by_id(&item.key.topic_id),
        };
        last = Some((item, topic.clone()));
        let outcome = match topic.and_then(|topic| partition_of(&topic, item.key.partition)) {
            Some(partition) => {
                let outcome = round.look(&partition, &item.want, limits, blocking);
                round.watched.push(partition);
                outcome
            }
            None => round.unknown(item, last.as_ref().is_some_and(|(_, topic)| topic.is_some()), &topics),
        };
        round.outcomes.push(outcome);
    }
    round
}

impl Round {
    /// A partition that is not there. When the name of its topic has come to mean another topic, the client must learn so at once.
    fn unknown(&mut self, item: &Item, topic_exists: bool, topics: &Topics) -> Outcome {
        if !item.key.by_id || topic_exists {
            return Outcome::Unknown(ErrorCode::UnknownTopicOrPartition);
        }
        if item.name.as_ref().is_some_and(|name| topics.by_name(name).is_some()) {
            self.urgent = true;
            return Outcome::Failed(ErrorCode::InconsistentTopicId);
        }
        Outcome::Unknown(ErrorCode::UnknownTopicId)
    }

    fn look(&mut self, partition: &Partition, want: &Want, limits: &Limits, blocking: Blocking) -> Outcome {
        if let Err(code) = check_leader_epoch(want.leader_epoch, partition.leader_epoch()) {
            self.urgent = true;
            return Outcome::Failed(code);
        }
        if let Some(outcome) = diverged(partition, want) {
            self.urgent = true;
            return outcome;
        }
        let remaining = limits.bytes_max.saturating_sub(self.bytes);
        let spec = ReadSpec {
            offset: want.offset,
            bytes_max: usize::try_from(want.bytes_max).unwrap_or(0).min(remaining),
            at_least_one_batch: limits.first_batch_whole && self.bytes == 0,
            isolation: limits.isolation,
            blocking: blocking == Blocking::Yes,
        };
        match partition.read(spec) {
            Ok(Read::Data(data)) => {
                self.bytes += data.slice.len();
                Outcome::Data(data)
            }
            Ok(Read::WouldBlock) => {
                self.cold = true;
                Outcome::Failed(ErrorCode::UnknownServerError)
            }
            Err(error) => {
                self.urgent = true;
                Outcome::Failed(read_code(&error))
            }
        }
    }
}

/// KIP-595: a client that names the epoch of its last record is told where that epoch really ended.
fn diverged(partition: &Partition, want: &Want) -> Option<Outcome> {
    if want.last_fetched_epoch < 0 {
        return None;
    }
    let (epoch, end_offset) = partition.end_offset_for_epoch(want.last_fetched_epoch);
    // Below the log start nothing can be said about where the logs part, whatever the epochs are.
    if end_offset < 0 || want.offset < partition.offsets().log_start {
        return Some(Outcome::Failed(ErrorCode::OffsetOutOfRange));
    }
    (epoch < want.last_fetched_epoch || end_offset < want.offset).then(|| Outcome::Diverged {
        epoch,
        end_offset,
        at: partition.offsets(),
    })
}
