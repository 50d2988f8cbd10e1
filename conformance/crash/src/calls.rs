//! The calls of a transactional producer and of a committer, each with its code or what it brought.

use std::time::{SystemTime, UNIX_EPOCH};

use kaas_core::RecordBatchBuilder;
use kaas_proto::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use kaas_proto::messages::offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use kaas_proto::messages::offset_fetch_request::OffsetFetchRequestTopic;
use kaas_proto::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use kaas_proto::messages::{
    AddOffsetsToTxnRequest, AddPartitionsToTxnRequest, EndTxnRequest, FetchRequest, InitProducerIdRequest,
    OffsetCommitRequest, OffsetFetchRequest, ProduceRequest, TxnOffsetCommitRequest,
};
use kaas_test_client::{Client, ClientError, fetch};

use crate::producer::Stopped;

/// Long enough that only a new identity ends a transaction.
const TRANSACTION_TIMEOUT_MS: i32 = 600_000;
/// A batch of a transaction.
const TRANSACTIONAL: i16 = 0x10;
const READ_COMMITTED: i8 = 1;

/// A producer id and its epoch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Identity {
    pub(crate) id: i64,
    pub(crate) epoch: i16,
}

/// What a call brought, or its code.
type Called<T> = Result<Result<T, i16>, ClientError>;

/// COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, CONCURRENT_TRANSACTIONS.
pub(crate) fn is_for_later(code: i16) -> bool {
    matches!(code, 14 | 15 | 16 | 51)
}

fn coded<T>(code: i16, value: T) -> Result<T, i16> {
    if code == 0 { Ok(value) } else { Err(code) }
}

fn refused(code: i16) -> Result<(), Stopped> {
    coded(code, ()).map_err(|code| Stopped::Broken(format!("code {code}")))
}

pub(crate) fn init_producer_id(client: &mut Client, id: &str) -> Called<Identity> {
    let request = InitProducerIdRequest {
        transactional_id: Some(id.into()),
        transaction_timeout_ms: TRANSACTION_TIMEOUT_MS,
        producer_id: -1,
        producer_epoch: -1,
    };
    let answer = client.call(&request, 4)?;
    Ok(coded(answer.error_code, Identity { id: answer.producer_id, epoch: answer.producer_epoch }))
}

pub(crate) fn add_partitions(
    client: &mut Client,
    id: &str,
    producer: Identity,
    topic: &str,
    partitions: &[i32],
) -> Called<()> {
    let request = AddPartitionsToTxnRequest {
        v3_and_below_transactional_id: id.into(),
        v3_and_below_producer_id: producer.id,
        v3_and_below_producer_epoch: producer.epoch,
        v3_and_below_topics: vec![AddPartitionsToTxnTopic {
            name: topic.into(),
            partitions: partitions.to_vec(),
        }],
        ..Default::default()
    };
    let answer = client.call(&request, 3)?;
    let rows = answer.results_by_topic_v3_and_below.iter().flat_map(|topic| &topic.results_by_partition);
    Ok(coded(rows.map(|row| row.partition_error_code).find(|code| *code != 0).unwrap_or(0), ()))
}

pub(crate) fn produce(
    client: &mut Client,
    id: &str,
    producer: Identity,
    sequence: i32,
    topic: &str,
    partition: i32,
    value: &[u8],
) -> Result<(), Stopped> {
    // The present, or retention would take the records away.
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as i64;
    let batch = RecordBatchBuilder::new()
        .push(None, Some(value), now_ms)
        .producer(producer.id, producer.epoch, sequence)
        .attributes(TRANSACTIONAL)
        .build();
    let request = kaas_test_client::produce(topic, partition, batch, -1);
    let request = ProduceRequest { transactional_id: Some(id.into()), ..request };
    let answer = client.call(&request, 9)?;
    let row = answer.responses.first().and_then(|topic| topic.partition_responses.first());
    refused(row.map_or(-1, |row| row.error_code))
}

