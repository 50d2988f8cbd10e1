//! One partition's log: segments, indexes, producer state, recovery, reading and writing.

mod aborted;
mod append;
mod checkpoint;
mod claim;
mod compact;
mod cover;
mod epochs;
mod index;
mod marks;
mod partition;
mod producer;
mod producers;
mod read;
mod recover;
mod retain;
mod retention;
mod scan;
mod segment;
mod state;
mod sweep;
mod timestamps;
mod txn_index;
mod verification;
mod wake;
mod writer;

pub use aborted::CleaningFacts;
pub use append::{AppendOptions, Appended, Offsets, Origin, PendingAppend};
pub use partition::Partition;
pub use producers::ActiveProducer;
pub use read::{Isolation, Read, ReadData, ReadSpec, Slice};
pub use timestamps::{SegmentStart, TimestampHit};
pub use txn_index::AbortedTxn;
pub use verification::{TxnProof, VerificationGuard};
pub use wake::Wake;

pub(crate) use append::Group;
pub(crate) use compact::{CompactError, DirtyRatio};
pub(crate) use partition::PartitionParts;
pub(crate) use recover::{RecoverContext, RecoverError, recover};
pub(crate) use retain::Doomed;
pub(crate) use scan::{ScanError, Scanner};
pub(crate) use writer::{NewEpoch, WriteContext, Writer, Written};
