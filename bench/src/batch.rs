//! Record batches, encoded once and sent over and over.

use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use kaas_core::RecordBatchBuilder;
use kaas_core::record::CompressionCodec;

const HEADER_BYTES: usize = 61;
const LENGTH_FROM: usize = 12;
const CRC_AT: usize = 17;
const CRC_FROM: usize = 21;
const ATTRIBUTES_AT: usize = 21;
/// The bit of a transaction's batch among its attributes.
pub(crate) const TRANSACTIONAL: i16 = 0x10;
const EPOCH_AT: usize = 51;
/// Where an idempotent producer's first sequence lies in a batch.
const SEQUENCE_AT: usize = 53;
/// Who sends: an idempotent producer's id and epoch 0, or nobody.
pub(crate) const NO_PRODUCER: i64 = -1;

/// A v2 batch of `count` records with values of `value_bytes`, uncompressed, with its CRC.
pub(crate) fn build(count: usize, value_bytes: usize, producer_id: i64) -> Bytes {
    let mut records = Vec::new();
    for index in 0..count {
        let mut record = vec![0];
        varint(&mut record, 0);
        varint(&mut record, index as i64);
        varint(&mut record, -1);
        varint(&mut record, value_bytes as i64);
        record.extend((0..value_bytes).map(|at| noise(index, at)));
        varint(&mut record, 0);
        varint(&mut records, record.len() as i64);
        records.extend(record);
    }
    let idempotent = producer_id != NO_PRODUCER;
    let now_ms = now_ms();
    let mut out = Vec::with_capacity(HEADER_BYTES + records.len());
    out.extend(0i64.to_be_bytes());
    out.extend(((HEADER_BYTES - LENGTH_FROM + records.len()) as i32).to_be_bytes());
    out.extend((-1i32).to_be_bytes());
    out.push(2);
    out.extend([0; 4]);
    out.extend(0i16.to_be_bytes());
    out.extend((count as i32 - 1).to_be_bytes());
    out.extend(now_ms.to_be_bytes());
    out.extend(now_ms.to_be_bytes());
    out.extend(producer_id.to_be_bytes());
    out.extend((if idempotent { 0i16 } else { -1 }).to_be_bytes());
    out.extend((if idempotent { 0i32 } else { -1 }).to_be_bytes());
    out.extend((count as i32).to_be_bytes());
    out.extend(records);
    seal(&mut out);
    out.into()
}

/// A batch of records that are text, compressed.
pub(crate) fn build_compressed(
    count: usize,
    value_bytes: usize,
    codec: CompressionCodec,
) -> std::io::Result<Bytes> {
    let now_ms = now_ms();
    let push =
        |builder: RecordBatchBuilder, index| builder.push(None, Some(&text(index, value_bytes)), now_ms);
    (0..count).fold(RecordBatchBuilder::new(), push).build_compressed(codec)
}

/// Words and numbers, as in a log: something that compresses to about a third.
fn text(record: usize, bytes: usize) -> Vec<u8> {
    const WORDS: [&str; 16] = [
        "request",
        "from",
        "user",
        "took",
        "status",
        "error",
        "warning",
        "cache",
        "session",
        "order",
        "item",
        "retry",
        "accepted",
        "closed",
        "partition",
        "offset",
    ];
    let mut text = String::with_capacity(bytes + 16);
    for at in 0.. {
        if text.len() >= bytes {
            break;
        }
        let byte = noise(record, at);
        text.push_str(WORDS[usize::from(byte & 15)]);
        text.push_str(if byte & 16 == 0 { " " } else { "=" });
        text.push_str(&format!("{:02x}", noise(record + 1, at)));
    }
    text.truncate(bytes);
    text.into_bytes()
}

/// The time of the records, in milliseconds since the epoch: the present, or retention would remove them.
pub(crate) fn now_ms() -> i64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    elapsed.as_millis() as i64
}

/// Bytes that do not compress and look the same in every run.
fn noise(record: usize, at: usize) -> u8 {
    let mixed = (record as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        ^ (at as u64).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed ^ (mixed >> 29)).wrapping_mul(0x94d0_49bb_1331_11eb).to_be_bytes()[0]
}

/// Makes an idempotent producer's batch one of a transaction, under this epoch; it is to be given its sequence.
pub(crate) fn set_transactional(batch: &mut [u8], epoch: i16) {
    batch[ATTRIBUTES_AT..ATTRIBUTES_AT + 2].copy_from_slice(&TRANSACTIONAL.to_be_bytes());
    batch[EPOCH_AT..EPOCH_AT + 2].copy_from_slice(&epoch.to_be_bytes());
}

/// Gives an idempotent producer's batch its sequence.
pub(crate) fn set_sequence(batch: &mut [u8], sequence: i32) {
    batch[SEQUENCE_AT..SEQUENCE_AT + 4].copy_from_slice(&sequence.to_be_bytes());
    seal(batch);
}

fn seal(batch: &mut [u8]) {
    let crc = crc32c::crc32c(&batch[CRC_FROM..]);
    batch[CRC_AT..CRC_FROM].copy_from_slice(&crc.to_be_bytes());
}

/// Checks the batches at the start of `bytes`, a cut one at the end aside, and counts them.
///
/// `None` when a CRC is wrong or the bytes are no batches.
pub(crate) fn check(mut bytes: &[u8]) -> Option<usize> {
    let mut count = 0;
    while bytes.len() >= HEADER_BYTES {
        let length = usize::try_from(i32::from_be_bytes(bytes[8..12].try_into().ok()?)).ok()?;
        let Some((batch, rest)) = bytes.split_at_checked(length + LENGTH_FROM) else { break };
        let crc = u32::from_be_bytes(batch.get(CRC_AT..CRC_FROM)?.try_into().ok()?);
        if crc != crc32c::crc32c(&batch[CRC_FROM..]) {
            return None;
        }
        count += 1;
        bytes = rest;
    }
    Some(count)
}

fn varint(out: &mut Vec<u8>, number: i64) {
    let mut left = ((number << 1) ^ (number >> 63)) as u64;
    while left >= 0x80 {
        out.push(left as u8 | 0x80);
        left >>= 7;
    }
    out.push(left as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_sound_and_damage_is_seen() {
        let one = build(3, 100, NO_PRODUCER);
        let mut two = [&one[..], &one[..], &one[..50]].concat();
        assert_eq!(check(&two), Some(2));
        two[one.len() + 80] ^= 1;
        assert_eq!(check(&two), None);
    }

    #[test]
    fn text_compresses_as_text_does_and_is_what_was_put_in() {
        for codec in
            [CompressionCodec::Gzip, CompressionCodec::Zstd, CompressionCodec::Lz4, CompressionCodec::Snappy]
        {
            let plain = build_compressed(64, 1 << 10, CompressionCodec::None).unwrap();
            let small = build_compressed(64, 1 << 10, codec).unwrap();
            let share = small.len() as f64 / plain.len() as f64;
            assert!((0.2..0.6).contains(&share), "{codec:?} {share}");
            let values = |batch: &[u8]| -> Vec<_> {
                let records = kaas_core::record::read_batch(batch).unwrap().unwrap().records;
                records.into_iter().map(|record| record.value).collect()
            };
            assert!(values(&small) == values(&plain), "{codec:?}");
        }
    }

    #[test]
    fn a_new_sequence_has_a_new_crc() {
        let mut batch = build(1, 10, 7).to_vec();
        let before = batch.clone();
        set_sequence(&mut batch, 5);
        assert_ne!(batch, before);
        assert_eq!(check(&batch), Some(1));
    }
}
