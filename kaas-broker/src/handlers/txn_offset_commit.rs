//! TxnOffsetCommit (key 28, versions 0-3): offsets that count when the transaction is committed.
//!
//! * v2: leader epochs; a coordinator that loads may be told of. v3: flexible; members and generations are checked (KIP-447).
//! * The group must take part in the transaction (AddOffsetsToTxn): its coordinator is asked before the first commit (KIP-890).
//! * What is asked about partitions that do not exist is answered without the group.

use std::sync::Arc;

use kaas_core::TxnProof;
use kaas_core::coordinator::{CoordinatorError, Pending};
use kaas_core::group::{Committer, OffsetToCommit, TxnCommitRequest};
use kaas_core::transaction::{ProducerIdentity, offsets_partition};
use kaas_proto::messages::txn_offset_commit_request::TxnOffsetCommitRequestPartition;
use kaas_proto::messages::txn_offset_commit_response::{
    TxnOffsetCommitResponsePartition, TxnOffsetCommitResponseTopic,
};
use kaas_proto::messages::{TxnOffsetCommitRequest, TxnOffsetCommitResponse};
use kaas_proto::{ErrorCode, KStr};
use uuid::Uuid;

use super::offset_commit::{Committed, codes};
use crate::broker::Broker;
use crate::coordinators::answer;
use crate::error::{ApiError, coordinator_code};
use crate::groups::owned;
use crate::request::{Answer, Reply, RequestCx};
use crate::router::Handler;
use crate::transactions::outcome;

/// "No leader epoch".
const NO_EPOCH: i32 = -1;
/// The first version whose clients know COORDINATOR_LOAD_IN_PROGRESS (KAFKA-7296).
const LOADING_FROM: i16 = 2;

/// What became of the offsets.
type Called = Result<Pending<Committed>, CoordinatorError>;

impl Handler<TxnOffsetCommitRequest> for Broker {
    async fn handle(
        self: Arc<Self>,
        cx: RequestCx,
        request: TxnOffsetCommitRequest,
    ) -> Result<Reply<TxnOffsetCommitResponse>, ApiError> {
        let known = self.topic_ids(places(&request));
        let called = match known.iter().any(Option::is_some) {
            true => Some(self.commit_in_transaction(&request).await),
            false => None,
        };
        Ok(Reply::Later(Box::pin(async move {
            let committed = match called {
                None => Ok((known.clone(), Ok(Vec::new()))),
                Some(Err(code)) => Err(code),
                Some(Ok(called)) => answer(called).await,
            };
            let codes = codes(&known, committed, |code| code_for(code, cx.version));
            Answer::Send(response(&request, codes))
        })))
    }
}

impl Broker {
    async fn commit_in_transaction(&self, request: &TxnOffsetCommitRequest) -> Result<Called, ErrorCode> {
        if request.group_id.is_empty() {
            return Err(ErrorCode::InvalidGroupId);
        }
        let committer = Committer {
            group: request.group_id.to_string(),
            member_id: request.member_id.to_string(),
            instance_id: owned(&request.group_instance_id),
            generation: request.generation_id,
        };
        let TxnOffsetCommitRequest { producer_id, producer_epoch, .. } = *request;
        let proof = self.proof(request).await?;
        Ok(self.groups.call(&request.group_id, |slot, now, out| {
            // Looked at again, for the reason that OffsetCommit has.
            let known = self.topic_ids(places(request));
            let offsets = partitions(request).zip(&known).filter_map(|(at, id)| Some(offset(at, (*id)?)));
            let offsets: Vec<_> = offsets.collect();
            if offsets.is_empty() {
                return (known, Ok(Vec::new()));
            }
            let commit = TxnCommitRequest { committer, offsets, producer_id, producer_epoch, proof };
            (known, slot.commit_transactional(commit, now, out))
        }))
    }

