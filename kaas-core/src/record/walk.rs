//! Records inside a batch: a walk that materialises nothing, and one that yields whole records.
//!
//! ```text
//! record = length varint, attributes i8, timestampDelta varlong, offsetDelta varint,
//!          keyLength varint (-1 null), key, valueLength varint (-1 null), value,
//!          headerCount varint, header*      header = keyLength varint, key, valueLength varint, value
//! ```

use std::io::{BufRead, ErrorKind};

use super::BatchHeader;

/// A record that is not laid out as a record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct MalformedRecord(pub String);

/// What a record says about itself before its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordHead {
    /// Offset minus the batch's base offset.
    pub offset_delta: i32,
    /// Timestamp minus the batch's base timestamp.
    pub timestamp_delta: i64,
    /// Whether the key is not null.
    pub has_key: bool,
}

/// A whole record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Offset in the partition.
    pub offset: i64,
    /// Milliseconds since the epoch, or -1.
    pub timestamp: i64,
    /// The key, or null.
    pub key: Option<Vec<u8>>,
    /// The value, or null: a tombstone.
    pub value: Option<Vec<u8>>,
    /// Headers in order: name and value, which may be null.
    pub headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

/// Calls `visit` with each record's head, in order, and checks that the records end where the bytes do.
///
/// Stops early when `visit` returns false.
pub(crate) fn for_each_head<R: BufRead>(
    bytes: R,
    count: i32,
    mut visit: impl FnMut(RecordHead) -> bool,
) -> Result<(), MalformedRecord> {
    let mut cursor = Cursor { bytes, record_left: 0 };
    for _ in 0..count {
        let head = cursor.head()?;
        cursor.skip_rest()?;
        if !visit(head) {
            return Ok(());
        }
    }
    cursor.expect_end()
}

/// All records of a batch whose (decompressed) records are `bytes`.
pub(crate) fn read_records<R: BufRead>(
    header: &BatchHeader,
    bytes: R,
) -> Result<Vec<Record>, MalformedRecord> {
    let mut cursor = Cursor { bytes, record_left: 0 };
    let mut records = Vec::new();
    for _ in 0..header.record_count {
        records.push(cursor.record(header)?);
    }
    cursor.expect_end()?;
    Ok(records)
}

/// Why a walk over whole records ended early.
#[derive(Debug)]
pub(crate) enum RecordError {
    Malformed(MalformedRecord),
    /// A record of so many bytes, which is more than the caller has memory for.
    TooLarge(usize),
}

impl From<MalformedRecord> for RecordError {
    fn from(error: MalformedRecord) -> Self {
        Self::Malformed(error)
    }
}

/// Calls `visit` with each record of a batch whose (decompressed) records are `bytes`; holds one at a time, of at most
/// `record_bytes_max`.
pub(crate) fn for_each_record<R: BufRead>(
    header: &BatchHeader,
    bytes: R,
    record_bytes_max: usize,
    mut visit: impl FnMut(Record),
) -> Result<(), RecordError> {
    let mut cursor = Cursor { bytes, record_left: 0 };
    for _ in 0..header.record_count {
        cursor.begin()?;
        if cursor.record_left > record_bytes_max {
            return Err(RecordError::TooLarge(cursor.record_left));
        }
        visit(cursor.rest_of_record(header)?);
    }
    Ok(cursor.expect_end()?)
}

struct Cursor<R> {
    bytes: R,
    /// Bytes of the current record that have not been read.
    record_left: usize,
}

impl<R: BufRead> Cursor<R> {
    /// Reads the length of the next record.
    fn begin(&mut self) -> Result<(), MalformedRecord> {
        self.record_left = usize::MAX;
        let length = self.varint()?;
        self.record_left = usize::try_from(length).map_err(|_| bad(format!("record length {length}")))?;
        Ok(())
    }

    fn head(&mut self) -> Result<RecordHead, MalformedRecord> {
        self.begin()?;
        self.byte()?;
        let timestamp_delta = self.varlong()?;
        let offset_delta = self.varint()?;
        let key_length = self.varint()?;
        if key_length > 0 {
            self.skip(key_length)?;
        } else if key_length < -1 {
            return Err(bad(format!("key length {key_length}")));
        }
        Ok(RecordHead { offset_delta, timestamp_delta, has_key: key_length >= 0 })
    }

    fn skip_rest(&mut self) -> Result<(), MalformedRecord> {
        self.skip_nullable()?;
        for _ in 0..self.header_count()? {
            let name = self.varint()?;
            if name < 0 {
                return Err(bad(format!("header key length {name}")));
            }
            self.skip(name)?;
            self.skip_nullable()?;
        }
        self.expect_record_end()
    }

