//! The states of a transactional id, and which may follow which.

use serde::{Deserialize, Serialize};

/// The state of a transactional id, by Kafka's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum State {
    /// The producer has its id and epoch, and no transaction.
    Empty,
    /// Partitions were added.
    Ongoing,
    /// To be committed; markers are being written.
    PrepareCommit,
    /// To be aborted; markers are being written.
    PrepareAbort,
    /// Committed, all markers written.
    CompleteCommit,
    /// Aborted, all markers written.
    CompleteAbort,
    /// Expired. No transactional id rests in this state: it is removed.
    Dead,
    /// The producer is being fenced. No transactional id rests in this state: the abort is decided in the same step.
    PrepareEpochFence,
}

impl State {
    /// All of them, in the order of Kafka's numbers.
    pub const ALL: [Self; 8] = [
        Self::Empty,
        Self::Ongoing,
        Self::PrepareCommit,
        Self::PrepareAbort,
        Self::CompleteCommit,
        Self::CompleteAbort,
        Self::Dead,
        Self::PrepareEpochFence,
    ];

    /// Kafka's name, as DescribeTransactions shows it and ListTransactions filters by.
    pub fn name(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::Ongoing => "Ongoing",
            Self::PrepareCommit => "PrepareCommit",
            Self::PrepareAbort => "PrepareAbort",
            Self::CompleteCommit => "CompleteCommit",
            Self::CompleteAbort => "CompleteAbort",
            Self::Dead => "Dead",
            Self::PrepareEpochFence => "PrepareEpochFence",
        }
    }

    /// The state of this name; case matters.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }

    /// Whether the outcome is fixed and markers are owed.
    pub fn is_prepared(self) -> bool {
        matches!(self, Self::PrepareCommit | Self::PrepareAbort)
    }

    /// Whether there is no transaction, so that the id may expire.
    pub fn is_idle(self) -> bool {
        matches!(self, Self::Empty | Self::CompleteCommit | Self::CompleteAbort)
    }

    /// Whether a transactional id rests in this state, so that it may be stored.
    pub(super) fn is_durable(self) -> bool {
        !matches!(self, Self::Dead | Self::PrepareEpochFence)
    }

    /// Whether an id in `from` may come into this state.
    pub(super) fn may_follow(self, from: Self) -> bool {
        match self {
            Self::Empty | Self::Dead => from.is_idle(),
            Self::Ongoing => from.is_idle() || from == Self::Ongoing,
            Self::PrepareCommit | Self::PrepareEpochFence => from == Self::Ongoing,
            Self::PrepareAbort => matches!(from, Self::Ongoing | Self::PrepareEpochFence),
            Self::CompleteCommit => from == Self::PrepareCommit,
            Self::CompleteAbort => from == Self::PrepareAbort,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_are_stored() {
        for state in State::ALL {
            assert_eq!(State::from_name(state.name()), Some(state));
            assert_eq!(serde_json::to_value(state).unwrap(), state.name());
        }
        assert_eq!(State::from_name("ongoing"), None);
    }

    #[test]
    fn a_decision_has_one_way_out() {
        let next = |from| State::ALL.into_iter().filter(|to| to.may_follow(from)).collect::<Vec<_>>();
        assert_eq!(next(State::PrepareCommit), [State::CompleteCommit]);
        assert_eq!(next(State::PrepareAbort), [State::CompleteAbort]);
        assert_eq!(next(State::PrepareEpochFence), [State::PrepareAbort]);
        assert_eq!(next(State::Dead), []);
        assert_eq!(next(State::CompleteCommit), [State::Empty, State::Ongoing, State::Dead]);
        assert_eq!(
            next(State::Ongoing),
            [State::Ongoing, State::PrepareCommit, State::PrepareAbort, State::PrepareEpochFence]
        );
    }
}
