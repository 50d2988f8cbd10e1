//! The world that all tasks share: whose turn it is, what goes wrong, who was told what.
//!
//! Every task has a thread, and one of them runs at a time. Before every request to the storage it hands the turn on, to
//! itself or to another, as the seed decides: so a pause between any two steps is a task that is not chosen for a while.

use std::cell::Cell;
use std::fmt;
use std::future::Future;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::pin::Pin;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use kaas_core::error::AppendError;
use kaas_core::volume::{Machine, Nfs, NfsMount, Op, OpKind};
use kaas_core::{Clock, Engine, Mutant, Partition, PendingAppend, Uuid};

use super::history::{Checked, History};
use super::producer::{Producer, Sent, Ticket};
use super::random::Random;
use super::weather::Weather;
use super::{Story, Tally};

thread_local! {
    /// The task that this thread is; none on the thread that begins and ends a run.
    static TASK: Cell<Option<usize>> = const { Cell::new(None) };
}

pub(crate) struct World {
    pub(crate) nfs: Nfs,
    pub(crate) mutant: Option<Mutant>,
    /// True time in milliseconds; processes see it shifted.
    now_ms: Arc<AtomicI64>,
    turns: Vec<Condvar>,
    state: Mutex<State>,
}

pub(crate) struct State {
    pub(crate) random: Random,
    pub(crate) weather: Weather,
    pub(crate) processes: Vec<Process>,
    pub(crate) producers: Vec<Producer>,
    pub(crate) histories: Vec<History>,
    pub(crate) tally: Tally,
    /// The first rule that was broken.
    pub(crate) violation: Option<String>,
    sends: Vec<Send>,
    turn: usize,
    tasks: Vec<Task>,
    steps_max: u64,
    /// All are dead, and every task goes home at its next turn.
    ending: bool,
    identities: u64,
    trace: DefaultHasher,
    /// Whether the trace is printed.
    aloud: bool,
}

#[derive(Default)]
struct Task {
    paused_until: u64,
    /// The pause ends soon after a takeover: then it matters most.
    waits_for_takeover: bool,
    is_done: bool,
}

/// A broker process, from before its engine opens.
pub(crate) struct Process {
    pub(crate) broker: usize,
    pub(crate) machine: Machine,
    pub(crate) mount: NfsMount,
    pub(crate) is_alive: bool,
    /// Whether a pass of retention is under way, which may remove whatever becomes its own meanwhile.
    pub(crate) retains: bool,
    /// Whether its logs are being compacted. The engine does one of both at a time.
    pub(crate) compacts: bool,
    /// Once it has opened.
    pub(crate) engine: Option<(Engine, Vec<Arc<Partition>>)>,
}

/// A batch on its way.
struct Send {
    process: u64,
    ticket: Ticket,
    pending: PendingAppend,
}

/// A clock that is wrong.
#[derive(Debug)]
struct WrongClock {
    now_ms: Arc<AtomicI64>,
    skew_ms: i64,
}

impl Clock for WrongClock {
    fn now_ms(&self) -> i64 {
        self.now_ms.load(Ordering::SeqCst) + self.skew_ms
    }
}

