//! Building a v2 batch, for embedders and tests.

use bytes::Bytes;

use super::batch::{ATTRIBUTES_AT, BATCH_OVERHEAD, CRC_AT, LOG_OVERHEAD};

/// Collects records and builds one uncompressed batch, ready for
/// [`Partition::append`](crate::Partition::append).
///
/// ```
/// let batch = kaas_core::RecordBatchBuilder::new().push(Some(b"key"), Some(b"value"), 1_700_000_000_000).build();
/// assert_eq!(kaas_core::record::BatchHeader::parse(&batch).unwrap().record_count, 1);
/// ```
#[derive(Debug, Clone)]
pub struct RecordBatchBuilder {
    records: Vec<u8>,
    count: i32,
    base_timestamp: i64,
    max_timestamp: i64,
    producer: (i64, i16, i32),
    attributes: i16,
}

impl Default for RecordBatchBuilder {
    fn default() -> Self {
        Self::new()
    }
}

impl RecordBatchBuilder {
    /// An empty batch without a producer.
    pub fn new() -> Self {
        let (base_timestamp, max_timestamp) = (0, -1);
        let producer = (-1, -1, -1);
        Self { records: Vec::new(), count: 0, base_timestamp, max_timestamp, producer, attributes: 0 }
    }

    /// Adds a record; the timestamp is in milliseconds since the epoch.
    #[must_use]
    pub fn push(self, key: Option<&[u8]>, value: Option<&[u8]>, timestamp: i64) -> Self {
        self.push_with_headers(key, value, timestamp, &[])
    }

    /// Adds a record with headers.
    #[must_use]
    pub fn push_with_headers(
        mut self,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        timestamp: i64,
        headers: &[(&[u8], Option<&[u8]>)],
    ) -> Self {
        if self.count == 0 {
            self.base_timestamp = timestamp;
        }
        self.max_timestamp = self.max_timestamp.max(timestamp);
        let mut record = vec![0];
        put_varint(&mut record, timestamp.wrapping_sub(self.base_timestamp));
        put_varint(&mut record, i64::from(self.count));
        put_nullable(&mut record, key);
        put_nullable(&mut record, value);
        put_varint(&mut record, headers.len() as i64);
        for (name, value) in headers {
            put_nullable(&mut record, Some(name));
            put_nullable(&mut record, *value);
        }
        put_varint(&mut self.records, record.len() as i64);
        self.records.extend_from_slice(&record);
        self.count += 1;
        self
    }

    /// Makes the batch an idempotent producer's; `base_sequence` is that of its first record.
    #[must_use]
    pub fn producer(mut self, id: i64, epoch: i16, base_sequence: i32) -> Self {
        self.producer = (id, epoch, base_sequence);
        self
    }

    /// Sets the attribute bits.
    #[must_use]
    pub fn attributes(mut self, attributes: i16) -> Self {
        self.attributes = attributes;
        self
    }

    /// The batch's bytes, with base offset 0.
    pub fn build(self) -> Bytes {
        let records = self.records.clone();
        self.build_with(&records)
    }

    /// The batch with `payload` in the place of its records: compressed by the caller, by
    /// [`attributes`](Self::attributes).
    pub fn build_with(self, payload: &[u8]) -> Bytes {
        let size = BATCH_OVERHEAD + payload.len();
        let mut batch = Vec::with_capacity(size);
        batch.extend_from_slice(&0i64.to_be_bytes());
        batch.extend_from_slice(&((size - LOG_OVERHEAD) as i32).to_be_bytes());
        batch.extend_from_slice(&(-1i32).to_be_bytes());
        batch.push(2);
        batch.extend_from_slice(&[0; 4]);
        batch.extend_from_slice(&self.attributes.to_be_bytes());
        batch.extend_from_slice(&(self.count - 1).to_be_bytes());
        batch.extend_from_slice(&self.base_timestamp.to_be_bytes());
        batch.extend_from_slice(&self.max_timestamp.to_be_bytes());
        batch.extend_from_slice(&self.producer.0.to_be_bytes());
        batch.extend_from_slice(&self.producer.1.to_be_bytes());
        batch.extend_from_slice(&self.producer.2.to_be_bytes());
        batch.extend_from_slice(&self.count.to_be_bytes());
        batch.extend_from_slice(payload);
        let crc = crc32c::crc32c(&batch[ATTRIBUTES_AT..]);
        batch[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_be_bytes());
        Bytes::from(batch)
    }

    /// The records' bytes so far, uncompressed.
    pub fn payload(&self) -> &[u8] {
        &self.records
    }
}

fn put_nullable(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    match bytes {
        None => put_varint(out, -1),
        Some(bytes) => {
            put_varint(out, bytes.len() as i64);
            out.extend_from_slice(bytes);
        }
    }
}

fn put_varint(out: &mut Vec<u8>, value: i64) {
    let mut rest = ((value << 1) ^ (value >> 63)) as u64;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}
