//! A transactional producer that is led through its transaction step by step.

use std::net::SocketAddr;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use kaas_proto::Records;
use kaas_proto::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use kaas_proto::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kaas_proto::messages::{AddPartitionsToTxnRequest, EndTxnRequest, InitProducerIdRequest, ProduceRequest};

use crate::wire::{Connection, until_done};

/// The greatest that brokers allow by default (`transaction.max.timeout.ms`).
const TIMEOUT_MS: i32 = 900_000;

/// The producer.
pub(crate) struct Producer {
    connection: Connection,
    topic: &'static str,
    transactional_id: String,
    /// What its batches carry.
    pub(crate) id: i64,
    /// The same.
    pub(crate) epoch: i16,
}

impl Producer {
    /// Gets its id.
    pub(crate) fn open(address: SocketAddr, transactional_id: &str, topic: &'static str) -> Result<Self> {
        let mut connection = Connection::open(address)?;
        let request = InitProducerIdRequest {
            transactional_id: Some(transactional_id.into()),
            transaction_timeout_ms: TIMEOUT_MS,
            producer_id: -1,
            producer_epoch: -1,
        };
        let answer = until_done(&mut connection, &request, 4, |response| response.error_code)?;
        let (id, epoch) = (answer.producer_id, answer.producer_epoch);
        Ok(Self { connection, topic, transactional_id: transactional_id.to_owned(), id, epoch })
    }

    /// Takes partitions into the transaction.
    pub(crate) fn add(&mut self, partitions: &[i32]) -> Result<()> {
        let add = AddPartitionsToTxnRequest {
            v3_and_below_transactional_id: self.transactional_id.as_str().into(),
            v3_and_below_producer_id: self.id,
            v3_and_below_producer_epoch: self.epoch,
            v3_and_below_topics: vec![AddPartitionsToTxnTopic {
                name: self.topic.into(),
                partitions: partitions.to_vec(),
            }],
            ..Default::default()
        };
        let code = |response: &<AddPartitionsToTxnRequest as kaas_proto::ApiRequest>::Response| {
            let rows =
                response.results_by_topic_v3_and_below.iter().flat_map(|topic| &topic.results_by_partition);
            rows.map(|row| row.partition_error_code).find(|code| *code != 0).unwrap_or(0)
        };
        until_done(&mut self.connection, &add, 3, code).map(drop)
    }

    /// Writes a batch to each of some partitions.
    pub(crate) fn produce(&mut self, batches: impl Iterator<Item = (i32, Bytes)>) -> Result<()> {
        let data = batches
            .map(|(index, batch)| PartitionProduceData { index, records: Some(Records::Bytes(batch)) });
        let produce = ProduceRequest {
            transactional_id: Some(self.transactional_id.as_str().into()),
            acks: -1,
            timeout_ms: 30_000,
            topic_data: vec![TopicProduceData { name: self.topic.into(), partition_data: data.collect() }],
        };
        let answer = self.connection.ask(&produce, 9)?;
        let rows = answer.responses.iter().flat_map(|topic| &topic.partition_responses);
        let failed = rows.map(|row| row.error_code).find(|code| *code != 0);
        ensure!(failed.is_none(), "produce gave error {failed:?}");
        Ok(())
    }

    /// Commits the transaction.
    pub(crate) fn commit(&mut self) -> Result<()> {
        let end = EndTxnRequest {
            transactional_id: self.transactional_id.as_str().into(),
            producer_id: self.id,
            producer_epoch: self.epoch,
            committed: true,
        };
        until_done(&mut self.connection, &end, 3, |response| response.error_code).map(drop).context("EndTxn")
    }
}
