//! The engine on a real directory.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::future::Future;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Waker};

use bytes::Bytes;
use kaas_core::inspect;
use kaas_core::record::BatchHeader;
use kaas_core::{
    AppendError, AppendOptions, Appended, CreateTopicError, DeleteTopicError, Engine, EngineOptions,
    FLUSH_NEVER, Isolation, LogConfig, Partition, Read, ReadData, ReadError, ReadSpec, RecordBatchBuilder,
    Slice, TopicSpec, Wake,
};

fn engine(dir: &Path) -> Engine {
    Engine::open(options(dir)).unwrap()
}

/// Overrides are LogConfig's field names here.
fn options(dir: &Path) -> EngineOptions {
    EngineOptions::at(dir).unwrap().resolve(|raw| {
        let mut config = LogConfig::default();
        if let Some(bytes) = raw.get("segment_bytes") {
            config.segment_bytes = bytes.parse().unwrap();
        }
        if let Some(messages) = raw.get("flush_messages") {
            config.flush_messages = messages.parse().unwrap();
        }
        config
    })
}

fn topic(engine: &Engine, name: &str, config: &[(&str, &str)]) -> Arc<Partition> {
    let config = config.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let spec = TopicSpec { name: name.to_owned(), partitions: 1, config };
    Arc::clone(&engine.create_topic(spec).unwrap().partitions[0])
}

fn reopened(engine: &Engine, name: &str) -> Arc<Partition> {
    Arc::clone(&engine.topics().by_name(name).unwrap().partitions[0])
}

fn batch(values: &[&str]) -> Bytes {
    let push = |b: RecordBatchBuilder, v: &&str| b.push(None, Some(v.as_bytes()), 1000);
    values.iter().fold(RecordBatchBuilder::new(), push).build()
}

fn append(partition: &Partition, values: &[&str]) -> Appended {
    partition.append(batch(values), AppendOptions::default()).unwrap().wait().unwrap()
}

fn spec(offset: i64) -> ReadSpec {
    ReadSpec {
        offset,
        bytes_max: 1 << 20,
        at_least_one_batch: true,
        isolation: Isolation::ReadUncommitted,
        blocking: true,
    }
}

fn data(read: Read) -> ReadData {
    match read {
        Read::Data(data) => data,
        Read::WouldBlock => panic!("a blocking read does not say that it would block"),
    }
}

/// Base offsets and epochs of all batches from `offset` on, following reads as a consumer does.
fn batches(partition: &Partition, mut offset: i64) -> Vec<(i64, i32)> {
    let mut found = Vec::new();
    loop {
        let bytes = data(partition.read(spec(offset)).unwrap()).slice.to_bytes().unwrap();
        if bytes.is_empty() {
            return found;
        }
        let before = offset;
        let mut rest = &bytes[..];
        while let Ok(header) = BatchHeader::parse(rest) {
            let Some(batch) = rest.get(..header.size) else { break };
            assert_eq!(crc32c::crc32c(&batch[21..]), header.crc);
            assert!(header.last_offset() >= offset, "not the batch that was asked for");
            found.push((header.base_offset, header.leader_epoch));
            offset = header.next_offset();
            rest = &rest[header.size..];
        }
        assert!(offset > before, "the bytes do not start with a batch");
    }
}

fn partition_dir(root: &Path, name: &str) -> PathBuf {
    let mut dirs = std::fs::read_dir(root.join("topics")).unwrap().map(|entry| entry.unwrap().path());
    dirs.find(|dir| dir.file_name().unwrap().to_str().unwrap().starts_with(&format!("{name}~")))
        .unwrap()
        .join("0")
}

