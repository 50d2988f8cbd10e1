//! What a client's batch must satisfy before it gets an offset; the order of the checks is Kafka 3.7's.

use bytes::Bytes;

use super::assemble::transcode;
use super::batch::{
    BATCH_OVERHEAD, BatchHeader, CompressionCodec, LOG_APPEND_TIME_BIT, LOG_OVERHEAD, MAGIC_AT, batch_crc,
};
use super::rules::{NO_TIMESTAMP, RecordRules};
use super::{EndTxnMarker, MalformedRecord, RecordHead, decompress, for_each_head};
use crate::config::{LogConfig, TimestampType};
use crate::error::{AppendError, CorruptBatch, InvalidRecord, MessageTooLarge, RecordListTooLarge};

/// The smallest length field that Kafka takes for a record set of any magic.
const LENGTH_FIELD_MIN: i32 = 14;
/// Bytes up to and including the magic byte.
const HEADER_UP_TO_MAGIC: usize = 17;

/// A batch that may be appended: its 61 header bytes, patched where the topic asks for it, and the rest
/// of it as it came.
#[derive(Debug, Clone)]
pub(crate) struct ValidBatch {
    pub(crate) header: BatchHeader,
    pub(crate) head_bytes: [u8; BATCH_OVERHEAD],
    pub(crate) body: Bytes,
    /// What the batch decides, if it is a coordinator's.
    pub(crate) marker: Option<EndTxnMarker>,
}

/// Checks the one batch in `records`.
pub(crate) fn validate(records: &Bytes, config: &LogConfig, now_ms: i64) -> Result<ValidBatch, AppendError> {
    let (header, batch) = only_batch(records)?;
    check_header(&header, &batch, config)?;
    let records = batch.slice(BATCH_OVERHEAD..);
    let max_timestamp = check_records(&header, &records, config, now_ms)?;
    match recompress(&header, &records, config)? {
        None => stamp(header, records, config, now_ms, max_timestamp),
        Some(recompressed) => {
            let header = header.with_codec(config.compression.target(header.codec())).sealed(&recompressed);
            stamp(header, recompressed, config, now_ms, max_timestamp)
        }
    }
}

/// Checks the one control batch in `records`, a coordinator's. A transaction must be decided whatever the topic's limits,
/// so neither its size nor its timestamp is looked at, and it is never compressed.
pub(crate) fn validate_marker(
    records: &Bytes,
    config: &LogConfig,
    now_ms: i64,
) -> Result<ValidBatch, AppendError> {
    let (header, batch) = only_batch(records)?;
    check_checksum(&header, &batch)?;
    let marker = EndTxnMarker::read(&header, &batch).map_err(|error| invalid(error.to_string()))?;
    let one = header.base_offset == 0 && header.last_offset_delta == 0 && header.record_count == 1;
    let of_a_producer = header.is_transactional() && header.producer_id >= 0 && header.producer_epoch >= 0;
    let marker = marker.filter(|_| one && of_a_producer);
    let marker = marker.ok_or_else(|| invalid("a coordinator appends end-transaction markers one by one"))?;
    let stamped = stamp(header, batch.slice(BATCH_OVERHEAD..), config, now_ms, header.max_timestamp)?;
    Ok(ValidBatch { marker: Some(marker), ..stamped })
}

/// The one batch in `records` and its header; nothing else was looked at.
fn only_batch(records: &Bytes) -> Result<(BatchHeader, Bytes), AppendError> {
    let size = match frame(records)? {
        Frame::Batch(size) => size,
        Frame::Nothing => return Err(invalid("a record set must contain exactly one record batch")),
    };
    if let Frame::Batch(_) = frame(&records[size..])? {
        return Err(invalid("a record set must contain exactly one record batch"));
    }
    let batch = records.slice(..size);
    if batch[MAGIC_AT] != 2 {
        return Err(AppendError::UnsupportedMagic { magic: batch[MAGIC_AT] });
    }
    let header = BatchHeader::parse(&batch).map_err(|error| CorruptBatch { why: error.to_string() })?;
    Ok((header, batch))
}

fn check_checksum(header: &BatchHeader, batch: &[u8]) -> Result<(), AppendError> {
    let computed = batch_crc(batch);
    if computed != header.crc {
        let why = format!("stored checksum {:#x}, computed {computed:#x}", header.crc);
        return Err(CorruptBatch { why }.into());
    }
    Ok(())
}

/// As [`validate`], of what a producer older than record batches may send: message sets are converted.
pub(crate) fn validate_any(
    records: &Bytes,
    config: &LogConfig,
    now_ms: i64,
) -> Result<ValidBatch, AppendError> {
    match frame(records)? {
        Frame::Batch(_) if records[MAGIC_AT] < 2 => super::legacy::convert(records, config, now_ms),
        _ => validate(records, config, now_ms),
    }
}

/// Whether there is not one whole batch or message in `records`. Kafka takes that from old producers, and appends nothing.
///
/// Bytes that cannot be told apart from something whole are not empty: an append says what is wrong with them.
pub fn is_empty_set(records: &[u8]) -> bool {
    matches!(frame(records), Ok(Frame::Nothing))
}

pub(super) enum Frame {
    Batch(usize),
    /// Not even one whole batch: such a tail is dropped, as Kafka drops it.
    Nothing,
}