    /// What is known about the transaction. The group's slot hands out a guard before the question, and knows by it whether the
    /// transaction has ended meanwhile.
    async fn proof(&self, request: &TxnOffsetCommitRequest) -> Result<TxnProof, ErrorCode> {
        if !self.config.verify_transactions {
            return Ok(TxnProof::NotRequired);
        }
        let TxnOffsetCommitRequest { transactional_id: id, producer_id, producer_epoch, .. } = request;
        let (producer_id, producer_epoch) = (*producer_id, *producer_epoch);
        let asked = self
            .groups
            .call_now(&request.group_id, |slot, now, _| slot.verification(producer_id, producer_epoch, now));
        let guard = asked.map_err(|error| coordinator_code(&error))?;
        let Some(guard) = guard else { return Ok(TxnProof::None) };
        let (topic, partition) = offsets_partition(&request.group_id);
        let producer = ProducerIdentity { producer_id, producer_epoch };
        let called =
            self.transactions.call(id, |slot, _, _| slot.verify_partition(id, producer, &topic, partition));
        match outcome(called).await {
            Ok(()) => Ok(TxnProof::Verified(guard)),
            Err(code) => Err(unverified(code)),
        }
    }
}

/// How a producer is told that its transaction could not be verified, so that it does the right thing: tries again, or gives up.
fn unverified(code: ErrorCode) -> ErrorCode {
    match code {
        ErrorCode::ConcurrentTransactions
        | ErrorCode::CoordinatorLoadInProgress
        | ErrorCode::CoordinatorNotAvailable
        | ErrorCode::NotCoordinator => ErrorCode::CoordinatorNotAvailable,
        ErrorCode::ProducerFenced => ErrorCode::InvalidProducerEpoch,
        code => code,
    }
}

fn code_for(code: ErrorCode, version: i16) -> i16 {
    match code {
        ErrorCode::CoordinatorLoadInProgress if version < LOADING_FROM => ErrorCode::CoordinatorNotAvailable,
        code => code,
    }
    .code()
}

fn partitions(
    request: &TxnOffsetCommitRequest,
) -> impl Iterator<Item = (&KStr, &TxnOffsetCommitRequestPartition)> {
    request.topics.iter().flat_map(|topic| topic.partitions.iter().map(move |at| (&topic.name, at)))
}

fn places(request: &TxnOffsetCommitRequest) -> impl Iterator<Item = (&KStr, i32)> {
    partitions(request).map(|(topic, at)| (topic, at.partition_index))
}

fn offset((topic, at): (&KStr, &TxnOffsetCommitRequestPartition), topic_id: Uuid) -> OffsetToCommit {
    OffsetToCommit {
        topic: topic.to_string(),
        topic_id,
        partition: at.partition_index,
        offset: at.committed_offset,
        leader_epoch: (at.committed_leader_epoch != NO_EPOCH).then_some(at.committed_leader_epoch),
        metadata: owned(&at.committed_metadata).unwrap_or_default(),
        commit_timestamp_ms: None,
    }
}

fn response(request: &TxnOffsetCommitRequest, codes: Vec<i16>) -> TxnOffsetCommitResponse {
    let mut codes = codes.into_iter();
    let mut partition = |at: &TxnOffsetCommitRequestPartition| TxnOffsetCommitResponsePartition {
        partition_index: at.partition_index,
        error_code: codes.next().unwrap_or(ErrorCode::UnknownServerError.code()),
    };
    let topics = request.topics.iter().map(|topic| TxnOffsetCommitResponseTopic {
        name: topic.name.clone(),
        partitions: topic.partitions.iter().map(&mut partition).collect(),
    });
    TxnOffsetCommitResponse { topics: topics.collect(), ..Default::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_retry_may_change_is_told_by_a_code_that_is_retried() {
        for code in [
            ErrorCode::ConcurrentTransactions,
            ErrorCode::CoordinatorLoadInProgress,
            ErrorCode::CoordinatorNotAvailable,
            ErrorCode::NotCoordinator,
        ] {
            assert!(unverified(code).is_retriable());
        }
        assert_eq!(unverified(ErrorCode::ProducerFenced), ErrorCode::InvalidProducerEpoch);
        assert_eq!(unverified(ErrorCode::InvalidTxnState), ErrorCode::InvalidTxnState);
        let loading = ErrorCode::CoordinatorLoadInProgress;
        assert_eq!(code_for(loading, 1), ErrorCode::CoordinatorNotAvailable.code());
        assert_eq!(code_for(loading, 2), loading.code());
    }
}
