//! What tools are told about groups and their offsets.

use bytes::Bytes;

use super::GroupError;
use super::GroupState::{self, Stable};
use super::group::Group;
use super::member::Member;
use super::offsets::CommittedOffset;

/// A group, as DescribeGroups tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DescribedGroup {
    /// Where it is in its life.
    pub state: GroupState,
    /// Empty for a group of nothing but offsets.
    pub protocol_type: String,
    /// The one that was chosen. Empty unless the group is stable.
    pub protocol: String,
    /// By member id.
    pub members: Vec<DescribedMember>,
}

/// A member of a described group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DescribedMember {
    /// Made by the coordinator.
    pub member_id: String,
    /// What a static member calls itself.
    pub instance_id: Option<String>,
    /// From the header of its first JoinGroup.
    pub client_id: String,
    /// Its address then.
    pub client_host: String,
    /// Its metadata for the chosen protocol. Empty unless the group is stable.
    pub metadata: Bytes,
    /// What the leader assigned. Empty unless the group is stable.
    pub assignment: Bytes,
}

/// A group, as ListGroups tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedGroup {
    /// The group id.
    pub group: String,
    /// Empty for a group of nothing but offsets.
    pub protocol_type: String,
    /// Where it is in its life.
    pub state: GroupState,
}

/// What a group has committed for a partition: nothing perhaps, or nothing yet.
pub type FetchedOffset = Result<Option<CommittedOffset>, GroupError>;

/// A topic, and its partitions with what was committed for each.
pub type FetchedTopic = (String, Vec<(i32, FetchedOffset)>);

impl<T: Send + 'static> Group<T> {
    pub(super) fn describe(&self) -> DescribedGroup {
        let protocol = self.protocol.as_deref().filter(|_| self.is(Stable));
        let member = |(id, member): (&str, &Member<T>)| DescribedMember {
            member_id: id.to_owned(),
            instance_id: member.instance_id.clone(),
            client_id: member.client_id.clone(),
            client_host: member.client_host.clone(),
            metadata: protocol.map(|protocol| member.metadata(protocol)).unwrap_or_default(),
            assignment: protocol.map(|_| member.assignment.clone()).unwrap_or_default(),
        };
        DescribedGroup {
            state: self.state,
            protocol_type: self.protocol_type.clone().unwrap_or_default(),
            protocol: protocol.unwrap_or_default().to_owned(),
            members: self.members.iter().map(member).collect(),
        }
    }

    pub(super) fn list(&self) -> ListedGroup {
        ListedGroup {
            group: self.id.clone(),
            protocol_type: self.protocol_type.clone().unwrap_or_default(),
            state: self.state,
        }
    }

    pub(super) fn fetch(&self, topic: &str, partition: i32, require_stable: bool) -> FetchedOffset {
        if require_stable && self.offsets.is_pending(topic, partition) {
            return Err(GroupError::UnstableOffsetCommit);
        }
        Ok(self.offsets.committed(topic, partition).cloned())
    }

    pub(super) fn fetch_all(&self, require_stable: bool) -> Vec<FetchedTopic> {
        let topics = self.offsets.topics().map(|(topic, partitions)| {
            let fetch = |partition| (partition, self.fetch(topic, partition, require_stable));
            (topic.to_owned(), partitions.map(fetch).collect())
        });
        topics.collect()
    }
}
