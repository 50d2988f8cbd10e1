//! The rules of groups, one test each.

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use uuid::Uuid;

use super::*;
use crate::TxnProof;
use crate::coordinator::{Machine, Now, Outbox};

mod durability;
mod join;
mod offsets;
mod retention;
mod statics;
mod sync;
mod timeouts;

/// A slot, its clock, and everyone who waits.
struct World {
    slot: GroupSlot<u32>,
    now: Now,
    out: Outbox<GroupSlot<u32>>,
    entries: Vec<GroupEntry>,
    answers: HashMap<u32, GroupReply>,
    calls: u32,
    options: GroupOptions,
}

impl World {
    fn new() -> Self {
        Self::with(GroupOptions { initial_rebalance_delay_ms: 0, ..GroupOptions::default() })
    }

    fn with(options: GroupOptions) -> Self {
        Self {
            slot: GroupSlot::new(options),
            now: Now { wall_ms: 1_700_000_000_000, mono: Duration::from_secs(1_000) },
            out: Outbox::default(),
            entries: Vec::new(),
            answers: HashMap::new(),
            calls: 0,
            options,
        }
    }

    /// Takes what a call has left to be done.
    fn settle(&mut self) {
        self.entries.append(&mut self.out.entries);
        for (token, reply) in self.out.replies.drain(..) {
            assert!(self.answers.insert(token, reply).is_none(), "answered twice");
        }
    }

    fn join(&mut self, request: JoinRequest) -> u32 {
        self.calls += 1;
        self.slot.join(request, self.calls, self.now, &mut self.out);
        self.settle();
        self.calls
    }

    fn joined(&mut self, request: JoinRequest) -> Joined {
        let token = self.join(request);
        self.take_joined(token)
    }

    fn refused(&mut self, request: JoinRequest) -> JoinRefused {
        let token = self.join(request);
        self.take_refused(token)
    }

    fn take_joined(&mut self, token: u32) -> Joined {
        match self.answers.remove(&token) {
            Some(GroupReply::Join(Ok(joined))) => joined,
            other => panic!("{other:?}"),
        }
    }

    fn take_refused(&mut self, token: u32) -> JoinRefused {
        match self.answers.remove(&token) {
            Some(GroupReply::Join(Err(refused))) => refused,
            other => panic!("{other:?}"),
        }
    }

    fn sync(&mut self, member: &Joined, assignments: &[(&str, &str)]) -> u32 {
        self.sync_with(sync_request(member, assignments))
    }

    fn sync_with(&mut self, request: SyncRequest) -> u32 {
        self.calls += 1;
        self.slot.sync(request, self.calls, self.now, &mut self.out);
        self.settle();
        self.calls
    }

    fn take_synced(&mut self, token: u32) -> Result<Synced, GroupError> {
        match self.answers.remove(&token) {
            Some(GroupReply::Sync(result)) => result,
            other => panic!("{other:?}"),
        }
    }

    fn assignment(&mut self, token: u32) -> Bytes {
        self.take_synced(token).unwrap().assignment
    }

    fn waits(&self, token: u32) -> bool {
        !self.answers.contains_key(&token)
    }

    fn heartbeat(&mut self, member: &Joined) -> Result<(), GroupError> {
        self.heartbeat_as(&member.member_id, None, member.generation)
    }

    fn heartbeat_as(
        &mut self,
        member_id: &str,
        instance: Option<&str>,
        generation: i32,
    ) -> Result<(), GroupError> {
        let request = HeartbeatRequest {
            group: "g".to_owned(),
            member_id: member_id.to_owned(),
            instance_id: instance.map(str::to_owned),
            generation,
        };
        self.slot.heartbeat(&request, self.now)
    }

    fn leave(&mut self, member_id: &str, instance: Option<&str>) -> Result<(), GroupError> {
        let leaving =
            LeavingMember { member_id: member_id.to_owned(), instance_id: instance.map(str::to_owned) };
        let request = LeaveRequest { group: "g".to_owned(), members: vec![leaving] };
        let results = self.slot.leave(&request, self.now, &mut self.out).unwrap();
        self.settle();
        results[0]
    }

