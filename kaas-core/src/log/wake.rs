//! One-shot wake-ups for readers that wait for a log to move.

use std::sync::{Arc, Weak};

/// Told once when something it watches has changed.
pub trait Wake: Send + Sync {
    /// Must return at once: it is called by the thread that commits.
    fn wake(&self);
}

/// Below this many registrations the list is not searched for dead ones.
const PRUNE_MIN: usize = 16;

/// The watchers of one partition, held weakly: whoever waits keeps its own alive.
#[derive(Default)]
pub(crate) struct Watchers {
    list: Vec<Weak<dyn Wake>>,
    prune_at: usize,
}

impl Watchers {
    pub(crate) fn add(&mut self, watcher: &Arc<dyn Wake>) {
        if self.list.len() >= self.prune_at.max(PRUNE_MIN) {
            self.list.retain(|watcher| watcher.strong_count() > 0);
            // Doubling keeps the cost of pruning constant per registration.
            self.prune_at = self.list.len() * 2;
        }
        self.list.push(Arc::downgrade(watcher));
    }

    /// Takes all registrations; the caller wakes them outside of its locks.
    pub(crate) fn take(&mut self) -> Vec<Weak<dyn Wake>> {
        self.prune_at = 0;
        std::mem::take(&mut self.list)
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.list.len()
    }
}

pub(crate) fn wake_all(watchers: Vec<Weak<dyn Wake>>) {
    for watcher in watchers {
        if let Some(watcher) = watcher.upgrade() {
            watcher.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nobody;
    impl Wake for Nobody {
        fn wake(&self) {}
    }

    #[test]
    fn watchers_that_gave_up_do_not_accumulate() {
        let mut watchers = Watchers::default();
        let alive: Arc<dyn Wake> = Arc::new(Nobody);
        watchers.add(&alive);
        for _ in 0..10_000 {
            let gone: Arc<dyn Wake> = Arc::new(Nobody);
            watchers.add(&gone);
        }
        assert!(watchers.len() <= PRUNE_MIN + 1, "{}", watchers.len());
        assert!(watchers.take().iter().any(|watcher| watcher.strong_count() > 0));
    }
}
