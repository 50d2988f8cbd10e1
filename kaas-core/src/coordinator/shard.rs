//! One slot as it is run: its machine under a lock, its journal, and the answers that wait for it.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::machine::{Answer, Host, Machine, Now, Outbox};
use super::pending::{CoordinatorError, Pending};
use super::pool::{Pool, Work};
use super::timers::Timers;
use crate::clock::Clock;
use crate::engine::Fence;
use crate::journal::{JournalError, JournalStore, Loaded, Writer};

/// How long a slot that could not be loaded waits before the next try.
const RELOAD_DELAY: Duration = Duration::from_secs(1);

/// What the slots of a coordinator share.
pub(super) struct Common<M: Machine> {
    pub(super) host: Arc<dyn Host<M>>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) fence: Arc<dyn Fence>,
    pub(super) pool: Arc<Pool>,
    pub(super) timers: Arc<Timers>,
}

impl<M: Machine> Common<M> {
    pub(super) fn now(&self) -> Now {
        Now { wall_ms: self.clock.now_ms(), mono: self.clock.monotonic() }
    }
}

/// One slot.
pub(super) struct Shard<M: Machine> {
    slot: u32,
    store: JournalStore,
    common: Arc<Common<M>>,
    state: Mutex<State<M>>,
    itself: Weak<Self>,
}

struct State<M: Machine> {
    phase: Phase<M>,
    /// The deadline that the timers have.
    armed: Option<Duration>,
    /// Whether a thread of the pool has the slot, or it is in the pool's queue.
    at_work: bool,
}

enum Phase<M: Machine> {
    /// To be loaded, after what went wrong the last time.
    Loading(Option<CoordinatorError>),
    Active(Box<Active<M>>),
    /// Never again in this life.
    Closed,
}

struct Active<M: Machine> {
    machine: M,
    /// `None` until the first change, and while a thread writes.
    writer: Option<Writer>,
    /// The epoch of this life, and how many files it has begun.
    epoch: u32,
    files: u32,
    /// Changes that no thread has taken to write.
    entries: Vec<M::Entry>,
    /// How many changes there have been, and how many of them are durable.
    changes: u64,
    durable: u64,
    /// What leaves when as many changes are durable, in that order.
    waiting: VecDeque<(u64, Release<M>)>,
}

enum Release<M: Machine> {
    Gate(oneshot::Sender<()>),
    Outbox(Outbox<M>),
}

/// What a thread of the pool does next.
enum Step<M: Machine> {
    Load,
    Commit(Taken<M>),
    Nothing,
}

/// What a thread of the pool has taken to write.
struct Taken<M: Machine> {
    writer: Option<Writer>,
    /// Epoch and sequence of the next file.
    next_file: (u32, u32),
    entries: Vec<M::Entry>,
    /// All there is, instead of the entries, when a new file is to begin.
    snapshot: Option<Vec<M::Entry>>,
    changes: u64,
}