    fn forget(&mut self, gone: impl Fn(&str, Uuid) -> bool) {
        self.slot.forget_topics(&gone, self.now, &mut self.out);
        self.settle();
    }

    fn commit(&mut self, committer: Committer, topic: &str, offset: i64) -> Result<(), GroupError> {
        let request =
            CommitRequest { committer, offsets: vec![offset_of(topic, offset)], retention_ms: None };
        self.commit_with(request)
    }

    fn commit_with(&mut self, request: CommitRequest) -> Result<(), GroupError> {
        let results = self.slot.commit(request, self.now, &mut self.out);
        self.settle();
        results?[0]
    }

    /// TxnOffsetCommit of a transaction that is known to be open.
    fn commit_in(&mut self, producer_id: i64, topic: &str, offset: i64) -> Result<(), GroupError> {
        self.commit_txn(outsider("g"), producer_id, 0, offset_of(topic, offset))
    }

    fn commit_txn(
        &mut self,
        committer: Committer,
        producer_id: i64,
        producer_epoch: i16,
        offset: OffsetToCommit,
    ) -> Result<(), GroupError> {
        let proof = match self.slot.verification(producer_id, producer_epoch, self.now) {
            Some(guard) => TxnProof::Verified(guard),
            None => TxnProof::None,
        };
        let offsets = vec![offset];
        let request = TxnCommitRequest { committer, offsets, producer_id, producer_epoch, proof };
        let results = self.slot.commit_transactional(request, self.now, &mut self.out);
        self.settle();
        results?[0]
    }

    fn complete(&mut self, producer_id: i64, committed: bool) {
        self.slot.complete_transaction(producer_id, 0, committed, &mut self.out).unwrap();
        self.settle();
    }

    fn fetch(&self, topic: &str, require_stable: bool) -> Result<Option<i64>, GroupError> {
        let topics = [(topic.to_owned(), vec![0])];
        let fetched = self.slot.fetch_offsets("g", Some(&topics), require_stable);
        fetched[0].1[0].1.clone().map(|found| found.map(|found| found.offset))
    }

    fn state(&self) -> &'static str {
        self.slot.describe("g").map_or("Dead", |group| group.state.name())
    }

    /// Lets time pass, and does what comes due on the way.
    fn pass(&mut self, ms: u64) {
        let end = self.now.mono + Duration::from_millis(ms);
        while let Some(at) = self.slot.deadline().filter(|&at| at <= end) {
            self.move_to(at.max(self.now.mono));
            self.slot.tick(self.now, &mut self.out);
            self.settle();
            assert!(
                self.slot.deadline().is_none_or(|next| next > self.now.mono),
                "a tick leaves nothing due"
            );
        }
        self.move_to(end);
    }

    fn move_to(&mut self, mono: Duration) {
        self.now.wall_ms += i64::try_from((mono - self.now.mono).as_millis()).unwrap();
        self.now.mono = mono;
    }

    /// Begins a new life with what lasts.
    fn restart(&mut self) {
        self.slot = replayed(self.options, &self.entries);
        self.slot.loaded(self.now, &mut self.out);
        self.answers.clear();
        self.settle();
    }

    /// A stable group of dynamic members, the leader first, each assigned the name of its client.
    fn stable(&mut self, clients: &[&str]) -> Vec<Joined> {
        let joined = self.completing(clients);
        let assignments: Vec<(String, &str)> =
            joined.iter().zip(clients).map(|(member, client)| (member.member_id.clone(), *client)).collect();
        let assignments: Vec<(&str, &str)> =
            assignments.iter().map(|(id, client)| (id.as_str(), *client)).collect();
        for member in &joined {
            let assignments = if leads(member) { assignments.as_slice() } else { &[] };
            self.sync(member, assignments);
        }
        self.answers.clear();
        assert_eq!(self.state(), "Stable");
        joined
    }

    /// A group of dynamic members that have joined.
    fn completing(&mut self, clients: &[&str]) -> Vec<Joined> {
        let mut ids = Vec::new();
        for client in clients {
            let id = self.refused(new_member(client)).member_id;
            ids.push(id);
        }
        // Nobody is waited for but those with a member id: all join before the rebalance ends.
        let requests = clients.iter().zip(&ids).map(|(client, id)| member(client, id));
        let tokens: Vec<u32> =
            requests.collect::<Vec<_>>().into_iter().map(|request| self.join(request)).collect();
        tokens.into_iter().map(|token| self.take_joined(token)).collect()
    }
}

