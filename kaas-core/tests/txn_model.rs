//! Random histories of transactions against a naive interpretation of the same log.
#![allow(clippy::unwrap_used)]

#[path = "support/histories.rs"]
mod histories;
#[path = "support/sound.rs"]
mod sound;
#[path = "support/txn.rs"]
mod txn;

use std::sync::Arc;

use histories::histories;
use kaas_core::record::TxnOutcome;
use kaas_core::volume::{CrashKeep, Fault, MemVolume, OpKind, Volume};
use kaas_core::{
    AbortedTxn, AppendError, Engine, EngineOptions, LogConfig, Mutant, Partition, PendingAppend, ReadError,
    TopicSpec,
};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

const PRODUCERS: i64 = 4;
const EIO: i32 = 5;
const ENOSPC: i32 = 28;

#[derive(Debug, Clone, Copy)]
enum Act {
    /// A record of this producer, in a transaction or not.
    Send(i64, bool),
    /// A marker for this producer: commit or abort, and whether it also raises the epoch.
    End(i64, bool, bool),
}

#[derive(Debug, Clone)]
enum Step {
    /// Appends that are committed together.
    Append(Vec<Act>),
    /// As `Append`, but the disk is full, or the sync fails.
    Lose(Vec<Act>, bool),
    Read(i64, usize),
    Kill,
    Close,
    Crash(u64),
    /// Closes, then changes a bit of (or cuts, or removes) one index file, and opens again.
    Damage(u64),
    DeleteRecords(i64),
    /// Segments below the log start go.
    Retain,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let act = prop_oneof![
        4 => (0..PRODUCERS, prop::bool::weighted(0.8)).prop_map(|(id, txn)| Act::Send(id, txn)),
        2 => (0..PRODUCERS, any::<bool>(), prop::bool::weighted(0.2))
            .prop_map(|(id, commit, bump)| Act::End(id, commit, bump)),
    ];
    let acts = prop::collection::vec(act, 1..6);
    let step = prop_oneof![
        12 => acts.clone().prop_map(Step::Append),
        1 => (acts, any::<bool>()).prop_map(|(acts, full)| Step::Lose(acts, full)),
        6 => (0..150i64, 0..900usize).prop_map(|(offset, bytes)| Step::Read(offset, bytes)),
        1 => Just(Step::Kill),
        1 => Just(Step::Close),
        1 => any::<u64>().prop_map(Step::Crash),
        2 => any::<u64>().prop_map(Step::Damage),
        1 => (0..150i64).prop_map(Step::DeleteRecords),
        1 => Just(Step::Retain),
    ];
    prop::collection::vec(step, 1..45)
}

#[derive(Debug, Clone)]
enum Entry {
    Data { id: i64, transactional: bool, value: String },
    Marker { id: i64, commit: bool },
}

#[derive(Debug, Clone, Copy, Default)]
struct ModelProducer {
    epoch: i16,
    next_sequence: i32,
    in_txn: bool,
}

/// The log as a list with one entry an offset; every question is answered by looking through all of it.
#[derive(Clone, Default)]
struct Model {
    log: Vec<Entry>,
    producers: [ModelProducer; PRODUCERS as usize],
    start: i64,
    stable: i64,
}

impl Model {
    fn entries(&self) -> impl DoubleEndedIterator<Item = (i64, &Entry)> {
        (0..).zip(&self.log).collect::<Vec<_>>().into_iter()
    }

    /// How the transaction that the record at `offset` belongs to ended, and where.
    fn decision(&self, id: i64, offset: i64) -> Option<(i64, bool)> {
        self.entries().find_map(|(at, entry)| match entry {
            Entry::Marker { id: other, commit } if at > offset && *other == id => Some((at, *commit)),
            _ => None,
        })
    }

    fn last_stable(&self) -> i64 {
        let undecided = self.entries().find_map(|(at, entry)| match entry {
            Entry::Data { id, transactional: true, .. } => self.decision(*id, at).is_none().then_some(at),
            _ => None,
        });
        undecided.map_or(self.log.len() as i64, |first| first.max(self.start))
    }

    fn visible(&self, from: i64) -> Vec<(i64, String)> {
        let end = self.last_stable();
        let shown = |(at, entry): (i64, &Entry)| match entry {
            Entry::Data { id, transactional, value } if (from..end).contains(&at) => {
                let counts = !transactional || self.decision(*id, at).unwrap().1;
                counts.then(|| (at, value.clone()))
            }
            _ => None,
        };
        self.entries().filter_map(shown).collect()
    }

