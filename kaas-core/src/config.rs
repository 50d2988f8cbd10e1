//! Per-topic log settings, typed; the broker resolves Kafka's property names into these.

use crate::record::CompressionCodec;

/// Which timestamp a topic's records carry (`message.timestamp.type`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TimestampType {
    /// The producer's.
    #[default]
    CreateTime,
    /// The broker's at append; stamped into the batch header (attribute bit 3).
    LogAppendTime,
}

/// What happens to a batch's compression on append (`compression.type`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compression {
    /// Batches are kept as the producer compressed them.
    #[default]
    Producer,
    /// Batches are stored without compression.
    Uncompressed,
    /// Batches are stored in this codec, whatever they came in; so with the ones below.
    Gzip,
    /// See [`Gzip`](Self::Gzip); in xerial's frame, as Kafka's clients have it.
    Snappy,
    /// See [`Gzip`](Self::Gzip).
    Lz4,
    /// See [`Gzip`](Self::Gzip).
    Zstd,
}

impl Compression {
    /// The codec that a batch is stored in which came in `source`.
    pub fn target(self, source: CompressionCodec) -> CompressionCodec {
        match self {
            Self::Producer => source,
            Self::Uncompressed => CompressionCodec::None,
            Self::Gzip => CompressionCodec::Gzip,
            Self::Snappy => CompressionCodec::Snappy,
            Self::Lz4 => CompressionCodec::Lz4,
            Self::Zstd => CompressionCodec::Zstd,
        }
    }
}

/// The smallest `flush.messages` that means never: Kafka's default, the greatest value of its type.
pub const FLUSH_NEVER: u64 = i64::MAX as u64;

/// The settings of one topic's logs. The defaults are Kafka's, but for `flush_messages`.
#[derive(Debug, Clone, PartialEq)]
pub struct LogConfig {
    /// `segment.bytes`: a segment is rolled before it would grow past this.
    pub segment_bytes: u32,
    /// `index.interval.bytes`: at least this many log bytes lie between two index entries.
    pub index_interval_bytes: u32,
    /// `segment.index.bytes`: a segment is rolled when its offset index would grow past this.
    pub index_bytes_max: u32,
    /// `max.message.bytes`: the largest batch accepted, compressed, with its 12-byte log overhead.
    pub message_bytes_max: u32,
    /// `flush.messages`: appends are acknowledged unsynced until this many records are unsynced.
    /// 1 (the default here) syncs before every acknowledgement; [`FLUSH_NEVER`] is Kafka's default, the
    /// page-cache mode, in which a power cut may lose acknowledged records.
    pub flush_messages: u64,
    /// `cleanup.policy` contains `delete`: old segments are removed by age and size, and records on request.
    pub delete: bool,
    /// `cleanup.policy` contains `compact`: records without a key are refused.
    pub compact: bool,
    /// `message.timestamp.type`.
    pub timestamp_type: TimestampType,
    /// `message.timestamp.before.max.ms`: how far a record's timestamp may lie in the past.
    pub timestamp_before_max_ms: i64,
    /// `message.timestamp.after.max.ms`: how far a record's timestamp may lie in the future.
    pub timestamp_after_max_ms: i64,
    /// `compression.type`.
    pub compression: Compression,
    /// `message.downconversion.enable`: whether batches may be converted for readers of the old formats. For whoever
    /// calls [`down_convert`](crate::record::down_convert); a log does not convert by itself.
    pub down_conversion: bool,
    /// `retention.ms`: a segment whose greatest timestamp is older than this is removed; -1 keeps it for ever.
    pub retention_ms: i64,
    /// `retention.bytes`: the oldest segments are removed while the log stays at least this large; -1 is unlimited.
    pub retention_bytes: i64,
    /// `segment.ms`: a segment is rolled when a batch is this much younger than the segment's first.
    pub segment_ms: i64,
    /// `segment.jitter.ms`: up to this much is taken off `segment.ms`, by a chance that is fixed for each segment.
    pub segment_jitter_ms: i64,
    /// `file.delete.delay.ms`: how long a removed segment's files stay under their aside names.
    pub file_delete_delay_ms: i64,
    /// `min.cleanable.dirty.ratio`: a log is compacted when more than this share of it never was, 0 to 1.
    pub min_cleanable_dirty_ratio: f64,
    /// `min.compaction.lag.ms`: records stay uncompacted at least this long.
    pub min_compaction_lag_ms: i64,
    /// `max.compaction.lag.ms`: records stay uncompacted no longer than this, whatever the ratio.
    pub max_compaction_lag_ms: i64,
    /// `delete.retention.ms`: how long tombstones and markers stay after the first compaction that meets them.
    pub delete_retention_ms: i64,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self {
            segment_bytes: 1 << 30,
            index_interval_bytes: 4096,
            index_bytes_max: 10 << 20,
            message_bytes_max: 1_048_588,
            flush_messages: 1,
            delete: true,
            compact: false,
            timestamp_type: TimestampType::CreateTime,
            timestamp_before_max_ms: i64::MAX,
            timestamp_after_max_ms: i64::MAX,
            compression: Compression::Producer,
            down_conversion: true,
            retention_ms: 7 * 24 * 3_600_000,
            retention_bytes: -1,
            segment_ms: 7 * 24 * 3_600_000,
            segment_jitter_ms: 0,
            file_delete_delay_ms: 60_000,
            min_cleanable_dirty_ratio: 0.5,
            min_compaction_lag_ms: 0,
            max_compaction_lag_ms: i64::MAX,
            delete_retention_ms: 24 * 3_600_000,
        }
    }
}
