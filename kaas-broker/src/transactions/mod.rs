//! The transaction coordinator as the broker runs it: the host of its slots, and the markers that carry out what they decide.

mod markers;
mod outcome;

use std::io;
use std::sync::Arc;

use kaas_core::Engine;
use kaas_core::coordinator::{Coordinator, CoordinatorKind, CoordinatorOptions, Host};
use kaas_core::transaction::{Config, Slot, WriteMarkers};
use tokio::sync::mpsc;

pub use markers::write_decided;
pub(crate) use markers::{MarkerError, StartedMarker};
pub(crate) use outcome::{FENCED_FROM, code_for, outcome};

/// All slots of transactional ids.
pub type Transactions = Coordinator<Slot>;

/// What slots have decided and nobody has carried out so far. As many as there are ids with a decided transaction, at most.
pub type Decided = mpsc::UnboundedReceiver<WriteMarkers>;

/// Opens the coordinator. With `sync` a change counts when it is on the device. Its decisions are for [`write_decided`].
///
/// # Errors
/// When a thread cannot be started.
pub fn open(engine: &Engine, config: Config, sync: bool) -> io::Result<(Transactions, Decided)> {
    let (decided, receiver) = mpsc::unbounded_channel();
    let host = Arc::new(TransactionHost { config, decided });
    let options = CoordinatorOptions { sync, ..CoordinatorOptions::new(CoordinatorKind::Transactions) };
    Ok((Coordinator::open(engine, &options, host)?, receiver))
}

struct TransactionHost {
    config: Config,
    decided: mpsc::UnboundedSender<WriteMarkers>,
}

impl Host<Slot> for TransactionHost {
    fn machine(&self, _: u32, epoch: u32) -> Slot {
        // A slot's epochs begin with 1 and rise by 1 a load: no slot gets near the end.
        Slot::new(self.config, i32::try_from(epoch).unwrap_or(i32::MAX))
    }

    fn effect(&self, _: u32, effect: WriteMarkers) {
        // Nobody listens while the broker stops; the next one's slots ask again.
        let _ = self.decided.send(effect);
    }
}