#[test]
fn appends_get_offsets_in_order_and_survive_a_drop() {
    let dir = tempfile::tempdir().unwrap();
    let id = {
        let engine = engine(dir.path());
        let partition = topic(&engine, "t", &[]);
        assert!(
            !dir.path().join("topics").read_dir().unwrap().any(|_| true),
            "an idle topic has no data files"
        );
        assert_eq!(append(&partition, &["a", "b"]).base_offset, 0);
        let appended = append(&partition, &["c"]);
        assert_eq!((appended.base_offset, appended.last_offset, appended.log_append_time_ms), (2, 2, -1));
        assert!(!appended.duplicate);
        engine.cluster_id().to_owned()
    };
    let engine = engine(dir.path());
    assert_eq!(engine.cluster_id(), id);
    assert_eq!(id.len(), 22);
    let partition = reopened(&engine, "t");
    assert_eq!(partition.offsets().high_watermark, 3);
    assert_eq!(append(&partition, &["d"]).base_offset, 3);
    assert_eq!(batches(&partition, 0), [(0, 1), (2, 1), (3, 1)]);
    let names: Vec<String> = partition_dir(dir.path(), "t")
        .read_dir()
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(names.contains(&"00000001-00000000000000000000.log".to_owned()), "{names:?}");
    assert!(names.contains(&"00000001.claim".to_owned()), "{names:?}");
}

#[test]
fn a_closed_engine_opens_without_reading_the_log_and_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let first = engine(dir.path());
    let partition = topic(&first, "t", &[]);
    append(&partition, &["a"]);
    first.close().unwrap();
    let refused = partition.append(batch(&["b"]), AppendOptions::default());
    assert!(matches!(refused, Err(AppendError::Closed)));
    assert_eq!(batches(&partition, 0).len(), 1, "reads go on");
    assert!(matches!(first.create_topic(TopicSpec::new("u", 1)), Err(CreateTopicError::Closed)));
    let found = first.topics().by_name("t").unwrap();
    assert!(matches!(first.delete_topic(&found), Err(DeleteTopicError::Closed)));
    assert!(first.close().is_err());
    // Damage that a scan would notice: the checkpoint says that there is nothing to scan.
    let log = partition_dir(dir.path(), "t").join("00000001-00000000000000000000.log");
    let file = std::fs::OpenOptions::new().write(true).open(log).unwrap();
    file.write_all_at(b"?", 70).unwrap();
    let second = engine(dir.path());
    let partition = reopened(&second, "t");
    assert_eq!(partition.offsets().log_end, 1);
    assert_eq!(append(&partition, &["b"]).base_offset, 1);
}

#[test]
fn segments_roll_and_reads_cross_them() {
    let dir = tempfile::tempdir().unwrap();
    let first = engine(dir.path());
    let partition = topic(&first, "t", &[("segment_bytes", "300")]);
    let pending: Vec<_> =
        (0..50).map(|_| partition.append(batch(&["x", "y"]), AppendOptions::default()).unwrap()).collect();
    for (n, pending) in pending.into_iter().enumerate() {
        assert_eq!(pending.wait().unwrap().base_offset, 2 * n as i64);
    }
    let expected: Vec<(i64, i32)> = (0..50).map(|n| (n * 2, 1)).collect();
    assert_eq!(batches(&partition, 0), expected);
    assert_eq!(batches(&partition, 51)[0], (50, 1), "a read starts at the batch that contains the offset");
    let logs = partition_dir(dir.path(), "t").read_dir().unwrap();
    let logs = logs.filter(|e| e.as_ref().unwrap().path().extension().is_some_and(|x| x == "log")).count();
    assert!(logs >= 15, "{logs} segments");
    drop((first, partition));
    let second = engine(dir.path());
    assert_eq!(batches(&reopened(&second, "t"), 0), expected);
}

#[test]
fn a_new_segment_is_read_from_its_start() {
    let dir = tempfile::tempdir().unwrap();
    let engine = engine(dir.path());
    let partition = topic(&engine, "t", &[("segment_bytes", "400")]);
    append(&partition, &["small"]);
    // Too large for the rest of the segment, and larger than what the segment holds.
    append(&partition, &[&"x".repeat(300)]);
    assert_eq!(batches(&partition, 1), [(1, 1)]);
}

