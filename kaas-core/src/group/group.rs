//! One group: its state, its members, and the checks that calls share.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use super::entry::{GroupEntry, StoredGroup};
use super::member::Member;
use super::members::Members;
use super::offsets::Offsets;
use super::options::GroupOptions;
use super::rebalance::JoinPhase;
use super::reply::{Joined, JoinedMember, Turn};
use super::subscription::subscribed_topics;
use super::{GroupError, GroupState};
use crate::coordinator::Now;

/// The protocol type of consumers: the one whose metadata the coordinator reads.
const CONSUMER: &str = "consumer";

/// One group. `T` stands for callers that wait.
pub(super) struct Group<T> {
    pub(super) id: String,
    pub(super) state: GroupState,
    pub(super) state_timestamp_ms: i64,
    pub(super) generation: i32,
    pub(super) protocol_type: Option<String>,
    pub(super) protocol: Option<String>,
    pub(super) leader: Option<String>,
    pub(super) members: Members<T>,
    /// Member ids that were handed out and not used yet, and when each is forgotten.
    pub(super) pending_members: HashMap<String, Duration>,
    /// Members of this generation that have not asked for their assignment yet.
    pub(super) pending_sync: HashSet<String>,
    /// When those count as gone.
    pub(super) sync_deadline: Option<Duration>,
    /// Members are to join.
    pub(super) join_phase: Option<JoinPhase>,
    /// Somebody new came while the first members of the group were waited for.
    pub(super) new_member_added: bool,
    /// The topics of a group of consumers, if their metadata could be read.
    pub(super) subscribed: Option<HashSet<String>>,
    pub(super) offsets: Offsets,
    /// What the journal says about the members.
    pub(super) stored: Option<StoredGroup>,
    /// When offsets are looked at for their age.
    pub(super) cleanup_at: Duration,
    /// Nothing is due before this moment.
    pub(super) wake: Duration,
    /// Under which moment the slot keeps the group.
    pub(super) scheduled: Option<Duration>,
}

