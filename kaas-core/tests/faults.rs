//! Disks that are full, fail, stall or lie, and damage on them.
#![allow(clippy::unwrap_used)]

mod support;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Waker};

use bytes::Bytes;
use kaas_core::volume::{CrashKeep, Fault, MemVolume, OpKind, Volume};
use kaas_core::{
    AppendError, AppendOptions, Engine, EngineOptions, Fence, Fenced, Isolation, LogConfig, OpenError,
    Partition, PendingAppend, Read, ReadError, ReadSpec, RecordBatchBuilder, TopicSpec,
};
use support::{options, partition, read_all};

const EIO: i32 = 5;
const ENOSPC: i32 = 28;

fn open(volume: &MemVolume) -> Engine {
    Engine::open(options(volume, None)).unwrap()
}

fn create(engine: &Engine, name: &str) -> Arc<Partition> {
    Arc::clone(&engine.create_topic(TopicSpec::new(name, 1)).unwrap().partitions[0])
}

fn batch(value: &str) -> Bytes {
    RecordBatchBuilder::new().push(None, Some(value.as_bytes()), 1000).build()
}

fn send(partition: &Partition, value: &str) -> Result<i64, AppendError> {
    let pending = partition.append(batch(value), AppendOptions::default())?;
    pending.wait().map(|appended| appended.base_offset)
}

fn start(partition: &Partition, value: &str) -> PendingAppend {
    partition.append(batch(value), AppendOptions::default()).unwrap()
}

fn file(volume: &MemVolume, suffix: &str) -> String {
    volume.files().into_iter().find(|path| path.ends_with(suffix)).unwrap()
}

/// Everything that is written is in the first segment.
fn one_segment(volume: &MemVolume) -> EngineOptions {
    options(volume, None).checkpoint_bytes(u64::MAX).resolve(|_| LogConfig::default())
}

#[test]
fn a_full_disk_refuses_writes_and_recovers_by_itself() {
    let volume = MemVolume::new();
    let engine = open(&volume);
    let t = create(&engine, "t");
    assert_eq!(send(&t, "one").unwrap(), 0);
    volume.set_capacity(Some(0));
    for _ in 0..3 {
        assert!(matches!(send(&t, "two"), Err(AppendError::Storage(_))));
    }
    assert_eq!(t.offsets().log_end, 1, "the log end went back");
    assert_eq!(read_all(&t).unwrap(), ["one"], "reads go on");
    volume.set_capacity(None);
    assert_eq!(send(&t, "two").unwrap(), 1);
    drop(engine);
    let engine = open(&volume.after_crash(CrashKeep::Nothing));
    assert_eq!(read_all(&partition(&engine, "t").unwrap()).unwrap(), ["one", "two"]);
}

#[test]
fn what_a_failed_write_left_is_cut_away_before_the_next() {
    let volume = MemVolume::new();
    let engine = Engine::open(one_segment(&volume)).unwrap();
    let t = create(&engine, "t");
    send(&t, "one").unwrap();
    let log = file(&volume, ".log");
    let before = volume.contents(&log).unwrap();
    let mut cuts = 0;
    volume.plan(move |op| match op.kind {
        OpKind::Write if op.path.ends_with(".log") => Some(Fault::Torn(80, ENOSPC)),
        // The first try to cut fails too.
        OpKind::SetLen => {
            cuts += 1;
            (cuts == 1).then_some(Fault::Errno(EIO))
        }
        _ => None,
    });
    assert!(matches!(send(&t, "a longer value than the next"), Err(AppendError::Storage(_))));
    assert_eq!(volume.contents(&log).unwrap().len(), before.len() + 80);
    assert!(matches!(send(&t, "a longer value than the next"), Err(AppendError::Storage(_))));
    assert_eq!(volume.contents(&log).unwrap(), before);
    volume.no_plan();
    assert_eq!(send(&t, "two").unwrap(), 1);
    assert_eq!(volume.contents(&log).unwrap().len(), before.len() * 2);
}

