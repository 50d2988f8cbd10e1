//! Which batches are accepted, and what is said about the others.
#![allow(clippy::unwrap_used)]

use std::io::Write as _;
use std::sync::Arc;

use bytes::Bytes;
use kaas_core::record::read_batch;
use kaas_core::volume::MemVolume;
use kaas_core::{
    AppendError, AppendOptions, Appended, Compression, Engine, EngineOptions, Isolation, LogConfig,
    ManualClock, Partition, PendingAppend, Read, ReadSpec, RecordBatchBuilder, TimestampType, TopicSpec,
};

const NOW_MS: i64 = 1_700_000_000_000;

const GZIP: i16 = 1;
const SNAPPY: i16 = 2;
const LZ4: i16 = 3;
const ZSTD: i16 = 4;
const LOG_APPEND_TIME: i16 = 8;
const TRANSACTIONAL: i16 = 0x10;
const CONTROL: i16 = 0x20;

struct Bench {
    _engine: Engine,
    partition: Arc<Partition>,
}

impl Bench {
    fn new(config: LogConfig) -> Self {
        let options = EngineOptions::on(Arc::new(MemVolume::new()))
            .clock(Arc::new(ManualClock::at(NOW_MS)))
            .resolve(move |_| config.clone());
        let engine = Engine::open(options).unwrap();
        let partition = Arc::clone(&engine.create_topic(TopicSpec::new("t", 1)).unwrap().partitions[0]);
        Self { _engine: engine, partition }
    }

    fn append(&self, batch: impl Into<Bytes>) -> Result<Appended, AppendError> {
        self.partition.append(batch.into(), AppendOptions::default()).and_then(PendingAppend::wait)
    }

    fn stored(&self, offset: i64) -> Bytes {
        let spec = ReadSpec {
            offset,
            bytes_max: 1,
            at_least_one_batch: true,
            isolation: Isolation::ReadUncommitted,
            blocking: true,
        };
        let Read::Data(data) = self.partition.read(spec).unwrap() else { panic!() };
        data.slice.to_bytes().unwrap()
    }
}

fn plain() -> Bench {
    Bench::new(LogConfig::default())
}

fn three() -> RecordBatchBuilder {
    RecordBatchBuilder::new()
        .push(Some(b"k0"), Some(b"v0"), NOW_MS)
        .push_with_headers(None, Some(b""), NOW_MS + 7, &[(b"h", Some(b"x")), (b"null", None)])
        .push(Some(b"k2"), None, NOW_MS - 3)
}

/// A batch changed in place, with its checksum made right again.
fn patched(batch: &[u8], at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut batch = batch.to_vec();
    batch[at..at + bytes.len()].copy_from_slice(bytes);
    let crc = crc32c::crc32c(&batch[21..]);
    batch[17..21].copy_from_slice(&crc.to_be_bytes());
    batch
}

fn compressed(codec: i16, payload: &[u8]) -> Vec<u8> {
    match codec {
        GZIP => {
            let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
            gzip.write_all(payload).unwrap();
            gzip.finish().unwrap()
        }
        SNAPPY => snap::raw::Encoder::new().compress_vec(payload).unwrap(),
        LZ4 => {
            let mut lz4 = lz4_flex::frame::FrameEncoder::new(Vec::new());
            lz4.write_all(payload).unwrap();
            lz4.finish().unwrap()
        }
        ZSTD => zstd::stream::encode_all(payload, 3).unwrap(),
        _ => payload.to_vec(),
    }
}

/// Snappy as the Java client frames it: a header, then blocks with their lengths.
fn xerial(payload: &[u8], block_bytes: usize) -> Vec<u8> {
    let mut framed = b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01".to_vec();
    for block in payload.chunks(block_bytes) {
        let block = compressed(SNAPPY, block);
        framed.extend_from_slice(&(block.len() as i32).to_be_bytes());
        framed.extend_from_slice(&block);
    }
    framed
}

fn with_codec(builder: RecordBatchBuilder, codec: i16) -> Bytes {
    let payload = compressed(codec, builder.payload());
    builder.attributes(codec).build_with(&payload)
}

fn is_invalid(result: Result<Appended, AppendError>) -> bool {
    matches!(result, Err(AppendError::InvalidRecord(_)))
}