pub(super) fn frame(bytes: &[u8]) -> Result<Frame, AppendError> {
    let Some((head, _)) = bytes.split_first_chunk::<LOG_OVERHEAD>() else { return Ok(Frame::Nothing) };
    let length = i32::from_be_bytes([head[8], head[9], head[10], head[11]]);
    if length < LENGTH_FIELD_MIN {
        return Err(CorruptBatch { why: format!("record size {length} is less than the minimum") }.into());
    }
    if bytes.len() < HEADER_UP_TO_MAGIC {
        return Ok(Frame::Nothing);
    }
    if bytes[MAGIC_AT] > 2 {
        return Err(CorruptBatch { why: format!("invalid magic {}", bytes[MAGIC_AT] as i8) }.into());
    }
    let size = LOG_OVERHEAD + usize::try_from(length).unwrap_or(usize::MAX - LOG_OVERHEAD);
    Ok(if size <= bytes.len() { Frame::Batch(size) } else { Frame::Nothing })
}

fn check_header(header: &BatchHeader, batch: &[u8], config: &LogConfig) -> Result<(), AppendError> {
    if header.base_offset != 0 {
        return Err(invalid(format!(
            "The baseOffset of the record batch in the append should be 0, but it is {}",
            header.base_offset
        )));
    }
    if header.size as u64 > u64::from(config.message_bytes_max) {
        return Err(MessageTooLarge { size: header.size, limit: config.message_bytes_max }.into());
    }
    check_checksum(header, batch)?;
    let range = i64::from(header.last_offset_delta) + 1;
    if range <= 0 {
        return Err(invalid(format!("Batch has an invalid offset range: [0, {}]", range - 1)));
    }
    if header.record_count <= 0 {
        return Err(invalid(format!("Invalid reported count for record batch: {}", header.record_count)));
    }
    if range != i64::from(header.record_count) {
        return Err(invalid(format!(
            "Inconsistent batch offset range [0, {}] and count of records {}",
            range - 1,
            header.record_count
        )));
    }
    if header.is_control() {
        return Err(invalid("Clients are not allowed to write control records"));
    }
    if header.producer_id >= 0 && header.base_sequence < 0 {
        return Err(invalid(format!(
            "Invalid sequence number {} in record batch with producerId {}",
            header.base_sequence, header.producer_id
        )));
    }
    if let CompressionCodec::Unknown(codec) = header.codec() {
        return Err(AppendError::UnsupportedCompression { codec });
    }
    Ok(())
}

/// Walks every record; returns the greatest timestamp.
fn check_records(
    header: &BatchHeader,
    records: &[u8],
    config: &LogConfig,
    now_ms: i64,
) -> Result<i64, AppendError> {
    let mut rules = RecordRules::new(config, now_ms, header.is_log_append_time());
    let mut max_timestamp = NO_TIMESTAMP;
    let mut order = Ok(());
    let visit = |head: RecordHead| {
        if head.offset_delta != rules.index() {
            order = Err(invalid(format!("Record {} has offset delta {}", rules.index(), head.offset_delta)));
            return false;
        }
        let timestamp = header.record_timestamp(head.timestamp_delta);
        max_timestamp = max_timestamp.max(timestamp);
        rules.check(timestamp, head.has_key);
        true
    };
    let walked = match header.codec() {
        // A slice is walked in place: this path is worth its own instance.
        CompressionCodec::None => for_each_head(records, header.record_count, visit),
        codec => match decompress(codec, records) {
            Ok(Some(stream)) => for_each_head(stream, header.record_count, visit),
            Ok(None) => Ok(()),
            Err(error) => Err(MalformedRecord(error.to_string())),
        },
    };
    walked.map_err(|MalformedRecord(why)| invalid(why))?;
    order?;
    rules.finish()?;
    Ok(max_timestamp)
}

/// The records in the codec that the topic asks for; `None` when that is the one they came in.
fn recompress(
    header: &BatchHeader,
    records: &[u8],
    config: &LogConfig,
) -> Result<Option<Bytes>, AppendError> {
    let target = config.compression.target(header.codec());
    if target == header.codec() {
        return Ok(None);
    }
    let stream = decompress(header.codec(), records)
        .map_err(|error| invalid(error.to_string()))?
        .ok_or_else(|| invalid(format!("codec {:?}", header.codec())))?;
    Ok(Some(transcode(stream, target, config.message_bytes_max)?.into()))
}

/// Sets what the broker decides in the header: timestamp type and greatest timestamp, and then the checksum.
pub(super) fn stamp(
    header: BatchHeader,
    body: Bytes,
    config: &LogConfig,
    now_ms: i64,
    max_timestamp: i64,
) -> Result<ValidBatch, AppendError> {
    let size = BATCH_OVERHEAD + body.len();
    if size as u64 > u64::from(config.segment_bytes) {
        return Err(RecordListTooLarge { size, segment_bytes: config.segment_bytes }.into());
    }
    let (attributes, max_timestamp) = match config.timestamp_type {
        TimestampType::CreateTime => (header.attributes & !LOG_APPEND_TIME_BIT, max_timestamp),
        TimestampType::LogAppendTime => (header.attributes | LOG_APPEND_TIME_BIT, now_ms),
    };
    let stamped = BatchHeader { attributes, max_timestamp, ..header };
    let header = if stamped == header && size == header.size { header } else { stamped.sealed(&body) };
    Ok(ValidBatch { header, head_bytes: header.to_bytes(), body, marker: None })
}

pub(super) fn invalid(message: impl Into<String>) -> AppendError {
    InvalidRecord { message: message.into(), record_errors: Vec::new() }.into()
}
