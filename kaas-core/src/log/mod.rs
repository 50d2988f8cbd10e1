//! One partition's log: segments, indexes, producer state, recovery, reading and writing.

mod append;
mod checkpoint;
mod claim;
mod index;
mod log_start;
mod partition;
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
mod wake;
mod writer;

pub use append::{AppendOptions, Appended, Offsets, Origin, PendingAppend};
pub use partition::Partition;
pub use read::{AbortedTxn, Isolation, Read, ReadData, ReadSpec, Slice};
pub use timestamps::{SegmentStart, TimestampHit};
pub use wake::Wake;

pub(crate) use append::Group;
pub(crate) use partition::PartitionParts;
pub(crate) use recover::{RecoverContext, RecoverError, recover};
pub(crate) use retain::Doomed;
pub(crate) use scan::{ScanError, Scanner};
pub(crate) use writer::{NewEpoch, WriteContext, Writer, Written};
