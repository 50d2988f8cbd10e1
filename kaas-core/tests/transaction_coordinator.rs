//! Random histories of a slot of transactional ids: whatever is asked, lost and loaded again, no transaction is half
//! decided, none stays open, and no producer that was replaced gets anything done.
#![allow(clippy::unwrap_used)]

#[path = "support/histories.rs"]
mod histories;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use histories::histories;
use kaas_core::coordinator::{Machine, Now, Outbox};
use kaas_core::transaction::{
    Config, Entry, InitProducerId, Initialized, ProducerIdentity, Slot, State, TransactionError, WriteMarkers,
};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

const CLIENTS: usize = 5;
const IDS: [&str; 2] = ["t", "u"];
const TOPIC: &str = "a";
const PARTITIONS: i32 = 3;
const TIMEOUT_MS: i32 = 1000;

#[derive(Debug, Clone, Copy)]
enum Step {
    /// A client asks for a producer: as a new one, or going on with what it has.
    Init(usize, bool),
    Add(usize, i32),
    End(usize, bool),
    /// Everything so far is durable: answers and effects leave.
    Sync,
    /// One marker is written and reported by the driver of this number.
    Mark(usize),
    Pass(u64),
    /// The slot is lost with some of what was not durable, and perhaps the drivers; another one is loaded.
    Crash(usize, bool),
    /// The journal is replaced by a snapshot.
    Compact,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let client = 0..CLIENTS;
    let step = prop_oneof![
        4 => (client.clone(), any::<bool>()).prop_map(|(client, going_on)| Step::Init(client, going_on)),
        8 => (client.clone(), 0..PARTITIONS).prop_map(|(client, at)| Step::Add(client, at)),
        5 => (client, any::<bool>()).prop_map(|(client, commit)| Step::End(client, commit)),
        8 => Just(Step::Sync),
        8 => (0..4usize).prop_map(Step::Mark),
        2 => (0..700u64).prop_map(Step::Pass),
        2 => (0..4usize, any::<bool>()).prop_map(|(lost, drivers)| Step::Crash(lost, drivers)),
        1 => Just(Step::Compact),
    ];
    prop::collection::vec(step, 1..120)
}

/// One transaction as a client sees it.
type Transaction = (ProducerIdentity, u64);

#[derive(Debug, Clone, Default)]
struct Client {
    producer: Option<ProducerIdentity>,
    /// Transactions that it has ended.
    serial: u64,
    /// How it has asked for the transaction to end. It asks for nothing else before it has an answer.
    ending: Option<bool>,
}

#[derive(Debug, Clone, Copy)]
enum Answer {
    Producer(ProducerIdentity),
    Added(i32),
    Ended(bool),
}

/// An answer that waits for the journal.
struct Waiting {
    client: usize,
    producer: Option<ProducerIdentity>,
    serial: u64,
    /// The newest producer of the id that anyone knew of when the call was made.
    newest_known: Option<ProducerIdentity>,
    answer: Answer,
}

/// What a partition knows of a producer id.
#[derive(Default)]
struct Logged {
    coordinator_epoch: i32,
    open: Option<Transaction>,
}

struct Driver {
    effect: WriteMarkers,
    left: Vec<i32>,
}

struct World {
    slot: Slot,
    coordinator_epoch: i32,
    now: Now,
    journal: Vec<String>,
    durable: usize,
    waiting: Vec<Waiting>,
    effects: Vec<WriteMarkers>,
    drivers: Vec<Driver>,
    clients: Vec<Client>,
    next_producer_id: i64,
    /// The newest producer that anyone was told of, by id, and who that was.
    granted: BTreeMap<&'static str, (ProducerIdentity, usize)>,
    partitions: BTreeMap<(i32, i64), Logged>,
    /// How transactions ended: by the answer to EndTxn, and by each of their markers.
    outcomes: BTreeMap<Transaction, bool>,
}

fn id_of(client: usize) -> &'static str {
    IDS[client % IDS.len()]
}

fn load(journal: &[String], coordinator_epoch: i32) -> Slot {
    let mut slot = Slot::new(Config { timeout_max_ms: TIMEOUT_MS, ..Config::default() }, coordinator_epoch);
    for line in journal {
        slot.replay(serde_json::from_str(line).unwrap());
    }
    slot
}

fn lines(entries: &[Entry]) -> Vec<String> {
    entries.iter().map(|entry| serde_json::to_string(entry).unwrap()).collect()
}

