//! Topics: the image that readers see, and the files behind it.
//!
//! A topic exists from the moment its metadata file is renamed into place until that file is renamed aside;
//! its data directory follows. Both moments are made durable before anyone is told.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::config::LogConfig;
use crate::error::{OpenError, StorageError};
use crate::ids::TopicName;
use crate::layout::{
    DELETED_SUFFIX, TMP_SUFFIX, TOPIC_METADATA_DIR, TOPICS_DIR, parse_topic_stem, topic_dir, topic_metadata,
};
use crate::log::Partition;
use crate::state_file::{self, DamagedState};
use crate::volume::{Volume, parent, replace_file};

/// A topic.
#[derive(Debug)]
pub struct Topic {
    /// Its name.
    pub name: TopicName,
    /// Its identity: a topic that is deleted and created again has another.
    pub id: Uuid,
    /// The overrides it was created with, by Kafka's property names.
    pub config: BTreeMap<String, String>,
    /// Its partitions, by index.
    pub partitions: Vec<Arc<Partition>>,
    /// The settings of its logs, as resolved from [`config`](Self::config).
    pub log_config: Arc<ArcSwap<LogConfig>>,
}

impl Topic {
    /// The partition with this index.
    pub fn partition(&self, index: i32) -> Option<&Arc<Partition>> {
        self.partitions.get(usize::try_from(index).ok()?)
    }
}

/// All topics at one moment.
#[derive(Debug, Default)]
pub struct Topics {
    by_name: BTreeMap<TopicName, Arc<Topic>>,
    names: BTreeMap<Uuid, TopicName>,
    /// Grows with every change.
    pub version: u64,
}

impl Topics {
    /// The topic of this name.
    pub fn by_name(&self, name: &str) -> Option<Arc<Topic>> {
        self.by_name.get(name).cloned()
    }

    /// The topic of this identity.
    pub fn by_id(&self, id: &Uuid) -> Option<Arc<Topic>> {
        self.by_name.get(self.names.get(id)?).cloned()
    }

    /// All topics, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Topic>> {
        self.by_name.values()
    }

    /// How many topics there are.
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    pub(crate) fn with(&self, topic: Arc<Topic>) -> Self {
        let mut next = self.next();
        next.insert(topic);
        next
    }

    pub(crate) fn insert(&mut self, topic: Arc<Topic>) {
        self.names.insert(topic.id, topic.name.clone());
        self.by_name.insert(topic.name.clone(), topic);
    }

    pub(crate) fn without(&self, topic: &Topic) -> Self {
        let mut next = self.next();
        next.names.remove(&topic.id);
        next.by_name.remove(&topic.name);
        next
    }

    fn next(&self) -> Self {
        Self { by_name: self.by_name.clone(), names: self.names.clone(), version: self.version + 1 }
    }
}

/// The content of a topic's metadata file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct TopicRecord {
    pub(crate) name: String,
    pub(crate) id: Uuid,
    pub(crate) partitions: u32,
    pub(crate) config: BTreeMap<String, String>,
}

/// Makes a topic exist.
pub(crate) fn store(volume: &dyn Volume, record: &TopicRecord) -> Result<(), StorageError> {
    let path = topic_metadata(&record.name, &record.id);
    Ok(replace_file(volume, &path, &state_file::encode(record)?, true)?)
}

/// Makes a topic not exist. What is left of it is removed by [`sweep`].
pub(crate) fn retire(volume: &dyn Volume, name: &str, id: &Uuid) -> Result<(), StorageError> {
    let path = topic_metadata(name, id);
    match volume.rename(&path, &format!("{path}{DELETED_SUFFIX}")) {
        Ok(()) => {}
        // An earlier try renamed it and failed to make that durable.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(error.into()),
    }
    Ok(volume.sync_dir(parent(&path))?)
}

/// Removes the data of a retired topic, and last its metadata; may be repeated after a crash.
pub(crate) fn sweep(volume: &dyn Volume, name: &str, id: &Uuid) -> Result<(), StorageError> {
    let data = topic_dir(name, id);
    let aside = format!("{data}{DELETED_SUFFIX}");
    match volume.rename(&data, &aside) {
        Ok(()) => volume.sync_dir(TOPICS_DIR)?,
        // A topic that nobody wrote to has no directory, and an interrupted sweep has moved it.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(error.into()),
    }
    remove_tree(volume, &aside)?;
    volume.sync_dir(TOPICS_DIR)?;
    volume.remove_file(&format!("{}{DELETED_SUFFIX}", topic_metadata(name, id)))?;
    Ok(volume.sync_dir(TOPIC_METADATA_DIR)?)
}

fn remove_tree(volume: &dyn Volume, dir: &str) -> Result<(), StorageError> {
    let entries = match volume.list(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    for entry in entries {
        let path = format!("{dir}/{}", entry.name);
        if entry.is_dir {
            remove_tree(volume, &path)?;
            continue;
        }
        match volume.remove_file(&path) {
            // Retention may have removed it a moment ago.
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
    }
    Ok(volume.remove_dir(dir)?)
}

/// What is on the volume.
pub(crate) struct Found {
    pub(crate) live: Vec<TopicRecord>,
    /// Topics whose deletion was decided and not finished.
    pub(crate) retired: Vec<TopicRecord>,
}

/// Reads all metadata. Nothing is guessed: a file that cannot be trusted stops the start. What another broker may be
/// writing at this moment is left to it when the volume is `shared`.
pub(crate) fn load(volume: &dyn Volume, shared: bool) -> Result<Found, OpenError> {
    let storage = |path: &str| {
        let path = path.to_owned();
        move |error: std::io::Error| OpenError::Storage { path, error: error.into() }
    };
    let mut found = Found { live: Vec::new(), retired: Vec::new() };
    let mut known = std::collections::HashSet::new();
    for entry in volume.list(TOPIC_METADATA_DIR).map_err(storage(TOPIC_METADATA_DIR))? {
        let path = format!("{TOPIC_METADATA_DIR}/{}", entry.name);
        if entry.name.ends_with(TMP_SUFFIX) {
            // The topic was being created, and its creator never learned that it was.
            if !shared {
                volume.remove_file(&path).map_err(storage(&path))?;
            }
            continue;
        }
        let live = entry.name.strip_suffix(".json");
        let retired = entry.name.strip_suffix(DELETED_SUFFIX).and_then(|name| name.strip_suffix(".json"));
        let Some(stem) = live.or(retired) else {
            tracing::warn!(path, "not a topic's metadata: left alone");
            continue;
        };
        let Some(read) = state_file::load::<TopicRecord>(volume, &path).map_err(storage(&path))? else {
            continue;
        };
        let record = read?;
        if parse_topic_stem(stem) != Some(record.id) || TopicName::new(&record.name).is_err() {
            let why = format!("it describes topic {:?} {}", record.name, record.id);
            return Err(DamagedState { path, why }.into());
        }
        known.insert(record.id);
        if live.is_some() { &mut found.live } else { &mut found.retired }.push(record);
    }
    for entry in volume.list(TOPICS_DIR).map_err(storage(TOPICS_DIR))? {
        let stem = entry.name.strip_suffix(DELETED_SUFFIX).unwrap_or(&entry.name);
        if !parse_topic_stem(stem).is_some_and(|id| known.contains(&id)) {
            tracing::warn!(directory = entry.name, "topic data without metadata: left alone");
        }
    }
    Ok(found)
}
