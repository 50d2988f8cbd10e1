//! The topics in a consumer's metadata: the one thing that a coordinator reads of what members tell each other.

use std::collections::HashSet;

/// The topics of a consumer's subscription (`ConsumerProtocolSubscription`), by its version 0, with which all versions begin: the
/// version as int16, and an array of strings. None if it cannot be read.
pub(super) fn subscribed_topics(metadata: &[u8]) -> Option<HashSet<String>> {
    let mut rest = metadata;
    let _version: [u8; 2] = take(&mut rest)?;
    let count = usize::try_from(i32::from_be_bytes(take(&mut rest)?)).ok()?;
    let mut topics = HashSet::new();
    for _ in 0..count {
        let length = usize::try_from(i16::from_be_bytes(take(&mut rest)?)).ok()?;
        let (name, others) = rest.split_at_checked(length)?;
        topics.insert(String::from_utf8_lossy(name).into_owned());
        rest = others;
    }
    // What follows is the assignor's. Only its length is looked at, as Kafka's reader does.
    let length = i32::from_be_bytes(take(&mut rest)?);
    (length < 0 || usize::try_from(length).is_ok_and(|length| length <= rest.len())).then_some(topics)
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (bytes, others) = rest.split_first_chunk()?;
    *rest = others;
    Some(*bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_are_found_in_every_version() {
        let version_1 = b"\0\x01\0\0\0\x02\0\x01a\0\x02bc\xff\xff\xff\xff\0\0\0\0";
        let topics = subscribed_topics(version_1).unwrap();
        assert_eq!(topics, HashSet::from(["a".to_owned(), "bc".to_owned()]));
        assert_eq!(subscribed_topics(b"\0\0\0\0\0\0\0\0\0\x01x"), Some(HashSet::new()));
    }

    #[test]
    fn what_is_cut_off_or_lies_about_lengths_is_not_read() {
        let whole = b"\0\0\0\0\0\x01\0\x01a\0\0\0\x01x";
        assert!(subscribed_topics(whole).is_some());
        for length in 0..whole.len() {
            assert_eq!(subscribed_topics(&whole[..length]), None, "{length}");
        }
        assert_eq!(subscribed_topics(b"\0\0\x7f\xff\xff\xff"), None);
        assert_eq!(subscribed_topics(b"\0\0\0\0\0\x01\xff\xff"), None);
    }
}
