//! Offsets go: by age (`offsets.retention.minutes`), with their topic, by order of an administrator, with the group.

use uuid::Uuid;

use super::GroupError;
use super::GroupState::{Empty, Stable};
use super::entry::{GroupEntry, StoredPartition};
use super::group::Group;
use super::offsets::CommittedOffset;
use super::reply::Turn;

/// From when on an offset's age counts.
enum Age {
    /// From its commit.
    Commit,
    /// From when the group lost its last member.
    Group,
    /// From its commit, but not while the topic is subscribed to.
    Unsubscribed,
    /// Never.
    Ageless,
}

impl<T: Send + 'static> Group<T> {
    /// Removes offsets that are too old. True if nothing is left of the group.
    pub(super) fn expire_offsets(&mut self, turn: &mut Turn<'_, T>) -> bool {
        let age = self.age();
        let all = self.offsets.all();
        // What a transaction is about to replace is not unused.
        let expired = all.filter(|(topic, partition, offset)| {
            !self.offsets.is_pending(topic, *partition) && self.is_expired(&age, topic, offset, turn)
        });
        let expired = expired.map(|(topic, partition, _)| StoredPartition::new(topic, partition)).collect();
        self.remove_offsets(expired, turn)
    }

    fn age(&self) -> Age {
        match &self.protocol_type {
            None => Age::Commit,
            Some(_) if self.is(Empty) => Age::Group,
            Some(_) if self.is(Stable) && self.is_consumer_group() && self.subscribed.is_some() => {
                Age::Unsubscribed
            }
            Some(_) => Age::Ageless,
        }
    }

    fn is_expired(&self, age: &Age, topic: &str, offset: &CommittedOffset, turn: &Turn<'_, T>) -> bool {
        let since = match age {
            Age::Commit => offset.commit_timestamp_ms,
            Age::Group => self.state_timestamp_ms,
            Age::Unsubscribed if !self.may_be_subscribed(topic) => offset.commit_timestamp_ms,
            Age::Unsubscribed | Age::Ageless => return false,
        };
        match offset.expire_timestamp_ms {
            Some(expires) => turn.now.wall_ms >= expires,
            None => turn.now.wall_ms.saturating_sub(since) >= turn.options.offsets_retention_ms,
        }
    }

    /// Removes the offsets of topics that are `gone`. True if nothing is left of the group.
    pub(super) fn forget_topics(
        &mut self,
        gone: &dyn Fn(&str, Uuid) -> bool,
        turn: &mut Turn<'_, T>,
    ) -> bool {
        let of_topics = self.offsets.of_topics(gone);
        !of_topics.is_empty() && self.remove_offsets(of_topics, turn)
    }

    /// OffsetDelete (KIP-496): what became of each partition, and whether anything is left of the group.
    pub(super) fn delete_offsets(
        &mut self,
        partitions: &[StoredPartition],
        turn: &mut Turn<'_, T>,
    ) -> Result<(Vec<Result<(), GroupError>>, bool), GroupError> {
        if !self.is(Empty) && !self.is_consumer_group() {
            return Err(GroupError::NonEmptyGroup);
        }
        let is_used =
            |partition: &StoredPartition| !self.is(Empty) && self.may_be_subscribed(&partition.topic);
        let used: Vec<bool> = partitions.iter().map(is_used).collect();
        let unused =
            partitions.iter().zip(&used).filter(|(_, used)| !**used).map(|(partition, _)| partition.clone());
        let unused: Vec<StoredPartition> = unused.collect();
        let dead = !unused.is_empty() && self.remove_offsets(unused, turn);
        let result = |used| if used { Err(GroupError::GroupSubscribedToTopic) } else { Ok(()) };
        Ok((used.into_iter().map(result).collect(), dead))
    }

    /// Removes what there is of these, and says so. A group without members that has no offsets left is gone: then that is said.
    fn remove_offsets(&mut self, partitions: Vec<StoredPartition>, turn: &mut Turn<'_, T>) -> bool {
        let durable = self.is_durable();
        let mut removed = partitions;
        removed.retain(|gone| self.offsets.remove(gone));
        let dead = self.is(Empty) && self.offsets.is_empty();
        if dead && durable {
            turn.record(GroupEntry::removed(&self.id));
        } else if !removed.is_empty() {
            turn.record(GroupEntry::removed_offsets(&self.id, removed));
        }
        dead
    }
}
