//! Several brokers on one volume: who may acknowledge, and what a takeover finds.
#![allow(clippy::unwrap_used)]

mod support;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use kaas_core::error::{AppendError, LeadError, ReadError};
use kaas_core::volume::{CrashKeep, Fault, MemVolume, Nfs, NfsMount, Op, OpKind, Volume};
use kaas_core::{
    AppendOptions, Engine, EngineOptions, Isolation, Partition, PendingAppend, ReadSpec, RecordBatchBuilder,
    Session, SystemBootClock, TopicSpec,
};
use support::read_all;

const EIO: i32 = 5;
const ESTALE: i32 = 116;

fn options(volume: &MemVolume, broker_id: i32) -> EngineOptions {
    support::options(volume, None).broker_id(broker_id).shared()
}

/// A broker on a volume that has one topic with one partition.
struct Broker {
    engine: Engine,
    t: Arc<Partition>,
}

impl Broker {
    fn start(volume: &MemVolume, broker_id: i32) -> Self {
        Self::with(options(volume, broker_id))
    }

    fn with(options: EngineOptions) -> Self {
        let engine = Engine::open(options).unwrap();
        let t = support::partition(&engine, "t").unwrap();
        Self { engine, t }
    }

    fn lead(&self) -> i32 {
        self.engine.lead(&self.t, None).unwrap()
    }

    fn revoke(&self, broker_id: i32, other: &Self) {
        self.engine.revoke(broker_id, other.engine.incarnation()).unwrap();
    }

    fn send(&self, value: &str) -> Result<i64, AppendError> {
        send(&self.t, value)
    }
}

fn batch(value: &str) -> Bytes {
    RecordBatchBuilder::new().push(None, Some(value.as_bytes()), 1000).build()
}

fn start(partition: &Partition, value: &str) -> Result<PendingAppend, AppendError> {
    partition.append(batch(value), AppendOptions::default())
}

fn send(partition: &Partition, value: &str) -> Result<i64, AppendError> {
    start(partition, value)?.wait().map(|appended| appended.base_offset)
}

fn read_error(partition: &Partition) -> ReadError {
    let isolation = Isolation::ReadUncommitted;
    let spec = ReadSpec { offset: 0, bytes_max: 1000, at_least_one_batch: true, isolation, blocking: true };
    partition.read(spec).unwrap_err()
}

/// A volume with the topic, and nothing led.
fn volume() -> MemVolume {
    let volume = MemVolume::new();
    let engine = Engine::open(options(&volume, 0)).unwrap();
    engine.create_topic(TopicSpec::new("t", 1)).unwrap();
    volume
}

fn file(volume: &MemVolume, suffix: &str) -> String {
    volume.files().into_iter().find(|path| path.ends_with(suffix)).unwrap()
}

#[test]
fn nothing_is_served_before_it_is_led() {
    let volume = volume();
    let a = Broker::start(&volume, 1);
    assert!(!a.t.is_led());
    assert!(matches!(a.send("x"), Err(AppendError::NotLeader)));
    assert!(matches!(read_error(&a.t), ReadError::NotLeader));
    assert_eq!(a.lead(), 1);
    assert_eq!(a.lead(), 1, "it is led already");
    assert_eq!(a.send("x").unwrap(), 0);
    assert_eq!(read_all(&a.t).unwrap(), ["x"]);
    let alone = Engine::open(support::options(&MemVolume::new(), None)).unwrap();
    let topic = alone.create_topic(TopicSpec::new("t", 1)).unwrap();
    assert!(matches!(alone.lead(&topic.partitions[0], None), Err(LeadError::NotShared)));
}