impl<M: Machine> Shard<M>
where
    M::Token: Answer<M::Reply>,
{
    pub(super) fn new(slot: u32, store: JournalStore, common: Arc<Common<M>>) -> Arc<Self> {
        let state = State { phase: Phase::Loading(None), armed: None, at_work: false };
        Arc::new_cyclic(|itself| Self {
            slot,
            store,
            common,
            state: Mutex::new(state),
            itself: Weak::clone(itself),
        })
    }

    /// Has the slot loaded by the pool.
    pub(super) fn load(&self) {
        let mut state = self.state.lock();
        self.submit(&mut state);
    }

    /// Runs `call` on the machine. Its answer waits for whatever is not durable yet.
    pub(super) fn call<R>(
        &self,
        call: impl FnOnce(&mut M, Now, &mut Outbox<M>) -> R,
    ) -> Result<Pending<R>, CoordinatorError> {
        let (result, durable) = self.run(call, Active::gate)?;
        Ok(Pending::new(result, durable))
    }

    /// Runs `call`, whose answer rests on nothing that must be durable.
    pub(super) fn call_now<R>(
        &self,
        call: impl FnOnce(&mut M, Now, &mut Outbox<M>) -> R,
    ) -> Result<R, CoordinatorError> {
        let (result, ()) = self.run(call, |_| ())?;
        Ok(result)
    }

    /// Runs `call`, and `then` before the lock is let go.
    fn run<R, T>(
        &self,
        call: impl FnOnce(&mut M, Now, &mut Outbox<M>) -> R,
        then: impl FnOnce(&mut Active<M>) -> T,
    ) -> Result<(R, T), CoordinatorError> {
        let now = self.common.now();
        let mut state = self.state.lock();
        let active = state.active()?;
        let mut out = Outbox::default();
        let result = call(&mut active.machine, now, &mut out);
        let ready = active.add(out);
        let then = then(active);
        self.after_call(&mut state);
        drop(state);
        self.deliver(ready);
        Ok((result, then))
    }

    /// The slot's deadline has come; the timers do not have it any more.
    pub(super) fn due(&self, deadline: Duration) {
        let now = self.common.now();
        let mut state = self.state.lock();
        if state.armed == Some(deadline) {
            state.armed = None;
        }
        let ready = match &mut state.phase {
            Phase::Loading(_) => {
                self.submit(&mut state);
                None
            }
            Phase::Active(active) => {
                let mut out = Outbox::default();
                active.machine.tick(now, &mut out);
                let ready = active.add(out);
                self.after_call(&mut state);
                ready
            }
            Phase::Closed => None,
        };
        drop(state);
        self.deliver(ready);
    }

    /// Makes everything durable and ends the slot. The pool must have ended.
    pub(super) fn close(&self) {
        while self.commit_or_load(true) {}
        let mut state = self.state.lock();
        if let Phase::Active(active) = &mut state.phase
            && let Some(writer) = &mut active.writer
            && let Err(error) = writer.sync()
        {
            tracing::error!(journal = self.store.dir, %error, "sync at close failed");
        }
        state.phase = Phase::Closed;
        self.arm(&mut state, None);
    }

    fn after_call(&self, state: &mut State<M>) {
        let Phase::Active(active) = &state.phase else { return };
        let (deadline, work) = (active.machine.deadline(), !active.entries.is_empty());
        self.arm(state, deadline);
        if work {
            self.submit(state);
        }
    }

    fn arm(&self, state: &mut State<M>, deadline: Option<Duration>) {
        if state.armed != deadline {
            self.common.timers.move_to(self.slot, state.armed, deadline);
            state.armed = deadline;
        }
    }

    fn submit(&self, state: &mut State<M>) {
        if !state.at_work
            && let Some(itself) = self.itself.upgrade()
        {
            state.at_work = true;
            self.common.pool.submit(itself);
        }
    }

    /// Gives answers and effects to whom they belong. Never under the lock: a host may call back.
    fn deliver(&self, out: Option<Outbox<M>>) {
        let Some(Outbox { replies, effects, .. }) = out else { return };
        for (token, reply) in replies {
            token.answer(reply);
        }
        for effect in effects {
            self.common.host.effect(self.slot, effect);
        }
    }

    /// One piece of work; true when there is more.
    fn commit_or_load(&self, closing: bool) -> bool {
        match self.next_step(closing) {
            Step::Load => self.try_load(),
            Step::Commit(taken) => self.commit(taken),
            Step::Nothing => {}
        }
        let mut state = self.state.lock();
        // The time to try again may have come while this thread was at work, and found nothing to do.
        if matches!(state.phase, Phase::Loading(Some(_))) && state.armed.is_none() {
            let again = self.common.clock.monotonic() + RELOAD_DELAY;
            self.arm(&mut state, Some(again));
        }
        state.at_work = matches!(&state.phase, Phase::Active(active) if !active.entries.is_empty());
        state.at_work
    }

    fn next_step(&self, closing: bool) -> Step<M> {
        match &mut self.state.lock().phase {
            Phase::Loading(_) if !closing => Step::Load,
            Phase::Active(active) => active.take().map_or(Step::Nothing, Step::Commit),
            Phase::Loading(_) | Phase::Closed => Step::Nothing,
        }
    }

    fn commit(&self, mut taken: Taken<M>) {
        let changes = taken.changes;
        let written = self.write(&mut taken);
        // The fence is read when everything is synced, and before anyone hears of it.
        let written = written.map(|()| self.common.fence.check());
        let mut state = self.state.lock();
        let Phase::Active(active) = &mut state.phase else { return };
        match written {
            Ok(Ok(())) => {
                active.writer = taken.writer;
                active.files += u32::from(taken.snapshot.is_some());
                active.durable = changes;
                let released = active.released();
                drop(state);
                for release in released {
                    match release {
                        Release::Gate(gate) => {
                            // Whoever waited may have gone.
                            let _ = gate.send(());
                        }
                        Release::Outbox(out) => self.deliver(Some(out)),
                    }
                }
            }
            Ok(Err(fenced)) => {
                tracing::error!(journal = self.store.dir, "not the coordinator any more: {fenced}");
                state.phase = Phase::Closed;
                self.arm(&mut state, None);
            }
            Err(error) => {
                tracing::error!(journal = self.store.dir, %error, "write failed: loading again");
                self.fail(&mut state, error.to_string());
            }
        }
    }

    fn write(&self, taken: &mut Taken<M>) -> std::io::Result<()> {
        let Some(snapshot) = &taken.snapshot else {
            return match &mut taken.writer {
                Some(writer) => writer.write(&taken.entries),
                None => Err(std::io::ErrorKind::NotFound.into()),
            };
        };
        taken.writer = Some(self.begin(taken.next_file, snapshot)?);
        Ok(())
    }

    /// Begins a file, and lets go of those before it.
    fn begin(&self, name: (u32, u32), snapshot: &[M::Entry]) -> std::io::Result<Writer> {
        let writer = self.store.begin(name, snapshot)?;
        if let Err(error) = self.store.remove_before(name) {
            tracing::warn!(journal = self.store.dir, %error, "earlier files remain");
        }
        Ok(writer)
    }

    fn try_load(&self) {
        match self.loaded_machine() {
            Ok(active) => {
                let mut state = self.state.lock();
                if !matches!(state.phase, Phase::Loading(_)) {
                    return;
                }
                state.phase = Phase::Active(Box::new(active));
                let now = self.common.now();
                let Phase::Active(active) = &mut state.phase else { return };
                let mut out = Outbox::default();
                active.machine.loaded(now, &mut out);
                let ready = active.add(out);
                let deadline = active.machine.deadline();
                self.arm(&mut state, deadline);
                drop(state);
                self.deliver(ready);
            }
            Err(error) => {
                tracing::error!(journal = self.store.dir, %error, "loading failed");
                let mut state = self.state.lock();
                self.fail(&mut state, error.to_string());
            }
        }
    }

    /// Reads the journal, and makes what was read durable in a file of this life before anything is said about it: an
    /// earlier life may have died between a write and its sync.
    fn loaded_machine(&self) -> Result<Active<M>, JournalError> {
        let empty = |epoch| self.common.host.machine(self.slot, epoch);
        let Loaded { epoch, state: machine, found } = self.store.load(empty, M::replay)?;
        let writer = if found { Some(self.begin((epoch, 0), &machine.snapshot())?) } else { None };
        Ok(Active {
            machine,
            files: u32::from(writer.is_some()),
            writer,
            epoch,
            entries: Vec::new(),
            changes: 0,
            durable: 0,
            waiting: VecDeque::new(),
        })
    }

    /// Throws the machine away, with everyone who waits, and has another one loaded in a while.
    fn fail(&self, state: &mut State<M>, why: String) {
        if matches!(state.phase, Phase::Closed) {
            return;
        }
        state.phase = Phase::Loading(Some(CoordinatorError::Unavailable(why)));
        let again = self.common.clock.monotonic() + RELOAD_DELAY;
        self.arm(state, Some(again));
    }
}

