//! What the tasks of a broker do: one serves, one takes partitions over, one reads, and one may compact.

use std::sync::Arc;

use kaas_core::error::{LeadError, OpenError};
use kaas_core::volume::Machine;
use kaas_core::{Engine, EngineOptions, LogConfig, Partition};

use super::reader;
use super::weather::Weather;
use super::world::{Process, World};

/// Which of them takes partitions over.
pub(crate) const TAKER: usize = 1;

/// Which of them reads.
const READER: usize = 2;

/// The one topic.
pub(crate) const TOPIC: &str = "t";

/// Tries of one takeover, each after another broker was revoked or an epoch was lost.
const TAKEOVER_TRIES: usize = 4;

/// Steps that a broker without anything to do lets pass.
const IDLE_STEPS: u64 = 30;

/// Processes that a broker has left behind and that still run.
const ZOMBIES_MAX: usize = 2;

pub(crate) fn run(world: &Arc<World>, task: usize) {
    let tasks = world.state().weather.tasks_per_broker();
    let broker = task / tasks;
    match task % tasks {
        0 => Server { world, broker, machine: world.nfs.machine(), running: None, zombies: Vec::new() }.run(),
        TAKER => take_over_now_and_then(world, broker),
        READER => reader::read_now_and_then(world),
        _ => compact_now_and_then(world, broker),
    }
}

/// Opens a broker's engine as a new process.
pub(crate) fn open(world: &Arc<World>, broker: usize, machine: Machine) -> (u64, Result<Engine, OpenError>) {
    let pace = Arc::downgrade(world);
    let mount = world.nfs.mount(machine, move |op| {
        if let Some(world) = pace.upgrade() {
            world.request(op);
        }
    });
    let identities = Arc::downgrade(world);
    let clock = world.clock();
    let Weather { removes, compacts: compact, .. } = world.state().weather.clone();
    let retention_bytes = if removes { 4000 } else { -1 };
    let mut options = EngineOptions::on(Arc::new(mount.clone()))
        .broker_id(broker as i32)
        .shared()
        .manual_commits()
        .clock(clock)
        .identities(move || identities.upgrade().map_or_else(Default::default, |world| world.identity()))
        .resolve(move |_| LogConfig {
            segment_bytes: 1500,
            index_interval_bytes: 200,
            retention_bytes,
            retention_ms: -1,
            compact,
            delete: removes || !compact,
            min_cleanable_dirty_ratio: 0.0,
            file_delete_delay_ms: 1000,
            ..LogConfig::default()
        })
        .producer_id_expiration_ms(i64::MAX / 4)
        .checkpoint_bytes(600);
    if let Some(mutant) = world.mutant {
        options = options.mutant(mutant);
    }
    let mut state = world.state();
    let number = state.processes.len() as u64;
    let (is_alive, retains, compacts) = (true, false, false);
    state.processes.push(Process { broker, machine, mount, is_alive, retains, compacts, engine: None });
    drop(state);
    let opened = Engine::open(options);
    let mut state = world.state();
    match &opened {
        Ok(engine) => {
            let topic = engine.topics().by_name(TOPIC);
            let partitions = topic.map(|topic| topic.partitions.iter().map(Arc::clone).collect());
            state.processes[number as usize].engine = Some((engine.clone(), partitions.unwrap_or_default()));
        }
        Err(error) => {
            if state.is_alive(number) && !matches!(error, OpenError::Storage { .. }) {
                state.note(Err(format!("broker {broker} does not open: {error}")));
            }
            state.kill(number);
        }
    }
    (number, opened)
}

/// The task that opens a broker's engine, appends to it and commits.
struct Server<'a> {
    world: &'a Arc<World>,
    broker: usize,
    machine: Machine,
    running: Option<(u64, Engine)>,
    /// Engines that were replaced without being stopped.
    zombies: Vec<(u64, Engine)>,
}

