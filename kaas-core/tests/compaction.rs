//! Compaction against a naive computation, under crashes, and beside everything else that happens to a log.
#![allow(clippy::unwrap_used)]

#[path = "support/histories.rs"]
mod histories;
#[path = "support/sound.rs"]
mod sound;

use std::collections::BTreeMap;
use std::sync::Arc;

use histories::histories;
use kaas_core::record::read_batch;
use kaas_core::volume::{CrashKeep, Fault, MemVolume, OpKind, Volume};
use kaas_core::{
    AppendError, AppendOptions, Appended, Clock, CompactionOptions, Engine, EngineOptions, Isolation,
    LogConfig, ManualClock, Mutant, Partition, Read, ReadSpec, RecordBatchBuilder, TopicSpec,
};
use proptest::prelude::*;

const DELETE_RETENTION_MS: i64 = 50;
const EIO: i32 = 5;

/// A record as a consumer sees it.
type Seen = (i64, Vec<u8>, Option<Vec<u8>>, i64);

fn config() -> LogConfig {
    LogConfig {
        segment_bytes: 450,
        index_interval_bytes: 90,
        compact: true,
        retention_ms: -1,
        segment_ms: i64::MAX,
        min_cleanable_dirty_ratio: 0.0,
        delete_retention_ms: DELETE_RETENTION_MS,
        file_delete_delay_ms: 0,
        ..LogConfig::default()
    }
}

fn options(
    volume: &MemVolume,
    clock: &Arc<ManualClock>,
    config: &LogConfig,
    dedupe_bytes_max: usize,
) -> EngineOptions {
    let (clock, config): (Arc<ManualClock>, LogConfig) = (Arc::clone(clock), config.clone());
    EngineOptions::on(Arc::new(volume.clone()))
        .clock(clock)
        .resolve(move |_| config.clone())
        .retention_check_interval(None)
        .compaction(CompactionOptions { backoff: None, dedupe_bytes_max, ..CompactionOptions::default() })
        .checkpoint_bytes(300)
        .sync_parallelism(0)
}

struct Bench {
    volume: MemVolume,
    clock: Arc<ManualClock>,
    config: LogConfig,
    dedupe_bytes_max: usize,
    mutant: Option<Mutant>,
    engine: Engine,
    partition: Arc<Partition>,
}

impl Bench {
    fn new(config: LogConfig) -> Self {
        Self::with(config, 1 << 20)
    }

    fn with(config: LogConfig, dedupe_bytes_max: usize) -> Self {
        let (volume, clock) = (MemVolume::new(), Arc::new(ManualClock::at(1000)));
        let engine = Engine::open(options(&volume, &clock, &config, dedupe_bytes_max)).unwrap();
        let topic = engine.create_topic(TopicSpec::new("t", 1)).unwrap();
        let partition = Arc::clone(&topic.partitions[0]);
        Self { volume, clock, config, dedupe_bytes_max, mutant: None, engine, partition }
    }

    fn on(self, volume: MemVolume) -> Self {
        drop(self.engine);
        assert_eq!(sound::damage(&volume).filter(|_| self.mutant.is_none()), None);
        let mut options = options(&volume, &self.clock, &self.config, self.dedupe_bytes_max);
        if let Some(mutant) = self.mutant {
            options = options.mutant(mutant);
        }
        let engine = Engine::open(options).unwrap();
        let partition = Arc::clone(&engine.topics().by_name("t").unwrap().partitions[0]);
        assert_eq!(partition.offline(), None);
        Self { volume, engine, partition, ..self }
    }

    fn reopened(self) -> Self {
        let volume = self.volume.after_crash(CrashKeep::Nothing);
        self.on(volume)
    }

    fn append(&self, records: &[(u8, Option<u8>)]) -> Result<i64, AppendError> {
        let now = self.clock.now_ms();
        let push = |builder: RecordBatchBuilder, (key, value): &(u8, Option<u8>)| {
            let value = value.map(|value| [value; 20]);
            builder.push(Some(&[*key]), value.as_ref().map(|value| &value[..]), now)
        };
        let batch = records.iter().fold(RecordBatchBuilder::new(), push).build();
        Ok(self.partition.append(batch, AppendOptions::default())?.wait()?.base_offset)
    }

    fn put(&self, key: u8, value: u8) -> i64 {
        self.append(&[(key, Some(value))]).unwrap()
    }

