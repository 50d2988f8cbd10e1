//! OffsetFetch (key 9, versions 0-9): where groups go on.
//!
//! * v0 kept offsets in ZooKeeper: UNSUPPORTED_VERSION for every partition. v2: null asks for all, and a whole answer has an error; before it is
//!   every partition's. v5: leader epochs (KIP-320). v6: flexible. v7: `require_stable` (KIP-447). v8: several groups (KIP-709). v9: as v8.
//! * Nothing committed is offset -1, and never the answer of a coordinator that has not loaded.

use std::sync::Arc;

use kaas_core::group::{CommittedOffset, FetchedOffset, FetchedTopic};
use kaas_proto::messages::offset_fetch_request::OffsetFetchRequestTopics;
use kaas_proto::messages::offset_fetch_response::{
    OffsetFetchResponseGroup, OffsetFetchResponsePartition, OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic, OffsetFetchResponseTopics,
};
use kaas_proto::messages::{OffsetFetchRequest, OffsetFetchResponse};
use kaas_proto::{ErrorCode, KStr};
use uuid::Uuid;

use crate::broker::Broker;
use crate::coordinators::answer;
use crate::error::{ApiError, group_code};
use crate::request::{Answer, Reply, RequestCx};
use crate::router::Handler;

/// The version whose offsets were ZooKeeper's.
const ZOOKEEPER: i16 = 0;
/// The first version with an error for the whole answer.
const WHOLE_ERROR_FROM: i16 = 2;
/// The first version with several groups.
const SEVERAL_FROM: i16 = 8;
/// "Nothing committed" and "no leader epoch".
const NONE: i32 = -1;

/// Topics with partitions, or all there are.
type Wanted = Option<Vec<(String, Vec<i32>)>>;

impl Handler<OffsetFetchRequest> for Broker {
    async fn handle(
        self: Arc<Self>,
        cx: RequestCx,
        request: OffsetFetchRequest,
    ) -> Result<Reply<OffsetFetchResponse>, ApiError> {
        let OffsetFetchRequest { group_id, topics, groups, require_stable } = request;
        if cx.version >= SEVERAL_FROM {
            let called: Vec<_> = groups
                .into_iter()
                .map(|group| {
                    let wanted = group.topics.map(|topics| topics.iter().map(wanted).collect());
                    (group.group_id.clone(), self.fetch_offsets(&group.group_id, wanted, require_stable))
                })
                .collect();
            return Ok(Reply::Later(Box::pin(async move {
                let mut groups = Vec::with_capacity(called.len());
                for (group_id, fetched) in called {
                    groups.push(group(group_id, fetched.await));
                }
                Answer::Send(OffsetFetchResponse { groups, ..Default::default() })
            })));
        }
        let wanted: Wanted = topics.map(|topics| {
            topics.iter().map(|topic| (topic.name.to_string(), topic.partition_indexes.clone())).collect()
        });
        let fetched = self.fetch_offsets(&group_id, wanted.clone(), require_stable);
        Ok(Reply::Later(Box::pin(async move {
            let fetched =
                if cx.version == ZOOKEEPER { Err(ErrorCode::UnsupportedVersion) } else { fetched.await };
            Answer::Send(match fetched {
                Ok(topics) => OffsetFetchResponse {
                    topics: topics.into_iter().map(topic).collect(),
                    ..Default::default()
                },
                Err(code) if cx.version < WHOLE_ERROR_FROM => everywhere(code, wanted.unwrap_or_default()),
                Err(code) => OffsetFetchResponse { error_code: code.code(), ..Default::default() },
            })
        })))
    }
}

impl Broker {
    fn fetch_offsets(
        &self,
        group: &str,
        wanted: Wanted,
        require_stable: bool,
    ) -> impl Future<Output = Result<Vec<FetchedTopic>, ErrorCode>> + Send + use<> {
        let called = self.groups.call(group, |slot, _, _| {
            let mut topics = slot.fetch_offsets(group, wanted.as_deref(), require_stable);
            for (name, partitions) in &mut topics {
                if let Some(current) = self.topic(name) {
                    hide_earlier(current.id, partitions);
                }
            }
            topics
        });
        answer(called)
    }
}

