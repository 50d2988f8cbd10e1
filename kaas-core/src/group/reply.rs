//! What callers that waited get, and how a call answers them.

use bytes::Bytes;

use super::slot::GroupSlot;
use super::{GroupEntry, GroupError, GroupOptions};
use crate::coordinator::{Now, Outbox};

/// The answer to a JoinGroup or a SyncGroup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GroupReply {
    /// To a JoinGroup.
    Join(Result<Joined, JoinRefused>),
    /// To a SyncGroup.
    Sync(Result<Synced, GroupError>),
}

/// A member of a new generation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Joined {
    /// The caller's, for all that follows.
    pub member_id: String,
    /// Counts the rebalances.
    pub generation: i32,
    /// The group's.
    pub protocol_type: Option<String>,
    /// The one that was chosen.
    pub protocol: Option<String>,
    /// The leader's member id. A static member that took the leader's place gets the old one, unless it knows `skip_assignment`.
    pub leader: Option<String>,
    /// The caller leads a group whose assignment stands: it is not to assign anew (JoinGroup 9).
    pub skip_assignment: bool,
    /// All members, for the leader; nobody for others.
    pub members: Vec<JoinedMember>,
}

/// What the leader learns about a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinedMember {
    /// Made by the coordinator.
    pub member_id: String,
    /// What a static member calls itself.
    pub instance_id: Option<String>,
    /// The member's metadata for the chosen protocol.
    pub metadata: Bytes,
}

/// A JoinGroup that was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinRefused {
    /// Why.
    pub error: GroupError,
    /// What the answer says about the member id: the one to join with, the caller's, or none.
    pub member_id: String,
}

/// A member's assignment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Synced {
    /// The group's.
    pub protocol_type: Option<String>,
    /// The one that was chosen.
    pub protocol: Option<String>,
    /// What the leader assigned; no bytes if it left the member out.
    pub assignment: Bytes,
}

/// One call or tick: its moment, its limits, and what it leaves to be done.
pub(super) struct Turn<'a, T: Send + 'static> {
    pub(super) now: Now,
    pub(super) options: &'a GroupOptions,
    pub(super) out: &'a mut Outbox<GroupSlot<T>>,
}

impl<T: Send + 'static> Turn<'_, T> {
    pub(super) fn record(&mut self, entry: GroupEntry) {
        self.out.entries.push(entry);
    }

    pub(super) fn joined(&mut self, token: T, joined: Joined) {
        self.out.replies.push((token, GroupReply::Join(Ok(joined))));
    }

    pub(super) fn refuse_join(&mut self, token: T, error: GroupError, member_id: &str) {
        let refused = JoinRefused { error, member_id: member_id.to_owned() };
        self.out.replies.push((token, GroupReply::Join(Err(refused))));
    }

    pub(super) fn synced(&mut self, token: T, result: Result<Synced, GroupError>) {
        self.out.replies.push((token, GroupReply::Sync(result)));
    }
}
