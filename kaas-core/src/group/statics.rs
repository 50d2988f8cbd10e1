//! Static members (KIP-345): one that comes back takes its own place.

use super::GroupError;
use super::GroupState::{CompletingRebalance, Empty, PreparingRebalance, Stable};
use super::group::Group;
use super::join::JoinRequest;
use super::reply::Turn;

impl<T: Send + 'static> Group<T> {
    /// Puts a new member id in the place of the one that the group instance id stood for. Whoever still uses the old one is fenced.
    pub(super) fn replace_static(
        &mut self,
        instance_id: &str,
        old: &str,
        new: &str,
        request: JoinRequest,
        token: T,
        turn: &mut Turn<'_, T>,
    ) {
        debug_assert_eq!(self.members.of_instance(instance_id), Some(old));
        let old_leader = self.leader.clone();
        self.rename(old, new, turn);
        // Under the old session timeout, as in Kafka: the new one counts from the next sign of life.
        self.keep_session(new, turn.now);
        self.update_member(new, &request, token, turn);
        match self.state {
            Stable if self.protocol == self.members.elect_protocol() => {
                self.store(turn);
                self.answer_replacement(new, old_leader, request.supports_skip_assignment, turn);
            }
            Stable => self.prepare_rebalance(turn),
            // The leader may be about to assign to the old member id.
            CompletingRebalance => self.prepare_rebalance(turn),
            PreparingRebalance => {}
            Empty => debug_assert!(false, "an empty group has no static members"),
        }
    }

    fn rename(&mut self, old: &str, new: &str, turn: &mut Turn<'_, T>) {
        if let Some(token) = self.members.take_join(old) {
            turn.refuse_join(token, GroupError::FencedInstanceId, old);
        }
        let Some(mut member) = self.members.remove(old) else { return };
        if let Some(token) = member.sync.take() {
            turn.synced(token, Err(GroupError::FencedInstanceId));
        }
        self.members.insert(new.to_owned(), member);
        if self.is_leader(old) {
            self.leader = Some(new.to_owned());
        }
        // `pending_sync` keeps the old id, as in Kafka: a member that was replaced before it had its assignment makes the group
        // rebalance when the time to ask for it is over.
    }

    /// The group stays as it is. A leader is not to assign: nobody would hear of it. Callers that do not know `skip_assignment`
    /// are told a leader that is not there, so that none takes itself for it.
    fn answer_replacement(
        &mut self,
        member_id: &str,
        old_leader: Option<String>,
        supports_skip_assignment: bool,
        turn: &mut Turn<'_, T>,
    ) {
        let Some(token) = self.members.take_join(member_id) else { return };
        let mut joined = self.joined(member_id);
        if supports_skip_assignment {
            joined.skip_assignment = self.is_leader(member_id);
        } else {
            joined.leader = old_leader;
            joined.members = Vec::new();
        }
        turn.joined(token, joined);
    }
}
