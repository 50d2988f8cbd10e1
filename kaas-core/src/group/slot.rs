//! All groups of one slot.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use uuid::Uuid;

use super::commit::{CommitRequest, CommitResults, TxnCommitRequest};
use super::describe::{DescribedGroup, FetchedTopic, ListedGroup};
use super::entry::{DecidedTransaction, GroupEntry, StoredPartition};
use super::group::Group;
use super::heartbeat::HeartbeatRequest;
use super::join::JoinRequest;
use super::leave::LeaveRequest;
use super::reply::{GroupReply, Turn};
use super::sync::SyncRequest;
use super::transactions::Transactions;
use super::{GroupError, GroupOptions, GroupState};
use crate::VerificationGuard;
use crate::coordinator::{Machine, Now, Outbox};

/// What is left to be done for a slot of groups.
type Out<T> = Outbox<GroupSlot<T>>;

/// The groups of one slot. `T` stands for a caller of [`join`](Self::join) or [`sync`](Self::sync): each is answered exactly once, in
/// the [`Outbox`] of that call or of a later one.
pub struct GroupSlot<T> {
    options: GroupOptions,
    groups: HashMap<String, Group<T>>,
    /// When each group is to be looked at.
    timers: BTreeSet<(Duration, String)>,
    transactions: Transactions,
}

