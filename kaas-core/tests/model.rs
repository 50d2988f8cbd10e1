//! Random histories against a log that is a plain vector.
#![allow(clippy::unwrap_used)]

#[path = "support/histories.rs"]
mod histories;
#[path = "support/sound.rs"]
mod sound;

use std::sync::Arc;

use bytes::Bytes;
use histories::histories;
use kaas_core::record::BatchHeader;
use kaas_core::volume::{CrashKeep, MemVolume};
use kaas_core::{
    AppendOptions, Clock, DeleteRecordsError, Engine, EngineOptions, Isolation, LogConfig, ManualClock,
    Partition, PendingAppend, Read, ReadError, ReadSpec, RecordBatchBuilder, TimestampHit, TopicSpec,
};
use proptest::prelude::*;

#[derive(Debug, Clone)]
enum Step {
    /// Appends batches that are committed together: per batch, the timestamps of its records.
    Append(Vec<Vec<i64>>),
    Read {
        offset: i64,
        bytes_max: usize,
        at_least_one_batch: bool,
        blocking: bool,
    },
    FindTimestamp(i64),
    FindMaxTimestamp,
    /// Drops the engine and opens the volume again.
    Kill,
    Close,
    /// Cuts the power between two commits.
    Crash(u64),
    Recreate,
    DeleteRecords(i64),
    /// Moves the clock and lets retention work.
    Retain(i64),
}

/// The settings that remove records by age.
const RETENTION_MS: i64 = 100;
/// Segments are closed by age too.
const SEGMENT_MS: i64 = 80;

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let timestamps = prop::collection::vec(-1..200i64, 1..6);
    let step = prop_oneof![
        8 => prop::collection::vec(timestamps, 1..5).prop_map(Step::Append),
        8 => (-2..120i64, 0..700usize, any::<bool>(), any::<bool>()).prop_map(
            |(offset, bytes_max, at_least_one_batch, blocking)| {
                Step::Read { offset, bytes_max, at_least_one_batch, blocking }
            }
        ),
        4 => (-1..210i64).prop_map(Step::FindTimestamp),
        1 => Just(Step::FindMaxTimestamp),
        2 => Just(Step::Kill),
        2 => Just(Step::Close),
        2 => any::<u64>().prop_map(Step::Crash),
        1 => Just(Step::Recreate),
        2 => (-1..60i64).prop_map(Step::DeleteRecords),
        2 => (0..60i64).prop_map(Step::Retain),
    ];
    prop::collection::vec(step, 1..40)
}

/// The log as it should be: whole batches, and the timestamps of their records.
#[derive(Default)]
struct Model {
    batches: Vec<(Bytes, Vec<i64>)>,
    start: i64,
}

impl Model {
    fn end(&self) -> i64 {
        self.batches.iter().map(|(_, timestamps)| timestamps.len() as i64).sum()
    }

    /// All records from the log start on: offset and timestamp.
    fn records(&self) -> impl Iterator<Item = (i64, i64)> {
        let all = (0..).zip(self.batches.iter().flat_map(|(_, timestamps)| timestamps.iter().copied()));
        all.skip(self.start as usize)
    }

    /// The stored bytes from the batch that contains `offset` on.
    fn bytes_from(&self, offset: i64) -> (Vec<u8>, usize) {
        let mut next = 0;
        let mut bytes = Vec::new();
        let mut first = 0;
        for (batch, timestamps) in &self.batches {
            let base = next;
            next += timestamps.len() as i64;
            if next <= offset {
                continue;
            }
            if bytes.is_empty() {
                first = batch.len();
            }
            bytes.extend_from_slice(&base.to_be_bytes());
            bytes.extend_from_slice(&batch[8..12]);
            bytes.extend_from_slice(&1i32.to_be_bytes());
            bytes.extend_from_slice(&batch[16..]);
        }
        (bytes, first)
    }
}

struct Subject {
    volume: MemVolume,
    clock: Arc<ManualClock>,
    engine: Engine,
    partition: Arc<Partition>,
}

fn options(volume: &MemVolume, clock: &Arc<ManualClock>) -> EngineOptions {
    let config = LogConfig {
        segment_bytes: 500,
        index_interval_bytes: 90,
        index_bytes_max: 40,
        retention_ms: RETENTION_MS,
        segment_ms: SEGMENT_MS,
        file_delete_delay_ms: 20,
        ..LogConfig::default()
    };
    let clock: Arc<ManualClock> = Arc::clone(clock);
    EngineOptions::on(Arc::new(volume.clone()))
        .clock(clock)
        .resolve(move |_| config.clone())
        .retention_check_interval(None)
        .checkpoint_bytes(300)
}

