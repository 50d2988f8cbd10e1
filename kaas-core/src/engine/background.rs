//! A thread that does something now and then until it is told to stop.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use rustix::process::{getpriority_process, setpriority_process};

/// How much the thread yields to those that clients wait for, from 0 to 19.
const NICE: i32 = 10;

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
            yield_to_others();
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

/// Lowers the priority of the calling thread; on Linux, "this process" is that to this call.
fn yield_to_others() {
    if let Err(error) = getpriority_process(None).and_then(|now| setpriority_process(None, now.max(NICE))) {
        tracing::debug!(%error, "the priority of a background thread stays as it is");
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

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn the_thread_yields_and_nobody_else_does() {
        let before = getpriority_process(None).unwrap();
        let (tell, told) = mpsc::channel();
        let thread = Background::start("background", Duration::ZERO, move |_| {
            tell.send(getpriority_process(None).unwrap()).unwrap();
            Duration::MAX
        });
        assert_eq!(told.recv().unwrap(), NICE.max(before));
        assert_eq!(getpriority_process(None).unwrap(), before);
        thread.unwrap().stop();
    }
}