    /// The aborted transactions whose marker is not before `from`, in the order of their markers.
    fn aborted(&self, from: i64) -> Vec<Aborted> {
        let mut found = Vec::new();
        for (marker, entry) in self.entries().filter(|(at, _)| *at >= from) {
            let Entry::Marker { id, commit: false } = entry else { continue };
            let since = self.entries().rev().find_map(|(before, entry)| match entry {
                Entry::Marker { id: other, .. } if before < marker && other == id => Some(before),
                _ => None,
            });
            let is_its_own = |(data, entry): (i64, &Entry)| match entry {
                Entry::Data { id: other, transactional: true, .. } => {
                    (other == id && data < marker && since.is_none_or(|since| data > since)).then_some(data)
                }
                _ => None,
            };
            let data: Vec<i64> = self.entries().filter_map(is_its_own).collect();
            if let Some(first) = data.first().copied() {
                let left = data.into_iter().find(|data| *data >= self.start);
                found.push(Aborted { id: *id, first, left, marker });
            }
        }
        found
    }
}

/// An aborted transaction: its first record, and the first that is left of it above the log start.
#[derive(Debug, Clone, Copy)]
struct Aborted {
    id: i64,
    first: i64,
    left: Option<i64>,
    marker: i64,
}

impl Aborted {
    /// Whether what was listed is this one. When its first records are gone it may begin at any that was left.
    fn is(&self, listed: &AbortedTxn) -> bool {
        (listed.producer_id, listed.last_offset) == (self.id, self.marker)
            && (self.first..=self.left.unwrap_or(self.marker)).contains(&listed.first_offset)
    }
}

struct Subject {
    volume: MemVolume,
    engine: Engine,
    partition: Arc<Partition>,
    mutant: Option<Mutant>,
}

fn options(volume: &MemVolume, mutant: Option<Mutant>) -> EngineOptions {
    let config =
        LogConfig { segment_bytes: 700, index_interval_bytes: 90, retention_ms: -1, ..LogConfig::default() };
    let options = EngineOptions::on(Arc::new(volume.clone()))
        .resolve(move |_| config.clone())
        .checkpoint_bytes(400)
        .sync_parallelism(0);
    match mutant {
        Some(mutant) => options.mutant(mutant),
        None => options,
    }
}

impl Subject {
    fn new(mutant: Option<Mutant>) -> Self {
        let volume = MemVolume::new();
        let engine = Engine::open(options(&volume, mutant)).unwrap();
        let topic = engine.create_topic(TopicSpec::new("t", 1)).unwrap();
        Self { volume, engine, partition: Arc::clone(&topic.partitions[0]), mutant }
    }

    fn reopen(self, volume: MemVolume) -> Self {
        drop(self.engine);
        assert_eq!(sound::damage(&volume).filter(|_| self.mutant.is_none()), None);
        let engine = Engine::open(options(&volume, self.mutant)).unwrap();
        let partition = Arc::clone(&engine.topics().by_name("t").unwrap().partitions[0]);
        Self { volume, engine, partition, ..self }
    }

    fn step(self, step: &Step, model: &mut Model) -> Result<Self, TestCaseError> {
        match step {
            Step::Append(acts) => {
                let held = self.engine.hold_commits();
                let pending: Vec<_> = acts.iter().filter_map(|act| self.act(*act, model)).collect();
                drop(held);
                for (offset, pending) in pending {
                    prop_assert_eq!(pending.wait().unwrap().base_offset, offset);
                }
            }
            Step::Lose(acts, full) => self.lose(acts, *full, &mut model.clone()),
            Step::Read(offset, bytes_max) => self.read(*offset, *bytes_max, model)?,
            Step::Kill => {
                let volume = self.volume.clone();
                return Ok(self.reopen(volume));
            }
            Step::Close => {
                self.engine.close().unwrap();
                let volume = self.volume.clone();
                return Ok(self.reopen(volume));
            }
            Step::Crash(seed) => {
                drop(self.engine.hold_commits());
                let keep = if seed % 2 == 0 { CrashKeep::Nothing } else { CrashKeep::Torn(*seed) };
                let volume = self.volume.after_crash(keep);
                return Ok(self.reopen(volume));
            }
            Step::Damage(seed) => {
                self.engine.close().unwrap();
                let volume = self.volume.clone();
                damage(&volume, *seed);
                return Ok(self.reopen(volume));
            }
            Step::Retain => self.engine.apply_retention(),
            Step::DeleteRecords(offset) => {
                let end = model.log.len() as i64;
                if let Ok(start) = self.partition.delete_records(*offset) {
                    prop_assert!(*offset <= end);
                    model.start = model.start.max(*offset);
                    prop_assert_eq!(start, model.start);
                }
            }
        }
        Ok(self)
    }

