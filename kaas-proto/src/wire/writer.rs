//! Writing values into a rope: small ones are copied into a buffer, large ones are linked.

use bytes::{BufMut, Bytes, BytesMut};
use uuid::Uuid;

use super::codec::Struct;
use super::error::{EncodeError, EncodeErrorKind};
use super::kstr::KStr;
use super::reader::STRING_LENGTH_MAX;
use super::records::Records;
use super::rope::{Piece, Rope};

/// From this length on, bytes are linked into the rope and not copied.
pub const LINK_LENGTH_MIN: usize = 1024;

type Result<T, E = EncodeErrorKind> = std::result::Result<T, E>;

/// Builds the rope of a frame.
#[derive(Debug, Default)]
pub struct Writer {
    pieces: Vec<Piece>,
    tail: BytesMut,
}

impl Writer {
    /// An empty writer.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty writer with room for `capacity` bytes of small values.
    pub fn with_capacity(capacity: usize) -> Self {
        Self { pieces: Vec::new(), tail: BytesMut::with_capacity(capacity) }
    }

    /// What was written.
    pub fn into_pieces(mut self) -> Rope {
        self.end_tail();
        Rope { pieces: self.pieces }
    }

    /// The length of what was written, in bytes.
    pub fn len(&self) -> usize {
        self.pieces.iter().map(Piece::len).sum::<usize>() + self.tail.len()
    }

    /// Whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty() && self.tail.is_empty()
    }

    fn end_tail(&mut self) {
        if !self.tail.is_empty() {
            self.pieces.push(Piece::Bytes(self.tail.split().freeze()));
        }
    }

    /// Bytes as they are, without a length.
    pub fn raw(&mut self, bytes: &Bytes) {
        if bytes.len() < LINK_LENGTH_MIN {
            self.tail.put_slice(bytes);
        } else {
            self.end_tail();
            self.pieces.push(Piece::Bytes(bytes.clone()));
        }
    }

    /// One byte, 1 or 0.
    #[inline]
    pub fn bool(&mut self, value: bool) {
        self.tail.put_u8(value.into());
    }

    /// One byte.
    #[inline]
    pub fn i8(&mut self, value: i8) {
        self.tail.put_i8(value);
    }

    /// Two bytes.
    #[inline]
    pub fn i16(&mut self, value: i16) {
        self.tail.put_i16(value);
    }

    /// Two bytes, without a sign.
    #[inline]
    pub fn u16(&mut self, value: u16) {
        self.tail.put_u16(value);
    }

    /// Four bytes.
    #[inline]
    pub fn i32(&mut self, value: i32) {
        self.tail.put_i32(value);
    }

    /// Four bytes, without a sign.
    #[inline]
    pub fn u32(&mut self, value: u32) {
        self.tail.put_u32(value);
    }

    /// Eight bytes.
    #[inline]
    pub fn i64(&mut self, value: i64) {
        self.tail.put_i64(value);
    }

    /// Eight bytes, IEEE 754.
    #[inline]
    pub fn f64(&mut self, value: f64) {
        self.tail.put_f64(value);
    }

    /// Sixteen bytes.
    #[inline]
    pub fn uuid(&mut self, value: Uuid) {
        self.tail.put_slice(value.as_bytes());
    }

    /// One to five bytes, seven bits each, the lowest first.
    #[inline]
    pub fn uvarint(&mut self, mut value: u32) {
        while value >= 0x80 {
            self.tail.put_u8(value as u8 | 0x80);
            value >>= 7;
        }
        self.tail.put_u8(value as u8);
    }

    /// The length before bytes, records or an array; `None` for null.
    fn length(&mut self, length: Option<usize>, flex: bool) -> Result<()> {
        // What fits an int32 also fits a uvarint after one is added.
        let length = match length.map(i32::try_from) {
            None => -1,
            Some(Ok(length)) => length,
            Some(Err(_)) => return Err(EncodeErrorKind::TooLong),
        };
        if flex {
            self.uvarint(length.wrapping_add(1) as u32);
        } else {
            self.i32(length);
        }
        Ok(())
    }

    /// A string or null.
    pub fn opt_string(&mut self, value: Option<&KStr>, flex: bool) -> Result<()> {
        let length = value.map(|text| text.len());
        if length.is_some_and(|length| length > STRING_LENGTH_MAX) {
            return Err(EncodeErrorKind::StringTooLong);
        }
        match (length, flex) {
            (_, true) => self.length(length, true)?,
            (Some(length), false) => self.i16(length as i16),
            (None, false) => self.i16(-1),
        }
        if let Some(text) = value {
            self.raw(text.as_bytes());
        }
        Ok(())
    }

    /// A string.
    pub fn string(&mut self, value: &KStr, flex: bool) -> Result<()> {
        self.opt_string(Some(value), flex)
    }

    /// Bytes or null.
    pub fn opt_bytes(&mut self, value: Option<&Bytes>, flex: bool) -> Result<()> {
        self.length(value.map(Bytes::len), flex)?;
        if let Some(bytes) = value {
            self.raw(bytes);
        }
        Ok(())
    }

    /// Bytes.
    pub fn bytes(&mut self, value: &Bytes, flex: bool) -> Result<()> {
        self.opt_bytes(Some(value), flex)
    }

    /// Records or null.
    pub fn opt_records(&mut self, value: Option<&Records>, flex: bool) -> Result<()> {
        self.length(value.map(Records::len), flex)?;
        match value {
            Some(Records::Bytes(bytes)) => self.raw(bytes),
            Some(Records::File(slice)) if slice.len > 0 => {
                self.end_tail();
                self.pieces.push(Piece::File(slice.clone()));
            }
            Some(Records::File(_)) | None => {}
        }
        Ok(())
    }

    /// Records.
    pub fn records(&mut self, value: &Records, flex: bool) -> Result<()> {
        self.opt_records(Some(value), flex)
    }

    /// A struct or null, told apart by a byte.
    pub fn opt_struct<T: Struct>(&mut self, value: Option<&T>, version: i16) -> Result<(), EncodeError> {
        self.i8(if value.is_some() { 1 } else { -1 });
        value.map_or(Ok(()), |value| value.write(self, version))
    }

    /// An array of structs or null.
    pub fn opt_structs<T: Struct>(
        &mut self,
        value: Option<&Vec<T>>,
        flex: bool,
        version: i16,
    ) -> Result<(), EncodeError> {
        self.opt_array(value, flex, |w, item| item.write(w, version))
    }

    /// An array of structs.
    pub fn structs<T: Struct>(&mut self, value: &[T], flex: bool, version: i16) -> Result<(), EncodeError> {
        self.array(value, flex, |w, item| item.write(w, version))
    }

    /// An array or null.
    pub fn opt_array<T, E: Into<EncodeError>>(
        &mut self,
        value: Option<&Vec<T>>,
        flex: bool,
        element: impl FnMut(&mut Self, &T) -> Result<(), E>,
    ) -> Result<(), EncodeError> {
        match value {
            Some(items) => self.array(items, flex, element),
            None => Ok(self.length(None, flex)?),
        }
    }

    /// An array.
    pub fn array<T, E: Into<EncodeError>>(
        &mut self,
        value: &[T],
        flex: bool,
        mut element: impl FnMut(&mut Self, &T) -> Result<(), E>,
    ) -> Result<(), EncodeError> {
        self.length(Some(value.len()), flex)?;
        value.iter().try_for_each(|item| element(self, item).map_err(Into::into))
    }

    /// A tagged field: its tag, its size, and the value that `write` writes.
    pub fn tagged(
        &mut self,
        tag: u32,
        write: impl FnOnce(&mut Self) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError> {
        // The size comes first, so the value is written aside. Tagged values are few and small.
        let mut value = Self::new();
        write(&mut value)?;
        self.uvarint(tag);
        self.uvarint(u32::try_from(value.len()).map_err(|_| EncodeErrorKind::TooLong)?);
        for piece in value.into_pieces().pieces {
            match piece {
                Piece::Bytes(bytes) => self.raw(&bytes),
                file => {
                    self.end_tail();
                    self.pieces.push(file);
                }
            }
        }
        Ok(())
    }
}