    fn record(&mut self, header: &BatchHeader) -> Result<Record, MalformedRecord> {
        self.begin()?;
        self.rest_of_record(header)
    }

    fn rest_of_record(&mut self, header: &BatchHeader) -> Result<Record, MalformedRecord> {
        self.byte()?;
        let timestamp_delta = self.varlong()?;
        let offset_delta = self.varint()?;
        let key = self.nullable()?;
        let value = self.nullable()?;
        let mut headers = Vec::new();
        for _ in 0..self.header_count()? {
            let name = self.nullable()?.ok_or_else(|| bad("a header without a key".to_owned()))?;
            headers.push((name, self.nullable()?));
        }
        self.expect_record_end()?;
        let offset = header.base_offset.wrapping_add(i64::from(offset_delta));
        Ok(Record { offset, timestamp: header.record_timestamp(timestamp_delta), key, value, headers })
    }

    fn header_count(&mut self) -> Result<i32, MalformedRecord> {
        let count = self.varint()?;
        if count < 0 {
            return Err(bad(format!("header count {count}")));
        }
        Ok(count)
    }

    fn nullable(&mut self) -> Result<Option<Vec<u8>>, MalformedRecord> {
        let length = self.varint()?;
        if length == -1 {
            return Ok(None);
        }
        let mut left = usize::try_from(length).map_err(|_| bad(format!("length {length}")))?;
        // Grows with what is there, not with what the length claims.
        let mut bytes = Vec::new();
        while left > 0 {
            let available = self.fill()?;
            let taken = available.len().min(left);
            bytes.extend_from_slice(&available[..taken]);
            self.consume(taken)?;
            left -= taken;
        }
        Ok(Some(bytes))
    }

    fn skip_nullable(&mut self) -> Result<(), MalformedRecord> {
        let length = self.varint()?;
        if length < -1 {
            return Err(bad(format!("value length {length}")));
        }
        self.skip(length.max(0))
    }

    fn skip(&mut self, length: i32) -> Result<(), MalformedRecord> {
        let mut left = usize::try_from(length).map_err(|_| bad(format!("length {length}")))?;
        while left > 0 {
            let taken = self.fill()?.len().min(left);
            self.consume(taken)?;
            left -= taken;
        }
        Ok(())
    }

    fn varint(&mut self) -> Result<i32, MalformedRecord> {
        let raw = self.unsigned(5)?;
        let raw = u32::try_from(raw).map_err(|_| bad("a varint of more than 32 bits".to_owned()))?;
        Ok((raw >> 1) as i32 ^ -((raw & 1) as i32))
    }

    fn varlong(&mut self) -> Result<i64, MalformedRecord> {
        let raw = self.unsigned(10)?;
        Ok((raw >> 1) as i64 ^ -((raw & 1) as i64))
    }

    fn unsigned(&mut self, bytes_max: u32) -> Result<u64, MalformedRecord> {
        let mut value = 0;
        for index in 0..bytes_max {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if index == 9 && bits > 1 {
                break;
            }
            value |= bits << (7 * index);
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(bad("a varint that does not end".to_owned()))
    }

    fn byte(&mut self) -> Result<u8, MalformedRecord> {
        let byte = self.fill()?[0];
        self.consume(1)?;
        Ok(byte)
    }

    /// The bytes at hand: at least one.
    fn fill(&mut self) -> Result<&[u8], MalformedRecord> {
        loop {
            match self.bytes.fill_buf() {
                Ok(_) => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(bad(format!("the records cannot be decompressed: {error}"))),
            }
        }
        match self.bytes.fill_buf() {
            Ok(bytes) if !bytes.is_empty() => Ok(bytes),
            _ => Err(bad("Incorrect declared batch size, premature EOF reached".to_owned())),
        }
    }

    fn consume(&mut self, n: usize) -> Result<(), MalformedRecord> {
        self.record_left = self
            .record_left
            .checked_sub(n)
            .ok_or_else(|| bad("a record that is longer than its length".to_owned()))?;
        self.bytes.consume(n);
        Ok(())
    }

    fn expect_record_end(&self) -> Result<(), MalformedRecord> {
        match self.record_left {
            0 => Ok(()),
            left => Err(bad(format!("a record that is {left} bytes shorter than its length"))),
        }
    }

    fn expect_end(&mut self) -> Result<(), MalformedRecord> {
        match self.bytes.fill_buf() {
            Ok([]) => Ok(()),
            Ok(_) => Err(bad("Incorrect declared batch size, records still remaining in file".to_owned())),
            Err(error) => Err(bad(format!("the records cannot be decompressed: {error}"))),
        }
    }
}

fn bad(why: String) -> MalformedRecord {
    MalformedRecord(why)
}
