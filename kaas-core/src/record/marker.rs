//! End-transaction markers: the control batches that decide a transaction (KIP-98).
//!
//! ```text
//! batch   attributes transactional and control, the producer's id and epoch, base sequence -1, one record
//! key     version i16 = 0 | type i16: 0 abort, 1 commit
//! value   version i16 = 0 | coordinator epoch i32
//! ```

use bytes::Bytes;

use super::batch::{BATCH_OVERHEAD, BatchHeader, CONTROL_BIT, TRANSACTIONAL_BIT};
use super::builder::RecordBatchBuilder;
use super::decompress::decompress;
use super::walk::{MalformedRecord, read_records};

const VERSION: i16 = 0;
const ABORT: i16 = 0;
const COMMIT: i16 = 1;

/// How a transaction ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TxnOutcome {
    /// Its records are not to be seen by anyone who reads committed ones.
    Abort,
    /// Its records count.
    Commit,
}

/// A coordinator's word on the open transaction of a producer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EndTxnMarker {
    /// The producer.
    pub producer_id: i64,
    /// Its epoch from now on: that of the transaction, or a newer one that fences it.
    pub producer_epoch: i16,
    /// The epoch of the coordinator; a partition refuses markers of coordinators older than the last one.
    pub coordinator_epoch: i32,
    /// The decision.
    pub outcome: TxnOutcome,
}

impl EndTxnMarker {
    /// The control batch to append with [`Origin::Coordinator`](crate::Origin::Coordinator); `timestamp` is in
    /// milliseconds.
    ///
    /// ```
    /// use kaas_core::record::{BatchHeader, EndTxnMarker, TxnOutcome};
    ///
    /// let outcome = TxnOutcome::Commit;
    /// let marker = EndTxnMarker { producer_id: 7, producer_epoch: 0, coordinator_epoch: 3, outcome };
    /// let header = BatchHeader::parse(&marker.to_batch(1_700_000_000_000)).unwrap();
    /// assert!(header.is_control() && header.is_transactional());
    /// ```
    pub fn to_batch(&self, timestamp: i64) -> Bytes {
        let outcome = match self.outcome {
            TxnOutcome::Abort => ABORT,
            TxnOutcome::Commit => COMMIT,
        };
        let mut key = VERSION.to_be_bytes().to_vec();
        key.extend_from_slice(&outcome.to_be_bytes());
        let mut value = VERSION.to_be_bytes().to_vec();
        value.extend_from_slice(&self.coordinator_epoch.to_be_bytes());
        RecordBatchBuilder::new()
            .producer(self.producer_id, self.producer_epoch, -1)
            .attributes(TRANSACTIONAL_BIT | CONTROL_BIT)
            .push(Some(&key), Some(&value), timestamp)
            .build()
    }

    /// The marker in a batch, whose checksum the caller has verified; `None` for a batch of data, for one that
    /// compaction has emptied, and for control records that do not end a transaction.
    ///
    /// # Errors
    /// [`MalformedRecord`]: a control batch whose first record is cut.
    pub fn read(header: &BatchHeader, batch: &[u8]) -> Result<Option<Self>, MalformedRecord> {
        if !header.is_control() || header.record_count == 0 {
            return Ok(None);
        }
        let records = batch.get(BATCH_OVERHEAD..).unwrap_or_default();
        let stream = decompress(header.codec(), records)
            .map_err(|error| MalformedRecord(error.to_string()))?
            .ok_or_else(|| MalformedRecord(format!("codec {:?}", header.codec())))?;
        let records = read_records(header, stream)?;
        let Some(record) = records.first() else { return Ok(None) };
        let key = record.key.as_deref().unwrap_or_default();
        let value = record.value.as_deref().unwrap_or_default();
        let cut = |what: &str| MalformedRecord(format!("the {what} of a control record is cut"));
        // Later versions may add fields behind these.
        let outcome = match fields(key).ok_or_else(|| cut("key"))? {
            [_, _, 0, 0] => TxnOutcome::Abort,
            [_, _, 0, 1] => TxnOutcome::Commit,
            _ => return Ok(None),
        };
        let [_, _, epoch @ ..] = fields::<6>(value).ok_or_else(|| cut("value"))?;
        Ok(Some(Self {
            producer_id: header.producer_id,
            producer_epoch: header.producer_epoch,
            coordinator_epoch: i32::from_be_bytes(epoch),
            outcome,
        }))
    }
}

fn fields<const N: usize>(bytes: &[u8]) -> Option<[u8; N]> {
    bytes.first_chunk::<N>().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marker_is_read_as_it_was_written() {
        for outcome in [TxnOutcome::Abort, TxnOutcome::Commit] {
            let marker = EndTxnMarker { producer_id: 9, producer_epoch: 4, coordinator_epoch: 77, outcome };
            let batch = marker.to_batch(1000);
            let header = BatchHeader::parse(&batch).unwrap();
            assert_eq!((header.record_count, header.base_sequence, header.max_timestamp), (1, -1, 1000));
            assert_eq!(EndTxnMarker::read(&header, &batch).unwrap(), Some(marker));
        }
    }

    #[test]
    fn other_batches_are_no_markers_and_cut_ones_are_errors() {
        let read = |key: &[u8], value: &[u8], attributes| {
            let batch =
                RecordBatchBuilder::new().attributes(attributes).push(Some(key), Some(value), 0).build();
            EndTxnMarker::read(&BatchHeader::parse(&batch).unwrap(), &batch)
        };
        let (key, value) = ([0, 0, 0, 1], [0, 0, 0, 0, 0, 5]);
        assert_eq!(read(&key, &value, TRANSACTIONAL_BIT).unwrap(), None, "data");
        assert_eq!(read(&[0, 0, 0, 2], &value, CONTROL_BIT).unwrap(), None, "another type");
        assert!(read(&key, &value, CONTROL_BIT).unwrap().is_some());
        assert!(read(&key[..3], &value, CONTROL_BIT).is_err());
        assert!(read(&key, &value[..5], CONTROL_BIT).is_err());
    }
}
