//! What must hold for any bytes. The fuzz targets and the replay of their corpus share this.

use bytes::Bytes;
use kaas_proto::header::RequestHeader;
use kaas_proto::json::CATALOGUE;
use kaas_proto::{ApiKey, Message, Reader, RequestBody, Writer};

/// Any message: byte 0 picks it, byte 1 its version, the rest is the body.
///
/// What decodes must encode, and what was encoded must mean the same and encode to itself.
pub(crate) fn message(bytes: &[u8]) {
    let [which, version, body @ ..] = bytes else { return };
    let entry = &CATALOGUE[usize::from(*which) % CATALOGUE.len()];
    let versions = entry.valid.max - entry.valid.min + 1;
    let version = entry.valid.min + i16::from(*version) % versions;
    let Ok(decoded) = (entry.decode)(Bytes::copy_from_slice(body), version) else { return };
    let bytes = decoded.again.and_then(|rope| rope.to_bytes()).expect("what was decoded can be encoded");
    let reread = (entry.decode)(bytes.clone(), version).expect("what was encoded can be decoded");
    assert!(reread.rest.is_empty(), "{} v{version}", entry.name);
    // NaN is not equal to itself; its bytes are.
    assert_eq!(reread.json.to_string(), decoded.json.to_string(), "{} v{version}", entry.name);
    let again = reread.again.and_then(|rope| rope.to_bytes()).expect("what was decoded can be encoded");
    assert_eq!(again, bytes, "{} v{version}", entry.name);
}

/// A request frame without its length, as a broker reads it: key, version, header, body.
pub(crate) fn frame(bytes: &[u8]) {
    let [key_high, key_low, version_high, version_low, ..] = bytes else { return };
    let Ok(key) = ApiKey::try_from(i16::from_be_bytes([*key_high, *key_low])) else { return };
    let version = i16::from_be_bytes([*version_high, *version_low]);
    let mut r = Reader::new(Bytes::copy_from_slice(bytes));
    let Ok(header) = RequestHeader::decode(&mut r, key.info().request_header_version(version)) else {
        return;
    };
    assert_eq!((header.api_key, header.api_version), (key.code(), version));
    let Ok(body) = RequestBody::decode(key, version, &mut r) else { return };
    assert!(key.info().valid.contains(version));
    assert_eq!(body.api_key(), key);
    body.encode(version, &mut Writer::new()).expect("what was decoded can be encoded");
}
