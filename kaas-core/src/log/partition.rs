//! A partition: the order of its appends, what is committed, and who waits.
//!
//! One short lock guards it; nothing is read, written or synced while it is held. The commit loop takes
//! pending batches out, makes them durable and publishes them.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use arc_swap::ArcSwap;
use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::oneshot;
use uuid::Uuid;

use super::producers::{AppendedBatch, Producers, Undo, Verdict};
use super::recover::Recovered;
use super::segment::Segment;
use super::wake::{Wake, Watchers, wake_all};
use super::writer::WriterSeed;
use crate::clock::Clock;
use crate::config::{LogConfig, TimestampType};
use crate::engine::CommitQueue;
use crate::error::{AppendError, Offline, ReadError};
use crate::record::{BASE_OFFSET_AT, BATCH_OVERHEAD, BatchHeader, LEADER_EPOCH_AT, ValidBatch, validate};
use crate::volume::Volume;

/// Commit positions remembered for readers at the end of the log.
const RECENT_ENDS_MAX: usize = 64;

/// Who appends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Origin {
    /// A client's produce request.
    #[default]
    Client,
}

/// How to append.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AppendOptions {
    /// Who appends.
    pub origin: Origin,
}

/// Where a batch went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    /// Offset of its first record.
    pub base_offset: i64,
    /// Offset of its last record.
    pub last_offset: i64,
    /// The broker's time in its header, or -1 when the topic keeps the producer's timestamps.
    pub log_append_time_ms: i64,
    /// First offset of the log.
    pub log_start_offset: i64,
    /// The batch had been appended before; the offsets are the original's.
    pub duplicate: bool,
}

/// The offsets that bound a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offsets {
    /// First offset.
    pub log_start: i64,
    /// Every transaction below is decided.
    pub last_stable: i64,
    /// Everything below is acknowledged and visible.
    pub high_watermark: i64,
    /// The next offset to be given out.
    pub log_end: i64,
}

/// An append whose place is fixed and whose commit is under way.
#[derive(Debug)]
pub struct PendingAppend(oneshot::Receiver<Result<Appended, AppendError>>);

impl PendingAppend {
    /// Blocks until the append is committed. Not for use inside an async runtime.
    ///
    /// # Errors
    /// As the future.
    pub fn wait(self) -> Result<Appended, AppendError> {
        self.0.blocking_recv().unwrap_or(Err(AppendError::Closed))
    }
}

impl Future for PendingAppend {
    type Output = Result<Appended, AppendError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context).map(|result| result.unwrap_or(Err(AppendError::Closed)))
    }
}

type Waiter = oneshot::Sender<Result<Appended, AppendError>>;

/// A batch with its offset, not yet committed.
#[derive(Debug)]
pub(crate) struct PendingBatch {
    pub(crate) header: BatchHeader,
    pub(crate) head_bytes: [u8; BATCH_OVERHEAD],
    pub(crate) body: Bytes,
    undo: Option<Undo>,
    waiter: Waiter,
    result: Appended,
}

/// The batches of one write, in one segment.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) batches: Vec<PendingBatch>,
    pub(crate) segment: Arc<Segment>,
    pub(crate) start_position: u64,
    pub(crate) end_position: u64,
    pub(crate) end_offset: i64,
}

impl Group {
    pub(crate) fn new(batches: Vec<PendingBatch>, segment: Arc<Segment>, start_position: u64) -> Self {
        let bytes: u64 = batches.iter().map(|batch| batch.header.size as u64).sum();
        let end_offset = batches.last().map_or(0, |batch| batch.header.next_offset());
        Self { batches, segment, start_position, end_position: start_position + bytes, end_offset }
    }

    pub(crate) fn records(&self) -> u64 {
        self.batches.iter().map(|batch| batch.header.record_count.unsigned_abs() as u64).sum()
    }

    /// The first offset of the group: the high watermark while the group is under way.
    pub(crate) fn start_offset(&self) -> i64 {
        self.batches.first().map_or(self.end_offset, |batch| batch.header.base_offset)
    }
}

/// A retry of a batch that is itself not committed yet.
struct Follower {
    last_offset: i64,
    result: Appended,
    waiter: Waiter,
}

#[derive(Debug, Clone)]
pub(super) enum Status {
    Online,
    /// Between a failed sync and the epoch that continues behind it: reads go on.
    Suspended,
    Offline(Offline),
    Deleted,
    Closed,
}

