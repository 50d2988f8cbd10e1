//! What every message can do.

use bytes::Bytes;

use crate::registry::{ApiKey, VersionRange};
use crate::wire::codec::Struct;
use crate::wire::error::{DecodeError, DecodeErrorKind, EncodeError, EncodeErrorKind};
use crate::wire::reader::Reader;
use crate::wire::writer::Writer;

/// A message: a request, a response, a header or what a record holds.
pub trait Message: Struct + Default {
    /// The schema's name, such as `FetchRequest`.
    const NAME: &'static str;
    /// The versions that exist.
    const VALID: VersionRange;
    /// The first version with compact lengths and tagged fields.
    const FLEXIBLE_FROM: Option<i16>;

    /// Reads the message at `version`. Bytes that follow it stay in `r`, as Kafka has it.
    ///
    /// # Errors
    /// [`DecodeErrorKind::UnsupportedVersion`] outside [`Self::VALID`], and whatever is wrong with the bytes.
    fn decode(r: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VALID.contains(version) {
            return Err(DecodeErrorKind::UnsupportedVersion(version).into());
        }
        Self::read(r, version)
    }

    /// Reads a message that takes the whole of `bytes`: for files and tests.
    ///
    /// # Errors
    /// Those of [`Self::decode`], and [`DecodeErrorKind::TrailingBytes`].
    fn decode_exact(bytes: Bytes, version: i16) -> Result<Self, DecodeError> {
        let mut r = Reader::new(bytes);
        let message = Self::decode(&mut r, version)?;
        if r.remaining() > 0 {
            return Err(DecodeErrorKind::TrailingBytes.into());
        }
        Ok(message)
    }

    /// Writes the message at `version`.
    ///
    /// # Errors
    /// [`EncodeErrorKind::UnsupportedVersion`] outside [`Self::VALID`], and for a value that the version cannot carry.
    /// `w` then holds part of the message.
    fn encode(&self, w: &mut Writer, version: i16) -> Result<(), EncodeError> {
        if !Self::VALID.contains(version) {
            return Err(EncodeErrorKind::UnsupportedVersion(version).into());
        }
        self.write(w, version)
    }
}

/// A request, with its key and its response.
pub trait ApiRequest: Message {
    /// The key of the API.
    const KEY: ApiKey;
    /// What answers the request.
    type Response: Message;
}