#[test]
fn a_leader_whose_fence_stands_is_not_replaced() {
    let volume = volume();
    let (a, b) = (Broker::start(&volume, 1), Broker::start(&volume, 2));
    a.lead();
    a.send("one").unwrap();
    let refused = b.engine.lead(&b.t, None);
    let expected = a.engine.incarnation();
    assert!(
        matches!(&refused, Err(LeadError::NotRevoked { broker_id: 1, incarnation }) if *incarnation == expected),
        "{refused:?}"
    );
    assert_eq!(a.send("two").unwrap(), 1, "it goes on");
    b.revoke(1, &a);
    assert!(b.lead() > 1);
    assert_eq!(read_all(&b.t).unwrap(), ["one", "two"]);
    assert_eq!(b.send("three").unwrap(), 2);
    assert_eq!((b.t.end_offset_for_epoch(1), b.t.end_offset_for_epoch(b.t.leader_epoch())), ((1, 2), (2, 3)));
}

#[test]
fn what_a_deposed_leader_may_yet_rename_into_the_log_is_gone_before_the_seal() {
    let volume = volume();
    let (a, b) = (Broker::start(&volume, 1), Broker::start(&volume, 2));
    a.lead();
    a.send("one").unwrap();
    let dir = file(&volume, "00000001.claim").replace("/00000001.claim", "");
    let unfinished =
        format!("{dir}/00000001-00000000000000000000-00000000000000000001-00000001.log.cleaning");
    volume.create_new(&unfinished).unwrap();
    volume.create_new(&format!("{dir}/notes.cleaning")).unwrap();
    b.revoke(1, &a);
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let told = Arc::clone(&seen);
    volume.plan(move |op| {
        let kind = match op.kind {
            OpKind::Remove if op.path.ends_with(".cleaning") => "withdrawn",
            OpKind::Create if op.path.ends_with(".seal") => "sealed",
            _ => return None,
        };
        told.lock().unwrap().push(kind);
        None
    });
    b.lead();
    volume.no_plan();
    assert_eq!(*seen.lock().unwrap(), ["withdrawn", "sealed"]);
    assert!(volume.rename(&unfinished, &unfinished.replace(".cleaning", "")).is_err());
    assert!(volume.files().iter().any(|path| path.ends_with("notes.cleaning")), "unknown files stay");
    assert_eq!(read_all(&b.t).unwrap(), ["one"]);
}

#[test]
fn what_is_synced_after_the_revocation_is_neither_acknowledged_nor_lost_to_the_reader() {
    let volume = volume();
    let (a, b) = (Broker::start(&volume, 1), Broker::start(&volume, 2));
    a.lead();
    a.send("one").unwrap();
    volume.stall(OpKind::Sync, ".log");
    let late = start(&a.t, "late").unwrap();
    volume.wait_until_stalled();
    b.revoke(1, &a);
    volume.release();
    assert!(matches!(late.wait(), Err(AppendError::Fenced)));
    assert_eq!(a.t.offsets().high_watermark, 1, "nor shown");
    assert!(matches!(a.send("later"), Err(AppendError::Fenced)));
    assert!(matches!(read_error(&a.t), ReadError::Fenced));
    assert!(a.engine.is_fenced());
    assert!(matches!(a.engine.lead(&a.t, None), Err(LeadError::Fenced)));
    b.lead();
    // It was in the log before the scan, so it is in the log for good.
    assert_eq!(read_all(&b.t).unwrap(), ["one", "late"]);
}