#[test]
fn a_batch_is_stored_byte_for_byte_but_for_offset_and_epoch() {
    let bench = plain();
    bench.append(three().build()).unwrap();
    for codec in [0, GZIP, SNAPPY, LZ4, ZSTD] {
        let sent = with_codec(three(), codec);
        let Appended { base_offset, last_offset, log_append_time_ms, .. } =
            bench.append(sent.clone()).unwrap();
        assert_eq!((last_offset - base_offset, log_append_time_ms), (2, -1));
        let stored = bench.stored(base_offset);
        assert_eq!(stored[..8], base_offset.to_be_bytes(), "codec {codec}");
        assert_eq!(stored[8..12], sent[8..12]);
        assert_eq!(stored[12..16], 1i32.to_be_bytes());
        assert_eq!(stored[16..], sent[16..], "codec {codec}");
        let records = read_batch(&stored).unwrap().unwrap().records;
        assert_eq!(records[1].headers, [(b"h".to_vec(), Some(b"x".to_vec())), (b"null".to_vec(), None)]);
        assert_eq!((records[2].value.as_deref(), records[1].value.as_deref()), (None, Some(&b""[..])));
        assert_eq!((records[2].timestamp, records[2].offset), (NOW_MS - 3, last_offset));
    }
}

#[test]
fn snappy_comes_raw_and_in_xerials_frame() {
    let bench = plain();
    let mut builder = RecordBatchBuilder::new();
    for n in 0..500 {
        builder = builder.push(None, Some(format!("value {n}").as_bytes()), NOW_MS);
    }
    let payload = builder.payload().to_vec();
    for block_bytes in [64, 1000, 32 << 10] {
        let framed = xerial(&payload, block_bytes);
        let batch = builder.clone().attributes(SNAPPY).build_with(&framed);
        let appended = bench.append(batch).unwrap();
        let records = read_batch(&bench.stored(appended.base_offset)).unwrap().unwrap().records;
        assert_eq!(records[499].value.as_deref(), Some(&b"value 499"[..]));
    }
    let mut cut = xerial(&payload, 1000);
    cut.truncate(cut.len() - 1);
    assert!(is_invalid(bench.append(builder.attributes(SNAPPY).build_with(&cut))));
}

#[test]
fn there_must_be_exactly_one_batch_and_a_cut_tail_is_dropped() {
    let bench = plain();
    let batch = three().build();
    let two = [&batch[..], &batch[..]].concat();
    assert!(is_invalid(bench.append(two)));
    assert!(is_invalid(bench.append(Bytes::new())));
    for cut in [5, 16, 40, batch.len() - 1] {
        assert!(is_invalid(bench.append(batch.slice(..cut))), "{cut} bytes");
    }
    let tail = [&batch[..], &batch[..batch.len() - 1]].concat();
    bench.append(tail).unwrap();
    assert_eq!(bench.stored(0).len(), batch.len());
}

#[test]
fn framing_and_checksums_are_checked() {
    let bench = plain();
    let batch = three().build();
    for at in 17..batch.len() {
        let mut bad = batch.to_vec();
        bad[at] ^= 1;
        assert!(matches!(bench.append(bad), Err(AppendError::CorruptBatch(_))), "byte {at}");
    }
    for length in [-1i32, 0, 13, 40] {
        let mut bad = batch.to_vec();
        bad[8..12].copy_from_slice(&length.to_be_bytes());
        assert!(matches!(bench.append(bad), Err(AppendError::CorruptBatch(_))), "length {length}");
    }
    for magic in [0u8, 1] {
        let bad = patched(&batch, 16, &[magic]);
        assert!(matches!(bench.append(bad), Err(AppendError::UnsupportedMagic { .. })), "magic {magic}");
    }
    for magic in [3u8, 0xff] {
        assert!(matches!(bench.append(patched(&batch, 16, &[magic])), Err(AppendError::CorruptBatch(_))));
    }
    assert_eq!(bench.partition.offsets().log_end, 0);
}