pub(crate) fn add_offsets(client: &mut Client, id: &str, producer: Identity, group: &str) -> Called<()> {
    let request = AddOffsetsToTxnRequest {
        transactional_id: id.into(),
        producer_id: producer.id,
        producer_epoch: producer.epoch,
        group_id: group.into(),
    };
    Ok(coded(client.call(&request, 3)?.error_code, ()))
}

/// Commits an offset for the first partition when the transaction is committed.
pub(crate) fn commit_in_transaction(
    client: &mut Client,
    id: &str,
    producer: Identity,
    group: &str,
    topic: &str,
    offset: i64,
) -> Result<(), Stopped> {
    let partition = TxnOffsetCommitRequestPartition {
        committed_offset: offset,
        committed_leader_epoch: -1,
        committed_metadata: Some("".into()),
        ..Default::default()
    };
    let request = TxnOffsetCommitRequest {
        transactional_id: id.into(),
        group_id: group.into(),
        producer_id: producer.id,
        producer_epoch: producer.epoch,
        generation_id: -1,
        topics: vec![TxnOffsetCommitRequestTopic { name: topic.into(), partitions: vec![partition] }],
        ..Default::default()
    };
    let answer = client.call(&request, 3)?;
    let row = answer.topics.first().and_then(|topic| topic.partitions.first());
    refused(row.map_or(-1, |row| row.error_code))
}

pub(crate) fn end(client: &mut Client, id: &str, producer: Identity, committed: bool) -> Result<(), Stopped> {
    let request = EndTxnRequest {
        transactional_id: id.into(),
        producer_id: producer.id,
        producer_epoch: producer.epoch,
        committed,
    };
    refused(client.call(&request, 3)?.error_code)
}

/// Commits an offset for the first partition.
pub(crate) fn commit(client: &mut Client, group: &str, topic: &str, offset: i64) -> Result<(), Stopped> {
    let partition = OffsetCommitRequestPartition {
        committed_offset: offset,
        committed_leader_epoch: -1,
        committed_metadata: Some("".into()),
        ..Default::default()
    };
    let request = OffsetCommitRequest {
        group_id: group.into(),
        generation_id_or_member_epoch: -1,
        topics: vec![OffsetCommitRequestTopic { name: topic.into(), partitions: vec![partition] }],
        ..Default::default()
    };
    let answer = client.call(&request, 8)?;
    let row = answer.topics.first().and_then(|topic| topic.partitions.first());
    refused(row.map_or(-1, |row| row.error_code))
}

/// The offset that a group has committed for the first partition, -1 for none; asks until no transaction may change it.
pub(crate) fn committed(client: &mut Client, group: &str, topic: &str) -> Called<i64> {
    /// UNSTABLE_OFFSET_COMMIT.
    const UNSTABLE: i16 = 88;
    let began = std::time::Instant::now();
    loop {
        let request = OffsetFetchRequest {
            group_id: group.into(),
            topics: Some(vec![OffsetFetchRequestTopic { name: topic.into(), partition_indexes: vec![0] }]),
            require_stable: true,
            ..Default::default()
        };
        let answer = client.call(&request, 7)?;
        let row = answer.topics.first().and_then(|topic| topic.partitions.first());
        let code = row.map_or(answer.error_code.max(1), |row| row.error_code);
        let code = if answer.error_code != 0 { answer.error_code } else { code };
        if !(code == UNSTABLE || is_for_later(code)) || began.elapsed() > kaas_test_client::PATIENCE {
            return Ok(coded(code, row.map_or(-1, |row| row.committed_offset)));
        }
        std::thread::yield_now();
    }
}

pub(crate) fn fetch_committed(topic: &str, partition: i32, offset: i64, bytes_max: i32) -> FetchRequest {
    FetchRequest { isolation_level: READ_COMMITTED, ..fetch(topic, partition, offset, bytes_max) }
}