#[test]
fn a_retry_is_not_acknowledged_before_its_original_is_durable() {
    let volume = MemVolume::new();
    let engine = open(&volume);
    let t = create(&engine, "t");
    let numbered = || RecordBatchBuilder::new().producer(3, 0, 0).push(None, Some(b"v"), 0).build();
    volume.stall(OpKind::Sync, ".log");
    let original = t.append(numbered(), AppendOptions::default()).unwrap();
    volume.wait_until_stalled();
    let mut retry = t.append(numbered(), AppendOptions::default()).unwrap();
    let mut context = Context::from_waker(Waker::noop());
    let waits = Pin::new(&mut retry).poll(&mut context).is_pending();
    volume.release();
    assert!(waits);
    assert!(!original.wait().unwrap().duplicate);
    assert!(retry.wait().unwrap().duplicate);
}

#[test]
fn a_full_disk_does_not_move_an_idempotent_producer() {
    let volume = MemVolume::new();
    let engine = open(&volume);
    let t = create(&engine, "t");
    let numbered = |n| RecordBatchBuilder::new().producer(3, 0, n).push(None, Some(b"v"), 0).build();
    let send = |n| t.append(numbered(n), AppendOptions::default()).and_then(PendingAppend::wait);
    send(0).unwrap();
    volume.set_capacity(Some(0));
    assert!(matches!(send(1), Err(AppendError::Storage(_))));
    assert!(matches!(send(2), Err(AppendError::OutOfOrderSequence(_))), "1 was not appended");
    volume.set_capacity(None);
    assert!(!send(1).unwrap().duplicate);
    assert!(send(1).unwrap().duplicate);
}

#[test]
fn a_failed_sync_is_not_believed_later_and_the_log_goes_on_in_a_new_epoch() {
    let volume = MemVolume::new();
    let engine = Engine::open(one_segment(&volume)).unwrap();
    let t = create(&engine, "t");
    send(&t, "one").unwrap();
    let log = file(&volume, ".log");
    let fail = log.clone();
    volume.plan(move |op| (op.kind == OpKind::Sync && op.path == fail).then_some(Fault::Errno(EIO)));
    assert!(matches!(send(&t, "lost"), Err(AppendError::Storage(_))));
    drop(engine.hold_commits());
    assert_eq!(t.leader_epoch(), 2);
    assert_eq!(read_all(&t).unwrap(), ["one"]);
    // The plan still fails every sync of that file: it is not synced again.
    assert_eq!(send(&t, "two").unwrap(), 1);
    assert_eq!(t.end_offset_for_epoch(1), (1, 1));
    assert_eq!(t.end_offset_for_epoch(2), (2, 2));
    drop(engine);
    // Whatever appears behind the seal later does not exist, however valid it looks.
    let mut late = batch("late").to_vec();
    late[..8].copy_from_slice(&1i64.to_be_bytes());
    volume.tamper(&log, |bytes| bytes.extend_from_slice(&late)).unwrap();
    let engine = Engine::open(one_segment(&volume)).unwrap();
    assert_eq!(read_all(&partition(&engine, "t").unwrap()).unwrap(), ["one", "two"]);
    engine.close().unwrap();
    let volume = volume.after_crash(CrashKeep::Nothing);
    assert!(volume.files().iter().any(|path| path.ends_with("/00000002-00000000000000000001.log")));
    let engine = Engine::open(one_segment(&volume)).unwrap();
    let t = partition(&engine, "t").unwrap();
    assert_eq!(read_all(&t).unwrap(), ["one", "two"]);
    assert_eq!((t.leader_epoch(), t.end_offset_for_epoch(1)), (2, (1, 1)));
    assert_eq!(send(&t, "three").unwrap(), 2);
}

#[test]
fn what_a_failed_sync_lost_is_not_found_in_the_cache_by_the_next_process() {
    let volume = MemVolume::new();
    let engine = Engine::open(one_segment(&volume)).unwrap();
    let t = create(&engine, "t");
    send(&t, "one").unwrap();
    // From the failed sync on nothing works, so that the engine cannot look at the device itself.
    let mut failed = false;
    volume.plan(move |op| {
        failed |= op.kind == OpKind::Sync && op.path.ends_with(".log");
        failed.then_some(Fault::Errno(EIO))
    });
    assert!(send(&t, "lost").is_err());
    drop(engine.hold_commits());
    assert!(t.offline().is_some());
    volume.no_plan();
    drop(engine);
    let engine = Engine::open(one_segment(&volume)).unwrap();
    assert_eq!(read_all(&partition(&engine, "t").unwrap()).unwrap(), ["one"]);
}