pub(super) struct State {
    pub(super) status: Status,
    epoch: i32,
    epochs: Vec<(i32, i64)>,
    pub(super) log_start: i64,
    pub(super) high_watermark: i64,
    pub(super) log_end: i64,
    pub(super) segments: Vec<Arc<Segment>>,
    /// High watermarks of the last commits and where they are in the last segment, oldest first.
    pub(super) recent_ends: VecDeque<(i64, u64)>,
    /// Rolled segments with an open descriptor, least recently opened first.
    pub(super) read_rolled: VecDeque<Arc<Segment>>,
    pending: VecDeque<PendingBatch>,
    /// The commit loop knows that there is something to do here.
    queued: bool,
    followers: Vec<Follower>,
    producers: Producers,
    watchers: Watchers,
    seed: Option<WriterSeed>,
}

/// One partition of a topic. Handles are shared; all methods take `&self`.
pub struct Partition {
    key: u64,
    topic_id: Uuid,
    index: i32,
    dir: Arc<str>,
    config: Arc<ArcSwap<LogConfig>>,
    pub(super) volume: Arc<dyn Volume>,
    clock: Arc<dyn Clock>,
    queue: Arc<CommitQueue>,
    producer_expiration_ms: i64,
    state: Mutex<State>,
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
    pub(crate) queue: Arc<CommitQueue>,
    pub(crate) producer_expiration_ms: i64,
    pub(crate) log: Result<Recovered, Offline>,
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

    /// Checks `batches` (one v2 batch) and fixes its place in the log; never waits for the disk.
    ///
    /// The batch is held in memory until it is written; whoever calls bounds how many are under way.
    /// The returned future resolves when the batch is committed: synced as `flush_messages` demands,
    /// and visible to readers. Dropping it does not take the append back.
    ///
    /// # Errors
    /// [`AppendError`]: the batch was not appended.
    pub fn append(&self, batches: Bytes, options: AppendOptions) -> Result<PendingAppend, AppendError> {
        let AppendOptions { origin: Origin::Client } = options;
        let now_ms = self.clock.now_ms();
        let config = self.config.load();
        let batch = validate(&batches, &config, now_ms)?;
        let (waiter, receiver) = oneshot::channel();
        let wake_loop =
            self.state.lock().enqueue(batch, &config, now_ms, self.producer_expiration_ms, waiter)?;
        if wake_loop {
            self.queue.dirty(self.key)?;
        }
        Ok(PendingAppend(receiver))
    }

    /// Registers for one wake-up when an offset moves, or the partition goes away. The registration is weak:
    /// keep `watcher` alive as long as it should count, and read again after registering.
    pub fn watch(&self, watcher: &Arc<dyn Wake>) {
        let mut state = self.state.lock();
        match state.status {
            Status::Online | Status::Suspended => state.watchers.add(watcher),
            // Nothing moves any more, and reads still work: there is nothing to be woken for.
            Status::Closed => {}
            Status::Offline(_) | Status::Deleted => {
                drop(state);
                watcher.wake();
            }
        }
    }

    /// Where `epoch` ends, by KIP-320: the greatest known epoch that is not above it, and the first offset
    /// of the next; `(-1, -1)` for an epoch that has not begun.
    pub fn end_offset_for_epoch(&self, epoch: i32) -> (i32, i64) {
        let state = self.state.lock();
        if epoch == state.epoch {
            return (epoch, state.log_end);
        }
        let next = state.epochs.partition_point(|(known, _)| *known <= epoch);
        match (epoch < 0, state.epochs.get(next)) {
            (true, _) | (_, None) => (-1, -1),
            (false, Some((_, start))) => match next.checked_sub(1) {
                Some(floor) => (state.epochs[floor].0, *start),
                None => (epoch, *start),
            },
        }
    }

    pub(crate) fn new(parts: PartitionParts) -> Self {
        let (status, log) = match parts.log {
            Ok(log) => (Status::Online, Some(log)),
            Err(offline) => (Status::Offline(offline), None),
        };
        Self {
            key: parts.key,
            topic_id: parts.topic_id,
            index: parts.index,
            dir: parts.dir,
            config: parts.config,
            volume: parts.volume,
            clock: parts.clock,
            queue: parts.queue,
            producer_expiration_ms: parts.producer_expiration_ms,
            state: Mutex::new(State::new(status, log)),
        }
    }

    pub(crate) fn key(&self) -> u64 {
        self.key
    }

    pub(crate) fn dir(&self) -> &Arc<str> {
        &self.dir
    }

