//! The changes of groups that last: lines of a slot's journal.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::base64;

/// One lasting change of one group. Each says one thing; the constructors keep it so.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct GroupEntry {
    /// The group id: any string.
    pub group: String,
    /// The group's members and their assignment, whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<StoredGroup>,
    /// Offsets that were committed; with `pending_in`, offsets that will be when that transaction is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offsets: Option<Vec<StoredOffset>>,
    /// The transaction that `offsets` wait for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending_in: Option<PendingIn>,
    /// Offsets that were removed, committed and pending ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub removed_offsets: Option<Vec<StoredPartition>>,
    /// A transaction that was decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transaction: Option<DecidedTransaction>,
    /// The group is gone, with all that belongs to it.
    #[serde(skip_serializing_if = "is_false")]
    pub removed: bool,
}

/// The members of a group at its last sync, and what they were assigned. An empty group has no members, protocol and leader.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredGroup {
    /// Counts the rebalances.
    pub generation: i32,
    /// `consumer`, `connect` or what the members call it.
    pub protocol_type: Option<String>,
    /// The protocol that was chosen.
    pub protocol: Option<String>,
    /// The leader's member id.
    pub leader: Option<String>,
    /// By member id.
    pub members: Vec<StoredMember>,
    /// When the group came to its state, in milliseconds since the epoch. Offsets of an empty group are kept from then on.
    pub state_timestamp_ms: i64,
}

/// A member of a stored group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredMember {
    /// Made by the coordinator.
    pub member_id: String,
    /// What a static member calls itself (KIP-345).
    pub group_instance_id: Option<String>,
    /// From the request's header.
    pub client_id: String,
    /// The peer's address.
    pub client_host: String,
    /// How long others wait for it when the group rebalances.
    pub rebalance_timeout_ms: i32,
    /// How long it may be silent.
    pub session_timeout_ms: i32,
    /// Its metadata for the chosen protocol.
    #[serde(with = "base64")]
    pub subscription: Bytes,
    /// What the leader assigned to it.
    #[serde(with = "base64")]
    pub assignment: Bytes,
}

/// An offset that was committed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredOffset {
    /// The topic's name.
    pub topic: String,
    /// The topic's identity: to another topic of that name the offset means nothing.
    pub topic_id: Uuid,
    /// The partition.
    pub partition: i32,
    /// The next record to read.
    pub offset: i64,
    /// The leader epoch of the last record that was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leader_epoch: Option<i32>,
    /// Whatever the committer wants to remember.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub metadata: String,
    /// Milliseconds since the epoch.
    pub commit_timestamp_ms: i64,
    /// When the committer itself said how long to keep it (OffsetCommit 2 to 4): until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expire_timestamp_ms: Option<i64>,
}

/// A partition whose offset was removed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct StoredPartition {
    /// The topic's name.
    pub topic: String,
    /// The identity of the topic, if another topic of that name keeps what it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic_id: Option<Uuid>,
    /// The partition.
    pub partition: i32,
}

/// The transaction that offsets are pending in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingIn {
    /// The transactional producer.
    pub producer_id: i64,
    /// Its epoch at its last commit of offsets.
    pub producer_epoch: i16,
}

/// A transaction that was decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecidedTransaction {
    /// The transactional producer.
    pub producer_id: i64,
    /// Whether its pending offsets are committed ones now, or nothing.
    pub committed: bool,
}

impl GroupEntry {
    fn of(group: &str) -> Self {
        Self { group: group.to_owned(), ..Self::default() }
    }

    pub(super) fn state(group: &str, state: StoredGroup) -> Self {
        Self { state: Some(state), ..Self::of(group) }
    }

    pub(super) fn offsets(group: &str, offsets: Vec<StoredOffset>, pending_in: Option<PendingIn>) -> Self {
        Self { offsets: Some(offsets), pending_in, ..Self::of(group) }
    }

    pub(super) fn removed_offsets(group: &str, partitions: Vec<StoredPartition>) -> Self {
        Self { removed_offsets: Some(partitions), ..Self::of(group) }
    }

    pub(super) fn transaction(group: &str, transaction: DecidedTransaction) -> Self {
        Self { transaction: Some(transaction), ..Self::of(group) }
    }

    pub(super) fn removed(group: &str) -> Self {
        Self { removed: true, ..Self::of(group) }
    }
}

#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_false(value: &bool) -> bool {
    !value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(entry: &GroupEntry, json: &str) {
        assert_eq!(serde_json::to_string(entry).unwrap(), json);
        assert_eq!(&serde_json::from_str::<GroupEntry>(json).unwrap(), entry);
    }

    #[test]
    fn entries_are_json_for_people() {
        let member = StoredMember {
            member_id: "c-1".to_owned(),
            group_instance_id: None,
            client_id: "c".to_owned(),
            client_host: "/127.0.0.1".to_owned(),
            rebalance_timeout_ms: 2,
            session_timeout_ms: 3,
            subscription: Bytes::from_static(b"\0\x01"),
            assignment: Bytes::new(),
        };
        let state = StoredGroup {
            generation: 4,
            protocol_type: Some("consumer".to_owned()),
            protocol: Some("range".to_owned()),
            leader: Some("c-1".to_owned()),
            members: vec![member],
            state_timestamp_ms: 5,
        };
        round_trip(
            &GroupEntry::state("g/\u{e9}", state),
            concat!(
                r#"{"group":"g/é","state":{"generation":4,"protocol_type":"consumer","protocol":"range","leader":"c-1","#,
                r#""members":[{"member_id":"c-1","group_instance_id":null,"client_id":"c","client_host":"/127.0.0.1","#,
                r#""rebalance_timeout_ms":2,"session_timeout_ms":3,"subscription":"AAE=","assignment":""}],"#,
                r#""state_timestamp_ms":5}}"#
            ),
        );
        let offset = StoredOffset {
            topic: "t".to_owned(),
            topic_id: Uuid::nil(),
            partition: 1,
            offset: 2,
            leader_epoch: None,
            metadata: String::new(),
            commit_timestamp_ms: 3,
            expire_timestamp_ms: None,
        };
        let plain = concat!(
            r#"{"topic":"t","topic_id":"00000000-0000-0000-0000-000000000000","partition":1,"offset":2,"#,
            r#""commit_timestamp_ms":3}"#
        );
        round_trip(
            &GroupEntry::offsets("g", vec![offset.clone()], None),
            &format!(r#"{{"group":"g","offsets":[{plain}]}}"#),
        );
        round_trip(
            &GroupEntry::offsets("g", vec![offset], Some(PendingIn { producer_id: 7, producer_epoch: 1 })),
            &format!(
                r#"{{"group":"g","offsets":[{plain}],"pending_in":{{"producer_id":7,"producer_epoch":1}}}}"#
            ),
        );
        let partitions = vec![StoredPartition::new("t", 1)];
        round_trip(
            &GroupEntry::removed_offsets("g", partitions),
            r#"{"group":"g","removed_offsets":[{"topic":"t","partition":1}]}"#,
        );
        round_trip(
            &GroupEntry::transaction("g", DecidedTransaction { producer_id: 7, committed: true }),
            r#"{"group":"g","transaction":{"producer_id":7,"committed":true}}"#,
        );
        round_trip(&GroupEntry::removed("g"), r#"{"group":"g","removed":true}"#);
    }
}
