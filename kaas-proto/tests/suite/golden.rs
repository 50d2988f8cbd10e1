//! Every message at every version means what Apache Kafka's own classes mean by it, byte for byte.

use std::collections::BTreeSet;

use crate::vectors::{VECTORS, Vector};
use kaas_proto::json::CATALOGUE;

/// The ways in which the vectors fill a message.
const VARIANTS: [&str; 4] = ["defaults", "filled", "nulls", "wide"];

#[test]
fn no_message_no_version_and_no_variant_is_missing() {
    let have: BTreeSet<(&str, i16, &str)> =
        VECTORS.iter().map(|vector| (vector.entry.name, vector.version, vector.variant.as_str())).collect();
    let mut wanted = BTreeSet::new();
    for entry in &CATALOGUE {
        for version in entry.valid.min..=entry.valid.max {
            wanted.extend(VARIANTS.map(|variant| (entry.name, version, variant)));
        }
    }
    assert_eq!(have, wanted);
    assert_eq!(VECTORS.len(), wanted.len());
}

#[test]
fn vectors_decode_to_kafkas_meaning() {
    check(|vector| {
        let decoded =
            (vector.entry.decode)(vector.bytes.clone(), vector.version).map_err(|e| e.to_string())?;
        if !decoded.rest.is_empty() {
            return Err(format!("{} bytes are left", decoded.rest.len()));
        }
        if decoded.json != vector.json {
            return Err(format!("\n  ours   {}\n  kafka's {}", decoded.json, vector.json));
        }
        Ok(())
    });
}

#[test]
fn vectors_encode_to_kafkas_bytes() {
    check(|vector| {
        let decoded =
            (vector.entry.decode)(vector.bytes.clone(), vector.version).map_err(|e| e.to_string())?;
        let again = decoded.again.and_then(|rope| rope.to_bytes()).map_err(|e| e.to_string())?;
        if again != vector.bytes {
            return Err(format!("\n  ours   {again:?}\n  kafka's {:?}", vector.bytes));
        }
        Ok(())
    });
}

#[test]
fn defaults_are_kafkas() {
    check(|vector| {
        if vector.variant != "defaults" {
            return Ok(());
        }
        let rope = (vector.entry.encode_default)(vector.version).map_err(|e| e.to_string())?;
        let bytes = rope.to_bytes().map_err(|e| e.to_string())?;
        if bytes != vector.bytes {
            return Err(format!("\n  ours   {bytes:?}\n  kafka's {:?}", vector.bytes));
        }
        Ok(())
    });
}

/// Runs a check on every vector and fails with all that is wrong, not with the first.
fn check(check: impl Fn(&Vector) -> Result<(), String>) {
    let wrong: Vec<String> = VECTORS
        .iter()
        .filter_map(|vector| check(vector).err().map(|why| format!("{}: {why}", vector.label())))
        .collect();
    assert!(wrong.is_empty(), "{} of {} vectors:\n{}", wrong.len(), VECTORS.len(), wrong.join("\n"));
}
