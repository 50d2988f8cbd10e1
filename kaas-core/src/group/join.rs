//! JoinGroup: somebody wants to be a member.

use uuid::Uuid;

use super::GroupError;
use super::GroupState::{CompletingRebalance, Empty, PreparingRebalance, Stable};
use super::group::Group;
use super::member::{Member, Protocols, owned};
use super::options::{GroupOptions, NEW_MEMBER_JOIN_TIMEOUT, PENDING_MEMBERS_MAX, millis};
use super::reply::Turn;

/// A JoinGroup.
#[derive(Debug, Clone)]
pub struct JoinRequest {
    /// The group.
    pub group: String,
    /// Empty for a new member.
    pub member_id: String,
    /// What a static member calls itself (KIP-345).
    pub instance_id: Option<String>,
    /// From the request's header.
    pub client_id: String,
    /// The peer's address, as Kafka prints it.
    pub client_host: String,
    /// How long others are to wait for this member when the group rebalances.
    pub rebalance_timeout_ms: i32,
    /// How long the member may be silent.
    pub session_timeout_ms: i32,
    /// `consumer`, `connect` or what the members call it.
    pub protocol_type: String,
    /// What the member supports, the best first.
    pub protocols: Protocols,
    /// A new dynamic member is only given its member id, and has to join again with it (JoinGroup 4, KIP-394).
    pub requires_known_member_id: bool,
    /// The caller knows `skip_assignment` (JoinGroup 9).
    pub supports_skip_assignment: bool,
    /// Fresh and random: part of the member id that may be made.
    pub uuid: Uuid,
}

impl<T: Send + 'static> Group<T> {
    pub(super) fn join(&mut self, request: JoinRequest, token: T, turn: &mut Turn<'_, T>) {
        if !self.has_room_for(&request.member_id, turn.options) {
            self.remove_member(&request.member_id, turn);
            turn.refuse_join(token, GroupError::GroupMaxSizeReached, "");
        } else if !self.supports(&request) {
            turn.refuse_join(token, GroupError::InconsistentGroupProtocol, &request.member_id);
        } else if request.member_id.is_empty() {
            self.join_new(request, token, turn);
        } else if self.pending_members.contains_key(&request.member_id) {
            self.join_pending(request, token, turn);
        } else {
            self.join_known(request, token, turn);
        }
        if self.is(PreparingRebalance) {
            self.try_complete_join(turn);
        }
    }

    /// Whether `group.max.size` lets this member in. While the group rebalances, those who came first stay.
    fn has_room_for(&self, member_id: &str, options: &GroupOptions) -> bool {
        let member = self.members.get(member_id);
        match self.state {
            Empty => true,
            PreparingRebalance => {
                member.is_some_and(|member| member.join.is_some())
                    || self.members.awaiting_join() < options.max_size
            }
            CompletingRebalance | Stable => member.is_some() || self.members.len() < options.max_size,
        }
    }

    fn supports(&self, request: &JoinRequest) -> bool {
        if self.is(Empty) {
            !request.protocol_type.is_empty() && !request.protocols.is_empty()
        } else {
            self.protocol_type.as_deref() == Some(request.protocol_type.as_str())
                && self.members.have_in_common(&request.protocols)
        }
    }

    fn join_new(&mut self, request: JoinRequest, token: T, turn: &mut Turn<'_, T>) {
        let name = request.instance_id.as_deref().unwrap_or(&request.client_id);
        let member_id = format!("{name}-{}", request.uuid);
        if let Some(instance_id) = request.instance_id.clone() {
            match self.members.of_instance(&instance_id).map(str::to_owned) {
                Some(old) => self.replace_static(&instance_id, &old, &member_id, request, token, turn),
                None => self.add_and_rebalance(&member_id, request, token, turn),
            }
        } else if !request.requires_known_member_id {
            self.add_and_rebalance(&member_id, request, token, turn);
        } else if self.pending_members.len() < PENDING_MEMBERS_MAX {
            let deadline = turn.now.mono.saturating_add(millis(request.session_timeout_ms.into()));
            self.pending_members.insert(member_id.clone(), deadline);
            self.wake_by(deadline);
            turn.refuse_join(token, GroupError::MemberIdRequired, &member_id);
        } else {
            turn.refuse_join(token, GroupError::GroupMaxSizeReached, "");
        }
    }

    fn join_pending(&mut self, request: JoinRequest, token: T, turn: &mut Turn<'_, T>) {
        let member_id = request.member_id.clone();
        if request.instance_id.is_some() {
            turn.refuse_join(token, GroupError::PendingMemberIsDynamic, "");
        } else {
            self.add_and_rebalance(&member_id, request, token, turn);
        }
    }

    fn join_known(&mut self, request: JoinRequest, token: T, turn: &mut Turn<'_, T>) {
        let member_id = request.member_id.clone();
        if let Err(error) = self.check_member(&member_id, request.instance_id.as_deref()) {
            turn.refuse_join(token, error, &member_id);
            return;
        }
        let same = self.members.get(&member_id).is_some_and(|member| member.protocols == request.protocols);
        let stays = match self.state {
            // It may have missed the answer to its first JoinGroup.
            CompletingRebalance => same,
            // A leader that joins again wants to assign anew: it has seen what the coordinator cannot see.
            Stable => same && !self.is_leader(&member_id),
            Empty | PreparingRebalance => false,
        };
        if stays {
            turn.joined(token, self.joined(&member_id));
        } else {
            self.update_member(&member_id, &request, token, turn);
            self.rebalance(turn);
        }
    }

    fn add_and_rebalance(&mut self, member_id: &str, request: JoinRequest, token: T, turn: &mut Turn<'_, T>) {
        if self.is(PreparingRebalance) && self.generation == 0 {
            self.new_member_added = true;
        }
        let member = Member {
            instance_id: request.instance_id,
            client_id: request.client_id,
            client_host: request.client_host,
            rebalance_timeout_ms: request.rebalance_timeout_ms,
            session_timeout_ms: request.session_timeout_ms,
            protocols: owned(&request.protocols),
            assignment: bytes::Bytes::new(),
            join: Some(token),
            sync: None,
            is_new: true,
            expires: None,
        };
        self.add_member(member_id, &request.protocol_type, member);
        self.keep_alive(member_id, NEW_MEMBER_JOIN_TIMEOUT, turn.now);
        self.rebalance(turn);
    }

    /// Takes over what a member says about itself, and lets it wait. Whoever waited in its name is told to come back, where Kafka
    /// leaves the caller without an answer.
    pub(super) fn update_member(
        &mut self,
        member_id: &str,
        request: &JoinRequest,
        token: T,
        turn: &mut Turn<'_, T>,
    ) {
        let (rebalance_ms, session_ms) = (request.rebalance_timeout_ms, request.session_timeout_ms);
        self.members.update(member_id, owned(&request.protocols), rebalance_ms, session_ms);
        if let Some(replaced) = self.members.park_join(member_id, token) {
            turn.refuse_join(replaced, GroupError::RebalanceInProgress, member_id);
        }
    }
}
