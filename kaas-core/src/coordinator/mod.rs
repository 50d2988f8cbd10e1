//! Coordinators: state machines whose changes are durable before anyone hears of them.
//!
//! A coordinator's state is in [`SLOTS`] slots, by the hash of the group's or the transaction's id. Each slot is a [`Machine`]: pure,
//! without files, threads or clocks. Whatever it changes it repeats as entries; no answer leaves before they are durable.

mod machine;
mod slot;

pub use machine::{Machine, Now, Outbox};
pub use slot::{SLOTS, slot_of};
