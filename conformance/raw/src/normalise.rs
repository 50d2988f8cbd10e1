//! Takes out of answers what may differ between two right brokers: ids, times, addresses, wording.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value};

/// A time this close to the clock's was taken while the case ran, in milliseconds.
const NOW_WITHIN_MS: i64 = 10 * 60 * 1000;
/// Lists of transactions' answers whose order means nothing, and the field that orders them.
const TRANSACTION_LISTS: [(&str, &str); 7] = [
    ("resultsByTopicV3AndBelow", "name"),
    ("resultsByTransaction", "transactionalId"),
    ("topicResults", "name"),
    ("resultsByPartition", "partitionIndex"),
    ("markers", "producerId"),
    ("activeProducers", "producerId"),
    ("topics", "topic"),
];
const NO_UUID: &str = "AAAAAAAAAAAAAAAAAAAAAA";
/// The topic whose leader epoch has moved already.
pub(crate) const AGED: &str = "kaas-raw-aged";

/// What is known of the broker and the case.
pub(crate) struct Facts {
    /// The broker's host and port, as it advertises them.
    pub host: String,
    /// See `host`.
    pub port: i64,
    /// The broker's id.
    pub node: i64,
    /// What every topic's name of the case begins with.
    pub prefix: String,
    /// The leader epoch of the case's topics when they were new; none if it moved meanwhile, each broker's in its own way.
    pub epoch: Option<i64>,
}

/// Normalises the answers of one case, in order: the first id that is met is `$id1`, and so on.
pub(crate) struct Normaliser<'a> {
    facts: &'a Facts,
    ids: Vec<Value>,
}

impl<'a> Normaliser<'a> {
    /// For a case.
    pub(crate) fn new(facts: &'a Facts) -> Self {
        Self { facts, ids: Vec::new() }
    }

    /// The value with everything of that kind replaced.
    pub(crate) fn apply(&mut self, value: Value) -> Value {
        match value {
            Value::Array(items) => Value::Array(items.into_iter().map(|item| self.apply(item)).collect()),
            Value::Object(map) => {
                let mut map = map;
                self.lists(&mut map);
                Value::Object(
                    map.into_iter().map(|(key, value)| (key.clone(), self.field(&key, value))).collect(),
                )
            }
            Value::String(text) => Value::String(self.text(text)),
            other => other,
        }
    }

    fn text(&self, text: String) -> String {
        match text.strip_prefix(&self.facts.prefix) {
            Some(name) => format!("${name}"),
            None if text == AGED => "$aged".to_owned(),
            None => text,
        }
    }

    fn field(&mut self, key: &str, value: Value) -> Value {
        let number = value.as_i64();
        match key {
            "topicId" if value != NO_UUID => self.id("id", value),
            "producerId" if number.is_some_and(|id| id >= 0) => self.id("pid", value),
            "sessionId" if number.is_some_and(|id| id != 0) => self.id("session", value),
            "clusterId" if value.is_string() => Value::from("$cluster"),
            "host" if value == self.facts.host.as_str() => Value::from("$host"),
            "port" if number == Some(self.facts.port) => Value::from("$port"),
            "nodeId" | "leaderId" | "controllerId" | "brokerId" => self.node(value),
            "resourceName" if value == self.facts.node.to_string().as_str() => Value::from("$node"),
            "replicaNodes" | "isrNodes" | "offlineReplicas" => match value {
                Value::Array(nodes) => nodes.into_iter().map(|node| self.node(node)).collect(),
                other => other,
            },
            "leaderEpoch" | "currentLeaderEpoch" | "partitionLeaderEpoch" | "epoch" => self.epoch(value),
            // A marker that was being written when the broker was killed may be in the log twice.
            "highWatermark" | "lastStableOffset" if self.facts.epoch.is_none() => Value::from("$end"),
            "memberId" | "leader" => self.member(value),
            "finalizedFeaturesEpoch" if number.is_some_and(|epoch| epoch >= 0) => Value::from("$epoch"),
            "errorMessage" | "batchIndexErrorMessage" | "documentation"
                if value.as_str().is_some_and(|text| !text.is_empty()) =>
            {
                Value::from("$text")
            }
            // Coordinators begin with epochs of their own.
            "coordinatorEpoch" if number.is_some_and(|epoch| epoch >= 0) => Value::from("$coordinator"),
            "logAppendTimeMs"
            | "timestamp"
            | "baseTimestamp"
            | "maxTimestamp"
            | "lastTimestamp"
            | "transactionStartTimeMs" => time(value),
            _ => self.apply(value),
        }
    }

    fn id(&mut self, kind: &str, value: Value) -> Value {
        let known = self.ids.iter().position(|id| *id == value).unwrap_or_else(|| {
            self.ids.push(value);
            self.ids.len() - 1
        });
        Value::from(format!("${kind}{}", known + 1))
    }

