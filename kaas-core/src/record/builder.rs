//! Building a v2 batch, for embedders and tests.

use std::io::{self, Write};

use bytes::Bytes;

use super::batch::{BATCH_OVERHEAD, BatchHeader, CompressionCodec};
use super::compress::Encoder;
use super::write::RecordWriter;

/// Collects records and builds one batch of them, uncompressed or [compressed](Self::build_compressed), ready for
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
        let mut record = RecordWriter::begin(timestamp.wrapping_sub(self.base_timestamp), self.count);
        record.put(key, value, headers);
        record.finish(&mut self.records);
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
        let (producer_id, producer_epoch, base_sequence) = self.producer;
        let header = BatchHeader {
            base_offset: 0,
            size: BATCH_OVERHEAD,
            leader_epoch: -1,
            crc: 0,
            attributes: self.attributes,
            last_offset_delta: self.count - 1,
            base_timestamp: self.base_timestamp,
            max_timestamp: self.max_timestamp,
            producer_id,
            producer_epoch,
            base_sequence,
            record_count: self.count,
        };
        let mut batch = header.sealed(payload).to_bytes().to_vec();
        batch.extend_from_slice(payload);
        Bytes::from(batch)
    }

    /// The batch with its records compressed, at the level that Kafka's producer uses by default.
    ///
    /// # Errors
    /// A codec that does not exist, or that cannot be set up; a batch of more than 2 GiB.
    pub fn build_compressed(mut self, codec: CompressionCodec) -> io::Result<Bytes> {
        let mut encoder = Encoder::new(codec, i32::MAX as usize - BATCH_OVERHEAD)?;
        encoder.write_all(&self.records)?;
        self.attributes |= codec.bits();
        Ok(self.build_with(&encoder.finish()?))
    }

    /// The records' bytes so far, uncompressed.
    pub fn payload(&self) -> &[u8] {
        &self.records
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::read_batch;

    #[test]
    fn compressed_batches_are_smaller_and_hold_the_same() {
        use CompressionCodec::{Gzip, Lz4, Snappy, Zstd};
        let builder = (0..20).fold(RecordBatchBuilder::new(), |builder, at| {
            builder.push(Some(b"key"), Some(&[at; 200]), 1000 + i64::from(at))
        });
        let plain = builder.clone().build();
        let records = read_batch(&plain).unwrap().unwrap().records;
        for codec in [Gzip, Lz4, Snappy, Zstd] {
            let small = builder.clone().build_compressed(codec).unwrap();
            let read = read_batch(&small).unwrap().unwrap();
            assert!(small.len() < plain.len() / 2, "{codec:?}");
            assert_eq!((read.header.codec(), &read.records), (codec, &records));
        }
        assert!(builder.build_compressed(CompressionCodec::Unknown(7)).is_err());
    }
}
