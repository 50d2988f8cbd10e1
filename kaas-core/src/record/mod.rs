//! Kafka's record batch format, magic 2 (KIP-98): reading, checking, compressing and building; and the conversion of the
//! formats before it.

mod assemble;
mod batch;
mod builder;
mod compress;
mod decompress;
mod legacy;
mod marker;
mod read;
mod rules;
mod slices;
mod validate;
mod walk;
mod write;

pub use batch::{BATCH_OVERHEAD, BatchHeader, CompressionCodec, HeaderError};
pub use builder::RecordBatchBuilder;
pub use decompress::DECOMPRESSED_BYTES_MAX;
pub use legacy::{DownConversion, DownConvertError, OldMagic, down_convert};
pub use marker::{EndTxnMarker, TxnOutcome};
pub use read::{WholeBatch, read_batch};
pub use validate::is_empty_set;
pub use walk::{MalformedRecord, Record, RecordHead};

pub(crate) use batch::{
    ATTRIBUTES_AT, BASE_OFFSET_AT, CRC_AT, DELETE_HORIZON_BIT, LEADER_EPOCH_AT, LOG_OVERHEAD, MAGIC_AT,
    MAX_TIMESTAMP_AT, batch_crc,
};
pub(crate) use compress::Encoder;
pub(crate) use decompress::decompress;
pub(crate) use slices::{RecordSlice, RecordSlices};
pub(crate) use validate::{ValidBatch, validate, validate_any, validate_marker};
pub(crate) use walk::for_each_head;