fn page_cache(volume: &MemVolume) -> EngineOptions {
    options(volume, None).resolve(|_| LogConfig {
        flush_messages: u64::MAX,
        segment_bytes: 400,
        ..LogConfig::default()
    })
}

#[test]
fn what_recovery_shows_is_durable_from_then_on() {
    let volume = MemVolume::new();
    let engine = Engine::open(page_cache(&volume)).unwrap();
    let t = create(&engine, "t");
    for value in ["one", "two"] {
        send(&t, value).unwrap();
    }
    drop(engine);
    let engine = Engine::open(page_cache(&volume)).unwrap();
    assert_eq!(read_all(&partition(&engine, "t").unwrap()).unwrap(), ["one", "two"]);
    let engine = Engine::open(page_cache(&volume.after_crash(CrashKeep::Nothing))).unwrap();
    assert_eq!(read_all(&partition(&engine, "t").unwrap()).unwrap(), ["one", "two"]);
}

#[test]
fn rolled_segments_and_closed_logs_are_durable_in_page_cache_mode_too() {
    let volume = MemVolume::new();
    let engine = Engine::open(page_cache(&volume)).unwrap();
    let t = create(&engine, "t");
    let values: Vec<String> = (0..20).map(|n| n.to_string()).collect();
    for value in &values {
        send(&t, value).unwrap();
    }
    let cut = Engine::open(page_cache(&volume.after_crash(CrashKeep::Nothing))).unwrap();
    let survived = read_all(&partition(&cut, "t").unwrap()).unwrap();
    assert!(survived.len() >= 15 && values.starts_with(&survived), "{survived:?}");
    engine.close().unwrap();
    let cut = Engine::open(page_cache(&volume.after_crash(CrashKeep::Nothing))).unwrap();
    assert_eq!(read_all(&partition(&cut, "t").unwrap()).unwrap(), values);
}

#[test]
fn acknowledged_records_that_a_failed_sync_lost_take_the_partition_offline() {
    let volume = MemVolume::new();
    // Page-cache mode: acknowledged and not synced. The close is what syncs.
    let config = LogConfig { flush_messages: 3, ..LogConfig::default() };
    let engine = Engine::open(one_segment(&volume).resolve(move |_| config.clone())).unwrap();
    let (t, neighbour) = (create(&engine, "t"), create(&engine, "neighbour"));
    send(&t, "one").unwrap();
    send(&t, "two").unwrap();
    let dir = format!("{}", t.topic_id());
    volume.plan(move |op| {
        (op.kind == OpKind::Sync && op.path.contains(&dir) && op.path.ends_with(".log"))
            .then_some(Fault::Errno(EIO))
    });
    assert!(send(&t, "three").is_err());
    drop(engine.hold_commits());
    assert!(t.offline().is_some());
    assert!(matches!(send(&t, "four"), Err(AppendError::Offline(_))));
    send(&neighbour, "fine").unwrap();
}

#[test]
fn a_sync_that_stalls_holds_neither_other_partitions_nor_readers() {
    let volume = MemVolume::new();
    let engine = Engine::open(options(&volume, None).sync_parallelism(4)).unwrap();
    let (slow, fast) = (create(&engine, "slow"), create(&engine, "fast"));
    send(&slow, "one").unwrap();
    send(&fast, "one").unwrap();
    volume.stall(OpKind::Sync, &slow.topic_id().to_string());
    // Committed together, so that neither is synced by the loop itself.
    let held = engine.hold_commits();
    let (stalled, quick) = (start(&slow, "two"), start(&fast, "two"));
    drop(held);
    assert_eq!(quick.wait().unwrap().base_offset, 1);
    assert_eq!(send(&fast, "three").unwrap(), 2);
    assert_eq!(read_all(&slow).unwrap(), ["one"], "what is not durable is not visible");
    volume.release();
    assert_eq!(stalled.wait().unwrap().base_offset, 1);
    assert_eq!(read_all(&slow).unwrap(), ["one", "two"]);
}