    fn read(&self) -> Vec<Seen> {
        read_from(&self.partition, self.partition.offsets().log_start).unwrap()
    }

    /// Keys and values, in order.
    fn pairs(&self) -> Vec<(u8, Option<u8>)> {
        self.read().into_iter().map(|(_, key, value, _)| (key[0], value.map(|value| value[0]))).collect()
    }

    fn files(&self, end: &str) -> Vec<String> {
        self.volume.files().into_iter().filter(|path| path.ends_with(end)).collect()
    }

    /// Where the segment that is appended to begins.
    fn active_base(&self) -> i64 {
        let base = |path: String| {
            let stem = path.rsplit('/').next().unwrap().trim_end_matches(".log").to_owned();
            let mut parts = stem.split('-');
            let (_, base, rest) = (parts.next(), parts.next().unwrap().parse().unwrap(), parts.next());
            rest.is_none().then_some(base)
        };
        self.files(".log").into_iter().filter_map(base).max().unwrap_or(0)
    }
}

/// All records from an offset on, following reads as a consumer does: gaps are stepped over.
fn read_from(partition: &Partition, mut offset: i64) -> Result<Vec<Seen>, String> {
    let mut seen = Vec::new();
    loop {
        let isolation = Isolation::ReadUncommitted;
        let spec = ReadSpec { offset, bytes_max: 200, at_least_one_batch: true, isolation, blocking: true };
        let read = partition.read(spec).map_err(|error| error.to_string())?;
        let Read::Data(data) = read else { return Err("a blocking read would block".to_owned()) };
        let bytes = data.slice.to_bytes().map_err(|error| error.to_string())?;
        if bytes.is_empty() {
            // Whether there is a gap at the end or not: the consumer stays where it is.
            return if offset <= data.high_watermark {
                Ok(seen)
            } else {
                Err(format!("past the end at {offset}"))
            };
        }
        let mut rest = &bytes[..];
        while let Some(batch) = read_batch(rest).map_err(|error| error.to_string())? {
            if batch.header.last_offset() < offset {
                return Err(format!("{:?} at offset {offset}", batch.header));
            }
            let records = batch.records.into_iter().filter(|record| record.offset >= offset);
            seen.extend(records.map(|r| (r.offset, r.key.unwrap(), r.value, r.timestamp)));
            offset = batch.header.next_offset();
            rest = &rest[batch.header.size..];
        }
    }
}

#[derive(Debug, Clone)]
enum Step {
    /// Batches of records: key, and value or tombstone.
    Append(Vec<Vec<(u8, Option<u8>)>>),
    Compact(i64),
    DeleteRecords(i64),
    Retain,
    Close,
    Crash(u64),
    ReadFrom(i64),
    FindTimestamp(i64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let record = (0..6u8, prop_oneof![4 => any::<u8>().prop_map(Some), 1 => Just(None)]);
    let batch = prop::collection::vec(record, 1..4);
    let step = prop_oneof![
        8 => prop::collection::vec(batch, 1..4).prop_map(Step::Append),
        5 => (0..40i64).prop_map(Step::Compact),
        1 => (0..60i64).prop_map(Step::DeleteRecords),
        1 => Just(Step::Retain),
        1 => Just(Step::Close),
        2 => any::<u64>().prop_map(Step::Crash),
        3 => (0..80i64).prop_map(Step::ReadFrom),
        2 => (990..1200i64).prop_map(Step::FindTimestamp),
    ];
    prop::collection::vec(step, 1..40)
}

/// A batch as it should be: its records, and when its tombstones may go.
struct Batch {
    base: i64,
    records: Vec<Seen>,
    horizon: Option<i64>,
}

#[derive(Default)]
struct Model {
    batches: Vec<Batch>,
    end: i64,
    start: i64,
    clean: i64,
}

impl Model {
    /// The naive computation: below `end` only the last record of each key stays, and tombstones for their time.
    fn compact(&mut self, end: i64, now: i64) {
        if end <= self.clean.max(self.start) {
            return;
        }
        self.clean = end;
        let mut last = BTreeMap::new();
        for (offset, key, ..) in self.batches.iter().flat_map(|batch| &batch.records).filter(|r| r.0 < end) {
            last.insert(key.clone(), *offset);
        }
        for batch in self.batches.iter_mut().filter(|batch| batch.base < end) {
            let is_past = batch.horizon.is_some_and(|horizon| horizon <= now);
            batch
                .records
                .retain(|(offset, key, value, _)| last[key] == *offset && !(is_past && value.is_none()));
            if batch.horizon.is_none() && batch.records.iter().any(|(_, _, value, _)| value.is_none()) {
                batch.horizon = Some(now + DELETE_RETENTION_MS);
            }
        }
    }

