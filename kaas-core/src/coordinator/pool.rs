//! The threads that load slots and write their journals; they start when they are first needed.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::{Condvar, Mutex};

/// A slot that has something to do which waits for the disk.
pub(super) trait Work: Send + Sync {
    /// Does one piece of it. True when there is more: then it comes to the end of the queue, so that no slot holds up
    /// the others.
    fn work(&self) -> bool;
}

/// The queue and its threads.
pub(super) struct Pool {
    jobs: Mutex<Jobs>,
    arrived: Condvar,
    threads_max: usize,
}

#[derive(Default)]
struct Jobs {
    waiting: VecDeque<Arc<dyn Work>>,
    idle: usize,
    threads: Vec<JoinHandle<()>>,
    closed: bool,
}

impl Pool {
    /// Without threads the work is done by whoever calls [`run`](Self::run).
    pub(super) fn new(threads_max: usize) -> Self {
        Self { jobs: Mutex::default(), arrived: Condvar::new(), threads_max }
    }

    /// Has the work of `slot` done soon. Nothing happens when the pool was closed.
    pub(super) fn submit(self: &Arc<Self>, slot: Arc<dyn Work>) {
        let mut jobs = self.jobs.lock();
        if jobs.closed {
            return;
        }
        jobs.waiting.push_back(slot);
        // One that was woken and has not come yet counts as idle.
        if jobs.waiting.len() > jobs.idle && jobs.threads.len() < self.threads_max {
            let pool = Arc::clone(self);
            let thread = std::thread::Builder::new().name("kaas-journal".to_owned());
            match thread.spawn(move || serve(&pool)) {
                Ok(thread) => jobs.threads.push(thread),
                Err(error) => {
                    tracing::error!(%error, threads = jobs.threads.len(), "one journal thread less")
                }
            }
        }
        drop(jobs);
        self.arrived.notify_one();
    }

    /// Does on this thread whatever waits, until nothing does.
    pub(super) fn run(&self) {
        loop {
            let Some(slot) = self.jobs.lock().waiting.pop_front() else { return };
            while slot.work() {}
        }
    }

    /// Refuses work from now on, and waits for that which is under way.
    pub(super) fn close(&self) {
        let mut jobs = self.jobs.lock();
        jobs.closed = true;
        let threads = std::mem::take(&mut jobs.threads);
        drop(jobs);
        self.arrived.notify_all();
        for thread in threads {
            // The last handle may be dropped by one of the threads themselves.
            if thread.thread().id() != std::thread::current().id() {
                // A panic there was reported by its hook; there is nothing to add.
                let _ = thread.join();
            }
        }
    }

    /// The next slot that waits; `None` when the pool was closed.
    fn next(&self) -> Option<Arc<dyn Work>> {
        let mut jobs = self.jobs.lock();
        loop {
            if jobs.closed {
                return None;
            }
            if let Some(slot) = jobs.waiting.pop_front() {
                return Some(slot);
            }
            jobs.idle += 1;
            self.arrived.wait(&mut jobs);
            jobs.idle -= 1;
        }
    }
}

fn serve(pool: &Arc<Pool>) {
    while let Some(slot) = pool.next() {
        if slot.work() {
            pool.submit(slot);
        }
    }
}
