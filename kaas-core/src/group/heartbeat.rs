//! Heartbeat: a member lives, and hears whether it has to join again.

use super::GroupError;
use super::GroupState::{CompletingRebalance, Empty, PreparingRebalance, Stable};
use super::group::Group;
use crate::coordinator::Now;

/// A Heartbeat.
#[derive(Debug, Clone)]
pub struct HeartbeatRequest {
    /// The group.
    pub group: String,
    /// The caller.
    pub member_id: String,
    /// What a static member calls itself.
    pub instance_id: Option<String>,
    /// The generation that the caller joined.
    pub generation: i32,
}

impl<T: Send + 'static> Group<T> {
    pub(super) fn heartbeat(&mut self, request: &HeartbeatRequest, now: Now) -> Result<(), GroupError> {
        let instance_id = request.instance_id.as_deref();
        self.check_generation(&request.member_id, instance_id, request.generation)?;
        if self.is(Empty) {
            return Err(GroupError::UnknownMemberId);
        }
        self.keep_session(&request.member_id, now);
        match self.state {
            // Consumers send heartbeats as soon as they have joined.
            CompletingRebalance | Stable => Ok(()),
            PreparingRebalance | Empty => Err(GroupError::RebalanceInProgress),
        }
    }
}