#[test]
fn appends_that_arrive_together_share_one_sync_and_one_write() {
    let volume = MemVolume::new();
    let engine = Engine::open(one_segment(&volume)).unwrap();
    let t = create(&engine, "t");
    send(&t, "first").unwrap();
    let (syncs, writes) = (volume.count(OpKind::Sync), volume.count(OpKind::Write));
    let held = engine.hold_commits();
    let pending: Vec<PendingAppend> = (0..50).map(|n| start(&t, &n.to_string())).collect();
    drop(held);
    for pending in pending {
        pending.wait().unwrap();
    }
    assert_eq!((volume.count(OpKind::Sync) - syncs, volume.count(OpKind::Write) - writes), (1, 1));
}

#[test]
fn every_acknowledgement_was_synced_or_the_topic_asked_for_less() {
    for (flush_messages, expected) in [(1, 12), (4, 3), (u64::MAX, 0)] {
        let volume = MemVolume::new();
        let config = LogConfig { flush_messages, ..LogConfig::default() };
        let engine = Engine::open(one_segment(&volume).resolve(move |_| config.clone())).unwrap();
        let t = create(&engine, "t");
        let syncs = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&syncs);
        volume.watch(move |op| {
            if op.kind == OpKind::Sync && op.path.ends_with(".log") {
                counted.fetch_add(1, Ordering::SeqCst);
            }
        });
        for n in 0..12 {
            assert_eq!(send(&t, "v").unwrap(), n);
        }
        assert_eq!(syncs.load(Ordering::SeqCst), expected, "flush.messages={flush_messages}");
    }
}

#[derive(Debug, Default)]
struct Switch(AtomicBool);

impl Fence for Switch {
    fn check(&self) -> Result<(), Fenced> {
        if self.0.load(Ordering::SeqCst) { Err(Fenced) } else { Ok(()) }
    }
}

#[test]
fn a_fenced_broker_acknowledges_nothing_and_shows_nothing_new() {
    let volume = MemVolume::new();
    let fence = Arc::new(Switch::default());
    let engine = Engine::open(options(&volume, None).fence(fence.clone())).unwrap();
    let t = create(&engine, "t");
    send(&t, "one").unwrap();
    fence.0.store(true, Ordering::SeqCst);
    assert!(matches!(send(&t, "two"), Err(AppendError::Fenced)));
    drop(engine.hold_commits());
    assert_eq!(t.offsets().high_watermark, 1);
    assert!(send(&t, "three").is_err());
}

#[test]
fn a_cold_read_says_that_it_would_block() {
    let volume = MemVolume::new();
    let engine = open(&volume);
    let t = create(&engine, "t");
    send(&t, "one").unwrap();
    drop(engine);
    let engine = open(&volume);
    let t = partition(&engine, "t").unwrap();
    let spec = ReadSpec {
        offset: 0,
        bytes_max: 100,
        at_least_one_batch: true,
        isolation: Isolation::ReadCommitted,
        blocking: false,
    };
    assert!(matches!(t.read(spec).unwrap(), Read::WouldBlock), "its file is not open");
    let Read::Data(data) = t.read(ReadSpec { blocking: true, ..spec }).unwrap() else { panic!() };
    assert!(!data.slice.is_empty());
    assert!(matches!(t.read(spec).unwrap(), Read::Data(_)));
    volume.set_cold(true);
    assert!(matches!(t.read(spec).unwrap(), Read::WouldBlock));
}

#[test]
fn damaged_caches_are_rebuilt() {
    let volume = MemVolume::new();
    let engine = open(&volume);
    let t = create(&engine, "t");
    let values: Vec<String> = (0..40).map(|n| format!("value {n}")).collect();
    for value in &values {
        send(&t, value).unwrap();
    }
    engine.close().unwrap();
    let caches = [".index", ".timeindex", ".checkpoint"];
    let files: Vec<String> =
        volume.files().into_iter().filter(|f| caches.iter().any(|c| f.ends_with(c))).collect();
    assert!(files.len() > 4, "{files:?}");
    for path in &files {
        volume.tamper(path, |bytes| bytes.truncate(bytes.len() / 2)).unwrap();
    }
    let engine = open(&volume);
    let t = partition(&engine, "t").unwrap();
    assert_eq!(read_all(&t).unwrap(), values);
    assert_eq!(t.max_timestamp().unwrap().map(|hit| hit.offset), Some(0));
    for path in &files {
        let _ = volume.remove_file(path);
    }
    let engine = open(&volume);
    assert_eq!(read_all(&partition(&engine, "t").unwrap()).unwrap(), values);
}