#[test]
fn the_first_batch_is_whole_and_the_last_may_be_cut() {
    let dir = tempfile::tempdir().unwrap();
    let engine = engine(dir.path());
    let partition = topic(&engine, "t", &[]);
    let size = batch(&["0123456789"]).len();
    for _ in 0..3 {
        append(&partition, &["0123456789"]);
    }
    let read = |offset, bytes_max, at_least_one_batch| {
        let spec = ReadSpec { bytes_max, at_least_one_batch, ..spec(offset) };
        data(partition.read(spec).unwrap()).slice.len()
    };
    assert_eq!(read(0, 1, true), size);
    assert_eq!(read(1, 1, true), size);
    assert_eq!(read(0, size - 1, false), 0, "a part of the first batch is of no use");
    assert_eq!(read(0, size, false), size);
    assert_eq!(read(0, size + 1, false), size + 1);
    assert_eq!(read(0, 0, false), 0);
    assert_eq!(read(1, size + 5, true), size + 5);
    assert_eq!(read(1, 1 << 20, true), 2 * size);
    assert_eq!(read(3, 1 << 20, true), 0, "at the end");
    for offset in [-1, 4] {
        assert!(matches!(partition.read(spec(offset)), Err(ReadError::OffsetOutOfRange(_))), "{offset}");
    }
    let hot = partition.read(ReadSpec { blocking: false, ..spec(0) }).unwrap();
    assert_eq!(data(hot).slice.len(), 3 * size, "what was just written is in memory");
    assert!(matches!(data(partition.read(spec(0)).unwrap()).slice, Slice::File { position: 0, .. }));
}

#[test]
fn a_torn_tail_is_cut_and_damage_below_the_checkpoint_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let first = engine(dir.path());
    let partition = topic(&first, "t", &[]);
    append(&partition, &["a"]);
    first.close().unwrap();
    drop((first, partition));
    let log = partition_dir(dir.path(), "t").join("00000001-00000000000000000000.log");
    let good = std::fs::read(&log).unwrap();
    let mut torn = good.clone();
    torn.extend_from_slice(&batch(&["never acknowledged"])[..70]);
    std::fs::write(&log, &torn).unwrap();
    let second = engine(dir.path());
    assert_eq!(append(&reopened(&second, "t"), &["b"]).base_offset, 1);
    assert_eq!(batches(&reopened(&second, "t"), 0), [(0, 1), (1, 1)]);
    second.close().unwrap();
    drop(second);
    let whole = std::fs::read(&log).unwrap();
    std::fs::write(&log, &whole[..whole.len() - 1]).unwrap();
    let third = engine(dir.path());
    topic(&third, "neighbour", &[]);
    let refused = reopened(&third, "t").append(batch(&["c"]), AppendOptions::default());
    assert!(matches!(refused, Err(AppendError::Offline(_))));
    append(&reopened(&third, "neighbour"), &["fine"]);
    assert_eq!(std::fs::read(&log).unwrap(), whole[..whole.len() - 1], "nothing was changed");
}

#[test]
fn topics_are_unique_durable_and_deleted_for_good() {
    let dir = tempfile::tempdir().unwrap();
    let first = engine(dir.path());
    let partition = topic(&first, "t", &[("segment_bytes", "4096")]);
    append(&partition, &["a"]);
    let again = first.create_topic(TopicSpec::new("t", 1));
    assert!(matches!(again, Err(CreateTopicError::Exists(_))));
    let woken = Arc::new(Count(AtomicUsize::new(0)));
    let watcher: Arc<dyn Wake> = woken.clone();
    partition.watch(&watcher);
    let old_id = partition.topic_id();
    let found = first.topics().by_name("t").unwrap();
    first.delete_topic(&found).unwrap();
    assert_eq!(woken.0.load(Ordering::SeqCst), 1);
    assert!(matches!(first.delete_topic(&found), Err(DeleteTopicError::Unknown(_))));
    assert!(matches!(partition.read(spec(0)), Err(ReadError::Deleted)));
    assert!(matches!(partition.append(batch(&["b"]), AppendOptions::default()), Err(AppendError::Deleted)));
    assert_eq!(dir.path().join("topics").read_dir().unwrap().count(), 0);
    assert_eq!(dir.path().join("cluster/topics").read_dir().unwrap().count(), 0);
    let partition = topic(&first, "t", &[]);
    assert_ne!(partition.topic_id(), old_id);
    assert!(
        matches!(first.delete_topic(&found), Err(DeleteTopicError::Unknown(_))),
        "another topic is meant"
    );
    assert_eq!(append(&partition, &["new"]).base_offset, 0, "the new topic shares nothing with the old");
    first
        .create_topic(TopicSpec {
            name: "u".into(),
            partitions: 3,
            config: BTreeMap::from([("k".into(), "v".into())]),
        })
        .unwrap();
    drop((first, partition));
    let second = engine(dir.path());
    let topics = second.topics();
    let names: Vec<&str> = topics.iter().map(|topic| topic.name.as_str()).collect();
    assert_eq!(names, ["t", "u"]);
    let u = topics.by_name("u").unwrap();
    assert_eq!((u.partitions.len(), u.config["k"].as_str()), (3, "v"));
    assert_eq!(topics.by_id(&u.id).unwrap().name, u.name);
    assert_eq!(u.partition(2).unwrap().index(), 2);
    assert!(u.partition(3).is_none() && u.partition(-1).is_none());
}

