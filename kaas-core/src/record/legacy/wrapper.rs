//! The messages inside a compressed message.

use std::io::{BufRead, Read};

use super::lz4;
use super::message::{LOG_OVERHEAD, Message, SIZE_MIN, has_right_crc};
use crate::error::{AppendError, CorruptBatch, MessageTooLarge};
use crate::record::validate::invalid;
use crate::record::{CompressionCodec, decompress};

/// Calls `visit` with every message in `wrapper`, in order, and whether its checksum is right. Only one is in memory at a time.
///
/// # Errors
/// What `visit` returns; else what Kafka 3.7 says of a wrapper that is not right.
pub(super) fn for_each_inner(
    wrapper: &Message<'_>,
    message_bytes_max: u32,
    mut visit: impl FnMut(Message<'_>, bool) -> Result<(), AppendError>,
) -> Result<(), AppendError> {
    let value = wrapper.value.ok_or_else(|| invalid("a compressed message without a value"))?;
    let codec = wrapper.codec();
    if codec == CompressionCodec::Zstd {
        return Err(invalid("zstd is younger than message sets"));
    }
    let unpacked = |error: std::io::Error| invalid(format!("the messages cannot be decompressed: {error}"));
    let repaired;
    let value = if codec == CompressionCodec::Lz4 && wrapper.magic == 0 {
        repaired = lz4::repaired(value);
        &*repaired
    } else {
        value
    };
    let mut stream =
        decompress(codec, value).map_err(unpacked)?.ok_or_else(|| super::up::unknown_codec(codec))?;
    let mut body = Vec::new();
    let mut last = None;
    while let Some(offset) = next(&mut *stream, message_bytes_max, &mut body)? {
        let message = Message::parse(offset, &body).map_err(|error| invalid(error.to_string()))?;
        let timestamp = if wrapper.is_log_append_time() && message.magic > 0 {
            wrapper.timestamp
        } else {
            message.timestamp
        };
        if message.codec() != CompressionCodec::None {
            return Err(invalid("Inner messages must not be compressed"));
        }
        visit(Message { timestamp, ..message }, has_right_crc(&body))?;
        last = Some(offset);
    }
    let last = last.ok_or_else(|| invalid("a compressed message without messages in it"))?;
    // Some producers leave the wrapper at offset 0; any other must not be before what is in it.
    if wrapper.magic > 0 && wrapper.offset != 0 && wrapper.offset < last {
        return Err(invalid(format!("the wrapper's offset {} is below {last} inside", wrapper.offset)));
    }
    Ok(())
}

/// Reads the next message into `body`, from its crc on; returns its offset. A cut message at the end is none, as in Kafka.
fn next(
    stream: &mut dyn BufRead,
    message_bytes_max: u32,
    body: &mut Vec<u8>,
) -> Result<Option<i64>, AppendError> {
    let unpacked = |error: std::io::Error| invalid(format!("the messages cannot be decompressed: {error}"));
    body.clear();
    stream.take(LOG_OVERHEAD as u64).read_to_end(body).map_err(unpacked)?;
    let Some(head) = body.first_chunk::<LOG_OVERHEAD>() else { return Ok(None) };
    let [o0, o1, o2, o3, o4, o5, o6, o7, s0, s1, s2, s3] = *head;
    let offset = i64::from_be_bytes([o0, o1, o2, o3, o4, o5, o6, o7]);
    let size = i32::from_be_bytes([s0, s1, s2, s3]);
    if size < SIZE_MIN {
        return Err(CorruptBatch { why: format!("message size {size} is less than the minimum") }.into());
    }
    if size as usize > super::record_bytes_max(message_bytes_max) {
        return Err(MessageTooLarge { size: size as usize, limit: message_bytes_max }.into());
    }
    body.clear();
    // Memory grows with what is there, not with what the size claims.
    let read = stream.take(u64::from(size.unsigned_abs())).read_to_end(body).map_err(unpacked)?;
    Ok((read == size as usize).then_some(offset))
}
