//! OffsetForLeaderEpoch (key 23, versions 0-4): where an epoch ended, so that a consumer can tell whether its log was cut (KIP-320).
//!
//! * v1: the answer names the epoch. v2: the client's current epoch is checked. v3: replica id. v4: flexible.
//! * An epoch between two known ones gives the largest known epoch below it and the start of the next; an unknown one gives -1, -1.

use std::sync::Arc;

use kaas_proto::ErrorCode;
use kaas_proto::messages::offset_for_leader_epoch_request::OffsetForLeaderPartition;
use kaas_proto::messages::offset_for_leader_epoch_response::{EpochEndOffset, OffsetForLeaderTopicResult};
use kaas_proto::messages::{OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse};

use crate::broker::{Broker, check_leader_epoch};
use crate::error::ApiError;
use crate::request::{Answer, Reply, RequestCx};
use crate::router::Handler;

impl Handler<OffsetForLeaderEpochRequest> for Broker {
    async fn handle(
        self: Arc<Self>,
        _: RequestCx,
        request: OffsetForLeaderEpochRequest,
    ) -> Result<Reply<OffsetForLeaderEpochResponse>, ApiError> {
        let topics = request
            .topics
            .into_iter()
            .map(|topic| {
                let partitions =
                    topic.partitions.iter().map(|asked| self.end_of_epoch(&topic.topic, asked)).collect();
                OffsetForLeaderTopicResult { topic: topic.topic, partitions }
            })
            .collect();
        Ok(Reply::Now(Answer::Send(OffsetForLeaderEpochResponse { topics, ..Default::default() })))
    }
}

impl Broker {
    fn end_of_epoch(&self, topic: &str, asked: &OffsetForLeaderPartition) -> EpochEndOffset {
        let found = self.partition(topic, asked.partition).and_then(|partition| {
            check_leader_epoch(asked.current_leader_epoch, partition.leader_epoch())?;
            Ok(partition.end_offset_for_epoch(asked.leader_epoch))
        });
        let (error, (leader_epoch, end_offset)) = match found {
            Ok(end) => (ErrorCode::None, end),
            Err(error) => (error, (-1, -1)),
        };
        EpochEndOffset { error_code: error.code(), partition: asked.partition, leader_epoch, end_offset }
    }
}
