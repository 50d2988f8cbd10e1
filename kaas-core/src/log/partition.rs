//! A partition: the order of its appends, what is committed, and who waits.
//!
//! One short lock guards it; nothing is read, written or synced while it is held. The commit loop takes
//! pending batches out, makes them durable and publishes them.

use std::sync::Arc;

use arc_swap::ArcSwap;
use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;
use uuid::Uuid;

use super::append::{AppendOptions, Appended, Group, Offsets, Origin, PendingAppend, PendingBatch};
use super::producers::{ActiveProducer, Expiry, Producers};
use super::quarantine::{DamagedRange, Quarantine};
use super::recover::Recovered;
use super::segment::Segment;
use super::state::{State, Status};
use super::verification::VerificationGuard;
use super::wake::{Wake, wake_all};
use super::writer::{Writer, Written};
use crate::clock::Clock;
use crate::config::{FLUSH_NEVER, LogConfig};
use crate::engine::stats::Counters;
use crate::engine::{CommitQueue, Fence};
use crate::error::{AppendError, Offline, ReadError};
use crate::mutant::Mutants;
use crate::record::{validate, validate_any, validate_marker};
use crate::volume::Volume;

/// One partition of a topic. Handles are shared; all methods take `&self`.
pub struct Partition {
    key: u64,
    topic_id: Uuid,
    index: i32,
    dir: Arc<str>,
    config: Arc<ArcSwap<LogConfig>>,
    pub(super) volume: Arc<dyn Volume>,
    clock: Arc<dyn Clock>,
    pub(super) fence: Arc<dyn Fence>,
    pub(super) mutants: Mutants,
    queue: Arc<CommitQueue>,
    counters: Arc<Counters>,
    /// Damaged places that a read has met.
    quarantine: Mutex<Quarantine>,
    producer_expiration_ms: i64,
    /// Owned by whoever commits what is pending. Only the commit loop ever waits for it, and only when it closes the
    /// log, for one write; a thread that commits its own append tries. Locked before `state`.
    writer: Mutex<Option<Writer>>,
    pub(super) state: Mutex<State>,
}

/// The batch that is next to be written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NextBatch {
    pub(crate) bytes: u64,
    /// Its greatest timestamp, or -1.
    pub(crate) timestamp: i64,
}

/// What a partition is made of.
pub(crate) struct PartitionParts {
    pub(crate) key: u64,
    pub(crate) topic_id: Uuid,
    pub(crate) index: i32,
    pub(crate) dir: Arc<str>,
    pub(crate) config: Arc<ArcSwap<LogConfig>>,
    pub(crate) volume: Arc<dyn Volume>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) fence: Arc<dyn Fence>,
    pub(crate) mutants: Mutants,
    pub(crate) queue: Arc<CommitQueue>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) producer_expiration_ms: i64,
    pub(crate) log: Opened,
}

/// What there is of a partition when its engine opens.
pub(crate) enum Opened {
    Log(Box<Recovered>),
    Offline(Offline),
    /// The volume is shared: nothing is led before it is taken over.
    Elsewhere,
}

impl std::fmt::Debug for Partition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Partition").field("dir", &self.dir).field("offsets", &self.offsets()).finish()
    }
}

impl Partition {
    /// The topic's identity.
    pub fn topic_id(&self) -> Uuid {
        self.topic_id
    }

    /// The partition's number, from 0.
    pub fn index(&self) -> i32 {
        self.index
    }

    /// The epoch that is stamped into appended batches. It only grows.
    pub fn leader_epoch(&self) -> i32 {
        self.state.lock().epoch
    }

    /// The offsets that bound the log, at one moment.
    pub fn offsets(&self) -> Offsets {
        self.state.lock().offsets()
    }

    /// Why the partition is out of service, if it is.
    pub fn offline(&self) -> Option<Offline> {
        match &self.state.lock().status {
            Status::Offline(offline) => Some(offline.clone()),
            _ => None,
        }
    }