impl World {
    fn new() -> Self {
        let now = Now { wall_ms: 1_700_000_000_000, mono: Duration::from_secs(1) };
        let mut world = Self {
            slot: load(&[], 1),
            coordinator_epoch: 1,
            now,
            journal: Vec::new(),
            durable: 0,
            waiting: Vec::new(),
            effects: Vec::new(),
            drivers: Vec::new(),
            clients: vec![Client::default(); CLIENTS],
            next_producer_id: 0,
            granted: BTreeMap::new(),
            partitions: BTreeMap::new(),
            outcomes: BTreeMap::new(),
        };
        world.call(|slot, now, out| slot.loaded(now, out));
        world
    }

    fn call<T>(&mut self, call: impl FnOnce(&mut Slot, Now, &mut Outbox<Slot>) -> T) -> T {
        let mut out = Outbox::default();
        let answer = call(&mut self.slot, self.now, &mut out);
        self.journal.extend(lines(&out.entries));
        self.effects.extend(out.effects);
        answer
    }

    fn wait(&mut self, client: usize, answer: Answer) {
        let Client { producer, serial, .. } = self.clients[client];
        let newest_known = self.granted.get(id_of(client)).map(|(producer, _)| *producer);
        self.waiting.push(Waiting { client, producer, serial, newest_known, answer });
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Init(client, going_on) => self.init(client, going_on),
            Step::Add(client, partition) => {
                let Client { producer: Some(producer), ending: None, .. } = self.clients[client] else {
                    return;
                };
                let partitions = [(TOPIC.to_owned(), partition)];
                let added = self.call(|slot, now, out| {
                    slot.add_partitions(id_of(client), producer, &partitions, now, out)
                });
                if added.is_ok() {
                    self.wait(client, Answer::Added(partition));
                }
            }
            Step::End(client, commit) => {
                let Client { producer: Some(producer), ending, .. } = self.clients[client] else { return };
                let commit = ending.unwrap_or(commit);
                self.clients[client].ending = Some(commit);
                match self.call(|slot, now, out| slot.end(id_of(client), producer, commit, now, out)) {
                    Ok(()) => self.wait(client, Answer::Ended(commit)),
                    Err(TransactionError::InvalidTransactionState) => self.clients[client].ending = None,
                    Err(_) => {}
                }
            }
            Step::Sync => self.sync(),
            Step::Mark(number) => self.mark(number),
            Step::Pass(ms) => {
                self.now.mono += Duration::from_millis(ms);
                self.now.wall_ms += i64::try_from(ms).unwrap();
                self.call(|slot, now, out| slot.tick(now, out));
                assert!(self.slot.deadline().is_none_or(|deadline| deadline > self.now.mono));
            }
            Step::Crash(lost, with_drivers) => self.crash(lost, with_drivers),
            Step::Compact => {
                self.sync();
                self.journal = lines(&self.slot.snapshot());
                self.durable = self.journal.len();
            }
        }
        let snapshot = lines(&self.slot.snapshot());
        assert_eq!(lines(&load(&self.journal, 0).snapshot()), snapshot, "the entries repeat the changes");
        assert_eq!(lines(&load(&snapshot, 0).snapshot()), snapshot, "a snapshot is the state");
    }

    fn init(&mut self, client: usize, going_on: bool) {
        let current = self.clients[client].producer.filter(|_| going_on);
        let request = InitProducerId { transactional_id: id_of(client), timeout_ms: TIMEOUT_MS, current };
        let mut fresh = None;
        loop {
            match self.call(|slot, now, out| slot.init_producer_id(request, fresh, now, out)) {
                Ok(Initialized::Producer(producer)) => {
                    return self.wait(client, Answer::Producer(producer));
                }
                Ok(Initialized::NeedsProducerId) => {
                    assert_eq!(fresh, None, "asked twice");
                    fresh = Some(self.next_producer_id);
                    self.next_producer_id += 1;
                }
                Err(TransactionError::ConcurrentTransactions | TransactionError::ProducerFenced) => return,
                Err(error) => panic!("{error:?}"),
            }
        }
    }

    fn sync(&mut self) {
        self.durable = self.journal.len();
        for effect in std::mem::take(&mut self.effects) {
            let left = effect.partitions.iter().map(|(_, partition)| partition).collect();
            self.drivers.push(Driver { effect, left });
        }
        for waiting in std::mem::take(&mut self.waiting) {
            self.answer(&waiting);
        }
    }

    fn answer(&mut self, waiting: &Waiting) {
        let id = id_of(waiting.client);
        match waiting.answer {
            Answer::Producer(producer) => {
                if let Some((newest, owner)) = self.granted.get(id) {
                    let same = producer == *newest && waiting.client == *owner;
                    // An answer that is older than another one may arrive after it, but only to a client that asked before that.
                    let late = producer < *newest && waiting.newest_known < Some(*newest);
                    assert!(producer > *newest || same || late, "{producer:?} after {newest:?}");
                }
                let newest = self.granted.entry(id).or_insert((producer, waiting.client));
                *newest = (*newest).max((producer, waiting.client));
                self.clients[waiting.client] = Client { producer: Some(producer), ..Client::default() };
            }
            Answer::Added(partition) => {
                let producer = waiting.producer.unwrap();
                assert!(waiting.newest_known <= Some(producer), "a fenced producer added a partition");
                self.produce(waiting, producer, partition);
            }
            Answer::Ended(commit) => {
                let producer = waiting.producer.unwrap();
                assert!(waiting.newest_known <= Some(producer), "a fenced producer ended a transaction");
                self.decided((producer, waiting.serial), commit);
                let client = &mut self.clients[waiting.client];
                if client.producer == Some(producer) && client.serial == waiting.serial {
                    client.serial += 1;
                    client.ending = None;
                }
            }
        }
    }

    /// A record of the client's transaction, if the partition is told that it belongs to it.
    fn produce(&mut self, waiting: &Waiting, producer: ProducerIdentity, partition: i32) {
        let client = &self.clients[waiting.client];
        let goes_on = client.producer == Some(producer) && client.serial == waiting.serial;
        let verified = self.slot.verify_partition(id_of(waiting.client), producer, TOPIC, partition);
        if goes_on && verified.is_ok() {
            let log = self.partitions.entry((partition, producer.producer_id)).or_default();
            assert!(log.open.is_none_or(|open| open == (producer, waiting.serial)), "{:?} is open", log.open);
            log.open = Some((producer, waiting.serial));
        }
    }

    fn decided(&mut self, transaction: Transaction, commit: bool) {
        let before = *self.outcomes.entry(transaction).or_insert(commit);
        assert_eq!(before, commit, "{transaction:?} is decided twice");
    }

    fn mark(&mut self, number: usize) {
        if self.drivers.is_empty() {
            return;
        }
        let number = number % self.drivers.len();
        let Some(partition) = self.drivers[number].left.pop() else {
            self.drivers.remove(number);
            return;
        };
        let effect = self.drivers[number].effect.clone();
        let WriteMarkers { decision, producer, commit, .. } = effect;
        let log = self.partitions.entry((partition, producer.producer_id)).or_default();
        if decision.coordinator_epoch < log.coordinator_epoch {
            return;
        }
        log.coordinator_epoch = decision.coordinator_epoch;
        if let Some(transaction) = log.open.take() {
            assert!(transaction.0 <= producer);
            self.decided(transaction, commit);
        }
        self.call(|slot, now, out| slot.marker_written(&decision, TOPIC, partition, now, out));
    }

    fn crash(&mut self, lost: usize, with_drivers: bool) {
        let kept = self.journal.len().saturating_sub(lost).max(self.durable);
        self.journal.truncate(kept);
        self.durable = kept;
        self.waiting.clear();
        self.effects.clear();
        if with_drivers {
            self.drivers.clear();
        }
        self.coordinator_epoch += 1;
        self.slot = load(&self.journal, self.coordinator_epoch);
        self.call(|slot, now, out| slot.loaded(now, out));
    }

    fn statuses(&self) -> BTreeSet<State> {
        let snapshot = self.slot.snapshot();
        snapshot.into_iter().filter_map(|entry| entry.state).map(|state| state.status).collect()
    }

    /// Nothing more is asked for: everything comes to its end.
    fn finish(&mut self) {
        for round in 0..2 {
            self.step(Step::Sync);
            while !self.drivers.is_empty() {
                self.step(Step::Mark(0));
            }
            assert!(!self.statuses().iter().any(|status| status.is_prepared()), "markers are still owed");
            if round == 0 {
                self.step(Step::Pass(TIMEOUT_MS.unsigned_abs().into()));
            }
        }
        assert!(self.statuses().iter().all(|status| status.is_idle()));
        let open = |(at, log): (&(i32, i64), &Logged)| log.open.map(|open| (*at, open));
        assert_eq!(self.partitions.iter().filter_map(open).next(), None, "a transaction is open for ever");
    }
}

#[test]
fn every_transaction_has_one_outcome_and_comes_to_it() {
    let check = |steps: Vec<Step>| {
        let mut world = World::new();
        for step in steps {
            world.step(step);
        }
        world.finish();
        Ok(())
    };
    TestRunner::new(histories(300)).run(&steps(), check).unwrap();
}
