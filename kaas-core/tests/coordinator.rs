//! A coordinator's promise: no answer leaves before what it says is durable, whatever happens in between.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use kaas_core::audit::{Severity, audit};
use kaas_core::coordinator::{
    Coordinator, CoordinatorError, CoordinatorKind, CoordinatorOptions, Host, Machine, Now, Outbox, Pending,
    slot_of,
};
use kaas_core::volume::{CrashKeep, Fault, MemVolume, OpKind, Volume};
use kaas_core::{Engine, EngineOptions, Fence, Fenced, ManualClock, Mutant};
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

/// Counters by name, and those who wait for one to reach a value.
#[derive(Default)]
struct Counters {
    values: BTreeMap<String, u64>,
    parked: Vec<(String, u64, oneshot::Sender<u64>)>,
    /// When every counter goes up by itself.
    alarm: Option<Duration>,
}

#[derive(Serialize, Deserialize)]
struct Set {
    name: String,
    value: u64,
}

impl Machine for Counters {
    type Entry = Set;
    type Token = oneshot::Sender<u64>;
    type Reply = u64;
    type Effect = Infallible;

    fn replay(&mut self, Set { name, value }: Set) {
        self.values.insert(name, value);
    }

    fn snapshot(&self) -> Vec<Set> {
        self.values.iter().map(|(name, value)| Set { name: name.clone(), value: *value }).collect()
    }

    fn loaded(&mut self, _: Now, _: &mut Outbox<Self>) {}

    fn deadline(&self) -> Option<Duration> {
        self.alarm
    }

    fn tick(&mut self, now: Now, out: &mut Outbox<Self>) {
        if self.alarm.take_if(|alarm| *alarm <= now.mono).is_some() {
            let names: Vec<String> = self.values.keys().cloned().collect();
            for name in names {
                self.add(&name, out);
            }
        }
    }
}

impl Counters {
    fn add(&mut self, name: &str, out: &mut Outbox<Self>) -> u64 {
        let value = self.values.entry(name.to_owned()).or_default();
        *value += 1;
        let value = *value;
        out.entries.push(Set { name: name.to_owned(), value });
        let (ready, parked) = std::mem::take(&mut self.parked)
            .into_iter()
            .partition(|(of, from, _)| of == name && *from <= value);
        self.parked = parked;
        let ready: Vec<(String, u64, oneshot::Sender<u64>)> = ready;
        out.replies.extend(ready.into_iter().map(|(_, _, token)| (token, value)));
        value
    }
}

struct Empty;

impl Host<Counters> for Empty {
    fn machine(&self, _: u32, _: u32) -> Counters {
        Counters::default()
    }

    fn effect(&self, _: u32, effect: Infallible) {
        match effect {}
    }
}

/// A broker without threads: everything happens in `run`.
struct Node {
    coordinator: Coordinator<Counters>,
    clock: Arc<ManualClock>,
}

impl Node {
    fn open(volume: &MemVolume, mutant: Option<Mutant>) -> Option<Self> {
        Self::open_with(volume, |options| match mutant {
            Some(mutant) => options.mutant(mutant),
            None => options,
        })
    }

    fn open_with(volume: &MemVolume, set: impl FnOnce(EngineOptions) -> EngineOptions) -> Option<Self> {
        let clock = Arc::new(ManualClock::at(1_000));
        let options =
            EngineOptions::on(Arc::new(volume.clone())).clock(Arc::clone(&clock) as _).manual_commits();
        let engine = Engine::open(set(options)).ok()?;
        let options = CoordinatorOptions {
            threads: 0,
            journal_changes_bytes: 200,
            ..CoordinatorOptions::new(CoordinatorKind::Groups)
        };
        let node =
            Self { coordinator: Coordinator::open(&engine, &options, Arc::new(Empty)).unwrap(), clock };
        node.coordinator.run();
        Some(node)
    }

    fn start_add(&self, name: &str) -> Result<Pending<u64>, CoordinatorError> {
        self.coordinator.call(name, |counters, _, out| counters.add(name, out))
    }

    fn add(&self, name: &str) -> Result<u64, CoordinatorError> {
        let pending = self.start_add(name)?;
        self.coordinator.run();
        pending.wait()
    }

    fn get(&self, name: &str) -> Result<u64, CoordinatorError> {
        let pending =
            self.coordinator.call(name, |counters, _, _| counters.values.get(name).copied().unwrap_or(0))?;
        self.coordinator.run();
        pending.wait()
    }