#[test]
fn watchers_wake_when_the_high_watermark_moves() {
    let dir = tempfile::tempdir().unwrap();
    let engine = engine(dir.path());
    let partition = topic(&engine, "t", &[]);
    let woken = Arc::new(Count(AtomicUsize::new(0)));
    let watcher: Arc<dyn Wake> = woken.clone();
    partition.watch(&watcher);
    append(&partition, &["a"]);
    append(&partition, &["b"]);
    // The acknowledgement may be seen just before the wake-up: closing waits for the loop.
    engine.close().unwrap();
    assert_eq!(woken.0.load(Ordering::SeqCst), 1, "a registration counts once");
}

#[test]
fn producer_ids_are_never_given_out_twice() {
    let dir = tempfile::tempdir().unwrap();
    let mut seen = std::collections::HashSet::new();
    for _ in 0..3 {
        let engine = engine(dir.path());
        for _ in 0..1001 {
            assert!(seen.insert(engine.next_producer_id().unwrap()));
        }
    }
    assert!(seen.iter().all(|id| *id >= 0));
}

#[test]
fn retries_get_the_original_offset_even_across_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let numbered = |n: i32| RecordBatchBuilder::new().producer(9, 0, n).push(None, Some(b"v"), 0).build();
    {
        let engine = engine(dir.path());
        let partition = topic(&engine, "t", &[]);
        let send = |n| partition.append(numbered(n), AppendOptions::default()).unwrap();
        // The retry of a batch that is still being committed waits for the same commit.
        let (first, retry) = (send(0), send(0));
        let (first, retry) = (first.wait().unwrap(), retry.wait().unwrap());
        assert_eq!((first.base_offset, first.duplicate), (0, false));
        assert_eq!((retry.base_offset, retry.duplicate), (0, true));
        for n in 1..4 {
            send(n).wait().unwrap();
        }
    }
    let engine = engine(dir.path());
    let partition = reopened(&engine, "t");
    let retry = partition.append(numbered(2), AppendOptions::default()).unwrap().wait().unwrap();
    assert_eq!((retry.base_offset, retry.duplicate), (2, true));
    let gap = partition.append(numbered(5), AppendOptions::default());
    assert!(matches!(gap, Err(AppendError::OutOfOrderSequence(_))));
    assert_eq!(partition.offsets().log_end, 4);
}

#[test]
fn timestamps_are_found_per_record() {
    let dir = tempfile::tempdir().unwrap();
    let engine = engine(dir.path());
    let partition = topic(&engine, "t", &[("segment_bytes", "400")]);
    assert_eq!(partition.max_timestamp().unwrap(), None);
    let stamps = [[10, 30, 20], [25, 15, 90], [40, 50, 60], [70, 70, 5], [80, 1, 2]];
    for three in stamps {
        let build = |b: RecordBatchBuilder, at: &i64| b.push(None, Some(&[0; 60]), *at);
        let batch = three.iter().fold(RecordBatchBuilder::new(), build).build();
        partition.append(batch, AppendOptions::default()).unwrap().wait().unwrap();
    }
    let flat: Vec<i64> = stamps.concat();
    for wanted in 0..95 {
        let expected = flat.iter().position(|at| *at >= wanted);
        let hit = partition.offset_for_timestamp(wanted).unwrap();
        assert_eq!(hit.map(|hit| hit.offset as usize), expected, "{wanted}");
        assert_eq!(hit.map(|hit| hit.timestamp), expected.map(|at| flat[at]));
    }
    assert_eq!(partition.max_timestamp().unwrap().map(|hit| (hit.offset, hit.timestamp)), Some((5, 90)));
    assert_eq!(partition.log_size_bytes(), dir_log_bytes(&partition_dir(dir.path(), "t")));
}