#[test]
fn what_a_deposed_writer_writes_behind_the_seal_does_not_exist() {
    let volume = volume();
    let a = Broker::with(options(&volume, 1).manual_commits());
    let b = Broker::start(&volume, 2);
    a.lead();
    let one = start(&a.t, "one").unwrap();
    a.engine.commit();
    one.wait().unwrap();
    // It stops before its write, and goes on after it was replaced.
    let late = start(&a.t, "late").unwrap();
    b.revoke(1, &a);
    b.lead();
    assert_eq!(read_all(&b.t).unwrap(), ["one"]);
    a.engine.commit();
    assert!(volume.contents(&file(&volume, ".log")).unwrap().ends_with(b"late\x00"));
    assert!(matches!(late.wait(), Err(AppendError::Fenced)));
    assert_eq!(b.send("two").unwrap(), 1);
    assert_eq!(read_all(&b.t).unwrap(), ["one", "two"]);
    let c = Broker::start(&volume, 3);
    c.revoke(2, &b);
    c.lead();
    assert_eq!(read_all(&c.t).unwrap(), ["one", "two"]);
    drop((a, b, c));
    let alone = Engine::open(support::options(&volume.after_crash(CrashKeep::Nothing), None)).unwrap();
    assert_eq!(read_all(&support::partition(&alone, "t").unwrap()).unwrap(), ["one", "two"]);
}

#[test]
fn a_late_checkpoint_of_a_deposed_writer_replaces_nothing() {
    let volume = volume();
    let a = Broker::with(options(&volume, 1).manual_commits());
    let b = Broker::start(&volume, 2);
    let numbered = |n: i32| {
        RecordBatchBuilder::new().producer(7, 0, n).push(None, Some(n.to_string().as_bytes()), 1000).build()
    };
    let send = |broker: &Broker, n| {
        let pending = broker.t.append(numbered(n), AppendOptions::default());
        broker.engine.commit();
        pending.and_then(PendingAppend::wait)
    };
    a.lead();
    // The segment is full.
    for n in 0..5 {
        send(&a, n).unwrap();
    }
    let late = a.t.append(numbered(5), AppendOptions::default()).unwrap();
    b.revoke(1, &a);
    b.lead();
    for n in 5..12 {
        assert_eq!(send(&b, n).unwrap().base_offset, i64::from(n));
    }
    let checkpoint = volume.contents(&file(&volume, "00000002.checkpoint")).unwrap();
    // It closes its segment and writes a checkpoint, before it reads its fence.
    a.engine.commit();
    assert!(matches!(late.wait(), Err(AppendError::Fenced)));
    assert!(volume.files().iter().any(|path| path.ends_with("00000001.checkpoint")));
    assert_eq!(volume.contents(&file(&volume, "00000002.checkpoint")).unwrap(), checkpoint);
    let c = Broker::start(&volume, 3);
    c.revoke(2, &b);
    c.lead();
    assert!(send(&c, 11).unwrap().duplicate);
    assert_eq!(send(&c, 12).unwrap().base_offset, 12);
}

#[test]
fn a_partition_that_was_given_up_is_taken_over_without_a_revocation() {
    let volume = volume();
    let (a, b) = (Broker::start(&volume, 1), Broker::start(&volume, 2));
    a.lead();
    volume.stall(OpKind::Sync, ".log");
    let pending = start(&a.t, "one").unwrap();
    volume.wait_until_stalled();
    std::thread::scope(|scope| {
        let resigning = scope.spawn(|| a.engine.resign(&a.t));
        // Refused from some moment on; what was accepted until then is pending.
        while start(&a.t, "x").is_ok() {
            std::thread::yield_now();
        }
        volume.release();
        resigning.join().unwrap().unwrap();
    });
    assert!(pending.wait().is_ok(), "what was pending was committed");
    assert!(matches!(a.send("y"), Err(AppendError::NotLeader)));
    assert!(matches!(a.engine.resign(&a.t), Err(LeadError::NotLeader)));
    assert_eq!(b.lead(), 2);
    let values = read_all(&b.t).unwrap();
    assert_eq!(values[0], "one");
    assert!(!a.engine.is_fenced());
    b.engine.resign(&b.t).unwrap();
    assert_eq!(a.lead(), 3);
    assert_eq!(read_all(&a.t).unwrap(), values);
}

