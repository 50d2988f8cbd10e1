//! OffsetCommit (key 8, versions 0-9): where a group goes on.
//!
//! * v0 kept offsets in ZooKeeper: UNSUPPORTED_VERSION for every partition, unless none of them exists. v1: generation and member, and a time for each offset. v2-4: a retention.
//! * v6: leader epochs (KIP-320). v7: static members (KIP-345). v8: flexible. v9: as v8.
//! * The answer leaves when the offsets are durable. Partitions that do not exist are refused before the group is asked.

use std::sync::Arc;

use kaas_core::group::{CommitRequest, CommitResults, Committer, GroupError, OffsetToCommit};
use kaas_proto::messages::offset_commit_request::OffsetCommitRequestPartition;
use kaas_proto::messages::offset_commit_response::{
    OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};
use kaas_proto::messages::{OffsetCommitRequest, OffsetCommitResponse};
use kaas_proto::{ErrorCode, KStr};
use uuid::Uuid;

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
        let topic_ids = || self.topic_ids(partitions().map(|(topic, at)| (topic, at.partition_index)));
        let known = topic_ids();
        let exists = known.iter().any(Option::is_some);
        if cx.version == ZOOKEEPER && exists {
            let codes = known.iter().map(|_| ErrorCode::UnsupportedVersion.code()).collect();
            return Ok(Reply::Now(Answer::Send(response(&request, codes))));
        }
        let committer = Committer {
            group: request.group_id.to_string(),
            member_id: request.member_id.to_string(),
            instance_id: owned(&request.group_instance_id),
            generation: request.generation_id_or_member_epoch,
        };
        let retention_ms = said(request.retention_time_ms);
        let called = exists.then(|| {
            self.groups.call(&request.group_id, |slot, now, out| {
                // Looked at again: whoever deletes a topic comes to the slot when it is gone, and forgets what was committed.
                let known = topic_ids();
                let offsets = partitions().zip(&known).filter_map(|(at, id)| Some(offset(at, (*id)?)));
                let commit = CommitRequest { committer, offsets: offsets.collect(), retention_ms };
                let results =
                    if commit.offsets.is_empty() { Ok(Vec::new()) } else { slot.commit(commit, now, out) };
                (known, results)
            })
        });
        Ok(Reply::Later(Box::pin(async move {
            let committed = match called {
                Some(called) => answer(called).await,
                None => Ok((known.clone(), Ok(Vec::new()))),
            };
            Answer::Send(response(&request, codes(&known, committed, ErrorCode::code)))
        })))
    }
}

fn said(value: i64) -> Option<i64> {
    (value != NOT_SAID).then_some(value)
}

fn offset((topic, at): (&KStr, &OffsetCommitRequestPartition), topic_id: Uuid) -> OffsetToCommit {
    OffsetToCommit {
        topic: topic.to_string(),
        topic_id,
        partition: at.partition_index,
        offset: at.committed_offset,
        leader_epoch: (i64::from(at.committed_leader_epoch) != NOT_SAID).then_some(at.committed_leader_epoch),
        metadata: owned(&at.committed_metadata).unwrap_or_default(),
        commit_timestamp_ms: said(at.commit_timestamp),
    }
}

/// What became of a commit: the topics as they were then, and the offsets of those that there were.
pub(super) type Committed = (Vec<Option<Uuid>>, Result<CommitResults, GroupError>);

/// A code for each partition that was asked for, of which `known` were known before the group was asked.
pub(super) fn codes(
    known: &[Option<Uuid>],
    committed: Result<Committed, ErrorCode>,
    code_for: impl Fn(ErrorCode) -> i16,
) -> Vec<i16> {
    match committed {
        Ok((known, Ok(results))) => merge(&known, results.into_iter().map(code_of)),
        Ok((known, Err(error))) => merge(&known, std::iter::repeat(code_for(group_code(error)))),
        Err(code) => merge(known, std::iter::repeat(code_for(code))),
    }
}

/// A code for each partition that was asked for: the next of `codes` for one that exists.
pub(super) fn merge(known: &[Option<Uuid>], mut codes: impl Iterator<Item = i16>) -> Vec<i16> {
    let unknown = ErrorCode::UnknownTopicOrPartition.code();
    known.iter().map(|id| id.and_then(|_| codes.next()).unwrap_or(unknown)).collect()
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
        let exists = Some(Uuid::nil());
        assert_eq!(merge(&[exists, None, exists], [0, 12].into_iter()), [0, unknown, 12]);
        assert_eq!(merge(&[None], std::iter::repeat(22)), [unknown]);
    }
}
