//! Consumer groups: Kafka's classic group protocol, as a state machine without files, threads or clocks.
//!
//! A [`GroupSlot`] holds the groups of one slot. Its calls are what Kafka 3.7's GroupCoordinator is asked: members join, are told what
//! their leader assigned, say that they live, leave; anyone commits offsets and reads them. JoinGroup and SyncGroup wait for other
//! members: the caller hands in a token, and an [`Outbox`](crate::coordinator::Outbox) answers it, in the same call or in a later one.
//! All else is answered at once.
//!
//! What lasts is repeated as [`GroupEntry`]s, at the moments at which Kafka writes to its internal topic: the members with their
//! assignment when the leader assigns, when a static member is replaced and when the group is empty; offsets when they are committed,
//! when a transaction has them pending and when they go. A rebalance that is under way does not last: members that a restart
//! interrupts join again.
//!
//! Answers, their order and what has a timeout are Kafka's. The differences:
//! - A change is made at once, not when it has been written; the host lets no answer leave before.
//! - A caller that waits is always answered. Kafka forgets one whose member calls again or leaves meanwhile.
//! - Who leads, and which of two equally liked protocols is chosen, is a matter of hashing in Kafka, of names here.
//! - Groups of a slot and member ids that nobody uses are bounded.

mod commit;
mod describe;
mod entry;
mod error;
mod expire;
#[allow(clippy::module_inception)]
mod group;
mod heartbeat;
mod join;
mod leave;
mod member;
mod members;
mod offsets;
mod options;
mod rebalance;
mod reply;
mod retention;
mod slot;
mod state;
mod statics;
mod subscription;
mod sync;
mod transactions;

#[cfg(test)]
mod tests;

pub use commit::{CommitRequest, CommitResults, Committer, OffsetToCommit, TxnCommitRequest};
pub use describe::{DescribedGroup, DescribedMember, FetchedOffset, FetchedTopic, ListedGroup};
pub use entry::{
    DecidedTransaction, GroupEntry, PendingIn, StoredGroup, StoredMember, StoredOffset, StoredPartition,
};
pub use error::GroupError;
pub use heartbeat::HeartbeatRequest;
pub use join::JoinRequest;
pub use leave::{LeaveRequest, LeavingMember};
pub use member::Protocols;
pub use offsets::CommittedOffset;
pub use options::GroupOptions;
pub use reply::{GroupReply, JoinRefused, Joined, JoinedMember, Synced};
pub use slot::GroupSlot;
pub use state::GroupState;
pub use sync::SyncRequest;
