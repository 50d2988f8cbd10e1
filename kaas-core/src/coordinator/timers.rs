//! When which slot has something to do next: one thread for all of them, which sleeps until the first is due.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::clock::Clock;

/// The deadlines, at most one a slot.
#[derive(Default)]
pub(super) struct Timers {
    state: Mutex<Deadlines>,
    changed: Condvar,
}

#[derive(Default)]
struct Deadlines {
    set: BTreeSet<(Duration, u32)>,
    stopped: bool,
}

impl Timers {
    /// Replaces the deadline of a slot.
    pub(super) fn move_to(&self, slot: u32, before: Option<Duration>, after: Option<Duration>) {
        let mut state = self.state.lock();
        if let Some(before) = before {
            state.set.remove(&(before, slot));
        }
        let Some(after) = after else { return };
        state.set.insert((after, slot));
        let first = state.set.first() == Some(&(after, slot));
        drop(state);
        if first {
            self.changed.notify_one();
        }
    }

    /// The slots that are due, whose deadlines are taken away.
    pub(super) fn take_due(&self, now: Duration) -> Vec<(Duration, u32)> {
        let mut state = self.state.lock();
        let mut due = Vec::new();
        while let Some(first) = state.set.first().copied().filter(|(deadline, _)| *deadline <= now) {
            state.set.remove(&first);
            due.push(first);
        }
        due
    }

    /// The first deadline.
    #[cfg(feature = "test-util")]
    pub(super) fn first(&self) -> Option<Duration> {
        self.state.lock().set.first().map(|(deadline, _)| *deadline)
    }

    /// Starts the thread, which calls `due` whenever a slot may be.
    pub(super) fn start(
        self: &Arc<Self>,
        clock: Arc<dyn Clock>,
        mut due: impl FnMut() + Send + 'static,
    ) -> std::io::Result<JoinHandle<()>> {
        let timers = Arc::clone(self);
        std::thread::Builder::new().name("kaas-timers".to_owned()).spawn(move || {
            while timers.sleep(&*clock) {
                due();
            }
        })
    }

    /// Sleeps until a deadline has come; false when it is time to stop.
    fn sleep(&self, clock: &dyn Clock) -> bool {
        let mut state = self.state.lock();
        loop {
            if state.stopped {
                return false;
            }
            match state.set.first().map(|(deadline, _)| deadline.saturating_sub(clock.monotonic())) {
                None => self.changed.wait(&mut state),
                Some(Duration::ZERO) => return true,
                Some(left) => {
                    self.changed.wait_for(&mut state, left);
                }
            }
        }
    }

    /// Ends the thread.
    pub(super) fn stop(&self) {
        self.state.lock().stopped = true;
        self.changed.notify_all();
    }
}
