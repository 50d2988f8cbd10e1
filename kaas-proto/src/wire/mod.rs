//! What the generated codec stands on: reading, writing, and the types of fields.

pub mod error;
pub mod kstr;
pub mod reader;
pub mod records;
pub mod rope;
pub mod writer;

/// What generated modules use.
pub mod codec {
    pub use bytes::Bytes;
    pub use uuid::Uuid;

    pub use super::error::{DecodeError, DecodeErrorKind, EncodeError, EncodeErrorKind};
    pub use super::kstr::KStr;
    pub use super::reader::Reader;
    pub use super::records::Records;
    pub use super::writer::Writer;
    pub use crate::message::{ApiRequest, Message};
    pub use crate::registry::{ApiKey, VersionRange};

    pub(crate) use super::error::At;
    pub(crate) use super::writer::required;

    /// A struct of a message: what nested structs and messages have in common.
    ///
    /// `version` is one of the message's valid versions; [`Message`] checks that.
    pub trait Struct: Sized {
        /// The least number of bytes that a value takes at `version`.
        fn size_min(version: i16) -> usize;
        /// Reads a value.
        fn read(r: &mut Reader, version: i16) -> Result<Self, DecodeError>;
        /// Writes the value.
        fn write(&self, w: &mut Writer, version: i16) -> Result<(), EncodeError>;
    }

    /// Stands for a secret in `Debug`.
    pub(crate) struct Redacted;

    impl std::fmt::Debug for Redacted {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("<redacted>")
        }
    }
}
