//! Writing one partition: claims, segments, checkpoints. Owned by the commit loop alone, so it needs no lock
//! while it waits for the disk.

use std::io::IoSlice;
use std::sync::Arc;

use super::append::{Group, PendingBatch};
use super::checkpoint::{self, Checkpoint};
use super::claim::{self, Claim, Seal};
use super::partition::{NextBatch, Partition};
use super::producers::Producers;
use super::recover::{RecoverError, verify_prefix};
use super::retention::{self, SegmentAge};
use super::scan::{ScanError, Scanner};
use super::segment::Segment;
use crate::config::LogConfig;
use crate::error::StorageError;
use crate::layout::{SegmentFile, SegmentName};
use crate::mutant::{Mutant, Mutants};
use crate::volume::{Volume, VolumeFile, ensure_dir};

/// Most bytes that are written to one partition before they are synced and acknowledged, unless a single
/// batch is larger. Also bounds how much a crash can leave unacknowledged.
pub(crate) const GROUP_BYTES_MAX: u64 = 4 << 20;

/// What every writer of an engine shares.
pub(crate) struct WriteContext {
    pub(crate) volume: Arc<dyn Volume>,
    pub(crate) broker_id: i32,
    /// Tells this process's claims from those of others.
    pub(crate) nonce: String,
    pub(crate) checkpoint_bytes: u64,
    /// Whether other brokers may take over: then nothing that was written is ever written over or cut.
    pub(crate) shared: bool,
    pub(crate) mutants: Mutants,
}

/// Where a partition's log goes on; made by recovery.
#[derive(Debug)]
pub(crate) struct WriterSeed {
    pub(crate) epoch: i32,
    pub(crate) claimed: bool,
    pub(crate) epoch_seen: i32,
    /// The segment to append to, its length, and how much of it is checkpointed.
    pub(crate) active: Option<(Arc<Segment>, u64, u64)>,
    pub(crate) log_end: i64,
}

#[derive(Debug)]
pub(crate) struct Writer {
    epoch: i32,
    epoch_seen: i32,
    claimed: bool,
    claim_attempted: bool,
    /// How the epoch before this one ends, to be written into the claim.
    seal: Option<Seal>,
    active: Option<Active>,
    /// The segment that recovery left, until the first write opens it.
    resume: Option<(Arc<Segment>, u64, u64)>,
    next_offset: i64,
}

#[derive(Debug)]
struct Active {
    segment: Arc<Segment>,
    file: Arc<dyn VolumeFile>,
    /// The segment's name is durable.
    named: bool,
    /// Where the next group goes.
    position: u64,
    synced: u64,
    checkpointed: u64,
    checkpoint_tried: u64,
    /// How much of the segment its stored index covers.
    indexed: u64,
    unsynced_records: u64,
    age: SegmentAge,
    /// A failed write could not be cut away yet.
    untrimmed: bool,
    /// A sync failed: the segment must be given up.
    failed: bool,
}

/// What a partition goes on with after a segment was given up.
pub(crate) struct NewEpoch {
    pub(crate) epoch: i32,
    pub(crate) sealed: Arc<Segment>,
    pub(crate) sealed_bytes: u64,
}

/// A written group: `sync` is the file that must be synced before it may be acknowledged.
pub(crate) struct Written {
    pub(crate) group: Group,
    pub(crate) sync: Option<Arc<dyn VolumeFile>>,
}

impl Writer {
    pub(crate) fn new(seed: WriterSeed) -> Self {
        Self {
            epoch: seed.epoch,
            epoch_seen: seed.epoch_seen,
            claimed: seed.claimed,
            claim_attempted: false,
            seal: None,
            active: None,
            resume: seed.active,
            next_offset: seed.log_end,
        }
    }

