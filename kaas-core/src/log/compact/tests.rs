//! What of a batch survives, decided on batches made by hand.

use super::key_map::KeyMap;
use super::survive::{Fate, Rules, Scratch, judge};
use super::transactions::Transactions;
use crate::RecordBatchBuilder;
use crate::log::producers::{Expiry, Producers};
use crate::log::{AbortedTxn, CleaningFacts};
use crate::record::{BatchHeader, EndTxnMarker, Record, read_batch};

const TRANSACTIONAL: i16 = 0x10;
const CONTROL: i16 = 0x20;
const LOG_APPEND_TIME: i16 = 0x08;
const NOW_MS: i64 = 1_000_000;
const DELETE_RETENTION_MS: i64 = 500;

/// A batch at an offset; records are (key, value, timestamp).
fn batch(offset: i64, builder: RecordBatchBuilder) -> Vec<u8> {
    let mut batch = builder.build().to_vec();
    batch[..8].copy_from_slice(&offset.to_be_bytes());
    batch
}

fn records(records: &[(Option<&str>, Option<&str>, i64)]) -> RecordBatchBuilder {
    let push = |b: RecordBatchBuilder, (key, value, at): &(Option<&str>, Option<&str>, i64)| {
        b.push(key.map(str::as_bytes), value.map(str::as_bytes), *at)
    };
    records.iter().fold(RecordBatchBuilder::new(), push)
}

fn marker(offset: i64, producer_id: i64, kind: i16) -> Vec<u8> {
    let key = [0i16.to_be_bytes(), kind.to_be_bytes()].concat();
    let builder = RecordBatchBuilder::new().push(Some(&key), Some(&[0; 6]), 50).producer(producer_id, 0, -1);
    batch(offset, builder.attributes(TRANSACTIONAL | CONTROL))
}

const EXPIRY: Expiry = Expiry { now_ms: 0, expiration_ms: i64::MAX };

fn facts(aborted: &[AbortedTxn], producers: &Producers) -> CleaningFacts {
    let active =
        producers.active(EXPIRY).into_iter().map(|producer| (producer.producer_id, producer)).collect();
    CleaningFacts::new(aborted.to_vec(), active)
}

struct Log {
    map: KeyMap,
    facts: CleaningFacts,
    now_ms: i64,
    transactions: Transactions,
}

impl Log {
    /// A log of which the map knows these keys, up to an offset.
    fn new(keys: &[(&str, i64)], end_offset: i64) -> Self {
        let mut map = KeyMap::new(0, 1 << 20, 1 << 20);
        for (key, offset) in keys {
            map.put(key.as_bytes(), *offset).unwrap();
        }
        map.complete(end_offset);
        Self {
            map,
            facts: facts(&[], &Producers::default()),
            now_ms: NOW_MS,
            transactions: Transactions::default(),
        }
    }

    fn judge(&mut self, batch: &[u8]) -> Fate {
        let Self { map, facts, now_ms, transactions } = self;
        let rules = Rules { map, facts, now_ms: *now_ms, delete_retention_ms: DELETE_RETENTION_MS };
        let header = BatchHeader::parse(batch).unwrap();
        judge(&header, batch, &rules, transactions, &mut Scratch::default()).unwrap()
    }
}

fn rebuilt(fate: Fate) -> (BatchHeader, Vec<Record>, Vec<u8>) {
    let Fate::Rebuilt(bytes) = fate else { panic!("{fate:?}") };
    let whole = read_batch(&bytes).unwrap().unwrap();
    assert_eq!(whole.header.size, bytes.len());
    (whole.header, whole.records, bytes)
}