impl Subject {
    fn new() -> Self {
        let volume = MemVolume::new();
        let clock = Arc::new(ManualClock::at(0));
        let engine = Engine::open(options(&volume, &clock)).unwrap();
        let topic = engine.create_topic(TopicSpec::new("t", 1)).unwrap();
        Self { volume, clock, engine, partition: Arc::clone(&topic.partitions[0]) }
    }

    fn reopen(self, volume: MemVolume) -> Self {
        drop(self.engine);
        assert_eq!(sound::damage(&volume), None);
        let engine = Engine::open(options(&volume, &self.clock)).unwrap();
        let partition = Arc::clone(&engine.topics().by_name("t").unwrap().partitions[0]);
        Self { volume, engine, partition, clock: self.clock }
    }

    fn step(self, step: &Step, model: &mut Model) -> Self {
        match step {
            Step::Append(batches) => self.append(batches, model),
            Step::Read { offset, bytes_max, at_least_one_batch, blocking } => {
                let isolation = Isolation::ReadUncommitted;
                let (offset, bytes_max) = (*offset, *bytes_max);
                let (at_least_one_batch, blocking) = (*at_least_one_batch, *blocking);
                self.read(ReadSpec { offset, bytes_max, at_least_one_batch, isolation, blocking }, model);
            }
            Step::FindTimestamp(wanted) => {
                let expected = model.records().find(|(_, timestamp)| timestamp >= wanted);
                self.expect_hit(self.partition.offset_for_timestamp(*wanted).unwrap(), expected);
            }
            Step::FindMaxTimestamp => {
                let greatest = model.records().map(|(_, timestamp)| timestamp).max();
                let expected = model.records().find(|(_, timestamp)| greatest == Some(*timestamp));
                let expected = expected.filter(|(_, timestamp)| *timestamp >= 0);
                self.expect_hit(self.partition.max_timestamp().unwrap(), expected);
            }
            Step::Kill => {
                let volume = self.volume.clone();
                return self.reopen(volume);
            }
            Step::Close => {
                self.engine.close().unwrap();
                let volume = self.volume.clone();
                return self.reopen(volume);
            }
            Step::Crash(seed) => {
                drop(self.engine.hold_commits());
                let keep = if seed % 2 == 0 { CrashKeep::Nothing } else { CrashKeep::Torn(*seed) };
                let volume = self.volume.after_crash(keep);
                return self.reopen(volume);
            }
            Step::Recreate => {
                self.engine.delete_topic(&self.engine.topics().by_name("t").unwrap()).unwrap();
                let topic = self.engine.create_topic(TopicSpec::new("t", 1)).unwrap();
                *model = Model::default();
                return Self { partition: Arc::clone(&topic.partitions[0]), ..self };
            }
            Step::DeleteRecords(before) => self.delete_records(*before, model),
            Step::Retain(later) => self.retain(*later, model),
        }
        self
    }

    fn append(&self, batches: &[Vec<i64>], model: &mut Model) {
        let held = self.engine.hold_commits();
        let mut pending: Vec<PendingAppend> = Vec::new();
        for timestamps in batches {
            let push = |builder: RecordBatchBuilder, at: &i64| builder.push(None, Some(b"value"), *at);
            let batch = timestamps.iter().fold(RecordBatchBuilder::new(), push).build();
            pending.push(self.partition.append(batch.clone(), AppendOptions::default()).unwrap());
            model.batches.push((batch, timestamps.clone()));
        }
        drop(held);
        let total: i64 = batches.iter().map(|timestamps| timestamps.len() as i64).sum();
        let mut expected = model.end() - total;
        for (timestamps, pending) in batches.iter().zip(pending) {
            let appended = pending.wait().unwrap();
            assert_eq!(appended.base_offset, expected);
            expected += timestamps.len() as i64;
            assert_eq!(appended.last_offset, expected - 1);
        }
    }

