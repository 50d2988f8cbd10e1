//! Kafka's record batch format, magic 2 (KIP-98): reading, checking and building.

mod batch;
mod builder;
mod compress;
mod read;
mod validate;
mod walk;

pub use batch::{BATCH_OVERHEAD, BatchHeader, CompressionCodec, HeaderError};
pub use builder::RecordBatchBuilder;
pub use compress::DECOMPRESSED_BYTES_MAX;
pub use read::{WholeBatch, read_batch};
pub use walk::{MalformedRecord, Record, RecordHead};

pub(crate) use batch::{BASE_OFFSET_AT, LEADER_EPOCH_AT, batch_crc};
pub(crate) use compress::decompress;
pub(crate) use validate::{ValidBatch, validate};
pub(crate) use walk::for_each_head;
