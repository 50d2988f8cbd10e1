use std::io::Write as _;

use bytes::Bytes;
use proptest::prelude::*;

use super::lz4;
use super::message::{LOG_APPEND_TIME_BIT, Message};
use super::wrapper::for_each_inner;
use super::{DownConversion, DownConvertError, OldMagic, down_convert};
use crate::Slice;
use crate::config::{Compression, LogConfig, TimestampType};
use crate::error::AppendError;
use crate::record::compress::Encoder;
use crate::record::{
    BatchHeader, CompressionCodec, Record, RecordBatchBuilder, ValidBatch, WholeBatch, read_batch,
    validate_any,
};

const NOW_MS: i64 = 1_700_000_000_000;
const OLD_CODECS: [CompressionCodec; 4] =
    [CompressionCodec::None, CompressionCodec::Gzip, CompressionCodec::Snappy, CompressionCodec::Lz4];
const MAGICS: [OldMagic; 2] = [OldMagic::V0, OldMagic::V1];

fn plain(magic: u8, offset: i64, timestamp: i64) -> Message<'static> {
    Message { offset, magic, attributes: 0, timestamp, key: Some(b"key"), value: Some(b"value") }
}

fn set(messages: &[Message<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    messages.iter().for_each(|message| message.write(&mut out));
    out
}

fn wrapped(magic: u8, codec: CompressionCodec, offset: i64, inner: &[u8]) -> Vec<u8> {
    let mut encoder = Encoder::new(codec, 1 << 30).unwrap();
    encoder.write_all(inner).unwrap();
    let mut value = encoder.finish().unwrap();
    if codec == CompressionCodec::Lz4 && magic == 0 {
        lz4::spoil(&mut value);
    }
    let attributes = codec.bits() as u8;
    set(&[Message { offset, magic, attributes, timestamp: NOW_MS, key: None, value: Some(&value) }])
}

fn whole(batch: &ValidBatch) -> WholeBatch {
    let mut bytes = batch.head_bytes.to_vec();
    bytes.extend_from_slice(&batch.body);
    let whole = read_batch(&bytes).unwrap().unwrap();
    assert_eq!(whole.header, batch.header);
    whole
}

fn up(set: impl Into<Bytes>) -> Result<WholeBatch, AppendError> {
    up_with(set, &LogConfig::default())
}

fn up_with(set: impl Into<Bytes>, config: &LogConfig) -> Result<WholeBatch, AppendError> {
    validate_any(&set.into(), config, NOW_MS).map(|batch| whole(&batch))
}

fn down(batches: &[u8], magic: OldMagic) -> Result<Vec<u8>, DownConvertError> {
    let slice = Slice::Bytes(Bytes::copy_from_slice(batches));
    down_convert(
        &slice,
        &DownConversion { magic, from_offset: 0, bytes_max: usize::MAX, message_bytes_max: 0 },
    )
}

/// A batch as it would be stored: with an offset and in a codec.
fn stored(builder: RecordBatchBuilder, base_offset: i64, codec: CompressionCodec) -> Vec<u8> {
    let mut encoder = Encoder::new(codec, 1 << 30).unwrap();
    encoder.write_all(builder.payload()).unwrap();
    let payload = encoder.finish().unwrap();
    let batch = builder.attributes(codec.bits()).build_with(&payload);
    let mut batch = batch.to_vec();
    batch[..8].copy_from_slice(&base_offset.to_be_bytes());
    batch
}

#[test]
fn a_message_has_the_bytes_that_kafka_gives_it() {
    // offset 5; size 22; CRC-32 of the rest; magic 0; no codec; key "k"; value null.
    let message = Message { offset: 5, magic: 0, attributes: 0, timestamp: -1, key: Some(b"k"), value: None };
    let bytes = set(&[message]);
    assert_eq!(bytes[..12], [0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 15]);
    assert_eq!(bytes[16..], [0, 0, 0, 0, 0, 1, b'k', 255, 255, 255, 255]);
    let mut crc = flate2::Crc::new();
    crc.update(&bytes[16..]);
    assert_eq!(bytes[12..16], crc.sum().to_be_bytes());
    assert_eq!(set(&[plain(1, 0, 258)])[16..26], [1, 0, 0, 0, 0, 0, 0, 0, 1, 2]);
}

#[test]
fn messages_become_one_batch_in_their_order() {
    for magic in [0, 1] {
        let bytes = set(&[plain(magic, 7, 20), plain(magic, 7, 10), plain(magic, 0, 30)]);
        let batch = up(bytes).unwrap();
        let header = batch.header;
        assert_eq!((header.record_count, header.last_offset_delta, header.attributes), (3, 2, 0));
        assert_eq!((header.producer_id, header.producer_epoch, header.base_sequence), (-1, -1, -1));
        let times = if magic == 0 { [-1, -1, -1] } else { [20, 10, 30] };
        assert_eq!(batch.records.iter().map(|r| r.timestamp).collect::<Vec<_>>(), times);
        assert_eq!((header.base_timestamp, header.max_timestamp), (times[0], times[2]));
        assert_eq!(batch.records[2].key.as_deref(), Some(&b"key"[..]));
    }
}

#[test]
fn a_compressed_set_keeps_its_codec_or_takes_the_topic_s() {
    for magic in [0, 1] {
        for codec in &OLD_CODECS[1..] {
            let inner = set(&[plain(magic, 0, 10), plain(magic, 1, 20)]);
            let bytes = wrapped(magic, *codec, 1, &inner);
            let batch = up(bytes.clone()).unwrap();
            assert_eq!((batch.header.codec(), batch.records.len()), (*codec, 2));
            let config = LogConfig { compression: Compression::Zstd, ..LogConfig::default() };
            let batch = up_with(bytes, &config).unwrap();
            assert_eq!((batch.header.codec(), batch.records.len()), (CompressionCodec::Zstd, 2));
        }
    }
}

#[test]
fn the_broker_s_time_is_stamped_and_a_producer_s_claim_of_it_refused() {
    let topic = LogConfig { timestamp_type: TimestampType::LogAppendTime, ..LogConfig::default() };
    let header = up_with(set(&[plain(1, 0, 5)]), &topic).unwrap().header;
    assert!(header.is_log_append_time());
    assert_eq!((header.base_timestamp, header.max_timestamp), (5, NOW_MS));
    let claimed = Message { attributes: LOG_APPEND_TIME_BIT, ..plain(1, 0, 5) };
    assert!(matches!(up_with(set(&[claimed]), &topic), Err(AppendError::InvalidTimestamp(_))));
    // Only checked where the time is not, as in Kafka.
    assert!(up(set(&[claimed])).is_ok());
    let none = Message { timestamp: -1, ..claimed };
    assert!(matches!(up(set(&[none])), Err(AppendError::InvalidTimestamp(_))));
    assert!(matches!(up(set(&[plain(1, 0, -7)])), Err(AppendError::InvalidTimestamp(_))));
}

#[test]
fn what_old_producers_get_wrong_is_refused_in_kafka_s_terms() {
    let one = set(&[plain(1, 0, 5)]);
    let mut bad_crc = one.clone();
    *bad_crc.last_mut().unwrap() ^= 1;
    assert!(matches!(up(bad_crc.clone()), Err(AppendError::CorruptBatch(_))));
    let gzip = |magic, inner: &[u8]| wrapped(magic, CompressionCodec::Gzip, 0, inner);
    assert!(matches!(up(gzip(1, &bad_crc)), Err(AppendError::CorruptBatch(_))));
    let invalid = [
        gzip(1, &gzip(1, &one)),
        gzip(0, &one),
        gzip(1, &[]),
        gzip(1, &one[..one.len() - 1]),
        [gzip(1, &one), one.clone()].concat(),
        [one.clone(), set(&[plain(0, 0, 0)])].concat(),
        [one.clone(), RecordBatchBuilder::new().push(None, None, 5).build().to_vec()].concat(),
        wrapped(1, CompressionCodec::Zstd, 0, &one),
        wrapped(1, CompressionCodec::Gzip, 3, &set(&[plain(1, 4, 5)])),
        set(&[Message { attributes: 1, value: None, ..plain(1, 0, 5) }]),
        set(&[Message { attributes: 1, value: Some(b"not gzip"), ..plain(1, 0, 5) }]),
    ];
    for (at, bytes) in invalid.into_iter().enumerate() {
        assert!(matches!(up(bytes), Err(AppendError::InvalidRecord(_))), "{at}");
    }
    let unknown = set(&[Message { attributes: 6, ..plain(1, 0, 5) }]);
    assert!(matches!(up(unknown), Err(AppendError::UnsupportedCompression { codec: 6 })));
    let compact = LogConfig { compact: true, ..LogConfig::default() };
    let no_key = set(&[Message { key: None, ..plain(1, 0, 5) }]);
    assert!(matches!(up_with(no_key, &compact), Err(AppendError::InvalidRecord(_))));
}

#[test]
fn both_limits_count_and_a_cut_message_at_the_end_does_not() {
    let one = set(&[plain(1, 0, 5)]);
    let many: Vec<u8> = std::iter::repeat_n(&one, 100).flatten().copied().collect();
    let limit = |message_bytes_max| LogConfig { message_bytes_max, ..LogConfig::default() };
    let size = one.len() as u32;
    assert!(matches!(up_with(many.clone(), &limit(size - 1)), Err(AppendError::MessageTooLarge(_))));
    assert!(matches!(up_with(many.clone(), &limit(size * 5)), Err(AppendError::MessageTooLarge(_))));
    assert_eq!(up_with(many.clone(), &limit(size * 100)).unwrap().records.len(), 100);
    let segment = LogConfig { segment_bytes: size * 5, ..LogConfig::default() };
    assert!(matches!(up_with(many.clone(), &segment), Err(AppendError::RecordListTooLarge(_))));
    assert_eq!(up(many[..many.len() - 1].to_vec()).unwrap().records.len(), 99);
}

#[test]
fn the_wrapper_s_time_counts_when_it_is_the_broker_s() {
    let mut value = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    value.write_all(&set(&[plain(1, 0, 5), plain(1, 1, 6)])).unwrap();
    let value = value.finish().unwrap();
    let attributes = 1 | LOG_APPEND_TIME_BIT;
    let bytes =
        set(&[Message { offset: 1, magic: 1, attributes, timestamp: 99, key: None, value: Some(&value) }]);
    let times: Vec<i64> = up(bytes).unwrap().records.iter().map(|record| record.timestamp).collect();
    assert_eq!(times, [99, 99]);
}

#[test]
fn headers_and_control_batches_are_left_out_and_zstd_is_refused() {
    let with_headers = RecordBatchBuilder::new().push_with_headers(None, Some(b"v"), 5, &[(b"h", None)]);
    let data = stored(with_headers.clone(), 3, CompressionCodec::None);
    let control = with_headers.clone().attributes(0x20).build().to_vec();
    let zstd = stored(with_headers, 9, CompressionCodec::Zstd);
    let expected =
        set(&[Message { offset: 3, magic: 1, attributes: 0, timestamp: 5, key: None, value: Some(b"v") }]);
    assert_eq!(down(&[control.clone(), data.clone()].concat(), OldMagic::V1).unwrap(), expected);
    // Only what cannot be converted: the reader is told that there is something.
    assert_eq!(down(&control, OldMagic::V1).unwrap(), [vec![255; 8], vec![0, 0, 0, 61]].concat());
    assert_eq!(down(&data[..data.len() - 1], OldMagic::V1).unwrap(), Vec::<u8>::new());
    assert!(matches!(down(&zstd, OldMagic::V0), Err(DownConvertError::Zstd)));
    assert_eq!(down(&[data.clone(), zstd].concat(), OldMagic::V1).unwrap(), expected);
    let mut damaged = data.clone();
    *damaged.last_mut().unwrap() ^= 1;
    assert!(matches!(down(&damaged, OldMagic::V1), Err(DownConvertError::Damaged(_))));
    assert_eq!(down(&[data, damaged].concat(), OldMagic::V1).unwrap(), expected);
}

#[test]
fn offsets_inside_a_wrapper_are_absolute_in_magic_0_and_relative_in_magic_1() {
    let two = RecordBatchBuilder::new().push(None, Some(b"a"), 5).push(None, Some(b"b"), 6);
    for codec in &OLD_CODECS[1..] {
        let batch = stored(two.clone(), 40, *codec);
        for (magic, expected) in [(OldMagic::V0, [40, 41]), (OldMagic::V1, [0, 1])] {
            let converted = down(&batch, magic).unwrap();
            let wrapper = Message::parse(41, &converted[12..]).unwrap();
            let mut offsets = Vec::new();
            for_each_inner(&wrapper, 0, |message, right_crc| {
                assert!(right_crc);
                offsets.push(message.offset);
                Ok(())
            })
            .unwrap();
            assert_eq!(offsets, expected, "{codec:?}");
            assert_eq!(wrapper.timestamp, if magic == OldMagic::V0 { -1 } else { 6 });
        }
    }
}

#[test]
fn the_lz4_header_is_the_one_that_clients_of_each_magic_expect() {
    let batch = stored(RecordBatchBuilder::new().push(None, Some(b"a"), 5), 0, CompressionCodec::Lz4);
    // Independent blocks of 64 KiB; then what Kafka 3.7.2 writes, and what the frame format wants.
    for (magic, checksum) in [(OldMagic::V0, 0x1a), (OldMagic::V1, 0x82)] {
        let converted = down(&batch, magic).unwrap();
        let wrapper = Message::parse(0, &converted[12..]).unwrap();
        assert_eq!(wrapper.value.unwrap()[..7], [4, 0x22, 0x4d, 0x18, 0x60, 0x40, checksum]);
    }
}

#[test]
fn the_result_is_cut_at_the_limit_but_the_first_batch_is_whole() {
    let one = |offset| {
        stored(RecordBatchBuilder::new().push(None, Some(b"0123456789"), 5), offset, CompressionCodec::None)
    };
    let slice = Slice::Bytes([one(0), one(1), one(2)].concat().into());
    let convert = |from_offset, bytes_max| {
        down_convert(
            &slice,
            &DownConversion { magic: OldMagic::V1, from_offset, bytes_max, message_bytes_max: 0 },
        )
        .unwrap()
    };
    let message = 12 + 22 + 10;
    assert_eq!(convert(0, usize::MAX).len(), 3 * message);
    assert_eq!(convert(0, 1).len(), message);
    assert_eq!(convert(0, message + 5).len(), message + 5);
    assert_eq!(convert(1, usize::MAX).len(), 2 * message);
}

fn record() -> impl Strategy<Value = (Option<Vec<u8>>, Option<Vec<u8>>, i64)> {
    let bytes = || proptest::option::of(proptest::collection::vec(any::<u8>(), 0..40));
    (bytes(), bytes(), -1i64..=i64::MAX)
}

proptest! {
    #[test]
    fn down_and_up_again_keeps_key_value_and_time(
        records in proptest::collection::vec(record(), 1..20),
        base_offset in 0i64..1 << 60,
        codec in proptest::sample::select(&OLD_CODECS[..]),
        magic in proptest::sample::select(&MAGICS[..]),
    ) {
        let build = |builder: RecordBatchBuilder, (key, value, time): &(Option<Vec<u8>>, Option<Vec<u8>>, i64)| {
            builder.push(key.as_deref(), value.as_deref(), *time)
        };
        let batch = stored(records.iter().fold(RecordBatchBuilder::new(), build), base_offset, codec);
        let converted = down(&batch, magic).unwrap();
        // The last message, or the wrapper, has the last offset.
        let last = base_offset + records.len() as i64 - 1;
        prop_assert_eq!(last_offset(&converted), last);
        let again = up(converted).unwrap();
        prop_assert_eq!(again.header.codec(), codec);
        let found: Vec<_> = again.records.into_iter().map(|Record { key, value, timestamp, .. }| (key, value, timestamp)).collect();
        let expected: Vec<_> = records.into_iter()
            .map(|(key, value, time)| (key, value, if magic == OldMagic::V0 { -1 } else { time }))
            .collect();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn hostile_bytes_are_typed_errors(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        magic in 0u8..3,
        length in any::<i32>(),
    ) {
        let mut bytes = bytes;
        if bytes.len() > 17 {
            bytes[16] = magic;
            bytes[8..12].copy_from_slice(&length.to_be_bytes());
        }
        let _ = up(bytes.clone());
        let _ = down(&bytes, OldMagic::V0);
    }
}

fn last_offset(mut set: &[u8]) -> i64 {
    let mut last = -1;
    while let Some((head, rest)) = set.split_first_chunk::<12>() {
        last = i64::from_be_bytes(head[..8].try_into().unwrap());
        set = &rest[i32::from_be_bytes(head[8..].try_into().unwrap()) as usize..];
    }
    last
}

/// Makes the checksum of the first message right again.
fn sealed(mut set: Vec<u8>) -> Vec<u8> {
    let size = i32::from_be_bytes(set[8..12].try_into().unwrap());
    let end = (12 + size.max(0) as usize).clamp(16, set.len());
    let mut crc = flate2::Crc::new();
    crc.update(&set[16..end]);
    set[12..16].copy_from_slice(&crc.sum().to_be_bytes());
    set
}

#[test]
fn every_cut_and_every_flip_is_survived() {
    for magic in [0, 1] {
        for codec in OLD_CODECS {
            let inner = set(&[plain(magic, 0, 5), plain(magic, 1, 6)]);
            let bytes = match codec {
                CompressionCodec::None => set(&[plain(magic, 0, 5)]),
                codec => wrapped(magic, codec, 1, &inner),
            };
            for cut in 0..bytes.len() {
                let _ = up(bytes[..cut].to_vec());
            }
            for bit in 0..bytes.len() * 8 {
                let mut flipped = bytes.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                // The offset is not covered by the checksum; everything behind the size is.
                if bit >= 12 * 8 {
                    assert!(up(flipped.clone()).is_err(), "magic {magic} {codec:?} bit {bit}");
                }
                let _ = up(sealed(flipped));
            }
        }
    }
}

#[test]
fn sizes_that_lie_take_no_memory() {
    // A message inside claims 2 GiB, or 10 MiB; what it has is a few bytes.
    let mut inner = set(&[plain(1, 0, 5)]);
    inner[8..12].copy_from_slice(&i32::MAX.to_be_bytes());
    let result = up(wrapped(1, CompressionCodec::Gzip, 0, &inner));
    assert!(matches!(result, Err(AppendError::MessageTooLarge(_))));
    inner[8..12].copy_from_slice(&(10i32 << 20).to_be_bytes());
    let result = up(wrapped(1, CompressionCodec::Gzip, 0, &inner));
    assert!(matches!(result, Err(AppendError::InvalidRecord(_))));
    // 80 MiB of zeros in a few kilobytes: not one message of it is taken.
    let bomb = vec![0; 80 << 20];
    let result = up(wrapped(1, CompressionCodec::Gzip, 0, &bomb));
    assert!(matches!(result, Err(AppendError::CorruptBatch(_))));
    // 17 MiB in one message, up and down: more than is held, unless the topic takes messages of that size.
    let large = set(&[Message { value: Some(&bomb[..17 << 20]), ..plain(1, 0, 5) }]);
    let large = wrapped(1, CompressionCodec::Gzip, 0, &large);
    assert!(matches!(up(large.clone()), Err(AppendError::MessageTooLarge(_))));
    let wide = LogConfig { message_bytes_max: 18 << 20, ..LogConfig::default() };
    assert_eq!(up_with(large, &wide).unwrap().records[0].value.as_ref().unwrap().len(), 17 << 20);
    let large = RecordBatchBuilder::new().push(None, Some(&bomb[..17 << 20]), 5);
    let large = stored(large, 0, CompressionCodec::Gzip);
    assert!(matches!(down(&large, OldMagic::V1), Err(DownConvertError::RecordTooLarge(_))));
}

#[test]
fn a_batch_header_is_written_as_it_is_read() {
    let batch =
        RecordBatchBuilder::new().push(None, Some(b"v"), 5).producer(7, 1, 3).attributes(0x18).build();
    let header = BatchHeader::parse(&batch).unwrap();
    assert_eq!(header.to_bytes()[..], batch[..61]);
    assert_eq!(header.sealed(&batch[61..]), header);
}