    /// Writes the next group of the partition. `None` when there is nothing to write.
    ///
    /// On an error nothing of the group counts as written, and the caller fails everything pending.
    pub(crate) fn write(
        &mut self,
        context: &WriteContext,
        partition: &Partition,
    ) -> Result<Option<Written>, (Option<Group>, StorageError)> {
        let config = partition.config();
        let Some(first) = partition.first_pending() else { return Ok(None) };
        let ready = self.make_ready(context, partition, &config, first).map_err(|error| (None, error))?;
        let mut written = match self.write_next(partition, &config, ready, first) {
            Ok(written) => written,
            Err(failed) => {
                if !context.shared {
                    self.trim();
                }
                return Err(failed);
            }
        };
        // Of a shared volume only what was synced is there for a successor: no topic may ask for less.
        if context.shared
            && let (Some(written), Some(active)) = (&mut written, &self.active)
        {
            written.sync.get_or_insert_with(|| Arc::clone(&active.file));
        }
        if context.mutants.has(Mutant::CheckpointAheadOfSync) {
            // The bug: what is about to be synced is claimed to be synced.
            let ahead = self.active.as_mut().map(|active| active.synced = active.position);
            let _ = ahead.map(|()| self.checkpoint(context, partition));
        }
        Ok(written)
    }

    /// As [`write`](Self::write) if that takes nothing but one write: no new file, no repair. `None` when it takes
    /// more, or there is nothing to write.
    pub(crate) fn write_at_once(
        &mut self,
        partition: &Partition,
        config: &LogConfig,
    ) -> Result<Option<Written>, (Option<Group>, StorageError)> {
        let Some(first) = partition.first_pending() else { return Ok(None) };
        let usable = |active: &&Active| active.named && !active.untrimmed && !active.failed;
        match self.active.as_ref().filter(usable).map(Active::ready) {
            Some(ready) if self.claimed && !self.must_roll(partition, config, first) => {
                self.write_next(partition, config, ready, first).inspect_err(|_| self.trim())
            }
            _ => Ok(None),
        }
    }

    fn write_next(
        &mut self,
        partition: &Partition,
        config: &LogConfig,
        ready: Ready,
        first: NextBatch,
    ) -> Result<Option<Written>, (Option<Group>, StorageError)> {
        let Ready { segment, file, position } = ready;
        let room = u64::from(config.segment_bytes).saturating_sub(position);
        let timestamp_max = self.timestamp_max(partition, config, first);
        let Some(batches) = partition.take_pending(room.min(GROUP_BYTES_MAX), timestamp_max) else {
            return Ok(None);
        };
        let group = Group::new(batches, segment, position);
        if let Err(error) = write_batches(&*file, &group) {
            return Err((Some(group), error));
        }
        group.segment.update_index(|index| {
            for batch in &group.batches {
                index.push(&batch.header, config.index_interval_bytes);
            }
        });
        let mut due = true;
        if let Some(active) = &mut self.active {
            if let (0, Some(first)) = (active.position, group.batches.first()) {
                active.age.first_timestamp = first.header.max_timestamp;
            }
            active.position = group.end_position;
            active.unsynced_records += group.records();
            due = active.unsynced_records >= config.flush_messages;
        }
        self.next_offset = group.end_offset;
        Ok(Some(Written { group, sync: due.then_some(file) }))
    }

    /// Notes that the active segment was synced up to `position`.
    pub(crate) fn synced(&mut self, position: u64) {
        if let Some(active) = &mut self.active {
            active.synced = active.synced.max(position);
            active.unsynced_records = 0;
        }
    }

    /// Writes a checkpoint when enough was synced since the last one.
    pub(crate) fn checkpoint_if_due(
        &mut self,
        context: &WriteContext,
        partition: &Partition,
    ) -> Result<(), StorageError> {
        let Some(active) = &mut self.active else { return Ok(()) };
        let since = active.synced.saturating_sub(active.checkpointed.max(active.checkpoint_tried));
        if active.synced < active.position || since < context.checkpoint_bytes {
            return Ok(());
        }
        // One that fails, on a full disk, is not tried again at every commit.
        active.checkpoint_tried = active.synced;
        self.checkpoint(context, partition)
    }