    fn wait_a_second(&self) {
        self.clock.advance(1_000);
        self.coordinator.run();
    }
}

fn journal(volume: &MemVolume, name: &str) -> String {
    let dir = format!("cluster/groups/{:02}/", slot_of(name));
    let mut files: Vec<_> = volume.files().into_iter().filter(|file| file.starts_with(&dir)).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    files.remove(0)
}

/// What was asked for and what was acknowledged, by counter.
type History = BTreeMap<&'static str, (u64, u64)>;

/// Three lives; one slot's journal rolls in each.
fn workload(volume: &MemVolume, mutant: Option<Mutant>, history: &mut History) {
    for _ in 0..3 {
        let Some(node) = Node::open(volume, mutant) else { return };
        for round in 0..6 {
            for name in if round % 3 == 0 { &["a", "b"][..] } else { &["a"][..] } {
                let counted = history.entry(name).or_default();
                let Ok(pending) = node.start_add(name) else { continue };
                counted.0 += 1;
                node.coordinator.run();
                if let Ok(value) = pending.wait() {
                    counted.1 = value;
                }
            }
        }
    }
}

fn keeps(volume: &MemVolume) -> Vec<CrashKeep> {
    let changes = volume.unsynced_changes().min(5);
    let subsets = (0..1u64 << changes).map(CrashKeep::Mask);
    [CrashKeep::Nothing, CrashKeep::Everything]
        .into_iter()
        .chain(subsets)
        .chain((1..4).map(CrashKeep::Torn))
        .collect()
}

/// Every counter is between what was acknowledged and what was asked for; and it goes on from there.
fn check(volume: &MemVolume, history: &History) -> Result<(), String> {
    let mut seen = BTreeMap::new();
    for life in 0..2 {
        let node = Node::open(volume, None).ok_or("it does not open")?;
        for (name, (asked, acknowledged)) in history {
            let value = node.get(name).map_err(|error| format!("{name}: {error}"))?;
            if value < *acknowledged || value > asked + life {
                return Err(format!(
                    "{name} is {value}, {acknowledged} were acknowledged, {asked} asked for"
                ));
            }
            if *seen.entry(*name).or_insert(value) != value {
                return Err(format!("{name} was {} and is {value}", seen[name]));
            }
            let next = node.add(name).map_err(|error| format!("{name}: {error}"))?;
            seen.insert(name, next);
        }
    }
    Ok(())
}

fn crash_everywhere(mutant: Option<Mutant>) -> Result<u64, String> {
    for cut in 0.. {
        let volume = MemVolume::new();
        volume.crash_at(cut);
        let mut history = History::new();
        workload(&volume, mutant, &mut history);
        let crashed = volume.has_crashed();
        for keep in keeps(&volume) {
            check(&volume.after_crash(keep), &history)
                .map_err(|why| format!("cut at operation {cut}, kept {keep:?}: {why}"))?;
        }
        if !crashed {
            return Ok(cut);
        }
    }
    Ok(0)
}

#[test]
fn a_power_cut_at_any_operation_takes_nothing_back_that_was_answered() {
    let cuts = crash_everywhere(None).unwrap();
    assert!(cuts > 100, "{cuts}");
}

#[test]
fn answers_before_the_sync_and_names_that_are_not_durable_are_found() {
    for mutant in [Mutant::AckBeforeSync, Mutant::NoDirectorySync] {
        assert!(crash_everywhere(Some(mutant)).is_err(), "{mutant:?}");
    }
}

#[test]
fn an_answer_waits_for_the_changes_that_it_has_seen() {
    let volume = MemVolume::new();
    let node = Node::open(&volume, None).unwrap();
    let (token, mut parked) = oneshot::channel();
    let call = node.coordinator.call("a", |counters, _, _| counters.parked.push(("a".to_owned(), 2, token)));
    call.unwrap().wait().unwrap();
    let first = node.start_add("a").unwrap();
    let second = node.start_add("a").unwrap();
    let read = node.coordinator.call("a", |counters, _, _| counters.values["a"]).unwrap();
    assert!(parked.try_recv().is_err(), "it would have said what no disk knows");
    let syncs = volume.count(OpKind::Sync);
    node.coordinator.run();
    assert_eq!((first.wait(), second.wait(), read.wait()), (Ok(1), Ok(2), Ok(2)));
    assert_eq!(parked.try_recv(), Ok(2));
    assert_eq!(volume.count(OpKind::Sync), syncs + 1, "one write for all of them");
}

