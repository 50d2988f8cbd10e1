//! How records leave a log: rolling by time, retention, and records deleted on request.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use kaas_core::volume::{CrashKeep, Fault, MemVolume, OpKind};
use kaas_core::{
    AppendOptions, Clock, DeleteRecordsError, Engine, EngineOptions, Isolation, LogConfig, ManualClock,
    Partition, Read, ReadError, ReadSpec, RecordBatchBuilder, Slice, TopicSpec,
};

const EIO: i32 = 5;

struct Bench {
    volume: MemVolume,
    clock: Arc<ManualClock>,
    config: LogConfig,
    engine: Engine,
    partition: Arc<Partition>,
}

/// Nothing rolls or goes unless a test says so.
fn quiet() -> LogConfig {
    LogConfig { retention_ms: -1, segment_ms: i64::MAX, file_delete_delay_ms: 60_000, ..LogConfig::default() }
}

fn open(volume: &MemVolume, clock: &Arc<ManualClock>, config: &LogConfig) -> Engine {
    let (clock, config): (Arc<ManualClock>, LogConfig) = (Arc::clone(clock), config.clone());
    let options = EngineOptions::on(Arc::new(volume.clone())).clock(clock).resolve(move |_| config.clone());
    Engine::open(options.retention_check_interval(None)).unwrap()
}

impl Bench {
    fn new(config: LogConfig) -> Self {
        let (volume, clock) = (MemVolume::new(), Arc::new(ManualClock::at(1_000_000)));
        let engine = open(&volume, &clock, &config);
        let topic = engine.create_topic(TopicSpec::new("t", 1)).unwrap();
        Self { volume, clock, config, engine, partition: Arc::clone(&topic.partitions[0]) }
    }

    fn reopened(self) -> Self {
        drop(self.engine);
        let volume = self.volume.after_crash(CrashKeep::Nothing);
        let engine = open(&volume, &self.clock, &self.config);
        let partition = Arc::clone(&engine.topics().by_name("t").unwrap().partitions[0]);
        Self { volume, engine, partition, ..self }
    }

    /// Appends a batch of one record and returns its offset.
    fn append_at(&self, timestamp: i64) -> i64 {
        let batch = RecordBatchBuilder::new().push(None, Some(&[7; 100]), timestamp).build();
        self.partition.append(batch, AppendOptions::default()).unwrap().wait().unwrap().base_offset
    }

    fn append(&self) -> i64 {
        self.append_at(self.clock.now_ms())
    }

    /// Names of the files of the partition that end so.
    fn files(&self, end: &str) -> Vec<String> {
        let name = |path: String| path.rsplit('/').next().unwrap().to_owned();
        self.volume.files().into_iter().filter(|path| path.ends_with(end)).map(name).collect()
    }

    fn segments(&self) -> Vec<i64> {
        let base = |name: String| name.trim_end_matches(".log").split_once('-').unwrap().1.parse().unwrap();
        self.files(".log").into_iter().map(base).collect()
    }

    fn retain(&self) -> i64 {
        self.engine.apply_retention();
        self.partition.offsets().log_start
    }

    fn read(&self, offset: i64) -> Result<Slice, ReadError> {
        let isolation = Isolation::ReadUncommitted;
        let spec =
            ReadSpec { offset, bytes_max: 1 << 20, at_least_one_batch: true, isolation, blocking: true };
        self.partition.read(spec).map(|read| match read {
            Read::Data(data) => data.slice,
            Read::WouldBlock => panic!("a blocking read waits"),
        })
    }
}

#[test]
fn a_batch_much_younger_than_the_first_begins_a_segment() {
    let bench = Bench::new(LogConfig { segment_ms: 1000, ..quiet() });
    bench.append_at(5000);
    bench.append_at(6000);
    assert_eq!(bench.segments(), [0], "exactly segment.ms");
    bench.append_at(4000);
    bench.append_at(6001);
    assert_eq!(bench.segments(), [0, 3]);
    let bench = bench.reopened();
    bench.append_at(7001);
    assert_eq!(bench.segments(), [0, 3], "what the age is counted from is known after a restart");
    bench.append_at(7002);
    assert_eq!(bench.segments(), [0, 3, 5]);
}

#[test]
fn batches_of_one_commit_are_parted_by_their_times() {
    let bench = Bench::new(LogConfig { segment_ms: 1000, ..quiet() });
    let held = bench.engine.hold_commits();
    let pending: Vec<_> = [10, 900, 1500, 2400, 9000]
        .map(|at| RecordBatchBuilder::new().push(None, None, at).build())
        .into_iter()
        .map(|batch| bench.partition.append(batch, AppendOptions::default()).unwrap())
        .collect();
    drop(held);
    for pending in pending {
        pending.wait().unwrap();
    }
    assert_eq!(bench.segments(), [0, 2, 4]);
}