#[test]
fn epochs_end_by_kip_320() {
    let dir = tempfile::tempdir().unwrap();
    let engine = engine(dir.path());
    let partition = topic(&engine, "t", &[]);
    append(&partition, &["a", "b"]);
    assert_eq!(partition.leader_epoch(), 1);
    assert_eq!(partition.end_offset_for_epoch(1), (1, 2));
    assert_eq!(partition.end_offset_for_epoch(0), (0, 0));
    assert_eq!(partition.end_offset_for_epoch(2), (-1, -1));
    assert_eq!(partition.end_offset_for_epoch(-1), (-1, -1));
}

#[test]
fn page_cache_mode_acknowledges_unsynced_writes() {
    let dir = tempfile::tempdir().unwrap();
    let engine = engine(dir.path());
    let partition = topic(&engine, "t", &[("flush_messages", "18446744073709551615")]);
    for n in 0..100 {
        assert_eq!(append(&partition, &["x"]).base_offset, n);
    }
    assert_eq!(batches(&partition, 0).len(), 100);
}

#[test]
fn a_page_cache_append_needs_the_commit_loop_only_when_it_takes_more_than_a_write() {
    let dir = tempfile::tempdir().unwrap();
    let engine = engine(dir.path());
    let never = FLUSH_NEVER.to_string();
    let cached = topic(&engine, "cached", &[("flush_messages", &never), ("segment_bytes", "1000")]);
    let durable = topic(&engine, "durable", &[]);
    append(&cached, &["the loop makes the claim and the segment"]);
    let held = engine.hold_commits();
    let mut waiting = durable.append(batch(&["x"]), AppendOptions::default()).unwrap();
    assert_eq!(append(&cached, &["y"]).base_offset, 1, "committed by this thread");
    assert_eq!(cached.offsets().high_watermark, 2);
    let mut rolls = cached.append(batch(&[&"z".repeat(900)]), AppendOptions::default()).unwrap();
    let mut context = Context::from_waker(Waker::noop());
    assert!(Pin::new(&mut waiting).poll(&mut context).is_pending(), "a sync is the loop's");
    assert!(Pin::new(&mut rolls).poll(&mut context).is_pending(), "so is a new segment");
    drop(held);
    assert_eq!(waiting.wait().unwrap().base_offset, 0);
    assert_eq!(rolls.wait().unwrap().base_offset, 2);
    engine.close().unwrap();
    let again = self::engine(dir.path());
    assert_eq!(batches(&reopened(&again, "cached"), 0).len(), 3);
}

#[test]
fn many_threads_append_to_one_page_cache_log() {
    let dir = tempfile::tempdir().unwrap();
    let engine = engine(dir.path());
    let never = FLUSH_NEVER.to_string();
    let partition = topic(&engine, "t", &[("flush_messages", &never), ("segment_bytes", "20000")]);
    let (threads, rounds) = (8, 500);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                for _ in 0..rounds {
                    append(&partition, &["x"]);
                }
            });
        }
    });
    let offsets: Vec<i64> = batches(&partition, 0).iter().map(|(offset, _)| *offset).collect();
    assert_eq!(offsets, (0..threads * rounds).collect::<Vec<i64>>());
}

#[test]
fn many_partitions_commit_concurrently() {
    let dir = tempfile::tempdir().unwrap();
    let engine = engine(dir.path());
    let topic = engine.create_topic(TopicSpec::new("t", 20)).unwrap();
    std::thread::scope(|scope| {
        for partition in &topic.partitions {
            scope.spawn(move || {
                for round in 0..20 {
                    let send = || partition.append(batch(&["a", "b"]), AppendOptions::default()).unwrap();
                    let pending = [send(), send(), send()];
                    for (n, pending) in pending.into_iter().enumerate() {
                        assert_eq!(pending.wait().unwrap().base_offset, round * 6 + n as i64 * 2);
                    }
                }
            });
        }
    });
    for partition in &topic.partitions {
        assert_eq!(batches(partition, 0).len(), 60);
    }
}