    /// A member id is the client's or the instance's name with a uuid behind it.
    fn member(&mut self, value: Value) -> Value {
        let Some((name, uuid)) = value.as_str().and_then(split_uuid) else { return value };
        let id = self.id("member", Value::from(uuid));
        Value::from(format!("{name}-{}", id.as_str().unwrap_or_default()))
    }

    fn node(&self, value: Value) -> Value {
        if value.as_i64() == Some(self.facts.node) { Value::from("$node") } else { value }
    }

    /// Epochs count from the first one that the broker gives a new partition.
    fn epoch(&self, value: Value) -> Value {
        match value.as_i64() {
            Some(epoch) if epoch >= 0 => match self.facts.epoch {
                Some(first) => Value::from(format!("$epoch{:+}", epoch - first)),
                None => Value::from("$epoch"),
            },
            _ => value,
        }
    }

    /// Lists whose order means nothing, and lists that tell of more than the case.
    fn lists(&self, map: &mut Map<String, Value>) {
        if let Some(Value::Array(keys)) = map.get("apiKeys") {
            let ranges = keys.iter().map(|one| {
                let code = one["apiKey"].as_i64().and_then(|code| i16::try_from(code).ok()).unwrap_or(-1);
                let name = kaas_proto::ApiKey::try_from(code).map_or(code.to_string(), |key| key.to_string());
                (name, Value::from(format!("{}-{}", one["minVersion"], one["maxVersion"])))
            });
            let ranges = Value::Object(ranges.collect());
            map.insert("apiKeys".to_owned(), ranges);
        }
        let is_metadata = map.contains_key("brokers");
        // Kafka keeps these in hash maps, or shuffles them: topics of Metadata, CreateTopics and DeleteTopics, the partitions of
        // DeleteRecords, and whatever Produce answers. Fetch and ListOffsets keep the order of the request.
        if let Some(Value::Array(topics)) = map.get_mut("topics")
            && topics.iter().all(|topic| topic.get("errorCode").is_some())
            && !is_metadata
        {
            topics.sort_by_key(|topic| topic["name"].to_string());
        }
        if let Some(Value::Array(topics)) = map.get_mut("topics")
            && is_metadata
        {
            topics.retain(|topic| !self.is_foreign(&topic["name"]));
            topics.sort_by_key(|topic| topic["name"].to_string());
            let lists = topics.iter_mut().filter_map(|topic| topic.get_mut("partitions")?.as_array_mut());
            for partitions in lists {
                partitions.sort_by_key(|partition| partition["partitionIndex"].as_i64());
            }
        }
        // What transactions are made of is kept in hash maps too.
        for (list, key) in TRANSACTION_LISTS {
            if let Some(Value::Array(items)) = map.get_mut(list)
                && items.iter().all(|item| item.get(key).is_some())
            {
                items.sort_by_key(|item| (item[key].as_i64(), item[key].to_string()));
            }
        }
        if map.contains_key("producerId")
            && let Some(Value::Array(topics)) = map.get_mut("topics")
        {
            topics.sort_by_key(|topic| topic["name"].to_string());
        }
        if map.contains_key("unknownStateFilters")
            && let Some(Value::Array(states)) = map.get_mut("transactionStates")
        {
            states.retain(|state| !self.is_foreign(&state["transactionalId"]));
            states.sort_by_key(|state| state["transactionalId"].to_string());
        }
        if let Some(topic) = map.get("topic").cloned()
            && let Some(Value::Array(partitions)) = map.get_mut("partitions")
        {
            partitions.sort_by_key(Value::as_i64);
            // Which partition a group's offsets are in follows from its name, which is another one in every run.
            if topic == "__consumer_offsets" {
                partitions.iter_mut().for_each(|partition| *partition = Value::from("$group"));
            }
        }
        if let Some(Value::Array(partitions)) = map.get_mut("partitions")
            && partitions.iter().all(is_code_of_partition)
        {
            partitions.sort_by_key(|one| one["partitionIndex"].as_i64());
        }
        self.group_lists(map);
        if let Some(Value::Array(responses)) = map.get_mut("responses")
            && responses.iter().all(|one| one.get("name").is_some())
        {
            responses.sort_by_key(|one| one["name"].to_string());
        }
        if let Some(Value::Array(partitions)) = map.get_mut("partitionResponses") {
            partitions.sort_by_key(|one| one["index"].as_i64());
        }
        if let Some(Value::Array(partitions)) = map.get_mut("partitions")
            && partitions.iter().all(|one| one.get("lowWatermark").is_some())
        {
            partitions.sort_by_key(|one| one["partitionIndex"].as_i64());
        }
        if let Some(Value::Array(configs)) = map.get("configs") {
            let by_name = configs.iter().map(|config| {
                let mut config = config.clone();
                let name = config.as_object_mut().and_then(|fields| fields.remove("name"));
                (name.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned(), config)
            });
            let mut by_name: Vec<_> = by_name.collect();
            by_name.sort_by(|a, b| a.0.cmp(&b.0));
            map.insert("configs".to_owned(), Value::Object(by_name.into_iter().collect()));
        }
    }

