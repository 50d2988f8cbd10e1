//! One partition's log: segments, indexes, producer state, recovery, reading and writing.

mod checkpoint;
mod claim;
mod index;
mod partition;
mod producers;
mod read;
mod recover;
mod scan;
mod segment;
mod timestamps;
mod wake;
mod writer;

pub use partition::{AppendOptions, Appended, Offsets, Origin, Partition, PendingAppend};
pub use read::{AbortedTxn, Isolation, Read, ReadData, ReadSpec, Slice};
pub use timestamps::TimestampHit;
pub use wake::Wake;

pub(crate) use partition::{Group, PartitionParts};
pub(crate) use recover::{RecoverContext, RecoverError, recover};
pub(crate) use scan::{ScanError, Scanner};
pub(crate) use writer::{NewEpoch, WriteContext, Writer, Written};
