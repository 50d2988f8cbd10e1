//! The markers of decided transactions, written until they are.
//!
//! A decision is durable before it comes here, and its slot asks again whenever it is loaded: so nothing that fails here, or stops
//! here, is lost. A partition that is gone needs no marker.

use std::sync::Arc;
use std::time::Duration;

use kaas_core::coordinator::{CoordinatorError, Pending, SLOTS};
use kaas_core::group::GroupError;
use kaas_core::record::{EndTxnMarker, TxnOutcome};
use kaas_core::transaction::{Decision, OFFSETS_TOPIC, WriteMarkers};
use kaas_core::{AppendError, AppendOptions, Clock, Origin, PendingAppend, SystemClock};
use kaas_proto::ErrorCode;
use tokio::sync::Semaphore;

use super::Decided;
use crate::broker::Broker;
use crate::error::{append_code, group_code};

/// Decisions whose markers are being written at the same time; the others wait their turn.
const DECISIONS_AT_ONCE: usize = 256;
/// Markers of one decision that share a wait for the disk.
const MARKERS_AT_ONCE: usize = 256;
/// The first wait before markers that failed are tried again; it doubles.
const RETRY_MIN: Duration = Duration::from_millis(50);
/// The longest wait.
const RETRY_MAX: Duration = Duration::from_secs(5);

