//! Bits that rot on the device: whatever file they are in, no reader gets a record that was not written.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use kaas_core::record::read_batch;
use kaas_core::{
    AppendOptions, Engine, EngineOptions, Isolation, LogConfig, Partition, Read, ReadSpec,
    RecordBatchBuilder, TopicSpec,
};

const RECORDS: i64 = 60;

fn options(dir: &Path) -> EngineOptions {
    EngineOptions::at(dir).unwrap().resolve(|_| LogConfig {
        segment_bytes: 2500,
        index_interval_bytes: 300,
        retention_ms: -1,
        ..LogConfig::default()
    })
}

fn value(offset: i64) -> Vec<u8> {
    format!("the value of offset {offset}").into_bytes()
}

/// Several segments, a producer's snapshot, a checkpoint, a claim, indexes.
fn fill(dir: &Path) {
    let engine = Engine::open(options(dir)).unwrap();
    let topic = engine.create_topic(TopicSpec::new("t", 1)).unwrap();
    for offset in 0..RECORDS {
        let batch = RecordBatchBuilder::new().push(Some(b"key"), Some(&value(offset)), 1000 + offset);
        let batch = batch.producer(9, 0, i32::try_from(offset).unwrap()).build();
        topic.partitions[0].append(batch, AppendOptions::default()).unwrap().wait().unwrap();
    }
    engine.close().unwrap();
}

/// Everything that is served from `offset` on, asked for piece by piece; errors are stepped over, one offset at a time.
fn served(partition: &Partition) -> BTreeMap<i64, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut offset = 0;
    while offset < partition.offsets().high_watermark {
        let spec = ReadSpec {
            offset,
            bytes_max: 700,
            at_least_one_batch: true,
            isolation: Isolation::ReadUncommitted,
            blocking: true,
        };
        let bytes = match partition.read(spec) {
            Ok(Read::Data(data)) => data.slice.to_bytes().unwrap_or_default(),
            Ok(Read::WouldBlock) => panic!("a blocking read does not say that it would block"),
            Err(_) => Bytes::new(),
        };
        let before = offset;
        let mut rest = &bytes[..];
        // The last batch may be cut off; a client, too, takes what is whole.
        while let Some(batch) = read_batch(rest).expect("a damaged batch was served") {
            assert_eq!(batch.header.leader_epoch, 1, "no checksum covers it, and consumers go by it");
            for record in batch.records {
                found.insert(record.offset, record.value.unwrap_or_default().to_vec());
                offset = offset.max(record.offset + 1);
            }
            rest = &rest[batch.header.size..];
        }
        offset = offset.max(before + 1);
    }
    found
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() { copy(&path, &target) } else { fs::copy(&path, &target).map(drop).unwrap() }
    }
}

/// Opens a damaged copy and holds what it serves against what was written. How many records are missing.
fn check(origin: &Path, file: &Path, what: &str, damage: impl FnOnce(&Path)) -> usize {
    let dir = tempfile::tempdir().unwrap();
    copy(origin, dir.path());
    damage(&dir.path().join(file));
    // An engine that does not open serves nothing wrong.
    let Ok(engine) = Engine::open(options(dir.path())) else { return RECORDS as usize };
    let Some(topic) = engine.topics().by_name("t") else { panic!("{what}: the topic is gone") };
    let found = served(&topic.partitions[0]);
    for (offset, found) in &found {
        assert_eq!(found, &value(*offset), "{what}: offset {offset}");
    }
    RECORDS as usize - found.len()
}

#[test]
fn a_flipped_bit_is_never_served() {
    let origin = tempfile::tempdir().unwrap();
    fill(origin.path());
    for path in files(origin.path()) {
        let file = path.strip_prefix(origin.path()).unwrap();
        let len = fs::metadata(&path).unwrap().len() as usize;
        // Every byte of a log's batches would take minutes; a prime step meets every field of the format.
        for at in (0..len).step_by(if len > 1000 { 37 } else { 7 }) {
            let what = format!("{} byte {at}", file.display());
            let missing = check(origin.path(), file, &what, |path| {
                let mut bytes = fs::read(path).unwrap();
                bytes[at] ^= 1 << (at % 8);
                fs::write(path, bytes).unwrap();
            });
            let is_cache = matches!(file.extension().and_then(|e| e.to_str()), Some("index" | "timeindex"));
            assert!(!is_cache || missing == 0, "{what}: an index is not what records depend on");
        }
    }
}

#[test]
fn damage_in_one_batch_costs_its_neighbourhood_and_no_more() {
    let origin = tempfile::tempdir().unwrap();
    fill(origin.path());
    let log =
        files(origin.path()).into_iter().find(|path| path.extension().is_some_and(|e| e == "log")).unwrap();
    let file = log.strip_prefix(origin.path()).unwrap().to_owned();
    let missing = check(origin.path(), &file, "a value in the first segment", |path| {
        let mut bytes = fs::read(path).unwrap();
        let at = bytes.windows(20).position(|bytes| bytes == &value(3)[..20]).unwrap();
        bytes[at] ^= 1;
        fs::write(path, bytes).unwrap();
    });
    assert_eq!(missing, 1);
}

#[test]
fn damage_is_quarantined_counted_once_and_cuts_nothing() {
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path());
    let log =
        files(dir.path()).into_iter().find(|path| path.extension().is_some_and(|e| e == "log")).unwrap();
    let mut bytes = fs::read(&log).unwrap();
    let at = bytes.windows(20).position(|bytes| bytes == &value(3)[..20]).unwrap();
    bytes[at] ^= 1;
    fs::write(&log, &bytes).unwrap();
    let engine = Engine::open(options(dir.path())).unwrap();
    let partition = Arc::clone(&engine.topics().by_name("t").unwrap().partitions[0]);
    assert_eq!(engine.stats().damaged_ranges, 0, "nobody has read it");
    for _ in 0..3 {
        assert_eq!(served(&partition).len() as i64, RECORDS - 1);
    }
    assert_eq!(engine.stats().damaged_ranges, 1);
    let [range] = &partition.damaged_ranges()[..] else { panic!("{:?}", partition.damaged_ranges()) };
    assert!(dir.path().join(&range.segment) == log && range.position < at as u64);
    // The log goes on behind it, and the file is as it was.
    let batch = RecordBatchBuilder::new().push(None, Some(&value(RECORDS)), 2000).build();
    let appended = partition.append(batch, AppendOptions::default()).unwrap().wait().unwrap();
    assert_eq!(appended.base_offset, RECORDS);
    assert_eq!(engine.stats().commits.count(), 1);
    engine.close().unwrap();
    assert_eq!(fs::read(&log).unwrap(), bytes);
}

#[test]
fn cut_emptied_and_missing_files_serve_nothing_wrong() {
    let origin = tempfile::tempdir().unwrap();
    fill(origin.path());
    for path in files(origin.path()) {
        let file = path.strip_prefix(origin.path()).unwrap();
        let name = file.display();
        // Without its metadata there is no topic, by design: its data is left alone, with a warning.
        if file.starts_with("cluster/topics") {
            continue;
        }
        check(origin.path(), file, &format!("{name} missing"), |path| fs::remove_file(path).unwrap());
        check(origin.path(), file, &format!("{name} empty"), |path| fs::write(path, b"").unwrap());
        check(origin.path(), file, &format!("{name} cut"), |path| {
            let bytes = fs::read(path).unwrap();
            fs::write(path, &bytes[..bytes.len() / 2]).unwrap();
        });
        check(origin.path(), file, &format!("{name} foreign"), |path| fs::write(path, [7; 4096]).unwrap());
    }
}