#[test]
fn header_and_records_must_agree() {
    let bench = plain();
    let batch = three().build();
    let cases: [(&str, usize, Vec<u8>); 9] = [
        ("base offset", 0, 1i64.to_be_bytes().to_vec()),
        ("last offset delta", 23, 3i32.to_be_bytes().to_vec()),
        ("negative range", 23, (-1i32).to_be_bytes().to_vec()),
        ("extreme range", 23, i32::MAX.to_be_bytes().to_vec()),
        ("count", 57, 2i32.to_be_bytes().to_vec()),
        ("count 0", 57, 0i32.to_be_bytes().to_vec()),
        ("negative count", 57, (-1i32).to_be_bytes().to_vec()),
        ("control", 21, CONTROL.to_be_bytes().to_vec()),
        ("sequence", 43, 5i64.to_be_bytes().to_vec()),
    ];
    for (what, at, bytes) in cases {
        assert!(is_invalid(bench.append(patched(&batch, at, &bytes))), "{what}");
    }
    for (delta, count) in [(1i32, 2i32), (3, 4)] {
        let bad = patched(&patched(&batch, 23, &delta.to_be_bytes()), 57, &count.to_be_bytes());
        assert!(is_invalid(bench.append(bad)), "{count} records declared");
    }
    let transactional = three().attributes(TRANSACTIONAL).producer(1, 0, 0).build();
    assert!(matches!(bench.append(transactional), Err(AppendError::InvalidTransactionState)));
    for codec in 5..8 {
        let unknown = three().attributes(codec).build();
        assert!(matches!(bench.append(unknown), Err(AppendError::UnsupportedCompression { .. })));
    }
    assert_eq!(bench.partition.offsets().log_end, 0);
}

#[test]
fn inner_offsets_follow_in_every_codec() {
    for codec in [0, GZIP, SNAPPY, LZ4, ZSTD] {
        let bench = plain();
        // length 7, attributes, timestamp delta, offset delta, null key, one-byte value, no headers
        let record = |delta: u8| [14, 0, 0, delta * 2, 1, 2, b'v', 0];
        for (deltas, good) in [([0, 1], true), ([0, 2], false), ([1, 0], false), ([0, 0], false)] {
            let payload = [record(deltas[0]), record(deltas[1])].concat();
            let two = RecordBatchBuilder::new().push(None, None, 0).push(None, None, 0);
            let batch = two.attributes(codec).build_with(&compressed(codec, &payload));
            assert_eq!(bench.append(batch).is_ok(), good, "codec {codec}, {deltas:?}");
        }
    }
}

#[test]
fn damaged_records_are_refused_in_every_codec_without_a_panic() {
    for codec in [0, GZIP, SNAPPY, LZ4, ZSTD] {
        let bench = plain();
        let good = three();
        let payload = compressed(codec, good.payload());
        for cut in 0..payload.len() {
            let batch = good.clone().attributes(codec).build_with(&payload[..cut]);
            // A frame without its trailing checksum may still hold all records; it must never hold fewer.
            if let Ok(appended) = bench.append(batch) {
                assert_eq!(appended.last_offset - appended.base_offset, 2);
            }
        }
        let end = bench.partition.offsets().log_end;
        let accepted = (0..payload.len() * 8)
            .filter(|bit| {
                let mut flipped = payload.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                bench.append(good.clone().attributes(codec).build_with(&flipped)).is_ok()
            })
            .count();
        assert_eq!(bench.partition.offsets().log_end - end, 3 * accepted as i64);
        // Whatever was accepted can be read back.
        let mut offset = 0;
        while offset < bench.partition.offsets().log_end {
            let batch = read_batch(&bench.stored(offset)).unwrap().unwrap();
            assert_eq!(batch.records.len(), 3);
            offset = batch.header.next_offset();
        }
    }
}

