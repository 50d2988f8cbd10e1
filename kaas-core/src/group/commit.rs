//! OffsetCommit and TxnOffsetCommit.

use uuid::Uuid;

use super::GroupError;
use super::GroupState::{CompletingRebalance, Empty};
use super::entry::{GroupEntry, PendingIn, StoredOffset};
use super::group::Group;
use super::options::GroupOptions;
use super::reply::Turn;
use crate::TxnProof;

/// An OffsetCommit.
#[derive(Debug, Clone)]
pub struct CommitRequest {
    /// Who commits.
    pub committer: Committer,
    /// What is committed.
    pub offsets: Vec<OffsetToCommit>,
    /// How long to keep the offsets, if the committer says so (OffsetCommit 2 to 4), in milliseconds.
    pub retention_ms: Option<i64>,
}

/// A TxnOffsetCommit.
#[derive(Debug, Clone)]
pub struct TxnCommitRequest {
    /// Who commits. Old clients say nothing but the group (KIP-447).
    pub committer: Committer,
    /// What is committed when the transaction is.
    pub offsets: Vec<OffsetToCommit>,
    /// The transactional producer.
    pub producer_id: i64,
    /// Its epoch.
    pub producer_epoch: i16,
    /// What is known about its transaction.
    pub proof: TxnProof,
}

/// Who commits.
#[derive(Debug, Clone)]
pub struct Committer {
    /// The group.
    pub group: String,
    /// Empty for one who is not a member.
    pub member_id: String,
    /// What a static member calls itself.
    pub instance_id: Option<String>,
    /// The generation that the caller joined. Negative for one who is not a member.
    pub generation: i32,
}

/// An offset that is to be committed.
#[derive(Debug, Clone)]
pub struct OffsetToCommit {
    /// The topic's name.
    pub topic: String,
    /// The topic's identity.
    pub topic_id: Uuid,
    /// The partition.
    pub partition: i32,
    /// The next record to read.
    pub offset: i64,
    /// The leader epoch of the last record that was read.
    pub leader_epoch: Option<i32>,
    /// Whatever the committer wants to remember.
    pub metadata: String,
    /// When the offset counts as committed, if not now (OffsetCommit 1), in milliseconds since the epoch.
    pub commit_timestamp_ms: Option<i64>,
}

/// What became of each offset, in the order of the request.
pub type CommitResults = Vec<Result<(), GroupError>>;

impl<T: Send + 'static> Group<T> {
    pub(super) fn commit(
        &mut self,
        request: CommitRequest,
        turn: &mut Turn<'_, T>,
    ) -> Result<CommitResults, GroupError> {
        let committer = &request.committer;
        self.check_committer(committer, false)?;
        if self.is(CompletingRebalance) {
            return Err(GroupError::RebalanceInProgress);
        }
        self.keep_session(&committer.member_id, turn.now);
        let expires = request.retention_ms.map(|ms| turn.now.wall_ms.saturating_add(ms));
        Ok(self.keep(request.offsets, expires, None, turn))
    }

    pub(super) fn commit_transactional(
        &mut self,
        request: TxnCommitRequest,
        turn: &mut Turn<'_, T>,
    ) -> Result<CommitResults, GroupError> {
        self.check_committer(&request.committer, true)?;
        let (producer_id, producer_epoch) = (request.producer_id, request.producer_epoch);
        Ok(self.keep(request.offsets, None, Some(PendingIn { producer_id, producer_epoch }), turn))
    }

    fn check_committer(&self, committer: &Committer, transactional: bool) -> Result<(), GroupError> {
        let Committer { member_id, instance_id, generation, .. } = committer;
        if *generation < 0 && self.is(Empty) {
            // One who reads without being a member, or an administrator.
            Ok(())
        } else if *generation >= 0 || !member_id.is_empty() || instance_id.is_some() {
            self.check_generation(member_id, instance_id.as_deref(), *generation)
        } else if transactional || self.is(Empty) {
            // Transactional producers before KIP-447 do not say who they are.
            Ok(())
        } else {
            Err(GroupError::UnknownMemberId)
        }
    }

    fn keep(
        &mut self,
        offsets: Vec<OffsetToCommit>,
        expires: Option<i64>,
        pending_in: Option<PendingIn>,
        turn: &mut Turn<'_, T>,
    ) -> CommitResults {
        let check = |offset: &OffsetToCommit| check_metadata(&offset.metadata, turn.options);
        let results: CommitResults = offsets.iter().map(check).collect();
        let kept = offsets.into_iter().zip(&results).filter(|(_, result)| result.is_ok());
        let stored: Vec<StoredOffset> =
            kept.map(|(offset, _)| offset.stored(turn.now.wall_ms, expires)).collect();
        if !stored.is_empty() {
            turn.record(GroupEntry::offsets(&self.id, stored.clone(), pending_in));
            self.offsets.commit(stored, pending_in);
        }
        results
    }
}

impl OffsetToCommit {
    fn stored(self, now_ms: i64, expires: Option<i64>) -> StoredOffset {
        StoredOffset {
            topic: self.topic,
            topic_id: self.topic_id,
            partition: self.partition,
            offset: self.offset,
            leader_epoch: self.leader_epoch,
            metadata: self.metadata,
            commit_timestamp_ms: self.commit_timestamp_ms.unwrap_or(now_ms),
            expire_timestamp_ms: expires,
        }
    }
}

fn check_metadata(metadata: &str, options: &GroupOptions) -> Result<(), GroupError> {
    let max = options.offset_metadata_max;
    // No text has more UTF-16 units than bytes.
    if metadata.len() > max && metadata.encode_utf16().count() > max {
        return Err(GroupError::OffsetMetadataTooLarge);
    }
    Ok(())
}
