//! What the lock of a partition guards, and the decisions that are made under it. Nothing here waits.

use std::collections::VecDeque;
use std::sync::Arc;

use super::append::{Appended, Group, Offsets, PendingBatch, Waiter};
use super::epochs::EpochHistory;
use super::producer::AppendedBatch;
use super::producers::{Expiry, Producers, Verdict};
use super::recover::Recovered;
use super::segment::Segment;
use super::verification::{TxnProof, Verifications};
use super::wake::Watchers;
use super::writer::WriterSeed;

use crate::error::{AppendError, Offline};
use crate::record::{BASE_OFFSET_AT, LEADER_EPOCH_AT, ValidBatch};

/// Commit positions remembered for readers at the end of the log.
const RECENT_ENDS_MAX: usize = 64;

/// A retry of a batch that is itself not committed yet.
pub(super) struct Follower {
    last_offset: i64,
    pub(super) result: Appended,
    pub(super) waiter: Waiter,
}

#[derive(Debug, Clone)]
pub(super) enum Status {
    Online,
    /// Between a failed sync and the epoch that continues behind it: reads go on.
    Suspended,
    /// The volume is shared, and another broker leads the partition, or none.
    Elsewhere,
    /// It is being taken over.
    Taking,
    /// It is being given up: what is pending goes on, and so do reads.
    Resigning,
    /// This broker has been fenced.
    Fenced,
    Offline(Offline),
    Deleted,
    Closed,
}

pub(super) struct State {
    pub(super) status: Status,
    pub(super) epoch: i32,
    pub(super) epochs: EpochHistory,
    pub(super) log_start: i64,
    pub(super) high_watermark: i64,
    pub(super) log_end: i64,
    pub(super) segments: Vec<Arc<Segment>>,
    /// The last segment takes no more appends; the next one begins at the high watermark.
    pub(super) last_closed: bool,
    /// The claim of the epoch is durable.
    pub(super) claimed: bool,
    /// Everything below was compacted.
    pub(super) clean_below: i64,
    /// As of which offset the producers' state is durable apart from the log.
    pub(super) producers_kept_at: i64,
    /// The greatest generation of a compacted segment whose name may or may not have become durable.
    pub(super) failed_generation: u32,
    /// High watermarks of the last commits and where they are in the last segment, oldest first.
    pub(super) recent_ends: VecDeque<(i64, u64)>,
    /// Rolled segments with an open descriptor, least recently opened first.
    pub(super) read_rolled: VecDeque<Arc<Segment>>,
    pub(super) pending: VecDeque<PendingBatch>,
    /// The commit loop knows that there is something to do here.
    pub(super) queued: bool,
    followers: Vec<Follower>,
    pub(super) producers: Producers,
    pub(super) verifications: Verifications,
    pub(super) watchers: Watchers,
}

impl State {
    /// The state of an opened log, and where its writer goes on.
    pub(super) fn new(status: Status, log: Option<Recovered>) -> (Self, Option<WriterSeed>) {
        let mut state = Self {
            status,
            epoch: 1,
            epochs: EpochHistory::default(),
            log_start: 0,
            high_watermark: 0,
            log_end: 0,
            segments: Vec::new(),
            last_closed: false,
            claimed: false,
            clean_below: 0,
            producers_kept_at: 0,
            failed_generation: 0,
            recent_ends: VecDeque::new(),
            read_rolled: VecDeque::new(),
            pending: VecDeque::new(),
            queued: false,
            followers: Vec::new(),
            producers: Producers::default(),
            verifications: Verifications::default(),
            watchers: Watchers::default(),
        };
        let seed = log.map(|log| {
            let active = log.active.and_then(|checkpointed| {
                let segment = Arc::clone(log.segments.last()?);
                let position = segment.visible()?;
                Some((segment, position, checkpointed))
            });
            let seed = WriterSeed {
                epoch: log.epoch,
                claimed: log.claimed,
                epoch_seen: log.epoch_seen,
                active,
                log_end: log.log_end,
            };
            state.epoch = log.epoch;
            state.epochs = EpochHistory::new(log.epochs);
            state.advance_log_start(log.log_start);
            state.high_watermark = log.log_end;
            state.log_end = log.log_end;
            state.last_closed = log.active.is_none();
            state.claimed = log.claimed;
            state.clean_below = log.clean_below;
            state.producers_kept_at = log.producers_kept_at;
            state.segments = log.segments;
            state.producers = log.producers;
            seed
        });
        (state, seed)
    }

    pub(super) fn offsets(&self) -> Offsets {
        let unstable = self.producers.first_unstable().map(|first| first.max(self.log_start));
        Offsets {
            log_start: self.log_start,
            last_stable: unstable.unwrap_or(i64::MAX).min(self.high_watermark),
            high_watermark: self.high_watermark,
            log_end: self.log_end,
        }
    }

