//! Reading the batches of an answer or a segment: one whole batch at a time, its checksum verified first.

use super::walk::{MalformedRecord, Record, read_records};
use super::{BATCH_OVERHEAD, BatchHeader, batch_crc, decompress};

/// A whole batch: its header, and its records, decompressed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WholeBatch {
    /// The header.
    pub header: BatchHeader,
    /// The records in order; of a control batch, its markers.
    pub records: Vec<Record>,
}

/// Reads the batch at the start of `bytes`; `None` when it is not all there, as at the end of a fetch.
///
/// # Errors
/// [`MalformedRecord`]: the header, the checksum or the records are wrong.
pub fn read_batch(bytes: &[u8]) -> Result<Option<WholeBatch>, MalformedRecord> {
    if bytes.len() < BATCH_OVERHEAD {
        return Ok(None);
    }
    let header = BatchHeader::parse(bytes).map_err(|error| MalformedRecord(error.to_string()))?;
    let Some(batch) = bytes.get(..header.size) else { return Ok(None) };
    if batch_crc(batch) != header.crc {
        return Err(MalformedRecord(format!(
            "the checksum of the batch at offset {} is wrong",
            header.base_offset
        )));
    }
    let stream = decompress(header.codec(), &batch[BATCH_OVERHEAD..])
        .map_err(|error| MalformedRecord(error.to_string()))?
        .ok_or_else(|| MalformedRecord(format!("codec {:?}", header.codec())))?;
    Ok(Some(WholeBatch { header, records: read_records(&header, stream)? }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RecordBatchBuilder;

    #[test]
    fn a_whole_batch_is_read_a_cut_one_is_not_and_a_damaged_one_is_an_error() {
        let bytes = RecordBatchBuilder::new().push(Some(b"k"), None, 5).build();
        let batch = read_batch(&bytes).unwrap().unwrap();
        assert_eq!(
            (batch.records[0].key.as_deref(), batch.records[0].value.as_deref()),
            (Some(&b"k"[..]), None)
        );
        assert_eq!(read_batch(&bytes[..bytes.len() - 1]).unwrap(), None);
        let mut damaged = bytes.to_vec();
        *damaged.last_mut().unwrap() ^= 1;
        assert!(read_batch(&damaged).is_err());
    }
}