/// What was committed for an earlier topic says nothing about the current one of that name. A topic that is not known here may be known
/// elsewhere.
fn hide_earlier(current: Uuid, partitions: &mut [(i32, FetchedOffset)]) {
    for fetched in partitions.iter_mut().filter_map(|(_, fetched)| fetched.as_mut().ok()) {
        fetched.take_if(|offset| offset.topic_id != current);
    }
}

fn wanted(topic: &OffsetFetchRequestTopics) -> (String, Vec<i32>) {
    (topic.name.to_string(), topic.partition_indexes.clone())
}

/// The same error for every partition.
fn everywhere(code: ErrorCode, wanted: Vec<(String, Vec<i32>)>) -> OffsetFetchResponse {
    let topics = wanted.into_iter().map(|(name, partitions)| OffsetFetchResponseTopic {
        name: name.into(),
        partitions: partitions
            .into_iter()
            .map(|index| OffsetFetchResponsePartition {
                error_code: code.code(),
                ..partition((index, Ok(None)))
            })
            .collect(),
    });
    OffsetFetchResponse { topics: topics.collect(), ..Default::default() }
}

fn topic((name, partitions): FetchedTopic) -> OffsetFetchResponseTopic {
    let partitions = partitions.into_iter().map(partition).collect();
    OffsetFetchResponseTopic { name: name.into(), partitions }
}

fn partition((partition_index, fetched): (i32, FetchedOffset)) -> OffsetFetchResponsePartition {
    let (code, found) = match fetched {
        Ok(found) => (ErrorCode::None, found),
        Err(error) => (group_code(error), None),
    };
    let (committed_offset, committed_leader_epoch, metadata) = match found {
        Some(CommittedOffset { offset, leader_epoch, metadata, .. }) => {
            (offset, leader_epoch.unwrap_or(NONE), KStr::from(metadata))
        }
        None => (NONE.into(), NONE, KStr::default()),
    };
    OffsetFetchResponsePartition {
        partition_index,
        committed_offset,
        committed_leader_epoch,
        metadata: Some(metadata),
        error_code: code.code(),
    }
}

fn group(group_id: KStr, fetched: Result<Vec<FetchedTopic>, ErrorCode>) -> OffsetFetchResponseGroup {
    match fetched {
        Err(code) => OffsetFetchResponseGroup { group_id, error_code: code.code(), ..Default::default() },
        Ok(topics) => {
            let topics = topics.into_iter().map(|fetched| {
                let OffsetFetchResponseTopic { name, partitions } = topic(fetched);
                OffsetFetchResponseTopics { name, partitions: partitions.into_iter().map(several).collect() }
            });
            OffsetFetchResponseGroup { group_id, topics: topics.collect(), ..Default::default() }
        }
    }
}

/// The same partition, in the type that the versions with several groups have.
fn several(partition: OffsetFetchResponsePartition) -> OffsetFetchResponsePartitions {
    OffsetFetchResponsePartitions {
        partition_index: partition.partition_index,
        committed_offset: partition.committed_offset,
        committed_leader_epoch: partition.committed_leader_epoch,
        metadata: partition.metadata,
        error_code: partition.error_code,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_earlier_topics_offset_is_not_the_next_ones() {
        let offset = |id| CommittedOffset {
            topic_id: Uuid::from_u128(id),
            offset: 7,
            leader_epoch: None,
            metadata: String::new(),
            commit_timestamp_ms: 0,
            expire_timestamp_ms: None,
        };
        let mut partitions = [(0, Ok(Some(offset(1)))), (1, Ok(Some(offset(2)))), (2, Ok(None))];
        hide_earlier(Uuid::from_u128(2), &mut partitions);
        assert_eq!(partitions, [(0, Ok(None)), (1, Ok(Some(offset(2)))), (2, Ok(None))]);
    }
}
