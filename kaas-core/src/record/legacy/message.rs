//! One message: reading it from bytes and writing it.

use crate::record::{CompressionCodec, MalformedRecord};

/// Offset and size.
pub(super) const LOG_OVERHEAD: usize = 12;
/// The smallest size field of any message.
pub(super) const SIZE_MIN: i32 = 14;
const CRC_BYTES: usize = 4;
const MAGIC_AT: usize = 4;
const ATTRIBUTES_AT: usize = 5;
pub(super) const LOG_APPEND_TIME_BIT: u8 = 0x08;
/// A message of magic 0 has no timestamp.
pub(super) const NO_TIMESTAMP: i64 = -1;

/// A message, borrowed from the set that it is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Message<'a> {
    pub(super) offset: i64,
    pub(super) magic: u8,
    pub(super) attributes: u8,
    /// Milliseconds since the epoch, or -1.
    pub(super) timestamp: i64,
    pub(super) key: Option<&'a [u8]>,
    pub(super) value: Option<&'a [u8]>,
}

impl<'a> Message<'a> {
    /// Reads a message from its crc on. The checksum is not looked at.
    pub(super) fn parse(offset: i64, body: &'a [u8]) -> Result<Self, MalformedRecord> {
        let mut rest = Rest(body.get(MAGIC_AT..).ok_or_else(short)?);
        let [magic, attributes] = rest.take::<2>()?;
        let timestamp = match magic {
            0 => NO_TIMESTAMP,
            1 => i64::from_be_bytes(rest.take()?),
            other => return Err(MalformedRecord(format!("a message of magic {other}"))),
        };
        let key = rest.nullable()?;
        let value = rest.nullable()?;
        Ok(Self { offset, magic, attributes, timestamp, key, value })
    }

    /// The codec of the set in its value; of a message that is no wrapper, none.
    pub(super) fn codec(&self) -> CompressionCodec {
        CompressionCodec::of(i16::from(self.attributes))
    }

    /// Whether its timestamp is the broker's.
    pub(super) fn is_log_append_time(&self) -> bool {
        self.magic > 0 && self.attributes & LOG_APPEND_TIME_BIT != 0
    }

    /// Appends the message to a set.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&self.offset.to_be_bytes());
        out.extend_from_slice(&[0; 4 + CRC_BYTES]);
        out.extend_from_slice(&[self.magic, self.attributes]);
        if self.magic > 0 {
            out.extend_from_slice(&self.timestamp.to_be_bytes());
        }
        put_nullable(out, self.key);
        put_nullable(out, self.value);
        let body = start + LOG_OVERHEAD;
        let size = (out.len() - body) as i32;
        out[body - 4..body].copy_from_slice(&size.to_be_bytes());
        let crc = crc32(&out[body + CRC_BYTES..]);
        out[body..body + CRC_BYTES].copy_from_slice(&crc.to_be_bytes());
    }
}

/// What a message is, as far as its checksum and its layout do not matter.
pub(super) fn codec(body: &[u8]) -> Option<CompressionCodec> {
    body.get(ATTRIBUTES_AT).map(|attributes| CompressionCodec::of(i16::from(*attributes)))
}

/// Whether the checksum of a message, given from its crc on, is right.
pub(super) fn has_right_crc(body: &[u8]) -> bool {
    let Some((stored, rest)) = body.split_first_chunk() else { return false };
    u32::from_be_bytes(*stored) == crc32(rest)
}

fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(bytes);
    crc.sum()
}

struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], MalformedRecord> {
        let (taken, rest) = self.0.split_first_chunk().ok_or_else(short)?;
        self.0 = rest;
        Ok(*taken)
    }

    fn nullable(&mut self) -> Result<Option<&'a [u8]>, MalformedRecord> {
        // Kafka takes every negative length for null.
        let Ok(length) = usize::try_from(i32::from_be_bytes(self.take()?)) else { return Ok(None) };
        let (taken, rest) = self.0.split_at_checked(length).ok_or_else(short)?;
        self.0 = rest;
        Ok(Some(taken))
    }
}

fn short() -> MalformedRecord {
    MalformedRecord("a message that is longer than its size".to_owned())
}

fn put_nullable(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    match bytes {
        None => out.extend_from_slice(&(-1i32).to_be_bytes()),
        Some(bytes) => {
            out.extend_from_slice(&(bytes.len() as i32).to_be_bytes());
            out.extend_from_slice(bytes);
        }
    }
}
