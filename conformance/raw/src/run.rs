//! Runs a case against a broker and tells what happened.

use std::collections::BTreeMap;
use std::process;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Map, Value, json};

use crate::broker::{ASK_AGAIN_AFTER, Broker, request};
use crate::case::{Case, Connected, Request, Step};
use crate::connection::{Connection, Expected};
use crate::encode::from_hex;
use crate::names::Names;
use crate::normalise::{AGED, Facts, Normaliser, now_ms};

/// How long something that a broker does later may take.
const UNTIL_WAIT: Duration = Duration::from_secs(20);

/// What a case gave: every answer and every end of a connection, in order, normalised.
pub(crate) type Transcript = Vec<Value>;

/// Runs a case. `index` keeps the topics of the cases of one run apart.
pub(crate) fn run(broker: &Broker<'_>, case: &Case, index: usize) -> Result<Transcript> {
    let prefix = format!("raw-{:x}-{index:03}-", process::id());
    let mut names = Names::new(prefix.clone());
    names.set("now", now_ms().into());
    names.set("node", broker.advertised.2.into());
    names.set("nodeName", broker.advertised.2.to_string().into());
    let mut base_epoch = broker.first_epoch;
    for topic in &case.topics {
        let name = topic["name"].as_str().context("a topic's name")?.trim_start_matches('$').to_owned();
        let made = broker.create(&names.resolve(&Value::Object(topic.clone()))?)?;
        names.set(&format!("id:{name}"), made.id);
    }
    if case.aged {
        let aged = broker.aged.as_ref().context("the broker must have been restarted since its first run")?;
        names.set("aged", AGED.into());
        names.set("id:aged", aged.id.clone());
        base_epoch = aged.epoch;
    }
    names.set("epoch", base_epoch.into());
    let connections = BTreeMap::new();
    let mut script = Script { broker, case, names, connections, restarted: false, seen: Vec::new() };
    let outcome = script.steps();
    broker.delete(script.names.topics())?;
    outcome?;
    let (host, port, node) = broker.advertised.clone();
    let epoch = (!script.restarted).then_some(base_epoch);
    let facts = Facts { host, port, node, prefix, epoch };
    let mut normaliser = Normaliser::new(&facts);
    Ok(script.seen.into_iter().map(|answer| normaliser.apply(answer)).collect())
}

struct Script<'a> {
    broker: &'a Broker<'a>,
    case: &'a Case,
    names: Names,
    connections: BTreeMap<String, Connection>,
    restarted: bool,
    seen: Transcript,
}

impl Script<'_> {
    fn steps(&mut self) -> Result<()> {
        for (index, step) in self.case.steps.iter().enumerate() {
            self.step(step).with_context(|| format!("{}, step {}", self.case.name, index + 1))?;
        }
        Ok(())
    }

    fn step(&mut self, step: &Step) -> Result<()> {
        match step {
            Step::Call(request) => self.call(request),
            Step::Send(request) => self.send(request),
            Step::Produce(produce) => self.step(&produce.step()),
            Step::Fetch(fetch) => self.step(&fetch.step()),
            Step::Bytes(bytes) => {
                let mut all = bytes.text.clone().into_bytes();
                all.extend(from_hex(&bytes.hex)?);
                let connection = self.connection(&bytes.on)?;
                connection.write(&all, &[]);
                if let Some(api) = &bytes.answer {
                    connection.expect(Expected { api: api.clone(), version: 0, unpack: false });
                }
                Ok(())
            }
            Step::Receive { count, on, save } => {
                for _ in 0..*count {
                    let answer = self.connection(on)?.receive()?;
                    self.save(save, &answer)?;
                    self.saw(on, answer);
                }
                Ok(())
            }
            Step::Restart => self.restart(),
            Step::Quiet { on } => {
                let state = self.connection(on)?.quiet()?;
                self.saw(on, state);
                Ok(())
            }
        }
    }

    fn restart(&mut self) -> Result<()> {
        self.connections.clear();
        self.restarted = true;
        let topics: Result<Vec<Value>> =
            self.case.topics.iter().map(|topic| self.names.resolve(&topic["name"])).collect();
        let [group, transactional_id] = ["$g", "$x"].map(|name| self.names.resolve(&json!(name)));
        self.broker.restart(&topics?, &group?, &transactional_id?)
    }

    fn saw(&mut self, on: &Connected, answer: Value) {
        let name = &on.0;
        self.seen.push(json!({ name: answer }));
    }

    fn connection(&mut self, on: &Connected) -> Result<&mut Connection> {
        if !self.connections.contains_key(&on.0) {
            self.connections.insert(on.0.clone(), Connection::open(&self.broker.address)?);
        }
        self.connections.get_mut(&on.0).context("it was just put there")
    }

    fn call(&mut self, request: &Request) -> Result<()> {
        let deadline = Instant::now() + UNTIL_WAIT;
        let answer = loop {
            self.send(request)?;
            if request.unanswered {
                return Ok(());
            }
            let answer = self.connection(&request.on)?.receive()?;
            if self.holds(&request.until, &answer)? || Instant::now() > deadline {
                break answer;
            }
            thread::sleep(ASK_AGAIN_AFTER);
            self.connection(&request.on)?.repeat_correlation_id();
        };
        self.save(&request.save, &answer)?;
        if !request.quiet || self.restarted {
            self.saw(&request.on, answer);
        } else if let Some(problem) = problem(&answer) {
            bail!("preparing with {} gave {problem}", request.api);
        }
        Ok(())
    }

    fn save(&mut self, wanted: &Map<String, Value>, answer: &Value) -> Result<()> {
        for (name, pointer) in wanted {
            let pointer = pointer.as_str().context("a JSON pointer")?;
            let value = answer["body"].pointer(pointer).cloned();
            self.names.set(name, value.unwrap_or(Value::Null));
        }
        Ok(())
    }

    fn holds(&mut self, until: &Map<String, Value>, answer: &Value) -> Result<bool> {
        for (pointer, wanted) in until {
            let wanted = self.names.resolve(wanted)?;
            if answer["body"].pointer(pointer) != Some(&wanted) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn send(&mut self, sent: &Request) -> Result<()> {
        let version = sent.version.or(self.case.versions.first().copied()).context("no version")?;
        let body = self.names.resolve(&sent.body)?;
        let schemas = self.broker.schemas;
        let connection = self.connection(&sent.on)?;
        let correlation = connection.next_correlation_id();
        let mut frame = request(schemas, &sent.api, version, correlation, &sent.header, &body)?;
        ensure!(sent.cut <= frame.len(), "the frame has only {} bytes", frame.len());
        frame.truncate(frame.len() - sent.cut);
        frame.extend(from_hex(&sent.tail)?);
        let length = sent.length.unwrap_or(frame.len() as i32);
        frame.splice(..0, length.to_be_bytes());
        connection.write(&frame, &sent.pieces);
        if !sent.unanswered {
            let version = sent.answer_version.unwrap_or(version);
            connection.expect(Expected { api: sent.api.clone(), version, unpack: sent.unpack });
        }
        Ok(())
    }
}

/// The first error code in an answer, or the whole of it when it is no answer.
fn problem(answer: &Value) -> Option<String> {
    fn code(value: &Value) -> bool {
        match value {
            Value::Array(items) => items.iter().any(code),
            Value::Object(map) => {
                let bad = |(key, value): (&String, &Value)| match key.as_str() {
                    "errorCode" | "partitionErrorCode" => *value != 0,
                    _ => code(value),
                };
                map.iter().any(bad)
            }
            _ => false,
        }
    }
    (!answer["body"].is_object() || code(answer)).then(|| answer.to_string())
}