/// Follows a log from its start to `end`, waiting by watching, and checks that nothing ever changes back.
fn follow(partition: &Partition, end: i64) {
    let (woken, wake) = std::sync::mpsc::channel();
    let watcher: Arc<dyn Wake> = Arc::new(Ring(std::sync::Mutex::new(woken)));
    let (mut offset, mut high_watermark) = (0, 0);
    while offset < end {
        partition.watch(&watcher);
        let read = data(partition.read(spec(offset)).unwrap());
        assert!(read.high_watermark >= high_watermark, "the high watermark went back");
        high_watermark = read.high_watermark;
        let bytes = read.slice.to_bytes().unwrap();
        if bytes.is_empty() {
            // Long enough for any machine: it is there so that a lost wake-up is a failure and no hang.
            wake.recv_timeout(std::time::Duration::from_secs(120)).expect("a wake-up was lost");
            continue;
        }
        let mut rest = &bytes[..];
        while let Ok(header) = BatchHeader::parse(rest) {
            let Some(batch) = rest.get(..header.size) else { break };
            assert_eq!(header.base_offset, offset);
            assert!(header.last_offset() < high_watermark, "seen before it was committed");
            assert_eq!(crc32c::crc32c(&batch[21..]), header.crc);
            offset = header.next_offset();
            rest = &rest[header.size..];
        }
    }
}

struct Ring(std::sync::Mutex<std::sync::mpsc::Sender<()>>);

impl Wake for Ring {
    fn wake(&self) {
        let _ = self.0.lock().unwrap().send(());
    }
}

#[test]
fn a_segment_file_can_be_inspected_up_to_its_damage() {
    let dir = tempfile::tempdir().unwrap();
    let engine = engine(dir.path());
    let partition = topic(&engine, "t", &[]);
    append(&partition, &["a", "b"]);
    append(&partition, &["c"]);
    engine.close().unwrap();
    let log = partition_dir(dir.path(), "t").join("00000001-00000000000000000000.log");
    let found: Vec<_> = inspect::batches(&log).unwrap().map(Result::unwrap).collect();
    let positions: Vec<u64> = found.iter().map(|batch| batch.position).collect();
    assert_eq!(positions, [0, found[0].header.size as u64]);
    let values: Vec<_> =
        found.iter().flat_map(|b| b.records().unwrap()).map(|r| (r.offset, r.value)).collect();
    assert_eq!(values, [(0, Some(b"a".to_vec())), (1, Some(b"b".to_vec())), (2, Some(b"c".to_vec()))]);
    let mut bytes = std::fs::read(&log).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&log, &bytes).unwrap();
    let found: Vec<_> = inspect::batches(&log).unwrap().collect();
    assert!(found[0].is_ok() && found.len() == 2);
    assert!(
        matches!(found[1], Err(inspect::InspectError::Damaged { position, .. }) if position == positions[1])
    );
    assert!(inspect::batches(dir.path().join("missing/x.log")).is_err());
    assert!(!dir.path().join("missing").exists());
}

#[test]
fn readers_follow_concurrent_writers_over_many_segments() {
    const BATCHES: i64 = 200;
    let dir = tempfile::tempdir().unwrap();
    let engine = engine(dir.path());
    let partition = topic(&engine, "t", &[("segment_bytes", "2000")]);
    let neighbour = topic(&engine, "u", &[("flush_messages", "7")]);
    std::thread::scope(|scope| {
        for partition in [&partition, &partition, &neighbour, &neighbour] {
            scope.spawn(move || {
                let send = |_| partition.append(batch(&["a", "b"]), AppendOptions::default()).unwrap();
                for _ in 0..BATCHES / 5 {
                    let pending: Vec<_> = (0..5).map(send).collect();
                    for pending in pending {
                        pending.wait().unwrap();
                    }
                }
            });
            scope.spawn(move || follow(partition, 4 * BATCHES));
        }
    });
    drop(engine);
    let engine = options(dir.path());
    let engine = Engine::open(engine).unwrap();
    follow(&reopened(&engine, "t"), 4 * BATCHES);
    follow(&reopened(&engine, "u"), 4 * BATCHES);
}

struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn dir_log_bytes(dir: &Path) -> u64 {
    let entries = dir.read_dir().unwrap().map(|entry| entry.unwrap());
    let logs = entries.filter(|entry| entry.path().extension().is_some_and(|x| x == "log"));
    logs.map(|entry| entry.metadata().unwrap().len()).sum()
}
