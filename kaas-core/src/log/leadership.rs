//! What a partition is to a broker that shares its volume: led, being taken over, being given up, or led elsewhere.

use super::append::Group;
use super::partition::Partition;
use super::recover::Recovered;
use super::state::{State, Status};
use super::wake::wake_all;
use super::writer::Writer;
use crate::error::{AppendError, LeadError};

/// Whether a takeover is needed.
pub(crate) enum Lead {
    TakeOver,
    /// It is led already, under this epoch.
    Led(i32),
}

impl Partition {
    /// Whether this broker leads the partition.
    pub fn is_led(&self) -> bool {
        matches!(self.state.lock().status, Status::Online | Status::Suspended | Status::Resigning)
    }

    /// Whether the partition is another broker's to look after.
    pub(crate) fn is_elsewhere(&self) -> bool {
        matches!(self.state.lock().status, Status::Elsewhere | Status::Taking | Status::Fenced)
    }

    /// Keeps others from taking over at the same time, until [`end_takeover`](Self::end_takeover).
    pub(crate) fn begin_takeover(&self) -> Result<Lead, LeadError> {
        let mut state = self.state.lock();
        match &state.status {
            Status::Online | Status::Suspended => Ok(Lead::Led(state.epoch)),
            // What was damaged may have been repaired: looking again is what a takeover does.
            Status::Elsewhere | Status::Offline(_) => {
                state.status = Status::Taking;
                Ok(Lead::TakeOver)
            }
            Status::Taking | Status::Resigning => Err(LeadError::Busy),
            Status::Fenced => Err(LeadError::Fenced),
            Status::Deleted => Err(LeadError::Deleted),
            Status::Closed => Err(LeadError::Closed),
        }
    }

    /// Serves the log that was taken over, or goes back to not leading.
    pub(crate) fn end_takeover(&self, taken: Result<Recovered, LeadError>) -> Result<i32, LeadError> {
        let mut writer = self.writer();
        let mut state = self.state.lock();
        // Deleted, closed or fenced meanwhile: so it stays.
        if !matches!(state.status, Status::Taking) {
            let gone = state.gone();
            return Err(match gone {
                Some(AppendError::Deleted) => LeadError::Deleted,
                Some(AppendError::Fenced) => LeadError::Fenced,
                _ => LeadError::Closed,
            });
        }
        let log = match taken {
            Ok(log) => log,
            Err(error) => {
                state.status = match &error {
                    LeadError::Offline(offline) => Status::Offline(offline.clone()),
                    _ => Status::Elsewhere,
                };
                return Err(error);
            }
        };
        let epoch = log.epoch;
        let (fresh, seed) = State::new(Status::Online, Some(log));
        let mut before = std::mem::replace(&mut *state, fresh);
        state.producers.inherit(&mut before.producers);
        *writer = seed.map(Writer::new);
        drop((state, writer));
        wake_all(before.watchers.take());
        Ok(epoch)
    }

    /// Refuses appends from now on; what is pending goes on. The epoch that is being given up.
    pub(crate) fn begin_resigning(&self) -> Result<i32, LeadError> {
        let mut state = self.state.lock();
        match &state.status {
            Status::Online => {
                state.status = Status::Resigning;
                Ok(state.epoch)
            }
            Status::Suspended | Status::Taking | Status::Resigning => Err(LeadError::Busy),
            Status::Elsewhere | Status::Offline(_) => Err(LeadError::NotLeader),
            Status::Fenced => Err(LeadError::Fenced),
            Status::Deleted => Err(LeadError::Deleted),
            Status::Closed => Err(LeadError::Closed),
        }
    }

    /// Whether the partition is being given up and has nothing to commit any more.
    pub(crate) fn may_resign(&self) -> bool {
        let state = self.state.lock();
        !matches!(state.status, Status::Resigning) || state.pending.is_empty()
    }

    /// Ends what [`begin_resigning`](Self::begin_resigning) began. False when the partition was lost meanwhile.
    pub(crate) fn end_resigning(&self) -> bool {
        if !matches!(self.state.lock().status, Status::Resigning) {
            return false;
        }
        self.leave(Status::Elsewhere, &AppendError::NotLeader);
        true
    }

    /// Stops leading because the storage has failed: whether what was under way is in the log is for the next takeover
    /// to find out. Nothing is done to the files, which may be another's by now.
    pub(crate) fn step_down(&self, group: Option<Group>, error: AppendError) {
        self.leave_with(group, Status::Elsewhere, &error);
    }

    /// Stops leading for good: this broker has been fenced.
    pub(crate) fn fence(&self) {
        let leads_nothing = matches!(self.state.lock().status, Status::Deleted | Status::Closed);
        if !leads_nothing {
            self.leave(Status::Fenced, &AppendError::Fenced);
        }
    }
}
