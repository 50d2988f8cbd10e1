//! A host without a runtime: a durable log in a few calls, on the threads that the host has.
//!
//! ```text
//! cargo run -p kaas-core --example embed -- /tmp/embedded
//! ```

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;

use kaas_core::record::read_batch;
use kaas_core::{
    AppendOptions, Clock, Engine, EngineOptions, Isolation, LogConfig, Partition, PendingAppend, Read,
    ReadSpec, RecordBatchBuilder, SystemClock, TopicSpec,
};

#[allow(dead_code, reason = "a test includes this file and calls run")]
fn main() -> Result<(), Box<dyn Error>> {
    let dir = std::env::args().nth(1).ok_or("usage: embed DIRECTORY")?;
    for line in run(Path::new(&dir))? {
        println!("{line}");
    }
    Ok(())
}

/// Appends three events, reads all that are left, lets the oldest go; what was read.
pub(crate) fn run(dir: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    // Settings are the host's business: topics carry raw overrides, and this says what they mean.
    let resolve = |raw: &BTreeMap<String, String>| LogConfig {
        retention_bytes: raw.get("retention.bytes").and_then(|bytes| bytes.parse().ok()).unwrap_or(-1),
        segment_bytes: 1 << 20,
        ..LogConfig::default()
    };
    // Durable by default: an append resolves when it is synced.
    let engine = Engine::open(EngineOptions::at(dir)?.resolve(resolve))?;
    let topic = match engine.topics().by_name("events") {
        Some(topic) => topic,
        None => {
            let config = [("retention.bytes".to_owned(), "100000000".to_owned())].into();
            engine.create_topic(TopicSpec { config, ..TopicSpec::new("events", 1) })?
        }
    };
    let partition = &topic.partitions[0];

    // The order is fixed when `append` returns; all three share one sync.
    let pending = ["started", "working", "done"].map(|event| append(partition, event));
    for pending in pending {
        // Blocks. In an async host the same value is a future: `pending?.await?`, on any runtime.
        let appended = pending?.wait()?;
        assert!(appended.base_offset < partition.offsets().high_watermark, "what is acknowledged is visible");
    }

    let events = read_all(partition)?;

    // Records below an offset go on request; whole segments go by the topic's settings, now or in the background.
    partition.delete_records(partition.offsets().high_watermark - 1)?;
    engine.apply_retention();

    let stats = engine.stats();
    assert_eq!(stats.damaged_ranges, 0);
    // Makes the next open fast. Without it nothing is lost.
    engine.close()?;
    Ok(events)
}

fn append(partition: &Partition, event: &str) -> Result<PendingAppend, kaas_core::AppendError> {
    // Retention goes by the timestamps of records.
    let now_ms = SystemClock.now_ms();
    let batch = RecordBatchBuilder::new().push(Some(b"host-1"), Some(event.as_bytes()), now_ms).build();
    partition.append(batch, AppendOptions::default())
}

/// Everything from the log start to the high watermark.
fn read_all(partition: &Partition) -> Result<Vec<String>, Box<dyn Error>> {
    let mut events = Vec::new();
    let mut offset = partition.offsets().log_start;
    while offset < partition.offsets().high_watermark {
        let spec = ReadSpec {
            offset,
            bytes_max: 1 << 20,
            at_least_one_batch: true,
            isolation: Isolation::ReadUncommitted,
            blocking: true,
        };
        let Read::Data(data) = partition.read(spec)? else { unreachable!("a blocking read waits") };
        // A range of the segment's file, which a server would send as it is; here the bytes are wanted.
        let bytes = data.slice.to_bytes()?;
        let mut rest = &bytes[..];
        // The last batch may be cut off by `bytes_max`: it comes whole with the next read.
        while let Some(batch) = read_batch(rest)? {
            rest = &rest[batch.header.size..];
            let wanted = batch.records.iter().filter(|record| record.offset >= offset);
            events.extend(wanted.map(|record| {
                String::from_utf8_lossy(record.value.as_deref().unwrap_or_default()).into_owned()
            }));
            offset = batch.header.next_offset();
        }
    }
    Ok(events)
}