    /// Appends one entry if the model says that it is right, and expects a refusal if it says that it is wrong.
    fn act(&self, act: Act, model: &mut Model) -> Option<(i64, PendingAppend)> {
        let offset = model.log.len() as i64;
        match act {
            Act::Send(id, transactional) => {
                let known = &mut model.producers[id as usize];
                let value = format!("{id}:{offset}");
                let batch = txn::record(id, known.epoch, known.next_sequence, transactional, &value);
                let appended = txn::send(&self.partition, batch);
                if known.in_txn && !transactional {
                    assert!(matches!(appended, Err(AppendError::InvalidTransactionState)));
                    return None;
                }
                known.in_txn |= transactional;
                known.next_sequence += 1;
                model.log.push(Entry::Data { id, transactional, value });
                Some((offset, appended.unwrap()))
            }
            Act::End(id, commit, bump) => {
                let known = &mut model.producers[id as usize];
                if bump {
                    known.epoch += 1;
                    known.next_sequence = 0;
                }
                known.in_txn = false;
                let outcome = if commit { TxnOutcome::Commit } else { TxnOutcome::Abort };
                let ended = txn::end(&self.partition, id, known.epoch, 0, outcome).unwrap();
                model.log.push(Entry::Marker { id, commit });
                Some((offset, ended))
            }
        }
    }

    /// Appends that fail: the log goes on as if they had never been tried.
    fn lose(&self, acts: &[Act], full: bool, forgotten: &mut Model) {
        let mut done = false;
        self.volume.plan(move |op| {
            let kind = if full { OpKind::Write } else { OpKind::Sync };
            let hit = !done && op.kind == kind && op.path.ends_with(".log");
            done |= hit;
            hit.then_some(Fault::Errno(if full { ENOSPC } else { EIO }))
        });
        let held = self.engine.hold_commits();
        let pending: Vec<_> = acts.iter().filter_map(|act| self.act(*act, forgotten)).collect();
        drop(held);
        let lost = pending.into_iter().all(|(_, pending)| pending.wait().is_err());
        assert!(lost, "nothing of a failed group is acknowledged");
        self.volume.no_plan();
        // Whatever follows the failure is over when the loop can be held again.
        drop(self.engine.hold_commits());
    }

    fn read(&self, offset: i64, bytes_max: usize, model: &Model) -> Result<(), TestCaseError> {
        let data = match txn::fetch(&self.partition, txn::committed(offset, bytes_max)) {
            Ok(data) => data,
            Err(ReadError::OffsetOutOfRange(_)) => {
                prop_assert!(offset < model.start || offset > model.log.len() as i64);
                return Ok(());
            }
            Err(error) => panic!("{error}"),
        };
        prop_assert_eq!(data.last_stable, model.last_stable());
        let batches = txn::batches(&data);
        let Some((last, _)) = batches.last() else {
            prop_assert!(offset >= model.last_stable());
            return Ok(());
        };
        prop_assert!(last.next_offset() <= model.last_stable());
        // All that overlap what came and have a record left to hide; and nothing but what overlaps it or what follows.
        let mut possible = model.aborted(offset).into_iter();
        let mut due = model.aborted(offset);
        due.retain(|txn| txn.left.is_some_and(|left| left < last.next_offset()));
        for listed in &data.aborted {
            prop_assert!(listed.first_offset < model.last_stable());
            prop_assert!(possible.any(|txn| txn.is(listed)), "{listed:?} is wrong or out of order");
            due.retain(|txn| !txn.is(listed));
        }
        prop_assert!(due.is_empty(), "{due:?} not listed");
        Ok(())
    }

    /// What must hold after every step.
    fn settled(&self, model: &mut Model) -> Result<(), TestCaseError> {
        let offsets = self.partition.offsets();
        prop_assert_eq!(offsets.high_watermark, model.log.len() as i64);
        prop_assert_eq!(offsets.last_stable, model.last_stable());
        prop_assert!(offsets.last_stable >= model.stable, "the last stable offset went back");
        model.stable = offsets.last_stable;
        for (id, known) in (0..).zip(&model.producers) {
            let active = self.partition.active_producers();
            let Some(shown) = active.iter().find(|shown| shown.producer_id == id) else {
                prop_assert!(known.next_sequence == 0 && known.epoch == 0);
                continue;
            };
            prop_assert_eq!(shown.txn_first_offset.is_some(), known.in_txn);
            prop_assert_eq!(
                (shown.producer_epoch, shown.last_sequence),
                (known.epoch, known.next_sequence - 1)
            );
        }
        Ok(())
    }
}

