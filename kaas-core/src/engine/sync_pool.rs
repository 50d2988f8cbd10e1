//! Threads that wait for syncs, so that several files are synced at once.

use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::{Condvar, Mutex};

use super::commit::{CommitQueue, Event, sync_file};
use crate::mutant::Mutants;
use crate::volume::VolumeFile;

struct Job {
    key: u64,
    file: Arc<dyn VolumeFile>,
    report_to: Arc<CommitQueue>,
}

#[derive(Default)]
struct Jobs {
    waiting: std::collections::VecDeque<Job>,
    idle: usize,
    closed: bool,
}

#[derive(Default)]
struct Shared {
    jobs: Mutex<Jobs>,
    arrived: Condvar,
}

/// A pool that starts its threads when they are first needed.
pub(crate) struct SyncPool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    threads_max: usize,
    mutants: Mutants,
}

impl SyncPool {
    /// A pool of at most `threads_max` threads; without any, syncs must be done by the caller.
    pub(crate) fn new(threads_max: usize, mutants: Mutants) -> Self {
        Self { shared: Arc::default(), threads: Vec::new(), threads_max, mutants }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.threads_max == 0
    }

    /// Syncs `file` and reports the result under `key`.
    pub(crate) fn submit(&mut self, key: u64, file: Arc<dyn VolumeFile>, report_to: Arc<CommitQueue>) {
        let mut jobs = self.shared.jobs.lock();
        jobs.waiting.push_back(Job { key, file, report_to });
        let wanted = jobs.waiting.len() > jobs.idle && self.threads.len() < self.threads_max;
        drop(jobs);
        self.shared.arrived.notify_one();
        if wanted {
            let (shared, mutants) = (Arc::clone(&self.shared), self.mutants);
            let thread = std::thread::Builder::new().name("kaas-sync".to_owned());
            match thread.spawn(move || work(&shared, mutants)) {
                Ok(thread) => self.threads.push(thread),
                // Without any thread the job would wait for ever.
                Err(error) if self.threads.is_empty() => {
                    tracing::error!(%error, "no sync thread: syncing in the commit loop");
                    self.drain();
                }
                Err(error) => tracing::warn!(%error, "one sync thread less"),
            }
        }
    }

    fn drain(&self) {
        let waiting = std::mem::take(&mut self.shared.jobs.lock().waiting);
        for job in waiting {
            job.run(self.mutants);
        }
    }
}

impl Drop for SyncPool {
    fn drop(&mut self) {
        self.shared.jobs.lock().closed = true;
        self.shared.arrived.notify_all();
        for thread in self.threads.drain(..) {
            // A thread that panicked has nothing left to wait for.
            let _ = thread.join();
        }
    }
}

impl Job {
    fn run(self, mutants: Mutants) {
        let result = sync_file(&*self.file, mutants);
        // False when the loop has ended: then nobody waits for the result.
        self.report_to.send(Event::Synced(self.key, result));
    }
}

fn work(shared: &Shared, mutants: Mutants) {
    loop {
        let mut jobs = shared.jobs.lock();
        let job = loop {
            if let Some(job) = jobs.waiting.pop_front() {
                break job;
            }
            if jobs.closed {
                return;
            }
            jobs.idle += 1;
            shared.arrived.wait(&mut jobs);
            jobs.idle -= 1;
        };
        drop(jobs);
        job.run(mutants);
    }
}