impl Server<'_> {
    fn run(mut self) {
        while self.world.rest() {
            let state = self.world.state();
            let is_dead = self.running.as_ref().is_some_and(|(number, _)| !state.is_alive(*number));
            drop(state);
            if is_dead {
                self.running = None;
            }
            match self.running.take() {
                None => self.start(),
                Some((number, engine)) => self.act(number, engine),
            }
        }
    }

    fn start(&mut self) {
        let mut state = self.world.state();
        let moves = state.random.once_in(4);
        state.tally.incarnations += 1;
        drop(state);
        if moves {
            self.machine = self.world.nfs.machine();
        }
        let (number, opened) = open(self.world, self.broker, self.machine);
        self.running = opened.ok().map(|engine| (number, engine));
    }

    fn act(&mut self, number: u64, engine: Engine) {
        let mut state = self.world.state();
        let chance = state.random.below(1000);
        let replaces = engine.is_fenced() && state.random.once_in(3);
        drop(state);
        match chance {
            _ if replaces => return self.replace(number, engine),
            0..=1 => return self.replace(number, engine),
            2..=3 => {
                _ = engine.close();
                self.world.state().kill(number);
                return;
            }
            4..=23 => self.resign(&engine),
            24..=53 => self.stir_zombie(),
            54..=93 => self.remove(number, &engine),
            94..=133 => self.retain(number, &engine),
            134..=199 => engine.commit(),
            200..=949 => self.produce(number, &engine),
            _ => _ = self.world.sleep(IDLE_STEPS),
        }
        self.running = Some((number, engine));
    }

    /// Goes on with another process; the one before may go on too.
    fn replace(&mut self, number: u64, engine: Engine) {
        let mut state = self.world.state();
        let lives_on = state.random.once_in(2);
        if lives_on {
            self.zombies.push((number, engine));
        } else {
            state.kill(number);
        }
        let buried = (self.zombies.len() > ZOMBIES_MAX).then(|| self.zombies.remove(0));
        if let Some((number, _)) = &buried {
            state.kill(*number);
        }
        drop(state);
        drop(buried);
        self.start();
    }

    fn stir_zombie(&mut self) {
        let zombie = self.world.state().random.pick(&self.zombies).map(|(_, engine)| engine.clone());
        if let Some(engine) = zombie {
            engine.commit();
        }
    }

    fn resign(&self, engine: &Engine) {
        let topic = engine.topics().by_name(TOPIC);
        let Some(partition) =
            topic.and_then(|topic| self.world.state().random.pick(&topic.partitions).cloned())
        else {
            return;
        };
        if engine.resign(&partition).is_ok() {
            self.world.state().tally.resignations += 1;
        }
    }

    /// Deletes records on request.
    fn remove(&self, number: u64, engine: &Engine) {
        let Some(topic) = engine.topics().by_name(TOPIC) else { return };
        let mut state = self.world.state();
        if !state.weather.removes {
            return;
        }
        let index = state.random.below(topic.partitions.len() as u64) as usize;
        let partition = &topic.partitions[index];
        let offsets = partition.offsets();
        let below = state.random.between(offsets.log_start as u64, offsets.high_watermark as u64) as i64;
        state.histories[index].removes(below);
        drop(state);
        let outcome = partition.delete_records(below);
        let mut state = self.world.state();
        state.record(("remove", number, index, below, format!("{outcome:?}")));
        if let Ok(start) = outcome {
            state.tally.removals += 1;
            let checked = state.histories[index].removed(start);
            state.note(checked.map_err(|why| format!("partition {index}: {why}")));
        }
    }

    /// One pass of retention, by size.
    fn retain(&self, number: u64, engine: &Engine) {
        let Some(topic) = engine.topics().by_name(TOPIC) else { return };
        let mut state = self.world.state();
        if !state.weather.removes || state.processes[number as usize].compacts {
            return;
        }
        for (index, partition) in topic.partitions.iter().enumerate() {
            state.histories[index].removes(partition.offsets().high_watermark);
        }
        state.processes[number as usize].retains = true;
        drop(state);
        engine.apply_retention();
        self.world.state().processes[number as usize].retains = false;
    }

    fn produce(&self, number: u64, engine: &Engine) {
        let Some(topic) = engine.topics().by_name(TOPIC) else { return };
        let mut state = self.world.state();
        let gives_up = state.random.once_in(10);
        let ready: Vec<usize> = (0..state.producers.len())
            .filter(|index| gives_up || !state.producers[*index].waits())
            .filter(|index| topic.partitions[state.producers[*index].partition].is_led())
            .collect();
        let Some(index) = state.random.pick(&ready).copied() else {
            drop(state);
            self.world.sleep(IDLE_STEPS);
            return;
        };
        let chance = state.random.next();
        let tickets = state.producers[index].begin(index, chance);
        let partition = &topic.partitions[state.producers[index].partition];
        let batches: Vec<_> =
            tickets.into_iter().map(|ticket| (ticket, state.producers[index].bytes(ticket.sent))).collect();
        drop(state);
        for (ticket, (bytes, options)) in batches {
            let outcome = partition.append(bytes, options);
            if !self.world.state().sent(number, ticket, outcome) {
                break;
            }
        }
        if !self.world.state().random.once_in(6) {
            engine.commit();
        }
    }
}

