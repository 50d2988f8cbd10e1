//! Reading values from a frame, without copies and without trust.

use bytes::Bytes;
use uuid::Uuid;

use super::codec::Struct;
use super::error::{DecodeError, DecodeErrorKind};
use super::kstr::KStr;
use super::records::Records;

/// The bytes of array elements that a frame may decode to, for each byte of the frame.
pub const HEAP_PER_BYTE: usize = 4;

/// The bytes of array elements that any frame may decode to, however small it is. Short names take more memory than
/// wire, and a small frame full of them is harmless.
pub const HEAP_FLOOR: usize = 1 << 20;

/// The longest string, in bytes.
pub(super) const STRING_LENGTH_MAX: usize = i16::MAX as usize;

/// The bytes of the longest varint of 32 bits.
const UVARINT_LENGTH_MAX: usize = 5;

type Result<T, E = DecodeErrorKind> = std::result::Result<T, E>;

/// A cursor over a frame. Values that it gives are slices of the frame and keep it alive.
#[derive(Clone, Debug)]
pub struct Reader {
    frame: Bytes,
    position: usize,
    /// Where the value that is being read must end: the end of the frame, or of a tagged field.
    end: usize,
    /// The bytes that array elements may still take.
    heap_left: usize,
}

impl Reader {
    /// A reader at the start of `frame`.
    pub fn new(frame: Bytes) -> Self {
        let heap_left = frame.len().saturating_mul(HEAP_PER_BYTE).max(HEAP_FLOOR);
        Self { position: 0, end: frame.len(), frame, heap_left }
    }

    /// The bytes that are not read yet.
    pub fn remaining(&self) -> usize {
        self.end - self.position
    }

    /// The bytes that are not read yet, as a slice of the frame.
    pub fn rest(&self) -> Bytes {
        self.frame.slice(self.position..self.end)
    }

    /// Passes over `length` bytes and gives them.
    #[inline]
    fn take(&mut self, length: usize) -> Result<&[u8]> {
        if length > self.remaining() {
            return Err(DecodeErrorKind::Truncated);
        }
        let start = self.position;
        self.position += length;
        Ok(&self.frame[start..self.position])
    }

    /// Passes over `length` bytes and gives a view of them.
    fn slice(&mut self, length: usize) -> Result<Bytes> {
        let start = self.position;
        self.take(length)?;
        Ok(self.frame.slice(start..start + length))
    }

    #[inline]
    fn array_of<const N: usize>(&mut self) -> Result<[u8; N]> {
        let bytes = self.take(N)?;
        Ok(bytes.try_into().expect("take gives as many bytes as it is asked for"))
    }

    /// One byte; any but zero is true.
    #[inline]
    pub fn bool(&mut self) -> Result<bool> {
        Ok(self.array_of::<1>()?[0] != 0)
    }

    /// One byte.
    #[inline]
    pub fn i8(&mut self) -> Result<i8> {
        self.array_of().map(i8::from_be_bytes)
    }

    /// Two bytes.
    #[inline]
    pub fn i16(&mut self) -> Result<i16> {
        self.array_of().map(i16::from_be_bytes)
    }

    /// Two bytes, without a sign.
    #[inline]
    pub fn u16(&mut self) -> Result<u16> {
        self.array_of().map(u16::from_be_bytes)
    }

    /// Four bytes.
    #[inline]
    pub fn i32(&mut self) -> Result<i32> {
        self.array_of().map(i32::from_be_bytes)
    }

    /// Four bytes, without a sign.
    #[inline]
    pub fn u32(&mut self) -> Result<u32> {
        self.array_of().map(u32::from_be_bytes)
    }

    /// Eight bytes.
    #[inline]
    pub fn i64(&mut self) -> Result<i64> {
        self.array_of().map(i64::from_be_bytes)
    }

    /// Eight bytes, IEEE 754.
    #[inline]
    pub fn f64(&mut self) -> Result<f64> {
        self.array_of().map(f64::from_be_bytes)
    }

