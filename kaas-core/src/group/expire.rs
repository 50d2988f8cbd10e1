//! What happens when nobody calls: sessions, member ids, joins, syncs and offsets whose time is over.

use std::time::Duration;

use super::group::Group;
use super::reply::Turn;

/// What is due in a group.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    /// A member has been silent for too long.
    Session(String),
    /// A member id that was handed out has not been used.
    Pending(String),
    /// The wait for members to join.
    Join,
    /// The wait for members to ask for their assignment.
    Sync,
    /// A look at the age of offsets.
    Cleanup,
}

impl<T: Send + 'static> Group<T> {
    /// Does what is due, in the order in which it became so. True if the group is to be removed.
    pub(super) fn tick(&mut self, turn: &mut Turn<'_, T>) -> bool {
        let now = turn.now.mono;
        let mut dead = false;
        loop {
            let mut due: Vec<(Duration, Due)> = self.deadlines().filter(|(at, _)| *at <= now).collect();
            if due.is_empty() {
                break;
            }
            due.sort_unstable();
            for (_, due) in due {
                dead |= self.expire(due, turn);
            }
        }
        self.wake = self.deadlines().map(|(at, _)| at).min().unwrap_or(self.cleanup_at);
        dead
    }

    fn deadlines(&self) -> impl Iterator<Item = (Duration, Due)> {
        let sessions = self.members.iter().filter_map(|(id, member)| Some((member.expires?, id)));
        let pending = self.pending_members.iter().map(|(id, &at)| (at, Due::Pending(id.clone())));
        sessions
            .map(|(at, id)| (at, Due::Session(id.to_owned())))
            .chain(pending)
            .chain(self.join_phase.map(|phase| (phase.deadline, Due::Join)))
            .chain(self.sync_deadline.map(|at| (at, Due::Sync)))
            .chain([(self.cleanup_at, Due::Cleanup)])
    }

    /// Lets one thing expire, if nothing that expired before it has put it off.
    fn expire(&mut self, due: Due, turn: &mut Turn<'_, T>) -> bool {
        let now = turn.now.mono;
        let is_due = |deadline: Option<Duration>| deadline.is_some_and(|at| at <= now);
        match due {
            Due::Session(id) => {
                let member = self.members.get(&id);
                if is_due(member.and_then(|member| member.expires)) {
                    self.expire_session(&id, turn);
                }
            }
            Due::Pending(id) if is_due(self.pending_members.get(&id).copied()) => {
                self.remove_pending(&id, turn);
            }
            Due::Join if is_due(self.join_phase.map(|phase| phase.deadline)) => self.expire_join(turn),
            Due::Sync if is_due(self.sync_deadline) => self.expire_sync(turn),
            Due::Cleanup if is_due(Some(self.cleanup_at)) => {
                self.cleanup_at = now.saturating_add(turn.options.retention_check_interval());
                return self.expire_offsets(turn);
            }
            Due::Pending(_) | Due::Join | Due::Sync | Due::Cleanup => {}
        }
        false
    }

    fn expire_session(&mut self, member_id: &str, turn: &mut Turn<'_, T>) {
        if self.members.get(member_id).is_some_and(super::member::Member::may_be_silent) {
            // It gets another timeout when its wait ends.
            self.members.adjust(member_id, |member| member.expires = None);
        } else {
            self.remove_and_rebalance(member_id, turn);
        }
    }

    /// Members that have not asked for their assignment are gone. Static ones too.
    fn expire_sync(&mut self, turn: &mut Turn<'_, T>) {
        let silent: Vec<String> = self.pending_sync.drain().collect();
        for id in &silent {
            self.remove_member(id, turn);
        }
        self.sync_deadline = None;
        self.prepare_rebalance(turn);
    }
}
