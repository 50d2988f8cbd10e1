//! Compaction of all logs that ask for it: one thread, the dirtiest log first, no faster than allowed.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;

use super::background::{Background, Stop};
use super::retention::Retention;
use super::topics::Topics;
use crate::clock::Clock;
use crate::log::{CompactError, DirtyRatio, Partition};

/// `log.cleaner.dedupe.buffer.size`: Kafka's default.
const DEDUPE_BYTES_MAX: usize = 128 << 20;
/// `log.cleaner.backoff.ms`: Kafka's default.
const BACKOFF: Duration = Duration::from_secs(15);
/// Bytes that are read and written between two waits of a limited pass.
const PACE_BYTES: u64 = 256 << 10;

/// How logs with `cleanup.policy=compact` are compacted.
#[derive(Debug, Clone, PartialEq)]
pub struct CompactionOptions {
    /// How long to wait when there was nothing to do (`log.cleaner.backoff.ms`), in real time; `None`: only
    /// [`Engine::compact`](crate::Engine::compact) compacts (`log.cleaner.enable=false`).
    pub backoff: Option<Duration>,
    /// The most memory that the keys of one pass take (`log.cleaner.dedupe.buffer.size`); 16 bytes a key. What does
    /// not fit is left to the next pass.
    pub dedupe_bytes_max: usize,
    /// The most bytes that the engine's own thread reads and writes in a second (`log.cleaner.io.max.bytes.per.second`).
    pub bytes_per_second_max: f64,
}

impl Default for CompactionOptions {
    fn default() -> Self {
        Self { backoff: Some(BACKOFF), dedupe_bytes_max: DEDUPE_BYTES_MAX, bytes_per_second_max: f64::MAX }
    }
}

/// What a pass needs.
pub(crate) struct Compaction {
    pub(crate) options: CompactionOptions,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) topics: Arc<ArcSwap<Topics>>,
    pub(crate) retention: Arc<Retention>,
    /// Partitions that cannot be compacted. Locked for a whole pass: one at a time.
    pub(crate) given_up: Mutex<HashSet<u64>>,
}

impl Compaction {
    /// Compacts until no log is due; those that failed are left to the next pass. `pace` is told of bytes that were read and
    /// written, waits as it likes, and says false to stop.
    pub(crate) fn pass(&self, pace: &dyn Fn(u64) -> bool) {
        let mut given_up = self.given_up.lock();
        let mut failed = HashSet::new();
        while let Some(partition) = self.dirtiest(&given_up, &failed) {
            match partition.compact(self.clock.now_ms(), self.options.dedupe_bytes_max, pace) {
                Ok(files) => self.retention.doom(files),
                Err(CompactError::Stopped) => return,
                Err(error) if partition.is_gone() => {
                    tracing::debug!(partition = %partition.dir(), %error, "gone");
                    failed.insert(partition.key());
                }
                Err(error) if error.is_lasting() => {
                    tracing::error!(partition = %partition.dir(), %error, "not compacted any more");
                    given_up.insert(partition.key());
                }
                Err(error) => {
                    tracing::warn!(partition = %partition.dir(), %error, "compaction failed");
                    failed.insert(partition.key());
                }
            }
        }
    }

    /// The log that is due and has the greatest share that was never compacted.
    fn dirtiest(&self, given_up: &HashSet<u64>, failed: &HashSet<u64>) -> Option<Arc<Partition>> {
        let now_ms = self.clock.now_ms();
        let mut dirtiest: Option<(DirtyRatio, Arc<Partition>)> = None;
        for topic in self.topics.load().iter().filter(|topic| topic.log_config.load().compact) {
            for partition in &topic.partitions {
                if given_up.contains(&partition.key()) || failed.contains(&partition.key()) {
                    continue;
                }
                match partition.compaction_due(now_ms) {
                    Ok(Some(ratio)) if dirtiest.as_ref().is_none_or(|(most, _)| ratio > *most) => {
                        dirtiest = Some((ratio, Arc::clone(partition)));
                    }
                    Ok(_) => {}
                    Err(error) => {
                        tracing::debug!(partition = %partition.dir(), %error, "not looked at");
                    }
                }
            }
        }
        dirtiest.map(|(_, partition)| partition)
    }

    /// The thread that makes the passes, at the pace that the options allow.
    pub(crate) fn start(self: Arc<Self>, backoff: Duration) -> std::io::Result<Background> {
        Background::start("kaas-compaction", backoff, move |stop| {
            let limit = self.options.bytes_per_second_max;
            let owed = std::cell::Cell::new(0);
            self.pass(&|bytes| {
                owed.set(owed.get() + bytes);
                owed.get() < PACE_BYTES || !wait(stop, owed.take(), limit)
            });
            backoff
        })
    }
}

/// Waits as long as `bytes` may take; whether it is time to stop.
fn wait(stop: &Stop, bytes: u64, bytes_per_second_max: f64) -> bool {
    // The work itself takes time too, so the limit is never reached. An absurdly low one waits a day.
    let seconds = (bytes as f64 / bytes_per_second_max.max(f64::MIN_POSITIVE)).min(86_400.0);
    stop.wait(Duration::from_secs_f64(seconds))
}
