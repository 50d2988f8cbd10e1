//! A parked fetch: woken once by whichever of its partitions moves first.

use std::sync::Arc;

use kaas_core::{Partition, Wake};
use tokio::sync::Notify;

/// Keeps the registrations alive; dropping it ends them.
pub(super) struct Waiter {
    moved: Arc<Moved>,
}

#[derive(Debug, Default)]
struct Moved {
    notify: Notify,
}

impl Wake for Moved {
    fn wake(&self) {
        // Stores one permit, so that a wake before the wait is not lost.
        self.notify.notify_one();
    }
}

impl Waiter {
    /// Registers with every partition.
    pub(super) fn watch(partitions: &[Arc<Partition>]) -> Waiter {
        let moved = Arc::new(Moved::default());
        for partition in partitions {
            let wake: Arc<dyn Wake> = moved.clone();
            partition.watch(&wake);
        }
        Waiter { moved }
    }

    /// Ends when any of them has moved.
    pub(super) async fn woken(&self) {
        self.moved.notify.notified().await;
    }
}