/// A controller that knows nothing: takes any partition from anybody, at any time.
fn take_over_now_and_then(world: &Arc<World>, broker: usize) {
    loop {
        let mut state = world.state();
        let every = state.weather.takeover_every;
        let steps = state.random.between(1, every * 2);
        drop(state);
        if !world.sleep(steps) {
            return;
        }
        let mut state = world.state();
        let Some((number, engine, partitions)) = state.any_serving(Some(broker)) else { continue };
        let index = state.random.below(partitions.len() as u64) as usize;
        drop(state);
        take_over(world, number, &engine, &partitions, index);
    }
}

fn take_over(world: &Arc<World>, number: u64, engine: &Engine, partitions: &[Arc<Partition>], index: usize) {
    for _ in 0..TAKEOVER_TRIES {
        let mut state = world.state();
        let named = state.random.once_in(8).then(|| state.histories[index].epoch_max() + 1);
        let was_led = partitions[index].is_led();
        drop(state);
        let outcome = engine.lead(&partitions[index], named);
        let mut state = world.state();
        if !state.is_alive(number) {
            return;
        }
        state.record(("lead", number, index, format!("{outcome:?}")));
        match outcome {
            Ok(epoch) => {
                if was_led {
                    return;
                }
                state.taken_over();
                let start = partitions[index].offsets().high_watermark;
                if state.processes[number as usize].retains {
                    state.histories[index].removes(start);
                }
                let checked = state.histories[index].leads(epoch, number, start);
                state.note(checked.map_err(|why| format!("partition {index}: {why}")));
                return;
            }
            Err(LeadError::NotRevoked { broker_id, incarnation }) => {
                let gives_up = state.random.once_in(3);
                drop(state);
                if gives_up {
                    return;
                }
                if engine.revoke(broker_id, incarnation).is_ok() {
                    world.state().tally.revocations += 1;
                }
            }
            Err(LeadError::Lost { .. }) => {}
            Err(LeadError::Offline(offline)) => {
                state.note(Err(format!("partition {index} of process {number} is offline: {offline}")));
                return;
            }
            Err(_) => return,
        }
    }
}

/// Compacts whatever is due, while the broker goes on, and is deposed, and takes over again.
fn compact_now_and_then(world: &Arc<World>, broker: usize) {
    loop {
        let steps = world.state().random.between(1, 80);
        if !world.sleep(steps) {
            return;
        }
        let mut state = world.state();
        let Some((number, engine, _)) = state.any_serving(Some(broker)) else { continue };
        if state.processes[number as usize].retains {
            continue;
        }
        state.processes[number as usize].compacts = true;
        drop(state);
        engine.compact();
        let mut state = world.state();
        state.processes[number as usize].compacts = false;
        state.tally.compactions += 1;
        state.record(("compacted", number));
    }
}