    fn delete_records(&self, before: i64, model: &mut Model) {
        let asked = if before == -1 { model.end() } else { before };
        match self.partition.delete_records(before) {
            Ok(start) => {
                assert!(asked <= model.end());
                model.start = model.start.max(asked);
                assert_eq!(start, model.start);
            }
            Err(DeleteRecordsError::OffsetOutOfRange(_)) => assert!(asked > model.end()),
            Err(error) => panic!("{error}"),
        }
    }

    /// Whatever was removed was old enough, and where everything is, everything goes.
    fn retain(&self, later: i64, model: &mut Model) {
        self.clock.advance(later);
        let now = self.clock.now_ms();
        let old = |(_, timestamp): (i64, i64)| timestamp >= 0 && now - timestamp > RETENTION_MS;
        let all_old = model.records().all(old);
        self.engine.apply_retention();
        let start = self.partition.offsets().log_start;
        assert!(start >= model.start && start <= model.end());
        // A record without a time is as old as the others of its segment.
        let removed = model.records().take((start - model.start) as usize);
        assert!(removed.filter(|(_, timestamp)| *timestamp >= 0).all(old), "{start} at {now}");
        if all_old {
            assert_eq!(start, model.end());
        }
        model.start = start;
    }

    fn read(&self, spec: ReadSpec, model: &Model) {
        let end = model.end();
        let data = match self.partition.read(spec) {
            Ok(Read::Data(data)) => data,
            Ok(Read::WouldBlock) => {
                assert!(!spec.blocking, "a blocking read waits");
                return;
            }
            Err(ReadError::OffsetOutOfRange(error)) => {
                assert!(spec.offset < model.start || spec.offset > end, "{error}");
                return;
            }
            Err(error) => panic!("{error}"),
        };
        assert!((model.start..=end).contains(&spec.offset));
        assert_eq!((data.log_start, data.high_watermark, data.last_stable), (model.start, end, end));
        let (stored, first) = model.bytes_from(spec.offset);
        let read = data.slice.to_bytes().unwrap();
        assert!(stored.starts_with(&read), "{spec:?}");
        let limit = match spec.at_least_one_batch {
            true => spec.bytes_max.max(first),
            false if spec.bytes_max < first => 0,
            false => spec.bytes_max,
        };
        assert!(read.len() <= limit, "{spec:?}: {} bytes", read.len());
        // Less than the limit only at the end of a segment, which is between two batches.
        if read.len() < limit.min(stored.len()) {
            let mut rest = &read[..];
            while !rest.is_empty() {
                rest = &rest[BatchHeader::parse(rest).unwrap().size..];
            }
            assert!(!read.is_empty(), "{spec:?}");
        }
    }

    fn expect_hit(&self, hit: Option<TimestampHit>, expected: Option<(i64, i64)>) {
        assert_eq!(hit.map(|hit| (hit.offset, hit.timestamp)), expected);
    }
}

proptest! {
    #![proptest_config(histories(300))]

    #[test]
    fn a_log_is_a_vector_of_batches_whatever_happens_to_its_engine(steps in steps()) {
        let mut model = Model::default();
        let mut subject = Subject::new();
        for step in &steps {
            subject = subject.step(step, &mut model);
            let offsets = subject.partition.offsets();
            prop_assert_eq!((offsets.log_start, offsets.high_watermark), (model.start, model.end()));
        }
    }

    #[test]
    fn any_bytes_behind_the_log_are_cut_and_nothing_else(
        count in 0..4usize,
        tail in prop::collection::vec(any::<u8>(), 0..300),
        copied in any::<bool>(),
    ) {
        let mut model = Model::default();
        let subject = Subject::new();
        subject.append(&vec![vec![1, 2]; count + 1], &mut model);
        drop(subject.engine.hold_commits());
        let log = subject.volume.files().into_iter().rfind(|path| path.ends_with(".log")).unwrap();
        let volume = subject.volume.after_crash(CrashKeep::Nothing);
        // Either noise, or a batch that was written before: whole, valid, and in the wrong place.
        let whole = volume.contents(&log).unwrap();
        let tail = if copied { whole.clone() } else { tail };
        volume.tamper(&log, |bytes| bytes.extend_from_slice(&tail)).unwrap();
        let subject = subject.reopen(volume);
        prop_assert_eq!(subject.partition.offline(), None);
        prop_assert_eq!(subject.partition.offsets().log_end, model.end());
        let kept = subject.volume.contents(&log).unwrap();
        prop_assert_eq!(kept, whole);
        subject.append(&[vec![3]], &mut model);
    }
}
