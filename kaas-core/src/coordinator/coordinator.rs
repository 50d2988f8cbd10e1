//! All slots of one kind.

use std::fmt;
use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::Mutex;

use super::machine::{Answer, Host, Machine, Now, Outbox};
use super::pending::{CoordinatorError, Pending};
use super::pool::Pool;
use super::shard::{Common, Shard};
use super::slot::{SLOTS, slot_of};
use super::timers::Timers;
use crate::Engine;
use crate::journal::JournalStore;
use crate::layout::{GROUPS_DIR, TRANSACTIONS_DIR, slot_dir};

/// What is coordinated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CoordinatorKind {
    /// Consumer groups and their offsets.
    Groups,
    /// Transactional ids.
    Transactions,
}

/// How a coordinator is opened.
#[derive(Debug, Clone)]
pub struct CoordinatorOptions {
    /// What it coordinates.
    pub kind: CoordinatorKind,
    /// Whether a change counts when it is synced; without it, when it is written, and a power cut may take it back.
    pub sync: bool,
    /// Most threads that write journals at once. Without any, and without a thread for the timers, everything is done by
    /// [`Coordinator::run`].
    pub threads: usize,
    /// Bytes of changes after which a journal goes on in a new file; see [`JOURNAL_CHANGES_BYTES`].
    pub journal_changes_bytes: u64,
}

/// Bytes of changes after which a slot's journal goes on in a new file, unless its whole state is larger than that.
pub const JOURNAL_CHANGES_BYTES: u64 = 4 << 20;

/// Journals that are written at once.
const THREADS: usize = 8;

impl CoordinatorOptions {
    /// Durable, with threads.
    pub fn new(kind: CoordinatorKind) -> Self {
        Self { kind, sync: true, threads: THREADS, journal_changes_bytes: JOURNAL_CHANGES_BYTES }
    }
}

/// The slots of one kind, all led by this broker. Dropping it is safe at any time; [`close`](Self::close) first makes
/// durable what waits.
pub struct Coordinator<M: Machine>
where
    M::Token: Answer<M::Reply>,
{
    shards: Arc<[Arc<Shard<M>>]>,
    common: Arc<Common<M>>,
    timer: Mutex<Option<JoinHandle<()>>>,
}

impl<M: Machine> fmt::Debug for Coordinator<M>
where
    M::Token: Answer<M::Reply>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Coordinator").finish_non_exhaustive()
    }
}

impl<M: Machine> Coordinator<M>
where
    M::Token: Answer<M::Reply>,
{
    /// Opens all slots on the engine's volume. They are loaded in the background; calls before that answer
    /// [`CoordinatorError::Loading`].
    ///
    /// # Errors
    /// When the thread for the timers cannot be started.
    pub fn open(
        engine: &Engine,
        options: &CoordinatorOptions,
        host: Arc<dyn Host<M>>,
    ) -> std::io::Result<Self> {
        let pool = Arc::new(Pool::new(options.threads));
        let timers = Arc::<Timers>::default();
        let seams = engine.seams();
        let common = Arc::new(Common {
            host,
            clock: Arc::clone(&seams.clock),
            fence: seams.fence,
            pool,
            timers: Arc::clone(&timers),
        });
        let dir = match options.kind {
            CoordinatorKind::Groups => GROUPS_DIR,
            CoordinatorKind::Transactions => TRANSACTIONS_DIR,
        };
        let shard = |slot| {
            let store = JournalStore {
                volume: Arc::clone(&seams.volume),
                dir: slot_dir(dir, slot),
                broker_id: seams.broker_id,
                incarnation: seams.incarnation,
                sync: options.sync,
                changes_bytes_min: options.journal_changes_bytes,
                mutants: seams.mutants,
            };
            Shard::new(slot, store, Arc::clone(&common))
        };
        let shards: Arc<[_]> = (0..SLOTS).map(shard).collect();
        let ticked = Arc::clone(&shards);
        let clock = Arc::clone(&common);
        let tick = move || tick(&clock, &ticked);
        let timer = if options.threads > 0 { Some(timers.start(seams.clock, tick)?) } else { None };
        shards.iter().for_each(|shard| shard.load());
        Ok(Self { shards, common, timer: Mutex::new(timer) })
    }

    /// Runs `call` on the machine of the slot that `id` belongs to. The answer waits until everything that it may rest on
    /// is durable.
    ///
    /// # Errors
    /// [`CoordinatorError`]; nothing has happened.
    pub fn call<R>(
        &self,
        id: &str,
        call: impl FnOnce(&mut M, Now, &mut Outbox<M>) -> R,
    ) -> Result<Pending<R>, CoordinatorError> {
        self.call_slot(slot_of(id), call)
    }

    /// As [`call`](Self::call), for a slot by its number, which is below [`SLOTS`].
    ///
    /// # Errors
    /// [`CoordinatorError`]; nothing has happened.
    pub fn call_slot<R>(
        &self,
        slot: u32,
        call: impl FnOnce(&mut M, Now, &mut Outbox<M>) -> R,
    ) -> Result<Pending<R>, CoordinatorError> {
        self.shard(slot)?.call(call)
    }

    /// Runs a call whose answer rests on nothing that must be durable, a heartbeat for example.
    ///
    /// # Errors
    /// [`CoordinatorError`]; nothing has happened.
    pub fn call_now<R>(
        &self,
        id: &str,
        call: impl FnOnce(&mut M, Now, &mut Outbox<M>) -> R,
    ) -> Result<R, CoordinatorError> {
        self.shard(slot_of(id))?.call_now(call)
    }

    /// Does whatever waits, loading, writing, timeouts, on this thread: for a coordinator without threads.
    pub fn run(&self) {
        self.common.pool.run();
        tick(&self.common, &self.shards);
        self.common.pool.run();
    }

    /// The next moment, on the engine's monotonic clock, at which a timeout may be due.
    #[cfg(feature = "test-util")]
    pub fn next_deadline(&self) -> Option<std::time::Duration> {
        self.common.timers.first()
    }

    /// Makes durable what waits, and refuses calls from now on. Blocks.
    pub fn close(&self) {
        self.stop();
        self.shards.iter().for_each(|shard| shard.close());
    }

    fn shard(&self, slot: u32) -> Result<&Arc<Shard<M>>, CoordinatorError> {
        self.shards.get(slot as usize).ok_or(CoordinatorError::Moved)
    }

    fn stop(&self) {
        self.common.timers.stop();
        if let Some(timer) = self.timer.lock().take() {
            // A panic there was reported by its hook; there is nothing to add.
            let _ = timer.join();
        }
        self.common.pool.close();
    }
}

impl<M: Machine> Drop for Coordinator<M>
where
    M::Token: Answer<M::Reply>,
{
    fn drop(&mut self) {
        self.stop();
    }
}

fn tick<M: Machine>(common: &Common<M>, shards: &[Arc<Shard<M>>])
where
    M::Token: Answer<M::Reply>,
{
    for (deadline, slot) in common.timers.take_due(common.clock.monotonic()) {
        if let Some(shard) = shards.get(slot as usize) {
            shard.due(deadline);
        }
    }
}