impl<T: Send + 'static> GroupSlot<T> {
    /// A slot without groups.
    pub fn new(options: GroupOptions) -> Self {
        let (groups, timers, transactions) = (HashMap::new(), BTreeSet::new(), Transactions::default());
        Self { options, groups, timers, transactions }
    }

    /// JoinGroup: `token` is answered when the group's members have come together.
    pub fn join(&mut self, request: JoinRequest, token: T, now: Now, out: &mut Out<T>) {
        let ready =
            not_empty(&request.group)
                .and_then(|()| self.options.check_session_timeout(request.session_timeout_ms))
                .and_then(|()| {
                    if request.member_id.is_empty() { self.ensure(&request.group, now) } else { Ok(()) }
                });
        let known = self.groups.contains_key(&request.group);
        let refusal = ready.err().or((!known).then_some(GroupError::UnknownMemberId));
        if let Some(error) = refusal {
            self.turn(now, out).refuse_join(token, error, &request.member_id);
            return;
        }
        let id = request.group.clone();
        self.with_group(&id, now, out, |group, turn| group.join(request, token, turn));
    }

    /// SyncGroup: `token` is answered when the leader has assigned.
    pub fn sync(&mut self, request: SyncRequest, token: T, now: Now, out: &mut Out<T>) {
        let ready = not_empty(&request.group).and_then(|()| {
            if self.groups.contains_key(&request.group) { Ok(()) } else { Err(GroupError::UnknownMemberId) }
        });
        if let Err(error) = ready {
            self.turn(now, out).synced(token, Err(error));
            return;
        }
        let id = request.group.clone();
        self.with_group(&id, now, out, |group, turn| group.sync(request, token, turn));
    }

    /// Heartbeat. It changes nothing that lasts.
    pub fn heartbeat(&mut self, request: &HeartbeatRequest, now: Now) -> Result<(), GroupError> {
        not_empty(&request.group)?;
        let group = self.groups.get_mut(&request.group).ok_or(GroupError::UnknownMemberId)?;
        let result = group.heartbeat(request, now);
        schedule(&mut self.timers, group);
        result
    }

    /// LeaveGroup: what became of each member.
    pub fn leave(
        &mut self,
        request: &LeaveRequest,
        now: Now,
        out: &mut Out<T>,
    ) -> Result<Vec<Result<(), GroupError>>, GroupError> {
        not_empty(&request.group)?;
        let leave = |group: &mut Group<T>, turn: &mut Turn<'_, T>| {
            request.members.iter().map(|leaving| group.leave(leaving, turn)).collect()
        };
        let nobody = || request.members.iter().map(|_| Err(GroupError::UnknownMemberId)).collect();
        Ok(self.with_group(&request.group, now, out, leave).unwrap_or_else(nobody))
    }

    /// DescribeGroups. None if the group does not exist: tools are told that it is `Dead`.
    pub fn describe(&self, group: &str) -> Option<DescribedGroup> {
        self.groups.get(group).map(Group::describe)
    }

    /// ListGroups: all of the slot, in no order.
    pub fn list(&self) -> impl Iterator<Item = ListedGroup> {
        self.groups.values().map(Group::list)
    }

    /// DeleteGroups: removes a group without members, with its offsets.
    pub fn delete_group(&mut self, group: &str, out: &mut Out<T>) -> Result<(), GroupError> {
        let found = self.groups.get(group).ok_or(GroupError::GroupIdNotFound)?;
        if !found.is(GroupState::Empty) {
            return Err(GroupError::NonEmptyGroup);
        }
        if found.is_durable() {
            out.entries.push(GroupEntry::removed(group));
        }
        self.remove(group);
        Ok(())
    }

    /// OffsetDelete: what became of each partition.
    pub fn delete_offsets(
        &mut self,
        group: &str,
        partitions: &[StoredPartition],
        now: Now,
        out: &mut Out<T>,
    ) -> Result<Vec<Result<(), GroupError>>, GroupError> {
        not_empty(group)?;
        let delete = |found: &mut Group<T>, turn: &mut Turn<'_, T>| found.delete_offsets(partitions, turn);
        let (results, dead) =
            self.with_group(group, now, out, delete).ok_or(GroupError::GroupIdNotFound)??;
        if dead {
            self.remove(group);
        }
        Ok(results)
    }

    /// Removes what the slot's groups have committed for topics that are `gone`, by name and identity. Looks at every offset.
    pub fn forget_topics(&mut self, gone: &dyn Fn(&str, Uuid) -> bool, now: Now, out: &mut Out<T>) {
        let mut turn = Turn { now, options: &self.options, out };
        let dead: Vec<String> = self
            .groups
            .values_mut()
            .filter_map(|group| group.forget_topics(gone, &mut turn).then(|| group.id.clone()))
            .collect();
        dead.iter().for_each(|group| self.remove(group));
    }

    /// OffsetCommit: what became of each offset. An error is every offset's.
    pub fn commit(
        &mut self,
        request: CommitRequest,
        now: Now,
        out: &mut Out<T>,
    ) -> Result<CommitResults, GroupError> {
        let id = request.committer.group.clone();
        if !self.groups.contains_key(&id) {
            if request.committer.generation >= 0 {
                return Err(GroupError::IllegalGeneration);
            }
            self.ensure(&id, now)?;
        }
        let commit = |group: &mut Group<T>, turn: &mut Turn<'_, T>| group.commit(request, turn);
        self.with_group(&id, now, out, commit).unwrap_or(Err(GroupError::IllegalGeneration))
    }

    /// A guard for the question whether a producer's transaction is open, to be had before the transaction's coordinator is asked
    /// (KIP-890). None if nothing has to be asked: the slot has offsets of the transaction already.
    pub fn verification(
        &mut self,
        producer_id: i64,
        producer_epoch: i16,
        now: Now,
    ) -> Option<VerificationGuard> {
        self.transactions.ask(producer_id, producer_epoch, now)
    }

    /// TxnOffsetCommit: what became of each offset. They are committed when the transaction is.
    pub fn commit_transactional(
        &mut self,
        request: TxnCommitRequest,
        now: Now,
        out: &mut Out<T>,
    ) -> Result<CommitResults, GroupError> {
        let (id, producer_id) = (request.committer.group.clone(), request.producer_id);
        not_empty(&id)?;
        self.check_producer(producer_id, request.producer_epoch)?;
        self.ensure(&id, now)?;
        if !self.transactions.may_commit(producer_id, request.proof) {
            return Err(GroupError::InvalidTxnState);
        }
        let commit = |group: &mut Group<T>, turn: &mut Turn<'_, T>| group.commit_transactional(request, turn);
        let results = self.with_group(&id, now, out, commit).unwrap_or(Err(GroupError::UnknownMemberId))?;
        if results.iter().any(Result::is_ok) {
            self.transactions.began(producer_id, &id);
        }
        Ok(results)
    }

    /// A transaction is decided (WriteTxnMarkers): the offsets that it has pending in this slot become committed ones, or nothing.
    pub fn complete_transaction(
        &mut self,
        producer_id: i64,
        producer_epoch: i16,
        committed: bool,
        out: &mut Out<T>,
    ) -> Result<(), GroupError> {
        self.check_producer(producer_id, producer_epoch)?;
        for id in self.transactions.ended(producer_id) {
            let Some(group) = self.groups.get_mut(&id) else { continue };
            if group.offsets.decide(producer_id, committed) {
                let decided = DecidedTransaction { producer_id, committed };
                out.entries.push(GroupEntry::transaction(&id, decided));
            }
        }
        Ok(())
    }

    /// OffsetFetch: of these partitions, or of all that have something committed. `require_stable` refuses the ones that a transaction
    /// may change (KIP-447).
    pub fn fetch_offsets(
        &self,
        group: &str,
        topics: Option<&[(String, Vec<i32>)]>,
        require_stable: bool,
    ) -> Vec<FetchedTopic> {
        let group = self.groups.get(group);
        let fetch = |topic: &str, partition: i32| {
            group.map_or(Ok(None), |group| group.fetch(topic, partition, require_stable))
        };
        match topics {
            None => group.map(|group| group.fetch_all(require_stable)).unwrap_or_default(),
            Some(topics) => {
                let topic = |(topic, partitions): &(String, Vec<i32>)| {
                    let fetch = |&partition| (partition, fetch(topic, partition));
                    (topic.clone(), partitions.iter().map(fetch).collect())
                };
                topics.iter().map(topic).collect()
            }
        }
    }

    /// Refuses a producer that a newer epoch has replaced in an open transaction.
    fn check_producer(&self, producer_id: i64, producer_epoch: i16) -> Result<(), GroupError> {
        let groups = self.transactions.groups(producer_id).filter_map(|group| self.groups.get(group));
        let newest = groups.filter_map(|group| group.offsets.producer_epoch(producer_id)).max();
        if newest.is_some_and(|newest| producer_epoch < newest) {
            return Err(GroupError::InvalidProducerEpoch);
        }
        Ok(())
    }

    fn turn<'a>(&'a self, now: Now, out: &'a mut Out<T>) -> Turn<'a, T> {
        Turn { now, options: &self.options, out }
    }

    /// Makes sure that the group exists.
    fn ensure(&mut self, id: &str, now: Now) -> Result<(), GroupError> {
        if !self.groups.contains_key(id) {
            if self.groups.len() >= self.options.groups_max {
                return Err(GroupError::TooManyGroups);
            }
            let mut group = Group::new(id, now, &self.options);
            schedule(&mut self.timers, &mut group);
            self.groups.insert(id.to_owned(), group);
        }
        Ok(())
    }

    fn with_group<R>(
        &mut self,
        id: &str,
        now: Now,
        out: &mut Out<T>,
        call: impl FnOnce(&mut Group<T>, &mut Turn<'_, T>) -> R,
    ) -> Option<R> {
        let group = self.groups.get_mut(id)?;
        let result = call(group, &mut Turn { now, options: &self.options, out });
        schedule(&mut self.timers, group);
        Some(result)
    }

    fn remove(&mut self, id: &str) {
        let Some(group) = self.groups.remove(id) else { return };
        if let Some(at) = group.scheduled {
            self.timers.remove(&(at, group.id));
        }
        self.transactions.forget(id, group.offsets.producers());
    }
}

