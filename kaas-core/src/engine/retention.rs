//! Retention: one thread that looks at all partitions now and then. A partition has no timer of its own, and one
//! that nothing has changed in costs a comparison.

use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;

use super::background::Background;
use super::commit::{CommitQueue, Event, ManualLoop};
use super::topics::Topics;
use crate::clock::Clock;
use crate::log::Doomed;
use crate::volume::Volume;

/// The longest wait for the first pass: a broker that is started often must not keep everything.
const FIRST_PASS_AFTER: Duration = Duration::from_secs(30);

/// What a pass needs.
pub(crate) struct Retention {
    pub(crate) volume: Arc<dyn Volume>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) queue: Arc<CommitQueue>,
    pub(crate) manual: Arc<ManualLoop>,
    pub(crate) topics: Arc<ArcSwap<Topics>>,
    /// Files whose delay is not over. Locked for a whole pass: one at a time.
    pub(crate) doomed: Mutex<Vec<Doomed>>,
}

impl Retention {
    /// Looks at every partition, and unlinks the files whose delay is over.
    pub(crate) fn pass(&self) {
        let mut doomed = self.doomed.lock();
        let now_ms = self.clock.now_ms();
        for topic in self.topics.load().iter() {
            for partition in topic.partitions.iter().filter(|partition| !partition.is_elsewhere()) {
                match partition.retain(now_ms, &|key| self.roll(key)) {
                    Ok(files) => doomed.extend(files),
                    // Its topic may have been deleted a moment ago.
                    Err(error) if partition.is_gone() => {
                        tracing::debug!(partition = %partition.dir(), %error, "gone");
                    }
                    Err(error) => tracing::warn!(partition = %partition.dir(), %error, "retention failed"),
                }
            }
        }
        doomed.retain_mut(|file| {
            if file.due_ms > now_ms {
                return true;
            }
            match file.unlink(&*self.volume) {
                Ok(()) => false,
                Err(error) => {
                    tracing::warn!(path = file.path, %error, "cannot be removed yet");
                    true
                }
            }
        });
    }

    /// Takes files that are to be removed when their time has come.
    pub(crate) fn doom(&self, files: Vec<Doomed>) {
        self.doomed.lock().extend(files);
    }

    /// The thread that makes the passes.
    pub(crate) fn start(self: Arc<Self>, interval: Duration) -> std::io::Result<Background> {
        Background::start("kaas-retention", interval.min(FIRST_PASS_AFTER), move |_| {
            self.pass();
            // What is due earlier than the next pass gets one of its own, but not at every moment.
            let due = self.next_due_ms().map(|ms| Duration::from_millis(ms.max(1000).unsigned_abs()));
            due.map_or(interval, |due| due.min(interval))
        })
    }

    /// When the next file is due, in milliseconds from now.
    fn next_due_ms(&self) -> Option<i64> {
        let due_ms = self.doomed.lock().iter().map(|file| file.due_ms).min()?;
        Some(due_ms.saturating_sub(self.clock.now_ms()))
    }

    fn roll(&self, key: u64) -> bool {
        let (answer, answered) = sync_channel(1);
        if !self.queue.send(Event::Roll(key, answer)) {
            return false;
        }
        self.manual.run();
        answered.recv().unwrap_or(false)
    }
}
