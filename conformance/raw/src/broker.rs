//! A broker under test: what it says of itself, and the topics of a case.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use kaas_proto::ErrorCode;
use serde_json::{Map, Value, json};

use crate::connection::{Connection, Expected, key};
use crate::encode::{Schemas, number, text};
use crate::normalise::AGED;
use crate::process::Process;

/// How long a new topic may take to have a leader.
const READY_WAIT: Duration = Duration::from_secs(20);
/// Between two questions whether something is so by now.
pub(crate) const ASK_AGAIN_AFTER: Duration = Duration::from_millis(20);

/// A topic, as Metadata tells of it.
pub(crate) struct Topic {
    /// The topic id.
    pub id: Value,
    /// The leader epoch of partition 0.
    pub epoch: i64,
}

/// A broker at an address.
pub(crate) struct Broker<'a> {
    /// Where it listens.
    pub address: String,
    /// The schemas.
    pub schemas: &'a Schemas,
    /// The host and port that it advertises, and its id.
    pub advertised: (String, i64, i64),
    /// The leader epoch of a new partition.
    pub first_epoch: i64,
    /// The topic whose leader epoch has moved, if there is one.
    pub aged: Option<Topic>,
    /// Its process, if it was started here.
    pub process: Option<&'a Process>,
}

impl<'a> Broker<'a> {
    /// Asks a broker who it is.
    pub(crate) fn at(address: &str, schemas: &'a Schemas, process: Option<&'a Process>) -> Result<Self> {
        let advertised = (String::new(), 0, 0);
        let mut broker =
            Self { address: address.to_owned(), schemas, advertised, first_epoch: 0, aged: None, process };
        let node = &broker.ask("Metadata", 12, &json!({ "topics": [] }))?["brokers"][0];
        broker.advertised =
            (text(&node["host"])?.to_owned(), number(&node["port"])?, number(&node["nodeId"])?);
        let probe = format!("raw-{:x}-probe", std::process::id());
        broker.first_epoch = broker.create(&json!({ "name": probe }))?.epoch;
        broker.delete(&[probe])?;
        let aged = broker.ready(AGED).or_else(|_| broker.create(&json!({ "name": AGED })))?;
        // Kafka fetches its first block of producer ids when it is first asked, and answers later.
        let body = json!({ "transactionalId": null, "transactionTimeoutMs": 60_000 });
        broker.patiently(|| Ok(broker.ask("InitProducerId", 4, &body)?["errorCode"] == 0))?;
        // A broker whose first epoch is 0 has to be restarted once: no lower epoch could be asked for.
        broker.aged = Some(aged).filter(|topic| topic.epoch > 0);
        Ok(broker)
    }

    /// Kills it and starts it again; waits until it leads `topics` and coordinates the group and the transactional id.
    pub(crate) fn restart(&self, topics: &[Value], group: &Value, transactional_id: &Value) -> Result<()> {
        self.process.context("the broker was not started here")?.restart()?;
        for topic in topics {
            self.ready(text(topic)?)?;
        }
        for (key, key_type) in [(group, 0), (transactional_id, 1)] {
            let body = json!({ "key": key, "keyType": key_type });
            self.patiently(|| Ok(self.ask("FindCoordinator", 3, &body)?["errorCode"] == 0))?;
        }
        let body = json!({ "groups": [group] });
        self.patiently(|| Ok(self.ask("DescribeGroups", 0, &body)?["groups"][0]["errorCode"] == 0))?;
        let body = json!({ "transactionalIds": [transactional_id] });
        let is_loaded = |code: &Value| *code == 0 || *code == ErrorCode::TransactionalIdNotFound.code();
        self.patiently(|| {
            Ok(is_loaded(&self.ask("DescribeTransactions", 0, &body)?["transactionStates"][0]["errorCode"]))
        })
    }

    /// Waits until something is so.
    fn patiently(&self, mut done: impl FnMut() -> Result<bool>) -> Result<()> {
        let deadline = Instant::now() + READY_WAIT;
        while !done()? {
            ensure!(Instant::now() < deadline, "{} is not ready", self.address);
            std::thread::sleep(ASK_AGAIN_AFTER);
        }
        Ok(())
    }

