//! Writes a volume whose one partition has every kind of batch, for other programs to read: `segments DIRECTORY`.

use std::error::Error;
use std::path::Path;

use bytes::Bytes;
use kaas_core::record::{EndTxnMarker, TxnOutcome};
use kaas_core::{
    AppendOptions, Compression, Engine, EngineOptions, LogConfig, Origin, Partition, RecordBatchBuilder,
    TopicSpec, TxnProof,
};

const TRANSACTIONAL: i16 = 0x10;

fn main() -> Result<(), Box<dyn Error>> {
    let dir = std::env::args().nth(1).ok_or("usage: segments DIRECTORY")?;
    // A codec a topic: the same batches in each.
    let resolve = |raw: &std::collections::BTreeMap<String, String>| LogConfig {
        compression: match raw.get("codec").map(String::as_str) {
            Some("gzip") => Compression::Gzip,
            Some("snappy") => Compression::Snappy,
            Some("lz4") => Compression::Lz4,
            Some("zstd") => Compression::Zstd,
            _ => Compression::Uncompressed,
        },
        ..LogConfig::default()
    };
    let engine = Engine::open(EngineOptions::at(Path::new(&dir))?.resolve(resolve))?;
    for codec in ["none", "gzip", "snappy", "lz4", "zstd"] {
        let config = [("codec".to_owned(), codec.to_owned())].into();
        let topic = engine.create_topic(TopicSpec { config, ..TopicSpec::new(codec, 1) })?;
        fill(&topic.partitions[0])?;
    }
    Ok(engine.close()?)
}

/// Plain, idempotent and transactional batches of several records, and markers of both kinds.
fn fill(partition: &Partition) -> Result<(), Box<dyn Error>> {
    append(partition, records(RecordBatchBuilder::new(), 7), Origin::Client)?;
    for sequence in 0..6 {
        append(
            partition,
            records(RecordBatchBuilder::new().producer(4000, 2, sequence * 3), 3),
            Origin::Client,
        )?;
    }
    for (producer_id, outcome) in [(5000, TxnOutcome::Commit), (5001, TxnOutcome::Abort)] {
        let batch = RecordBatchBuilder::new().producer(producer_id, 1, 0).attributes(TRANSACTIONAL);
        append(partition, records(batch, 2), Origin::Client)?;
        let marker = EndTxnMarker { producer_id, producer_epoch: 1, coordinator_epoch: 9, outcome };
        append(partition, marker.to_batch(1_700_000_000_500), Origin::Coordinator)?;
    }
    Ok(())
}

fn records(batch: RecordBatchBuilder, count: i64) -> Bytes {
    let push = |batch: RecordBatchBuilder, n: i64| {
        batch.push(Some(format!("key {n}").as_bytes()), Some(&[b'v'; 100]), 1_700_000_000_000 + n)
    };
    (0..count).fold(batch, push).build()
}

fn append(partition: &Partition, batch: Bytes, origin: Origin) -> Result<(), Box<dyn Error>> {
    let options = AppendOptions { origin, transaction: TxnProof::NotRequired, ..AppendOptions::default() };
    partition.append(batch, options)?.wait()?;
    Ok(())
}