fn replayed(options: GroupOptions, entries: &[GroupEntry]) -> GroupSlot<u32> {
    let mut slot = GroupSlot::new(options);
    for entry in entries {
        let line = serde_json::to_string(entry).unwrap();
        slot.replay(serde_json::from_str(&line).unwrap());
    }
    slot
}

fn leads(member: &Joined) -> bool {
    member.leader.as_deref() == Some(member.member_id.as_str())
}

/// The metadata of a consumer of one topic.
fn subscription(topic: &str) -> Bytes {
    let length = i16::try_from(topic.len()).unwrap().to_be_bytes();
    let parts: [&[u8]; 4] = [b"\0\0\0\0\0\x01", &length, topic.as_bytes(), b"\xff\xff\xff\xff"];
    Bytes::from(parts.concat())
}

/// A JoinGroup of version 4 to 8 by a new dynamic member.
fn new_member(client: &str) -> JoinRequest {
    JoinRequest {
        group: "g".to_owned(),
        member_id: String::new(),
        instance_id: None,
        client_id: client.to_owned(),
        client_host: "/127.0.0.1".to_owned(),
        rebalance_timeout_ms: 60_000,
        session_timeout_ms: 10_000,
        protocol_type: "consumer".to_owned(),
        protocols: vec![("range".to_owned(), subscription("t"))],
        requires_known_member_id: true,
        supports_skip_assignment: false,
        uuid: Uuid::new_v4(),
    }
}

/// A JoinGroup of a version that knows no member ids yet.
fn old_member(client: &str) -> JoinRequest {
    JoinRequest { requires_known_member_id: false, ..new_member(client) }
}

fn member(client: &str, member_id: &str) -> JoinRequest {
    JoinRequest { member_id: member_id.to_owned(), ..new_member(client) }
}

fn again(client: &str, joined: &Joined) -> JoinRequest {
    member(client, &joined.member_id)
}

fn static_member(instance: &str) -> JoinRequest {
    JoinRequest { instance_id: Some(instance.to_owned()), requires_known_member_id: false, ..new_member("c") }
}

fn sync_request(member: &Joined, assignments: &[(&str, &str)]) -> SyncRequest {
    let assignment =
        |(id, bytes): &(&str, &str)| ((*id).to_owned(), Bytes::copy_from_slice(bytes.as_bytes()));
    SyncRequest {
        group: "g".to_owned(),
        member_id: member.member_id.clone(),
        instance_id: None,
        generation: member.generation,
        protocol_type: None,
        protocol: None,
        assignments: assignments.iter().map(assignment).collect(),
    }
}

/// One who is not a member.
fn outsider(group: &str) -> Committer {
    Committer { group: group.to_owned(), member_id: String::new(), instance_id: None, generation: -1 }
}

fn insider(member: &Joined) -> Committer {
    Committer { member_id: member.member_id.clone(), generation: member.generation, ..outsider("g") }
}

fn offset_of(topic: &str, offset: i64) -> OffsetToCommit {
    OffsetToCommit {
        topic: topic.to_owned(),
        topic_id: Uuid::nil(),
        partition: 0,
        offset,
        leader_epoch: None,
        metadata: String::new(),
        commit_timestamp_ms: None,
    }
}
