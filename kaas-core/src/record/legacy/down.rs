//! Conversion down: stored record batches become the message set that an old consumer reads, by the rules of Kafka 3.7.

use std::io::{self, Write};

use super::lz4;
use super::message::{LOG_APPEND_TIME_BIT, LOG_OVERHEAD, Message};
use crate::Slice;
use crate::record::compress::Encoder;
use crate::record::walk::{RecordError, for_each_record};
use crate::record::{BATCH_OVERHEAD, BatchHeader, CompressionCodec, MalformedRecord, batch_crc, decompress};

/// The most that a set inside a message may have: lengths are 32 bits wide, with a sign.
const WRAPPED_BYTES_MAX: usize = i32::MAX as usize / 2;

/// The formats before record batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OldMagic {
    /// Without timestamps; absolute offsets inside compressed messages. Fetch 0 and 1.
    V0,
    /// With timestamps; relative offsets inside compressed messages (KIP-31, KIP-32). Fetch 2 and 3.
    V1,
}

/// What is to be converted, and how.
#[derive(Debug, Clone, Copy)]
pub struct DownConversion {
    /// The format that the reader knows.
    pub magic: OldMagic,
    /// The offset that the reader asked for: records before it are left out of batches that are not compressed.
    pub from_offset: i64,
    /// Most bytes of the result. The first batch with anything to read in it comes whole, however large.
    pub bytes_max: usize,
    /// The topic's `max.message.bytes`. A record that decompresses to more than that and than 16 MiB is not converted.
    pub message_bytes_max: u32,
}

/// Why stored batches were not converted.
#[derive(Debug, thiserror::Error)]
pub enum DownConvertError {
    /// Caller's fault: the old formats have no zstd.
    #[error("batches of zstd cannot be converted down")]
    Zstd,
    /// A record that is too large to be held in memory.
    #[error("a record of {0} bytes is too large to be converted")]
    RecordTooLarge(usize),
    /// The stored bytes are damaged.
    #[error(transparent)]
    Damaged(#[from] MalformedRecord),
    /// The read failed.
    #[error(transparent)]
    Storage(#[from] io::Error),
}

impl From<RecordError> for DownConvertError {
    fn from(error: RecordError) -> Self {
        match error {
            RecordError::Malformed(malformed) => Self::Damaged(malformed),
            RecordError::TooLarge(bytes) => Self::RecordTooLarge(bytes),
        }
    }
}

/// Converts the whole batches of `slice` into a message set; may block.
///
/// Headers, control batches and transactions have no place in the old formats and are dropped. The last message may be
/// cut off. Batches that hold nothing to read become one message that does not fit, so that the reader notices.
///
/// One batch at a time is in memory, and one of its records decompressed, besides the result.
///
/// # Errors
/// [`DownConvertError`], unless something was converted before: then the result ends there.
pub fn down_convert(slice: &Slice, conversion: &DownConversion) -> Result<Vec<u8>, DownConvertError> {
    let mut out = Vec::new();
    let mut limit = slice.len().min(conversion.bytes_max);
    let mut position = 0;
    let mut batch = Vec::new();
    while read_batch(slice, position, &mut batch)? {
        position += batch.len();
        let was_empty = out.is_empty();
        match append_converted(&batch, conversion, &mut out) {
            Ok(()) => {}
            // The next fetch begins at this batch and is told.
            Err(_) if !was_empty => break,
            Err(error) => return Err(error),
        }
        if was_empty {
            limit = limit.max(out.len());
        }
        if out.len() >= limit {
            out.truncate(limit);
            break;
        }
    }
    if position > 0 && out.is_empty() {
        out.extend_from_slice(&overflow());
    }
    Ok(out)
}

/// The head of a message that no response can hold: "there is something, and it does not fit".
fn overflow() -> [u8; LOG_OVERHEAD] {
    let mut head = [0xff; LOG_OVERHEAD];
    head[8..].copy_from_slice(&(BATCH_OVERHEAD as i32).to_be_bytes());
    head
}

/// Reads the batch at `position` whole; false when it is not all there.
fn read_batch(slice: &Slice, position: usize, batch: &mut Vec<u8>) -> Result<bool, DownConvertError> {
    let left = slice.len() - position;
    if left < BATCH_OVERHEAD {
        return Ok(false);
    }
    batch.clear();
    batch.resize(BATCH_OVERHEAD, 0);
    slice.read_exact_at(batch, position)?;
    let header = BatchHeader::parse(batch).map_err(|error| MalformedRecord(error.to_string()))?;
    if header.size > left {
        return Ok(false);
    }
    batch.resize(header.size, 0);
    slice.read_exact_at(&mut batch[BATCH_OVERHEAD..], position + BATCH_OVERHEAD)?;
    Ok(true)
}

fn append_converted(
    batch: &[u8],
    conversion: &DownConversion,
    out: &mut Vec<u8>,
) -> Result<(), DownConvertError> {
    let header = BatchHeader::parse(batch).map_err(|error| MalformedRecord(error.to_string()))?;
    if batch_crc(batch) != header.crc {
        let why = format!("the checksum of the batch at offset {} is wrong", header.base_offset);
        return Err(MalformedRecord(why).into());
    }
    if header.is_control() {
        return Ok(());
    }
    let codec = header.codec();
    if codec == CompressionCodec::Zstd {
        return Err(DownConvertError::Zstd);
    }
    let stream = decompress(codec, &batch[BATCH_OVERHEAD..])
        .map_err(|error| MalformedRecord(error.to_string()))?
        .ok_or_else(|| MalformedRecord(format!("codec {codec:?}")))?;
    let magic = conversion.magic;
    let bytes_max = super::record_bytes_max(conversion.message_bytes_max);
    if codec == CompressionCodec::None {
        let start = out.len();
        let converted = for_each_record(&header, stream, bytes_max, |record| {
            if record.offset >= conversion.from_offset {
                message(magic, &header, record.offset, record.timestamp, CompressionCodec::None)
                    .with(record.key.as_deref(), record.value.as_deref())
                    .write(out);
            }
        });
        if converted.is_err() {
            out.truncate(start);
        }
        return Ok(converted?);
    }
    let mut wrapper = Wrapper::new(magic, &header)?;
    let mut written = Ok(());
    for_each_record(&header, stream, bytes_max, |record| {
        if written.is_ok() {
            written = wrapper.push(&record);
        }
    })?;
    written?;
    wrapper.finish(out)?;
    Ok(())
}

/// A message without key and value.
fn message(
    magic: OldMagic,
    header: &BatchHeader,
    offset: i64,
    timestamp: i64,
    codec: CompressionCodec,
) -> Message<'static> {
    let (magic, time_bit) = match magic {
        OldMagic::V0 => (0, 0),
        OldMagic::V1 => (1, if header.is_log_append_time() { LOG_APPEND_TIME_BIT } else { 0 }),
    };
    Message { offset, magic, attributes: codec.bits() as u8 | time_bit, timestamp, key: None, value: None }
}

impl<'a> Message<'a> {
    fn with<'b>(self, key: Option<&'b [u8]>, value: Option<&'b [u8]>) -> Message<'b>
    where
        'a: 'b,
    {
        Message { key, value, ..self }
    }
}

/// A compressed message under construction.
struct Wrapper<'a> {
    magic: OldMagic,
    header: &'a BatchHeader,
    encoder: Encoder,
    message: Vec<u8>,
    first_offset: Option<i64>,
    last_offset: i64,
    max_timestamp: i64,
}

