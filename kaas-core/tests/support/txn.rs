//! Transactions as a client and as a coordinator write them, and as a consumer of committed records reads them.
#![allow(clippy::unwrap_used, dead_code)]

use std::collections::{BTreeSet, HashSet};

use bytes::Bytes;
use kaas_core::record::{BatchHeader, EndTxnMarker, TxnOutcome, read_batch};
use kaas_core::{
    AbortedTxn, AppendError, AppendOptions, Isolation, Origin, Partition, PendingAppend, Read, ReadData,
    ReadError, ReadSpec, RecordBatchBuilder, TxnProof,
};

const TRANSACTIONAL: i16 = 0x10;

/// One record of a producer, in a transaction or not.
pub(crate) fn record(id: i64, epoch: i16, sequence: i32, transactional: bool, value: &str) -> Bytes {
    RecordBatchBuilder::new()
        .producer(id, epoch, sequence)
        .attributes(if transactional { TRANSACTIONAL } else { 0 })
        .push(None, Some(value.as_bytes()), 1000)
        .build()
}

/// Appends as a client whose transaction the coordinator knows.
pub(crate) fn send(partition: &Partition, batch: Bytes) -> Result<PendingAppend, AppendError> {
    partition.append(batch, AppendOptions { transaction: TxnProof::NotRequired, ..AppendOptions::default() })
}

/// Appends a marker as a coordinator does.
pub(crate) fn end(
    partition: &Partition,
    producer_id: i64,
    producer_epoch: i16,
    coordinator_epoch: i32,
    outcome: TxnOutcome,
) -> Result<PendingAppend, AppendError> {
    let marker = EndTxnMarker { producer_id, producer_epoch, coordinator_epoch, outcome };
    let options = AppendOptions { origin: Origin::Coordinator, ..AppendOptions::default() };
    partition.append(marker.to_batch(1000), options)
}

pub(crate) fn committed(offset: i64, bytes_max: usize) -> ReadSpec {
    let (at_least_one_batch, blocking) = (true, true);
    ReadSpec { offset, bytes_max, at_least_one_batch, isolation: Isolation::ReadCommitted, blocking }
}

pub(crate) fn fetch(partition: &Partition, spec: ReadSpec) -> Result<ReadData, ReadError> {
    match partition.read(spec)? {
        Read::Data(data) => Ok(data),
        Read::WouldBlock => panic!("a blocking read would block"),
    }
}

/// The whole batches of a fetch: headers and bytes.
pub(crate) fn batches(data: &ReadData) -> Vec<(BatchHeader, Bytes)> {
    let bytes = data.slice.to_bytes().unwrap();
    let mut found = Vec::new();
    let mut at = 0;
    while let Ok(header) = BatchHeader::parse(&bytes[at..]) {
        if at + header.size > bytes.len() {
            break;
        }
        found.push((header, bytes.slice(at..at + header.size)));
        at += header.size;
    }
    found
}

/// What a consumer shows of one fetch: offset and value of the records that no aborted transaction wrote. The rule is
/// that of Kafka's clients: a producer is skipped from its aborted transaction's first offset to its abort marker.
pub(crate) fn shown(batches: &[(BatchHeader, Bytes)], aborted: &[AbortedTxn]) -> Vec<(i64, String)> {
    let mut ahead: BTreeSet<(i64, i64)> =
        aborted.iter().map(|txn| (txn.first_offset, txn.producer_id)).collect();
    let mut skipped: HashSet<i64> = HashSet::new();
    let mut shown = Vec::new();
    for (header, bytes) in batches {
        while let Some(&(first, id)) = ahead.first()
            && first <= header.last_offset()
        {
            ahead.remove(&(first, id));
            skipped.insert(id);
        }
        if header.is_control() {
            let marker = EndTxnMarker::read(header, bytes).unwrap().unwrap();
            if marker.outcome == TxnOutcome::Abort {
                skipped.remove(&header.producer_id);
            }
        } else if !(header.is_transactional() && skipped.contains(&header.producer_id)) {
            for record in read_batch(bytes).unwrap().unwrap().records {
                shown.push((record.offset, String::from_utf8(record.value.unwrap()).unwrap()));
            }
        }
    }
    shown
}

/// All that a consumer of committed records sees from `from` on, in fetches of about `bytes_max`.
pub(crate) fn consume(
    partition: &Partition,
    mut from: i64,
    bytes_max: usize,
) -> Result<Vec<(i64, String)>, ReadError> {
    let mut seen = Vec::new();
    loop {
        let data = fetch(partition, committed(from, bytes_max))?;
        let batches = batches(&data);
        let Some((last, _)) = batches.last() else { return Ok(seen) };
        assert!(last.next_offset() <= data.last_stable, "past the last stable offset");
        let fetched = shown(&batches, &data.aborted);
        seen.extend(fetched.into_iter().filter(|(offset, _)| *offset >= from));
        from = last.next_offset();
    }
}
