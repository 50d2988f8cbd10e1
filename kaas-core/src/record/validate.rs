//! What a client's batch must satisfy before it gets an offset; the order of the checks is Kafka 3.7's.

use bytes::Bytes;

use super::batch::{
    ATTRIBUTES_AT, BATCH_OVERHEAD, BatchHeader, CRC_AT, CompressionCodec, LOG_APPEND_TIME_BIT, LOG_OVERHEAD,
    MAGIC_AT, MAX_TIMESTAMP_AT, batch_crc,
};
use super::{MalformedRecord, RecordHead, decompress, for_each_head};
use crate::config::{LogConfig, TimestampType};
use crate::error::{
    AppendError, CorruptBatch, InvalidRecord, InvalidTimestamp, MessageTooLarge, RecordListTooLarge,
};

/// The smallest length field that Kafka takes for a record set of any magic.
const LENGTH_FIELD_MIN: i32 = 14;
/// Bytes up to and including the magic byte.
const HEADER_UP_TO_MAGIC: usize = 17;
/// A record without a timestamp.
const NO_TIMESTAMP: i64 = -1;
/// Most record errors that one refusal lists.
const RECORD_ERRORS_MAX: usize = 1000;

/// A batch that may be appended: its 61 header bytes, patched where the topic asks for it, and the rest
/// of it as it came.
#[derive(Debug, Clone)]
pub(crate) struct ValidBatch {
    pub(crate) header: BatchHeader,
    pub(crate) head_bytes: [u8; BATCH_OVERHEAD],
    pub(crate) body: Bytes,
}

/// Checks the one batch in `records`.
pub(crate) fn validate(records: &Bytes, config: &LogConfig, now_ms: i64) -> Result<ValidBatch, AppendError> {
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
    check_header(&header, &batch, config)?;
    let max_timestamp = check_records(&header, &batch[BATCH_OVERHEAD..], config, now_ms)?;
    if size as u64 > u64::from(config.segment_bytes) {
        return Err(RecordListTooLarge { size, segment_bytes: config.segment_bytes }.into());
    }
    Ok(stamp(header, &batch, config, now_ms, max_timestamp))
}

enum Frame {
    Batch(usize),
    /// Not even one whole batch: such a tail is dropped, as Kafka drops it.
    Nothing,
}

fn frame(bytes: &[u8]) -> Result<Frame, AppendError> {
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
    let computed = batch_crc(batch);
    if computed != header.crc {
        let why = format!("stored checksum {:#x}, computed {computed:#x}", header.crc);
        return Err(CorruptBatch { why }.into());
    }
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
    // Transactions are begun at a coordinator; a batch of one that was never begun would hang for ever.
    if header.is_transactional() {
        return Err(AppendError::InvalidTransactionState);
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
    let mut check =
        RecordChecks { header, config, now_ms, index: 0, max_timestamp: NO_TIMESTAMP, errors: vec![] };
    let mut order = Ok(());
    let visit = |head: RecordHead| {
        order = check.visit(head);
        order.is_ok()
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
    check.finish()
}

struct RecordChecks<'a> {
    header: &'a BatchHeader,
    config: &'a LogConfig,
    now_ms: i64,
    index: i32,
    max_timestamp: i64,
    errors: Vec<RecordFault>,
}

enum RecordFault {
    NoKey { index: i32 },
    Timestamp { index: i32, why: String },
}

impl RecordChecks<'_> {
    fn visit(&mut self, head: RecordHead) -> Result<(), AppendError> {
        let index = self.index;
        self.index += 1;
        if head.offset_delta != index {
            return Err(invalid(format!("Record {index} has offset delta {}", head.offset_delta)));
        }
        let timestamp = self.header.record_timestamp(head.timestamp_delta);
        self.max_timestamp = self.max_timestamp.max(timestamp);
        if self.errors.len() < RECORD_ERRORS_MAX {
            if self.config.compact && !head.has_key {
                self.errors.push(RecordFault::NoKey { index });
            } else if let Some(why) = self.timestamp_fault(index, timestamp) {
                self.errors.push(RecordFault::Timestamp { index, why });
            }
        }
        Ok(())
    }

    fn timestamp_fault(&self, index: i32, timestamp: i64) -> Option<String> {
        let LogConfig { timestamp_before_max_ms: before, timestamp_after_max_ms: after, .. } = *self.config;
        if self.config.timestamp_type == TimestampType::CreateTime && timestamp != NO_TIMESTAMP {
            let age = self.now_ms.saturating_sub(timestamp);
            return (age > before || age.saturating_neg() > after).then(|| {
                format!(
                    "Timestamp {timestamp} of message with offset {index} is out of range. The timestamp should be within [{}, {}]",
                    self.now_ms.saturating_sub(before),
                    self.now_ms.saturating_add(after)
                )
            });
        }
        self.header.is_log_append_time().then(|| {
            format!("Invalid timestamp type in message {index}. Producer should not set timestamp type to LogAppendTime.")
        })
    }

    fn finish(self) -> Result<i64, AppendError> {
        if self.errors.is_empty() {
            return Ok(self.max_timestamp);
        }
        let timestamps = self.errors.iter().any(|fault| matches!(fault, RecordFault::Timestamp { .. }));
        let total = self.errors.len();
        let record_errors: Vec<(i32, String)> = self
            .errors
            .into_iter()
            .map(|fault| match fault {
                RecordFault::NoKey { index } => {
                    (index, "Compacted topic cannot accept message without key".to_owned())
                }
                RecordFault::Timestamp { index, why } => (index, why),
            })
            .collect();
        if timestamps {
            let message = "One or more records have been rejected due to invalid timestamp".to_owned();
            return Err(InvalidTimestamp { message, record_errors }.into());
        }
        let message = format!(
            "One or more records have been rejected due to {total} record errors in total, and only showing the first three errors at most"
        );
        Err(InvalidRecord { message, record_errors }.into())
    }
}

/// Sets what the broker decides in the header: timestamp type and greatest timestamp, and then the checksum.
fn stamp(
    mut header: BatchHeader,
    batch: &Bytes,
    config: &LogConfig,
    now_ms: i64,
    max_timestamp: i64,
) -> ValidBatch {
    let mut head_bytes = [0; BATCH_OVERHEAD];
    head_bytes.copy_from_slice(&batch[..BATCH_OVERHEAD]);
    let body = batch.slice(BATCH_OVERHEAD..);
    let (attributes, max_timestamp) = match config.timestamp_type {
        TimestampType::CreateTime => (header.attributes & !LOG_APPEND_TIME_BIT, max_timestamp),
        TimestampType::LogAppendTime => (header.attributes | LOG_APPEND_TIME_BIT, now_ms),
    };
    if attributes != header.attributes || max_timestamp != header.max_timestamp {
        head_bytes[ATTRIBUTES_AT..ATTRIBUTES_AT + 2].copy_from_slice(&attributes.to_be_bytes());
        head_bytes[MAX_TIMESTAMP_AT..MAX_TIMESTAMP_AT + 8].copy_from_slice(&max_timestamp.to_be_bytes());
        let crc = crc32c::crc32c_append(crc32c::crc32c(&head_bytes[ATTRIBUTES_AT..]), &body);
        head_bytes[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_be_bytes());
        header = BatchHeader { attributes, max_timestamp, crc, ..header };
    }
    ValidBatch { header, head_bytes, body }
}

fn invalid(message: impl Into<String>) -> AppendError {
    InvalidRecord { message: message.into(), record_errors: Vec::new() }.into()
}