#[test]
fn the_last_record_of_each_key_stays_at_its_offset() {
    let mut log = Log::new(&[("a", 12), ("b", 11)], 20);
    let stored = batch(
        10,
        records(&[(Some("a"), Some("1"), 5), (Some("b"), Some("2"), 9), (Some("a"), Some("3"), 7)]),
    );
    let (header, kept, _) = rebuilt(log.judge(&stored));
    let seen: Vec<_> = kept.iter().map(|r| (r.offset, r.timestamp, r.value.as_deref().unwrap())).collect();
    assert_eq!(seen, [(11, 9, &b"2"[..]), (12, 7, b"3")]);
    assert_eq!((header.base_offset, header.last_offset_delta, header.record_count), (10, 2, 2));
    assert_eq!(header.max_timestamp, 9);
    assert_eq!(log.judge(&batch(11, records(&[(Some("b"), Some("2"), 9)]))), Fate::Whole);
    assert_eq!(log.judge(&batch(3, records(&[(Some("b"), Some("0"), 9)]))), Fate::Gone);
    assert_eq!(log.judge(&batch(3, records(&[(Some("z"), Some("0"), 9)]))), Fate::Whole, "not in the map");
    assert_eq!(log.judge(&batch(3, records(&[(None, Some("0"), 9)]))), Fate::Gone, "no key");
    assert_eq!(log.judge(&batch(20, records(&[(None, Some("0"), 9)]))), Fate::Whole, "behind the map");
}

#[test]
fn compressed_batches_stay_in_their_codec() {
    for codec in 1..=4i16 {
        let builder = records(&[(Some("a"), Some("1"), 5), (Some("b"), Some("2"), 9)]).attributes(codec);
        let payload = builder.payload().to_vec();
        let header = BatchHeader::parse(&builder.clone().build()).unwrap();
        let mut encoder = crate::record::Encoder::new(header.codec(), 1 << 20).unwrap();
        std::io::Write::write_all(&mut encoder, &payload).unwrap();
        let mut stored = builder.build_with(&encoder.finish().unwrap()).to_vec();
        stored[..8].copy_from_slice(&4i64.to_be_bytes());
        let mut log = Log::new(&[("a", 8)], 20);
        let (header, kept, _) = rebuilt(log.judge(&stored));
        assert_eq!((header.attributes, kept.len(), kept[0].offset), (codec, 1, 5));
    }
}

#[test]
fn tombstones_stay_for_their_time_after_the_first_compaction() {
    let stored = batch(
        4,
        records(&[(Some("a"), None, 100), (Some("b"), Some("v"), 2_000_000), (Some("c"), Some("x"), 7)]),
    );
    let mut log = Log::new(&[("a", 4), ("b", 5), ("c", 9)], 20);
    let (header, kept, bytes) = rebuilt(log.judge(&stored));
    assert_eq!(header.delete_horizon_ms(), Some(NOW_MS + DELETE_RETENTION_MS));
    assert_eq!(kept.iter().map(|r| (r.offset, r.timestamp)).collect::<Vec<_>>(), [(4, 100), (5, 2_000_000)]);
    assert_eq!(header.max_timestamp, 2_000_000);
    log.now_ms = NOW_MS + DELETE_RETENTION_MS - 1;
    assert_eq!(log.judge(&bytes), Fate::Whole, "the horizon is set once");
    log.now_ms += 1;
    let (header, kept, _) = rebuilt(log.judge(&bytes));
    assert_eq!((kept.len(), kept[0].offset, kept[0].timestamp), (1, 5, 2_000_000));
    assert_eq!(header.delete_horizon_ms(), Some(NOW_MS + DELETE_RETENTION_MS), "as Kafka leaves it");
    let superseded = batch(1, records(&[(Some("a"), None, 100)]));
    assert_eq!(log.judge(&superseded), Fate::Gone, "a later record of its key is there");
}

#[test]
fn broker_time_is_the_time_of_all_records() {
    let stored = batch(
        4,
        records(&[(Some("a"), Some("1"), 5), (Some("b"), Some("2"), 9)]).attributes(LOG_APPEND_TIME),
    );
    let (header, kept, _) = rebuilt(Log::new(&[("b", 8)], 20).judge(&stored));
    assert_eq!((header.max_timestamp, kept[0].timestamp), (9, 9));
}

