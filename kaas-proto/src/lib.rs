//! Kafka 3.7's wire protocol: every message at every version, generated from its schemas.
//!
//! One struct holds all versions of a message; [`Message::decode`] and [`Message::encode`] take the version.
//!
//! ```
//! use bytes::Bytes;
//! use kaas_proto::messages::fetch_request::{FetchPartition, FetchRequest, FetchTopic};
//! use kaas_proto::{Message, Reader, Writer};
//!
//! let partition = FetchPartition { partition: 3, fetch_offset: 42, ..FetchPartition::default() };
//! let topic = FetchTopic { topic: "orders".into(), partitions: vec![partition], ..FetchTopic::default() };
//! let request = FetchRequest { max_wait_ms: 500, topics: vec![topic], ..FetchRequest::default() };
//!
//! let mut writer = Writer::new();
//! request.encode(&mut writer, 12)?;
//! let frame: Bytes = writer.into_pieces().to_bytes()?;
//! assert_eq!(FetchRequest::decode(&mut Reader::new(frame), 12)?, request);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The wire rules on one page
//!
//! **Frames.** A request or response on a connection is a big-endian `int32` length, a header and a body. The codec
//! deals with what follows the length. [`header`] says which header version precedes which body.
//!
//! **Integers** are big-endian and of fixed size. `bool` is one byte, zero or not. `float64` is IEEE 754. `uuid` is
//! 16 bytes. A `uvarint` has seven bits a byte, the lowest first, the top bit saying that more follow; five bytes at
//! most, and never a byte more than the number needs.
//!
//! **Lengths.** In classic versions a string has an `int16` length; bytes, records and arrays have an `int32` one;
//! -1 is null. In flexible versions all have a `uvarint` of length + 1, and 0 is null. A string is UTF-8 of at most
//! 32767 bytes. A nullable struct has a byte before it: 1, or -1 for null.
//!
//! **Tagged fields** end every struct of a flexible version: a `uvarint` count, then for each a `uvarint` tag, a
//! `uvarint` size and the value, tags in rising order. A field that has its default is not written. A tag that is
//! not known is skipped.
//!
//! **Versions.** A field that a version does not have keeps its default when it is read. When it is written, a value
//! other than the default is an error, unless the schema calls the field ignorable.
//!
//! # What hostile bytes can do
//!
//! Decoding gives a typed [`DecodeError`] with the path of the field, and never panics. Text, bytes and records are
//! slices of the frame. The elements of arrays are all that is allocated: a count is refused when the bytes that
//! remain cannot hold that many of the smallest element, and when the elements would take more than
//! [`wire::reader::HEAP_PER_BYTE`] times the frame (or [`wire::reader::HEAP_FLOOR`], if that is more).
//!
//! Kafka's own reader takes some bytes that no client writes and that this one refuses: lengths below -1 (null there),
//! text that is not UTF-8 (replaced by U+FFFD there), varints with bytes that they do not need, tags that come twice or
//! out of order, and tagged fields of another size than they claim.
//!
//! # Features
//!
//! `json` adds Kafka's JSON form of every message and a table of all messages, `json::CATALOGUE`. It is meant for tests.

#[cfg(feature = "json")]
pub mod json;

pub mod body;
pub mod error_code;
pub mod header;
pub mod message;
pub mod registry;
pub mod uuid_text;
pub mod wire;

/// Requests and responses: a module for each, and the message itself re-exported.
pub mod messages {
    include!(concat!(env!("OUT_DIR"), "/messages.rs"));
}

/// Request and response headers as the schemas have them; [`crate::header`] says which one to use.
pub mod headers {
    include!(concat!(env!("OUT_DIR"), "/headers.rs"));
}

/// What is stored in records of internal topics or carried in opaque bytes.
pub mod records {
    include!(concat!(env!("OUT_DIR"), "/records.rs"));
}

pub use body::{RequestBody, ResponseBody};
pub use error_code::ErrorCode;
pub use message::{ApiRequest, Message};
pub use registry::{APIS, ApiInfo, ApiKey, VersionRange};
pub use wire::error::{DecodeError, DecodeErrorKind, EncodeError, EncodeErrorKind};
pub use wire::kstr::KStr;
pub use wire::reader::Reader;
pub use wire::records::{FileSlice, Records};
pub use wire::rope::{Piece, Rope};
pub use wire::writer::Writer;