#[test]
fn of_two_takeovers_at_once_one_wins() {
    let volume = volume();
    let (a, b, c) = (Broker::start(&volume, 1), Broker::start(&volume, 2), Broker::start(&volume, 3));
    a.lead();
    a.send("one").unwrap();
    b.revoke(1, &a);
    // It has claimed and scanned, and stops before its seal.
    volume.stall(OpKind::Create, "00000002.seal");
    std::thread::scope(|scope| {
        let first = scope.spawn(|| b.engine.lead(&b.t, None));
        volume.wait_until_stalled();
        // The second finds that epoch unfinished. It would declare it void, which is held up as well.
        let second = scope.spawn(|| c.engine.lead(&c.t, Some(3)));
        while !volume.files().iter().any(|path| path.ends_with("00000003.claim")) {
            std::thread::yield_now();
        }
        volume.release();
        let outcomes = [first.join().unwrap(), second.join().unwrap()];
        match outcomes {
            [Err(LeadError::Lost { epoch: 2 }), Ok(3)] => {
                assert_eq!(read_all(&c.t).unwrap(), ["one"]);
            }
            // The first was sealed in time: its fence stands.
            [Ok(2), Err(LeadError::NotRevoked { broker_id: 2, .. })] => {
                assert_eq!(read_all(&b.t).unwrap(), ["one"]);
            }
            other => panic!("{other:?}"),
        }
    });
}

#[test]
fn a_segment_that_begins_while_its_leader_is_being_silenced_is_found() {
    let volume = volume();
    let (a, b, c) = (Broker::start(&volume, 1), Broker::start(&volume, 2), Broker::start(&volume, 3));
    a.lead();
    // Whatever it has looked at until here, the leader may still go on.
    volume.stall(OpKind::Open, ".resigned");
    std::thread::scope(|scope| {
        let takeover = scope.spawn(|| b.engine.lead(&b.t, None));
        volume.wait_until_stalled();
        a.send("one").unwrap();
        c.revoke(1, &a);
        volume.release();
        assert_eq!(takeover.join().unwrap().unwrap(), 2);
    });
    assert_eq!(read_all(&b.t).unwrap(), ["one"]);
    assert_eq!(b.send("two").unwrap(), 1);
}

#[test]
fn a_seal_that_its_owner_did_not_sync_is_made_durable_by_the_next() {
    let volume = volume();
    let (a, b) = (Broker::start(&volume, 1), Broker::start(&volume, 2));
    volume.plan(|op| (op.kind == OpKind::Sync && op.path.ends_with(".seal")).then_some(Fault::Errno(EIO)));
    assert!(matches!(a.engine.lead(&a.t, None), Err(LeadError::Storage(_))));
    volume.no_plan();
    // The seal can be read, and so it counts.
    b.revoke(1, &a);
    assert_eq!(b.lead(), 2);
    b.send("one").unwrap();
    drop((a, b));
    let volume = volume.after_crash(CrashKeep::Nothing);
    // Whoever comes next need not revoke itself.
    let c = Broker::start(&volume, 2);
    assert_eq!(c.lead(), 3);
    assert_eq!(read_all(&c.t).unwrap(), ["one"]);
}

#[test]
fn an_epoch_is_claimed_once() {
    let volume = volume();
    let (a, b) = (Broker::start(&volume, 1), Broker::start(&volume, 2));
    assert_eq!(a.engine.lead(&a.t, Some(5)).unwrap(), 5);
    a.send("one").unwrap();
    b.revoke(1, &a);
    assert!(matches!(b.engine.lead(&b.t, Some(5)), Err(LeadError::Lost { epoch: 5 })));
    assert!(matches!(b.engine.lead(&b.t, Some(4)), Err(LeadError::Lost { epoch: 4 })));
    // An exclusive create that was performed although its answer says otherwise: the epoch is nobody's.
    volume.create_new(&file(&volume, "00000005.claim").replace("05.claim", "06.claim")).unwrap();
    assert_eq!(b.engine.lead(&b.t, None).unwrap(), 7);
    assert_eq!(read_all(&b.t).unwrap(), ["one"]);
    assert_eq!(b.send("two").unwrap(), 1);
}

