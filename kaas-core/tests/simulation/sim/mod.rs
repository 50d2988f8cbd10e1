//! A deterministic simulation: several brokers on one volume that behaves as a network file system does, controllers
//! that are wrong, clocks that are wrong, and everything that may happen between any two steps.

mod ending;
mod history;
mod producer;
mod random;
mod tasks;
mod weather;
mod world;

use std::fmt;
use std::sync::Arc;

use kaas_core::Mutant;

use self::producer::Producer;
use self::random::Random;
use self::tasks::TASKS_PER_BROKER;
use self::world::World;

/// What was done in a run, and to it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) steps: u64,
    pub(crate) acknowledged: u64,
    pub(crate) read: u64,
    pub(crate) takeovers: u64,
    pub(crate) revocations: u64,
    pub(crate) resignations: u64,
    pub(crate) removals: u64,
    pub(crate) incarnations: u64,
    pub(crate) pauses: u64,
    pub(crate) kills: u64,
    pub(crate) machine_crashes: u64,
    pub(crate) server_restarts: u64,
    pub(crate) power_cuts: u64,
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

/// Runs one seed.
pub(crate) fn run(story: Story) -> Outcome {
    let seed = story.seed;
    let mut random = Random::new(!seed);
    let brokers = random.between(2, 4) as usize;
    let partitions = random.between(1, 2) as usize;
    let steps_max = random.between(800, 4000);
    let tasks = brokers * TASKS_PER_BROKER;
    let world = Arc::new(World::new(story, steps_max, tasks, partitions));
    world.state().producers = (0..random.between(2, 5))
        .map(|number| Producer::new(number, number as usize % partitions, number % 3 != 2))
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
        self.read += other.read;
        self.takeovers += other.takeovers;
        self.revocations += other.revocations;
        self.resignations += other.resignations;
        self.removals += other.removals;
        self.incarnations += other.incarnations;
        self.pauses += other.pauses;
        self.kills += other.kills;
        self.machine_crashes += other.machine_crashes;
        self.server_restarts += other.server_restarts;
        self.power_cuts += other.power_cuts;
        self.storage_faults += other.storage_faults;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { steps, acknowledged, read, takeovers, revocations, resignations, removals, .. } = self;
        let Self {
            incarnations,
            pauses,
            kills,
            machine_crashes,
            server_restarts,
            power_cuts,
            storage_faults,
            ..
        } = self;
        write!(
            f,
            "{steps} steps, {acknowledged} batches acknowledged, {read} records read, {takeovers} takeovers, \
             {revocations} revocations, {resignations} resignations, {removals} removals, {incarnations} incarnations, {pauses} pauses, \
             {kills} kills, {machine_crashes} machine crashes, {server_restarts} server restarts, \
             {power_cuts} power cuts, {storage_faults} storage faults"
        )
    }
}
