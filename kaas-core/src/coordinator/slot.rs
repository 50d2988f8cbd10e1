//! Which slot an id belongs to.

/// Slots of groups, and as many of transactional ids: the partitions of Kafka's internal topics by default.
pub const SLOTS: u32 = 50;

/// The slot of a group or of a transactional id, as Kafka's `partitionFor` computes the partition of its internal topic.
pub fn slot_of(id: &str) -> u32 {
    // Kafka negates, and takes the smallest integer, which has no positive counterpart, for 0.
    java_hash(id).checked_abs().unwrap_or(0).unsigned_abs() % SLOTS
}

/// `String.hashCode()` of Java: over UTF-16 units.
fn java_hash(text: &str) -> i32 {
    text.encode_utf16().fold(0, |hash: i32, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_javas() {
        assert_eq!(java_hash(""), 0);
        assert_eq!(java_hash("hello"), 99_162_322);
        // The smallest 32-bit integer, of which Java's `abs` makes nothing positive.
        assert_eq!(java_hash("polygenelubricants"), i32::MIN);
        assert_eq!(slot_of("polygenelubricants"), 0);
        // One character outside the first plane is two units.
        assert_eq!(java_hash("\u{1f600}"), 0xd83d_i32.wrapping_mul(31).wrapping_add(0xde00));
        assert_eq!(slot_of("hello"), 99_162_322 % 50);
        // A negative hash is negated; with its sign cleared it would be in slot 10.
        assert_eq!(java_hash("consumer-group"), -1_738_392_088);
        assert_eq!(slot_of("consumer-group"), 38);
    }
}
