//! LeaveGroup: members go, or an administrator removes them.

use super::GroupError;
use super::group::Group;
use super::reply::Turn;

/// A LeaveGroup.
#[derive(Debug, Clone)]
pub struct LeaveRequest {
    /// The group.
    pub group: String,
    /// Who leaves.
    pub members: Vec<LeavingMember>,
}

/// One who leaves.
#[derive(Debug, Clone)]
pub struct LeavingMember {
    /// Empty if only the group instance id is known: a static member that an administrator removes.
    pub member_id: String,
    /// What a static member calls itself.
    pub instance_id: Option<String>,
}

impl<T: Send + 'static> Group<T> {
    pub(super) fn leave(
        &mut self,
        leaving: &LeavingMember,
        turn: &mut Turn<'_, T>,
    ) -> Result<(), GroupError> {
        let (member_id, instance_id) = (leaving.member_id.as_str(), leaving.instance_id.as_deref());
        if member_id.is_empty() {
            let current = instance_id.and_then(|instance_id| self.members.of_instance(instance_id));
            let current = current.ok_or(GroupError::UnknownMemberId)?.to_owned();
            self.remove_and_rebalance(&current, turn);
        } else if self.pending_members.contains_key(member_id) {
            self.remove_pending(member_id, turn);
        } else {
            self.check_member(member_id, instance_id)?;
            self.remove_and_rebalance(member_id, turn);
        }
        Ok(())
    }
}