#[test]
fn batches_without_a_time_count_from_when_the_segment_was_opened() {
    let bench = Bench::new(LogConfig { segment_ms: 1000, ..quiet() });
    bench.append_at(-1);
    bench.clock.advance(1000);
    bench.append_at(-1);
    assert_eq!(bench.segments(), [0]);
    bench.clock.advance(1);
    bench.append_at(-1);
    assert_eq!(bench.segments(), [0, 2]);
}

#[test]
fn a_pass_closes_what_is_old_and_an_idle_log_loses_its_last_segment() {
    let bench = Bench::new(LogConfig { segment_ms: 1000, retention_ms: 5000, ..quiet() });
    bench.append();
    bench.clock.advance(1001);
    assert_eq!(bench.retain(), 0);
    assert_eq!(bench.files(".index").len(), 1, "closed: its index is stored");
    bench.append_at(1_000_000);
    assert_eq!(bench.segments(), [0, 1]);
    bench.clock.advance(4000);
    assert_eq!(bench.retain(), 2, "both, the active one too");
    assert_eq!(bench.segments(), [0i64; 0]);
    assert_eq!(bench.files(".deleted").len(), 8);
    let bench = bench.reopened();
    assert_eq!(bench.partition.offsets().log_end, 2, "offsets go on where they were");
    assert_eq!(bench.files(".deleted").len(), 0, "what a crash left is removed when the log is opened");
    assert_eq!(bench.append(), 2);
    assert_eq!(bench.reopened().partition.offsets().log_end, 3);
}

#[test]
fn files_stay_aside_for_their_delay_and_readers_go_on() {
    let bench = Bench::new(LogConfig { segment_bytes: 200, retention_bytes: 200, ..quiet() });
    for _ in 0..4 {
        bench.append();
    }
    let held = bench.read(0).unwrap();
    assert_eq!(bench.retain(), 2);
    assert_eq!(bench.segments(), [2, 3]);
    assert!(matches!(bench.read(1), Err(ReadError::OffsetOutOfRange(_))));
    assert!(!bench.read(2).unwrap().is_empty());
    assert_eq!(held.to_bytes().unwrap().len(), held.len());
    bench.clock.advance(59_999);
    bench.retain();
    assert!(!bench.files(".deleted").is_empty());
    bench.clock.advance(1);
    bench.retain();
    assert_eq!(bench.files(".deleted"), [""; 0]);
}

#[test]
fn a_file_that_cannot_be_renamed_or_unlinked_is_tried_again() {
    let bench =
        Bench::new(LogConfig { segment_bytes: 200, retention_bytes: 0, file_delete_delay_ms: 0, ..quiet() });
    bench.append();
    let mut faults = 2;
    bench.volume.plan(move |op| {
        let hit =
            matches!(op.kind, OpKind::Rename | OpKind::Remove) && op.path.contains(".log") && faults > 0;
        faults -= i32::from(hit);
        hit.then_some(Fault::Errno(EIO))
    });
    assert_eq!(bench.retain(), 1);
    assert_eq!(bench.segments(), [0]);
    bench.retain();
    assert_eq!(bench.segments(), [0i64; 0]);
    assert_eq!(bench.files(".deleted"), [""; 0]);
}

#[test]
fn nothing_is_removed_when_the_new_start_cannot_be_made_durable() {
    let bench = Bench::new(LogConfig { segment_bytes: 200, retention_bytes: 0, ..quiet() });
    bench.append();
    bench.append();
    for kind in [OpKind::Create, OpKind::Sync, OpKind::SyncDir] {
        bench.volume.plan(move |op| {
            let start = op.path.ends_with(".start") || op.kind == OpKind::SyncDir;
            (op.kind == kind && start).then_some(Fault::Errno(EIO))
        });
        assert_eq!(bench.retain(), 0, "{kind:?}");
        assert!(matches!(bench.partition.delete_records(1), Err(DeleteRecordsError::Storage(_))), "{kind:?}");
        assert!(!bench.read(0).unwrap().is_empty());
        bench.volume.no_plan();
    }
    assert_eq!(bench.retain(), 2);
}

#[test]
fn a_record_from_the_future_keeps_what_follows_it() {
    let bench = Bench::new(LogConfig { segment_bytes: 200, retention_ms: 1000, ..quiet() });
    bench.append();
    bench.append_at(i64::MAX);
    bench.append();
    bench.clock.advance(5000);
    assert_eq!(bench.retain(), 1);
    assert_eq!(bench.segments(), [1, 2]);
}

