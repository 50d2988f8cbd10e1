//! Building a batch record by record, compressed as it grows and never larger than a topic allows.

use std::io::{self, Write};

use super::compress::{Encoder, TooLong};
use super::validate::invalid;
use super::write::RecordWriter;
use super::{BATCH_OVERHEAD, BatchHeader, CompressionCodec};
use crate::error::{AppendError, InvalidTimestamp, MessageTooLarge};

/// A record without a timestamp.
const NO_TIMESTAMP: i64 = -1;

/// One batch that grows. Its records have no headers: the formats that it is made from have none.
pub(super) struct Assembler {
    encoder: Encoder,
    codec: CompressionCodec,
    message_bytes_max: u32,
    record: RecordWriter,
    written: Vec<u8>,
    count: i32,
    base_timestamp: i64,
    max_timestamp: i64,
}

impl Assembler {
    /// An empty batch of at most `message_bytes_max` bytes.
    pub(super) fn new(codec: CompressionCodec, message_bytes_max: u32) -> Result<Self, AppendError> {
        let encoder = encoder(codec, message_bytes_max)?;
        Ok(Self {
            encoder,
            codec,
            message_bytes_max,
            record: RecordWriter::default(),
            written: Vec::new(),
            count: 0,
            base_timestamp: 0,
            max_timestamp: NO_TIMESTAMP,
        })
    }

    /// Adds a record.
    pub(super) fn push(
        &mut self,
        timestamp: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
    ) -> Result<(), AppendError> {
        if timestamp < NO_TIMESTAMP {
            let message = format!("Invalid negative timestamp {timestamp}");
            return Err(InvalidTimestamp { message, record_errors: Vec::new() }.into());
        }
        if self.count == 0 {
            self.base_timestamp = timestamp;
        }
        self.max_timestamp = self.max_timestamp.max(timestamp);
        self.record.restart(timestamp.wrapping_sub(self.base_timestamp), self.count);
        self.record.put(key, value, &[]);
        self.written.clear();
        self.record.finish(&mut self.written);
        self.encoder
            .write_all(&self.written)
            .map_err(|error| failed(error, self.codec, self.message_bytes_max))?;
        self.count =
            self.count.checked_add(1).ok_or_else(|| invalid("more records than a batch can count"))?;
        Ok(())
    }

    /// The header, complete but for what the log decides, and the records.
    pub(super) fn finish(self) -> Result<(BatchHeader, Vec<u8>), AppendError> {
        let records =
            self.encoder.finish().map_err(|error| failed(error, self.codec, self.message_bytes_max))?;
        let header = BatchHeader {
            base_offset: 0,
            size: BATCH_OVERHEAD,
            leader_epoch: -1,
            crc: 0,
            attributes: self.codec.bits(),
            last_offset_delta: self.count - 1,
            base_timestamp: self.base_timestamp,
            max_timestamp: self.max_timestamp,
            producer_id: -1,
            producer_epoch: -1,
            base_sequence: -1,
            record_count: self.count,
        };
        Ok((header.sealed(&records), records))
    }
}

/// Compresses `records`, which come as a stream, for a batch of at most `message_bytes_max` bytes.
pub(super) fn transcode(
    mut records: impl io::Read,
    codec: CompressionCodec,
    message_bytes_max: u32,
) -> Result<Vec<u8>, AppendError> {
    let mut encoder = encoder(codec, message_bytes_max)?;
    io::copy(&mut records, &mut encoder)
        .and_then(|_| encoder.finish())
        .map_err(|error| failed(error, codec, message_bytes_max))
}

fn encoder(codec: CompressionCodec, message_bytes_max: u32) -> Result<Encoder, AppendError> {
    let limit = (message_bytes_max as usize).saturating_sub(BATCH_OVERHEAD);
    Encoder::new(codec, limit).map_err(|error| failed(error, codec, message_bytes_max))
}

fn failed(error: io::Error, codec: CompressionCodec, limit: u32) -> AppendError {
    if TooLong::caused(&error) {
        // It has more, but how much is not known before the end.
        return MessageTooLarge { size: limit as usize + 1, limit }.into();
    }
    invalid(format!("the records cannot be compressed by {codec:?}: {error}"))
}
