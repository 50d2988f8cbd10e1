//! The LZ4 frames of magic 0, whose header checksum Kafka computed over too many bytes (KAFKA-3160).
//!
//! The frame format wants a checksum of the descriptor; Kafka's first clients began at the frame's magic number. Readers of
//! magic 0 therefore ignore it, and writers write what those clients expect.

use std::borrow::Cow;

const FRAME_MAGIC: [u8; 4] = 0x184D_2204u32.to_le_bytes();
const CONTENT_SIZE_FLAG: u8 = 0x08;
const DICTIONARY_ID_FLAG: u8 = 0x01;

/// A frame with the checksum that the format wants, whatever it had.
pub(super) fn repaired(frame: &[u8]) -> Cow<'_, [u8]> {
    match checksum_at(frame) {
        Some(at) => {
            let mut frame = frame.to_vec();
            frame[at] = header_checksum(&frame[FRAME_MAGIC.len()..at]);
            Cow::Owned(frame)
        }
        None => Cow::Borrowed(frame),
    }
}

/// Gives a frame the checksum that clients of magic 0 expect.
pub(super) fn spoil(frame: &mut [u8]) {
    if let Some(at) = checksum_at(frame) {
        frame[at] = header_checksum(&frame[..at]);
    }
}

/// Where the checksum of the header is; `None` when these bytes do not begin a frame.
fn checksum_at(frame: &[u8]) -> Option<usize> {
    let descriptor = frame.strip_prefix(&FRAME_MAGIC)?;
    let flags = *descriptor.first()?;
    let content_size = if flags & CONTENT_SIZE_FLAG != 0 { 8 } else { 0 };
    let dictionary_id = if flags & DICTIONARY_ID_FLAG != 0 { 4 } else { 0 };
    let at = FRAME_MAGIC.len() + 2 + content_size + dictionary_id;
    (at < frame.len()).then_some(at)
}

/// The second byte of the xxHash-32 with seed 0.
fn header_checksum(bytes: &[u8]) -> u8 {
    (xxh32(bytes) >> 8) as u8
}

/// xxHash-32 with seed 0 of at most 31 bytes: a frame's header never has more than 19.
fn xxh32(bytes: &[u8]) -> u32 {
    const PRIMES: [u32; 5] = [0x9E37_79B1, 0x85EB_CA77, 0xC2B2_AE3D, 0x27D4_EB2F, 0x1656_67B1];
    let word = |bytes: &[u8]| bytes.iter().rev().fold(0u32, |word, byte| word << 8 | u32::from(*byte));
    let (stripe, rest) = bytes.split_at(bytes.len() / 16 * 16);
    let mut hash = PRIMES[4];
    if !stripe.is_empty() {
        let seeds = [PRIMES[0].wrapping_add(PRIMES[1]), PRIMES[1], 0, 0u32.wrapping_sub(PRIMES[0])];
        let lanes = stripe.chunks(4).zip(seeds).map(|(lane, seed)| {
            seed.wrapping_add(word(lane).wrapping_mul(PRIMES[1])).rotate_left(13).wrapping_mul(PRIMES[0])
        });
        hash =
            lanes.zip([1, 7, 12, 18]).fold(0, |sum, (lane, turn)| sum.wrapping_add(lane.rotate_left(turn)));
    }
    hash = hash.wrapping_add(bytes.len() as u32);
    let mut words = rest.chunks_exact(4);
    for lane in &mut words {
        hash = hash.wrapping_add(word(lane).wrapping_mul(PRIMES[2])).rotate_left(17).wrapping_mul(PRIMES[3]);
    }
    for byte in words.remainder() {
        hash = hash
            .wrapping_add(u32::from(*byte).wrapping_mul(PRIMES[4]))
            .rotate_left(11)
            .wrapping_mul(PRIMES[0]);
    }
    hash = (hash ^ hash >> 15).wrapping_mul(PRIMES[1]);
    hash = (hash ^ hash >> 13).wrapping_mul(PRIMES[2]);
    hash ^ hash >> 16
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use lz4_flex::frame::{FrameEncoder, FrameInfo};

    use super::*;

    fn frame(info: FrameInfo) -> Vec<u8> {
        let mut encoder = FrameEncoder::with_frame_info(info, Vec::new());
        encoder.write_all(b"abc").unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn the_checksum_is_the_format_s() {
        // Known answers of xxHash-32.
        assert_eq!(xxh32(b""), 0x02CC_5D05);
        assert_eq!(xxh32(b"abc"), 0x32D1_53FF);
        for info in [FrameInfo::new(), FrameInfo::new().content_size(Some(3))] {
            let right = frame(info);
            let mut wrong = right.clone();
            spoil(&mut wrong);
            assert_ne!(wrong, right);
            assert_eq!(&*repaired(&wrong), &right[..]);
            assert_eq!(&*repaired(&right), &right[..]);
        }
    }

    #[test]
    fn bytes_that_are_no_frame_stay_as_they_are() {
        let right = frame(FrameInfo::new());
        for cut in 0..7.min(right.len()) {
            if cut < 7 {
                assert!(matches!(repaired(&right[..cut]), Cow::Borrowed(_)), "{cut}");
            }
        }
        assert_eq!(&*repaired(b"something else"), b"something else");
    }
}
