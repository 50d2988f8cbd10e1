//! What is durable about one transactional id.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::State;

/// A producer: its id and its epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProducerIdentity {
    /// Given out once in the life of a cluster.
    pub producer_id: i64,
    /// From 0; a higher one fences the lower ones.
    pub producer_epoch: i16,
}

impl ProducerIdentity {
    /// Whether no producer may have a higher epoch: the highest is kept for fencing this one.
    pub(super) fn is_exhausted(self) -> bool {
        self.producer_epoch >= i16::MAX - 1
    }
}

/// A set of partitions, by topic.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Partitions(BTreeMap<String, BTreeSet<i32>>);

impl Partitions {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.values().map(BTreeSet::len).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether this one is among them.
    pub fn contains(&self, topic: &str, partition: i32) -> bool {
        self.0.get(topic).is_some_and(|partitions| partitions.contains(&partition))
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, i32)> {
        self.0.iter().flat_map(|(topic, partitions)| partitions.iter().map(|&at| (topic.as_str(), at)))
    }

    /// All of them, by topic.
    pub fn topics(&self) -> impl Iterator<Item = (&str, &BTreeSet<i32>)> {
        self.0.iter().map(|(topic, partitions)| (topic.as_str(), partitions))
    }

    pub(super) fn insert(&mut self, topic: &str, partition: i32) {
        match self.0.get_mut(topic) {
            Some(partitions) => drop(partitions.insert(partition)),
            None => drop(self.0.insert(topic.to_owned(), BTreeSet::from([partition]))),
        }
    }

    pub(super) fn remove(&mut self, topic: &str, partition: i32) {
        if let Some(partitions) = self.0.get_mut(topic) {
            partitions.remove(&partition);
            if partitions.is_empty() {
                self.0.remove(topic);
            }
        }
    }
}

/// One transactional id, as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metadata {
    /// Where it is.
    pub status: State,
    /// The producer id that it has.
    pub producer_id: i64,
    /// The epoch of its producer. No producer has it while an abort that fenced one is under way.
    pub producer_epoch: i16,
    /// The producer id before this one, whose epochs were exhausted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_producer_id: Option<i64>,
    /// The epoch from which the producer itself was moved on to this one (KIP-360).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_producer_epoch: Option<i16>,
    /// How long a transaction may take, in milliseconds.
    pub timeout_ms: i32,
    /// The transaction's partitions: from the first one added until all markers are written.
    pub partitions: Partitions,
    /// When the last transaction began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_timestamp_ms: Option<i64>,
    /// When this was last changed.
    pub last_update_timestamp_ms: i64,
}

impl Metadata {
    /// The producer that may go on.
    pub fn producer(&self) -> ProducerIdentity {
        ProducerIdentity { producer_id: self.producer_id, producer_epoch: self.producer_epoch }
    }

    /// Whether it can have been stored by a coordinator.
    pub(super) fn is_sound(&self) -> bool {
        let partitions_belong = self.partitions.is_empty() || !self.status.is_idle();
        self.status.is_durable() && self.producer_id >= 0 && self.producer_epoch >= 0 && partitions_belong
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_are_a_set_that_people_can_read() {
        let mut partitions = Partitions::default();
        for (topic, partition) in [("b", 2), ("a", 0), ("b", 1), ("b", 2)] {
            partitions.insert(topic, partition);
        }
        assert_eq!(serde_json::to_string(&partitions).unwrap(), r#"{"a":[0],"b":[1,2]}"#);
        assert_eq!(partitions.len(), 3);
        assert!(partitions.contains("b", 1) && !partitions.contains("b", 0) && !partitions.contains("c", 1));
        assert_eq!(partitions.iter().collect::<Vec<_>>(), [("a", 0), ("b", 1), ("b", 2)]);
        partitions.remove("a", 0);
        partitions.remove("a", 0);
        assert_eq!(partitions.topics().count(), 1);
        partitions.remove("b", 1);
        partitions.remove("b", 2);
        assert!(partitions.is_empty());
    }
}