#[test]
fn damage_to_acknowledged_records_is_never_cut_away() {
    let volume = MemVolume::new();
    let engine = open(&volume);
    let (t, neighbour) = (create(&engine, "t"), create(&engine, "neighbour"));
    let numbered = |n| RecordBatchBuilder::new().producer(3, 0, n).push(None, Some(b"v"), 0).build();
    for n in 0..40 {
        t.append(numbered(n), AppendOptions::default()).unwrap().wait().unwrap();
    }
    send(&neighbour, "fine").unwrap();
    engine.close().unwrap();
    let dir = t.topic_id().to_string();
    let in_dir = |suffix: &str| -> Vec<String> {
        volume.files().into_iter().filter(|f| f.contains(&dir) && f.ends_with(suffix)).collect()
    };
    // Without snapshots the producers must be rebuilt from the log, which reads all of it.
    for path in in_dir(".producers") {
        volume.remove_file(&path).unwrap();
    }
    let log = in_dir(".log")[1].clone();
    volume.tamper(&log, |bytes| bytes[80] ^= 1).unwrap();
    let before = volume.contents(&log).unwrap();
    let engine = open(&volume);
    let t = partition(&engine, "t").unwrap();
    let offline = t.offline().unwrap();
    assert!(offline.why.contains("damaged at byte"), "{offline}");
    assert!(matches!(send(&t, "x"), Err(AppendError::Offline(_))));
    assert_eq!(read_all(&partition(&engine, "neighbour").unwrap()).unwrap(), ["fine"]);
    assert_eq!(volume.contents(&log).unwrap(), before);
}

#[test]
fn a_log_that_has_lost_its_beginning_is_not_served_as_if_it_had_none() {
    let volume = MemVolume::new();
    let engine = open(&volume);
    let t = create(&engine, "t");
    for n in 0..40 {
        send(&t, &format!("value {n}")).unwrap();
    }
    engine.close().unwrap();
    let dir = t.topic_id().to_string();
    let logs = || -> Vec<String> {
        volume.files().into_iter().filter(|f| f.contains(&dir) && f.ends_with(".log")).collect()
    };
    let all = logs();
    volume.remove_file(&all[0]).unwrap();
    let offline = |why: &str| {
        let offline = partition(&open(&volume), "t").unwrap().offline().unwrap();
        assert!(offline.why.contains(why), "{offline}");
    };
    offline("are missing");
    assert_eq!(logs(), all[1..], "nothing is removed for it");
    all[1..].iter().for_each(|path| volume.remove_file(path).unwrap());
    offline("missing");
}

#[test]
fn a_damaged_header_is_a_typed_error_for_the_reader() {
    let volume = MemVolume::new();
    let engine = Engine::open(one_segment(&volume)).unwrap();
    let t = create(&engine, "t");
    send(&t, "one").unwrap();
    send(&t, "two").unwrap();
    volume.tamper(&file(&volume, ".log"), |bytes| bytes[16] = 9).unwrap();
    let spec = ReadSpec {
        offset: 1,
        bytes_max: 10,
        at_least_one_batch: true,
        isolation: Isolation::ReadUncommitted,
        blocking: true,
    };
    // A fresh engine has no memory of where the batches were.
    engine.close().unwrap();
    let engine = Engine::open(one_segment(&volume)).unwrap();
    let t = partition(&engine, "t").unwrap();
    assert!(matches!(t.read(spec), Err(ReadError::Damaged { position: 0, .. })));
}

#[test]
fn valid_batches_far_behind_damage_are_acknowledged_ones() {
    let volume = MemVolume::new();
    let engine = Engine::open(
        one_segment(&volume).resolve(|_| LogConfig { message_bytes_max: 8 << 20, ..LogConfig::default() }),
    )
    .unwrap();
    let t = create(&engine, "t");
    let large = "x".repeat(5 << 20);
    for value in ["one", &large, "three"] {
        send(&t, value).unwrap();
    }
    drop(engine);
    let log = file(&volume, ".log");
    volume.tamper(&log, |bytes| bytes[70] ^= 1).unwrap();
    let engine = Engine::open(one_segment(&volume)).unwrap();
    assert!(partition(&engine, "t").unwrap().offline().is_some(), "an acknowledged batch is damaged");
    // The same damage with nothing valid behind it is a torn tail.
    volume.tamper(&log, |bytes| bytes[100..].fill(0)).unwrap();
    let engine = Engine::open(one_segment(&volume)).unwrap();
    let t = partition(&engine, "t").unwrap();
    assert_eq!((t.offline(), t.offsets().log_end), (None, 0));
}

