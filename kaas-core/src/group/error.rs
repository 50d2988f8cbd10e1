//! Why a coordinator of groups refuses.

/// A refusal, in Kafka's terms. None had an effect on the group, but for what the variant says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum GroupError {
    /// The caller's fault: an empty group id, where a group is to be joined.
    #[error("the group id is empty")]
    InvalidGroupId,
    /// The caller's fault: `group.min.session.timeout.ms` and `group.max.session.timeout.ms` bound the session timeout.
    #[error("the session timeout is not within the coordinator's bounds")]
    InvalidSessionTimeout,
    /// The caller's fault: the group's protocol type is another one, or no protocol is common to all members.
    #[error("the group's members have no protocol in common with the caller")]
    InconsistentGroupProtocol,
    /// Join again with the member id that comes with this (KIP-394). The id is remembered for a session timeout.
    #[error("the group needs members to join with a member id")]
    MemberIdRequired,
    /// Join again as a new member: the group has no such member.
    #[error("the group has no member with this id")]
    UnknownMemberId,
    /// Join again: the group has gone on to another generation.
    #[error("the generation is not the group's")]
    IllegalGeneration,
    /// Join again: the group's members are coming together.
    #[error("the group is rebalancing")]
    RebalanceInProgress,
    /// Stop: another member has taken over this group instance id (KIP-345).
    #[error("another member has taken over the group instance id")]
    FencedInstanceId,
    /// The caller's fault: the group has `group.max.size` members. If the caller was one that had not rejoined, it is none any more.
    #[error("the group has as many members as it may have")]
    GroupMaxSizeReached,
    /// The caller's fault: a member id that the coordinator handed to a dynamic member came with a group instance id.
    #[error("a member id that was made for a dynamic member came with a group instance id")]
    PendingMemberIsDynamic,
    /// There is no such group.
    #[error("the group does not exist")]
    GroupIdNotFound,
    /// The group has members.
    #[error("the group is not empty")]
    NonEmptyGroup,
    /// A member is subscribed to the topic (KIP-496).
    #[error("the group is subscribed to the topic")]
    GroupSubscribedToTopic,
    /// The caller's fault: a committed offset's metadata is longer than `offset.metadata.max.bytes`.
    #[error("the offset's metadata is too large")]
    OffsetMetadataTooLarge,
    /// Ask again: a transaction that commits this offset is not decided yet (KIP-447).
    #[error("a transaction has the offset pending")]
    UnstableOffsetCommit,
    /// Stop: another producer has taken over the producer id.
    #[error("the producer epoch is not the newest")]
    InvalidProducerEpoch,
    /// The caller's fault: nothing proves that the commit belongs to an open transaction (KIP-890).
    #[error("the commit does not belong to an open transaction")]
    InvalidTxnState,
    /// Try later: the coordinator keeps as many groups as it may.
    #[error("the coordinator keeps as many groups as it may")]
    TooManyGroups,
}
