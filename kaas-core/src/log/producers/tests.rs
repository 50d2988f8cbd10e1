use super::*;
use crate::record::{RecordBatchBuilder, TxnOutcome};

const TRANSACTIONAL: i16 = 0x10;
const NOW: Expiry = Expiry { now_ms: 0, expiration_ms: 1000 };
const NO_GRANT: Grant = Grant { may_begin: false, lowest_sequence: None };
const GRANT: Grant = Grant { may_begin: true, lowest_sequence: None };

fn with_attributes(
    attributes: i16,
    id: i64,
    epoch: i16,
    sequence: i32,
    count: i32,
    offset: i64,
) -> BatchHeader {
    let mut builder = RecordBatchBuilder::new().producer(id, epoch, sequence).attributes(attributes);
    for _ in 0..count {
        builder = builder.push(None, Some(b"v"), 0);
    }
    BatchHeader { base_offset: offset, ..BatchHeader::parse(&builder.build()).unwrap() }
}

fn batch(id: i64, epoch: i16, sequence: i32, count: i32, offset: i64) -> BatchHeader {
    with_attributes(0, id, epoch, sequence, count, offset)
}

fn in_txn(id: i64, epoch: i16, sequence: i32, offset: i64) -> BatchHeader {
    with_attributes(TRANSACTIONAL, id, epoch, sequence, 1, offset)
}

fn marker(producer_id: i64, producer_epoch: i16, coordinator_epoch: i32) -> EndTxnMarker {
    EndTxnMarker { producer_id, producer_epoch, coordinator_epoch, outcome: TxnOutcome::Abort }
}

fn end(table: &mut Producers, marker: EndTxnMarker, offset: i64) -> Option<Undo> {
    let header = BatchHeader::parse(&marker.to_batch(0)).unwrap();
    table.append(&BatchHeader { base_offset: offset, ..header }, Some(&marker), NOW)
}

fn check(table: &Producers, header: &BatchHeader) -> Result<Verdict, AppendError> {
    table.check(header, NO_GRANT, NOW)
}

fn is_order(result: Result<Verdict, AppendError>) -> bool {
    matches!(result, Err(AppendError::OutOfOrderSequence(_)))
}

fn is_txn_state(result: Result<Verdict, AppendError>) -> bool {
    matches!(result, Err(AppendError::InvalidTransactionState))
}

#[test]
fn the_last_five_batches_are_duplicates_and_an_older_one_is_out_of_order() {
    let mut table = Producers::default();
    for n in 0..7 {
        let header = batch(1, 0, n * 2, 2, i64::from(n) * 2);
        assert_eq!(check(&table, &header).unwrap(), Verdict::Append);
        table.append(&header, None, NOW);
    }
    for n in 2..7 {
        let Verdict::Duplicate(found) = check(&table, &batch(1, 0, n * 2, 2, 99)).unwrap() else {
            panic!("batch {n} is not known")
        };
        assert_eq!(found.base_offset, i64::from(n) * 2);
    }
    assert!(is_order(check(&table, &batch(1, 0, 2, 2, 99))), "older than five");
    assert!(is_order(check(&table, &batch(1, 0, 4, 1, 99))), "same start, other end");
    assert!(is_order(check(&table, &batch(1, 0, 16, 1, 99))), "a gap");
}

#[test]
fn sequences_wrap_and_epochs_fence() {
    let mut table = Producers::default();
    let header = batch(1, 3, i32::MAX - 1, 3, 0);
    assert_eq!(check(&table, &header).unwrap(), Verdict::Append, "unknown producers start anywhere");
    table.append(&header, None, NOW);
    assert_eq!(check(&table, &batch(1, 3, 1, 1, 3)).unwrap(), Verdict::Append, "MAX-1, MAX, 0, then 1");
    assert!(matches!(check(&table, &batch(1, 2, 1, 1, 3)), Err(AppendError::InvalidProducerEpoch(_))));
    assert!(is_order(check(&table, &batch(1, 4, 1, 1, 3))), "a new epoch starts at 0");
    assert_eq!(check(&table, &batch(1, 4, 0, 1, 3)).unwrap(), Verdict::Append);
}

#[test]
fn a_transaction_begins_with_the_coordinators_word_and_goes_on_without() {
    let mut table = Producers::default();
    assert!(is_txn_state(check(&table, &in_txn(1, 0, 0, 0))));
    assert!(is_txn_state(check(&table, &in_txn(-1, -1, -1, 0))), "nobody's transaction");
    assert_eq!(table.check(&in_txn(1, 0, 0, 0), GRANT, NOW).unwrap(), Verdict::Append);
    table.append(&in_txn(1, 0, 0, 5), None, NOW);
    assert_eq!(table.first_unstable(), Some(5));
    assert_eq!(check(&table, &in_txn(1, 0, 1, 6)).unwrap(), Verdict::Append);
    assert!(is_txn_state(check(&table, &batch(1, 0, 1, 1, 6))), "not transactional in a transaction");
    end(&mut table, marker(1, 0, 0), 6);
    assert!(is_txn_state(check(&table, &in_txn(1, 0, 1, 7))), "the next one begins anew");
    assert_eq!(check(&table, &batch(1, 0, 1, 1, 7)).unwrap(), Verdict::Append);
}

#[test]
fn the_first_batch_may_not_come_behind_one_that_was_asked_for() {
    let table = Producers::default();
    let grant = Grant { may_begin: true, lowest_sequence: Some(2) };
    assert!(is_order(table.check(&in_txn(1, 0, 3, 0), grant, NOW)));
    assert_eq!(table.check(&in_txn(1, 0, 2, 0), grant, NOW).unwrap(), Verdict::Append);
}

