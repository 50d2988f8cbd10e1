//! The members come together: from the first JoinGroup to the answers of all.

use std::time::Duration;

use super::GroupError;
use super::GroupState::{CompletingRebalance, Empty, PreparingRebalance, Stable};
use super::group::Group;
use super::options::REBALANCE_RETRY_MIN;
use super::reply::Turn;

/// Members are waited for.
#[derive(Debug, Clone, Copy)]
pub(super) struct JoinPhase {
    /// Until when.
    pub(super) deadline: Duration,
    /// The group was empty: more members may come that nobody knows yet.
    initial: Option<InitialDelay>,
}

#[derive(Debug, Clone, Copy)]
struct InitialDelay {
    /// How long this delay is.
    delay: Duration,
    /// How much longer the delays that follow may be together.
    remaining: Duration,
}

impl<T: Send + 'static> Group<T> {
    /// Begins a rebalance, unless one has begun already.
    pub(super) fn rebalance(&mut self, turn: &mut Turn<'_, T>) {
        if !self.is(PreparingRebalance) {
            self.prepare_rebalance(turn);
        }
    }

    /// Calls the members together. Those that wait for an assignment have to join again.
    pub(super) fn prepare_rebalance(&mut self, turn: &mut Turn<'_, T>) {
        if self.is(CompletingRebalance) {
            self.cancel_syncs(turn);
        }
        self.pending_sync.clear();
        self.sync_deadline = None;
        let timeout = self.members.rebalance_timeout();
        if self.is(Empty) {
            let delay = turn.options.initial_rebalance_delay();
            let initial = InitialDelay { delay, remaining: timeout.saturating_sub(delay) };
            self.join_until(delay, Some(initial), turn);
        } else {
            self.join_until(timeout, None, turn);
        }
        self.transition(PreparingRebalance, turn.now);
        if turn.options.initial_rebalance_delay().is_zero() {
            // Nobody waits for those who might come.
            self.join_phase.iter_mut().for_each(|phase| phase.initial = None);
        }
        self.try_complete_join(turn);
    }

    fn join_until(&mut self, timeout: Duration, initial: Option<InitialDelay>, turn: &Turn<'_, T>) {
        let deadline = turn.now.mono.saturating_add(timeout);
        self.join_phase = Some(JoinPhase { deadline, initial });
        self.wake_by(deadline);
    }

    fn cancel_syncs(&mut self, turn: &mut Turn<'_, T>) {
        let mut waiting = Vec::new();
        self.members.adjust_all(|id, member| {
            member.assignment.clear();
            waiting.extend(member.sync.take().map(|token| (id.to_owned(), token)));
        });
        for (id, token) in waiting {
            turn.synced(token, Err(GroupError::RebalanceInProgress));
            self.keep_session(&id, turn.now);
        }
    }

    /// Ends the wait when everyone has joined, those too who were only given a member id.
    pub(super) fn try_complete_join(&mut self, turn: &mut Turn<'_, T>) {
        let all = self.members.len() == self.members.awaiting_join() && self.pending_members.is_empty();
        if all && self.join_phase.is_some_and(|phase| phase.initial.is_none()) {
            self.complete_join(turn);
        }
    }

    /// The wait is over. An empty group waits again, as long as new members came meanwhile and its time is not used up.
    pub(super) fn expire_join(&mut self, turn: &mut Turn<'_, T>) {
        let Some(phase) = self.join_phase else { return };
        match phase.initial {
            Some(initial) if self.new_member_added && !initial.remaining.is_zero() => {
                self.new_member_added = false;
                let delay = turn.options.initial_rebalance_delay().min(initial.remaining);
                let remaining = initial.remaining.saturating_sub(initial.delay);
                self.join_until(delay, Some(InitialDelay { delay, remaining }), turn);
            }
            _ => self.complete_join(turn),
        }
    }

    /// The next generation begins, with those who joined and with static members, who may be away for a while.
    fn complete_join(&mut self, turn: &mut Turn<'_, T>) {
        self.join_phase = None;
        let absent = |(id, member): (&str, &super::member::Member<T>)| {
            (member.join.is_none() && member.instance_id.is_none()).then(|| id.to_owned())
        };
        let absent: Vec<String> = self.members.iter().filter_map(absent).collect();
        for id in absent {
            self.remove_member(&id, turn);
        }
        if !self.members.is_empty() && !self.elect_joined_leader() {
            // Nobody came but static members are kept: they have until their sessions end.
            let timeout = self.members.rebalance_timeout().max(REBALANCE_RETRY_MIN);
            self.join_until(timeout, None, turn);
            return;
        }
        self.generation = self.generation.wrapping_add(1);
        self.protocol = self.members.elect_protocol();
        self.read_subscriptions();
        self.pending_sync.clear();
        if self.members.is_empty() {
            self.transition(Empty, turn.now);
            self.store(turn);
        } else {
            self.transition(CompletingRebalance, turn.now);
            self.answer_joins(turn);
        }
    }

    /// Makes sure that the leader is one who joined. False if nobody did.
    fn elect_joined_leader(&mut self) -> bool {
        let joined = |id: &str| self.members.get(id).is_some_and(|member| member.join.is_some());
        if !self.leader.as_deref().is_some_and(joined) {
            let first = self.members.iter().find(|(_, member)| member.join.is_some());
            let Some(first) = first.map(|(id, _)| id.to_owned()) else { return false };
            self.leader = Some(first);
        }
        true
    }

    fn answer_joins(&mut self, turn: &mut Turn<'_, T>) {
        for id in self.members.ids() {
            if let Some(token) = self.members.take_join(&id) {
                turn.joined(token, self.joined(&id));
            }
            self.keep_session(&id, turn.now);
            self.members.adjust(&id, |member| member.is_new = false);
            self.pending_sync.insert(id);
        }
        let deadline = turn.now.mono.saturating_add(self.members.rebalance_timeout());
        self.sync_deadline = Some(deadline);
        self.wake_by(deadline);
    }

    /// Removes a member, for whatever reason, and lets the others go on without it.
    pub(super) fn remove_and_rebalance(&mut self, member_id: &str, turn: &mut Turn<'_, T>) {
        self.remove_member(member_id, turn);
        match self.state {
            Empty => {}
            Stable | CompletingRebalance => self.prepare_rebalance(turn),
            PreparingRebalance => self.try_complete_join(turn),
        }
    }

    /// Forgets a member id that was handed out.
    pub(super) fn remove_pending(&mut self, member_id: &str, turn: &mut Turn<'_, T>) {
        self.remove_member(member_id, turn);
        if self.is(PreparingRebalance) {
            self.try_complete_join(turn);
        }
    }
}
