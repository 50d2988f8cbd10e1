//! Records leave a log: on request, and by retention. The new log start is durable, and the fence read, before
//! anything is taken away; files are renamed aside first, so that a reader that holds one goes on.

use std::io::ErrorKind;
use std::sync::Arc;

use super::marks;
use super::partition::Partition;
use super::retention::{self, Candidate, Look, SegmentAge};
use super::scan::ScanError;
use super::segment::{Measures, Segment};
use super::state::State;
use crate::error::{AppendError, DeleteRecordsError, OffsetOutOfRange, ReadError, StorageError};
use crate::layout::{DELETED_SUFFIX, SegmentFile, parse_start, start_file};
use crate::mutant::Mutant;

/// Closes the active segment of the partition with this key; false when that is not possible now.
type Roll<'a> = &'a dyn Fn(u64) -> bool;

/// A file that is to be removed: first its name goes aside, and after the delay the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Doomed {
    /// Where it is now.
    pub(crate) path: String,
    /// Whether that is its aside name.
    pub(crate) aside: bool,
    /// When it may be unlinked, in milliseconds since the epoch.
    pub(crate) due_ms: i64,
}

/// Why a pass over one partition ended early. The next pass begins anew.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RetainError {
    #[error("the log cannot be read: {0}")]
    Read(#[from] ReadError),
    #[error(transparent)]
    Storage(#[from] StorageError),
    #[error("this broker has been fenced")]
    Fenced,
}

/// The segments of a log at one moment.
struct View {
    log_start: i64,
    producers_kept_at: i64,
    segments: Vec<Arc<Segment>>,
    candidates: Vec<Candidate>,
}

impl View {
    /// Whether a segment is closed, and what it tells of producers is durable elsewhere.
    fn may_go(&self, at: usize) -> bool {
        let Candidate { active, end_offset, .. } = self.candidates[at];
        !active && end_offset <= self.producers_kept_at
    }
}

impl State {
    fn view(&self) -> View {
        let count = self.segments.len();
        let end =
            |at: usize| self.segments.get(at + 1).map_or(self.high_watermark, |next| next.base_offset());
        let active = |at: usize| at + 1 == count && !self.last_closed;
        let candidate = |at| Candidate { end_offset: end(at), at, active: active(at) };
        View {
            log_start: self.log_start,
            producers_kept_at: self.producers_kept_at,
            segments: self.segments.clone(),
            candidates: (0..count).map(candidate).collect(),
        }
    }

    /// Moves the log start up, and forgets what lies below: epochs that have ended there.
    pub(super) fn advance_log_start(&mut self, offset: i64) {
        if offset <= self.log_start {
            return;
        }
        self.log_start = offset;
        self.epochs.truncate_below(offset);
    }

    /// Takes segments out of the log; readers that have one go on with it.
    fn forget(&mut self, gone: &[Arc<Segment>]) {
        let is_gone = |segment: &Arc<Segment>| gone.iter().any(|other| Arc::ptr_eq(other, segment));
        if self.segments.last().is_some_and(is_gone) {
            self.recent_ends.clear();
        }
        self.segments.retain(|segment| !is_gone(segment));
        self.read_rolled.retain(|segment| !is_gone(segment));
    }
}

impl Partition {
    /// Deletes the records below `before` (Kafka's DeleteRecords), or all that are committed when it is -1; returns
    /// the first offset of the log. The new start is durable on return and never goes back; files are removed later,
    /// when nothing in them is left. Blocks.
    ///
    /// # Errors
    /// [`DeleteRecordsError`]; an offset below the log start is none.
    pub fn delete_records(&self, before: i64) -> Result<i64, DeleteRecordsError> {
        let offsets = self.with_open(|state| state.offsets())?;
        if !self.config().delete {
            return Err(DeleteRecordsError::Policy);
        }
        let requested = if before == -1 { offsets.high_watermark } else { before };
        if requested < 0 || requested > offsets.high_watermark {
            let (log_start, log_end) = (offsets.log_start, offsets.high_watermark);
            return Err(OffsetOutOfRange { requested, log_start, log_end }.into());
        }
        if requested > offsets.log_start {
            if !self.mutants.has(Mutant::UnlinkBeforeStart) {
                self.store_log_start(requested).map_err(|error| self.explain(error))?;
            }
            self.fence.check().map_err(|_| DeleteRecordsError::Fenced)?;
        }
        self.with_open(|state| {
            state.advance_log_start(requested);
            state.log_start
        })
    }

    /// One pass of rolling by time and of retention; returns the files that are to be removed. Blocks.
    pub(crate) fn retain(&self, now_ms: i64, roll: Roll<'_>) -> Result<Vec<Doomed>, RetainError> {
        let config = self.config();
        let mut view = self.with_readable(|state| state.view())?;
        if self.is_time_to_roll(&view, now_ms)? && roll(self.key()) {
            view = self.with_readable(|state| state.view())?;
        }
        let mut removed = self.removable(&view, now_ms)?;
        if removed > 0 && !view.may_go(removed - 1) {
            if roll(self.key()) {
                view = self.with_readable(|state| state.view())?;
                removed = self.removable(&view, now_ms)?;
            }
            // Something was appended meanwhile, or is being appended: the next pass looks again.
            while removed > 0 && !view.may_go(removed - 1) {
                removed -= 1;
            }
        }
        let Some(last) = removed.checked_sub(1) else { return Ok(Vec::new()) };
        let start = view.candidates[last].end_offset.max(view.log_start);
        let gone = &view.segments[..removed];
        let due_ms = now_ms.saturating_add(config.file_delete_delay_ms);
        let late = self.mutants.has(Mutant::UnlinkBeforeStart);
        if start > view.log_start && !late {
            self.store_log_start(start)?;
        }
        self.fence.check().map_err(|_| RetainError::Fenced)?;
        self.with_readable(|state| {
            state.advance_log_start(start);
            state.forget(gone);
        })?;
        let doomed = gone.iter().flat_map(|segment| self.set_aside(segment, due_ms)).collect();
        if late {
            let _ = self.volume.sync_dir(self.dir());
            self.store_log_start(start)?;
        }
        tracing::info!(partition = %self.dir(), segments = removed, log_start = start, "segments removed");
        Ok(doomed)
    }

    fn is_time_to_roll(&self, view: &View, now_ms: i64) -> Result<bool, RetainError> {
        let Some(segment) = view.segments.last().filter(|_| view.candidates.last().is_some_and(|c| c.active))
        else {
            return Ok(false);
        };
        let first_timestamp = self.measure(segment)?.first_timestamp;
        let segment_ms = retention::segment_ms(&self.config(), self.dir(), segment.base_offset());
        // Without a timestamp its age is the writer's to know, and is asked at the next append.
        let age = SegmentAge { first_timestamp, opened_ms: now_ms };
        Ok(retention::is_time_to_roll(age, segment_ms, now_ms, now_ms))
    }

    fn removable(&self, view: &View, now_ms: i64) -> Result<usize, RetainError> {
        struct Measured<'a>(&'a Partition, &'a View);
        impl Look for Measured<'_> {
            type Error = RetainError;

            fn bytes(&mut self, at: usize) -> Result<u64, RetainError> {
                let Self(partition, View { segments, .. }) = self;
                match segments[at].visible() {
                    Some(bytes) => Ok(bytes),
                    None => Ok(partition.measure(&segments[at])?.bytes),
                }
            }

            fn largest_timestamp(&mut self, at: usize) -> Result<Option<i64>, RetainError> {
                Ok(self.0.measure(&self.1.segments[at])?.largest_timestamp)
            }
        }
        let config = self.config();
        let mut look = Measured(self, view);
        retention::removable(&config, now_ms, view.log_start, &view.candidates, &mut look)
    }

    pub(super) fn measure(&self, segment: &Segment) -> Result<Measures, RetainError> {
        let measured = segment.measure(&*self.volume, self.config().index_interval_bytes);
        measured.map_err(|error| match error {
            ScanError::Storage(error) => error.into(),
            ScanError::WouldBlock => StorageError::from(std::io::Error::from(ErrorKind::WouldBlock)).into(),
            ScanError::Bad { position, why } => RetainError::Read(ReadError::Damaged {
                segment: segment.path(SegmentFile::Log),
                position,
                why,
            }),
        })
    }

    fn store_log_start(&self, offset: i64) -> Result<(), StorageError> {
        marks::store(&*self.volume, self.dir(), &start_file(self.leader_epoch(), offset))?;
        if let Err(error) = marks::remove_below(&*self.volume, self.dir(), parse_start, offset) {
            tracing::debug!(partition = %self.dir(), %error, "old marks of the log start remain");
        }
        Ok(())
    }

    /// Renames a segment's files aside; what cannot be renamed now is tried again before it is unlinked.
    pub(super) fn set_aside(&self, segment: &Segment, due_ms: i64) -> impl Iterator<Item = Doomed> {
        segment.release();
        SegmentFile::ALL
            .map(|kind| Doomed { path: segment.path(kind), aside: false, due_ms })
            .into_iter()
            .filter_map(|mut doomed| match doomed.set_aside(&*self.volume) {
                Ok(true) => Some(doomed),
                Ok(false) => None,
                Err(error) => {
                    tracing::warn!(path = doomed.path, %error, "cannot be set aside yet");
                    Some(doomed)
                }
            })
    }

    /// Runs `look` under the lock if the log is led from here.
    fn with_open<T>(&self, look: impl FnOnce(&mut State) -> T) -> Result<T, DeleteRecordsError> {
        self.with_state(|state| match state.unavailable() {
            None => Ok(look(state)),
            Some(AppendError::Offline(offline)) => Err(offline.into()),
            Some(AppendError::Deleted) => Err(DeleteRecordsError::Deleted),
            Some(AppendError::Fenced) => Err(DeleteRecordsError::Fenced),
            Some(AppendError::NotLeader) => Err(DeleteRecordsError::NotLeader),
            Some(_) => Err(DeleteRecordsError::Closed),
        })
    }

    /// A failure in a directory that has gone away meanwhile is no failure of the storage.
    fn explain(&self, error: StorageError) -> DeleteRecordsError {
        self.with_open(|_| ()).err().unwrap_or(DeleteRecordsError::Storage(error))
    }
}

impl Doomed {
    /// Renames the file aside unless that has been done; false when there is no such file.
    pub(crate) fn set_aside(&mut self, volume: &dyn crate::volume::Volume) -> std::io::Result<bool> {
        if self.aside {
            return Ok(true);
        }
        let aside = format!("{}{DELETED_SUFFIX}", self.path);
        match volume.rename(&self.path, &aside) {
            Ok(()) => {
                self.path = aside;
                self.aside = true;
                Ok(true)
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Unlinks the file; one that is gone already is as good.
    pub(crate) fn unlink(&mut self, volume: &dyn crate::volume::Volume) -> std::io::Result<()> {
        if !self.set_aside(volume)? {
            return Ok(());
        }
        match volume.remove_file(&self.path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}