    pub(super) fn gone(&self) -> Option<AppendError> {
        match &self.status {
            Status::Online | Status::Suspended | Status::Resigning | Status::Closed => None,
            Status::Elsewhere | Status::Taking => Some(AppendError::NotLeader),
            Status::Fenced => Some(AppendError::Fenced),
            Status::Offline(offline) => Some(offline.clone().into()),
            Status::Deleted => Some(AppendError::Deleted),
        }
    }

    /// Why nothing can be changed here now.
    pub(super) fn unavailable(&self) -> Option<AppendError> {
        match self.status {
            Status::Closed => Some(AppendError::Closed),
            _ => self.gone(),
        }
    }

    /// Gives the batch its place. True when the commit loop must be told.
    pub(super) fn enqueue(
        &mut self,
        batch: ValidBatch,
        proof: TxnProof,
        expiry: Expiry,
        waiter: Waiter,
    ) -> Result<bool, AppendError> {
        if let Some(error) = self.gone() {
            return Err(error);
        }
        match self.status {
            Status::Closed => return Err(AppendError::Closed),
            Status::Resigning => return Err(AppendError::NotLeader),
            Status::Suspended => {
                self.producers.refuse(&batch.header, expiry.now_ms);
                let error = std::io::Error::other("a sync failed, and the log is being verified");
                return Err(AppendError::Storage(error.into()));
            }
            _ => {}
        }
        let verdict = match &batch.marker {
            Some(marker) => self.producers.check_marker(marker).map(|()| Verdict::Append),
            None => {
                let grant = self.verifications.grant(batch.header.producer_id, proof);
                self.producers.check(&batch.header, grant, expiry)
            }
        };
        if let Verdict::Duplicate(original) = verdict? {
            self.follow(original, waiter);
            return Ok(false);
        }
        let ValidBatch { mut header, mut head_bytes, body, marker } = batch;
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
        self.producers.expire(expiry);
        let undo = self.producers.append(&header, marker.as_ref(), expiry);
        if header.is_transactional() {
            self.verifications.clear(header.producer_id);
        }
        self.log_end = header.next_offset();
        self.pending.push_back(PendingBatch { header, head_bytes, body, marker, undo, waiter, result });
        Ok(!std::mem::replace(&mut self.queued, true))
    }

    /// Answers a retry with the original's place: at once, or when the original is committed.
    fn follow(&mut self, original: AppendedBatch, waiter: Waiter) {
        // Kafka names the original's timestamp here, whatever the topic's timestamp type.
        let AppendedBatch { base_offset, last_offset, timestamp: log_append_time_ms, .. } = original;
        let log_start_offset = self.log_start;
        let result =
            Appended { base_offset, last_offset, log_append_time_ms, log_start_offset, duplicate: true };
        if last_offset < self.high_watermark {
            let _ = waiter.send(Ok(result));
        } else {
            self.followers.push(Follower { last_offset, result, waiter });
        }
    }

    pub(super) fn advance(&mut self, group: &Group) {
        let known = self.segments.last().is_some_and(|last| Arc::ptr_eq(last, &group.segment));
        if !known {
            self.segments.push(Arc::clone(&group.segment));
            self.last_closed = false;
            self.recent_ends.clear();
        }
        group.segment.set_visible(group.end_position);
        if self.recent_ends.len() >= RECENT_ENDS_MAX {
            self.recent_ends.pop_front();
        }
        self.recent_ends.push_back((group.end_offset, group.end_position));
        self.high_watermark = group.end_offset;
        self.producers.published(self.high_watermark);
        group.segment.update_txns(|txns| {
            for batch in &group.batches {
                txns.push(&batch.header, batch.marker.as_ref());
            }
        });
    }

    /// True when the commit loop has more to do here; else it must be told of the next append.
    pub(super) fn settle_queue(&mut self) -> bool {
        self.queued = !self.pending.is_empty();
        self.queued
    }

    pub(super) fn take_followers(&mut self) -> Vec<Follower> {
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
    pub(super) fn roll_back(&mut self, group: Vec<PendingBatch>) -> Vec<Waiter> {
        let pending: Vec<PendingBatch> = group.into_iter().chain(self.pending.drain(..)).collect();
        for undo in pending.iter().rev().filter_map(|batch| batch.undo) {
            self.producers.fail(undo);
        }
        self.log_end = self.high_watermark;
        let followers = std::mem::take(&mut self.followers).into_iter().map(|follower| follower.waiter);
        pending.into_iter().map(|batch| batch.waiter).chain(followers).collect()
    }
}