    /// Syncs what is unsynced and writes a checkpoint, so that the next open reads nothing.
    pub(crate) fn finish(
        &mut self,
        context: &WriteContext,
        partition: &Partition,
    ) -> Result<(), StorageError> {
        let Some(active) = &mut self.active else { return Ok(()) };
        if active.untrimmed {
            active.file.set_len(active.position)?;
            active.untrimmed = false;
        }
        if active.synced < active.position {
            active.file.sync_data().inspect_err(|_| active.failed = true)?;
            active.synced = active.position;
        }
        if active.indexed < active.position {
            active.segment.store_index(&*context.volume)?;
            active.segment.store_txns(&*context.volume, active.synced)?;
            active.indexed = active.position;
        }
        if active.checkpointed < active.synced {
            self.checkpoint(context, partition)?;
        }
        Ok(())
    }

    /// Notes that the sync of a group failed; `position` and `offset` are where the group began.
    pub(crate) fn sync_failed(&mut self, position: u64, offset: i64) {
        if let Some(active) = &mut self.active {
            active.failed = true;
            active.position = position;
            self.next_offset = offset;
        }
    }

    /// Whether the active segment must be given up.
    pub(crate) fn has_failed_sync(&self) -> bool {
        self.active.as_ref().is_some_and(|active| active.failed)
    }

    /// After a failed sync: seals the epoch where everything that was acknowledged ends, if the device
    /// still holds it, and goes on under the next epoch. Nothing is done to a segment without a failed sync.
    pub(crate) fn give_up_segment(
        &mut self,
        context: &WriteContext,
        partition: &Partition,
    ) -> Result<Option<NewEpoch>, RecoverError> {
        let Some(active) = self.active.take_if(|active| active.failed) else { return Ok(None) };
        let Active { segment, position, checkpointed, .. } = active;
        let crc = verify_prefix(&*context.volume, &segment, checkpointed.min(position), position)?;
        let (epoch, base_offset, offset) = (self.epoch, segment.base_offset(), self.next_offset);
        self.seal = Some(Seal { epoch, base_offset, position, offset, crc: Some(crc) });
        self.epoch = self.epoch_seen.max(self.epoch) + 1;
        self.epoch_seen = self.epoch;
        self.claimed = false;
        self.claim_attempted = false;
        partition.keep_open(&segment);
        Ok(Some(NewEpoch { epoch: self.epoch, sealed: segment, sealed_bytes: position }))
    }

    fn make_ready(
        &mut self,
        context: &WriteContext,
        partition: &Partition,
        config: &LogConfig,
        first: NextBatch,
    ) -> Result<Ready, StorageError> {
        self.ensure_claim(context, partition)?;
        self.resume(context, partition)?;
        if self.must_roll(partition, config, first) {
            self.roll(context, partition)?;
        }
        if self.active.is_none() {
            self.create_segment(context, partition)?;
        }
        let active = self.active.as_mut().ok_or_else(|| std::io::Error::other("no active segment"))?;
        if active.untrimmed {
            active.file.set_len(active.position)?;
            active.untrimmed = false;
        }
        if !active.named {
            sync_dir(context, partition.dir())?;
            active.named = true;
        }
        Ok(active.ready())
    }

    fn ensure_claim(&mut self, context: &WriteContext, partition: &Partition) -> Result<(), StorageError> {
        if self.claimed {
            return Ok(());
        }
        let dir = partition.dir();
        if self.epoch_seen == 0 {
            // The first claim is the first file: its directories may not exist yet.
            if context.mutants.has(Mutant::NoDirectorySync) {
                let topic = crate::volume::parent(dir);
                let _ = context.volume.create_dir(topic);
                let _ = context.volume.create_dir(dir);
            } else {
                ensure_dir(&*context.volume, crate::volume::parent(dir))?;
                ensure_dir(&*context.volume, dir)?;
            }
        }
        let claim = Claim {
            epoch: self.epoch,
            broker_id: context.broker_id,
            incarnation: None,
            nonce: context.nonce.clone(),
            prev: self.seal,
        };
        let attempted = std::mem::replace(&mut self.claim_attempted, true);
        let sync_dir = !context.mutants.has(Mutant::NoDirectorySync);
        claim::create(&*context.volume, dir, &claim, attempted, sync_dir)?;
        self.claimed = true;
        partition.note_claimed();
        self.epoch_seen = self.epoch_seen.max(self.epoch);
        Ok(())
    }