#[test]
fn markers_fence_producers_and_coordinators() {
    let mut table = Producers::default();
    table.append(&in_txn(1, 4, 0, 0), None, NOW);
    let old_producer = table.check_marker(&marker(1, 3, 9));
    assert!(matches!(old_producer, Err(AppendError::InvalidProducerEpoch(_))));
    table.check_marker(&marker(1, 5, 9)).unwrap();
    end(&mut table, marker(1, 5, 9), 1);
    assert!(matches!(table.check_marker(&marker(1, 5, 8)), Err(AppendError::CoordinatorFenced(_))));
    table.check_marker(&marker(1, 5, 9)).unwrap();
    let fenced = table.check(&in_txn(1, 4, 1, 2), GRANT, NOW);
    assert!(matches!(fenced, Err(AppendError::InvalidProducerEpoch(_))));
    assert!(is_order(check(&table, &batch(1, 5, 1, 1, 2))), "the bumped epoch starts at 0");
    assert_eq!(check(&table, &batch(1, 5, 0, 1, 2)).unwrap(), Verdict::Append);
}

#[test]
fn the_first_unstable_offset_moves_when_markers_are_visible() {
    let mut table = Producers::default();
    table.append(&in_txn(1, 0, 0, 10), None, NOW);
    table.append(&in_txn(2, 0, 0, 11), None, NOW);
    end(&mut table, marker(1, 0, 0), 12);
    assert_eq!(table.first_unstable(), Some(10), "decided, and not visible");
    table.published(12);
    assert_eq!(table.first_unstable(), Some(10));
    table.published(13);
    assert_eq!(table.first_unstable(), Some(11));
    assert_eq!(table.open_transactions().collect::<Vec<_>>(), [(2, 11)]);
}

#[test]
fn undoing_restores_evicted_batches_epochs_and_transactions() {
    let mut table = Producers::default();
    for n in 0..5 {
        table.append(&batch(1, 0, n, 1, i64::from(n)), None, NOW);
    }
    table.append(&in_txn(3, 0, 0, 5), None, NOW);
    let before = table.clone();
    let mut undos: Vec<Undo> = [batch(1, 0, 5, 1, 6), batch(1, 1, 0, 1, 7), batch(2, 0, 0, 1, 8)]
        .iter()
        .filter_map(|header| table.append(header, None, NOW))
        .collect();
    undos.extend(end(&mut table, marker(3, 1, 0), 9));
    undos.extend(table.append(&in_txn(3, 1, 0, 10), None, NOW));
    undos.extend(end(&mut table, marker(4, 0, 0), 11));
    assert_eq!(table.first_unstable(), Some(5));
    for undo in undos.into_iter().rev() {
        table.undo(undo);
    }
    assert_eq!(table, before);
}

#[test]
fn a_stored_table_is_the_same_table() {
    let mut table = Producers::default();
    for n in 0..9 {
        table.append(&batch(i64::from(n % 2), 1, n, 1, i64::from(n)), None, NOW);
    }
    table.append(&in_txn(7, 2, 0, 9), None, NOW);
    end(&mut table, marker(8, 2, 6), 10);
    let stored = serde_json::to_value(&table).unwrap();
    assert_eq!(serde_json::from_value::<Producers>(stored).unwrap(), table);
}

#[test]
fn silent_producers_are_forgotten_but_not_in_a_transaction() {
    let mut table = Producers::default();
    let at = |now_ms| Expiry { now_ms, expiration_ms: 100 };
    for id in 0..EXPIRE_MIN as i64 {
        table.append(&batch(id, 0, 0, 1, id), None, at(id));
    }
    table.append(&in_txn(9999, 0, 0, 5000), None, at(0));
    // Whether or not they were removed already.
    assert_eq!(table.check(&batch(0, 0, 77, 1, 0), NO_GRANT, at(100)).unwrap(), Verdict::Append);
    assert!(is_order(table.check(&batch(0, 0, 77, 1, 0), NO_GRANT, at(99))));
    assert!(is_order(table.check(&in_txn(9999, 0, 77, 0), NO_GRANT, at(5000))));
    assert_eq!(table.active(at(1100)).len(), EXPIRE_MIN - 1001 + 1);
    table.expire(at(1100));
    assert_eq!(table.by_id.len(), EXPIRE_MIN - 1001 + 1);
    assert_eq!(table.first_unstable(), Some(5000));
}

#[test]
fn behind_a_first_batch_that_failed_nothing_comes_but_that_batch() {
    let mut table = Producers::default();
    let first = table.append(&batch(1, 0, 10, 5, 0), None, NOW).unwrap();
    let second = table.append(&batch(1, 0, 15, 5, 5), None, NOW).unwrap();
    table.fail(second);
    table.fail(first);
    assert!(is_order(check(&table, &batch(1, 0, 15, 5, 0))), "it was on its way when the first one failed");
    assert_eq!(check(&table, &batch(1, 1, 15, 1, 0)).unwrap(), Verdict::Append, "another epoch begins anew");
    let mut table = {
        let mut read_again = Producers::default();
        read_again.inherit(&mut table);
        read_again
    };
    assert!(is_order(check(&table, &batch(1, 0, 15, 5, 0))), "the log was read again meanwhile");
    let later = Expiry { now_ms: 1_000, expiration_ms: 500 };
    assert_eq!(
        table.check(&batch(1, 0, 15, 5, 0), NO_GRANT, later).unwrap(),
        Verdict::Append,
        "it has given up"
    );
    assert_eq!(check(&table, &batch(1, 0, 10, 5, 0)).unwrap(), Verdict::Append);
    table.append(&batch(1, 0, 10, 5, 0), None, NOW);
    assert_eq!(check(&table, &batch(1, 0, 15, 5, 5)).unwrap(), Verdict::Append);
}
