//! Produce (key 0, versions 0-10): append record batches.
//!
//! * v0-2: message sets of magic 0 and 1, converted up; or batches, as Kafka does not look. v1: throttle time. v2: append time.
//! * v3: batches of format 2, transactional id. v5: log start offset. v7: zstd. v8: record errors. v9: flexible. v10: current leader
//!   (KIP-951).
//! * A transaction's partitions are verified before its first batch in each (KIP-890).
//! * The call ends when every batch has its place in the log; the answer comes when all are durable and published.
//! * `acks=1` and `acks=all` are the same: one writer, one volume. `acks=0` is never answered; any error closes the connection.

mod batches;
mod response;
mod verify;

use std::sync::Arc;
use std::time::Duration;

use kaas_core::record::is_empty_set;
use kaas_core::{AppendOptions, Appended, Partition, PendingAppend, TxnProof};
use kaas_proto::messages::{ProduceRequest, ProduceResponse};
use kaas_proto::{ErrorCode, KStr};
use tokio::time::Instant;

use batches::{BATCHES_FROM, Batch, TopicBatches};
use response::Refusal;
use verify::Proofs;

use crate::broker::{Broker, partition_of};
use crate::error::ApiError;
use crate::request::{Answer, Reply, RequestCx};
use crate::router::Handler;

/// The least time that an acknowledgement is waited for. A client's time-out is meant for replication, which begins after the local
/// append, sync included; so a time-out of 0 does not make every durable produce fail.
const WAIT_MIN: Duration = Duration::from_secs(5);

/// By how much a batch may grow in memory, decompressed for its topic, without being waited for before the next one is looked at.
const UNWAITED_GROWTH_BYTES_MAX: usize = 64 << 10;

/// A partition's append, not refused.
enum Append {
    /// There was nothing to append.
    Nothing,
    /// In the log's queue.
    Pending(PendingAppend),
    /// Acknowledged.
    Done(Appended),
}

/// A partition's append.
struct Started {
    index: i32,
    outcome: Result<Append, Refusal>,
}

/// The appends of one topic.
struct StartedTopic {
    name: KStr,
    partitions: Vec<Started>,
}

impl Handler<ProduceRequest> for Broker {
    async fn handle(
        self: Arc<Self>,
        cx: RequestCx,
        request: ProduceRequest,
    ) -> Result<Reply<ProduceResponse>, ApiError> {
        let timeout = Duration::from_millis(u64::try_from(request.timeout_ms).unwrap_or(0));
        let deadline = Instant::now() + timeout.max(WAIT_MIN);
        let (acks, transactional) = (request.acks, request.transactional_id.is_some());
        let transactional_id = request.transactional_id.clone();
        let topics = batches::of(request);
        let (refusal, proofs) = match refuse_all(&topics, acks, transactional) {
            Some(code) => (Some(Refusal::from(code)), Proofs::default()),
            None => match self.verify(transactional_id.as_ref(), &topics).await {
                Ok(proofs) => (None, proofs),
                Err(refusal) => (Some(refusal), Proofs::default()),
            },
        };
        let mut started = Vec::with_capacity(topics.len());
        for topic in topics {
            started.push(self.start_topic(topic, refusal.as_ref(), &proofs, cx.version, deadline).await);
        }
        if acks == 0 {
            let failed =
                started.iter().flat_map(|topic| &topic.partitions).any(|started| started.outcome.is_err());
            return Ok(Reply::Now(if failed { Answer::Close } else { Answer::Silent }));
        }
        Ok(Reply::Later(Box::pin(async move { Answer::Send(finish(started, deadline).await) })))
    }
}

/// A reason to refuse every partition that exists, which the request as a whole gives.
fn refuse_all(topics: &[TopicBatches], acks: i16, transactional: bool) -> Option<ErrorCode> {
    if !transactional && topics.iter().flat_map(|topic| &topic.batches).any(Batch::is_transactional) {
        return Some(ErrorCode::TransactionalIdAuthorizationFailed);
    }
    (!matches!(acks, -1..=1)).then_some(ErrorCode::InvalidRequiredAcks)
}

impl Broker {
    async fn start_topic(
        &self,
        topic: TopicBatches,
        refusal: Option<&Refusal>,
        proofs: &Proofs,
        version: i16,
        deadline: Instant,
    ) -> StartedTopic {
        let found = self.topic(&topic.name);
        let mut partitions = Vec::with_capacity(topic.batches.len());
        for batch in topic.batches {
            let (index, received) = (batch.index, batch.len());
            let partition = found.as_ref().and_then(|topic| partition_of(topic, index));
            let started = match (partition, refusal) {
                (None, _) => Err(ErrorCode::UnknownTopicOrPartition.into()),
                (_, Some(refusal)) => Err(refusal.clone()),
                (Some(partition), None) => proofs
                    .of(&topic.name, index)
                    .and_then(|transaction| append(&partition, batch, transaction, version)),
            };
            let outcome = match started {
                // What a request may take in memory is accounted by what was received.
                Ok(Append::Pending(pending))
                    if pending.stored_bytes() > received.saturating_add(UNWAITED_GROWTH_BYTES_MAX) =>
                {
                    wait(pending, deadline).await.map(Append::Done)
                }
                started => started,
            };
            partitions.push(Started { index, outcome });
        }
        StartedTopic { name: topic.name, partitions }
    }
}

fn append(
    partition: &Partition,
    batch: Batch,
    transaction: TxnProof,
    version: i16,
) -> Result<Append, Refusal> {
    batch.check_version(version)?;
    let old_formats = version < BATCHES_FROM;
    // Only a log that got a whole batch to look at tells where it begins.
    let log_start = if batch.is_whole() { partition.offsets().log_start } else { response::NO_OFFSET };
    let long = batch.takes_long(partition.config().compression);
    let bytes = match batch.bytes {
        None if old_formats => return Err(ErrorCode::InvalidRecord.into()),
        bytes => bytes.unwrap_or_default(),
    };
    if old_formats && is_empty_set(&bytes) {
        return Ok(Append::Nothing);
    }
    let options = AppendOptions { old_formats, transaction, ..AppendOptions::default() };
    let append = || partition.append(bytes, options);
    // The other connections of this thread move to another one meanwhile.
    let appended = if long { tokio::task::block_in_place(append) } else { append() };
    appended.map(Append::Pending).map_err(|error| Refusal::of(&error, log_start))
}

async fn finish(started: Vec<StartedTopic>, deadline: Instant) -> ProduceResponse {
    let mut responses = Vec::with_capacity(started.len());
    for topic in started {
        let mut rows = Vec::with_capacity(topic.partitions.len());
        for Started { index, outcome } in topic.partitions {
            let result = match outcome {
                Ok(Append::Pending(pending)) => wait(pending, deadline).await.map(Some),
                Ok(Append::Done(appended)) => Ok(Some(appended)),
                Ok(Append::Nothing) => Ok(None),
                Err(refusal) => Err(refusal),
            };
            rows.push(response::row(index, result));
        }
        responses.push(response::topic(topic.name, rows));
    }
    ProduceResponse { responses, ..Default::default() }
}

/// Waits for the acknowledgement. After the deadline the records may still become durable: the code tells the client so.
async fn wait(pending: PendingAppend, deadline: Instant) -> Result<Appended, Refusal> {
    match tokio::time::timeout_at(deadline, pending).await {
        Ok(Ok(appended)) => Ok(appended),
        Ok(Err(error)) => Err(Refusal::of(&error, response::NO_OFFSET)),
        Err(_) => Err(ErrorCode::RequestTimedOut.into()),
    }
}