    /// Checks `batches` (one v2 batch, or what [`AppendOptions::old_formats`] adds) and fixes its place in the log; never
    /// waits for a sync. A batch that needs none may be written to the page cache before this returns.
    ///
    /// The batch is held in memory until it is written; whoever calls bounds how many are under way.
    /// The returned future resolves when the batch is committed: synced as `flush_messages` demands,
    /// and visible to readers. Dropping it does not take the append back.
    ///
    /// # Errors
    /// [`AppendError`]: the batch was not appended.
    pub fn append(&self, batches: Bytes, options: AppendOptions) -> Result<PendingAppend, AppendError> {
        let AppendOptions { origin, old_formats, transaction } = options;
        let expiry = self.expiry();
        let config = self.config.load();
        let validate = match origin {
            Origin::Coordinator => validate_marker,
            Origin::Client if old_formats => validate_any,
            Origin::Client => validate,
        };
        let batch = validate(&batches, &config, expiry.now_ms)?;
        let (waiter, outcome) = oneshot::channel();
        let stored_bytes = batch.header.size;
        let wake_loop = self.state.lock().enqueue(batch, transaction, expiry, waiter)?;
        if wake_loop && !self.commit_here(&config) {
            self.queue.dirty(self.key)?;
        }
        Ok(PendingAppend { outcome, stored_bytes })
    }

    /// Commits what is pending on this thread, which saves two switches of threads, if it needs no sync and
    /// nothing but one write. False when the commit loop must see to it.
    fn commit_here(&self, config: &LogConfig) -> bool {
        if config.flush_messages < FLUSH_NEVER {
            return false;
        }
        let Some(_shortcut) = self.queue.shortcut() else { return false };
        let Some(mut writer) = self.writer.try_lock() else { return false };
        let Some(writer) = writer.as_mut() else { return false };
        match writer.write_at_once(self, config) {
            Ok(None) => false,
            // What has come meanwhile is the loop's; if the loop has ended, it has failed it.
            Ok(Some(Written { group, .. })) => {
                if self.publish(group) {
                    let _ = self.queue.dirty(self.key);
                }
                true
            }
            Err((group, error)) => {
                tracing::error!(partition = %self.dir, %error, "write failed");
                self.fail_pending(group, &AppendError::Storage(error));
                true
            }
        }
    }

    /// Registers for one wake-up when an offset moves, or the partition goes away. The registration is weak:
    /// keep `watcher` alive as long as it should count, and read again after registering.
    pub fn watch(&self, watcher: &Arc<dyn Wake>) {
        let mut state = self.state.lock();
        match state.status {
            Status::Online | Status::Suspended | Status::Resigning => state.watchers.add(watcher),
            // Nothing moves any more, and reads still work: there is nothing to be woken for.
            Status::Closed => {}
            Status::Elsewhere | Status::Taking | Status::Fenced | Status::Offline(_) | Status::Deleted => {
                drop(state);
                watcher.wake();
            }
        }
    }

    /// Where `epoch` ends, by KIP-320: the greatest known epoch that is not above it, and the first offset
    /// of the next; `(-1, -1)` for an epoch that has not begun.
    pub fn end_offset_for_epoch(&self, epoch: i32) -> (i32, i64) {
        let state = self.state.lock();
        state.epochs.end_of(epoch, state.log_end).unwrap_or((-1, -1))
    }

    /// The epoch of the leader that stored the record at `offset`, or would store it; `None` below the log start.
    pub fn epoch_at(&self, offset: i64) -> Option<i32> {
        self.state.lock().epochs.epoch_at(offset)
    }

    /// The producers that could still append, by id: idempotent ones within `producer.id.expiration.ms` of their last
    /// batch, and all with an open transaction.
    pub fn active_producers(&self) -> Vec<ActiveProducer> {
        let expiry = self.expiry();
        self.state.lock().producers.active(expiry)
    }

    /// Before a transactional batch: what to ask the coordinator under, or `None` when the producer's transaction is
    /// open here already and there is nothing to ask (KIP-890). `first_sequence` is that of the batch.
    pub fn begin_verification(
        &self,
        producer_id: i64,
        producer_epoch: i16,
        first_sequence: i32,
    ) -> Option<VerificationGuard> {
        let expiry = self.expiry();
        let mut state = self.state.lock();
        if state.producers.is_in_transaction(producer_id) {
            return None;
        }
        Some(state.verifications.ask(producer_id, producer_epoch, first_sequence, expiry))
    }

    pub(super) fn expiry(&self) -> Expiry {
        Expiry { now_ms: self.clock.now_ms(), expiration_ms: self.producer_expiration_ms }
    }

