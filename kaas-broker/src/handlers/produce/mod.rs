//! Produce (key 0, versions 0-10): append record batches.
//!
//! * v0-2: message sets of magic 0 and 1, converted up; or batches, as Kafka does not look. v1: throttle time. v2: append time.
//! * v3: batches of format 2, transactional id. v5: log start offset. v7: zstd. v8: record errors. v9: flexible. v10: current leader
//!   (KIP-951).
//! * The call ends when every batch has its place in the log; the answer comes when all are durable and published.
//! * `acks=1` and `acks=all` are the same: one writer, one volume. `acks=0` is never answered; any error closes the connection.

mod batches;
mod response;

use std::sync::Arc;
use std::time::Duration;

use kaas_core::record::is_empty_set;
use kaas_core::{AppendOptions, Appended, Partition, PendingAppend};
use kaas_proto::messages::{ProduceRequest, ProduceResponse};
use kaas_proto::{ErrorCode, KStr};
use tokio::time::Instant;

use batches::{BATCHES_FROM, Batch, TopicBatches};
use response::Refusal;

use crate::broker::{Broker, partition_of};
use crate::error::ApiError;
use crate::request::{Answer, Reply, RequestCx};
use crate::router::Handler;

/// The least time that an acknowledgement is waited for. A client's time-out is meant for replication, which begins after the local
/// append, sync included; so a time-out of 0 does not make every durable produce fail.
const WAIT_MIN: Duration = Duration::from_secs(5);

/// A partition's append: in the log's queue, nothing to append, or refused.
struct Started {
    index: i32,
    outcome: Result<Option<PendingAppend>, Refusal>,
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
        let topics = batches::of(request);
        let refusal = refuse_all(&topics, acks, transactional);
        let start = |topic| self.start_topic(topic, refusal, cx.version);
        let started: Vec<StartedTopic> = topics.into_iter().map(start).collect();
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
    fn start_topic(&self, topic: TopicBatches, refusal: Option<ErrorCode>, version: i16) -> StartedTopic {
        let found = self.topic(&topic.name);
        let start = |batch: Batch| -> Result<Option<PendingAppend>, Refusal> {
            let partition = found.as_ref().and_then(|topic| partition_of(topic, batch.index));
            let partition = partition.ok_or(ErrorCode::UnknownTopicOrPartition)?;
            if let Some(code) = refusal {
                return Err(code.into());
            }
            batch.check_version(version)?;
            append(&partition, batch, version < BATCHES_FROM)
        };
        let partitions = topic
            .batches
            .into_iter()
            .map(|batch| Started { index: batch.index, outcome: start(batch) })
            .collect();
        StartedTopic { name: topic.name, partitions }
    }
}

fn append(partition: &Partition, batch: Batch, old_formats: bool) -> Result<Option<PendingAppend>, Refusal> {
    // Only a log that got a whole batch to look at tells where it begins.
    let log_start = if batch.is_whole() { partition.offsets().log_start } else { response::NO_OFFSET };
    let long = batch.takes_long(partition.config().compression);
    let bytes = match batch.bytes {
        None if old_formats => return Err(ErrorCode::InvalidRecord.into()),
        bytes => bytes.unwrap_or_default(),
    };
    if old_formats && is_empty_set(&bytes) {
        return Ok(None);
    }
    let options = AppendOptions { old_formats, ..AppendOptions::default() };
    let append = || partition.append(bytes, options);
    // The other connections of this thread move to another one meanwhile.
    let appended = if long { tokio::task::block_in_place(append) } else { append() };
    appended.map(Some).map_err(|error| Refusal::of(&error, log_start))
}

async fn finish(started: Vec<StartedTopic>, deadline: Instant) -> ProduceResponse {
    let mut responses = Vec::with_capacity(started.len());
    for topic in started {
        let mut rows = Vec::with_capacity(topic.partitions.len());
        for Started { index, outcome } in topic.partitions {
            let result = match outcome {
                Ok(Some(pending)) => wait(pending, deadline).await.map(Some),
                Ok(None) => Ok(None),
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
