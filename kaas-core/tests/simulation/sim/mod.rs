//! A deterministic simulation: several brokers on one volume that behaves as a network file system does, controllers
//! that are wrong, clocks that are wrong, and everything that may happen between any two steps.

mod ending;
mod history;
mod producer;
mod random;
mod reader;
mod tasks;
mod weather;
mod world;

use std::fmt;
use std::sync::Arc;

use kaas_core::Mutant;

use self::producer::Producer;
use self::random::{Random, mix};
use self::world::World;

/// Spreads seeds over runs with compaction and without.
const COMPACTS: u64 = 11 << 32;

/// The same for transactions.
const TRANSACTS: u64 = 13 << 32;

/// The same for index files that rot.
const ROTS: u64 = 2 << 32;

/// What was done in a run, and to it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) steps: u64,
    pub(crate) acknowledged: u64,
    pub(crate) decided: u64,
    pub(crate) read: u64,
    pub(crate) takeovers: u64,
    pub(crate) revocations: u64,
    pub(crate) resignations: u64,
    pub(crate) removals: u64,
    pub(crate) compactions: u64,
    pub(crate) incarnations: u64,
    pub(crate) pauses: u64,
    pub(crate) kills: u64,
    pub(crate) machine_crashes: u64,
    pub(crate) server_restarts: u64,
    pub(crate) power_cuts: u64,
    pub(crate) rotten_bits: u64,
    /// Failed requests, lost replies and stale names.
    pub(crate) storage_faults: u64,
}

/// How a run went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) tally: Tally,
    /// A hash of everything that happened, in order.
    pub(crate) trace: u64,
    pub(crate) violation: Option<String>,
}

/// What is run.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Story {
    pub(crate) seed: u64,
    /// A seeded bug.
    pub(crate) mutant: Option<Mutant>,
    /// Print every step.
    pub(crate) aloud: bool,
}

impl Story {
    /// Whether records have keys, and logs are compacted: in a third of all runs. Not by the generator, which would make other stories of
    /// all seeds.
    fn compacts(self) -> bool {
        mix(self.seed ^ COMPACTS).is_multiple_of(3)
    }

    /// Whether some producers write in transactions: in a third of all runs, for the same reason.
    fn transacts(self) -> bool {
        mix(self.seed ^ TRANSACTS).is_multiple_of(3)
    }

    /// Whether index files rot: in a quarter of all runs, for the same reason.
    fn rots(self) -> bool {
        mix(self.seed ^ ROTS).is_multiple_of(4)
    }
}

/// Runs one seed.
pub(crate) fn run(story: Story) -> Outcome {
    let seed = story.seed;
    let mut random = Random::new(!seed);
    let brokers = random.between(2, 4) as usize;
    let partitions = random.between(1, 2) as usize;
    let steps_max = random.between(800, 4000);
    let world = Arc::new(World::new(story, steps_max, brokers, partitions));
    let tasks = world.state().tasks();
    world.state().producers = (0..random.between(2, 5))
        .map(|number| {
            let partition = number as usize % partitions;
            Producer::new(number, partition, story.compacts(), story.transacts())
        })
        .collect();
    ending::begin(&world, partitions);
    let faults = world.state().weather.faults;
    world.nfs.set_faults(faults);
    std::thread::scope(|scope| {
        for task in 0..tasks {
            let world = &world;
            scope.spawn(move || world.task(task, || tasks::run(world, task)));
        }
    });
    let violation = world.state().violation.take();
    let checked = match violation {
        Some(violation) => Err(violation),
        None => ending::end(&world, &mut random),
    };
    let mut tally = world.state().tally.clone();
    tally.storage_faults = world.nfs.injected();
    Outcome { tally, trace: world.trace(), violation: checked.err() }
}

impl Tally {
    #[allow(dead_code, reason = "for the long run only")]
    pub(crate) fn add(&mut self, other: &Self) {
        self.steps += other.steps;
        self.acknowledged += other.acknowledged;
        self.decided += other.decided;
        self.read += other.read;
        self.takeovers += other.takeovers;
        self.revocations += other.revocations;
        self.resignations += other.resignations;
        self.removals += other.removals;
        self.compactions += other.compactions;
        self.incarnations += other.incarnations;
        self.pauses += other.pauses;
        self.kills += other.kills;
        self.machine_crashes += other.machine_crashes;
        self.server_restarts += other.server_restarts;
        self.power_cuts += other.power_cuts;
        self.rotten_bits += other.rotten_bits;
        self.storage_faults += other.storage_faults;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            steps, acknowledged, decided, read, takeovers, revocations, resignations, removals, ..
        } = self;
        let Self {
            compactions,
            incarnations,
            pauses,
            kills,
            machine_crashes,
            server_restarts,
            power_cuts,
            rotten_bits,
            storage_faults,
            ..
        } = self;
        write!(
            f,
            "{steps} steps, {acknowledged} batches acknowledged, {decided} transactions decided, {read} records read, {takeovers} takeovers, \
             {revocations} revocations, {resignations} resignations, {removals} removals, {compactions} compactions, {incarnations} incarnations, {pauses} pauses, \
             {kills} kills, {machine_crashes} machine crashes, {server_restarts} server restarts, \
             {power_cuts} power cuts, {rotten_bits} rotten bits, {storage_faults} storage faults"
        )
    }
}