#[test]
fn a_failed_sync_answers_nobody_and_the_slot_is_loaded_again_under_a_new_epoch() {
    let volume = MemVolume::new();
    let node = Node::open(&volume, None).unwrap();
    assert_eq!(node.add("a"), Ok(1));
    let mut left = 1;
    volume.plan(move |op| {
        (op.kind == OpKind::Sync && std::mem::take(&mut left) == 1).then_some(Fault::Errno(5))
    });
    let (first, read) = (node.start_add("a").unwrap(), node.get("a"));
    assert_eq!((first.wait(), read), (Err(CoordinatorError::Moved), Err(CoordinatorError::Moved)));
    assert!(matches!(node.add("a"), Err(CoordinatorError::Unavailable(_))));
    node.wait_a_second();
    let value = node.get("a").unwrap();
    assert!((1..=2).contains(&value), "{value}");
    assert!(journal(&volume, "a").ends_with("/00000002-00000000.jsonl"));
    assert_eq!(node.add("a"), Ok(value + 1));
    check(&volume.after_crash(CrashKeep::Nothing), &History::from([("a", (3, value + 1))])).unwrap();
}

#[test]
fn a_full_disk_refuses_changes_and_is_over_when_there_is_room() {
    let volume = MemVolume::new();
    let node = Node::open(&volume, None).unwrap();
    assert_eq!(node.add("a"), Ok(1));
    volume.plan(|op| (op.kind == OpKind::Write).then_some(Fault::Errno(28)));
    assert_eq!(node.add("a"), Err(CoordinatorError::Moved));
    for _ in 0..5 {
        node.wait_a_second();
        assert!(matches!(node.get("a"), Err(CoordinatorError::Unavailable(_))));
    }
    journal(&volume, "a");
    volume.no_plan();
    node.wait_a_second();
    assert_eq!(node.get("a"), Ok(1));
    assert_eq!(node.add("a"), Ok(2));
}

#[test]
fn damage_in_what_was_synced_is_never_taken_for_an_empty_slot() {
    for victim in [0, 1, 2] {
        let volume = MemVolume::new();
        let node = Node::open(&volume, None).unwrap();
        (1..=3).for_each(|value| assert_eq!(node.add("a"), Ok(value)));
        drop(node);
        let path = journal(&volume, "a");
        volume
            .tamper(&path, |bytes| {
                let starts: Vec<usize> =
                    bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at).collect();
                bytes[starts[victim] - 5] ^= 1;
            })
            .unwrap();
        let before = volume.contents(&path).unwrap();
        let node = Node::open(&volume, None).unwrap();
        let refused = node.get("a");
        assert!(
            matches!(&refused, Err(CoordinatorError::Unavailable(why)) if why.contains("damaged")),
            "{refused:?}"
        );
        node.wait_a_second();
        assert_eq!(volume.contents(&path).unwrap(), before, "what cannot be read is left alone");
        // Other slots are served.
        assert_ne!(slot_of("a"), slot_of("b"));
        assert_eq!(node.add("b"), Ok(1));
    }
}

#[test]
fn the_only_file_without_its_beginning_is_damage_unless_it_is_the_first_ever() {
    let volume = MemVolume::new();
    Node::open(&volume, None).unwrap().add("a").unwrap();
    drop(Node::open(&volume, None).unwrap());
    let path = journal(&volume, "a");
    assert!(path.ends_with("/00000002-00000000.jsonl"));
    volume.tamper(&path, |bytes| bytes.truncate(bytes.len() - 1)).unwrap();
    let node = Node::open(&volume, None).unwrap();
    assert!(matches!(node.get("a"), Err(CoordinatorError::Unavailable(_))));
}

