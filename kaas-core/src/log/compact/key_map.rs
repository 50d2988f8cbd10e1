//! The last offset of each key in the part of a log that is being compacted, in bounded memory.
//!
//! 16 bytes a key: 96 bits of two hashes whose seeds are drawn for each map, so that nobody can choose keys that
//! collide, and the offset counted from the map's first. Two of a hundred million keys meet with a chance below
//! 10^-12; Kafka keeps 128 bits of MD5, for which collisions can be made.

use std::hash::{BuildHasher, RandomState};

/// Bytes of one slot.
pub(crate) const SLOT_BYTES: usize = size_of::<u128>();

/// Tables are at least this large.
const SLOTS_MIN: usize = 1 << 10;

/// `log.cleaner.io.buffer.load.factor`: how full the table may become, in percent; Kafka's default.
const FULL_PERCENT: usize = 90;

/// Keys and their last offsets.
pub(crate) struct KeyMap {
    /// Upper 64 bits: one hash. Next 32: another. Lower 32: offset from `first_offset`, plus one; 0 is empty.
    slots: Vec<u128>,
    used: usize,
    used_max: usize,
    first_offset: i64,
    end_offset: i64,
    hashers: [RandomState; 2],
}

/// The table is full, or the offset is too far from its first.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Full;

impl KeyMap {
    /// A map for offsets from `first_offset` on that lie in `bytes_dirty` bytes of log, in at most `bytes_max` bytes.
    pub(crate) fn new(first_offset: i64, bytes_dirty: u64, bytes_max: usize) -> Self {
        let wanted = usize::try_from(bytes_dirty).unwrap_or(usize::MAX) / SLOT_BYTES;
        let slots = wanted.max(SLOTS_MIN).min((bytes_max / SLOT_BYTES).max(2));
        Self {
            slots: vec![0; slots],
            used: 0,
            // One slot stays free, so that every search ends.
            used_max: (slots / 100 * FULL_PERCENT + slots % 100 * FULL_PERCENT / 100).clamp(1, slots - 1),
            first_offset,
            end_offset: first_offset,
            hashers: Default::default(),
        }
    }

    /// Notes that `key` was last seen at `offset`, which is greater than all before.
    pub(crate) fn put(&mut self, key: &[u8], offset: i64) -> Result<(), Full> {
        let relative =
            offset.checked_sub(self.first_offset).and_then(|offset| u32::try_from(offset + 1).ok());
        let relative = relative.ok_or(Full)?;
        let (at, tag) = self.find(key);
        if self.slots[at] == 0 {
            if self.used == self.used_max {
                return Err(Full);
            }
            self.used += 1;
        }
        self.slots[at] = tag | u128::from(relative);
        Ok(())
    }

    /// The last offset of `key`, if the map has seen it.
    pub(crate) fn get(&self, key: &[u8]) -> Option<i64> {
        let (at, _) = self.find(key);
        let relative = self.slots[at] as u32;
        (relative != 0).then(|| self.first_offset + i64::from(relative) - 1)
    }

    /// The offset up to which the map knows everything.
    pub(crate) fn end_offset(&self) -> i64 {
        self.end_offset
    }

    /// Notes that everything below `offset` was put.
    pub(crate) fn complete(&mut self, offset: i64) {
        self.end_offset = self.end_offset.max(offset);
    }

    /// The slot of a key, or the free one where it belongs; and its hashes, in their place.
    fn find(&self, key: &[u8]) -> (usize, u128) {
        let [first, second] = self.hashers.each_ref().map(|hasher| hasher.hash_one(key));
        let tag = u128::from(first) << 64 | u128::from(second as u32) << 32;
        let mut at = ((u128::from(first) * self.slots.len() as u128) >> 64) as usize;
        while self.slots[at] != 0 && self.slots[at] >> 32 != tag >> 32 {
            at = if at + 1 == self.slots.len() { 0 } else { at + 1 };
        }
        (at, tag)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn it_knows_what_a_hash_map_knows() {
        let mut map = KeyMap::new(1000, 1 << 20, 1 << 20);
        let mut naive = HashMap::new();
        for n in 0..50_000i64 {
            let key = ((n * n) % 9973).to_be_bytes();
            map.put(&key, 1000 + n).unwrap();
            naive.insert(key, 1000 + n);
        }
        for n in 0..10_000i64 {
            let key = n.to_be_bytes();
            assert_eq!(map.get(&key), naive.get(&key).copied(), "{n}");
        }
    }

    #[test]
    fn a_full_map_refuses_new_keys_and_takes_known_ones() {
        for slots in [2, 3, 10, 100] {
            let mut map = KeyMap::new(0, u64::MAX, slots * SLOT_BYTES);
            let put = (0i64..).take_while(|n| map.put(&n.to_be_bytes(), *n).is_ok()).count();
            assert!(put >= 1 && put < slots && put >= slots * 8 / 10, "{put} of {slots}");
            map.put(&0i64.to_be_bytes(), 500).unwrap();
            assert_eq!(map.get(&0i64.to_be_bytes()), Some(500));
            assert_eq!(map.get(b"never"), None);
        }
        let mut map = KeyMap::new(5, 0, 1 << 20);
        assert_eq!(map.put(b"far", 5 + (1 << 32)), Err(Full));
        assert_eq!(map.put(b"near", 5 + (1 << 32) - 2), Ok(()));
    }
}