#[test]
fn a_fence_that_is_anything_but_whole_lets_nothing_pass() {
    type Damage = fn(&MemVolume, &str);
    let damages: [Damage; 6] = [
        |volume, path| volume.tamper(path, Vec::clear).unwrap(),
        |volume, path| volume.tamper(path, |bytes| bytes[40] ^= 1).unwrap(),
        |volume, path| volume.tamper(path, |bytes| bytes.truncate(100)).unwrap(),
        |volume, path| volume.tamper(path, |bytes| bytes.push(b' ')).unwrap(),
        |volume, path| volume.remove_file(path).unwrap(),
        |volume, _| {
            volume.plan(|op| {
                (op.kind == OpKind::Open && op.path.ends_with(".fence")).then_some(Fault::Errno(ESTALE))
            });
        },
    ];
    for (n, damage) in damages.into_iter().enumerate() {
        let volume = volume();
        let a = Broker::start(&volume, 1);
        a.lead();
        a.send("one").unwrap();
        damage(&volume, &volume.files().into_iter().find(|path| path.contains("brokers/1-")).unwrap());
        assert!(matches!(a.send("two"), Err(AppendError::Fenced)), "damage {n}");
        volume.no_plan();
        assert!(matches!(a.send("three"), Err(AppendError::Fenced)), "damage {n}: it stays so");
    }
}

#[test]
fn a_broker_that_starts_again_fences_what_it_was_before() {
    let volume = volume();
    let before = Broker::start(&volume, 1);
    before.lead();
    before.send("one").unwrap();
    let after = Broker::start(&volume, 1);
    assert!(matches!(before.send("two"), Err(AppendError::Fenced)));
    assert_eq!(after.lead(), 2, "it need not revoke itself");
    assert_eq!(read_all(&after.t).unwrap(), ["one", "two"], "unacknowledged, and before the scan");
}

#[test]
fn a_session_that_has_ended_is_a_fence_of_its_own() {
    let volume = volume();
    let session = Arc::new(Session::new(Arc::new(SystemBootClock)));
    let a = Broker::with(options(&volume, 1).fence(Arc::clone(&session) as _));
    assert!(matches!(a.engine.lead(&a.t, None), Err(LeadError::Fenced)), "it never began");
    let clock = SystemBootClock;
    session.renewed(kaas_core::BootClock::now(&clock), std::time::Duration::from_secs(3600));
    assert!(a.engine.is_fenced(), "a fence that has failed once has failed");
    let b = Broker::with(options(&volume, 1).fence(session));
    b.lead();
    b.send("one").unwrap();
}

#[test]
fn a_failed_write_or_sync_makes_the_leader_step_down_and_touches_nothing() {
    for kind in [OpKind::Write, OpKind::Sync] {
        let volume = volume();
        let a = Broker::start(&volume, 1);
        a.lead();
        a.send("one").unwrap();
        let log = file(&volume, ".log");
        let mut failed = false;
        volume.plan(move |op| match op.kind {
            OpKind::SetLen => panic!("a file that another may have taken over is cut"),
            _ if op.kind == kind && op.path.ends_with(".log") && !failed => {
                failed = true;
                Some(if kind == OpKind::Write { Fault::Torn(90, EIO) } else { Fault::Errno(EIO) })
            }
            _ => None,
        });
        assert!(matches!(a.send("two"), Err(AppendError::Storage(_))));
        assert!(matches!(a.send("three"), Err(AppendError::NotLeader)));
        let before = volume.contents(&log).unwrap();
        assert_eq!(a.lead(), 2, "{kind:?}");
        let after = volume.contents(&log).unwrap();
        assert_eq!(after[..], before[..after.len()], "{kind:?}");
        let mut expected = read_all(&a.t).unwrap();
        assert_eq!(expected[0], "one");
        a.send("four").unwrap();
        expected.push("four".to_owned());
        assert_eq!(read_all(&a.t).unwrap(), expected);
    }
}

