//! Message sets, the formats before record batches: magic 0 and magic 1 (KIP-31, KIP-32).
//!
//! They are never stored. What an old producer sends is converted up to one record batch, and what an old consumer
//! fetches is converted down.
//!
//! ```text
//! set     = message*
//! message = offset i64, size i32, crc u32, magic i8, attributes i8, timestamp i64 (magic 1),
//!           keyLength i32 (-1 null), key, valueLength i32 (-1 null), value
//! ```
//! size counts from the crc, a CRC-32 (IEEE) of everything behind it. Attributes: codec (bits 0-2), timestamp type (3,
//! magic 1). A compressed message is a wrapper: its value is a compressed set. The wrapper has the offset of its last
//! message; the messages inside have absolute offsets (magic 0) or count from the first one (magic 1).

mod down;
mod lz4;
mod message;
mod up;
mod wrapper;

#[cfg(test)]
mod tests;

/// A record or message that is converted is in memory whole, decompressed. It may have this much, or `max.message.bytes` if that is more.
const RECORD_BYTES_MAX: u32 = 16 << 20;

/// The most that one record of a topic may have to be converted.
fn record_bytes_max(message_bytes_max: u32) -> usize {
    RECORD_BYTES_MAX.max(message_bytes_max) as usize
}

pub use down::{DownConversion, DownConvertError, OldMagic, down_convert};

pub(super) use up::convert;