#[test]
fn a_batch_may_not_decompress_without_end() {
    let bench = Bench::new(LogConfig { message_bytes_max: 8 << 20, ..LogConfig::default() });
    // One record that claims 65 MiB of zeros, in a batch that is far smaller than a 256th of it.
    let length = 65usize << 20;
    let mut record = vec![0, 0, 0, 1];
    put_varint(&mut record, length as u64 * 2);
    let mut payload = Vec::new();
    put_varint(&mut payload, (record.len() + length + 1) as u64 * 2);
    payload.extend_from_slice(&record);
    payload.resize(payload.len() + length + 1, 0);
    // LZ4 cannot: it yields at most 255 bytes from one.
    for codec in [GZIP, ZSTD] {
        let one = RecordBatchBuilder::new().push(None, None, 0);
        let bomb = one.attributes(codec).build_with(&compressed(codec, &payload));
        let Err(AppendError::InvalidRecord(error)) = bench.append(bomb) else { panic!("codec {codec}") };
        assert!(error.message.contains("more than is allowed"), "{error}");
    }
    // Snappy cannot compress that well: the claim alone is refused, before memory is taken.
    let one = RecordBatchBuilder::new().push(None, None, 0);
    let claim = [0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0, 0];
    assert!(is_invalid(bench.append(one.attributes(SNAPPY).build_with(&claim))));
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[test]
fn sizes_are_checked_on_the_compressed_batch() {
    let size = three().build().len() as u32;
    let limit = |message_bytes_max| Bench::new(LogConfig { message_bytes_max, ..LogConfig::default() });
    limit(size).append(three().build()).unwrap();
    let refused = limit(size - 1).append(three().build());
    assert!(matches!(refused, Err(AppendError::MessageTooLarge(_))), "{refused:?}");
    let large = RecordBatchBuilder::new().push(None, Some(&[b'x'; 5000]), NOW_MS);
    limit(1000).append(with_codec(large.clone(), GZIP)).unwrap();
    assert!(matches!(limit(1000).append(large.clone().build()), Err(AppendError::MessageTooLarge(_))));
    let small_segments = Bench::new(LogConfig { segment_bytes: 1000, ..LogConfig::default() });
    assert!(matches!(small_segments.append(large.build()), Err(AppendError::RecordListTooLarge(_))));
}

#[test]
fn compacted_topics_need_keys_and_the_answer_names_the_records() {
    let bench = Bench::new(LogConfig { compact: true, ..LogConfig::default() });
    for codec in [0, ZSTD] {
        let Err(AppendError::InvalidRecord(error)) = bench.append(with_codec(three(), codec)) else {
            panic!()
        };
        let indexes: Vec<i32> = error.record_errors.iter().map(|(index, _)| *index).collect();
        assert_eq!(indexes, [1], "codec {codec}");
        assert!(error.record_errors[0].1.starts_with("Compacted topic cannot accept message without key"));
    }
    bench.append(RecordBatchBuilder::new().push(Some(b""), None, 0).build()).unwrap();
}

#[test]
fn timestamps_are_bounded_when_the_topic_says_so() {
    let bench = Bench::new(LogConfig {
        timestamp_before_max_ms: 1000,
        timestamp_after_max_ms: 500,
        ..LogConfig::default()
    });
    let at = |timestamp| bench.append(RecordBatchBuilder::new().push(None, None, timestamp).build());
    for good in [NOW_MS - 1000, NOW_MS, NOW_MS + 500, -1] {
        at(good).unwrap();
    }
    for bad in [NOW_MS - 1001, NOW_MS + 501, 0, i64::MAX, i64::MIN] {
        let Err(AppendError::InvalidTimestamp(error)) = at(bad) else { panic!("{bad}") };
        assert_eq!(error.record_errors[0].0, 0);
    }
    let anything_goes = plain();
    for timestamp in [0, i64::MAX, -1] {
        anything_goes.append(RecordBatchBuilder::new().push(None, None, timestamp).build()).unwrap();
    }
}

#[test]
fn log_append_time_is_stamped_and_covered_by_the_checksum() {
    let bench =
        Bench::new(LogConfig { timestamp_type: TimestampType::LogAppendTime, ..LogConfig::default() });
    for codec in [0, LZ4] {
        let appended = bench.append(with_codec(three(), codec)).unwrap();
        assert_eq!(appended.log_append_time_ms, NOW_MS);
        let batch = read_batch(&bench.stored(appended.base_offset)).unwrap().unwrap();
        assert_eq!(batch.header.attributes, codec | LOG_APPEND_TIME);
        assert_eq!(batch.header.max_timestamp, NOW_MS);
        assert!(batch.records.iter().all(|record| record.timestamp == NOW_MS));
    }
    let claimed = bench.append(three().attributes(LOG_APPEND_TIME).build());
    assert!(matches!(claimed, Err(AppendError::InvalidTimestamp(_))), "{claimed:?}");
}

#[test]
fn the_greatest_timestamp_in_the_header_is_made_true() {
    let bench = plain();
    let lying = patched(&three().build(), 35, &5i64.to_be_bytes());
    bench.append(lying).unwrap();
    assert_eq!(read_batch(&bench.stored(0)).unwrap().unwrap().header.max_timestamp, NOW_MS + 7);
    let hit = bench.partition.max_timestamp().unwrap().unwrap();
    assert_eq!((hit.offset, hit.timestamp), (1, NOW_MS + 7));
    // A client's claim of broker time on a topic that keeps producers' times is taken off.
    bench.append(three().attributes(LOG_APPEND_TIME).build()).unwrap();
    assert_eq!(read_batch(&bench.stored(3)).unwrap().unwrap().header.attributes, 0);
}

#[test]
fn timestamps_inside_compressed_batches_are_found_exactly() {
    let bench = plain();
    for codec in [GZIP, SNAPPY, LZ4, ZSTD] {
        let mut builder = RecordBatchBuilder::new();
        for n in 0..10 {
            builder = builder.push(None, Some(b"v"), NOW_MS + i64::from(codec) * 100 + n);
        }
        let base = bench.append(with_codec(builder, codec)).unwrap().base_offset;
        let hit = bench.partition.offset_for_timestamp(NOW_MS + i64::from(codec) * 100 + 2).unwrap().unwrap();
        assert_eq!((hit.offset, hit.leader_epoch), (base + 2, 1), "codec {codec}");
    }
}

#[test]
fn a_topic_s_codec_replaces_the_producer_s() {
    let codecs = [
        (Compression::Uncompressed, 0),
        (Compression::Gzip, GZIP),
        (Compression::Snappy, SNAPPY),
        (Compression::Lz4, LZ4),
        (Compression::Zstd, ZSTD),
    ];
    for (compression, code) in codecs {
        let bench = Bench::new(LogConfig { compression, ..LogConfig::default() });
        let mut at = 0;
        for source in [0, GZIP, SNAPPY, LZ4, ZSTD] {
            let builder = three().producer(7, 0, at as i32);
            let payload = compressed(source, builder.payload());
            let appended = bench.append(builder.attributes(source).build_with(&payload)).unwrap();
            assert_eq!(appended.base_offset, at);
            let stored = read_batch(&bench.stored(at)).unwrap().unwrap();
            assert_eq!(stored.header.attributes, code, "{compression:?} from {source}");
            let original = read_batch(&moved(&three().build(), at)).unwrap().unwrap();
            assert_eq!(stored.records, original.records);
            assert_eq!((stored.header.producer_id, stored.header.base_sequence), (7, at as i32));
            assert_eq!(stored.header.max_timestamp, NOW_MS + 7);
            at += 3;
        }
        // A retry is known again, though it is recompressed.
        assert!(bench.append(three().producer(7, 0, 12).build()).unwrap().duplicate);
    }
}

fn moved(batch: &[u8], base_offset: i64) -> Vec<u8> {
    let mut batch = batch.to_vec();
    batch[..8].copy_from_slice(&base_offset.to_be_bytes());
    batch
}

#[test]
fn a_batch_that_grows_by_decompression_must_still_fit() {
    let builder = RecordBatchBuilder::new().push(None, Some(&[7; 50_000]), NOW_MS);
    let batch = builder.clone().attributes(GZIP).build_with(&compressed(GZIP, builder.payload()));
    let config = |compression| LogConfig { compression, message_bytes_max: 10_000, ..LogConfig::default() };
    assert!(Bench::new(config(Compression::Producer)).append(batch.clone()).is_ok());
    assert!(Bench::new(config(Compression::Lz4)).append(batch.clone()).is_ok());
    let refused = Bench::new(config(Compression::Uncompressed)).append(batch);
    assert!(matches!(refused, Err(AppendError::MessageTooLarge(_))));
    // What comes too large is refused, though it would shrink.
    let refused = Bench::new(config(Compression::Gzip)).append(builder.build());
    assert!(matches!(refused, Err(AppendError::MessageTooLarge(_))));
}

#[test]
fn message_sets_are_taken_only_where_they_are_expected() {
    let set = [&[0u8; 8][..], &[0, 0, 0, 14], &[0xa7, 0x1c, 0x0a, 0xe6], &[0, 0], &[255; 8]].concat();
    let bench = plain();
    let refused = bench.append(set.clone());
    assert!(matches!(refused, Err(AppendError::UnsupportedMagic { magic: 0 })), "{refused:?}");
    let options = AppendOptions { old_formats: true, ..AppendOptions::default() };
    let mut crc = flate2::Crc::new();
    crc.update(&set[16..]);
    let set = [&set[..12], &crc.sum().to_be_bytes(), &set[16..]].concat();
    let appended = bench.partition.append(set.into(), options).and_then(PendingAppend::wait).unwrap();
    assert_eq!((appended.base_offset, appended.last_offset), (0, 0));
    let stored = read_batch(&bench.stored(0)).unwrap().unwrap();
    assert_eq!((stored.records[0].key.as_ref(), stored.records[0].timestamp), (None, -1));
    let batch = bench.partition.append(three().build(), options).and_then(PendingAppend::wait).unwrap();
    assert_eq!(batch.last_offset, 3);
}
