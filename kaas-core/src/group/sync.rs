//! SyncGroup: the leader assigns, everyone is told.

use std::collections::HashMap;

use bytes::Bytes;

use super::GroupError;
use super::GroupState::{CompletingRebalance, Empty, PreparingRebalance, Stable};
use super::group::Group;
use super::reply::{Synced, Turn};

/// A SyncGroup.
#[derive(Debug, Clone)]
pub struct SyncRequest {
    /// The group.
    pub group: String,
    /// The caller.
    pub member_id: String,
    /// What a static member calls itself.
    pub instance_id: Option<String>,
    /// The generation that the caller joined.
    pub generation: i32,
    /// What the caller takes the group's protocol type for, if it says so (SyncGroup 5, KIP-559).
    pub protocol_type: Option<String>,
    /// What the caller takes the chosen protocol for, if it says so.
    pub protocol: Option<String>,
    /// What each member gets, by member id. Only the leader's counts.
    pub assignments: Vec<(String, Bytes)>,
}

impl<T: Send + 'static> Group<T> {
    pub(super) fn sync(&mut self, request: SyncRequest, token: T, turn: &mut Turn<'_, T>) {
        if let Err(error) = self.check_sync(&request) {
            turn.synced(token, Err(error));
            return;
        }
        let member_id = request.member_id.as_str();
        match self.state {
            Empty => turn.synced(token, Err(GroupError::UnknownMemberId)),
            PreparingRebalance => turn.synced(token, Err(GroupError::RebalanceInProgress)),
            CompletingRebalance => {
                self.park_sync(member_id, token, turn);
                if self.is_leader(member_id) {
                    self.assign(request.assignments, turn);
                }
            }
            Stable => {
                self.has_synced(member_id);
                turn.synced(token, Ok(self.synced(member_id)));
                self.keep_session(member_id, turn.now);
            }
        }
    }

    fn check_sync(&self, request: &SyncRequest) -> Result<(), GroupError> {
        self.check_generation(&request.member_id, request.instance_id.as_deref(), request.generation)?;
        let differs = |said: &Option<String>, own: &Option<String>| said.is_some() && said != own;
        if differs(&request.protocol_type, &self.protocol_type) || differs(&request.protocol, &self.protocol)
        {
            return Err(GroupError::InconsistentGroupProtocol);
        }
        Ok(())
    }

    /// Lets a SyncGroup wait. Whoever waited in the member's name is told to join again, where Kafka leaves it without an answer.
    fn park_sync(&mut self, member_id: &str, token: T, turn: &mut Turn<'_, T>) {
        let mut replaced = None;
        self.members.adjust(member_id, |member| replaced = member.sync.replace(token));
        if let Some(replaced) = replaced {
            turn.synced(replaced, Err(GroupError::RebalanceInProgress));
        }
        self.has_synced(member_id);
    }

    fn has_synced(&mut self, member_id: &str) {
        self.pending_sync.remove(member_id);
        if self.pending_sync.is_empty() {
            self.sync_deadline = None;
        }
    }

    /// Makes the leader's assignment the group's. Members that it left out get no bytes.
    fn assign(&mut self, assignments: Vec<(String, Bytes)>, turn: &mut Turn<'_, T>) {
        let assignments: HashMap<String, Bytes> = assignments.into_iter().collect();
        self.members.adjust_all(|id, member| {
            member.assignment =
                assignments.get(id).map(|bytes| Bytes::copy_from_slice(bytes)).unwrap_or_default();
        });
        self.transition(Stable, turn.now);
        self.store(turn);
        for id in self.members.ids() {
            let mut waiting = None;
            self.members.adjust(&id, |member| waiting = member.sync.take());
            if let Some(token) = waiting {
                turn.synced(token, Ok(self.synced(&id)));
                self.keep_session(&id, turn.now);
            }
        }
    }

    fn synced(&self, member_id: &str) -> Synced {
        Synced {
            protocol_type: self.protocol_type.clone(),
            protocol: self.protocol.clone(),
            assignment: self
                .members
                .get(member_id)
                .map(|member| member.assignment.clone())
                .unwrap_or_default(),
        }
    }
}
