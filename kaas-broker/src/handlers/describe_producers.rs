//! DescribeProducers (key 61, version 0): who has written to a partition of late (KIP-664).

use std::sync::Arc;

use kaas_core::{ActiveProducer, TopicName};
use kaas_proto::messages::describe_producers_request::TopicRequest;
use kaas_proto::messages::describe_producers_response::{PartitionResponse, ProducerState, TopicResponse};
use kaas_proto::messages::{DescribeProducersRequest, DescribeProducersResponse};
use kaas_proto::{ErrorCode, KStr};

use crate::broker::{Broker, partition_of};
use crate::error::ApiError;
use crate::request::{Answer, Reply, RequestCx};
use crate::router::Handler;

/// "No open transaction".
const NO_OFFSET: i64 = -1;

impl Handler<DescribeProducersRequest> for Broker {
    async fn handle(
        self: Arc<Self>,
        _: RequestCx,
        request: DescribeProducersRequest,
    ) -> Result<Reply<DescribeProducersResponse>, ApiError> {
        let topics = request.topics.into_iter().map(|topic| self.producers_of(topic)).collect();
        Ok(Reply::Now(Answer::Send(DescribeProducersResponse { topics, ..Default::default() })))
    }
}

impl Broker {
    fn producers_of(&self, asked: TopicRequest) -> TopicResponse {
        let found = match TopicName::new(&asked.name) {
            Err(error) => Err(ApiError::because(ErrorCode::InvalidTopicException, error.to_string())),
            Ok(_) => {
                let unknown = || ApiError::new(ErrorCode::UnknownTopicOrPartition);
                self.topic(&asked.name).ok_or_else(unknown)
            }
        };
        let partition = |partition_index: i32| {
            let (code, message, active_producers) = match &found {
                Err(error) => (error.code, Some(error.message()), Vec::new()),
                Ok(topic) => match partition_of(topic, partition_index) {
                    None => (ErrorCode::UnknownTopicOrPartition, None::<KStr>, Vec::new()),
                    Some(partition) => {
                        let active = partition.active_producers().into_iter().map(state).collect();
                        (ErrorCode::None, None, active)
                    }
                },
            };
            let (error_code, error_message) = (code.code(), message);
            PartitionResponse { partition_index, error_code, error_message, active_producers }
        };
        let partitions = asked.partition_indexes.into_iter().map(partition).collect();
        TopicResponse { name: asked.name, partitions }
    }
}

fn state(producer: ActiveProducer) -> ProducerState {
    ProducerState {
        producer_id: producer.producer_id,
        producer_epoch: producer.producer_epoch.into(),
        last_sequence: producer.last_sequence,
        last_timestamp: producer.last_timestamp,
        coordinator_epoch: producer.coordinator_epoch,
        current_txn_start_offset: producer.txn_first_offset.unwrap_or(NO_OFFSET),
    }
}