    pub(crate) fn new(parts: PartitionParts) -> Self {
        let (status, log) = match parts.log {
            Opened::Log(log) => (Status::Online, Some(*log)),
            Opened::Offline(offline) => (Status::Offline(offline), None),
            Opened::Elsewhere => (Status::Elsewhere, None),
        };
        let (state, seed) = State::new(status, log);
        Self {
            key: parts.key,
            topic_id: parts.topic_id,
            index: parts.index,
            dir: parts.dir,
            config: parts.config,
            volume: parts.volume,
            clock: parts.clock,
            fence: parts.fence,
            mutants: parts.mutants,
            queue: parts.queue,
            counters: parts.counters,
            quarantine: Mutex::default(),
            producer_expiration_ms: parts.producer_expiration_ms,
            writer: Mutex::new(seed.map(Writer::new)),
            state: Mutex::new(state),
        }
    }

    /// Notes what a read has met, if it is damage.
    pub(super) fn noted(&self, error: ReadError) -> ReadError {
        if self.quarantine.lock().meets(&error) {
            self.counters.damaged_range();
            tracing::error!(partition = %self.dir, %error, "damaged: refused to every reader");
        }
        error
    }

    /// The damaged places that reads have met so far, by segment and position. What lies around them is served.
    pub fn damaged_ranges(&self) -> Vec<DamagedRange> {
        self.quarantine.lock().ranges()
    }

    pub(crate) fn key(&self) -> u64 {
        self.key
    }

    /// Whether the topic was deleted.
    pub(crate) fn is_gone(&self) -> bool {
        matches!(self.state.lock().status, Status::Deleted)
    }

    pub(crate) fn dir(&self) -> &Arc<str> {
        &self.dir
    }

    /// The settings of the log as they are now.
    pub fn config(&self) -> Arc<LogConfig> {
        self.config.load_full()
    }

