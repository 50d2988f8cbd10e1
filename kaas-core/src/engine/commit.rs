//! The commit loop: gather what arrived for all partitions, write, sync in parallel, read the fence once,
//! publish, acknowledge. One thread; it sleeps only when there is nothing to do, and there are no timers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::fence::{Fence, Fenced};
use super::stats::Counters;
use super::sync_pool::SyncPool;
use crate::clock::Clock;
use crate::error::{AppendError, CloseError, StorageError};
use crate::log::{Group, NewEpoch, Partition, WriteContext, Writer, Written};
use crate::mutant::{Mutant, Mutants};
use crate::volume::VolumeFile;

/// Something for the commit loop to do.
pub(crate) enum Event {
    /// A partition has pending appends.
    Dirty(u64),
    /// A partition exists from now on.
    Add(Arc<Partition>),
    /// A sync by the pool has ended.
    Synced(u64, Result<(), StorageError>),
    /// These partitions are deleted: let go of their files, then answer.
    Forget(Vec<u64>, SyncSender<()>),
    /// Close the active segment of a partition unless it is being synced; then say whether it is closed.
    Roll(u64, SyncSender<bool>),
    /// This partition is being given up: commit what is pending, let go of its files, then answer whether it was.
    Resign(u64, SyncSender<bool>),
    /// Commit what is pending, sync and checkpoint everything, then answer.
    Close(SyncSender<Result<(), CloseError>>),
    /// Say that this was reached, and wait until the other end is dropped.
    #[cfg(feature = "test-util")]
    Hold(SyncSender<()>, std::sync::mpsc::Receiver<()>),
    /// Stop now.
    Stop,
}

/// What the rest of the engine tells the commit loop.
pub(crate) struct CommitQueue {
    inbox: Mutex<Inbox>,
    arrived: Condvar,
    /// Held by the one thread besides the loop that commits an append of its own; `None` when none may.
    shortcut: Option<Mutex<()>>,
}

#[derive(Default)]
struct Inbox {
    events: Vec<Event>,
    closed: bool,
}

impl CommitQueue {
    pub(crate) fn new(fence: &dyn Fence) -> Self {
        let shortcut = fence.is_free().then(Mutex::default);
        Self { inbox: Mutex::default(), arrived: Condvar::new(), shortcut }
    }

    /// The right to commit without the loop what needs no sync. One thread has it at a time: a write that the
    /// kernel stalls then stalls one thread of the host, not all.
    pub(crate) fn shortcut(&self) -> Option<MutexGuard<'_, ()>> {
        self.shortcut.as_ref()?.try_lock()
    }

    /// A partition has pending appends.
    pub(crate) fn dirty(&self, key: u64) -> Result<(), AppendError> {
        if self.send(Event::Dirty(key)) { Ok(()) } else { Err(AppendError::Closed) }
    }

    /// False when the loop has ended.
    pub(crate) fn send(&self, event: Event) -> bool {
        let mut inbox = self.inbox.lock();
        if inbox.closed {
            return false;
        }
        inbox.events.push(event);
        drop(inbox);
        self.arrived.notify_one();
        true
    }

    fn has_events(&self) -> bool {
        !self.inbox.lock().events.is_empty()
    }

    /// Whether the loop has ended.
    pub(crate) fn is_closed(&self) -> bool {
        self.inbox.lock().closed
    }

    /// All events since the last call; waits for one if `wait` is set.
    fn receive(&self, wait: bool) -> Vec<Event> {
        let mut inbox = self.inbox.lock();
        while wait && inbox.events.is_empty() {
            self.arrived.wait(&mut inbox);
        }
        std::mem::take(&mut inbox.events)
    }

    /// Refuses events from now on; returns those that nobody will look at.
    fn close(&self) -> Vec<Event> {
        let mut inbox = self.inbox.lock();
        inbox.closed = true;
        std::mem::take(&mut inbox.events)
    }
}

/// The loop of an engine without a thread for it: turned by whoever calls [`run`](Self::run).
#[derive(Default)]
pub(crate) struct ManualLoop(Mutex<Option<Committer>>);

impl ManualLoop {
    pub(crate) fn start(&self, committer: Committer) {
        *self.0.lock() = Some(committer);
    }

    /// Does everything there is to do. Nothing when the loop has a thread, or has ended.
    pub(crate) fn run(&self) {
        let mut owned = self.0.lock();
        if let Some(committer) = owned.as_mut()
            && !committer.run_idle()
            && let Some(ended) = owned.take()
        {
            ended.end();
        }
    }
}