    pub(crate) fn log_config(&self) -> Arc<LogConfig> {
        self.config.load_full()
    }

    pub(crate) fn take_seed(&self) -> Option<WriterSeed> {
        self.state.lock().seed.take()
    }

    /// Bytes of the batch that is next to be written.
    pub(crate) fn first_pending(&self) -> Option<u64> {
        self.state.lock().pending.front().map(|batch| batch.header.size as u64)
    }

    /// Takes batches of at most `bytes_max` together, but at least one.
    pub(crate) fn take_pending(&self, bytes_max: u64) -> Option<Vec<PendingBatch>> {
        let mut state = self.state.lock();
        let (mut bytes, mut count) = (0, 0);
        for batch in &state.pending {
            bytes += batch.header.size as u64;
            if count > 0 && bytes > bytes_max {
                break;
            }
            count += 1;
        }
        let taken: Vec<PendingBatch> = state.pending.drain(..count).collect();
        (!taken.is_empty()).then_some(taken)
    }

    /// The log start, and the producers as of the high watermark: without what is pending.
    pub(crate) fn committed_state(&self) -> (i64, Producers) {
        let state = self.state.lock();
        let mut producers = state.producers.clone();
        for undo in state.pending.iter().rev().filter_map(|batch| batch.undo) {
            producers.undo(undo);
        }
        (state.log_start, producers)
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
        state.recent_ends.clear();
        state.epoch = epoch;
        let start = state.high_watermark;
        state.epochs.push((epoch, start));
        if matches!(state.status, Status::Suspended) {
            state.status = Status::Online;
        }
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

    /// As [`take_offline`](Self::take_offline): the engine has closed.
    pub(crate) fn mark_closed(&self) {
        self.leave(Status::Closed, &AppendError::Closed);
    }

    /// Refuses new appends because the engine is closing; what is pending goes on.
    pub(crate) fn refuse_appends(&self) {
        let mut state = self.state.lock();
        if matches!(state.status, Status::Online) {
            state.status = Status::Closed;
        }
    }

    fn leave(&self, status: Status, error: &AppendError) {
        let mut state = self.state.lock();
        state.status = status;
        let waiters = state.roll_back(Vec::new());
        let watchers = state.watchers.take();
        drop(state);
        for waiter in waiters {
            let _ = waiter.send(Err(error.clone()));
        }
        wake_all(watchers);
    }

    /// Runs `look` under the lock if the log can be read.
    pub(super) fn with_readable<T>(&self, look: impl FnOnce(&mut State) -> T) -> Result<T, ReadError> {
        let mut state = self.state.lock();
        match &state.status {
            Status::Online | Status::Suspended | Status::Closed => Ok(look(&mut state)),
            Status::Offline(offline) => Err(offline.clone().into()),
            Status::Deleted => Err(ReadError::Deleted),
        }
    }
}

impl State {
    fn new(status: Status, log: Option<Recovered>) -> Self {
        let mut state = Self {
            status,
            epoch: 1,
            epochs: Vec::new(),
            log_start: 0,
            high_watermark: 0,
            log_end: 0,
            segments: Vec::new(),
            recent_ends: VecDeque::new(),
            read_rolled: VecDeque::new(),
            pending: VecDeque::new(),
            queued: false,
            followers: Vec::new(),
            producers: Producers::default(),
            watchers: Watchers::default(),
            seed: None,
        };
        if let Some(log) = log {
            let active = log.active.and_then(|checkpointed| {
                let segment = Arc::clone(log.segments.last()?);
                let position = segment.visible()?;
                Some((segment, position, checkpointed))
            });
            state.seed = Some(WriterSeed {
                epoch: log.epoch,
                claimed: log.claimed,
                epoch_seen: log.epoch_seen,
                active,
                log_end: log.log_end,
            });
            state.epoch = log.epoch;
            state.epochs = log.epochs;
            state.log_start = log.log_start;
            state.high_watermark = log.log_end;
            state.log_end = log.log_end;
            state.segments = log.segments;
            state.producers = log.producers;
        }
        state
    }

    pub(super) fn offsets(&self) -> Offsets {
        Offsets {
            log_start: self.log_start,
            // Transactional batches are refused, so every record is decided.
            last_stable: self.high_watermark,
            high_watermark: self.high_watermark,
            log_end: self.log_end,
        }
    }