    /// Opens the segment that recovery left, the first time it is written to.
    fn resume(&mut self, context: &WriteContext, partition: &Partition) -> Result<(), StorageError> {
        let Some((segment, position, checkpointed)) = self.resume.take() else { return Ok(()) };
        let interval_bytes = partition.config().index_interval_bytes;
        let opened = segment.open_for_write(&*context.volume).and_then(|file| {
            let loaded = segment.load_index(&*context.volume, &*file, position, interval_bytes);
            match loaded.and_then(|()| Scanner::new(&*file, 0, position, true).next_header()) {
                Ok(first) => Ok((file, first.map_or(-1, |(_, header)| header.max_timestamp))),
                Err(ScanError::Storage(error)) => Err(error),
                Err(error) => Err(std::io::Error::other(format!("index: {error:?}")).into()),
            }
        });
        match opened {
            Ok((file, first_timestamp)) => {
                segment.set_written_from(position);
                let (named, untrimmed, failed) = (true, false, false);
                let (synced, unsynced_records) = (position, 0);
                self.active = Some(Active {
                    segment,
                    file,
                    named,
                    position,
                    synced,
                    checkpointed,
                    checkpoint_tried: 0,
                    indexed: 0,
                    unsynced_records,
                    age: SegmentAge { first_timestamp, opened_ms: partition.now_ms() },
                    untrimmed,
                    failed,
                });
                self.load_txns(partition);
                Ok(())
            }
            Err(error) => {
                self.resume = Some((segment, position, checkpointed));
                Err(error)
            }
        }
    }

    /// So that the file of the segment's transactions can be written; if this fails, a reader makes up for it.
    fn load_txns(&self, partition: &Partition) {
        let Some(active) = &self.active else { return };
        if let Err(stop) = partition.load_txns(&active.segment) {
            tracing::debug!(partition = %partition.dir(), error = %stop.into_error(), "transactions not loaded");
        }
    }

    fn must_roll(&self, partition: &Partition, config: &LogConfig, first: NextBatch) -> bool {
        let Some(active) = &self.active else { return false };
        let bytes = active.position + first.bytes > u64::from(config.segment_bytes);
        let offsets = self.next_offset - active.segment.base_offset() > i64::from(i32::MAX) / 2;
        let index =
            active.segment.index().as_ref().is_some_and(|index| index.is_full(config.index_bytes_max));
        let segment_ms = retention::segment_ms(config, partition.dir(), active.segment.base_offset());
        let time = || retention::is_time_to_roll(active.age, segment_ms, first.timestamp, partition.now_ms());
        active.position > 0 && (bytes || offsets || index || time())
    }

    /// The greatest timestamp that still belongs into the active segment when `first` is written next.
    fn timestamp_max(&self, partition: &Partition, config: &LogConfig, first: NextBatch) -> i64 {
        let Some(active) = &self.active else { return i64::MAX };
        let begin = if active.position > 0 { active.age.first_timestamp } else { first.timestamp };
        let segment_ms = retention::segment_ms(config, partition.dir(), active.segment.base_offset());
        if begin < 0 { i64::MAX } else { begin.saturating_add(segment_ms) }
    }

    /// Closes the active segment, whatever room it has; the next append begins another.
    pub(crate) fn close_segment(
        &mut self,
        context: &WriteContext,
        partition: &Partition,
    ) -> Result<(), StorageError> {
        self.resume(context, partition)?;
        // One that was created for a group whose write failed is not part of the log yet.
        if self.active.as_ref().is_some_and(|active| active.position > 0) {
            self.roll(context, partition)?;
        }
        self.keep_producers(context, partition)
    }

