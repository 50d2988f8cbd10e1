//! One broker: an engine on the shared volume that does what it is told over a socket, and writes while it leads.
//!
//! Told, one line each: `lead`, `resign`, `revoke BROKER INCARNATION`, `read`. It says `ready BROKER INCARNATION` first, and
//! then `ack OFFSET VALUE` for every record that was acknowledged, whatever else it is asked.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use kaas_core::error::LeadError;
use kaas_core::record::read_batch;
use kaas_core::{
    AppendOptions, Engine, EngineOptions, Isolation, LogConfig, Partition, PendingAppend, Read, ReadSpec,
    RecordBatchBuilder, TopicSpec,
};
use parking_lot::{Condvar, Mutex};

const TOPIC: &str = "t";
/// Appends under way at a time.
const WINDOW: usize = 4;
/// Small, so that there are many segments and checkpoints to go wrong with.
const SEGMENT_BYTES: u32 = 16 << 10;
const CHECKPOINT_BYTES: u64 = 4 << 10;

/// What the threads of a node share.
struct Node {
    engine: Engine,
    partition: Arc<Partition>,
    broker_id: i32,
    leads: Mutex<bool>,
    changed: Condvar,
    out: Mutex<TcpStream>,
}

fn options(volume: &Path) -> anyhow::Result<EngineOptions> {
    let config = LogConfig { segment_bytes: SEGMENT_BYTES, retention_ms: -1, ..LogConfig::default() };
    Ok(EngineOptions::at(volume)?.resolve(move |_| config.clone()).checkpoint_bytes(CHECKPOINT_BYTES))
}

/// Makes the volume and its topic, with nobody else on it.
pub(crate) fn create(volume: &Path) -> anyhow::Result<()> {
    let engine = Engine::open(options(volume)?)?;
    engine.create_topic(TopicSpec::new(TOPIC, 1))?;
    Ok(engine.close()?)
}

/// Serves one connection until it ends or the broker has been fenced.
pub(crate) fn serve(volume: &Path, broker_id: i32, listen: SocketAddr) -> anyhow::Result<()> {
    let listener = TcpListener::bind(listen)?;
    println!("{}", listener.local_addr()?);
    let (stream, _) = listener.accept()?;
    stream.set_nodelay(true)?;
    let engine = Engine::open(options(volume)?.broker_id(broker_id).shared())?;
    let topics = engine.topics();
    let topic = topics.iter().find(|topic| topic.name.as_str() == TOPIC).context("no topic")?;
    let partition = Arc::clone(&topic.partitions[0]);
    let out = Mutex::new(stream.try_clone()?);
    let (leads, changed) = (Mutex::new(false), Condvar::new());
    let node = Arc::new(Node { engine, partition, broker_id, leads, changed, out });
    node.say(&format!("ready {broker_id} {}", node.engine.incarnation()));
    let writer = Arc::clone(&node);
    std::thread::spawn(move || writer.write());
    for line in BufReader::new(stream).lines() {
        let answer = node.obey(&line?);
        node.say(&answer);
    }
    Ok(())
}

impl Node {
    fn say(&self, line: &str) {
        // Whoever listened is gone: so is the purpose of this process.
        if self.out.lock().write_all(format!("{line}\n").as_bytes()).is_err() {
            std::process::exit(1);
        }
    }

    fn obey(&self, line: &str) -> String {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["lead"] => self.lead(),
            ["resign"] => match self.engine.resign(&self.partition) {
                Ok(()) => "resigned".to_owned(),
                Err(error) => format!("failed {error}"),
            },
            ["revoke", broker_id, incarnation] => match (broker_id.parse(), incarnation.parse()) {
                (Ok(broker_id), Ok(incarnation)) => match self.engine.revoke(broker_id, incarnation) {
                    Ok(()) => "revoked".to_owned(),
                    Err(error) => format!("failed {error}"),
                },
                _ => "failed bad arguments".to_owned(),
            },
            ["read"] => match self.read() {
                Ok(end) => format!("end {end}"),
                Err(error) => format!("failed {error:#}"),
            },
            _ => format!("failed unknown: {line}"),
        }
    }

    fn lead(&self) -> String {
        match self.engine.lead(&self.partition, None) {
            Ok(epoch) => {
                *self.leads.lock() = true;
                self.changed.notify_all();
                format!("led {epoch}")
            }
            Err(LeadError::NotRevoked { broker_id, incarnation }) => {
                format!("refused {broker_id} {incarnation}")
            }
            Err(error) => format!("failed {error}"),
        }
    }

    /// Writes one record after the other, each with a value of its own, for as long as this broker leads.
    fn write(&self) {
        let mut number = 0_u64;
        loop {
            {
                let mut leads = self.leads.lock();
                self.changed.wait_while(&mut leads, |leads| !*leads);
            }
            let mut window: VecDeque<(String, PendingAppend)> = VecDeque::new();
            let error = loop {
                if window.len() < WINDOW {
                    number += 1;
                    let value = format!("{}-{}-{number}", self.broker_id, self.engine.incarnation().simple());
                    let batch = RecordBatchBuilder::new().push(None, Some(value.as_bytes()), 0).build();
                    match self.partition.append(batch, AppendOptions::default()) {
                        Ok(pending) => window.push_back((value, pending)),
                        Err(error) => break error,
                    }
                    continue;
                }
                let Some((value, pending)) = window.pop_front() else { continue };
                match pending.wait() {
                    Ok(appended) => self.say(&format!("ack {} {value}", appended.base_offset)),
                    Err(error) => break error,
                }
            };
            for (value, pending) in window {
                if let Ok(appended) = pending.wait() {
                    self.say(&format!("ack {} {value}", appended.base_offset));
                }
            }
            *self.leads.lock() = false;
            self.say(&format!("stopped {error}"));
            if self.engine.is_fenced() {
                std::process::exit(0);
            }
        }
    }

    /// Says every record of the log; returns where it ends.
    fn read(&self) -> anyhow::Result<i64> {
        let mut offset = self.partition.offsets().log_start;
        loop {
            let isolation = Isolation::ReadUncommitted;
            let spec =
                ReadSpec { offset, bytes_max: 1 << 20, at_least_one_batch: true, isolation, blocking: true };
            let Read::Data(data) = self.partition.read(spec)? else { anyhow::bail!("it would block") };
            let bytes = data.slice.to_bytes()?;
            if bytes.is_empty() {
                return Ok(offset);
            }
            let mut rest = &bytes[..];
            while let Some(batch) = read_batch(rest)? {
                anyhow::ensure!(batch.header.base_offset == offset, "{:?} at offset {offset}", batch.header);
                for record in batch.records {
                    let value = record.value.unwrap_or_default();
                    self.say(&format!("record {offset} {}", String::from_utf8_lossy(&value)));
                    offset += 1;
                }
                rest = &rest[batch.header.size..];
                if rest.is_empty() {
                    break;
                }
            }
        }
    }
}
