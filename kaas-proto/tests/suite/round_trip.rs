//! Random messages survive: bytes to struct to the same bytes, at every version of every message.

use bytes::Bytes;
use kaas_codegen::model::Message;
use kaas_proto::json::{CATALOGUE, CatalogueEntry};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use crate::random::{self, SCHEMA};

/// The schema and the codec of each message.
pub(crate) fn pairs() -> impl Iterator<Item = (&'static Message, &'static CatalogueEntry)> {
    SCHEMA.messages.iter().map(|message| {
        let entry = CATALOGUE.iter().find(|entry| entry.name == message.name);
        (message, entry.expect("every schema has a codec"))
    })
}

fn round_trip(entry: &CatalogueEntry, version: i16, bytes: Vec<u8>) -> Result<(), TestCaseError> {
    let bytes = Bytes::from(bytes);
    let label = format!("{} v{version} {bytes:?}", entry.name);
    let fail = |why: String| TestCaseError::fail(format!("{label}: {why}"));
    let decoded = (entry.decode)(bytes.clone(), version).map_err(|error| fail(error.to_string()))?;
    prop_assert!(decoded.rest.is_empty(), "{label}: {} bytes are left", decoded.rest.len());
    let again = decoded.again.and_then(|rope| rope.to_bytes()).map_err(|error| fail(error.to_string()))?;
    prop_assert_eq!(again, bytes, "{}", label);
    Ok(())
}

proptest! {
    // A case is every version of every message, about 627 of them; a seed does not shrink.
    #![proptest_config(ProptestConfig { cases: 24, max_shrink_iters: 0, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_version_of_every_message_survives(seed: u64) {
        for (message, entry) in pairs() {
            for version in message.valid.iter() {
                round_trip(entry, version, random::message(message, version, seed))?;
            }
        }
    }

    #[test]
    fn unknown_tags_are_skipped_and_dropped(seed: u64, tag in 128u32..1000, value in prop::collection::vec(any::<u8>(), 0..100)) {
        for (message, entry) in pairs().filter(|(message, _)| message.flexible_from.is_some()) {
            let version = message.valid.highest;
            let known = random::message(message, version, seed);
            // Without tagged fields of its own, a message ends with the byte 0: their count.
            if message.structs[0].fields.iter().any(|field| field.tag.is_some()) {
                continue;
            }
            let mut bytes = known.clone();
            prop_assert_eq!(bytes.pop(), Some(0));
            bytes.extend([1, tag as u8 | 0x80, (tag >> 7) as u8, value.len() as u8]);
            bytes.extend(&value);
            let decoded = (entry.decode)(bytes.into(), version).map_err(|e| TestCaseError::fail(e.to_string()))?;
            prop_assert!(decoded.rest.is_empty());
            prop_assert_eq!(decoded.again.unwrap().to_bytes().unwrap(), known, "{}", entry.name);
        }
    }
}
