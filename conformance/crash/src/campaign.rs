//! A campaign: load, crash, restart, compare, and again.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kaas_test_client::{Client, Random};

use crate::broker::{Broker, Program};
use crate::consumer;
use crate::coordination::{Coordination, TRANSFER_PARTITIONS, TRANSFERS};
use crate::disk::Disk;
use crate::ledger::{Ledger, Violation};
use crate::producer::{Producer, Stopped};
use crate::{PARTITIONS, TOPIC};

/// Producers that write at the same time.
const PRODUCERS: u32 = 4;
/// The longest time between a start and its crash.
const LIFE_MAX: Duration = Duration::from_millis(400);

/// What crashes.
pub(crate) enum Crash {
    /// The process.
    Kill(PathBuf),
    /// The power.
    Power(Box<Disk>),
}

impl Crash {
    fn folder(&self) -> PathBuf {
        match self {
            Crash::Kill(folder) => folder.clone(),
            Crash::Power(disk) => disk.folder(),
        }
    }

    /// Whether the dying system may say what is not so.
    fn lies(&self) -> bool {
        matches!(self, Crash::Power(_))
    }

    /// Crashes; afterwards the folder holds what a restarted machine would find.
    fn happen(&mut self, broker: &mut Broker) -> anyhow::Result<()> {
        match self {
            Crash::Kill(_) => broker.kill(),
            Crash::Power(disk) => {
                disk.cut()?;
                broker.kill()?;
                disk.restore()
            }
        }
    }
}

/// What a campaign found.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// Crashes that happened.
    pub(crate) crashes: usize,
    /// Records that were acknowledged.
    pub(crate) acknowledged: usize,
    /// Transactions that were committed.
    pub(crate) transactions: usize,
    /// The longest time from a start to its readiness.
    pub(crate) slowest_start: Duration,
    /// Promises that were broken.
    pub(crate) violations: Vec<Violation>,
}

/// Runs `count` crashes, or fewer when a promise is broken.
pub(crate) fn run(program: &Program, crash: &mut Crash, count: usize, seed: u64) -> anyhow::Result<Outcome> {
    let ledger = Ledger::new(PARTITIONS);
    let mut producers: Vec<Producer> =
        (0..PRODUCERS).map(|number| Producer::new(number, PARTITIONS, seed)).collect();
    let mut coordination = Coordination::new(seed);
    let mut random = Random::new(seed);
    let mut outcome = Outcome::default();
    for round in 0..count {
        let mut broker = start(program, &crash.folder(), &mut outcome)?;
        if round == 0 {
            let mut client = Client::connect(broker.address)?;
            client.create_topic(TOPIC, PARTITIONS as i32)?;
            client.create_topic(TRANSFERS, TRANSFER_PARTITIONS)?;
        }
        outcome.violations = compare(&broker, &ledger)?;
        outcome.violations.extend(coordination.check(broker.address)?);
        if !outcome.violations.is_empty() {
            break;
        }
        let life = Duration::from_millis(random.below(LIFE_MAX.as_millis() as u64));
        let stopped = live(&mut producers, &mut coordination, &ledger, &mut broker, crash, life)?;
        outcome.crashes += 1;
        outcome.violations.extend(stopped);
        outcome.acknowledged = ledger.acknowledged();
        if !outcome.violations.is_empty() {
            break;
        }
    }
    if outcome.violations.is_empty() {
        let broker = finish(program, &crash.folder(), &mut producers, &ledger, &mut outcome)?;
        outcome.violations.extend(coordination.check(broker.address)?);
    }
    outcome.transactions = coordination.committed();
    outcome.acknowledged = ledger.acknowledged();
    Ok(outcome)
}

fn start(program: &Program, folder: &Path, outcome: &mut Outcome) -> anyhow::Result<Broker> {
    let began = Instant::now();
    let broker = program.start(folder)?;
    outcome.slowest_start = outcome.slowest_start.max(began.elapsed());
    Ok(broker)
}

/// Load until the crash. The violations that the load itself saw come back.
fn live(
    producers: &mut [Producer],
    coordination: &mut Coordination,
    ledger: &Ledger,
    broker: &mut Broker,
    crash: &mut Crash,
    life: Duration,
) -> anyhow::Result<Vec<Violation>> {
    let address = broker.address;
    std::thread::scope(|scope| {
        let mut load: Vec<_> =
            producers.iter_mut().map(|producer| scope.spawn(move || producer.run(address, ledger))).collect();
        load.extend(coordination.loads().map(|run| scope.spawn(move || run(address, ledger))));
        load.push(scope.spawn(move || consumer::follow(address, PARTITIONS, ledger)));
        // How long the broker lives is the campaign's random choice; nothing waits for it.
        std::thread::sleep(life);
        ledger.doubt(crash.lies());
        let crashed = crash.happen(broker);
        let stopped = load.into_iter().map(|thread| thread.join());
        let violations = stopped.filter_map(|stopped| match stopped {
            Ok(Stopped::Violated(violation)) => Some(violation),
            Ok(Stopped::Broken(_)) => None,
            Err(_) => Some(Violation("a client thread panicked".to_owned())),
        });
        let violations = violations.collect();
        ledger.doubt(false);
        crashed.map(|()| violations)
    })
}

/// Reads every partition from the beginning and holds it against the ledger.
pub(crate) fn compare(broker: &Broker, ledger: &Ledger) -> anyhow::Result<Vec<Violation>> {
    let mut client = Client::connect(broker.address)?;
    let mut violations = Vec::new();
    for partition in 0..PARTITIONS {
        match consumer::read_all(&mut client, partition) {
            Ok(log) => violations.extend(ledger.check(partition, &log)),
            Err(Stopped::Violated(violation)) => violations.push(violation),
            Err(Stopped::Broken(why)) => violations.push(Violation(format!("partition {partition}: {why}"))),
        }
    }
    Ok(violations)
}

/// A last start: everything that was kept is sent again and must be acknowledged.
pub(crate) fn finish(
    program: &Program,
    folder: &Path,
    producers: &mut [Producer],
    ledger: &Ledger,
    outcome: &mut Outcome,
) -> anyhow::Result<Broker> {
    let broker = start(program, folder, outcome)?;
    for producer in producers {
        match producer.settle(broker.address, ledger) {
            Ok(()) => {}
            Err(Stopped::Violated(violation)) => outcome.violations.push(violation),
            Err(Stopped::Broken(why)) => {
                outcome.violations.push(Violation(format!("a retry was refused: {why}")))
            }
        }
    }
    outcome.violations.extend(compare(&broker, ledger)?);
    Ok(broker)
}
