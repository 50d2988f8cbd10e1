//! The kaas storage engine: Kafka's record batches on a volume, durable when acknowledged.
//!
//! An [`Engine`] opens a [`volume::Volume`] and holds its topics. [`Partition::append`] fixes a batch's offset
//! at once and resolves when the batch is synced; [`Partition::read`] hands out the stored bytes, as a range
//! of a file, up to the high watermark. Nothing is visible before it is committed, and nothing that was
//! acknowledged is lost by a crash.
//!
//! ```
//! use kaas_core::{AppendOptions, Engine, EngineOptions, Isolation, Read, ReadSpec, RecordBatchBuilder, TopicSpec};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path();
//! let engine = Engine::open(EngineOptions::at(path)?)?;
//! let orders = engine.create_topic(TopicSpec::new("orders", 3))?;
//! let partition = &orders.partitions[0];
//!
//! let batch = RecordBatchBuilder::new().push(Some(b"user-7"), Some(b"{\"total\":12}"), 1_700_000_000_000).build();
//! let appended = partition.append(batch, AppendOptions::default())?.wait()?;
//! assert_eq!(appended.base_offset, 0);
//!
//! let spec = ReadSpec {
//!     offset: 0,
//!     bytes_max: 1 << 20,
//!     at_least_one_batch: true,
//!     isolation: Isolation::ReadUncommitted,
//!     blocking: true,
//! };
//! let Read::Data(data) = partition.read(spec)? else { unreachable!("a blocking read waits") };
//! assert_eq!(data.high_watermark, 1);
//! assert!(!data.slice.is_empty());
//! engine.close()?;
//! # Ok(())
//! # }
//! ```
//!
//! Durability follows [`LogConfig::flush_messages`]: 1, the default, syncs before every acknowledgement.
//!
//! The `test-util` feature adds a deterministic in-memory volume that loses what was not synced, a clock that
//! moves by hand, and switches for seeded bugs.

pub mod audit;
pub mod error;
pub mod inspect;
pub mod layout;
pub mod record;
pub mod volume;

mod clock;
mod config;
mod engine;
mod ids;
mod log;
mod mutant;
mod state_file;

#[cfg(feature = "test-util")]
pub use clock::ManualClock;
pub use clock::{Clock, SystemClock};
pub use config::{Compression, FLUSH_NEVER, LogConfig, TimestampType};
#[cfg(feature = "test-util")]
pub use engine::HeldCommits;
pub use engine::{
    BootClock, CompactionOptions, Engine, EngineOptions, Fence, Fenced, PARTITIONS_MAX, ResolveConfig,
    Session, SingleNode, SystemBootClock, Topic, TopicSpec, Topics,
};
pub use error::{
    AppendError, CloseError, CreateTopicError, DeleteRecordsError, DeleteTopicError, LeadError, OpenError,
    ReadError,
};
pub use ids::{InvalidTopicName, TOPIC_NAME_BYTES_MAX, TopicName};
pub use log::{
    AbortedTxn, ActiveProducer, AppendOptions, Appended, CleaningFacts, Isolation, Offsets, Origin,
    Partition, PendingAppend, Read, ReadData, ReadSpec, SegmentStart, Slice, TimestampHit, TxnProof,
    VerificationGuard, Wake,
};
#[cfg(feature = "test-util")]
pub use mutant::Mutant;
pub use record::RecordBatchBuilder;
pub use state_file::DamagedState;
pub use uuid::Uuid;