impl World {
    pub(crate) fn new(story: Story, steps_max: u64, brokers: usize, partitions: usize) -> Self {
        let Story { seed, mutant, aloud } = story;
        let mut random = Random::new(seed);
        let weather = Weather::new(&mut random, &story);
        let tasks = brokers * weather.tasks_per_broker();
        let state = State {
            weather,
            processes: Vec::new(),
            producers: Vec::new(),
            histories: (0..partitions).map(|_| History::new(story.compacts())).collect(),
            tally: Tally::default(),
            violation: None,
            sends: Vec::new(),
            turn: 0,
            tasks: (0..tasks).map(|_| Task::default()).collect(),
            steps_max,
            ending: false,
            identities: 0,
            trace: DefaultHasher::new(),
            aloud,
            random,
        };
        Self {
            nfs: Nfs::new(seed),
            mutant,
            now_ms: Arc::new(AtomicI64::new(1_700_000_000_000)),
            turns: (0..tasks).map(|_| Condvar::new()).collect(),
            state: Mutex::new(state),
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        // A task that has panicked has said so; the others go home.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn clock(&self) -> Arc<dyn Clock> {
        let skew_ms = self.state().random.below(7_200_000) as i64 - 3_600_000;
        Arc::new(WrongClock { now_ms: Arc::clone(&self.now_ms), skew_ms })
    }

    pub(crate) fn identity(&self) -> Uuid {
        let mut state = self.state();
        state.identities += 1;
        Uuid::from_u128(0xfeed << 64 | u128::from(state.identities))
    }

    /// Runs a task on this thread: waits for its first turn, and gives the turn up for good at the end.
    pub(crate) fn task(&self, task: usize, work: impl FnOnce()) {
        TASK.set(Some(task));
        drop(self.wait(self.state(), task));
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        let mut state = self.state();
        if outcome.is_err() {
            state.note(Err("a task panicked".to_owned()));
            state.end();
        }
        state.tasks[task].is_done = true;
        if let Some(next) = state.choose(task) {
            state.turn = next;
            self.turns[next].notify_one();
        }
    }

    /// A moment at which others may run. False when the run is over.
    pub(crate) fn rest(&self) -> bool {
        self.step(&"rest", false)
    }

    /// As [`rest`](Self::rest), for this many steps.
    pub(crate) fn sleep(&self, steps: u64) -> bool {
        if let Some(task) = TASK.get() {
            let mut state = self.state();
            let until = state.tally.steps + steps;
            state.tasks[task].paused_until = until;
        }
        self.step(&"sleep", false)
    }

    /// Before a request to the storage.
    pub(crate) fn request(&self, op: &Op) {
        // What an acknowledgement rests on: here a pause tells most.
        let is_critical = op.kind == OpKind::Sync || op.path.ends_with(".fence");
        self.step(&(op.kind, &op.path), is_critical);
    }

    fn step(&self, what: &(impl Hash + fmt::Debug), is_critical: bool) -> bool {
        let Some(task) = TASK.get() else { return true };
        let mut state = self.state();
        state.observe();
        if state.tally.steps >= state.steps_max || state.violation.is_some() {
            state.end();
        }
        if state.ending {
            return false;
        }
        state.tally.steps += 1;
        state.record((task, what));
        self.now_ms.fetch_add(7, Ordering::SeqCst);
        state.weather(&self.nfs, task, is_critical);
        if let Some(next) = state.choose(task) {
            state.turn = next;
            if next != task {
                self.turns[next].notify_one();
                state = self.wait(state, task);
            }
        }
        !state.ending
    }

    fn wait<'a>(&'a self, mut state: MutexGuard<'a, State>, task: usize) -> MutexGuard<'a, State> {
        while state.turn != task {
            state = self.turns[task].wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state
    }

    /// A hash of everything that has happened.
    pub(crate) fn trace(&self) -> u64 {
        self.state().trace.finish()
    }
}

impl State {
    /// Keeps the first violation.
    pub(crate) fn note(&mut self, checked: Checked) {
        if let (Err(violation), None) = (checked, &self.violation) {
            self.violation = Some(format!("step {}: {violation}", self.tally.steps));
        }
    }

    /// Adds to the trace, and tells it.
    pub(crate) fn record(&mut self, what: impl Hash + fmt::Debug) {
        if self.aloud {
            println!("{} {what:?}", self.tally.steps);
        }
        what.hash(&mut self.trace);
    }

    pub(crate) fn is_alive(&self, process: u64) -> bool {
        self.processes[process as usize].is_alive
    }

    /// A process that serves, of all or of one broker.
    pub(crate) fn any_serving(
        &mut self,
        broker: Option<usize>,
    ) -> Option<(u64, Engine, Vec<Arc<Partition>>)> {
        let serves =
            |process: &Process| process.is_alive && broker.is_none_or(|broker| process.broker == broker);
        let serving: Vec<u64> = (0..self.processes.len() as u64)
            .filter(|number| serves(&self.processes[*number as usize]))
            .filter(|number| self.processes[*number as usize].engine.is_some())
            .collect();
        let number = *self.random.pick(&serving)?;
        let (engine, partitions) = self.processes[number as usize].engine.clone()?;
        Some((number, engine, partitions))
    }

    /// A process dies; whatever it was doing fails. What waits for its answers waits no more.
    pub(crate) fn kill(&mut self, number: u64) {
        let process = &mut self.processes[number as usize];
        process.is_alive = false;
        process.mount.kill();
        let (lost, sends) =
            std::mem::take(&mut self.sends).into_iter().partition(|send| send.process == number);
        self.sends = sends;
        let lost: Vec<Send> = lost;
        lost.iter().for_each(|send| self.producers[send.ticket.producer].answered(send.ticket, false));
    }

    pub(crate) fn kill_on(&mut self, machine: Option<Machine>) {
        for number in 0..self.processes.len() {
            let process = &self.processes[number];
            if process.is_alive && machine.is_none_or(|machine| process.machine == machine) {
                self.kill(number as u64);
            }
        }
    }

    fn end(&mut self) {
        if !std::mem::replace(&mut self.ending, true) {
            self.kill_on(None);
        }
    }

    /// A batch was handed to a process, which will answer, or was refused.
    pub(crate) fn sent(
        &mut self,
        process: u64,
        ticket: Ticket,
        outcome: Result<PendingAppend, AppendError>,
    ) -> bool {
        let Ticket { producer, sent, .. } = ticket;
        let partition = self.producers[producer].partition;
        for value in self.producers[producer].values(sent) {
            self.histories[partition].sent(value);
        }
        self.producers[producer].handed(ticket, outcome.is_ok());
        match outcome {
            Ok(pending) => {
                self.sends.push(Send { process, ticket, pending });
                true
            }
            Err(error) => {
                self.refused(process, ticket, &error);
                false
            }
        }
    }

    fn refused(&mut self, process: u64, ticket: Ticket, error: &AppendError) {
        self.record(("refused", error.to_string()));
        let excused = matches!(
            error,
            AppendError::Storage(_) | AppendError::Fenced | AppendError::NotLeader | AppendError::Closed
        );
        let partition = self.producers[ticket.producer].partition;
        let engine = self.processes[process as usize].engine.as_ref();
        let epoch = engine.map_or(0, |(_, partitions)| partitions[partition].leader_epoch());
        // One that was deposed and has not noticed knows the producers as they were.
        let is_deposed = epoch < self.histories[partition].epoch_max();
        if !excused && !is_deposed && self.is_alive(process) {
            self.note(Err(format!("batch {ticket:?} was refused: {error}")));
        }
    }

    /// What anyone could see at this moment: answers that have left, and high watermarks.
    fn observe(&mut self) {
        let mut context = Context::from_waker(Waker::noop());
        let mut at = 0;
        while at < self.sends.len() {
            let Poll::Ready(answer) = Pin::new(&mut self.sends[at].pending).poll(&mut context) else {
                at += 1;
                continue;
            };
            let Send { process, ticket, .. } = self.sends.remove(at);
            self.producers[ticket.producer].answered(ticket, answer.is_ok());
            match answer {
                Ok(appended) => self.acknowledged(ticket, appended.base_offset),
                Err(error) => self.refused(process, ticket, &error),
            }
        }
        for number in 0..self.processes.len() {
            let process = &self.processes[number];
            let Some((_, partitions)) = process.engine.as_ref().filter(|_| process.is_alive) else {
                continue;
            };
            let shown: Vec<Option<(i32, i64)>> = partitions
                .iter()
                .map(|partition| {
                    partition.is_led().then(|| (partition.leader_epoch(), partition.offsets().high_watermark))
                })
                .collect();
            for (partition, shown) in shown.into_iter().enumerate() {
                if let Some((epoch, high_watermark)) = shown {
                    let checked = self.histories[partition].shows(epoch, high_watermark);
                    self.note(checked.map_err(|why| format!("partition {partition}: {why}")));
                }
            }
        }
    }

    fn acknowledged(&mut self, ticket: Ticket, base_offset: i64) {
        match ticket.sent {
            Sent::Batch(_) => self.tally.acknowledged += 1,
            Sent::Marker(_) => self.tally.decided += 1,
        }
        self.record(("acknowledged", ticket.producer, ticket.sent, base_offset));
        let producer = &self.producers[ticket.producer];
        let partition = producer.partition;
        for (offset, value) in (base_offset..).zip(producer.values(ticket.sent)) {
            self.told(partition, offset, &value, true);
        }
    }

    pub(crate) fn told(&mut self, partition: usize, offset: i64, value: &str, acknowledged: bool) {
        let checked = self.histories[partition].told(offset, value, acknowledged);
        self.note(checked.map_err(|why| format!("partition {partition}: {why}")));
    }

    /// Who runs next: often the same task; never one that is paused, unless all are.
    fn choose(&mut self, task: usize) -> Option<usize> {
        if !self.ending {
            let now = self.tally.steps;
            let ready = |task: &Task| !task.is_done && task.paused_until <= now;
            if ready(&self.tasks[task]) && !self.random.once_in(self.weather.switch_every) {
                return Some(task);
            }
            let awake: Vec<usize> = (0..self.tasks.len()).filter(|task| ready(&self.tasks[*task])).collect();
            if let Some(next) = self.random.pick(&awake) {
                return Some(*next);
            }
        }
        let left = (0..self.tasks.len()).filter(|task| !self.tasks[*task].is_done);
        left.min_by_key(|task| if self.ending { 0 } else { self.tasks[*task].paused_until })
    }

    /// Ends the sleep of a task.
    pub(crate) fn wake(&mut self, task: usize) {
        self.tasks[task].paused_until = self.tally.steps;
    }

    pub(crate) fn tasks(&self) -> usize {
        self.tasks.len()
    }

    /// Stops some tasks for a while, or until something has been taken over if that comes first.
    pub(crate) fn pause(&mut self, tasks: std::ops::Range<usize>, steps: u64, waits_for_takeover: bool) {
        self.tally.pauses += 1;
        let until = self.tally.steps + steps;
        for task in &mut self.tasks[tasks] {
            task.paused_until = task.paused_until.max(until);
            task.waits_for_takeover = waits_for_takeover;
        }
    }

    /// A process has taken a partition over.
    pub(crate) fn taken_over(&mut self) {
        self.tally.takeovers += 1;
        for task in &mut self.tasks {
            if std::mem::take(&mut task.waits_for_takeover) {
                task.paused_until = task.paused_until.min(self.tally.steps + self.random.below(20));
            }
        }
    }
}
