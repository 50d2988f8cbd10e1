//! Kafka's JSON form of messages, and a table of all of them (feature `json`).
//!
//! The form is that of Kafka's own JSON converters: keys in camel case, bytes in base64, uuids in their text form,
//! tagged fields only when they have a value. It exists so that tests can compare what was decoded with what Kafka
//! says that the bytes mean.

use bytes::Bytes;
use serde_json::Value;
use uuid::Uuid;

use crate::message::Message;
use crate::registry::VersionRange;
use crate::{DecodeError, EncodeError, KStr, Reader, Records, Rope, Writer, uuid_text};

include!(concat!(env!("OUT_DIR"), "/catalogue.rs"));

/// A value in Kafka's JSON form.
pub trait ToJson {
    /// The value as a message of `version` has it.
    fn to_json(&self, version: i16) -> Value;
}

/// One message, with its type erased.
#[derive(Debug)]
pub struct CatalogueEntry {
    /// The schema's name.
    pub name: &'static str,
    /// The versions that exist.
    pub valid: VersionRange,
    /// The first flexible version.
    pub flexible_from: Option<i16>,
    /// Reads a message from the start of `bytes` and forgets it.
    pub check: fn(Bytes, i16) -> Result<(), DecodeError>,
    /// Reads a message from the start of `bytes`.
    pub decode: fn(Bytes, i16) -> Result<Decoded, DecodeError>,
    /// Writes the message of defaults.
    pub encode_default: fn(i16) -> Result<Rope, EncodeError>,
}

/// What came out of bytes.
#[derive(Debug)]
pub struct Decoded {
    /// The bytes that followed the message.
    pub rest: Bytes,
    /// The message in JSON.
    pub json: Value,
    /// The message written again, at the same version.
    pub again: Result<Rope, EncodeError>,
}

impl CatalogueEntry {
    const fn of<T: Message + ToJson>() -> Self {
        Self {
            name: T::NAME,
            valid: T::VALID,
            flexible_from: T::FLEXIBLE_FROM,
            check: |bytes, version| T::decode(&mut Reader::new(bytes), version).map(drop),
            decode: decode::<T>,
            encode_default: |version| encode(&T::default(), version),
        }
    }
}

fn decode<T: Message + ToJson>(bytes: Bytes, version: i16) -> Result<Decoded, DecodeError> {
    let mut r = Reader::new(bytes);
    let message = T::decode(&mut r, version)?;
    Ok(Decoded { rest: r.rest(), json: message.to_json(version), again: encode(&message, version) })
}

fn encode<T: Message>(message: &T, version: i16) -> Result<Rope, EncodeError> {
    let mut w = Writer::new();
    message.encode(&mut w, version)?;
    Ok(w.into_pieces())
}

macro_rules! plain_json {
    ($($ty:ty),*) => {
        $(impl ToJson for $ty {
            fn to_json(&self, _: i16) -> Value {
                (*self).into()
            }
        })*
    };
}

plain_json!(bool, i8, i16, u16, i32, u32, i64, f64);

impl ToJson for KStr {
    fn to_json(&self, _: i16) -> Value {
        self.as_str().into()
    }
}

impl ToJson for Uuid {
    fn to_json(&self, _: i16) -> Value {
        uuid_text::encode(self).into()
    }
}

impl ToJson for Bytes {
    fn to_json(&self, _: i16) -> Value {
        base64(self).into()
    }
}

impl ToJson for Records {
    /// Base64 for bytes in memory; null for a range of a file, which decoding never gives.
    fn to_json(&self, version: i16) -> Value {
        self.as_bytes().map_or(Value::Null, |bytes| bytes.to_json(version))
    }
}

impl<T: ToJson> ToJson for Option<T> {
    fn to_json(&self, version: i16) -> Value {
        self.as_ref().map_or(Value::Null, |value| value.to_json(version))
    }
}

impl<T: ToJson> ToJson for Vec<T> {
    fn to_json(&self, version: i16) -> Value {
        self.iter().map(|item| item.to_json(version)).collect()
    }
}

/// RFC 4648 base64 with padding.
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |index: usize| u32::from(chunk.get(index).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for index in 0..4 {
            let digit = (bits >> (18 - 6 * index)) & 0x3f;
            text.push(if index <= chunk.len() { char::from(ALPHABET[digit as usize]) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_rfc_4648s() {
        for (bytes, text) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")]
        {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }
}
