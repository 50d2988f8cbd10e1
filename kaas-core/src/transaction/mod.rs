//! The transaction coordinator's rules: one slot of transactional ids, as a pure state machine.
//!
//! ```text
//!            add partitions          end: commit              all markers written
//! Empty ----------------> Ongoing ----------------> PrepareCommit ----------> CompleteCommit
//!   ^                     |   |   end: abort                                     |
//!   |                     |   +-------------------> PrepareAbort -----------> CompleteAbort
//!   |                     +-- timed out, or initialised anew: fenced --^         |
//!   +--- init producer id -------------------------------------------------------+
//! ```
//!
//! A [`Slot`] decides what Kafka 3.7's coordinator decides. It opens no file and waits for nothing: a call changes the state at once
//! and pushes the [`Entry`] that repeats the change, and the host delays the answer until that is durable. A call that needs a fresh
//! producer id says [`Initialized::NeedsProducerId`] and is made again with one. Once a decision is durable the host carries out
//! [`WriteMarkers`], as often as it takes, and reports each partition by [`Slot::marker_written`]; a slot that is loaded asks again for
//! whatever was decided and is not complete.
//!
//! # Where this differs from Kafka
//!
//! * There are no pending transitions: the next call sees the state that the last one made. So only a decision whose markers are not
//!   written makes callers wait (CONCURRENT_TRANSACTIONS), never an entry that is being written.
//! * The last producer id and epoch are durable: a retried InitProducerId (KIP-360) is recognised after a restart too.
//! * A producer whose epochs are exhausted is recognised as well: Kafka fails such a retry with UNKNOWN_SERVER_ERROR.
//! * A transaction times out when its time is over, by the monotonic clock, instead of at the next round of a check every ten seconds.

mod describe;
mod end;
mod entry;
mod error;
mod expire;
mod init;
mod metadata;
mod partitions;
mod slot;
mod state;
#[cfg(test)]
mod testing;

pub use describe::{Description, ListFilter, Listing};
pub use end::{Decision, WriteMarkers};
pub use entry::Entry;
pub use error::TransactionError;
pub use init::{InitProducerId, Initialized};
pub use metadata::{Metadata, Partitions, ProducerIdentity};
pub use partitions::{OFFSETS_TOPIC, offsets_partition};
pub use slot::{Config, PARTITIONS_MAX, Slot, TRANSACTIONAL_IDS_MAX};
pub use state::State;
