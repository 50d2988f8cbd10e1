//! A log whose records follow from their offsets, so that what compaction must leave of it can be computed without storing
//! it. No I/O.

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use kaas_core::RecordBatchBuilder;
use kaas_core::record::{Record, read_batch};

use crate::batch::TRANSACTIONAL;
use crate::transaction::Producer;

/// Bytes of a value.
pub(crate) const VALUE_BYTES: usize = 1 << 10;
/// Records of a batch.
pub(crate) const BATCH_RECORDS: u64 = 60;

/// The log: each record has one of `keys` keys, drawn by its offset.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keyed {
    /// How many keys there are.
    pub(crate) keys: u64,
    /// How many records, a whole number of batches.
    pub(crate) records: u64,
}

impl Keyed {
    /// As many whole batches as have about so many bytes.
    pub(crate) fn of_bytes(keys: u64, bytes: u64) -> Self {
        Self { keys, records: bytes / (VALUE_BYTES as u64 * BATCH_RECORDS) * BATCH_RECORDS }
    }

    /// The batch that begins at an offset.
    pub(crate) fn batch(&self, offset: u64, now_ms: i64) -> Bytes {
        self.builder(offset, now_ms).build()
    }

    /// The first batch as that of a transaction.
    pub(crate) fn first_batch(&self, now_ms: i64, producer: &Producer) -> Bytes {
        self.builder(0, now_ms).producer(producer.id, producer.epoch, 0).attributes(TRANSACTIONAL).build()
    }

    fn builder(&self, offset: u64, now_ms: i64) -> RecordBatchBuilder {
        let push = |builder: RecordBatchBuilder, offset| {
            builder.push(Some(&key(self.key_number(offset))), Some(&value(offset)), now_ms)
        };
        (offset..offset + BATCH_RECORDS).fold(RecordBatchBuilder::new(), push)
    }

    fn key_number(&self, offset: u64) -> u64 {
        mixed(offset) % self.keys
    }

    /// What is left when everything below `clean_end` was compacted, computed naively: the last record of each key below, and all
    /// from there on.
    pub(crate) fn survivors(&self, clean_end: u64) -> impl Iterator<Item = u64> {
        let mut last = vec![u64::MAX; self.keys as usize];
        (0..clean_end).for_each(|offset| last[self.key_number(offset) as usize] = offset);
        let log = *self;
        (0..self.records)
            .filter(move |&offset| offset >= clean_end || last[log.key_number(offset) as usize] == offset)
    }

    /// Whether a record is what was written at its offset.
    fn is_right(&self, record: &Record) -> bool {
        let Ok(offset) = u64::try_from(record.offset) else { return false };
        record.key.as_deref() == Some(&key(self.key_number(offset))[..])
            && record.value.as_deref() == Some(&value(offset)[..])
    }

    /// Checks the batches of an answer against what must come next; the offset to go on from. A batch that is cut at the end is left
    /// out, of the first one what lies below `from`, and what comes behind the log.
    pub(crate) fn check(
        &self,
        bytes: &[u8],
        from: u64,
        expected: &mut impl Iterator<Item = u64>,
    ) -> Result<u64> {
        let within = from as i64..self.records as i64;
        let (mut rest, mut next) = (bytes, from);
        while let Some(batch) = read_batch(rest)? {
            for record in batch.records.iter().filter(|record| within.contains(&record.offset)) {
                let wanted = expected.next().context("more records than must be left")?;
                ensure!(record.offset == wanted as i64, "offset {} where {wanted} must be", record.offset);
                ensure!(self.is_right(record), "another record than was written at offset {wanted}");
            }
            next = batch.header.next_offset() as u64;
            rest = &rest[batch.header.size..];
        }
        Ok(next)
    }
}

fn key(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

/// Bytes that do not compress, other ones at every offset.
fn value(offset: u64) -> Vec<u8> {
    let word = |at: u64| mixed(offset << 8 | at).to_be_bytes();
    (0..VALUE_BYTES as u64 / 8).flat_map(word).collect()
}

/// A permutation of the numbers that looks random (the finalizer of SplitMix64).
fn mixed(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: Keyed = Keyed { keys: 50, records: 4 * BATCH_RECORDS };

    /// The log from a batch on, as it was written.
    fn written(first: u64) -> Vec<u8> {
        let batch = |number: u64| {
            let mut batch = LOG.batch(number * BATCH_RECORDS, 1).to_vec();
            batch[..8].copy_from_slice(&(number * BATCH_RECORDS).to_be_bytes());
            batch
        };
        (first..4).flat_map(batch).collect()
    }

    #[test]
    fn the_last_of_each_key_survives_and_all_that_is_not_compacted() {
        let end = 3 * BATCH_RECORDS;
        let left: Vec<u64> = LOG.survivors(end).collect();
        let is_superseded =
            |offset: u64| (offset + 1..end).any(|later| LOG.key_number(later) == LOG.key_number(offset));
        let wanted: Vec<u64> = (0..LOG.records).filter(|&at| at >= end || !is_superseded(at)).collect();
        assert_eq!(left, wanted);
        assert!(left.len() > 100 && left.len() < 111, "{}", left.len());
    }

    #[test]
    fn what_was_written_is_right_and_any_other_is_not() {
        let all = || LOG.survivors(0);
        assert_eq!(LOG.check(&written(0), 0, &mut all()).unwrap(), LOG.records);
        assert_eq!(LOG.check(&written(1), BATCH_RECORDS + 5, &mut all().skip(65)).unwrap(), LOG.records);
        assert!(LOG.check(&written(1), 0, &mut all()).is_err(), "the first batch is missing");
        assert!(LOG.check(&written(0), 0, &mut LOG.survivors(LOG.records)).is_err(), "nothing was compacted");
        let mut moved = written(0);
        moved[7] += 1;
        let behind = moved[..].to_vec();
        assert!(
            LOG.check(&behind, 0, &mut all().skip(1)).is_err(),
            "records at other offsets than their own"
        );
    }
}