#[test]
fn records_are_deleted_up_to_an_offset_and_stay_deleted() {
    let bench = Bench::new(LogConfig { segment_bytes: 400, ..quiet() });
    for _ in 0..5 {
        bench.append();
    }
    for bad in [-2, 6, i64::MAX, i64::MIN] {
        let refused = bench.partition.delete_records(bad);
        assert!(matches!(refused, Err(DeleteRecordsError::OffsetOutOfRange(_))), "{bad}");
    }
    assert_eq!(bench.partition.delete_records(0).unwrap(), 0);
    assert_eq!(bench.partition.delete_records(3).unwrap(), 3);
    assert_eq!(bench.partition.delete_records(1).unwrap(), 3, "never back");
    assert_eq!(bench.segments(), [0, 2, 4], "files are retention's to remove");
    assert!(matches!(bench.read(2), Err(ReadError::OffsetOutOfRange(_))));
    assert_eq!(bench.retain(), 3);
    assert_eq!(bench.segments(), [2, 4]);
    let bench = bench.reopened();
    assert_eq!(bench.partition.offsets().log_start, 3);
    assert_eq!(bench.partition.delete_records(-1).unwrap(), 5);
    assert_eq!(bench.append(), 5);
    let bench = bench.reopened();
    assert_eq!(bench.partition.offsets().log_start, 5);
    assert_eq!(bench.partition.offsets().log_end, 6);
    assert!(!bench.read(5).unwrap().is_empty());
}

#[test]
fn a_log_that_is_only_compacted_keeps_its_records() {
    let bench = Bench::new(LogConfig { delete: false, compact: true, retention_bytes: 0, ..quiet() });
    let batch = RecordBatchBuilder::new().push(Some(b"k"), None, 1).build();
    bench.partition.append(batch, AppendOptions::default()).unwrap().wait().unwrap();
    assert!(matches!(bench.partition.delete_records(1), Err(DeleteRecordsError::Policy)));
    assert_eq!(bench.retain(), 0);
}

#[test]
fn times_of_deleted_records_are_not_found() {
    let bench = Bench::new(quiet());
    let push = |builder: RecordBatchBuilder, at: &i64| builder.push(None, None, *at);
    let batch = [900, 500, 700].iter().fold(RecordBatchBuilder::new(), push).build();
    bench.partition.append(batch, AppendOptions::default()).unwrap().wait().unwrap();
    bench.append_at(600);
    bench.partition.delete_records(1).unwrap();
    let offset = |at| bench.partition.offset_for_timestamp(at).unwrap().map(|hit| hit.offset);
    assert_eq!(offset(600), Some(2));
    assert_eq!(offset(800), None);
    let hit = bench.partition.max_timestamp().unwrap().unwrap();
    assert_eq!((hit.offset, hit.timestamp), (2, 700));
}

#[test]
fn epochs_below_the_log_start_end_at_it() {
    let bench = Bench::new(quiet());
    bench.append();
    // A failed sync begins a new epoch.
    bench
        .volume
        .plan(|op| (op.kind == OpKind::Sync && op.path.ends_with(".log")).then_some(Fault::Errno(EIO)));
    let batch = RecordBatchBuilder::new().push(None, None, 1).build();
    assert!(bench.partition.append(batch, AppendOptions::default()).unwrap().wait().is_err());
    bench.volume.no_plan();
    drop(bench.engine.hold_commits());
    bench.append();
    bench.append();
    assert_eq!(bench.partition.end_offset_for_epoch(1), (1, 1));
    bench.partition.delete_records(2).unwrap();
    assert_eq!(bench.partition.end_offset_for_epoch(1), (1, 2));
    let bench = bench.reopened();
    assert_eq!(bench.partition.end_offset_for_epoch(1), (1, 2));
    assert_eq!(bench.partition.end_offset_for_epoch(2), (2, 3));
}

#[test]
fn a_pass_over_what_has_not_changed_touches_no_file() {
    let bench = Bench::new(LogConfig {
        segment_bytes: 200,
        retention_ms: 1 << 40,
        retention_bytes: 1 << 40,
        ..quiet()
    });
    bench.append();
    bench.append();
    let bench = bench.reopened();
    bench.retain();
    let counts = || [OpKind::Open, OpKind::Read, OpKind::List].map(|kind| bench.volume.count(kind));
    let before = counts();
    bench.retain();
    assert_eq!(counts(), before);
}

#[test]
fn the_engine_makes_passes_by_itself() {
    let (volume, clock) = (MemVolume::new(), Arc::new(ManualClock::at(1_000_000)));
    let config = LogConfig { retention_ms: 10, ..quiet() };
    let shown: Arc<ManualClock> = Arc::clone(&clock);
    let options = EngineOptions::on(Arc::new(volume.clone())).clock(shown).resolve(move |_| config.clone());
    let engine =
        Engine::open(options.retention_check_interval(Some(std::time::Duration::from_millis(1)))).unwrap();
    let topic = engine.create_topic(TopicSpec::new("t", 1)).unwrap();
    let batch = RecordBatchBuilder::new().push(None, None, 1_000_000).build();
    topic.partitions[0].append(batch, AppendOptions::default()).unwrap().wait().unwrap();
    let (told, heard) = std::sync::mpsc::channel();
    volume.watch(move |op| {
        if op.kind == OpKind::Rename && op.path.ends_with(".log") {
            let _ = told.send(());
        }
    });
    clock.advance(11);
    heard.recv().unwrap();
    engine.close().unwrap();
    assert_eq!(topic.partitions[0].offsets().log_start, 1);
}