#[test]
fn an_audit_finds_every_changed_bit_of_a_journal() {
    let volume = MemVolume::new();
    {
        let node = Node::open(&volume, None).unwrap();
        (1..=4).for_each(|value| assert_eq!(node.add("a"), Ok(value)));
    }
    let worst = || {
        let mut kinds = Vec::new();
        let summary = audit(&volume, &mut |finding| kinds.push(finding.problem.kind())).unwrap();
        (summary.worst(), kinds)
    };
    let found = worst();
    assert_eq!(found.0, None, "{found:?}");
    let path = journal(&volume, "a");
    let bytes = volume.contents(&path).unwrap();
    let last_line = bytes[..bytes.len() - 1].iter().rposition(|byte| *byte == b'\n').unwrap() + 1;
    for at in 0..bytes.len() {
        volume.tamper(&path, |bytes| bytes[at] ^= 4).unwrap();
        let (severity, kinds) = worst();
        // What the last write says of itself cannot be told from a write that was interrupted.
        let expected = if at < last_line { Severity::Damage } else { Severity::Note };
        assert_eq!(severity, Some(expected), "byte {at}: {kinds:?}");
        volume.tamper(&path, |bytes| bytes[at] ^= 4).unwrap();
    }
    for (planted, severity, kind) in [
        ("cluster/groups/7", Severity::Warning, "unknown-name"),
        ("cluster/groups/07/notes", Severity::Warning, "unknown-name"),
        ("cluster/groups/07/00000009-00000000.jsonl", Severity::Damage, "state"),
    ] {
        let dir = planted.rsplit_once('/').unwrap().0;
        if dir != "cluster/groups" {
            let _ = volume.create_dir(dir);
        }
        volume.create_new(planted).unwrap();
        assert!(worst().1.contains(&kind), "{planted}");
        assert_eq!(worst().0, Some(severity));
    }
}

#[test]
fn nothing_is_answered_once_the_fence_has_fallen() {
    #[derive(Debug)]
    struct Falls(std::sync::atomic::AtomicBool);
    impl Fence for Falls {
        fn check(&self) -> Result<(), Fenced> {
            if self.0.load(std::sync::atomic::Ordering::SeqCst) { Err(Fenced) } else { Ok(()) }
        }
    }
    let volume = MemVolume::new();
    let fence = Arc::new(Falls(false.into()));
    let node = Node::open_with(&volume, |options| options.fence(Arc::clone(&fence) as _)).unwrap();
    assert_eq!(node.add("a"), Ok(1));
    fence.0.store(true, std::sync::atomic::Ordering::SeqCst);
    assert_eq!(node.add("a"), Err(CoordinatorError::Moved));
    assert_eq!(node.get("a"), Err(CoordinatorError::Moved));
}

#[test]
fn timeouts_come_when_they_are_due_and_their_changes_are_durable() {
    let volume = MemVolume::new();
    let node = Node::open(&volume, None).unwrap();
    node.add("a").unwrap();
    node.coordinator
        .call_now("a", |counters, now, _| counters.alarm = Some(now.mono + Duration::from_millis(1_500)))
        .unwrap();
    node.wait_a_second();
    assert_eq!(node.get("a"), Ok(1));
    node.wait_a_second();
    assert_eq!(node.get("a"), Ok(2));
    assert_eq!(node.coordinator.next_deadline(), None);
    check(&volume.after_crash(CrashKeep::Nothing), &History::from([("a", (2, 2))])).unwrap();
}

#[test]
fn threads_load_write_and_tick_by_themselves() {
    let volume = MemVolume::new();
    let engine = Engine::open(EngineOptions::on(Arc::new(volume.clone()))).unwrap();
    let options = CoordinatorOptions::new(CoordinatorKind::Transactions);
    let open = || Coordinator::<Counters>::open(&engine, &options, Arc::new(Empty)).unwrap();
    let coordinator = open();
    let call = |coordinator: &Coordinator<Counters>, name: &str| loop {
        match coordinator.call(name, |counters, _, out| counters.add(name, out)) {
            Err(CoordinatorError::Loading) => std::thread::yield_now(),
            called => return called.unwrap().wait().unwrap(),
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for n in 0..50 {
                    call(&coordinator, &format!("counter {}", n % 7));
                }
            });
        }
    });
    let (token, parked) = oneshot::channel();
    let park = coordinator.call("counter 0", |counters, now, _| {
        counters.parked.push(("counter 0".to_owned(), 33, token));
        counters.alarm = Some(now.mono);
    });
    park.unwrap().wait().unwrap();
    // 8 rounds of four threads, and then the alarm.
    assert_eq!(parked.blocking_recv(), Ok(33));
    coordinator.close();
    assert!(matches!(coordinator.call("x", |_, _, _| ()), Err(CoordinatorError::Moved)));
    let coordinator = open();
    assert_eq!(call(&coordinator, "counter 0"), 34);
    assert!(volume.list("cluster/transactions").unwrap().len() >= 5);
}
