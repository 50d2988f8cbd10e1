//! Writing the records of a v2 batch; [`walk`](super::walk) has the layout.

/// One record, written field by field behind a length that is known at its end.
#[derive(Debug, Default)]
pub(super) struct RecordWriter(Vec<u8>);

impl RecordWriter {
    pub(super) fn begin(timestamp_delta: i64, offset_delta: i32) -> Self {
        let mut record = Self(Vec::new());
        record.restart(timestamp_delta, offset_delta);
        record
    }

    /// Begins another record in the same memory.
    pub(super) fn restart(&mut self, timestamp_delta: i64, offset_delta: i32) {
        self.0.clear();
        self.0.push(0);
        put_varint(&mut self.0, timestamp_delta);
        put_varint(&mut self.0, i64::from(offset_delta));
    }

    pub(super) fn put(
        &mut self,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[(&[u8], Option<&[u8]>)],
    ) {
        self.nullable(key);
        self.nullable(value);
        put_varint(&mut self.0, headers.len() as i64);
        for (name, value) in headers {
            self.nullable(Some(name));
            self.nullable(*value);
        }
    }

    /// Appends the record, its length first.
    pub(super) fn finish(&self, out: &mut Vec<u8>) {
        put_varint(out, self.0.len() as i64);
        out.extend_from_slice(&self.0);
    }

    fn nullable(&mut self, bytes: Option<&[u8]>) {
        match bytes {
            None => put_varint(&mut self.0, -1),
            Some(bytes) => {
                put_varint(&mut self.0, bytes.len() as i64);
                self.0.extend_from_slice(bytes);
            }
        }
    }
}

pub(super) fn put_varint(out: &mut Vec<u8>, value: i64) {
    let mut rest = ((value << 1) ^ (value >> 63)) as u64;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}