/// The state of the loop.
pub(crate) struct Committer {
    pub(crate) queue: Arc<CommitQueue>,
    pub(crate) context: WriteContext,
    pub(crate) fence: Arc<dyn Fence>,
    pub(crate) pool: SyncPool,
    measure: Measure,
    pub(crate) slots: BTreeMap<u64, Slot>,
    /// Groups that the pool is syncing.
    in_flight: usize,
    /// Partitions that have more to write.
    again: Vec<u64>,
    resigning: Vec<(u64, SyncSender<bool>)>,
    closing: Option<SyncSender<Result<(), CloseError>>>,
    /// What the fence said too early: a seeded bug.
    early: Option<Result<(), Fenced>>,
}

/// One partition in the loop.
pub(crate) struct Slot {
    partition: Arc<Partition>,
    /// Written, and being synced by the pool.
    in_flight: Option<Group>,
    /// When its last group was written.
    written: Duration,
}

/// Where the loop notes how long commits take.
pub(crate) struct Measure {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) counters: Arc<Counters>,
}

/// What remains to be done after a batch of events.
#[derive(Default)]
struct Cycle {
    dirty: Vec<u64>,
    synced: Vec<(u64, Result<(), StorageError>)>,
    stop: bool,
}

impl Committer {
    pub(crate) fn new(
        queue: Arc<CommitQueue>,
        context: WriteContext,
        fence: Arc<dyn Fence>,
        pool: SyncPool,
        measure: Measure,
    ) -> Self {
        Self {
            queue,
            context,
            fence,
            pool,
            measure,
            slots: BTreeMap::new(),
            in_flight: 0,
            again: Vec::new(),
            resigning: Vec::new(),
            closing: None,
            early: None,
        }
    }

    /// Runs until it is told to stop.
    pub(crate) fn run(mut self) {
        // With nothing left to write, only an event can bring work: an append, or the end of a sync.
        while self.turn(self.again.is_empty()) {}
        self.end();
    }

    /// Does everything there is to do, without waiting for more; false when it was told to stop.
    fn run_idle(&mut self) -> bool {
        while !self.again.is_empty() || self.queue.has_events() {
            if !self.turn(false) {
                return false;
            }
        }
        true
    }

    /// One turn of the loop; false when it was told to stop.
    fn turn(&mut self, wait: bool) -> bool {
        let mut cycle = self.sort(wait);
        cycle.dirty.append(&mut self.again);
        if cycle.stop {
            return false;
        }
        self.again = self.cycle(cycle);
        self.resign_idle();
        let busy = !self.again.is_empty()
            || self.in_flight > 0
            || (self.closing.is_some() && self.others_left_work());
        if let Some(reply) = self.closing.take_if(|_| !busy) {
            let result = self.finish();
            // Whoever closes waits for the answer, unless it gave up.
            let _ = reply.send(result);
            return false;
        }
        true
    }

    fn sort(&mut self, wait: bool) -> Cycle {
        let mut cycle = Cycle::default();
        for event in self.queue.receive(wait) {
            match event {
                Event::Dirty(key) => cycle.dirty.push(key),
                Event::Add(partition) => {
                    let slot = Slot { partition, in_flight: None, written: Duration::ZERO };
                    self.slots.insert(slot.partition.key(), slot);
                }
                Event::Synced(key, result) => cycle.synced.push((key, result)),
                Event::Forget(keys, reply) => {
                    for key in keys {
                        self.forget(key);
                    }
                    let _ = reply.send(());
                }
                Event::Roll(key, reply) => {
                    let closed = self.roll(key);
                    let _ = reply.send(closed);
                }
                Event::Resign(key, reply) => self.resigning.push((key, reply)),
                Event::Close(reply) => self.closing = Some(reply),
                #[cfg(feature = "test-util")]
                Event::Hold(reached, released) => {
                    let _ = reached.send(());
                    let _ = released.recv();
                }
                Event::Stop => cycle.stop = true,
            }
        }
        cycle
    }

    /// One cycle; returns the partitions that have more to write.
    fn cycle(&mut self, cycle: Cycle) -> Vec<u64> {
        let mut again = Vec::new();
        let mut ready = Vec::new();
        let mut to_sync = Vec::new();
        let began = if cycle.dirty.is_empty() { Duration::ZERO } else { self.measure.clock.monotonic() };
        for key in cycle.dirty {
            // A partition with a group in flight has nothing to write before that has been released.
            if let Some(slot) = self.slots.get_mut(&key).filter(|slot| slot.in_flight.is_none()) {
                slot.written = began;
            }
            match self.write(key) {
                Some(Written { group, sync: None }) => ready.push((key, group)),
                Some(Written { group, sync: Some(file) }) => to_sync.push((key, group, file)),
                None => {}
            }
        }
        if self.context.mutants.has(Mutant::FenceBeforeSync) {
            self.early = Some(self.fence.check());
        }
        // What needs no sync does not wait for those that do.
        self.release(ready, &mut again);
        let mut done = cycle.synced;
        done.extend(self.sync(to_sync));
        let durable = done.into_iter().filter_map(|(key, result)| self.settle(key, result)).collect();
        self.release(durable, &mut again);
        again
    }

