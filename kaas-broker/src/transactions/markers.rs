//! The markers of decided transactions, written until they are.
//!
//! A decision is durable before it comes here, and its slot asks again whenever it is loaded: so nothing that fails here, or stops
//! here, is lost. A partition that is gone needs no marker.

use std::sync::Arc;
use std::time::Duration;

use kaas_core::coordinator::CoordinatorError;
use kaas_core::record::{EndTxnMarker, TxnOutcome};
use kaas_core::transaction::{Decision, WriteMarkers};
use kaas_core::{AppendError, AppendOptions, Clock, Origin, PendingAppend, SystemClock};
use kaas_proto::ErrorCode;
use tokio::sync::Semaphore;

use super::Decided;
use crate::broker::Broker;
use crate::error::append_code;

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
    /// The partition did not take it.
    #[error(transparent)]
    Append(#[from] AppendError),
}

impl MarkerError {
    /// What another coordinator is told.
    pub(crate) fn code(&self) -> ErrorCode {
        match self {
            MarkerError::Gone => ErrorCode::UnknownTopicOrPartition,
            MarkerError::Append(error) => append_code(error),
        }
    }
}

/// A marker on its way.
pub(crate) enum StartedMarker {
    /// In a log.
    Log(PendingAppend),
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
        }
    }
}

impl Broker {
    /// Has a marker written.
    pub(crate) fn start_marker(
        &self,
        marker: &EndTxnMarker,
        topic: &str,
        partition: i32,
    ) -> Result<StartedMarker, MarkerError> {
        let partition = self.partition(topic, partition).map_err(|_| MarkerError::Gone)?;
        let options = AppendOptions { origin: Origin::Coordinator, ..AppendOptions::default() };
        match partition.append(marker.to_batch(SystemClock.now_ms()), options) {
            Ok(pending) => Ok(StartedMarker::Log(pending)),
            Err(AppendError::Deleted) => Err(MarkerError::Gone),
            Err(error) => Err(error.into()),
        }
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
            let (written, not_written) = write_some(&broker, &marker, some).await;
            failed.extend(not_written);
            if let Err(error) = report(&broker, &work.decision, &written) {
                // Whoever has the slot next asks again.
                tracing::debug!(decision = ?work.decision, %error, "markers are another's");
                return;
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
    marker: &EndTxnMarker,
    some: &[(String, i32)],
) -> (Vec<(String, i32)>, Vec<(String, i32)>) {
    let start = |(topic, partition): &(String, i32)| broker.start_marker(marker, topic, *partition);
    let started: Vec<_> = some.iter().map(start).collect();
    let (mut written, mut failed) = (Vec::new(), Vec::new());
    for (at, started) in some.iter().zip(started) {
        let outcome = match started {
            Ok(started) => started.finish().await,
            Err(error) => Err(error),
        };
        let outcome = match outcome {
            // A partition that knows a newer epoch has an open transaction of it, which no marker of ours would end: some client
            // has made up the epoch. The decision holds for it all the same, or readers would wait for ever.
            Err(MarkerError::Append(AppendError::InvalidProducerEpoch(newer))) => {
                let marker = EndTxnMarker { producer_epoch: newer.current, ..*marker };
                match broker.start_marker(&marker, &at.0, at.1) {
                    Ok(started) => started.finish().await,
                    Err(error) => Err(error),
                }
            }
            outcome => outcome,
        };
        match outcome {
            Ok(()) | Err(MarkerError::Gone) => written.push(at.clone()),
            Err(error @ MarkerError::Append(_)) => {
                tracing::warn!(topic = at.0, partition = at.1, ?marker, %error, "marker not written");
                failed.push(at.clone());
            }
        }
    }
    (written, failed)
}

fn report(broker: &Broker, decision: &Decision, written: &[(String, i32)]) -> Result<(), CoordinatorError> {
    broker.transactions.call_now(&decision.transactional_id, |slot, now, out| {
        for (topic, partition) in written {
            slot.marker_written(decision, topic, *partition, now, out);
        }
    })
}