    /// One request on a connection of its own.
    pub(crate) fn ask(&self, api: &str, version: i16, body: &Value) -> Result<Value> {
        let mut connection = Connection::open(&self.address)?;
        let correlation = connection.next_correlation_id();
        let frame = request(self.schemas, api, version, correlation, &Map::new(), body)?;
        connection.write(&(frame.len() as i32).to_be_bytes(), &[]);
        connection.write(&frame, &[]);
        connection.expect(Expected { api: api.to_owned(), version, unpack: false });
        let mut answer = connection.receive()?;
        ensure!(answer["body"].is_object(), "{} answered {api} v{version} with {answer}", self.address);
        Ok(answer["body"].take())
    }

    /// Creates a topic of one partition, unless `topic` says more, and waits until it has a leader.
    pub(crate) fn create(&self, topic: &Value) -> Result<Topic> {
        let mut wanted = json!({ "numPartitions": 1, "replicationFactor": 1 });
        // Old timestamps must not meet retention while a case runs.
        let mut configs = vec![json!({ "name": "retention.ms", "value": "-1" })];
        for (key, value) in topic.as_object().context("a topic is an object")? {
            match value.as_array().filter(|_| key == "configs") {
                Some(more) => configs.extend(more.clone()),
                None => wanted[key] = value.clone(),
            }
        }
        wanted["configs"] = Value::Array(configs);
        let body = json!({ "topics": [wanted], "timeoutMs": 20_000 });
        let answer = self.ask("CreateTopics", 7, &body)?;
        ensure!(answer["topics"][0]["errorCode"] == 0, "{} does not create {topic}: {answer}", self.address);
        self.ready(text(&topic["name"])?)
    }

    fn ready(&self, name: &str) -> Result<Topic> {
        let body = json!({ "topics": [{ "name": name }], "allowAutoTopicCreation": false });
        let deadline = Instant::now() + READY_WAIT;
        loop {
            let topic = self.ask("Metadata", 12, &body)?["topics"][0].take();
            let partitions = topic["partitions"].as_array().context("partitions")?;
            let led = partitions.iter().all(|one| one["errorCode"] == 0 && one["leaderId"] != -1);
            match topic["errorCode"].as_i64() {
                Some(0) if led && self.leads(name, partitions.len())? => {
                    let epoch = number(&partitions[0]["leaderEpoch"])?;
                    return Ok(Topic { id: topic["topicId"].clone(), epoch });
                }
                // Nobody creates it meanwhile: there is nothing to wait for.
                Some(3) if name == AGED => bail!("{name} does not exist"),
                _ if Instant::now() > deadline => bail!("{name} has no leader: {topic}"),
                _ => std::thread::sleep(ASK_AGAIN_AFTER),
            }
        }
    }

    /// Whether the broker has become the leader that Metadata says it is: Kafka tells of it a moment earlier.
    fn leads(&self, name: &str, partitions: usize) -> Result<bool> {
        let asked: Vec<Value> =
            (0..partitions).map(|index| json!({ "partitionIndex": index, "timestamp": -1 })).collect();
        let body = json!({ "replicaId": -1, "topics": [{ "name": name, "partitions": asked }] });
        let answer = self.ask("ListOffsets", 7, &body)?;
        let told = answer["topics"][0]["partitions"].as_array().context("partitions")?;
        Ok(!told.is_empty() && told.iter().all(|one| one["errorCode"] == 0))
    }

    /// Deletes topics, those that exist.
    pub(crate) fn delete(&self, names: &[String]) -> Result<()> {
        let topics: Vec<Value> = names.iter().map(|name| json!({ "name": name })).collect();
        self.ask("DeleteTopics", 6, &json!({ "topics": topics, "timeoutMs": 20_000 })).map(drop)
    }
}

/// A frame without its length. `header` replaces fields of a right header, and may say another `version` of it.
pub(crate) fn request(
    schemas: &Schemas,
    api: &str,
    version: i16,
    correlation: i32,
    header: &Map<String, Value>,
    body: &Value,
) -> Result<Vec<u8>> {
    let info = key(api)?.info();
    let mut fields = json!({
        "requestApiKey": info.key.code(),
        "requestApiVersion": version,
        "correlationId": correlation,
        "clientId": "kaas-raw",
    });
    let mut header_version = info.request_header_version(version);
    for (name, value) in header {
        match name.as_str() {
            "version" => header_version = i16::try_from(number(value)?)?,
            name => fields[name] = value.clone(),
        }
    }
    let mut frame = schemas.encode("RequestHeader", header_version, &fields)?;
    frame.extend(schemas.encode(&format!("{api}Request"), version, body)?);
    Ok(frame)
}