#[test]
fn state_that_cannot_be_trusted_stops_the_start_and_is_left_alone() {
    let volume = MemVolume::new();
    create(&open(&volume), "t");
    let metadata = volume.files().into_iter().find(|f| f.starts_with("cluster/topics/")).unwrap();
    let whole = volume.contents(&metadata).unwrap();
    volume.tamper(&metadata, |bytes| bytes.clear()).unwrap();
    assert!(matches!(Engine::open(options(&volume, None)), Err(OpenError::Damaged(_))));
    assert_eq!(volume.contents(&metadata).unwrap(), b"");
    volume.tamper(&metadata, |bytes| *bytes = whole).unwrap();
    assert!(partition(&open(&volume), "t").is_some());
}

#[test]
fn a_volume_of_another_format_is_refused() {
    let volume = MemVolume::new();
    let id = open(&volume).cluster_id().to_owned();
    let body = format!(r#"{{"cluster_id":"{id}","format_version":2,"volume":"default"}}"#);
    let crc = crc32c::crc32c(body.as_bytes());
    let file = body.replacen('{', &format!(r#"{{"crc32c":{crc},"#), 1);
    volume.tamper("kaas-volume.json", |bytes| *bytes = file.into_bytes()).unwrap();
    let refused = Engine::open(options(&volume, None));
    assert!(matches!(refused, Err(OpenError::UnknownFormat { found: 2, known: 1 })), "{refused:?}");
}

#[test]
fn a_checkpoint_that_fails_costs_nothing_and_is_not_tried_at_every_commit() {
    let volume = MemVolume::new();
    let engine = Engine::open(one_segment(&volume).checkpoint_bytes(1000)).unwrap();
    let t = create(&engine, "t");
    let tries = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&tries);
    volume.plan(move |op| {
        let checkpoint = op.kind == OpKind::Create && op.path.contains(".checkpoint");
        counted.fetch_add(u64::from(checkpoint), Ordering::SeqCst);
        checkpoint.then_some(Fault::Errno(ENOSPC))
    });
    let size = batch("v").len() as u64;
    for n in 0..100 {
        assert_eq!(send(&t, "v").unwrap(), n);
    }
    drop(engine.hold_commits());
    let tries = tries.load(Ordering::SeqCst);
    assert!((1..=100 * size / 1000).contains(&tries), "{tries} tries for {} bytes", 100 * size);
}

#[test]
fn foreign_files_are_left_alone() {
    let volume = MemVolume::new();
    let t = create(&open(&volume), "t");
    send(&t, "x").unwrap_err();
    for path in ["topics/stray", "topics/x~not-a-uuid"] {
        volume.create_dir(path).unwrap();
    }
    let foreign = ["topics/stray/file", "topics/readme", "cluster/topics/note.txt"];
    for path in foreign {
        volume.create_new(path).unwrap();
    }
    let engine = open(&volume);
    engine.delete_topic(&engine.topics().by_name("t").unwrap()).unwrap();
    engine.close().unwrap();
    for path in foreign {
        assert!(volume.contents(path).is_ok(), "{path}");
    }
}

#[test]
fn a_claim_that_was_torn_by_a_crash_is_skipped() {
    let volume = MemVolume::new();
    let engine = open(&volume);
    let t = create(&engine, "t");
    send(&t, "one").unwrap();
    engine.close().unwrap();
    let claim = file(&volume, ".claim");
    let next = claim.replace("00000001.claim", "00000002.claim");
    volume.create_new(&next).unwrap();
    let engine = open(&volume);
    let t = partition(&engine, "t").unwrap();
    assert_eq!((send(&t, "two").unwrap(), t.leader_epoch()), (1, 1));
    engine.close().unwrap();
    volume.tamper(&claim, |bytes| bytes.truncate(3)).unwrap();
    let engine = open(&volume);
    assert!(
        partition(&engine, "t").unwrap().offline().is_some(),
        "segments without a claim are not guessed at"
    );
}