/// Why a marker was not written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MarkerError {
    /// There is no such partition, or not any more.
    #[error("the partition does not exist")]
    Gone,
    /// Whoever asked for it does not need it any more.
    #[error("the decision is not this coordinator's any more")]
    NotOwed,
    /// The partition did not take it.
    #[error(transparent)]
    Append(#[from] AppendError),
    /// The slot of groups did not take it.
    #[error(transparent)]
    Group(#[from] GroupError),
    /// A coordinator did not answer.
    #[error(transparent)]
    Coordinator(#[from] CoordinatorError),
}

impl MarkerError {
    /// What another coordinator is told.
    pub(crate) fn code(&self) -> ErrorCode {
        match self {
            MarkerError::Gone | MarkerError::NotOwed => ErrorCode::UnknownTopicOrPartition,
            MarkerError::Append(error) => append_code(error),
            MarkerError::Group(error) => group_code(*error),
            // Coordinators of transactions know no other coordinator's codes.
            MarkerError::Coordinator(_) => ErrorCode::NotLeaderOrFollower,
        }
    }
}

/// A marker on its way.
pub(crate) enum StartedMarker {
    /// In a log.
    Log(PendingAppend),
    /// In a slot of groups.
    Group(Pending<Result<(), GroupError>>),
}

impl StartedMarker {
    /// Waits until it is durable.
    pub(crate) async fn finish(self) -> Result<(), MarkerError> {
        match self {
            StartedMarker::Log(pending) => match pending.await {
                Ok(_) => Ok(()),
                Err(AppendError::Deleted) => Err(MarkerError::Gone),
                Err(error) => Err(error.into()),
            },
            StartedMarker::Group(pending) => Ok(pending.await??),
        }
    }
}

impl Broker {
    /// Has a marker written, in a log or, by the name of Kafka's topic, in a slot of groups.
    pub(crate) fn start_marker(
        &self,
        marker: &EndTxnMarker,
        topic: &str,
        partition: i32,
    ) -> Result<StartedMarker, MarkerError> {
        if topic == OFFSETS_TOPIC {
            return self.complete_in_groups(marker, partition);
        }
        let partition = self.partition(topic, partition).map_err(|_| MarkerError::Gone)?;
        let options = AppendOptions { origin: Origin::Coordinator, ..AppendOptions::default() };
        match partition.append(marker.to_batch(SystemClock.now_ms()), options) {
            Ok(pending) => Ok(StartedMarker::Log(pending)),
            Err(AppendError::Deleted) => Err(MarkerError::Gone),
            Err(error) => Err(error.into()),
        }
    }

    fn complete_in_groups(
        &self,
        marker: &EndTxnMarker,
        partition: i32,
    ) -> Result<StartedMarker, MarkerError> {
        let slot = u32::try_from(partition).ok().filter(|slot| *slot < SLOTS).ok_or(MarkerError::Gone)?;
        let EndTxnMarker { producer_id, producer_epoch, outcome, .. } = *marker;
        let committed = outcome == TxnOutcome::Commit;
        let called = self.groups.call_slot(slot, |slot, _, out| {
            slot.complete_transaction(producer_id, producer_epoch, committed, out)
        })?;
        Ok(StartedMarker::Group(called))
    }

    /// Has a marker of a decision written.
    fn start_decided(
        &self,
        decision: &Decision,
        marker: &EndTxnMarker,
        topic: &str,
        partition: i32,
    ) -> Result<StartedMarker, MarkerError> {
        if topic != OFFSETS_TOPIC {
            return self.start_marker(marker, topic, partition);
        }
        // A log refuses what an earlier life of the coordinator has left behind. Groups do not: so the decision is looked at
        // while it cannot change.
        self.transactions.call_now(&decision.transactional_id, |slot, _, _| {
            if slot.owes(decision) {
                self.start_marker(marker, topic, partition)
            } else {
                Err(MarkerError::NotOwed)
            }
        })?
    }
}

/// Carries out what the coordinator decides, until it is closed.
pub async fn write_decided(broker: Arc<Broker>, mut decided: Decided) {
    let turns = Arc::new(Semaphore::new(DECISIONS_AT_ONCE));
    while let Some(decision) = decided.recv().await {
        tokio::spawn(carry_out(Arc::clone(&broker), Arc::clone(&turns), decision));
    }
}

async fn carry_out(broker: Arc<Broker>, turns: Arc<Semaphore>, work: WriteMarkers) {
    let marker = EndTxnMarker {
        producer_id: work.producer.producer_id,
        producer_epoch: work.producer.producer_epoch,
        coordinator_epoch: work.decision.coordinator_epoch,
        outcome: if work.commit { TxnOutcome::Commit } else { TxnOutcome::Abort },
    };
    let mut left: Vec<(String, i32)> =
        work.partitions.iter().map(|(topic, partition)| (topic.to_owned(), partition)).collect();
    let mut wait = RETRY_MIN;
    loop {
        let turn = turns.acquire().await;
        let mut failed = Vec::new();
        for some in left.chunks(MARKERS_AT_ONCE) {
            let (written, not_written) = write_some(&broker, &work.decision, &marker, some).await;
            failed.extend(not_written);
            match report(&broker, &work.decision, &written) {
                Ok(true) => {}
                // All is done, or another life of the slot has asked for the markers anew.
                Ok(false) => return,
                Err(error) => {
                    // Whoever has the slot next asks again.
                    tracing::debug!(decision = ?work.decision, %error, "markers are another's");
                    return;
                }
            }
        }
        drop(turn);
        if failed.is_empty() {
            return;
        }
        left = failed;
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(RETRY_MAX);
    }
}

/// Writes some of a decision's markers; returns which are written, and which are not.
async fn write_some(
    broker: &Broker,
    decision: &Decision,
    marker: &EndTxnMarker,
    some: &[(String, i32)],
) -> (Vec<(String, i32)>, Vec<(String, i32)>) {
    let start = |marker: &EndTxnMarker, (topic, partition): &(String, i32)| {
        broker.start_decided(decision, marker, topic, *partition)
    };
    let started: Vec<_> = some.iter().map(|at| start(marker, at)).collect();
    let (mut written, mut failed) = (Vec::new(), Vec::new());
    for (at, started) in some.iter().zip(started) {
        let mut outcome = finish(started).await;
        // A partition that knows a newer epoch has an open transaction of it, which no marker of ours would end: some client has
        // made up the epoch. The decision holds for it all the same, or readers would wait for ever.
        if let Some(producer_epoch) = outcome.as_ref().err().and_then(newer_epoch) {
            outcome = finish(start(&EndTxnMarker { producer_epoch, ..*marker }, at)).await;
        }
        match outcome {
            Ok(()) | Err(MarkerError::Gone | MarkerError::NotOwed) => written.push(at.clone()),
            Err(error) => {
                tracing::warn!(topic = at.0, partition = at.1, ?marker, %error, "marker not written");
                failed.push(at.clone());
            }
        }
    }
    (written, failed)
}

async fn finish(started: Result<StartedMarker, MarkerError>) -> Result<(), MarkerError> {
    started?.finish().await
}

/// The epoch that a partition knows, of a marker that it refused for its older one.
fn newer_epoch(error: &MarkerError) -> Option<i16> {
    match error {
        MarkerError::Append(AppendError::InvalidProducerEpoch(newer)) => Some(newer.current),
        MarkerError::Group(GroupError::InvalidProducerEpoch) => Some(i16::MAX),
        _ => None,
    }
}

/// Reports what is written; whether more is owed.
fn report(broker: &Broker, decision: &Decision, written: &[(String, i32)]) -> Result<bool, CoordinatorError> {
    broker.transactions.call_now(&decision.transactional_id, |slot, now, out| {
        for (topic, partition) in written {
            slot.marker_written(decision, topic, *partition, now, out);
        }
        slot.owes(decision)
    })
}