#[test]
fn the_last_batch_of_a_producer_stays_without_records() {
    let stored =
        batch(10, records(&[(Some("a"), Some("1"), 5), (Some("a"), Some("2"), 9)]).producer(7, 3, 40));
    let mut producers = Producers::default();
    producers.append(&BatchHeader::parse(&stored).unwrap(), None, EXPIRY);
    let mut log = Log { facts: facts(&[], &producers), ..Log::new(&[("a", 15)], 20) };
    let (header, kept, bytes) = rebuilt(log.judge(&stored));
    assert!(kept.is_empty());
    assert_eq!((header.base_offset, header.last_offset(), header.record_count), (10, 11, 0));
    assert_eq!((header.producer_id, header.producer_epoch, header.base_sequence), (7, 3, 40));
    assert_eq!((header.base_timestamp, header.max_timestamp, header.attributes), (-1, 9, 0));
    assert_eq!(log.judge(&bytes), Fate::Whole, "for as long as it is needed");
    let mut rebuilt_from_log = Producers::default();
    rebuilt_from_log.append(&header, None, EXPIRY);
    let known = rebuilt_from_log.active(EXPIRY);
    assert_eq!((known[0].producer_epoch, known[0].last_sequence, known[0].last_offset), (3, 41, Some(11)));
    log.facts = facts(&[], &Producers::default());
    assert_eq!(log.judge(&bytes), Fate::Gone, "and no longer");
}

#[test]
fn records_of_aborted_transactions_go_and_their_markers_follow() {
    let txn = |offset: i64, key: &str| {
        let builder = records(&[(Some(key), Some("v"), 1)]).producer(7, 0, 0).attributes(TRANSACTIONAL);
        batch(offset, builder)
    };
    let mut log = Log::new(&[("b", 4)], 20);
    log.facts = facts(
        &[AbortedTxn { producer_id: 7, first_offset: 2, last_offset: 3, last_stable: 4 }],
        &Producers::default(),
    );
    assert_eq!(log.judge(&txn(0, "z")), Fate::Whole, "of a transaction before");
    assert_eq!(log.judge(&marker(1, 7, 1)), Fate::Whole);
    assert_eq!(log.judge(&txn(2, "x")), Fate::Gone);
    assert_eq!(log.judge(&marker(3, 7, 0)), Fate::Whole, "something of it was there in this pass");
    assert_eq!(log.judge(&txn(4, "b")), Fate::Whole, "the next transaction of the producer");
    assert_eq!(log.judge(&marker(5, 7, 1)), Fate::Whole);
    // The pass after it meets nothing of the aborted transaction: the marker's time begins.
    log.facts = facts(&[], &Producers::default());
    let (header, kept, bytes) = rebuilt(log.judge(&marker(3, 7, 0)));
    assert_eq!((kept.len(), header.delete_horizon_ms()), (1, Some(NOW_MS + DELETE_RETENTION_MS)));
    assert!(header.is_control());
    assert_eq!(log.judge(&bytes), Fate::Whole);
    log.now_ms += DELETE_RETENTION_MS;
    assert_eq!(log.judge(&bytes), Fate::Gone);
}

#[test]
fn a_marker_that_has_a_producers_epoch_stays_empty() {
    let mut log = Log::new(&[], 20);
    let stored = marker(3, 7, 1);
    let (header, _, bytes) = rebuilt(log.judge(&stored));
    log.now_ms += DELETE_RETENTION_MS;
    let mut producers = Producers::default();
    producers.append(&header, EndTxnMarker::read(&header, &stored).unwrap().as_ref(), EXPIRY);
    log.facts = facts(&[], &producers);
    let (header, kept, bytes) = rebuilt(log.judge(&bytes));
    assert!(kept.is_empty() && header.is_control());
    assert_eq!(log.judge(&bytes), Fate::Whole);
}

#[test]
fn damaged_records_are_an_error_and_not_dropped() {
    let mut stored = batch(0, records(&[(Some("a"), Some("1"), 5)]));
    stored[61] = 0x7f;
    let header = BatchHeader::parse(&stored).unwrap();
    let log = Log::new(&[], 20);
    let rules = Rules { map: &log.map, facts: &log.facts, now_ms: 0, delete_retention_ms: 0 };
    assert!(judge(&header, &stored, &rules, &mut Transactions::default(), &mut Scratch::default()).is_err());
}
