//! Compaction of a large log beside a steady durable producer (P25), and whether what is left is what must be.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use kaas_core::layout::parse_clean;
use kaas_proto::messages::ProduceRequest;

use crate::batch::now_ms;
use crate::blocks::Figures;
use crate::broker::{Broker, Programs, System};
use crate::fetch;
use crate::keyed::{BATCH_RECORDS, Keyed};
use crate::process;
use crate::produce;
use crate::rows::PAGE_CACHE;
use crate::session::{RAMP, warm};
use crate::steady;
use crate::transaction::Producer;
use crate::wire::{self, Connection};

const TOPIC: &str = "compacted";
/// The last segment is not compacted, so it must be a small part of the log.
const SEGMENT_BYTES: u64 = 128 << 20;
/// How often each broker looks whether there is something to compact.
const BACKOFF: &str = "log.cleaner.backoff.ms=1000";
const PATIENCE: Duration = Duration::from_secs(900);
const LOOK_EVERY: Duration = Duration::from_millis(20);
const IN_FLIGHT: u64 = 4;
const FETCH_BYTES: i32 = 8 << 20;

/// Fills a log without compacting it, measures the steady producer alone and then beside the compaction, and reads what is
/// left.
pub(crate) fn session(
    system: System,
    programs: &Programs,
    log: Keyed,
    measured: Duration,
) -> Result<Figures> {
    let broker = Broker::start_with(system, programs, &[BACKOFF])?;
    warm(&broker)?;
    let (segment, flush) = (SEGMENT_BYTES.to_string(), PAGE_CACHE.to_string());
    let settings = [("cleanup.policy", "compact"), ("segment.bytes", &segment), ("flush.messages", &flush)];
    wire::create_topic_with(broker.address, TOPIC, 1, &settings)?;
    let mut gate = open_transaction(&broker, log)?;
    let bytes = fill(&broker, log)?;
    steady::prepare(&broker)?;
    steady::alone(&broker, RAMP)?;
    rustix::fs::sync();

    process::forget_resident_peak(broker.pid())?;
    let before = steady::alone(&broker, measured)?;
    let (during, clean_end) = steady::beside(&broker, || {
        gate.commit()?;
        until_compacted(&broker)
    })?;
    let peak = process::resident_peak(broker.pid())?;
    check(&broker, log, clean_end)?;
    broker.stop()?;

    // What the steady producer costs is known from before.
    let cpu = during.cpu_seconds - before.cpu_seconds / before.seconds * during.seconds;
    let mib = bytes as f64 * (clean_end as f64 / log.records as f64) / f64::from(1 << 20);
    let (before, meanwhile) = (before.p99_ms(), during.p99_ms());
    Ok(vec![
        ("compaction, s", during.seconds),
        ("CPU-s", cpu),
        ("MiB compacted a CPU-s", mib / cpu),
        ("peak RSS, MiB", peak),
        ("produce p99 before, ms", before),
        ("produce p99 meanwhile, ms", meanwhile),
        ("rise of p99", meanwhile / before),
    ])
}

/// Writes the first batch in a transaction: as long as that is open, nothing of the log may be compacted.
fn open_transaction(broker: &Broker, log: Keyed) -> Result<Producer> {
    wire::find_coordinator(broker.address, wire::TRANSACTIONAL_ID)?;
    let mut producer = Producer::open(broker.address, "gate", TOPIC)?;
    producer.add(&[0])?;
    let batch = log.first_batch(now_ms(), &producer);
    producer.produce([(0, batch)].into_iter())?;
    Ok(producer)
}

/// Produces the rest of the log on one connection, in order; its bytes.
fn fill(broker: &Broker, log: Keyed) -> Result<u64> {
    let mut stream = TcpStream::connect(broker.address)?;
    stream.set_nodelay(true)?;
    let (mut bytes, mut answered) = (0, BATCH_RECORDS);
    let now_ms = now_ms();
    for number in 1..log.records / BATCH_RECORDS {
        let batch = log.batch(number * BATCH_RECORDS, now_ms);
        bytes += batch.len() as u64;
        stream.write_all(&produce::frame(TOPIC, 0, &batch, 1)?)?;
        if number >= IN_FLIGHT {
            acknowledged(&mut stream, &mut answered)?;
        }
    }
    while answered < log.records {
        acknowledged(&mut stream, &mut answered)?;
    }
    Ok(bytes)
}

/// Reads one answer; the batch must be where it belongs.
fn acknowledged(stream: &mut TcpStream, offset: &mut u64) -> Result<()> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).context("no answer")?;
    let mut frame = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut frame)?;
    let answer = wire::response::<ProduceRequest>(frame.into(), produce::VERSION)?;
    let row = answer.responses.first().and_then(|topic| topic.partition_responses.first());
    let row = row.context("no partition in the answer")?;
    ensure!(row.error_code == 0, "produce gave error {}", row.error_code);
    ensure!(row.base_offset == *offset as i64, "a batch is at {}, not {offset}", row.base_offset);
    *offset += BATCH_RECORDS;
    Ok(())
}

/// Waits for the end of a pass over the log: where what was not compacted begins.
fn until_compacted(broker: &Broker) -> Result<u64> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let clean_end = match broker.system() {
            System::Kafka => kafka_clean_end(&broker.data()),
            System::Kaas => kaas_clean_end(&broker.data())?,
        };
        if let Some(end) = clean_end.filter(|end| *end > 0) {
            return Ok(end);
        }
        ensure!(Instant::now() < deadline, "nothing was compacted");
        thread::sleep(LOOK_EVERY);
    }
}

/// Kafka's file of lines with topic, partition and offset.
fn kafka_clean_end(data: &Path) -> Option<u64> {
    let file = fs::read_to_string(data.join("cleaner-offset-checkpoint")).ok()?;
    file.lines().find_map(|line| line.strip_prefix(TOPIC)?.strip_prefix(" 0 ")?.parse().ok())
}

/// kaas's mark, a file in the partition's folder.
fn kaas_clean_end(folder: &Path) -> Result<Option<u64>> {
    let mut greatest = None;
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let here = if path.is_dir() {
            kaas_clean_end(&path)?
        } else {
            let name = path.file_name().and_then(|name| name.to_str());
            name.and_then(parse_clean).and_then(|offset| u64::try_from(offset).ok())
        };
        greatest = greatest.max(here);
    }
    Ok(greatest)
}

/// Reads everything that is left: all of it must be what it must be, and there must be no more and no less.
fn check(broker: &Broker, log: Keyed, clean_end: u64) -> Result<()> {
    let mut expected = log.survivors(clean_end);
    let mut connection = Connection::open(broker.address)?;
    let mut next = 0;
    while next < log.records {
        let request = fetch::request(TOPIC, 0, next as i64, FETCH_BYTES);
        let answer = connection.ask(&request, fetch::VERSION)?;
        let partition = answer.responses.into_iter().flat_map(|topic| topic.partitions).next();
        let partition = partition.context("no partition in the answer")?;
        ensure!(partition.error_code == 0, "fetch gave error {}", partition.error_code);
        let records = partition.records.context("no records")?;
        let bytes = records.as_bytes().context("records that are elsewhere")?;
        let after = log.check(bytes, next, &mut expected)?;
        ensure!(after > next, "no whole batch at offset {next}");
        next = after;
    }
    ensure!(expected.next().is_none(), "records are missing at the end");
    Ok(())
}