    /// Members, groups and offsets, which Kafka keeps in hash maps. Lists of all groups tell of more than the case's.
    fn group_lists(&self, map: &mut Map<String, Value>) {
        if let Some(Value::Array(members)) = map.get_mut("members")
            && members.iter().all(|member| member.get("errorCode").is_none())
        {
            members.sort_by_key(|member| member["memberId"].to_string());
        }
        if let Some(Value::Array(groups)) = map.get_mut("groups")
            && groups.iter().all(|group| group.get("members").is_none() && group.get("topics").is_none())
        {
            let prefix = self.facts.prefix.as_str();
            groups.retain(|group| group["groupId"].as_str().is_some_and(|id| id.starts_with(prefix)));
            groups.sort_by_key(|group| group["groupId"].to_string());
        }
        if let Some(Value::Array(results)) = map.get_mut("results")
            && results.iter().all(|result| result.get("groupId").is_some())
        {
            results.sort_by_key(|result| result["groupId"].to_string());
        }
        if let Some(Value::Array(topics)) = map.get_mut("topics")
            && topics.iter().all(has_offsets)
        {
            topics.sort_by_key(|topic| topic["name"].to_string());
        }
        if let Some(Value::Array(partitions)) = map.get_mut("partitions")
            && partitions.iter().all(|one| one.get("committedOffset").is_some())
        {
            partitions.sort_by_key(|one| one["partitionIndex"].as_i64());
        }
    }

    /// Whether a topic in a list of all topics is none of the case's.
    fn is_foreign(&self, name: &Value) -> bool {
        let Some(name) = name.as_str() else { return false };
        name == AGED
            || name.starts_with("__")
            || (name.starts_with("raw-") && !name.starts_with(&self.facts.prefix))
    }
}

/// The name and the uuid of a member id.
fn split_uuid(id: &str) -> Option<(&str, &str)> {
    const UUID_CHARS: usize = 36;
    let (name, uuid) = id.split_at_checked(id.len().checked_sub(UUID_CHARS)?)?;
    let dashes = uuid.match_indices('-').map(|(at, _)| at).eq([8, 13, 18, 23]);
    Some((name.strip_suffix('-')?, uuid)).filter(|_| dashes)
}

/// Whether this is a topic with committed offsets, or with codes of their commits.
fn has_offsets(topic: &Value) -> bool {
    let Some(partitions) = topic["partitions"].as_array() else { return false };
    partitions.iter().all(|one| one.get("committedOffset").is_some() || is_code_of_partition(one))
}

/// Whether this is a partition's number with an error code and nothing else.
fn is_code_of_partition(value: &Value) -> bool {
    let Some(fields) = value.as_object() else { return false };
    fields.len() == 2 && fields.contains_key("partitionIndex") && fields.contains_key("errorCode")
}

fn time(value: Value) -> Value {
    let near = value.as_i64().is_some_and(|time| (time - now_ms()).abs() < NOW_WITHIN_MS);
    if near { Value::from("$now") } else { value }
}

/// The time, in milliseconds since the epoch.
pub(crate) fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_may_differ_goes_and_what_may_not_stays() {
        let facts =
            Facts { host: "h".to_owned(), port: 9, node: 1, prefix: "raw-5-".to_owned(), epoch: Some(4) };
        let answer = json!({
            "topicId": "abc", "producerId": 7, "sessionId": 0, "leaderEpoch": 5, "leaderId": 1, "nodeId": 2,
            "name": "raw-5-t", "timestamp": 1_700_000_000_000_i64, "logAppendTimeMs": now_ms(), "port": 9,
            "errorMessage": "some words", "errorCode": 3,
        });
        let wanted = json!({
            "topicId": "$id1", "producerId": "$pid2", "sessionId": 0, "leaderEpoch": "$epoch+1", "leaderId": "$node",
            "nodeId": 2, "name": "$t", "timestamp": 1_700_000_000_000_i64, "logAppendTimeMs": "$now", "port": "$port",
            "errorMessage": "$text", "errorCode": 3,
        });
        assert_eq!(Normaliser::new(&facts).apply(answer), wanted);
    }

    #[test]
    fn other_peoples_topics_are_left_out_of_a_list_of_all() {
        let facts =
            Facts { host: String::new(), port: 0, node: 0, prefix: "raw-5-".to_owned(), epoch: Some(0) };
        let all = json!({ "brokers": [], "topics": [{ "name": "raw-5-b" }, { "name": "raw-4-x" }, { "name": "raw-5-a" }] });
        let kept = json!({ "brokers": [], "topics": [{ "name": "$a" }, { "name": "$b" }] });
        assert_eq!(Normaliser::new(&facts).apply(all), kept);
    }
}
