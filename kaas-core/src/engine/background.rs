//! A thread that does something now and then until it is told to stop.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// The thread.
pub(crate) struct Background {
    stop: Arc<Stop>,
    thread: JoinHandle<()>,
}

/// What the thread learns of its end.
#[derive(Default)]
pub(crate) struct Stop {
    stopped: Mutex<bool>,
    changed: Condvar,
}

impl Background {
    /// Calls `work` after `first`, and then again after every time that it asks for.
    pub(crate) fn start(
        name: &str,
        first: Duration,
        mut work: impl FnMut(&Stop) -> Duration + Send + 'static,
    ) -> std::io::Result<Self> {
        let stop = Arc::new(Stop::default());
        let until = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            let mut wait = first;
            while !until.wait(wait) {
                wait = work(&until);
            }
        })?;
        Ok(Self { stop, thread })
    }

    /// Waits for the work that is under way; there is none after it.
    pub(crate) fn stop(self) {
        *self.stop.stopped.lock() = true;
        self.stop.changed.notify_all();
        // A panic there was reported by its hook; there is nothing to add.
        let _ = self.thread.join();
    }
}

impl Stop {
    /// Waits this long, or until it is time to stop, which it then says.
    pub(crate) fn wait(&self, at_most: Duration) -> bool {
        let mut stopped = self.stopped.lock();
        self.changed.wait_while_for(&mut stopped, |stopped| !*stopped, at_most);
        *stopped
    }
}
