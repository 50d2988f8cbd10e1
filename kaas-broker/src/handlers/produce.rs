//! Produce (key 0, versions 3-10): append record batches.
//!
//! * v3: batches of format 2, transactional id. v5: log start offset. v8: record errors. v9: flexible. v10: current leader (KIP-951).
//! * The call ends when every batch has its place in the log; the answer comes when all are durable and published.
//! * `acks=1` and `acks=all` are the same: one writer, one volume. `acks=0` is never answered; any error closes the connection.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kaas_core::{AppendError, AppendOptions, Appended, PendingAppend};
use kaas_proto::messages::produce_request::{PartitionProduceData, ProduceRequest, TopicProduceData};
use kaas_proto::messages::produce_response::{
    BatchIndexAndErrorMessage, PartitionProduceResponse, ProduceResponse, TopicProduceResponse,
};
use kaas_proto::{ErrorCode, KStr, Records};
use tokio::time::Instant;

use crate::broker::Broker;
use crate::error::{ApiError, append_code};
use crate::request::{Answer, Reply, RequestCx};
use crate::router::Handler;

/// `transactional` in a batch's attributes, and where the attributes are.
const TRANSACTIONAL: u8 = 0x10;
const ATTRIBUTES_LOW_BYTE: usize = 22;

/// A partition's append: in the log's queue, or refused.
struct Started {
    index: i32,
    outcome: Result<PendingAppend, Refusal>,
}

/// Why a partition's records were not appended.
struct Refusal {
    code: ErrorCode,
    message: Option<String>,
    records: Vec<(i32, String)>,
}

impl From<ErrorCode> for Refusal {
    fn from(code: ErrorCode) -> Refusal {
        Refusal { code, message: None, records: Vec::new() }
    }
}

impl From<&AppendError> for Refusal {
    fn from(error: &AppendError) -> Refusal {
        let code = append_code(error);
        let records = match error {
            AppendError::InvalidRecord(invalid) => invalid.record_errors.clone(),
            AppendError::InvalidTimestamp(invalid) => invalid.record_errors.clone(),
            _ => Vec::new(),
        };
        // Kafka sends words only with the two codes that concern single records.
        let described = matches!(code, ErrorCode::InvalidRecord | ErrorCode::InvalidTimestamp);
        Refusal { code, message: described.then(|| error.to_string()), records }
    }
}

impl Handler<ProduceRequest> for Broker {
    async fn handle(
        self: Arc<Self>,
        _: RequestCx,
        request: ProduceRequest,
    ) -> Result<Reply<ProduceResponse>, ApiError> {
        let deadline = Instant::now() + Duration::from_millis(u64::try_from(request.timeout_ms).unwrap_or(0));
        let acks = request.acks;
        let refusal = refuse_all(&request);
        let started: Vec<(KStr, Vec<Started>)> = request
            .topic_data
            .into_iter()
            .map(|topic| (topic.name.clone(), self.start_topic(topic, refusal)))
            .collect();
        let failed = started.iter().flat_map(|(_, partitions)| partitions).any(|started| started.outcome.is_err());
        if acks == 0 {
            return Ok(Reply::Now(if failed { Answer::Close } else { Answer::Silent }));
        }
        Ok(Reply::Later(Box::pin(async move { Answer::Send(finish(started, deadline).await) })))
    }
}

/// A reason to refuse every partition, which the request as a whole gives.
fn refuse_all(request: &ProduceRequest) -> Option<ErrorCode> {
    if request.transactional_id.is_none() && request.topic_data.iter().any(has_transactional) {
        return Some(ErrorCode::TransactionalIdAuthorizationFailed);
    }
    (!matches!(request.acks, -1..=1)).then_some(ErrorCode::InvalidRequiredAcks)
}

fn has_transactional(topic: &TopicProduceData) -> bool {
    topic.partition_data.iter().any(|partition| {
        let attributes = bytes_of(partition).and_then(|bytes| bytes.get(ATTRIBUTES_LOW_BYTE).copied());
        attributes.is_some_and(|attributes| attributes & TRANSACTIONAL != 0)
    })
}

/// The records as they arrived; a request never carries a file.
fn bytes_of(partition: &PartitionProduceData) -> Option<&Bytes> {
    match partition.records.as_ref()? {
        Records::Bytes(bytes) => Some(bytes),
        Records::File(_) => None,
    }
}

impl Broker {
    fn start_topic(&self, topic: TopicProduceData, refusal: Option<ErrorCode>) -> Vec<Started> {
        let found = self.topic(&topic.name);
        let start = |data: &PartitionProduceData| -> Result<PendingAppend, Refusal> {
            if let Some(code) = refusal {
                return Err(code.into());
            }
            let partition = found
                .as_ref()
                .and_then(|topic| crate::broker::partition_of(topic, data.index))
                .ok_or(ErrorCode::UnknownTopicOrPartition)?;
            let records = bytes_of(data).cloned().unwrap_or_default();
            partition.append(records, AppendOptions::default()).map_err(|error| Refusal::from(&error))
        };
        topic.partition_data.iter().map(|data| Started { index: data.index, outcome: start(data) }).collect()
    }
}

async fn finish(started: Vec<(KStr, Vec<Started>)>, deadline: Instant) -> ProduceResponse {
    let mut responses = Vec::with_capacity(started.len());
    for (name, partitions) in started {
        let mut answers = Vec::with_capacity(partitions.len());
        for Started { index, outcome } in partitions {
            let result = match outcome {
                Ok(pending) => wait(pending, deadline).await,
                Err(refusal) => Err(refusal),
            };
            answers.push(shape(index, result));
        }
        responses.push(TopicProduceResponse { name, partition_responses: answers });
    }
    ProduceResponse { responses, ..Default::default() }
}

/// Waits for the acknowledgement. After the deadline the records may still become durable: the client is told so by the code.
async fn wait(pending: PendingAppend, deadline: Instant) -> Result<Appended, Refusal> {
    match tokio::time::timeout_at(deadline, pending).await {
        Ok(Ok(appended)) => Ok(appended),
        Ok(Err(error)) => Err(Refusal::from(&error)),
        Err(_) => Err(ErrorCode::RequestTimedOut.into()),
    }
}

fn shape(index: i32, result: Result<Appended, Refusal>) -> PartitionProduceResponse {
    match result {
        Ok(appended) => PartitionProduceResponse {
            index,
            base_offset: appended.base_offset,
            log_append_time_ms: appended.log_append_time_ms,
            log_start_offset: appended.log_start_offset,
            ..Default::default()
        },
        Err(refusal) => PartitionProduceResponse {
            index,
            error_code: refusal.code.code(),
            base_offset: -1,
            log_append_time_ms: -1,
            log_start_offset: -1,
            record_errors: refusal
                .records
                .into_iter()
                .map(|(batch_index, message)| BatchIndexAndErrorMessage {
                    batch_index,
                    batch_index_error_message: Some(message.into()),
                })
                .collect(),
            error_message: refusal.message.map(KStr::from),
            ..Default::default()
        },
    }
}