    /// Makes the producers' state durable unless it is, so that the batches it was made from may go: a segment that
    /// was closed by a failure or a takeover left none.
    fn keep_producers(&mut self, context: &WriteContext, partition: &Partition) -> Result<(), StorageError> {
        if self.active.is_some() || partition.producers_kept_at() >= self.next_offset {
            return Ok(());
        }
        let producers = partition.committed_producers();
        if !producers.is_empty() {
            self.ensure_claim(context, partition)?;
            let dir = partition.dir();
            let at = (self.epoch, self.next_offset);
            checkpoint::store_producers(&*context.volume, dir, at, producers, true)?;
        }
        partition.note_producers_kept(self.next_offset);
        Ok(())
    }

    /// Finishes the active segment: everything in it is durable before the next one exists.
    fn roll(&mut self, context: &WriteContext, partition: &Partition) -> Result<(), StorageError> {
        self.finish(context, partition)?;
        if let Some(active) = self.active.take() {
            partition.close_last();
            partition.keep_open(&active.segment);
        }
        Ok(())
    }

    fn create_segment(&mut self, context: &WriteContext, partition: &Partition) -> Result<(), StorageError> {
        let name = SegmentName::new(self.epoch, self.next_offset);
        let dir = Arc::clone(partition.dir());
        let file = context.volume.create_new(&format!("{dir}/{}", name.file(SegmentFile::Log)))?;
        let open = partition.committed_open_transactions();
        let segment = Segment::created(dir, name, Arc::clone(&file), open, context.mutants);
        let segment = Arc::new(segment);
        let (position, synced, checkpointed, unsynced_records) = (0, 0, 0, 0);
        self.active = Some(Active {
            segment,
            file,
            named: false,
            position,
            synced,
            checkpointed,
            checkpoint_tried: 0,
            indexed: 0,
            unsynced_records,
            age: SegmentAge { first_timestamp: -1, opened_ms: partition.now_ms() },
            untrimmed: false,
            failed: false,
        });
        Ok(())
    }

    fn checkpoint(&mut self, context: &WriteContext, partition: &Partition) -> Result<(), StorageError> {
        let Some(active) = &mut self.active else { return Ok(()) };
        active.segment.store_txns(&*context.volume, active.synced)?;
        let producers: Producers = partition.committed_producers();
        let name = active.segment.name();
        let checkpoint = Checkpoint {
            epoch: name.epoch,
            base_offset: name.base_offset,
            position: active.synced,
            offset: self.next_offset,
            has_producers: !producers.is_empty(),
        };
        checkpoint::store(&*context.volume, partition.dir(), &checkpoint, producers)?;
        active.checkpointed = active.synced;
        partition.note_producers_kept(self.next_offset);
        Ok(())
    }

    /// Cuts away what a failed write may have left.
    fn trim(&mut self) {
        if let Some(active) = &mut self.active {
            active.untrimmed = active.file.set_len(active.position).is_err();
        }
    }
}

/// Where the next group goes.
struct Ready {
    segment: Arc<Segment>,
    file: Arc<dyn VolumeFile>,
    position: u64,
}

impl Active {
    fn ready(&self) -> Ready {
        let (segment, file) = (Arc::clone(&self.segment), Arc::clone(&self.file));
        Ready { segment, file, position: self.position }
    }
}

fn write_batches(file: &dyn VolumeFile, group: &Group) -> Result<(), StorageError> {
    let mut parts: Vec<IoSlice<'_>> = Vec::with_capacity(group.batches.len() * 2);
    for PendingBatch { head_bytes, body, .. } in &group.batches {
        parts.push(IoSlice::new(head_bytes));
        parts.push(IoSlice::new(body));
    }
    Ok(file.write_all_at(&mut parts, group.start_position)?)
}

fn sync_dir(context: &WriteContext, dir: &str) -> Result<(), StorageError> {
    if context.mutants.has(Mutant::NoDirectorySync) {
        return Ok(());
    }
    Ok(context.volume.sync_dir(dir)?)
}
