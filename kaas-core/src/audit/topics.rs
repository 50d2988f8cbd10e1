//! The topics: their metadata, and the directories of their data.

use std::collections::BTreeMap;

use uuid::Uuid;

use super::cluster::UNFINISHED;
use super::{Audit, AuditError, Problem, Severity};
use crate::PARTITIONS_MAX;
use crate::engine::topics::TopicRecord;
use crate::ids::TopicName;
use crate::layout::{
    DELETED_SUFFIX, TMP_SUFFIX, TOPIC_METADATA_DIR, TOPICS_DIR, parse_topic_stem, topic_stem,
};

/// A topic that metadata speaks of.
struct Known {
    partitions: u32,
    retired: bool,
    /// The name of its directory.
    stem: String,
}

impl Audit<'_> {
    pub(super) fn topics(&mut self) -> Result<(), AuditError> {
        // The data first: a topic that is made meanwhile has its metadata before it has data.
        let found = self.list(TOPICS_DIR);
        let topics = self.metadata();
        for entry in found {
            let path = format!("{TOPICS_DIR}/{}", entry.name);
            let aside = entry.name.strip_suffix(DELETED_SUFFIX);
            let stem = aside.unwrap_or(&entry.name);
            match parse_topic_stem(stem).filter(|_| entry.is_dir) {
                None => self.found(Severity::Warning, path, Problem::UnknownName),
                Some(id) => match topics.get(&id) {
                    Some(topic) if aside.is_some() || topic.retired => {
                        let problem = Problem::Leftover("a deleted topic whose removal is not finished");
                        self.found(Severity::Note, path, problem);
                    }
                    Some(topic) if topic.stem == stem => self.topic_data(&path, topic),
                    _ => self.data_without_topic(&path),
                },
            }
        }
        Ok(())
    }

    fn metadata(&mut self) -> BTreeMap<Uuid, Known> {
        let mut topics = BTreeMap::new();
        let mut names: BTreeMap<String, Uuid> = BTreeMap::new();
        for entry in self.list(TOPIC_METADATA_DIR) {
            let path = format!("{TOPIC_METADATA_DIR}/{}", entry.name);
            let live = entry.name.strip_suffix(".json");
            let retired = entry.name.strip_suffix(DELETED_SUFFIX).and_then(|name| name.strip_suffix(".json"));
            let Some((stem, id)) = live.or(retired).and_then(|stem| Some((stem, parse_topic_stem(stem)?)))
            else {
                let problem =
                    if entry.name.ends_with(TMP_SUFFIX) { UNFINISHED } else { Problem::UnknownName };
                let severity = if problem == UNFINISHED { Severity::Note } else { Severity::Warning };
                self.found(severity, path, problem);
                continue;
            };
            let known = |partitions| Known { partitions, retired: live.is_none(), stem: stem.to_owned() };
            if live.is_none() {
                let problem = Problem::Leftover("a deleted topic whose removal is not finished");
                self.found(Severity::Note, &*path, problem);
            }
            let Some(record) = self.state::<TopicRecord>(&path, Severity::Damage) else {
                // Its data is audited all the same.
                topics.insert(id, known(PARTITIONS_MAX));
                continue;
            };
            if record.id != id
                || topic_stem(&record.name, &record.id) != stem
                || TopicName::new(&record.name).is_err()
            {
                let why = format!("it describes topic {:?} {}", record.name, record.id);
                self.found(Severity::Damage, &*path, Problem::Contradiction(why));
            } else if live.is_some()
                && let Some(other) = names.insert(record.name.clone(), id)
            {
                let why = format!("topic {} has the same name", topic_stem(&record.name, &other));
                self.found(Severity::Damage, &*path, Problem::Contradiction(why));
            }
            if !(1..=PARTITIONS_MAX).contains(&record.partitions) {
                let why = format!("it has {} partitions", record.partitions);
                self.found(Severity::Damage, &*path, Problem::Contradiction(why));
            }
            self.summary.topics += u64::from(live.is_some());
            topics.insert(id, known(record.partitions));
        }
        topics
    }

    fn topic_data(&mut self, path: &str, topic: &Known) {
        let mut indexes = Vec::new();
        for entry in self.list(path) {
            let index =
                entry.name.parse::<u32>().ok().filter(|n| entry.is_dir && n.to_string() == entry.name);
            match index {
                Some(index) => indexes.push(index),
                None => self.found(Severity::Warning, format!("{path}/{}", entry.name), Problem::UnknownName),
            }
        }
        indexes.sort_unstable();
        for index in indexes {
            let dir = format!("{path}/{index}");
            if index >= topic.partitions {
                let why = format!("the topic has {} partitions", topic.partitions);
                self.found(Severity::Warning, &*dir, Problem::Contradiction(why));
            }
            self.partition(&dir);
        }
    }

    /// A topic that was deleted while this went on leaves nothing, and that is fine.
    fn data_without_topic(&mut self, path: &str) {
        if !self.list(path).is_empty() {
            self.found(Severity::Warning, path, Problem::DataWithoutTopic);
        }
    }
}