    /// Waits for threads that commit an append of their own; whether they left something for the loop.
    fn others_left_work(&self) -> bool {
        for slot in self.slots.values() {
            drop(slot.partition.writer());
        }
        self.queue.has_events()
    }

    fn write(&mut self, key: u64) -> Option<Written> {
        let partition = &self.slots.get(&key)?.partition;
        let mut owned = partition.writer();
        let writer = owned.as_mut()?;
        match writer.write(&self.context, partition) {
            Ok(written) => written,
            Err((group, error)) => {
                tracing::error!(partition = %partition.dir(), %error, "write failed");
                let error = AppendError::Storage(error);
                if self.context.shared {
                    *owned = None;
                    partition.step_down(group, error);
                    return None;
                }
                if writer.has_failed_sync() {
                    partition.suspend();
                }
                partition.fail_pending(group, &error);
                give_up_segment(&self.context, partition, writer);
                None
            }
        }
    }

    /// Closes the active segment. Not while a group in it is being synced: whether that succeeds is one file's to know.
    fn roll(&mut self, key: u64) -> bool {
        let Some(slot) = self.slots.get(&key).filter(|slot| slot.in_flight.is_none()) else { return false };
        let partition = &slot.partition;
        let mut owned = partition.writer();
        let Some(writer) = owned.as_mut() else { return false };
        let Err(error) = writer.close_segment(&self.context, partition) else { return true };
        tracing::error!(partition = %partition.dir(), %error, "closing a segment failed");
        if self.context.shared {
            *owned = None;
            partition.step_down(None, AppendError::Storage(error));
            return false;
        }
        if writer.has_failed_sync() {
            partition.suspend();
            partition.fail_pending(None, &AppendError::Storage(error));
            give_up_segment(&self.context, partition, writer);
        }
        false
    }

    /// Starts the syncs. A lone one is done here, which saves two switches of threads; its result, and that
    /// of everything when there is no pool, is returned. The others arrive as events.
    fn sync(
        &mut self,
        groups: Vec<(u64, Group, Arc<dyn VolumeFile>)>,
    ) -> Vec<(u64, Result<(), StorageError>)> {
        let here = self.pool.is_empty() || (groups.len() == 1 && self.in_flight == 0);
        let mut done = Vec::new();
        for (key, group, file) in groups {
            let Some(slot) = self.slots.get_mut(&key) else { continue };
            if self.context.mutants.has(Mutant::VisibleBeforeSync) {
                slot.partition.publish_early(&group);
            }
            slot.in_flight = Some(group);
            self.in_flight += 1;
            if here {
                done.push((key, sync_file(&*file, self.context.mutants)));
            } else {
                self.pool.submit(key, file, Arc::clone(&self.queue));
            }
        }
        done
    }

    /// Takes back a group whose sync has ended, if it succeeded.
    fn settle(&mut self, key: u64, result: Result<(), StorageError>) -> Option<(u64, Group)> {
        let slot = self.slots.get_mut(&key)?;
        let group = slot.in_flight.take()?;
        self.in_flight -= 1;
        match result {
            Ok(()) => {
                if let Some(writer) = slot.partition.writer().as_mut() {
                    writer.synced(group.end_position);
                }
                Some((key, group))
            }
            Err(error) => {
                self.poison(key, group, error);
                None
            }
        }
    }

    /// Publishes and acknowledges what is as durable as it should be, if this broker may still do so.
    fn release(&mut self, groups: Vec<(u64, Group)>, again: &mut Vec<u64>) {
        if groups.is_empty() {
            return;
        }
        if self.context.mutants.has(Mutant::VisibleBeforeFence) {
            for (slot, group) in groups.iter().filter_map(|(key, group)| Some((self.slots.get(key)?, group)))
            {
                slot.partition.publish_early(group);
            }
        }
        let fence = self.early.take().unwrap_or_else(|| self.fence.check());
        if fence.is_err() {
            self.stop_leading();
        }
        let now = self.measure.clock.monotonic();
        for (key, group) in groups {
            let Some(slot) = self.slots.get_mut(&key) else { continue };
            if fence.is_err() {
                slot.partition.fail_pending(Some(group), &AppendError::Fenced);
                continue;
            }
            self.measure.counters.committed(now.saturating_sub(slot.written));
            if slot.partition.publish(group) {
                again.push(key);
            }
            let mut writer = slot.partition.writer();
            let Some(writer) = writer.as_mut() else { continue };
            if let Err(error) = writer.checkpoint_if_due(&self.context, &slot.partition) {
                // A checkpoint only shortens recovery: the next one may succeed.
                tracing::warn!(partition = %slot.partition.dir(), %error, "checkpoint failed");
            }
        }
    }

