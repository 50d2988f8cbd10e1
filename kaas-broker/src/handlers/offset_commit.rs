//! OffsetCommit (key 8, versions 0-9): where a group goes on.
//!
//! * v0 kept offsets in ZooKeeper: UNSUPPORTED_VERSION for every partition, unless none of them exists. v1: generation and member, and a time for each offset. v2-4: a retention.
//! * v6: leader epochs (KIP-320). v7: static members (KIP-345). v8: flexible. v9: as v8.
//! * The answer leaves when the offsets are durable. Partitions that do not exist are refused before the group is asked.

use std::sync::Arc;

use kaas_core::group::{CommitRequest, Committer, OffsetToCommit};
use kaas_proto::messages::offset_commit_request::OffsetCommitRequestPartition;
use kaas_proto::messages::offset_commit_response::{
    OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};
use kaas_proto::messages::{OffsetCommitRequest, OffsetCommitResponse};
use kaas_proto::{ErrorCode, KStr};

use crate::broker::Broker;
use crate::coordinators::answer;
use crate::error::{ApiError, group_code};
use crate::groups::{code_of, owned};
use crate::request::{Answer, Reply, RequestCx};
use crate::router::Handler;

/// The version whose offsets were ZooKeeper's.
const ZOOKEEPER: i16 = 0;
/// "Now", "the group's retention" and "no leader epoch".
const NOT_SAID: i64 = -1;

impl Handler<OffsetCommitRequest> for Broker {
    async fn handle(
        self: Arc<Self>,
        cx: RequestCx,
        request: OffsetCommitRequest,
    ) -> Result<Reply<OffsetCommitResponse>, ApiError> {
        let partitions = || {
            request.topics.iter().flat_map(|topic| topic.partitions.iter().map(move |at| (&topic.name, at)))
        };
        let exists: Vec<bool> =
            partitions().map(|(topic, at)| self.partition(topic, at.partition_index).is_ok()).collect();
        if cx.version == ZOOKEEPER && exists.contains(&true) {
            let codes = partitions().map(|_| ErrorCode::UnsupportedVersion.code()).collect();
            return Ok(Reply::Now(Answer::Send(response(&request, codes))));
        }
        let commit = CommitRequest {
            committer: Committer {
                group: request.group_id.to_string(),
                member_id: request.member_id.to_string(),
                instance_id: owned(&request.group_instance_id),
                generation: request.generation_id_or_member_epoch,
            },
            offsets: partitions()
                .zip(&exists)
                .filter(|(_, exists)| **exists)
                .map(|(at, _)| offset(at))
                .collect(),
            retention_ms: said(request.retention_time_ms),
        };
        let called = (!commit.offsets.is_empty())
            .then(|| self.groups.call(&request.group_id, |slot, now, out| slot.commit(commit, now, out)));
        Ok(Reply::Later(Box::pin(async move {
            let committed = match called {
                None => Ok(Vec::new()),
                Some(called) => match answer(called).await {
                    Ok(results) => results.map_err(group_code),
                    Err(code) => Err(code),
                },
            };
            let codes = match committed {
                Ok(results) => merge(&exists, results.into_iter().map(code_of)),
                Err(code) => merge(&exists, std::iter::repeat(code.code())),
            };
            Answer::Send(response(&request, codes))
        })))
    }
}

fn said(value: i64) -> Option<i64> {
    (value != NOT_SAID).then_some(value)
}

fn offset((topic, at): (&KStr, &OffsetCommitRequestPartition)) -> OffsetToCommit {
    OffsetToCommit {
        topic: topic.to_string(),
        partition: at.partition_index,
        offset: at.committed_offset,
        leader_epoch: (i64::from(at.committed_leader_epoch) != NOT_SAID).then_some(at.committed_leader_epoch),
        metadata: owned(&at.committed_metadata).unwrap_or_default(),
        commit_timestamp_ms: said(at.commit_timestamp),
    }
}

/// A code for each partition that was asked for: the next of `codes` for one that exists.
pub(super) fn merge(exists: &[bool], mut codes: impl Iterator<Item = i16>) -> Vec<i16> {
    let unknown = ErrorCode::UnknownTopicOrPartition.code();
    exists.iter().map(|exists| if *exists { codes.next().unwrap_or(unknown) } else { unknown }).collect()
}

fn response(request: &OffsetCommitRequest, codes: Vec<i16>) -> OffsetCommitResponse {
    let mut codes = codes.into_iter();
    let topics = request.topics.iter().map(|topic| OffsetCommitResponseTopic {
        name: topic.name.clone(),
        partitions: topic
            .partitions
            .iter()
            .zip(codes.by_ref())
            .map(|(at, error_code)| OffsetCommitResponsePartition {
                partition_index: at.partition_index,
                error_code,
            })
            .collect(),
    });
    OffsetCommitResponse { topics: topics.collect(), ..Default::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_partition_has_its_own_code() {
        let unknown = ErrorCode::UnknownTopicOrPartition.code();
        assert_eq!(merge(&[true, false, true], [0, 12].into_iter()), [0, unknown, 12]);
        assert_eq!(merge(&[false], std::iter::repeat(22)), [unknown]);
    }
}
