//! OffsetDelete (key 47, version 0): forgets where a group goes on, for topics that it is not subscribed to (KIP-496).

use std::sync::Arc;

use kaas_core::group::StoredPartition;
use kaas_proto::messages::offset_delete_response::{
    OffsetDeleteResponsePartition, OffsetDeleteResponseTopic,
};
use kaas_proto::messages::{OffsetDeleteRequest, OffsetDeleteResponse};

use super::offset_commit::merge;
use crate::broker::Broker;
use crate::coordinators::answer;
use crate::error::{ApiError, group_code};
use crate::groups::code_of;
use crate::request::{Answer, Reply, RequestCx};
use crate::router::Handler;

impl Handler<OffsetDeleteRequest> for Broker {
    async fn handle(
        self: Arc<Self>,
        _: RequestCx,
        request: OffsetDeleteRequest,
    ) -> Result<Reply<OffsetDeleteResponse>, ApiError> {
        let partitions = || {
            request
                .topics
                .iter()
                .flat_map(|topic| topic.partitions.iter().map(move |at| (&topic.name, at.partition_index)))
        };
        let known = self.topic_ids(partitions());
        let stored: Vec<StoredPartition> = partitions()
            .zip(&known)
            .filter(|(_, id)| id.is_some())
            .map(|((topic, partition), &topic_id)| StoredPartition {
                topic: topic.to_string(),
                topic_id,
                partition,
            })
            .collect();
        let group = request.group_id.clone();
        let called =
            self.groups.call(&group, |slot, now, out| slot.delete_offsets(&group, &stored, now, out));
        let results = match answer(called).await {
            Ok(deleted) => deleted.map_err(group_code),
            Err(code) => Err(code),
        };
        let codes = match results {
            Ok(results) => merge(&known, results.into_iter().map(code_of)),
            Err(code) => {
                let refused = OffsetDeleteResponse { error_code: code.code(), ..Default::default() };
                return Ok(Reply::Now(Answer::Send(refused)));
            }
        };
        let mut codes = codes.into_iter();
        let topics = request.topics.iter().map(|topic| OffsetDeleteResponseTopic {
            name: topic.name.clone(),
            partitions: topic
                .partitions
                .iter()
                .zip(codes.by_ref())
                .map(|(at, error_code)| OffsetDeleteResponsePartition {
                    partition_index: at.partition_index,
                    error_code,
                })
                .collect(),
        });
        let response = OffsetDeleteResponse { topics: topics.collect(), ..Default::default() };
        Ok(Reply::Now(Answer::Send(response)))
    }
}