    /// The log's writer, locked; none when there is nothing to write to.
    pub(crate) fn writer(&self) -> MutexGuard<'_, Option<Writer>> {
        self.writer.lock()
    }

    pub(crate) fn now_ms(&self) -> i64 {
        self.clock.now_ms()
    }

    /// The batch that is next to be written.
    pub(crate) fn first_pending(&self) -> Option<NextBatch> {
        let state = self.state.lock();
        let header = &state.pending.front()?.header;
        Some(NextBatch { bytes: header.size as u64, timestamp: header.max_timestamp })
    }

    /// Takes batches of at most `bytes_max` together and none younger than `timestamp_max`, but at least one.
    pub(crate) fn take_pending(&self, bytes_max: u64, timestamp_max: i64) -> Option<Vec<PendingBatch>> {
        let mut state = self.state.lock();
        let (mut bytes, mut count) = (0, 0);
        for batch in &state.pending {
            bytes += batch.header.size as u64;
            if count > 0 && (bytes > bytes_max || batch.header.max_timestamp > timestamp_max) {
                break;
            }
            count += 1;
        }
        let taken: Vec<PendingBatch> = state.pending.drain(..count).collect();
        (!taken.is_empty()).then_some(taken)
    }

    /// The producers as of the high watermark: without what is pending.
    pub(crate) fn committed_producers(&self) -> Producers {
        let state = self.state.lock();
        let mut producers = state.producers.clone();
        for undo in state.pending.iter().rev().filter_map(|batch| batch.undo) {
            producers.undo(undo);
        }
        producers
    }

    /// The transactions that are open at the high watermark: producer id and first offset.
    pub(crate) fn committed_open_transactions(&self) -> Vec<(i64, i64)> {
        if self.state.lock().producers.first_unstable().is_none() {
            return Vec::new();
        }
        self.committed_producers().open_transactions().collect()
    }

    /// Makes a committed group visible and acknowledges it. True when more is pending.
    pub(crate) fn publish(&self, group: Group) -> bool {
        let mut state = self.state.lock();
        let gone = state.gone();
        if gone.is_none() {
            state.advance(&group);
        }
        let more = state.settle_queue();
        let log_start_offset = state.log_start;
        let followers = state.take_followers();
        let watchers = state.watchers.take();
        drop(state);
        for batch in group.batches {
            let result = Appended { log_start_offset, ..batch.result };
            // A waiter that has gone away is no failure.
            let _ = batch.waiter.send(gone.clone().map_or(Ok(result), Err));
        }
        for follower in followers {
            let _ = follower.waiter.send(Ok(follower.result));
        }
        wake_all(watchers);
        more
    }

    /// Moves the high watermark without acknowledging: a seeded bug, for the crash tests.
    pub(crate) fn publish_early(&self, group: &Group) {
        self.state.lock().advance(group);
    }

    /// Fails everything that is not committed: the log end and the producers go back to the high watermark.
    pub(crate) fn fail_pending(&self, group: Option<Group>, error: &AppendError) {
        let mut state = self.state.lock();
        let waiters = state.roll_back(group.map(|group| group.batches).unwrap_or_default());
        state.queued = false;
        drop(state);
        for waiter in waiters {
            let _ = waiter.send(Err(error.clone()));
        }
    }

    /// Continues under a new epoch, which begins at the high watermark.
    pub(crate) fn begin_epoch(&self, epoch: i32, sealed: &Segment, sealed_bytes: u64) {
        let mut state = self.state.lock();
        sealed.set_visible(sealed_bytes);
        state.last_closed = true;
        state.claimed = false;
        state.recent_ends.clear();
        state.epoch = epoch;
        let start = state.high_watermark;
        state.epochs.begin(epoch, start);
        if matches!(state.status, Status::Suspended) {
            state.status = Status::Online;
        }
    }

    /// Notes that the claim of the epoch is durable.
    pub(crate) fn note_claimed(&self) {
        self.state.lock().claimed = true;
    }

    /// As of which offset the producers' state is durable.
    pub(crate) fn producers_kept_at(&self) -> i64 {
        self.state.lock().producers_kept_at
    }

    /// Notes that the producers' state as of `offset` is durable.
    pub(crate) fn note_producers_kept(&self, offset: i64) {
        let mut state = self.state.lock();
        state.producers_kept_at = state.producers_kept_at.max(offset);
    }

    /// Notes that the last segment takes no more appends.
    pub(crate) fn close_last(&self) {
        self.state.lock().last_closed = true;
    }

    /// Refuses appends until [`begin_epoch`](Self::begin_epoch).
    pub(crate) fn suspend(&self) {
        let mut state = self.state.lock();
        if matches!(state.status, Status::Online) {
            state.status = Status::Suspended;
        }
    }

    /// Refuses everything from now on, wakes everybody, and fails what is pending.
    pub(crate) fn take_offline(&self, why: &str) {
        let offline = Offline { why: Arc::from(why) };
        self.leave(Status::Offline(offline.clone()), &AppendError::Offline(offline));
    }

    /// As [`take_offline`](Self::take_offline), for good: the topic is being deleted.
    pub(crate) fn mark_deleted(&self) {
        self.leave(Status::Deleted, &AppendError::Deleted);
    }

    /// As [`take_offline`](Self::take_offline): the engine has closed. What could not be read stays so.
    pub(crate) fn mark_closed(&self) {
        if self.state.lock().gone().is_some() {
            return;
        }
        self.leave(Status::Closed, &AppendError::Closed);
    }

    /// Refuses new appends because the engine is closing; what is pending goes on.
    pub(crate) fn refuse_appends(&self) {
        let mut state = self.state.lock();
        if matches!(state.status, Status::Online | Status::Resigning) {
            state.status = Status::Closed;
        }
    }

    pub(super) fn leave(&self, status: Status, error: &AppendError) {
        self.leave_with(None, status, error);
    }

    /// As [`leave`](Self::leave), and the group that is under way fails too.
    pub(super) fn leave_with(&self, group: Option<Group>, status: Status, error: &AppendError) {
        let mut state = self.state.lock();
        state.status = status;
        let waiters = state.roll_back(group.map(|group| group.batches).unwrap_or_default());
        let watchers = state.watchers.take();
        drop(state);
        for waiter in waiters {
            let _ = waiter.send(Err(error.clone()));
        }
        wake_all(watchers);
    }

    pub(super) fn with_state<T>(&self, look: impl FnOnce(&mut State) -> T) -> T {
        look(&mut self.state.lock())
    }

    /// Runs `look` under the lock if the log can be read.
    pub(super) fn with_readable<T>(&self, look: impl FnOnce(&mut State) -> T) -> Result<T, ReadError> {
        let mut state = self.state.lock();
        match &state.status {
            Status::Online | Status::Suspended | Status::Resigning | Status::Closed => Ok(look(&mut state)),
            Status::Elsewhere | Status::Taking => Err(ReadError::NotLeader),
            Status::Fenced => Err(ReadError::Fenced),
            Status::Offline(offline) => Err(offline.clone().into()),
            Status::Deleted => Err(ReadError::Deleted),
        }
    }
}