/// Lets the slot look at a group earlier, if something is due earlier. Later is found out when the time comes: a heartbeat costs
/// nothing here.
fn schedule<T>(timers: &mut BTreeSet<(Duration, String)>, group: &mut Group<T>) {
    match group.scheduled {
        Some(at) if at <= group.wake => return,
        Some(at) => _ = timers.remove(&(at, group.id.clone())),
        None => {}
    }
    timers.insert((group.wake, group.id.clone()));
    group.scheduled = Some(group.wake);
}

fn not_empty(group: &str) -> Result<(), GroupError> {
    if group.is_empty() { Err(GroupError::InvalidGroupId) } else { Ok(()) }
}

impl<T: Send + 'static> Machine for GroupSlot<T> {
    type Entry = GroupEntry;
    type Token = T;
    type Reply = GroupReply;
    type Effect = std::convert::Infallible;

    fn replay(&mut self, entry: GroupEntry) {
        let GroupEntry { group: id, state, offsets, pending_in, removed_offsets, transaction, removed } =
            entry;
        if removed {
            self.remove(&id);
            return;
        }
        let nowhen = Now { wall_ms: 0, mono: Duration::ZERO };
        let options = &self.options;
        let group = self.groups.entry(id.clone()).or_insert_with(|| Group::new(&id, nowhen, options));
        if state.is_some() {
            group.stored = state;
        }
        if let Some(offsets) = offsets {
            group.offsets.commit(offsets, pending_in);
        }
        for gone in removed_offsets.unwrap_or_default() {
            group.offsets.remove(&gone);
        }
        if let Some(DecidedTransaction { producer_id, committed }) = transaction {
            group.offsets.decide(producer_id, committed);
        }
        if !group.is_durable() {
            self.groups.remove(&id);
        }
    }

    fn snapshot(&self) -> Vec<GroupEntry> {
        let mut entries = Vec::new();
        for group in self.groups.values() {
            if let Some(stored) = &group.stored {
                entries.push(GroupEntry::state(&group.id, stored.clone()));
            }
            group.offsets.snapshot(&group.id, &mut entries);
        }
        entries
    }

    fn loaded(&mut self, now: Now, out: &mut Out<T>) {
        let mut turn = Turn { now, options: &self.options, out };
        for group in self.groups.values_mut() {
            group.load(&mut turn);
            group.offsets.producers().for_each(|producer_id| self.transactions.began(producer_id, &group.id));
            schedule(&mut self.timers, group);
        }
    }

    fn deadline(&self) -> Option<Duration> {
        self.timers.first().map(|(at, _)| *at)
    }

    fn tick(&mut self, now: Now, out: &mut Out<T>) {
        while self.deadline().is_some_and(|at| at <= now.mono) {
            let Some((_, id)) = self.timers.pop_first() else { return };
            let Some(group) = self.groups.get_mut(&id) else { continue };
            group.scheduled = None;
            let dead = group.tick(&mut Turn { now, options: &self.options, out });
            if dead {
                self.remove(&id);
            } else {
                schedule(&mut self.timers, group);
            }
        }
    }
}