impl<T: Send + 'static> Group<T> {
    pub(super) fn new(id: &str, now: Now, options: &GroupOptions) -> Self {
        let cleanup_at = now.mono.saturating_add(options.retention_check_interval());
        Self {
            id: id.to_owned(),
            state: GroupState::Empty,
            state_timestamp_ms: now.wall_ms,
            generation: 0,
            protocol_type: None,
            protocol: None,
            leader: None,
            members: Members::default(),
            pending_members: HashMap::new(),
            pending_sync: HashSet::new(),
            sync_deadline: None,
            join_phase: None,
            new_member_added: false,
            subscribed: None,
            offsets: Offsets::default(),
            stored: None,
            cleanup_at,
            wake: cleanup_at,
            scheduled: None,
        }
    }

    pub(super) fn is(&self, state: GroupState) -> bool {
        self.state == state
    }

    pub(super) fn is_leader(&self, member_id: &str) -> bool {
        self.leader.as_deref() == Some(member_id)
    }

    pub(super) fn is_consumer_group(&self) -> bool {
        self.protocol_type.as_deref() == Some(CONSUMER)
    }

    /// Whether the journal knows of the group.
    pub(super) fn is_durable(&self) -> bool {
        self.stored.is_some() || !self.offsets.is_empty()
    }

    pub(super) fn transition(&mut self, state: GroupState, now: Now) {
        self.state = state;
        self.state_timestamp_ms = now.wall_ms;
    }

    /// Makes sure that the group is looked at by then.
    pub(super) fn wake_by(&mut self, deadline: Duration) {
        self.wake = self.wake.min(deadline);
    }

    /// A member has shown that it lives: it has another timeout.
    pub(super) fn keep_alive(&mut self, member_id: &str, timeout: Duration, now: Now) {
        let deadline = now.mono.saturating_add(timeout);
        self.members.adjust(member_id, |member| member.expires = Some(deadline));
        self.wake_by(deadline);
    }

    /// [`keep_alive`](Self::keep_alive) for a session timeout.
    pub(super) fn keep_session(&mut self, member_id: &str, now: Now) {
        if let Some(timeout) = self.members.get(member_id).map(Member::session_timeout) {
            self.keep_alive(member_id, timeout, now);
        }
    }

    /// Whether the caller is who it says: a member, and the one that its group instance id stands for.
    pub(super) fn check_member(&self, member_id: &str, instance_id: Option<&str>) -> Result<(), GroupError> {
        if let Some(instance_id) = instance_id {
            match self.members.of_instance(instance_id) {
                Some(current) if current != member_id => return Err(GroupError::FencedInstanceId),
                Some(_) => {}
                None => return Err(GroupError::UnknownMemberId),
            }
        }
        if self.members.contains(member_id) { Ok(()) } else { Err(GroupError::UnknownMemberId) }
    }

    /// [`check_member`](Self::check_member), and the generation.
    pub(super) fn check_generation(
        &self,
        member_id: &str,
        instance_id: Option<&str>,
        generation: i32,
    ) -> Result<(), GroupError> {
        self.check_member(member_id, instance_id)?;
        if generation == self.generation { Ok(()) } else { Err(GroupError::IllegalGeneration) }
    }

    /// Adds a member; the first one decides the group's protocol type, and leads.
    pub(super) fn add_member(&mut self, member_id: &str, protocol_type: &str, member: Member<T>) {
        if self.members.is_empty() {
            self.protocol_type = Some(protocol_type.to_owned());
        }
        self.leader.get_or_insert_with(|| member_id.to_owned());
        self.pending_members.remove(member_id);
        self.members.insert(member_id.to_owned(), member);
    }

    /// Removes whoever goes by this member id. Its callers are told that it is none any more.
    pub(super) fn remove_member(&mut self, member_id: &str, turn: &mut Turn<'_, T>) {
        if let Some(member) = self.members.remove(member_id) {
            if let Some(token) = member.join {
                turn.refuse_join(token, GroupError::UnknownMemberId, "");
            }
            if let Some(token) = member.sync {
                turn.synced(token, Err(GroupError::UnknownMemberId));
            }
        }
        if self.is_leader(member_id) {
            self.leader = self.members.first_id().map(str::to_owned);
        }
        self.pending_members.remove(member_id);
        self.pending_sync.remove(member_id);
    }

    /// What a member of the current generation is told when it joins.
    pub(super) fn joined(&self, member_id: &str) -> Joined {
        Joined {
            member_id: member_id.to_owned(),
            generation: self.generation,
            protocol_type: self.protocol_type.clone(),
            protocol: self.protocol.clone(),
            leader: self.leader.clone(),
            skip_assignment: false,
            members: if self.is_leader(member_id) { self.joined_members() } else { Vec::new() },
        }
    }

    fn joined_members(&self) -> Vec<JoinedMember> {
        let protocol = self.protocol.as_deref().unwrap_or_default();
        let joined = |(id, member): (&str, &Member<T>)| JoinedMember {
            member_id: id.to_owned(),
            instance_id: member.instance_id.clone(),
            metadata: member.metadata(protocol),
        };
        self.members.iter().map(joined).collect()
    }

    /// Writes the members and their assignment down, as they are now.
    pub(super) fn store(&mut self, turn: &mut Turn<'_, T>) {
        let protocol = self.protocol.as_deref();
        let stored = StoredGroup {
            generation: self.generation,
            protocol_type: self.protocol_type.clone(),
            protocol: self.protocol.clone(),
            leader: self.leader.clone(),
            members: self.members.iter().map(|(id, member)| member.stored(id, protocol)).collect(),
            state_timestamp_ms: self.state_timestamp_ms,
        };
        turn.record(GroupEntry::state(&self.id, stored.clone()));
        self.stored = Some(stored);
    }

    /// Reads which topics the group is subscribed to. Nobody knows if one member's metadata cannot be read.
    pub(super) fn read_subscriptions(&mut self) {
        self.subscribed = if !self.is_consumer_group() {
            None
        } else if self.members.is_empty() {
            Some(HashSet::new())
        } else {
            self.protocol.as_deref().and_then(|protocol| {
                let mut topics = HashSet::new();
                for (_, member) in self.members.iter() {
                    topics.extend(subscribed_topics(&member.metadata(protocol))?);
                }
                Some(topics)
            })
        };
    }

    /// Whether a member may be subscribed to the topic: if nobody knows, it may.
    pub(super) fn may_be_subscribed(&self, topic: &str) -> bool {
        self.subscribed.as_ref().is_none_or(|topics| topics.contains(topic))
    }

    /// How long after loading to look at the age of offsets first: groups that are loaded together are not looked at together.
    fn first_check(&self, options: &GroupOptions) -> Duration {
        const PARTS: u32 = 1_000;
        let mut hasher = DefaultHasher::new();
        self.id.hash(&mut hasher);
        let part = u32::try_from(hasher.finish() % u64::from(PARTS)).unwrap_or(0);
        options.retention_check_interval() / PARTS * (part + 1)
    }

    /// Becomes what the journal says: stable if there were members, and they have a session timeout to come back.
    pub(super) fn load(&mut self, turn: &mut Turn<'_, T>) {
        self.cleanup_at = turn.now.mono.saturating_add(self.first_check(turn.options));
        self.wake = self.cleanup_at;
        let Some(stored) = self.stored.clone() else {
            self.state_timestamp_ms = turn.now.wall_ms;
            return;
        };
        self.generation = stored.generation;
        self.protocol_type = stored.protocol_type.filter(|name| !name.is_empty());
        self.protocol = stored.protocol;
        self.leader = stored.leader;
        self.state_timestamp_ms = stored.state_timestamp_ms;
        for member in &stored.members {
            let loaded = Member::loaded(member, self.protocol.as_deref());
            self.members.insert(member.member_id.clone(), loaded);
        }
        // Kafka writes the leader with its members. A line that says otherwise still makes a group that can go on.
        if self.leader.as_deref().is_none_or(|leader| !self.members.contains(leader)) {
            self.leader = self.members.first_id().map(str::to_owned);
        }
        self.state = if self.members.is_empty() { GroupState::Empty } else { GroupState::Stable };
        self.read_subscriptions();
        if self.members.len() > turn.options.max_size {
            self.prepare_rebalance(turn);
        }
        for id in self.members.ids() {
            self.keep_session(&id, turn.now);
        }
    }
}