#[test]
fn behind_a_first_batch_that_failed_nothing_overtakes_it_under_the_next_epoch() {
    let volume = volume();
    let a = Broker::start(&volume, 1);
    a.lead();
    let send = |sequence| {
        let batch = RecordBatchBuilder::new().producer(7, 0, sequence).push(None, Some(b"v"), 1000).build();
        a.t.append(batch, AppendOptions::default())?.wait().map(|appended| appended.base_offset)
    };
    let mut failed = false;
    volume.plan(move |op| {
        let first =
            op.kind == OpKind::Write && op.path.ends_with(".log") && !std::mem::replace(&mut failed, true);
        first.then_some(Fault::Errno(EIO))
    });
    assert!(matches!(send(0), Err(AppendError::Storage(_))));
    a.lead();
    assert!(matches!(send(1), Err(AppendError::OutOfOrderSequence(_))));
    assert_eq!((send(0).unwrap(), send(1).unwrap()), (0, 1));
}

#[test]
fn a_chain_that_contradicts_itself_is_quarantined_and_nothing_is_deleted() {
    type Damage = fn(&mut Vec<u8>);
    let damaged: [(&str, Damage); 4] = [
        ("00000002.seal", |bytes| bytes[30] ^= 1),
        ("00000001.claim", |bytes| bytes.truncate(9)),
        // The seal says how many bytes there are, and what the last of them are.
        ("00000001-00000000000000000000.log", |bytes| bytes.truncate(70)),
        ("00000001-00000000000000000000.log", |bytes| *bytes.last_mut().unwrap() ^= 1),
    ];
    for (suffix, damage) in damaged {
        let volume = volume();
        let (a, b) = (Broker::start(&volume, 1), Broker::start(&volume, 2));
        a.lead();
        a.send("one").unwrap();
        a.engine.resign(&a.t).unwrap();
        b.lead();
        b.send("two").unwrap();
        b.engine.resign(&b.t).unwrap();
        volume.tamper(&file(&volume, suffix), damage).unwrap();
        let files = volume.files();
        let refused = a.engine.lead(&a.t, None);
        assert!(matches!(refused, Err(LeadError::Offline(_))), "{suffix}: {refused:?}");
        assert!(matches!(a.send("three"), Err(AppendError::Offline(_))));
        assert!(files.iter().all(|path| volume.contents(path).is_ok()), "{suffix}: something was deleted");
        let alone = Engine::open(support::options(&volume, None)).unwrap();
        assert!(support::partition(&alone, "t").unwrap().offline().is_some(), "{suffix}");
    }
}

#[test]
fn a_log_of_one_broker_is_taken_over_by_brokers_that_share() {
    let volume = MemVolume::new();
    let alone = Engine::open(support::options(&volume, None)).unwrap();
    let t = Arc::clone(&alone.create_topic(TopicSpec::new("t", 1)).unwrap().partitions[0]);
    send(&t, "one").unwrap();
    alone.close().unwrap();
    let a = Broker::start(&volume, 1);
    assert_eq!(a.lead(), 2);
    a.send("two").unwrap();
    a.engine.close().unwrap();
    let alone = Engine::open(support::options(&volume, None)).unwrap();
    let t = support::partition(&alone, "t").unwrap();
    assert_eq!((send(&t, "three").unwrap(), t.leader_epoch()), (2, 2));
    assert_eq!(read_all(&t).unwrap(), ["one", "two", "three"]);
}

