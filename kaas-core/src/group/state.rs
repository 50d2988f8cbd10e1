//! Where a group is in its life.

use std::fmt;

/// The states of Kafka's classic groups. A group that does not exist is told as `Dead`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupState {
    /// No members: nothing but offsets, or not even that.
    Empty,
    /// Members are to join: JoinGroups wait until all have, or until their time is over.
    PreparingRebalance,
    /// All have joined: SyncGroups wait for what the leader assigns.
    CompletingRebalance,
    /// Everyone can have its assignment.
    Stable,
}

impl GroupState {
    /// The name that Kafka's protocol and tools use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::PreparingRebalance => "PreparingRebalance",
            Self::CompletingRebalance => "CompletingRebalance",
            Self::Stable => "Stable",
        }
    }
}

impl fmt::Display for GroupState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