    /// A sync failed: what it covered is in an unknown state, and no later sync of that file can be believed.
    fn poison(&mut self, key: u64, group: Group, error: StorageError) {
        let Some(Slot { partition, .. }) = self.slots.get(&key) else { return };
        tracing::error!(partition = %partition.dir(), %error, "sync failed");
        let mut writer = partition.writer();
        if self.context.shared {
            *writer = None;
            partition.step_down(Some(group), AppendError::Storage(error));
            return;
        }
        if let Some(writer) = writer.as_mut() {
            writer.sync_failed(group.start_position, group.start_offset());
        }
        partition.suspend();
        partition.fail_pending(Some(group), &AppendError::Storage(error));
        if let Some(writer) = writer.as_mut() {
            give_up_segment(&self.context, partition, writer);
        }
    }

    /// This broker has been fenced: it leads nothing any more.
    fn stop_leading(&mut self) {
        for slot in self.slots.values() {
            slot.partition.fence();
            *slot.partition.writer() = None;
        }
    }

    /// Lets go of the partitions that are being given up and have nothing to commit any more.
    fn resign_idle(&mut self) {
        for (key, reply) in std::mem::take(&mut self.resigning) {
            let Some(slot) = self.slots.get(&key) else { continue };
            if slot.in_flight.is_some() || !slot.partition.may_resign() {
                self.resigning.push((key, reply));
                continue;
            }
            let mut writer = slot.partition.writer();
            if let Some(writer) = writer.as_mut()
                && let Err(error) = writer.finish(&self.context, &slot.partition)
            {
                // The next leader has more to read.
                tracing::warn!(partition = %slot.partition.dir(), %error, "checkpoint failed");
            }
            *writer = None;
            drop(writer);
            let _ = reply.send(slot.partition.end_resigning());
        }
    }

    fn forget(&mut self, key: u64) {
        let Some(slot) = self.slots.remove(&key) else { return };
        // Nobody writes to its files any more.
        *slot.partition.writer() = None;
        if let Some(group) = slot.in_flight {
            self.in_flight -= 1;
            slot.partition.fail_pending(Some(group), &AppendError::Deleted);
        }
    }

    /// Makes everything durable and cheap to open again.
    fn finish(&mut self) -> Result<(), CloseError> {
        let mut result = Ok(());
        for slot in self.slots.values_mut() {
            if let Some(writer) = slot.partition.writer().as_mut()
                && let Err(error) = writer.finish(&self.context, &slot.partition)
            {
                tracing::error!(partition = %slot.partition.dir(), %error, "close failed");
                result = Err(error.into());
            }
        }
        result
    }

    /// Refuses everything from now on. Dropping an event that holds an answer's channel answers it.
    fn end(self) {
        drop(self.queue.close());
        for slot in self.slots.into_values() {
            if let Some(group) = slot.in_flight {
                slot.partition.fail_pending(Some(group), &AppendError::Closed);
            }
            let _nobody_writes = slot.partition.writer();
            slot.partition.mark_closed();
        }
    }
}

/// Goes on under a new epoch when the segment of the present one cannot be trusted any more.
fn give_up_segment(context: &WriteContext, partition: &Partition, writer: &mut Writer) {
    match writer.give_up_segment(context, partition) {
        Ok(None) => {}
        Ok(Some(NewEpoch { epoch, sealed, sealed_bytes })) => {
            partition.begin_epoch(epoch, &sealed, sealed_bytes);
        }
        Err(error) => {
            let why = format!("after a failed sync: {error}");
            tracing::error!(partition = %partition.dir(), why, "partition offline");
            partition.take_offline(&why);
        }
    }
}

/// Syncs a file once: a second try after a failure would report a success that means nothing.
pub(crate) fn sync_file(file: &dyn VolumeFile, mutants: Mutants) -> Result<(), StorageError> {
    if mutants.has(Mutant::AckBeforeSync) {
        return Ok(());
    }
    let result = file.sync_data();
    if result.is_err() && mutants.has(Mutant::RetryFailedSync) {
        return Ok(file.sync_data()?);
    }
    Ok(result?)
}
