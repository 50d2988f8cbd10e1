//! What a fetch asks for: partitions in order, by the name or by the id of their topic.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use kaas_core::Topics;
use kaas_proto::KStr;
use kaas_proto::messages::FetchRequest;
use uuid::Uuid;

/// A partition in the terms of the client. Sessions up to v12 know topics by name, later ones by id.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    /// The topic's name; empty where topics go by id.
    pub(super) topic: KStr,
    /// The topic's id; nil where topics go by name.
    pub(super) topic_id: Uuid,
    /// Whether topics go by id.
    pub(super) by_id: bool,
    /// The partition.
    pub(super) partition: i32,
}

impl Key {
    /// Whether both are of the same topic.
    pub(super) fn same_topic(&self, other: &Key) -> bool {
        self.topic_id == other.topic_id && self.topic == other.topic
    }
}

/// From where and how much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Want {
    pub(super) offset: i64,
    pub(super) bytes_max: i32,
    pub(super) leader_epoch: i32,
    pub(super) last_fetched_epoch: i32,
}

/// One partition of a fetch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) key: Key,
    pub(super) want: Want,
    /// The name that the topic's id had when the client first named it.
    pub(super) name: Option<KStr>,
}

/// The partitions of a request, in its order, and those that its session shall forget.
#[derive(Clone, Debug, Default)]
pub(super) struct Items {
    pub(super) wanted: Vec<Item>,
    pub(super) forgotten: Vec<Key>,
}

impl Items {
    /// Reads a request. Names are copied: a session outlives the frame. Of a partition that comes twice the last entry counts.
    pub(super) fn of(request: &FetchRequest, by_id: bool, topics: &Topics) -> Items {
        let key = |topic: &KStr, topic_id: Uuid, partition: i32| {
            let (topic, topic_id) =
                if by_id { (KStr::default(), topic_id) } else { (topic.detached(), Uuid::nil()) };
            Key { topic, topic_id, by_id, partition }
        };
        let mut wanted: Vec<Item> = Vec::new();
        let mut places: HashMap<Key, usize> = HashMap::new();
        for topic in &request.topics {
            let named = if by_id { topics.by_id(&topic.topic_id) } else { None };
            let name = named.map(|topic| KStr::from(topic.name.as_str()));
            for partition in &topic.partitions {
                let key = key(&topic.topic, topic.topic_id, partition.partition);
                let want = Want {
                    offset: partition.fetch_offset,
                    bytes_max: partition.partition_max_bytes,
                    leader_epoch: partition.current_leader_epoch,
                    last_fetched_epoch: partition.last_fetched_epoch,
                };
                match places.entry(key.clone()) {
                    Entry::Occupied(place) => wanted[*place.get()].want = want,
                    Entry::Vacant(place) => {
                        place.insert(wanted.len());
                        wanted.push(Item { key, want, name: name.clone() });
                    }
                }
            }
        }
        let forgotten = request.forgotten_topics_data.iter().flat_map(|topic| {
            topic.partitions.iter().map(move |partition| key(&topic.topic, topic.topic_id, *partition))
        });
        Items { wanted, forgotten: forgotten.collect() }
    }
}

/// The partitions that one answer is about; shared, because a waiting fetch looks at them again.
pub(super) type Shared = Arc<Vec<Item>>;