#[test]
fn an_engine_without_threads_commits_when_it_is_told_to() {
    let volume = volume();
    let a = Broker::with(options(&volume, 1).manual_commits());
    a.lead();
    let pending = start(&a.t, "one").unwrap();
    assert_eq!(a.t.offsets().high_watermark, 0);
    a.engine.commit();
    assert_eq!((pending.wait().unwrap().base_offset, a.t.offsets().high_watermark), (0, 1));
    a.engine.resign(&a.t).unwrap();
    a.engine.close().unwrap();
    assert!(matches!(a.engine.resign(&a.t), Err(LeadError::NotLeader | LeadError::Closed)));
}

/// A broker of its own machine, without threads; `pace` is called before every request.
fn mounted(nfs: &Nfs, broker_id: i32, pace: impl Fn(&NfsMount, &Op) + Send + Sync + 'static) -> Broker {
    let own: Arc<OnceLock<NfsMount>> = Arc::default();
    let paced = Arc::clone(&own);
    let mount = nfs.mount(nfs.machine(), move |op| pace(paced.get().unwrap(), op));
    own.set(mount.clone()).unwrap();
    let engine = EngineOptions::on(Arc::new(mount)).broker_id(broker_id).shared().manual_commits();
    let engine = Engine::open(engine).unwrap();
    let t = support::partition(&engine, "t")
        .unwrap_or_else(|| Arc::clone(&engine.create_topic(TopicSpec::new("t", 1)).unwrap().partitions[0]));
    Broker { engine, t }
}

fn commit(broker: &Broker, value: &str) -> Result<i64, AppendError> {
    let pending = start(&broker.t, value)?;
    broker.engine.commit();
    pending.wait().map(|appended| appended.base_offset)
}

/// The first broker dies where it would sync a file for the n-th time, and the server restarts before the second's n-th
/// request. What the second served is there for the third. False when there were not so many requests.
fn takes_over_from_the_dead(seed: u64, dies_at: (&'static str, u64), restarts_at: u64) -> bool {
    let nfs = Nfs::new(seed);
    let syncs = AtomicU64::new(0);
    let a = mounted(&nfs, 1, move |mount, op| {
        let (suffix, number) = dies_at;
        let dies = op.kind == OpKind::Sync && op.path.ends_with(suffix);
        if dies && syncs.fetch_add(1, Ordering::SeqCst) == number {
            mount.kill();
        }
    });
    if a.engine.lead(&a.t, None).is_ok() {
        commit(&a, "one").unwrap();
        commit(&a, "two").unwrap_err();
    }
    let (requests, server) = (Arc::new(AtomicU64::new(0)), nfs.clone());
    let counted = Arc::clone(&requests);
    let b = mounted(&nfs, 2, move |_, _| {
        if counted.fetch_add(1, Ordering::SeqCst) == restarts_at {
            server.restart_server();
        }
    });
    b.revoke(1, &a);
    let mut outcome = b.engine.lead(&b.t, None);
    // What it had looked at is gone: it looks again.
    if matches!(outcome, Err(LeadError::Lost { .. } | LeadError::Storage(_))) {
        outcome = b.engine.lead(&b.t, None);
    }
    outcome.unwrap_or_else(|error| panic!("{dies_at:?} {seed} {restarts_at}: {error}"));
    commit(&b, "three").unwrap();
    let served = read_all(&b.t).unwrap_or_else(|error| panic!("{dies_at:?} {seed} {restarts_at}: {error}"));
    nfs.restart_server();
    let c = mounted(&nfs, 3, |_, _| {});
    c.revoke(2, &b);
    c.lead();
    assert_eq!(read_all(&c.t).unwrap(), served, "{dies_at:?} {seed} {restarts_at}");
    requests.load(Ordering::SeqCst) > restarts_at
}

#[test]
fn the_server_may_restart_before_any_request_of_a_takeover() {
    for dies_at in [(".seal", 0), (".log", 1)] {
        for seed in 0..3 {
            let mut restarts_at = 0;
            while takes_over_from_the_dead(seed, dies_at, restarts_at) {
                restarts_at += 1;
            }
            assert!(restarts_at > 30, "{restarts_at} requests");
        }
    }
}