fn damage(volume: &MemVolume, seed: u64) {
    let is_index = |path: &String| path.ends_with("index");
    let files: Vec<String> = volume.files().into_iter().filter(is_index).collect();
    let Some(path) = files.get(seed as usize % files.len().max(1)) else { return };
    let turn = (seed >> 8) as usize;
    volume
        .tamper(path, |bytes| match seed >> 60 {
            0 => bytes.truncate(turn % (bytes.len() + 1)),
            1 => bytes.clear(),
            2 => bytes.extend_from_slice(b"more"),
            _ if bytes.is_empty() => {}
            bit => {
                let at = turn % bytes.len();
                bytes[at] ^= 1 << (bit % 8);
            }
        })
        .unwrap();
}

fn run(steps: &[Step], mutant: Option<Mutant>) -> Result<(), TestCaseError> {
    let mut model = Model::default();
    let mut subject = Subject::new(mutant);
    for step in steps {
        subject = subject.step(step, &mut model)?;
        subject.settled(&mut model)?;
    }
    for bytes_max in [1, 300, 1 << 20] {
        prop_assert_eq!(
            txn::consume(&subject.partition, model.start, bytes_max).unwrap(),
            model.visible(model.start)
        );
    }
    Ok(())
}

proptest! {
    #![proptest_config(histories(300))]

    #[test]
    fn committed_transactions_are_seen_whole_and_nothing_else(steps in steps()) {
        run(&steps, None)?;
    }
}

/// Whether some history shows the bug.
#[test]
fn trusting_an_index_without_a_check_is_noticed() {
    let config = ProptestConfig { max_shrink_iters: 0, ..histories(3000) };
    let survived = TestRunner::new(config).run(&steps(), |steps| {
        std::panic::catch_unwind(|| run(&steps, Some(Mutant::IndexTrusted)))
            .unwrap_or_else(|_| Err(TestCaseError::fail("panicked")))
    });
    assert!(survived.is_err(), "the mutant survived");
}

#[test]
fn an_offset_that_has_rotted_is_an_error_for_readers_of_transactions() {
    let mut model = Model::default();
    let subject = Subject::new(None);
    let acts = (0..30).map(|n| if n % 3 == 2 { Act::End(0, false, false) } else { Act::Send(0, true) });
    for act in acts {
        subject.act(act, &mut model).unwrap().1.wait().unwrap();
    }
    subject.engine.close().unwrap();
    let volume = subject.volume.clone();
    for path in volume.files().iter().filter(|path| path.ends_with(".txnindex")) {
        volume.remove_file(path).unwrap();
    }
    let log = volume.files().into_iter().find(|path| path.ends_with(".log")).unwrap();
    // The second batch's, so that a read of the first finds nothing wrong with what it returns.
    let second = 12 + i32::from_be_bytes(volume.contents(&log).unwrap()[8..12].try_into().unwrap()) as usize;
    volume.tamper(&log, |bytes| bytes[second + 5] ^= 0x10).unwrap();
    let engine = Engine::open(options(&volume, None)).unwrap();
    let partition = &engine.topics().by_name("t").unwrap().partitions[0];
    let read = txn::fetch(partition, txn::committed(0, 1 << 20));
    assert!(matches!(read, Err(ReadError::Damaged { .. })), "{read:?}");
}

/// Histories that failed once.
#[test]
fn producers_are_remembered_when_a_segment_goes_that_a_failed_sync_closed() {
    let send = |id| Step::Append(vec![Act::Send(id, false)]);
    let failed_sync = Step::Lose(vec![Act::Send(0, false)], false);
    for end in [Step::Crash(0), Step::Kill, Step::Close] {
        let go_on = [failed_sync.clone(), send(1), end.clone(), send(0), Step::Kill, send(0)];
        run(&[&[send(0), send(0), Step::DeleteRecords(2)], &go_on[..]].concat(), None).unwrap();
        let removed = [failed_sync.clone(), Step::Retain, end.clone(), send(0), Step::Kill, send(0)];
        run(&[&[send(0), send(0), Step::DeleteRecords(2)], &removed[..]].concat(), None).unwrap();
        let at_once = [failed_sync.clone(), end, send(0), Step::Kill, Step::Kill, send(0)];
        run(&[&[send(0), send(0), Step::DeleteRecords(2)], &at_once[..]].concat(), None).unwrap();
    }
}