/// The value of a field that the version does not let be null.
pub(crate) fn required<T>(value: &Option<T>) -> Result<&T> {
    value.as_ref().ok_or(EncodeErrorKind::UnexpectedNull)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::FileSlice;

    #[test]
    fn large_bytes_are_linked_and_small_ones_copied() {
        let large = Bytes::from(vec![7u8; LINK_LENGTH_MIN]);
        let small = Bytes::from(vec![8u8; LINK_LENGTH_MIN - 1]);
        let mut w = Writer::new();
        w.bytes(&large, false).unwrap();
        w.bytes(&small, false).unwrap();
        let rope = w.into_pieces();
        let [Piece::Bytes(head), Piece::Bytes(linked), Piece::Bytes(tail)] = rope.pieces.as_slice() else {
            panic!("{rope:?}");
        };
        assert_eq!((head.len(), tail.len()), (4, 4 + small.len()));
        assert_eq!(linked.as_ptr(), large.as_ptr());
        assert_eq!(rope.len(), 8 + large.len() + small.len());
        assert_eq!(rope.to_bytes().unwrap().len(), rope.len());
    }

    #[test]
    fn a_range_of_a_file_takes_the_place_of_bytes() {
        let file = Arc::new(std::fs::File::open(file!().replace("kaas-proto/", "")).unwrap());
        let slice = FileSlice { file, offset: 3, len: 10 };
        let mut w = Writer::new();
        w.records(&slice.clone().into(), true).unwrap();
        w.i8(1);
        let rope = w.into_pieces();
        assert_eq!(rope.pieces[1], Piece::File(slice));
        assert_eq!(rope.len(), 1 + 10 + 1);
        assert_eq!(rope.to_bytes().unwrap_err().kind, EncodeErrorKind::FileInside);
    }

    #[test]
    fn long_strings_are_refused() {
        let text = KStr::from("x".repeat(STRING_LENGTH_MAX + 1));
        for flex in [false, true] {
            assert_eq!(Writer::new().string(&text, flex), Err(EncodeErrorKind::StringTooLong));
        }
    }
}
