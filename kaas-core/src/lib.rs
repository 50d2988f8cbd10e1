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
//! `examples/embed.rs` is a whole host, without a runtime.
//!
//! # Durability
//!
//! [`LogConfig::flush_messages`] decides when an append is acknowledged. 1, the default: when it is synced. [`FLUSH_NEVER`]:
//! when it is written, and a power cut may take it back; a crash of the process does not. Anything between syncs that
//! often. In every mode what readers see is what was acknowledged, and [`Engine::close`] is a courtesy to the next open.
//!
//! # Threads
//!
//! An engine has a commit thread, a small pool that syncs files, and two that look after retention and compaction. It needs
//! no runtime. [`Partition::append`] never waits for the disk's sync, but it may write to the page cache; it returns a
//! [`PendingAppend`], which is a future for any executor and has [`wait`](PendingAppend::wait) for a thread. Appends
//! that are under way together share a sync. A [`ReadSpec`] that is not `blocking` may be read on an event loop: it
//! answers [`Read::WouldBlock`] when bytes are not in memory. Whatever else blocks says so. To be told when there is more
//! to read, [`Partition::watch`].
//!
//! A host that schedules by itself opens the engine with [`EngineOptions::manual_commits`] and calls [`Engine::commit`]:
//! then there is no thread at all.
//!
//! # Errors
//!
//! One enum for each operation, in [`error`]; a caller sees exactly how it can fail, and each variant says whether to retry. A
//! full disk refuses appends and goes on by itself when there is room. A failed sync fails what it covered, and the log
//! goes on in a new epoch behind what is known to be on the device. What is damaged is never served: the read that meets
//! it gets [`ReadError::Damaged`], its neighbours are read as before, and [`Engine::stats`] counts it. A partition whose
//! acknowledged end is damaged is [offline](Partition::offline), and nothing of it is changed. [`audit`] says what is wrong
//! with a volume, [`inspect`] shows what is in a file.
//!
//! # Shared volumes
//!
//! Several engines may have one volume mounted: [`EngineOptions::shared`]. Each registers an incarnation with a fence file, and
//! leads the partitions that it took over by [`Engine::lead`]; whoever replaces it calls [`Engine::revoke`] first. No
//! clock decides: either the old leader's fence read saw the revocation and it acknowledged nothing, or its records
//! were there when the new leader looked. [`Session`] adds a deadline as a second check.
//!
//! # Seams
//!
//! Everything from outside comes through traits: [`volume::Volume`] for files, [`Clock`] for time, [`Fence`] for the right to
//! acknowledge, [`EngineOptions::identities`] for identities. The `test-util` feature adds a deterministic volume in memory that loses
//! what was not synced and fails when told to, a clock that moves by hand, and switches for seeded bugs.

pub mod audit;
pub mod coordinator;
pub mod error;
pub mod group;
pub mod inspect;
pub mod layout;
pub mod record;
pub mod transaction;
pub mod volume;

mod base64;
mod clock;
mod config;
mod engine;
mod ids;
mod journal;
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
    BootClock, CompactionOptions, Engine, EngineOptions, EngineStats, Fence, Fenced, Histogram,
    PARTITIONS_MAX, ResolveConfig, Session, SingleNode, SystemBootClock, Topic, TopicSpec, Topics,
};
pub use error::{
    AppendError, CloseError, CreateTopicError, DeleteRecordsError, DeleteTopicError, LeadError, OpenError,
    ReadError,
};
pub use ids::{InvalidTopicName, TOPIC_NAME_BYTES_MAX, TopicName};
pub use log::{
    AbortedTxn, ActiveProducer, AppendOptions, Appended, CleaningFacts, DamagedRange, Isolation, Offsets,
    Origin, Partition, PendingAppend, Read, ReadData, ReadSpec, SegmentStart, Slice, TimestampHit, TxnProof,
    VerificationGuard, Wake,
};
#[cfg(feature = "test-util")]
pub use mutant::Mutant;
pub use record::RecordBatchBuilder;
pub use state_file::DamagedState;
pub use uuid::Uuid;