    fn records(&self, from: i64) -> Vec<Seen> {
        let all = self.batches.iter().flat_map(|batch| batch.records.iter().cloned());
        all.filter(|record| record.0 >= from.max(self.start)).collect()
    }
}

fn step(bench: Bench, step: &Step, model: &mut Model) -> Bench {
    match step {
        Step::Append(batches) => {
            for records in batches {
                bench.clock.advance(1);
                let now = bench.clock.now_ms();
                let base = bench.append(records).unwrap();
                assert_eq!(base, model.end);
                let record = |(n, (key, value)): (usize, &(u8, Option<u8>))| {
                    (base + n as i64, vec![*key], value.map(|value| vec![value; 20]), now)
                };
                let seen = records.iter().enumerate().map(record).collect();
                model.batches.push(Batch { base, records: seen, horizon: None });
                model.end += records.len() as i64;
            }
        }
        Step::Compact(later) => {
            bench.clock.advance(*later);
            bench.engine.compact();
            model.compact(bench.active_base(), bench.clock.now_ms());
            bench.engine.apply_retention();
            assert_eq!(bench.files(".deleted"), [""; 0]);
        }
        Step::DeleteRecords(before) => {
            if bench.partition.delete_records(*before).is_ok() {
                model.start = model.start.max(*before);
            }
        }
        Step::Retain => bench.engine.apply_retention(),
        Step::Close => {
            bench.engine.close().unwrap();
            let volume = bench.volume.clone();
            return bench.on(volume);
        }
        Step::Crash(seed) => {
            drop(bench.engine.hold_commits());
            let keep = if seed % 2 == 0 { CrashKeep::Nothing } else { CrashKeep::Torn(*seed) };
            let volume = bench.volume.after_crash(keep);
            return bench.on(volume);
        }
        Step::ReadFrom(offset) if (model.start..=model.end).contains(offset) => {
            assert_eq!(read_from(&bench.partition, *offset).unwrap(), model.records(*offset));
        }
        Step::ReadFrom(_) => {}
        Step::FindTimestamp(at) => {
            let expected = model.records(0).into_iter().find(|record| record.3 >= *at).map(|r| (r.0, r.3));
            let hit = bench.partition.offset_for_timestamp(*at).unwrap();
            assert_eq!(hit.map(|hit| (hit.offset, hit.timestamp)), expected);
            let greatest = model.records(0).into_iter().map(|r| r.3).max();
            assert_eq!(bench.partition.max_timestamp().unwrap().map(|hit| hit.timestamp), greatest);
        }
    }
    bench
}

proptest! {
    #![proptest_config(histories(80))]

    #[test]
    fn a_compacted_log_is_what_a_naive_computation_leaves(steps in steps()) {
        let mut model = Model::default();
        let mut bench = Bench::new(config());
        for one in &steps {
            bench = step(bench, one, &mut model);
            prop_assert_eq!(bench.read(), model.records(0), "after {:?}", one);
            let offsets = bench.partition.offsets();
            prop_assert_eq!((offsets.log_start, offsets.log_end), (model.start, model.end));
        }
    }
}

#[test]
fn a_small_buffer_takes_several_passes_and_ends_at_the_same() {
    let fill = |dedupe_bytes_max: usize| {
        let bench = Bench::with(config(), dedupe_bytes_max);
        for n in 0..120u8 {
            bench.put(n % 40, n);
        }
        bench.engine.compact();
        bench.reopened().read()
    };
    let whole = fill(1 << 20);
    assert!(whole.len() < 50, "{}", whole.len());
    assert_eq!(fill(16 * 8), whole);
}

#[test]
fn a_batch_that_the_buffer_cannot_hold_stops_nothing_else() {
    let bench = Bench::with(config(), 16 * 3);
    let many: Vec<(u8, Option<u8>)> = (0..8).map(|key| (key, Some(1))).collect();
    for _ in 0..4 {
        bench.append(&many).unwrap();
    }
    let before = bench.read();
    bench.engine.compact();
    assert_eq!(bench.read(), before);
    assert_eq!(bench.files(".cleaning"), [""; 0]);
}

/// A batch of an idempotent producer, all with one key.
fn send(bench: &Bench, sequence: i32, bytes: usize) -> Appended {
    let (batch, value) = (RecordBatchBuilder::new(), vec![1; bytes]);
    let batch = batch.producer(9, 0, sequence).push(Some(b"k"), Some(&value), 1000).build();
    bench.partition.append(batch, AppendOptions::default()).unwrap().wait().unwrap()
}

#[test]
fn what_alone_tells_of_a_producers_last_batches_is_not_thinned() {
    // So few bytes that there is no checkpoint, and enough for some of which one is as of an offset that compaction takes.
    for (count, bytes) in [(3, 1), (4, 100)] {
        let bench = Bench::new(LogConfig { segment_bytes: 1 << 20, ..config() });
        (0..count).for_each(|sequence| _ = send(&bench, sequence, bytes));
        // A sync that fails closes the segment, and leaves no snapshot of its producers.
        let mut failed = false;
        bench.volume.plan(move |op| {
            let sync = op.kind == OpKind::Sync && op.path.ends_with(".log");
            (sync && !std::mem::replace(&mut failed, true)).then_some(Fault::Errno(EIO))
        });
        bench.append(&[(1, Some(1))]).unwrap_err();
        bench.volume.no_plan();
        drop(bench.engine.hold_commits());
        bench.put(1, 1);
        bench.engine.compact();
        let bench = bench.reopened();
        assert!(send(&bench, 1, bytes).duplicate, "one of its last batches");
    }
}

#[test]
fn sequences_go_on_after_their_records_are_gone() {
    let bench = Bench::new(config());
    send(&bench, 0, 100);
    send(&bench, 1, 100);
    for n in 0..8 {
        bench.put(b'k', n);
    }
    bench.engine.compact();
    assert!(bench.pairs().len() < 5);
    // Without the snapshots the producers are what the log says of them.
    let volume = bench.volume.after_crash(CrashKeep::Nothing);
    for path in
        volume.files().iter().filter(|path| path.ends_with(".producers") || path.ends_with(".checkpoint"))
    {
        volume.tamper(path, |bytes| bytes.clear()).unwrap();
    }
    let bench = bench.on(volume);
    assert!(send(&bench, 1, 100).duplicate, "the last sequence is known");
    assert!(!send(&bench, 2, 100).duplicate);
    let gap = RecordBatchBuilder::new().producer(9, 0, 7).push(Some(b"k"), None, 1000).build();
    assert!(matches!(
        bench.partition.append(gap, AppendOptions::default()),
        Err(AppendError::OutOfOrderSequence(_))
    ));
}

#[test]
fn a_log_is_compacted_when_it_is_dirty_enough_and_old_enough() {
    let config = LogConfig { min_cleanable_dirty_ratio: 0.6, min_compaction_lag_ms: 100, ..config() };
    let bench = Bench::new(config);
    for n in 0..12 {
        bench.put(n % 2, n);
    }
    bench.engine.compact();
    assert_eq!(bench.pairs().len(), 12, "too young");
    bench.clock.advance(101);
    bench.engine.compact();
    let compacted = bench.pairs().len();
    assert!(compacted < 8, "{compacted}");
    bench.engine.compact();
    assert_eq!(bench.pairs().len(), compacted);
    let names = bench.files(".clean");
    assert_eq!(names.len(), 1, "{names:?}");
}

#[test]
fn a_lag_that_is_over_counts_more_than_the_ratio() {
    let config = LogConfig { min_cleanable_dirty_ratio: 1.0, max_compaction_lag_ms: 100, ..config() };
    let bench = Bench::new(config);
    for n in 0..12 {
        bench.put(0, n);
    }
    bench.engine.compact();
    assert_eq!(bench.pairs().len(), 12);
    bench.clock.advance(101);
    bench.engine.apply_retention();
    bench.engine.compact();
    assert_eq!(bench.pairs(), [(0, Some(11))], "the active segment was closed in time too");
    let bench = bench.reopened();
    assert_eq!(bench.put(0, 12), 12);
    assert_eq!(bench.reopened().pairs(), [(0, Some(11)), (0, Some(12))]);
}

#[test]
fn readers_of_the_old_segments_go_on() {
    let bench = Bench::new(config());
    for n in 0..12 {
        bench.put(n % 3, n);
    }
    let isolation = Isolation::ReadUncommitted;
    let spec =
        ReadSpec { offset: 0, bytes_max: 1 << 20, at_least_one_batch: true, isolation, blocking: true };
    let Read::Data(held) = bench.partition.read(spec).unwrap() else { panic!("a blocking read waits") };
    bench.engine.compact();
    bench.engine.apply_retention();
    assert_eq!(held.slice.to_bytes().unwrap().len(), held.slice.len());
    for offset in 0..=12 {
        let seen = read_from(&bench.partition, offset).unwrap();
        let all = bench.read();
        assert_eq!(seen, all.into_iter().filter(|record| record.0 >= offset).collect::<Vec<_>>());
    }
}

#[test]
fn damage_is_reported_and_nothing_is_dropped_for_it() {
    let bench = Bench::new(config());
    for n in 0..12 {
        bench.put(n % 3, n);
    }
    let log = bench.files(".log")[0].clone();
    bench.volume.tamper(&log, |bytes| bytes[70] ^= 1).unwrap();
    let before = bench.volume.files();
    bench.engine.compact();
    assert_eq!(bench.volume.files(), before);
    bench.volume.tamper(&log, |bytes| bytes[70] ^= 1).unwrap();
    assert_eq!(bench.pairs().len(), 12);
}

#[test]
fn a_compacted_segment_that_does_not_reach_the_next_is_not_served_as_if_nothing_were_missing() {
    let bench = Bench::new(config());
    for n in 0..12 {
        bench.put(n % 3, n);
    }
    bench.engine.compact();
    bench.engine.close().unwrap();
    let whole = bench.files(".log")[0].clone();
    let short = whole.replace("-00000000000000000005-", "-00000000000000000004-");
    assert_ne!(whole, short, "the first compacted segment ends at 5");
    bench.volume.rename(&whole, &short).unwrap();
    let engine = Engine::open(options(&bench.volume, &bench.clock, &config(), 1 << 20)).unwrap();
    let offline = engine.topics().iter().next().unwrap().partitions[0].offline().unwrap();
    assert!(offline.why.contains("the next begins at 5"), "{offline}");
    assert!(bench.volume.files().contains(&short), "nothing is removed for it");
}

#[test]
fn an_offset_that_has_rotted_takes_nothing_with_it() {
    // No checksum covers the base offset: these make it larger than the log, or its neighbours' by one.
    for (batch_byte, bit) in [(2, 1), (5, 0x10), (7, 1)] {
        let bench = Bench::new(config());
        for n in 0..12 {
            bench.put(n % 3, n);
        }
        let log = bench.files(".log")[0].clone();
        bench.volume.tamper(&log, |bytes| bytes[batch_byte] ^= bit).unwrap();
        let before = bench.files(".log");
        bench.engine.compact();
        bench.put(7, 7);
        assert_eq!(bench.files(".log"), before, "byte {batch_byte}");
        bench.volume.tamper(&log, |bytes| bytes[batch_byte] ^= bit).unwrap();
        assert_eq!(bench.reopened().pairs().len(), 13);
    }
}

#[test]
fn a_failure_at_any_operation_leaves_the_log_as_it_was_and_the_next_pass_succeeds() {
    let mut fail_at = 0;
    loop {
        let bench = Bench::new(config());
        for n in 0..14 {
            bench.put(n % 3, n);
        }
        let last: BTreeMap<u8, Option<u8>> = bench.pairs().into_iter().collect();
        let mut left = fail_at;
        let (told, heard) = std::sync::mpsc::channel();
        bench.volume.plan(move |op| {
            let changes = !matches!(op.kind, OpKind::List);
            left -= i32::from(changes);
            let hit = changes && left == -1;
            if hit {
                let _ = told.send(());
            }
            hit.then_some(Fault::Errno(EIO))
        });
        bench.engine.compact();
        bench.volume.no_plan();
        let failed = heard.try_recv().is_ok();
        assert_eq!(bench.pairs().into_iter().collect::<BTreeMap<_, _>>(), last, "fault {fail_at}");
        let bench = bench.reopened();
        bench.engine.compact();
        bench.put(0, 99);
        let mut now = last.clone();
        now.insert(0, Some(99));
        assert_eq!(bench.pairs().into_iter().collect::<BTreeMap<_, _>>(), now, "fault {fail_at}");
        assert_eq!(bench.reopened().pairs().into_iter().collect::<BTreeMap<_, _>>(), now, "fault {fail_at}");
        if !failed {
            break;
        }
        fail_at += 1;
    }
    assert!(fail_at > 30, "{fail_at}");
}

/// Appends, compacts, appends, compacts what was compacted, and closes; what was acknowledged, by offset.
fn workload(bench: &mut Option<Bench>, acked: &mut Vec<(i64, u8, u8)>) -> Result<(), ()> {
    let put = |bench: &Option<Bench>, acked: &mut Vec<(i64, u8, u8)>, n: u8| {
        let offset = bench.as_ref().unwrap().append(&[(n % 3, Some(n))]).map_err(|_| ())?;
        acked.push((offset, n % 3, n));
        Ok(())
    };
    for n in 0..12 {
        put(bench, acked, n)?;
    }
    bench.as_ref().unwrap().engine.compact();
    for n in 12..26 {
        put(bench, acked, n)?;
    }
    bench.as_ref().unwrap().engine.compact();
    bench.as_ref().unwrap().engine.apply_retention();
    put(bench, acked, 26)?;
    bench.as_ref().unwrap().engine.close().map_err(|_| ())
}

/// Each key has its last acknowledged record or a later one, and every record is one that was sent, at its offset.
fn check(seen: &[Seen], acked: &[(i64, u8, u8)]) -> Result<(), String> {
    for (offset, key, value, _) in seen {
        let sent = acked.iter().find(|(at, ..)| at == offset);
        let value = value.as_ref().map(|value| value[0]);
        let unacked = *offset >= acked.len() as i64;
        if !unacked && sent.map(|(_, key, value)| (*key, Some(*value))) != Some((key[0], value)) {
            return Err(format!("{key:?}={value:?} at {offset}, sent was {sent:?}"));
        }
    }
    for (offset, key, value) in acked {
        let later = acked.iter().any(|(at, other, _)| other == key && at > offset);
        if !later && !seen.iter().any(|(at, found, ..)| found[0] == *key && at >= offset) {
            return Err(format!("{key}={value} at {offset} is lost"));
        }
    }
    match seen.windows(2).find(|pair| pair[0].0 >= pair[1].0) {
        Some(pair) => Err(format!("{pair:?} out of order")),
        None => Ok(()),
    }
}

fn crash_at(cut: u64, mutant: Option<Mutant>) -> Result<bool, String> {
    let mut bench = Bench::new(config());
    bench.mutant = mutant;
    let volume = bench.volume.clone();
    let mut bench = Some(bench.on(volume.clone()));
    volume.crash_at(volume.ops() + cut);
    let mut acked = Vec::new();
    let cut_short = workload(&mut bench, &mut acked).is_err() || volume.has_crashed();
    let changes = volume.unsynced_changes();
    let mut keeps = vec![CrashKeep::Nothing, CrashKeep::Everything, CrashKeep::Torn(1), CrashKeep::Torn(2)];
    let masks = if changes <= 6 { 1 << changes } else { 24 };
    keeps.extend(
        (1..masks).map(|n: u64| {
            CrashKeep::Mask(if changes <= 6 { n } else { n.wrapping_mul(0x9e37_79b9_7f4a_7c15) })
        }),
    );
    for keep in keeps {
        let context = |why: String| format!("cut at {cut}, kept {keep:?}: {why}");
        let after = bench.take().unwrap().on(volume.after_crash(keep));
        check(&after.read(), &acked).map_err(context)?;
        after.engine.compact();
        after.engine.apply_retention();
        check(&after.read(), &acked).map_err(context)?;
        let again = after.reopened();
        check(&again.read(), &acked).map_err(context)?;
        bench = Some(again);
    }
    Ok(cut_short)
}

fn crash_everywhere(mutant: Option<Mutant>) -> Result<u64, String> {
    let mut cut = 0;
    while crash_at(cut, mutant)? {
        cut += 1;
    }
    Ok(cut)
}

#[test]
fn a_power_cut_at_any_operation_loses_no_last_record() {
    let cuts = crash_everywhere(None).unwrap();
    assert!(cuts > 100, "{cuts}");
}

#[test]
fn a_swap_that_is_not_durable_is_noticed() {
    match std::panic::catch_unwind(|| crash_everywhere(Some(Mutant::SwapNotDurable))) {
        Ok(Ok(cuts)) => panic!("survived {cuts} power cuts"),
        Ok(Err(why)) => println!("{why}"),
        // A log with a hole may be offline.
        Err(_) => {}
    }
}
