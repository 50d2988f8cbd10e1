//! One member of a group.

use std::time::Duration;

use bytes::Bytes;

use super::entry::StoredMember;
use super::options::millis;

/// What a member can do, the one that it likes best first: names of protocols, each with the member's metadata for it.
pub type Protocols = Vec<(String, Bytes)>;

/// What is known about a member. `T` stands for its callers that wait.
pub(super) struct Member<T> {
    pub(super) instance_id: Option<String>,
    pub(super) client_id: String,
    pub(super) client_host: String,
    pub(super) rebalance_timeout_ms: i32,
    pub(super) session_timeout_ms: i32,
    pub(super) protocols: Protocols,
    pub(super) assignment: Bytes,
    /// Its JoinGroup, answered when all have joined.
    pub(super) join: Option<T>,
    /// Its SyncGroup, answered when the leader has assigned.
    pub(super) sync: Option<T>,
    /// It has not seen the end of a rebalance yet.
    pub(super) is_new: bool,
    /// When it counts as gone, unless it waits by then.
    pub(super) expires: Option<Duration>,
}

impl<T> Member<T> {
    pub(super) fn session_timeout(&self) -> Duration {
        millis(self.session_timeout_ms.into())
    }

    /// Its metadata for a protocol.
    pub(super) fn metadata(&self, protocol: &str) -> Bytes {
        self.protocols
            .iter()
            .find(|(name, _)| name == protocol)
            .map(|(_, bytes)| bytes.clone())
            .unwrap_or_default()
    }

    /// Whether the coordinator has to hear nothing from it: it waits for the coordinator. A new member's wait has an end.
    pub(super) fn may_be_silent(&self) -> bool {
        !self.is_new && (self.join.is_some() || self.sync.is_some())
    }

    pub(super) fn stored(&self, member_id: &str, protocol: Option<&str>) -> StoredMember {
        StoredMember {
            member_id: member_id.to_owned(),
            group_instance_id: self.instance_id.clone(),
            client_id: self.client_id.clone(),
            client_host: self.client_host.clone(),
            rebalance_timeout_ms: self.rebalance_timeout_ms,
            session_timeout_ms: self.session_timeout_ms,
            subscription: protocol.map(|name| self.metadata(name)).unwrap_or_default(),
            assignment: self.assignment.clone(),
        }
    }

    /// A member of an earlier life. It supports what was chosen then, for nothing else was stored.
    pub(super) fn loaded(stored: &StoredMember, protocol: Option<&str>) -> Self {
        Self {
            instance_id: stored.group_instance_id.clone(),
            client_id: stored.client_id.clone(),
            client_host: stored.client_host.clone(),
            rebalance_timeout_ms: stored.rebalance_timeout_ms,
            session_timeout_ms: stored.session_timeout_ms,
            protocols: protocol
                .map(|name| (name.to_owned(), stored.subscription.clone()))
                .into_iter()
                .collect(),
            assignment: stored.assignment.clone(),
            join: None,
            sync: None,
            is_new: false,
            expires: None,
        }
    }
}

/// A copy that holds nothing but itself in memory: what came in a request is a slice of the whole frame.
pub(super) fn owned(protocols: &Protocols) -> Protocols {
    protocols.iter().map(|(name, metadata)| (name.clone(), Bytes::copy_from_slice(metadata))).collect()
}