    /// Sixteen bytes.
    #[inline]
    pub fn uuid(&mut self) -> Result<Uuid> {
        self.array_of().map(Uuid::from_bytes)
    }

    /// One to five bytes, seven bits each, the lowest first.
    #[inline]
    pub fn uvarint(&mut self) -> Result<u32> {
        let mut value = 0u32;
        for index in 0..UVARINT_LENGTH_MAX {
            let byte = self.array_of::<1>()?[0];
            let bits = u32::from(byte & 0x7f);
            // The fifth byte has room for four bits, and a last byte of zero says nothing.
            if (index == UVARINT_LENGTH_MAX - 1 && byte > 0x0f) || (index > 0 && byte == 0) {
                return Err(DecodeErrorKind::BadVarint);
            }
            value |= bits << (7 * index);
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(DecodeErrorKind::BadVarint)
    }

    /// The length before a string; `None` for null.
    fn string_length(&mut self, flex: bool) -> Result<Option<usize>> {
        if flex { self.compact_length() } else { classic_length(self.i16()?.into()) }
    }

    /// The length before bytes, records or an array; `None` for null.
    fn length(&mut self, flex: bool) -> Result<Option<usize>> {
        if flex { self.compact_length() } else { classic_length(self.i32()?) }
    }

    fn compact_length(&mut self) -> Result<Option<usize>> {
        Ok(self.uvarint()?.checked_sub(1).map(|length| length as usize))
    }

    /// A string or null.
    pub fn opt_string(&mut self, flex: bool) -> Result<Option<KStr>> {
        let Some(length) = self.string_length(flex)? else {
            return Ok(None);
        };
        if length > STRING_LENGTH_MAX {
            return Err(DecodeErrorKind::StringTooLong);
        }
        match KStr::from_utf8(self.slice(length)?) {
            Ok(text) => Ok(Some(text)),
            Err(_) => Err(DecodeErrorKind::NotUtf8),
        }
    }

    /// A string.
    pub fn string(&mut self, flex: bool) -> Result<KStr> {
        not_null(self.opt_string(flex)?)
    }

    /// Bytes or null.
    pub fn opt_bytes(&mut self, flex: bool) -> Result<Option<Bytes>> {
        match self.length(flex)? {
            Some(length) => self.slice(length).map(Some),
            None => Ok(None),
        }
    }

    /// Bytes.
    pub fn bytes(&mut self, flex: bool) -> Result<Bytes> {
        not_null(self.opt_bytes(flex)?)
    }

    /// Records or null.
    pub fn opt_records(&mut self, flex: bool) -> Result<Option<Records>> {
        Ok(self.opt_bytes(flex)?.map(Records::Bytes))
    }

    /// Records.
    pub fn records(&mut self, flex: bool) -> Result<Records> {
        self.bytes(flex).map(Records::Bytes)
    }

    /// A struct or null, told apart by a byte.
    pub fn opt_struct<T: Struct>(&mut self, version: i16) -> Result<Option<T>, DecodeError> {
        if self.i8()? < 0 {
            return Ok(None);
        }
        T::read(self, version).map(Some)
    }

    /// An array of structs or null.
    pub fn opt_structs<T: Struct>(
        &mut self,
        flex: bool,
        version: i16,
    ) -> Result<Option<Vec<T>>, DecodeError> {
        self.opt_array(flex, T::size_min(version), |r| T::read(r, version))
    }

    /// An array of structs.
    pub fn structs<T: Struct>(&mut self, flex: bool, version: i16) -> Result<Vec<T>, DecodeError> {
        Ok(not_null(self.opt_structs(flex, version)?)?)
    }

    /// An array or null. `size_min` is the least size of an element on the wire, in bytes.
    pub fn opt_array<T, E: Into<DecodeError>>(
        &mut self,
        flex: bool,
        size_min: usize,
        mut element: impl FnMut(&mut Self) -> Result<T, E>,
    ) -> Result<Option<Vec<T>>, DecodeError> {
        let Some(count) = self.length(flex)? else {
            return Ok(None);
        };
        if count > self.remaining() / size_min.max(1) {
            return Err(DecodeErrorKind::ArrayTooLong.into());
        }
        // Paid for before anything is allocated; then the exact size can be reserved at once.
        let Some(heap_left) = self.heap_left.checked_sub(count.saturating_mul(size_of::<T>())) else {
            return Err(DecodeErrorKind::TooMuchMemory.into());
        };
        self.heap_left = heap_left;
        let mut elements = Vec::with_capacity(count);
        for _ in 0..count {
            elements.push(element(self).map_err(Into::into)?);
        }
        Ok(Some(elements))
    }

    /// An array. `size_min` is the least size of an element on the wire, in bytes.
    pub fn array<T, E: Into<DecodeError>>(
        &mut self,
        flex: bool,
        size_min: usize,
        element: impl FnMut(&mut Self) -> Result<T, E>,
    ) -> Result<Vec<T>, DecodeError> {
        Ok(not_null(self.opt_array(flex, size_min, element)?)?)
    }

    /// The tagged fields at the end of a struct. `known` reads the value of a tag that it knows; for one that it does
    /// not know it says false and reads nothing.
    pub fn tags(
        &mut self,
        mut known: impl FnMut(&mut Self, u32) -> Result<bool, DecodeError>,
    ) -> Result<(), DecodeError> {
        let mut previous = None;
        for _ in 0..self.uvarint()? {
            let tag = self.uvarint()?;
            if previous.is_some_and(|previous| previous >= tag) {
                return Err(DecodeErrorKind::TagOutOfOrder.into());
            }
            previous = Some(tag);
            let size = self.uvarint()? as usize;
            if size > self.remaining() {
                return Err(DecodeErrorKind::Truncated.into());
            }
            let outer_end = std::mem::replace(&mut self.end, self.position + size);
            if !known(self, tag)? {
                self.position = self.end;
            }
            if self.position != self.end {
                return Err(DecodeErrorKind::TaggedFieldSize.into());
            }
            self.end = outer_end;
        }
        Ok(())
    }

    /// The tagged fields at the end of a struct that knows none.
    pub fn skip_tags(&mut self) -> Result<(), DecodeError> {
        self.tags(|_, _| Ok(false))
    }
}

fn classic_length(length: i32) -> Result<Option<usize>> {
    match usize::try_from(length) {
        Ok(length) => Ok(Some(length)),
        Err(_) if length == -1 => Ok(None),
        Err(_) => Err(DecodeErrorKind::NegativeLength),
    }
}

fn not_null<T>(value: Option<T>) -> Result<T> {
    value.ok_or(DecodeErrorKind::UnexpectedNull)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Writer;

    fn reader(bytes: &'static [u8]) -> Reader {
        Reader::new(Bytes::from_static(bytes))
    }

    proptest! {
        #[test]
        fn a_varint_has_one_form(value: u32) {
            let mut w = Writer::new();
            w.uvarint(value);
            let bytes = w.into_pieces().to_bytes().unwrap();
            prop_assert_eq!(Reader::new(bytes).uvarint(), Ok(value));
        }
    }

    #[test]
    fn varints_that_are_too_long_are_refused() {
        assert_eq!(reader(b"\xff\xff\xff\xff\x0f").uvarint(), Ok(u32::MAX));
        for bad in [&b"\xff\xff\xff\xff\x1f"[..], b"\xff\xff\xff\xff\x8f\x00", b"\x80\x00", b"\x81\x80\x00"] {
            assert_eq!(
                Reader::new(Bytes::copy_from_slice(bad)).uvarint(),
                Err(DecodeErrorKind::BadVarint),
                "{bad:?}"
            );
        }
        assert_eq!(reader(b"\x80").uvarint(), Err(DecodeErrorKind::Truncated));
    }

    #[test]
    fn strings_are_checked() {
        assert_eq!(reader(b"\x00\x02hi").string(false).unwrap(), "hi");
        assert_eq!(reader(b"\x03hi").string(true).unwrap(), "hi");
        assert_eq!(reader(b"\xff\xff").opt_string(false), Ok(None));
        assert_eq!(reader(b"\x00").opt_string(true), Ok(None));
        assert_eq!(reader(b"\xff\xff").string(false), Err(DecodeErrorKind::UnexpectedNull));
        assert_eq!(reader(b"\x00").string(true), Err(DecodeErrorKind::UnexpectedNull));
        assert_eq!(reader(b"\xff\xfe").opt_string(false), Err(DecodeErrorKind::NegativeLength));
        assert_eq!(reader(b"\x00\x03hi").string(false), Err(DecodeErrorKind::Truncated));
        assert_eq!(reader(b"\x02\xff").string(true), Err(DecodeErrorKind::NotUtf8));
        // 32768 + 1 as a varint: refused by its length alone.
        assert_eq!(reader(b"\x81\x80\x02").string(true), Err(DecodeErrorKind::StringTooLong));
    }

    #[test]
    fn a_huge_count_is_refused_before_it_costs_anything() {
        let mut r = reader(b"\x7f\xff\xff\xff\0\0\0\0");
        let error = r.array(false, 4, Reader::i32).unwrap_err();
        assert_eq!(error.kind, DecodeErrorKind::ArrayTooLong);
        let mut r = reader(b"\xff\xff\xff\xff\x0f\0\0\0\0");
        assert_eq!(r.array(true, 4, Reader::i32).unwrap_err().kind, DecodeErrorKind::ArrayTooLong);
    }

    #[test]
    fn elements_out_of_proportion_are_refused() {
        // A million empty strings: two bytes each on the wire, 32 in memory.
        let count = 1 << 20;
        let mut frame = i32::to_be_bytes(count).to_vec();
        frame.resize(4 + 2 * count as usize, 0);
        let mut r = Reader::new(frame.into());
        let error = r.array(false, 2, |r| r.string(false)).unwrap_err();
        assert_eq!(error.kind, DecodeErrorKind::TooMuchMemory);
    }

    #[test]
    fn arrays_share_what_a_frame_may_take() {
        // Two arrays of two-byte strings: each takes all that the frame allows, eight times its own size.
        let count = 40_000;
        let array = [&i32::to_be_bytes(count)[..], &b"\x00\x02hi".repeat(count as usize)].concat();
        let mut r = Reader::new(array.repeat(2).into());
        assert_eq!(r.array(false, 2, |r| r.string(false)).map(|strings| strings.len()), Ok(40_000));
        let error = r.array(false, 2, |r| r.string(false)).unwrap_err();
        assert_eq!(error.kind, DecodeErrorKind::TooMuchMemory);
    }

    #[test]
    fn tags_rise_and_have_the_size_that_they_claim() {
        // Tag 1 of two bytes, unknown; tag 4 of one byte, known.
        let mut r = reader(b"\x02\x01\x02zz\x04\x01\x07");
        let mut seen = None;
        r.tags(|r, tag| {
            if tag != 4 {
                return Ok(false);
            }
            seen = Some(r.i8()?);
            Ok(true)
        })
        .unwrap();
        assert_eq!((seen, r.remaining()), (Some(7), 0));

        let kind = |bytes| reader(bytes).tags(|r, _| Ok(r.i8().map(|_| true)?)).unwrap_err().kind;
        assert_eq!(kind(b"\x02\x01\x01z\x01\x01z"), DecodeErrorKind::TagOutOfOrder);
        assert_eq!(kind(b"\x02\x02\x01z\x01\x01z"), DecodeErrorKind::TagOutOfOrder);
        assert_eq!(kind(b"\x01\x01\x02zz"), DecodeErrorKind::TaggedFieldSize);
        assert_eq!(kind(b"\x01\x01\x00z"), DecodeErrorKind::Truncated);
        assert_eq!(kind(b"\x01\x01\x09z"), DecodeErrorKind::Truncated);
    }
}
