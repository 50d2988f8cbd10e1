//! A walk over records that lie in memory, which copies nothing; [`walk`](super::walk) has the layout.

use super::walk::MalformedRecord;
use super::write::put_varint;

/// The records of a batch, decompressed.
pub(crate) struct RecordSlices<'a> {
    rest: &'a [u8],
    left: i32,
}

/// One record where it lies.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RecordSlice<'a> {
    /// All of it, with its length.
    pub(crate) whole: &'a [u8],
    attributes: u8,
    pub(crate) timestamp_delta: i64,
    pub(crate) offset_delta: i32,
    pub(crate) key: Option<&'a [u8]>,
    /// Whether the value is not null; a record without one is a tombstone.
    pub(crate) has_value: bool,
    /// Everything behind the timestamp.
    behind_timestamp: &'a [u8],
}

impl<'a> RecordSlices<'a> {
    /// `count` records in `bytes`, which must end with the last of them.
    pub(crate) fn new(bytes: &'a [u8], count: i32) -> Self {
        Self { rest: bytes, left: count }
    }

    fn record(&mut self) -> Option<RecordSlice<'a>> {
        let begin = self.rest;
        let length = usize::try_from(varint(&mut self.rest)?).ok()?;
        let (mut body, rest) = self.rest.split_at_checked(length)?;
        let whole = &begin[..begin.len() - rest.len()];
        self.rest = rest;
        let (&attributes, behind) = body.split_first()?;
        body = behind;
        let timestamp_delta = varint(&mut body)?;
        let behind_timestamp = body;
        let offset_delta = i32::try_from(varint(&mut body)?).ok()?;
        let key = nullable(&mut body)?;
        let has_value = nullable(&mut body)?.is_some();
        Some(RecordSlice {
            whole,
            attributes,
            timestamp_delta,
            offset_delta,
            key,
            has_value,
            behind_timestamp,
        })
    }
}

impl<'a> Iterator for RecordSlices<'a> {
    type Item = Result<RecordSlice<'a>, MalformedRecord>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left <= 0 {
            let surplus = std::mem::take(&mut self.rest).len();
            return (surplus > 0)
                .then(|| Err(MalformedRecord(format!("{surplus} bytes behind the last record"))));
        }
        self.left -= 1;
        let record = self.record();
        if record.is_none() {
            (self.rest, self.left) = (&[], 0);
        }
        Some(record.ok_or_else(|| MalformedRecord("a record that is not laid out as one".to_owned())))
    }
}

impl RecordSlice<'_> {
    /// Writes the record with another timestamp delta.
    pub(crate) fn write_with_timestamp(&self, timestamp_delta: i64, out: &mut Vec<u8>) {
        let mut head = vec![self.attributes];
        put_varint(&mut head, timestamp_delta);
        put_varint(out, (head.len() + self.behind_timestamp.len()) as i64);
        out.extend_from_slice(&head);
        out.extend_from_slice(self.behind_timestamp);
    }
}

fn varint(bytes: &mut &[u8]) -> Option<i64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some((value >> 1) as i64 ^ -((value & 1) as i64));
        }
    }
    None
}

/// `None` for bytes that are not there, `Some(None)` for null.
fn nullable<'a>(bytes: &mut &'a [u8]) -> Option<Option<&'a [u8]>> {
    let length = varint(bytes)?;
    if length == -1 {
        return Some(None);
    }
    let (field, rest) = bytes.split_at_checked(usize::try_from(length).ok()?)?;
    *bytes = rest;
    Some(Some(field))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RecordBatchBuilder;

    #[test]
    fn records_are_seen_where_they_lie_and_written_again() {
        let builder = RecordBatchBuilder::new()
            .push(Some(b"k"), Some(b"v"), 1_000_000)
            .push(None, None, 999_000)
            .push_with_headers(Some(b""), Some(&[7; 300]), 2_000_000, &[(b"h", None)]);
        let bytes = builder.payload();
        let records: Vec<RecordSlice<'_>> = RecordSlices::new(bytes, 3).map(Result::unwrap).collect();
        let keys: Vec<_> = records.iter().map(|record| record.key).collect();
        assert_eq!(keys, [Some(&b"k"[..]), None, Some(b"")]);
        assert_eq!(records.iter().map(|record| record.has_value).collect::<Vec<_>>(), [true, false, true]);
        assert_eq!(
            records.iter().map(|record| record.timestamp_delta).collect::<Vec<_>>(),
            [0, -1000, 1_000_000]
        );
        let mut same = Vec::new();
        records.iter().for_each(|record| record.write_with_timestamp(record.timestamp_delta, &mut same));
        assert_eq!(same, bytes);
        assert_eq!(records.iter().flat_map(|record| record.whole.to_vec()).collect::<Vec<_>>(), bytes);
    }

    #[test]
    fn any_cut_and_any_surplus_is_an_error() {
        let builder = RecordBatchBuilder::new().push(Some(b"key"), Some(b"value"), 1).push(None, None, 2);
        let bytes = builder.payload();
        for cut in 0..bytes.len() {
            assert!(RecordSlices::new(&bytes[..cut], 2).any(|record| record.is_err()), "{cut}");
        }
        let longer = [bytes, &[0]].concat();
        assert!(RecordSlices::new(&longer, 2).any(|record| record.is_err()));
        assert!(RecordSlices::new(bytes, 1).any(|record| record.is_err()));
        assert_eq!(RecordSlices::new(&[], 0).count(), 0);
    }
}
