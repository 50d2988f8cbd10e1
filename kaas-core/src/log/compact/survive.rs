//! What of a batch survives compaction, by Kafka's rules. Pure: bytes in, bytes out.

use std::io::{Read, Write};

use super::key_map::KeyMap;
use super::transactions::Transactions;
use crate::log::CleaningFacts;
use crate::record::{
    ATTRIBUTES_AT, BATCH_OVERHEAD, BatchHeader, CRC_AT, CompressionCodec, DELETE_HORIZON_BIT, Encoder,
    LOG_OVERHEAD, MAX_TIMESTAMP_AT, MalformedRecord, RecordSlice, RecordSlices, batch_crc, decompress,
};

const BASE_TIMESTAMP_AT: usize = 27;
const COUNT_AT: usize = 57;
const CODEC_MASK: i16 = 0x07;

/// "No timestamp" in a header.
const NO_TIMESTAMP: i64 = -1;

/// What becomes of a batch.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It stays as it is.
    Whole,
    /// It goes.
    Gone,
    /// It stays in this form: fewer records, a delete horizon, or no records at all, for the sake of its producer.
    Rebuilt(Vec<u8>),
}

/// What the decision rests on.
pub(crate) struct Rules<'a> {
    pub(crate) map: &'a KeyMap,
    /// What is known of transactions and producers.
    pub(crate) facts: &'a CleaningFacts,
    pub(crate) now_ms: i64,
    /// `delete.retention.ms`.
    pub(crate) delete_retention_ms: i64,
}

/// Memory that is used from batch to batch.
#[derive(Default)]
pub(crate) struct Scratch(Vec<u8>);

impl Scratch {
    /// The records of a whole batch, decompressed.
    pub(crate) fn records<'a>(
        &'a mut self,
        header: &BatchHeader,
        batch: &'a [u8],
    ) -> Result<RecordSlices<'a>, MalformedRecord> {
        let payload = &batch[BATCH_OVERHEAD..];
        let bytes = if header.codec() == CompressionCodec::None || header.record_count == 0 {
            payload
        } else {
            let failed = |error: std::io::Error| MalformedRecord(error.to_string());
            let stream = decompress(header.codec(), payload).map_err(failed)?;
            let mut stream = stream.ok_or_else(|| MalformedRecord(format!("codec {:?}", header.codec())))?;
            self.0.clear();
            stream.read_to_end(&mut self.0).map_err(failed)?;
            &self.0
        };
        Ok(RecordSlices::new(bytes, header.record_count))
    }
}

/// Decides on the next batch of the log; `batch` is the whole of it, its checksum verified.
pub(crate) fn judge(
    header: &BatchHeader,
    batch: &[u8],
    rules: &Rules<'_>,
    transactions: &mut Transactions,
    scratch: &mut Scratch,
) -> Result<Fate, MalformedRecord> {
    let records = scratch.records(header, batch)?.collect::<Result<Vec<_>, _>>()?;
    let horizon = header.delete_horizon_ms();
    let is_past = horizon.is_some_and(|horizon| horizon <= rules.now_ms);
    let (useless_marker, discard) = if header.is_control() {
        let useless = transactions.pass_control(header, records.first().copied());
        (useless, useless && is_past)
    } else {
        (false, transactions.pass(header, rules.facts))
    };
    let kept: Vec<&RecordSlice<'_>> = records
        .iter()
        .filter(|record| !discard && (header.is_control() || survives(header, record, rules, is_past)))
        .collect();
    if kept.is_empty() {
        let needed = rules.facts.is_last_of_producer(header);
        return Ok(match (needed, header.record_count) {
            (true, 0) => Fate::Whole,
            (true, _) => Fate::Rebuilt(emptied(header, batch)),
            (false, _) => Fate::Gone,
        });
    }
    let has_tombstone = kept.iter().any(|record| !record.has_value);
    let sets_horizon = horizon.is_none() && (has_tombstone || useless_marker);
    if kept.len() == records.len() && !sets_horizon {
        return Ok(Fate::Whole);
    }
    let new_horizon = sets_horizon.then(|| rules.now_ms.saturating_add(rules.delete_retention_ms));
    rebuilt(header, batch, &kept, new_horizon).map(Fate::Rebuilt)
}

