//! Which slot an id belongs to.

/// Slots of groups, and as many of transactional ids: the partitions of Kafka's internal topics by default.
pub const SLOTS: u32 = 50;

/// The slot of a group or of a transactional id, as Kafka's `partitionFor` computes the partition of its internal topic.
pub fn slot_of(id: &str) -> u32 {
    // Kafka clears the sign instead of negating: the smallest integer has no positive counterpart.
    (java_hash(id) & 0x7fff_ffff) % SLOTS
}

/// `String.hashCode()` of Java: over UTF-16 units, as bits.
fn java_hash(text: &str) -> u32 {
    text.encode_utf16().fold(0, |hash: u32, unit| hash.wrapping_mul(31).wrapping_add(u32::from(unit)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_javas() {
        assert_eq!(java_hash(""), 0);
        assert_eq!(java_hash("hello"), 99_162_322);
        // The smallest 32-bit integer, of which Java's `abs` makes nothing positive.
        assert_eq!(java_hash("polygenelubricants"), 0x8000_0000);
        assert_eq!(slot_of("polygenelubricants"), 0);
        // One character outside the first plane is two units.
        assert_eq!(java_hash("\u{1f600}"), 0xd83d_u32.wrapping_mul(31).wrapping_add(0xde00));
        assert_eq!(slot_of("hello"), 99_162_322 % 50);
    }
}
