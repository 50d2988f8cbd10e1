//! Coordinators: state machines whose changes are durable before anyone hears of them.
//!
//! A coordinator's state is in [`SLOTS`] slots, by the hash of the group's or the transaction's id. Each slot is a [`Machine`]: pure,
//! without files, threads or clocks. Whatever it changes it repeats as entries, which the slot's journal makes durable; no
//! answer that rests on them leaves before. Changes that arrive while others are being written share the next write.

#[allow(clippy::module_inception)]
mod coordinator;
mod machine;
mod pending;
mod pool;
mod shard;
mod slot;
mod timers;

pub use coordinator::{Coordinator, CoordinatorKind, CoordinatorOptions, JOURNAL_CHANGES_BYTES};
pub use machine::{Answer, Host, Machine, Now, Outbox};
pub use pending::{CoordinatorError, Pending};
pub use slot::{SLOTS, slot_of};
