//! One life of one broker: started, warmed, put under every row's load in turn, stopped.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Map, Value, json};

use crate::batch;
use crate::broker::{Broker, Programs, System};
use crate::fetch::{self, Stored};
use crate::java;
use crate::meter::{Measured, Times};
use crate::process;
use crate::produce::{self, Load};
use crate::rows::{self, Row, Work};
use crate::syncs;
use crate::wire;

/// What goes through each broker before anything is measured, and what is consumed.
const WARM_BYTES: u64 = 1 << 30;
const CONSUMED_BYTES: u64 = 1 << 30;
/// From the first answer until memory is looked at.
const REST: Duration = Duration::from_secs(3);
/// Under the row's own load, unmeasured: the JVM compiles what it will need.
pub(crate) const RAMP: Duration = Duration::from_secs(2);
/// How long syncs are counted.
const COUNTED: Duration = Duration::from_secs(2);

/// The metrics of each row by its name; a row that failed has `error`.
pub(crate) type Metrics = BTreeMap<&'static str, Map<String, Value>>;

/// How a session is run.
pub(crate) struct Plan<'a> {
    /// The rows.
    pub(crate) rows: &'a [Row],
    /// The class path of Apache's jars.
    pub(crate) class_path: &'a str,
    /// How long a trial is measured.
    pub(crate) measured: Duration,
    /// Whether syncs are counted after each row of producing; it slows down everything after it.
    pub(crate) count_syncs: bool,
}

/// Runs a session.
pub(crate) fn run(system: System, programs: &Programs, plan: &Plan<'_>) -> Result<Metrics> {
    let broker = Broker::start(system, programs)?;
    thread::sleep(REST);
    let idle = process::memory(broker.pid())?;
    let works = |row: &&Row| !matches!(row.work, Work::Session);
    if plan.rows.iter().any(|row| works(&row)) {
        warm(&broker).context("warming")?;
    }
    let mut metrics = Metrics::new();
    for row in plan.rows.iter().filter(works) {
        // What earlier rows wrote would stall this one's writes, the more of it the faster the broker was.
        rustix::fs::sync();
        eprintln!("  {} {}: {}", system.name(), row.id, row.title);
        let measured = trial(&broker, row, plan).unwrap_or_else(|error| {
            eprintln!("  {} {} failed: {error:#}", system.name(), row.id);
            Map::from_iter([("error".to_owned(), format!("{error:#}").into())])
        });
        metrics.insert(row.id, measured);
    }
    let loaded = process::memory(broker.pid())?;
    let session = [
        ("start_ms", broker.start.as_secs_f64() * 1000.0),
        ("idle_mib", idle.resident),
        ("idle_anonymous_mib", idle.anonymous),
        ("loaded_mib", loaded.resident),
        ("loaded_anonymous_mib", loaded.anonymous),
    ];
    for row in plan.rows.iter().filter(|row| matches!(row.work, Work::Session)) {
        metrics.insert(
            row.id,
            session.iter().map(|(name, value)| ((*name).to_owned(), Value::from(*value))).collect(),
        );
    }
    broker.stop()?;
    Ok(metrics)
}

/// A gigabyte in, and out again.
pub(crate) fn warm(broker: &Broker) -> Result<()> {
    let stored = fill(broker, "warm", WARM_BYTES)?;
    fetch::run(broker.address, broker.pid(), "warm", &stored, 1, Times::until_bytes(WARM_BYTES))?;
    wire::delete_topic(broker.address, "warm")
}

/// Produces so many bytes to a new topic.
pub(crate) fn fill(broker: &Broker, topic: &str, bytes: u64) -> Result<Stored> {
    let load = rows::batches();
    wire::create_topic(broker.address, topic, load.partitions, rows::PAGE_CACHE)?;
    produce::run(broker.address, broker.pid(), topic, &load, Times::until_bytes(bytes))?;
    Ok(Stored {
        batch_bytes: batch::build(load.records, load.value_bytes, batch::NO_PRODUCER).len(),
        records: load.records as i64,
        end_offsets: wire::end_offsets(broker.address, topic, load.partitions)?,
    })
}

fn trial(broker: &Broker, row: &Row, plan: &Plan<'_>) -> Result<Map<String, Value>> {
    let times = Times::new(RAMP, plan.measured);
    let topic = format!("bench-{}", row.id);
    let metrics = match &row.work {
        Work::Produce { load, flush_messages } => {
            wire::create_topic(broker.address, &topic, load.partitions, *flush_messages)?;
            let measured = produce::run(broker.address, broker.pid(), &topic, load, times)?;
            let mut metrics = metrics(&measured);
            if plan.count_syncs {
                metrics
                    .insert("syncs_per_request".to_owned(), syncs_per_request(broker, &topic, load)?.into());
            }
            metrics
        }
        Work::Consume { consumers } => {
            let stored = fill(broker, &topic, CONSUMED_BYTES)?;
            metrics(&fetch::run(broker.address, broker.pid(), &topic, &stored, *consumers, times)?)
        }
        Work::ConsumeByJava => {
            let partitions = fill(broker, &topic, CONSUMED_BYTES)?.end_offsets.len() as i32;
            metrics(&java::run(plan.class_path, broker.address, broker.pid(), &topic, partitions, times)?)
        }
        Work::Session => Map::new(),
    };
    wire::delete_topic(broker.address, &topic)?;
    Ok(metrics)
}

/// In a trial of its own: counting slows the broker down.
fn syncs_per_request(broker: &Broker, topic: &str, load: &Load) -> Result<f64> {
    let times = Times::new(Duration::ZERO, COUNTED);
    let (syncs, measured) =
        syncs::count(broker.pid(), || produce::run(broker.address, broker.pid(), topic, load, times))?;
    Ok(syncs as f64 / measured.requests.max(1) as f64)
}

fn metrics(measured: &Measured) -> Map<String, Value> {
    let gib = measured.bytes as f64 / f64::from(1 << 30);
    let requests = measured.requests.max(1) as f64;
    let latency = |share| measured.latencies.percentile_us(share);
    let values = json!({
        "seconds": measured.seconds,
        "requests": measured.latencies.total(),
        "bytes": measured.bytes,
        "broker_cpu_s": measured.cpu_seconds,
        "client_cpu_s": measured.client_cpu_seconds,
        "cpu_s_per_gib": measured.cpu_seconds / gib,
        "cpu_us_per_request": measured.cpu_seconds * 1e6 / requests,
        "written_per_byte": measured.written as f64 / measured.bytes as f64,
        "mib_per_s": gib * 1024.0 / measured.seconds,
        "requests_per_s": measured.requests as f64 / measured.seconds,
        "p50_us": latency(0.5),
        "p99_us": latency(0.99),
        "p999_us": latency(0.999),
    });
    match values {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}