fn survives(header: &BatchHeader, record: &RecordSlice<'_>, rules: &Rules<'_>, is_past: bool) -> bool {
    let offset = header.base_offset + i64::from(record.offset_delta);
    if offset >= rules.map.end_offset() {
        return true;
    }
    // A record without a key cannot be superseded, so it has no place in a compacted log.
    let Some(key) = record.key else { return false };
    let is_last = rules.map.get(key).is_none_or(|last| offset >= last);
    is_last && (record.has_value || !is_past)
}

/// The batch with fewer records, or with a delete horizon, which then is its base timestamp. Its offsets and
/// sequences stay.
fn rebuilt(
    header: &BatchHeader,
    batch: &[u8],
    kept: &[&RecordSlice<'_>],
    new_horizon: Option<i64>,
) -> Result<Vec<u8>, MalformedRecord> {
    let mut payload = Vec::new();
    let mut max_timestamp = NO_TIMESTAMP;
    for record in kept {
        let timestamp = header.base_timestamp.wrapping_add(record.timestamp_delta);
        max_timestamp = max_timestamp.max(timestamp);
        match new_horizon {
            Some(horizon) => record.write_with_timestamp(timestamp.wrapping_sub(horizon), &mut payload),
            None => payload.extend_from_slice(record.whole),
        }
    }
    let failed = |error: std::io::Error| MalformedRecord(error.to_string());
    let limit = i32::MAX as usize - BATCH_OVERHEAD;
    let mut encoder = Encoder::new(header.codec(), limit).map_err(failed)?;
    encoder.write_all(&payload).map_err(failed)?;
    let mut rebuilt = batch[..BATCH_OVERHEAD].to_vec();
    rebuilt.extend_from_slice(&encoder.finish().map_err(failed)?);
    if let Some(horizon) = new_horizon {
        put(&mut rebuilt, ATTRIBUTES_AT, &(header.attributes | DELETE_HORIZON_BIT).to_be_bytes());
        put(&mut rebuilt, BASE_TIMESTAMP_AT, &horizon.to_be_bytes());
    }
    if !header.is_log_append_time() {
        put(&mut rebuilt, MAX_TIMESTAMP_AT, &max_timestamp.to_be_bytes());
    }
    put(&mut rebuilt, COUNT_AT, &(kept.len() as i32).to_be_bytes());
    Ok(sealed(rebuilt))
}

/// The header alone, which keeps a producer's last sequence and epoch.
fn emptied(header: &BatchHeader, batch: &[u8]) -> Vec<u8> {
    let mut emptied = batch[..BATCH_OVERHEAD].to_vec();
    let attributes = header.attributes & !(CODEC_MASK | DELETE_HORIZON_BIT);
    put(&mut emptied, ATTRIBUTES_AT, &attributes.to_be_bytes());
    put(&mut emptied, BASE_TIMESTAMP_AT, &NO_TIMESTAMP.to_be_bytes());
    put(&mut emptied, COUNT_AT, &0i32.to_be_bytes());
    sealed(emptied)
}

/// Sets the length and the checksum.
fn sealed(mut batch: Vec<u8>) -> Vec<u8> {
    let length = (batch.len() - LOG_OVERHEAD) as i32;
    put(&mut batch, 8, &length.to_be_bytes());
    let crc = batch_crc(&batch);
    put(&mut batch, CRC_AT, &crc.to_be_bytes());
    batch
}

fn put(batch: &mut [u8], at: usize, bytes: &[u8]) {
    batch[at..at + bytes.len()].copy_from_slice(bytes);
}
