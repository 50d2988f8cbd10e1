//! Small state as JSON that people can read, with a checksum in the object itself.
//!
//! The checksum is CRC-32C over the object's compact form, keys sorted, without its `crc32c` member.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io;

use crate::volume::{Volume, read_file};

/// The largest state file that is read into memory.
pub(crate) const STATE_FILE_BYTES_MAX: u64 = 256 << 20;

const CRC_KEY: &str = "crc32c";

/// State bytes that do not say what they must.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{path} is damaged: {why}")]
pub struct DamagedState {
    /// The file, relative to the volume.
    pub path: String,
    /// What is wrong with it.
    pub why: String,
}

/// The state, laid out for people.
pub(crate) fn encode<T: Serialize>(state: &T) -> io::Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec_pretty(&with_checksum(state)?)?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// The state on one line, for what may be large.
pub(crate) fn encode_compact<T: Serialize>(state: &T) -> io::Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec(&with_checksum(state)?)?;
    bytes.push(b'\n');
    Ok(bytes)
}

pub(crate) fn decode<T: DeserializeOwned>(path: &str, bytes: &[u8]) -> Result<T, DamagedState> {
    let damaged = |why: String| DamagedState { path: path.to_owned(), why };
    let mut value: Value = serde_json::from_slice(bytes).map_err(|error| damaged(error.to_string()))?;
    let stored = value.as_object_mut().and_then(|members| members.remove(CRC_KEY));
    let value = sorted(value);
    let crc = checksum(&value).map_err(|error| damaged(error.to_string()))?;
    if stored != Some(Value::from(crc)) {
        return Err(damaged("its checksum is wrong".to_owned()));
    }
    serde_json::from_value(value).map_err(|error| damaged(error.to_string()))
}

/// Reads state: `Ok(None)` when the file does not exist.
pub(crate) fn load<T: DeserializeOwned>(
    volume: &dyn Volume,
    path: &str,
) -> io::Result<Option<Result<T, DamagedState>>> {
    match read_file(volume, path, STATE_FILE_BYTES_MAX) {
        Ok(bytes) => Ok(Some(decode(path, &bytes))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn with_checksum<T: Serialize>(state: &T) -> io::Result<Value> {
    let mut value = sorted(serde_json::to_value(state)?);
    let crc = checksum(&value)?;
    if let Value::Object(members) = &mut value {
        members.insert(CRC_KEY.to_owned(), Value::from(crc));
    }
    Ok(sorted(value))
}

/// The same value with the members of every object in the order of their names.
///
/// Whether `serde_json` keeps them so is a feature that any crate of a program can switch; the bytes on the volume must not depend on it.
fn sorted(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let members: BTreeMap<String, Value> = members.into_iter().collect();
            Value::Object(members.into_iter().map(|(name, member)| (name, sorted(member))).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(sorted).collect()),
        other => other,
    }
}

fn checksum(value: &Value) -> io::Result<u32> {
    Ok(crc32c::crc32c(&serde_json::to_vec(value)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_do_not_depend_on_the_order_of_members() {
        #[derive(Serialize)]
        struct Outer {
            z: Inner,
            a: u8,
        }
        #[derive(Serialize)]
        struct Inner {
            y: u8,
            b: u8,
        }
        let bytes = encode_compact(&Outer { z: Inner { y: 1, b: 2 }, a: 3 }).unwrap();
        let crc = crc32c::crc32c(br#"{"a":3,"z":{"b":2,"y":1}}"#);
        let expected = format!("{{\"a\":3,\"crc32c\":{crc},\"z\":{{\"b\":2,\"y\":1}}}}\n");
        assert_eq!(String::from_utf8(bytes).unwrap(), expected);
        let shuffled = format!("{{\"z\":{{\"y\":1,\"b\":2}},\"crc32c\":{crc},\"a\":3}}");
        assert!(decode::<Value>("f", shuffled.as_bytes()).is_ok());
    }

    #[test]
    fn every_changed_byte_is_noticed_or_harmless() {
        let state = BTreeMap::from([("position".to_owned(), 4096u64), ("offset".to_owned(), 17)]);
        let bytes = encode(&state).unwrap();
        assert_eq!(decode::<BTreeMap<String, u64>>("f", &bytes).unwrap(), state);
        for at in 0..bytes.len() {
            let mut bad = bytes.clone();
            bad[at] ^= 0x01;
            if let Ok(read) = decode::<BTreeMap<String, u64>>("f", &bad) {
                assert_eq!(read, state, "byte {at}");
            }
            assert!(decode::<BTreeMap<String, u64>>("f", &bytes[..at]).is_err() || at + 1 == bytes.len());
        }
    }
}