impl<M: Machine> Work for Shard<M>
where
    M::Token: Answer<M::Reply>,
{
    fn work(&self) -> bool {
        self.commit_or_load(false)
    }
}

impl<M: Machine> State<M> {
    fn active(&mut self) -> Result<&mut Active<M>, CoordinatorError> {
        match &mut self.phase {
            Phase::Active(active) => Ok(active),
            Phase::Loading(None) => Err(CoordinatorError::Loading),
            Phase::Loading(Some(error)) => Err(error.clone()),
            Phase::Closed => Err(CoordinatorError::Moved),
        }
    }
}

impl<M: Machine> Active<M> {
    /// Takes over what a call left; returns what may leave at once.
    fn add(&mut self, mut out: Outbox<M>) -> Option<Outbox<M>> {
        self.changes += out.entries.len() as u64;
        self.entries.append(&mut out.entries);
        if out.is_empty() {
            return None;
        }
        if self.durable == self.changes {
            return Some(out);
        }
        self.waiting.push_back((self.changes, Release::Outbox(out)));
        None
    }

    /// Opens when all changes so far are durable; `None` when they are.
    fn gate(&mut self) -> Option<oneshot::Receiver<()>> {
        (self.durable < self.changes).then(|| {
            let (release, gate) = oneshot::channel();
            self.waiting.push_back((self.changes, Release::Gate(release)));
            gate
        })
    }

    /// What is to be written, if anything is.
    fn take(&mut self) -> Option<Taken<M>> {
        if self.entries.is_empty() {
            return None;
        }
        let writer = self.writer.take();
        let anew = writer.as_ref().is_none_or(Writer::is_long);
        let snapshot = anew.then(|| self.machine.snapshot());
        let entries = std::mem::take(&mut self.entries);
        Some(Taken { writer, next_file: (self.epoch, self.files), entries, snapshot, changes: self.changes })
    }

    /// What waits for no more than what is durable.
    fn released(&mut self) -> Vec<Release<M>> {
        let ready = self.waiting.partition_point(|(changes, _)| *changes <= self.durable);
        self.waiting.drain(..ready).map(|(_, release)| release).collect()
    }
}