    fn gone(&self) -> Option<AppendError> {
        match &self.status {
            Status::Online | Status::Suspended | Status::Closed => None,
            Status::Offline(offline) => Some(offline.clone().into()),
            Status::Deleted => Some(AppendError::Deleted),
        }
    }

    /// Gives the batch its place. True when the commit loop must be told.
    fn enqueue(
        &mut self,
        batch: ValidBatch,
        config: &LogConfig,
        now_ms: i64,
        producer_expiration_ms: i64,
        waiter: Waiter,
    ) -> Result<bool, AppendError> {
        if let Some(error) = self.gone() {
            return Err(error);
        }
        match self.status {
            Status::Closed => return Err(AppendError::Closed),
            Status::Suspended => {
                let error = std::io::Error::other("a sync failed, and the log is being verified");
                return Err(AppendError::Storage(error.into()));
            }
            _ => {}
        }
        if let Verdict::Duplicate(original) = self.producers.check(&batch.header)? {
            self.follow(original, config, waiter);
            return Ok(false);
        }
        let ValidBatch { mut header, mut head_bytes, body } = batch;
        header.base_offset = self.log_end;
        header.leader_epoch = self.epoch;
        head_bytes[BASE_OFFSET_AT..BASE_OFFSET_AT + 8].copy_from_slice(&header.base_offset.to_be_bytes());
        head_bytes[LEADER_EPOCH_AT..LEADER_EPOCH_AT + 4].copy_from_slice(&header.leader_epoch.to_be_bytes());
        let result = Appended {
            base_offset: header.base_offset,
            last_offset: header.last_offset(),
            log_append_time_ms: if header.is_log_append_time() { header.max_timestamp } else { -1 },
            log_start_offset: self.log_start,
            duplicate: false,
        };
        self.producers.expire(now_ms, producer_expiration_ms);
        let undo = self.producers.append(&header, now_ms);
        self.log_end = header.next_offset();
        self.pending.push_back(PendingBatch { header, head_bytes, body, undo, waiter, result });
        Ok(!std::mem::replace(&mut self.queued, true))
    }

    /// Answers a retry with the original's place: at once, or when the original is committed.
    fn follow(&mut self, original: AppendedBatch, config: &LogConfig, waiter: Waiter) {
        let log_append_time_ms = match config.timestamp_type {
            TimestampType::CreateTime => -1,
            TimestampType::LogAppendTime => original.timestamp,
        };
        let AppendedBatch { base_offset, last_offset, .. } = original;
        let log_start_offset = self.log_start;
        let result =
            Appended { base_offset, last_offset, log_append_time_ms, log_start_offset, duplicate: true };
        if last_offset < self.high_watermark {
            let _ = waiter.send(Ok(result));
        } else {
            self.followers.push(Follower { last_offset, result, waiter });
        }
    }

    fn advance(&mut self, group: &Group) {
        let known = self.segments.last().is_some_and(|last| Arc::ptr_eq(last, &group.segment));
        if !known {
            self.segments.push(Arc::clone(&group.segment));
            self.recent_ends.clear();
        }
        group.segment.set_visible(group.end_position);
        if self.recent_ends.len() >= RECENT_ENDS_MAX {
            self.recent_ends.pop_front();
        }
        self.recent_ends.push_back((group.end_offset, group.end_position));
        self.high_watermark = group.end_offset;
    }

    /// True when the commit loop has more to do here; else it must be told of the next append.
    fn settle_queue(&mut self) -> bool {
        self.queued = !self.pending.is_empty();
        self.queued
    }

    fn take_followers(&mut self) -> Vec<Follower> {
        if self.followers.is_empty() {
            return Vec::new();
        }
        let committed = self.high_watermark;
        let (done, waiting) = std::mem::take(&mut self.followers)
            .into_iter()
            .partition(|f: &Follower| f.last_offset < committed);
        self.followers = waiting;
        done
    }

    /// Undoes everything above the high watermark, newest first; returns who waited for it.
    fn roll_back(&mut self, group: Vec<PendingBatch>) -> Vec<Waiter> {
        let pending: Vec<PendingBatch> = group.into_iter().chain(self.pending.drain(..)).collect();
        for undo in pending.iter().rev().filter_map(|batch| batch.undo) {
            self.producers.undo(undo);
        }
        self.log_end = self.high_watermark;
        let followers = std::mem::take(&mut self.followers).into_iter().map(|follower| follower.waiter);
        pending.into_iter().map(|batch| batch.waiter).chain(followers).collect()
    }
}