impl<'a> Wrapper<'a> {
    fn new(magic: OldMagic, header: &'a BatchHeader) -> io::Result<Self> {
        let encoder = Encoder::new(header.codec(), WRAPPED_BYTES_MAX)?;
        let (message, first_offset) = (Vec::new(), None);
        Ok(Self { magic, header, encoder, message, first_offset, last_offset: -1, max_timestamp: -1 })
    }

    fn push(&mut self, record: &crate::record::Record) -> io::Result<()> {
        let first = *self.first_offset.get_or_insert(record.offset);
        let offset = match self.magic {
            OldMagic::V0 => record.offset,
            OldMagic::V1 => record.offset - first,
        };
        self.message.clear();
        message(self.magic, self.header, offset, record.timestamp, CompressionCodec::None)
            .with(record.key.as_deref(), record.value.as_deref())
            .write(&mut self.message);
        self.last_offset = record.offset;
        self.max_timestamp = self.max_timestamp.max(record.timestamp);
        self.encoder.write_all(&self.message)
    }

    fn finish(self, out: &mut Vec<u8>) -> io::Result<()> {
        if self.first_offset.is_none() {
            return Ok(());
        }
        let codec = self.header.codec();
        let mut value = self.encoder.finish()?;
        if codec == CompressionCodec::Lz4 && self.magic == OldMagic::V0 {
            lz4::spoil(&mut value);
        }
        message(self.magic, self.header, self.last_offset, self.max_timestamp, codec)
            .with(None, Some(&value))
            .write(out);
        Ok(())
    }
}
