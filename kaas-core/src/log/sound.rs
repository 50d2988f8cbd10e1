//! Which bytes of a segment are known to be sound.
//!
//! What this process wrote was checked before it was written. What an earlier one left is checked before it is served
//! for the first time, so that a bit that has rotted on the device is an error and not a record.

use super::partition::Partition;
use super::read::{Place, ReadSpec, Stop};
use super::scan::{ScanError, Scanner};
use crate::record::BatchHeader;
use crate::volume::VolumeFile;

/// Ranges that are remembered for a segment. Consumers that read on end to end need one.
const RANGES_MAX: usize = 32;

/// Disjoint ranges of positions, ascending.
#[derive(Debug, Default)]
pub(crate) struct Sound(Vec<(u64, u64)>);

impl Sound {
    /// Whether every byte from `start` up to `end` is in one range.
    pub(crate) fn covers(&self, start: u64, end: u64) -> bool {
        let behind = self.0.partition_point(|(from, _)| *from <= start);
        behind.checked_sub(1).is_some_and(|at| end <= self.0[at].1)
    }

    /// Adds a range. Of too many the shortest is forgotten, and checked again when it is wanted.
    pub(crate) fn add(&mut self, mut start: u64, mut end: u64) {
        self.0.retain(|&(from, to)| {
            let touches = from <= end && start <= to;
            if touches {
                (start, end) = (start.min(from), end.max(to));
            }
            !touches
        });
        let at = self.0.partition_point(|(from, _)| *from < start);
        self.0.insert(at, (start, end));
        if self.0.len() > RANGES_MAX
            && let Some((shortest, _)) = self.0.iter().enumerate().min_by_key(|(_, (from, to))| to - from)
        {
            self.0.remove(shortest);
        }
    }
}

impl Partition {
    /// How much of a range that starts with a batch may be served: up to the first batch that is not as it was
    /// written. What is unknown is read and checked here. Batches behind the damage are served to those who ask for
    /// them.
    ///
    /// The error is for a range that starts with the damaged batch.
    pub(super) fn sound_len(
        &self,
        place: &Place,
        file: &dyn VolumeFile,
        (position, len): (u64, u64),
        end: u64,
        spec: &ReadSpec,
    ) -> Result<u64, Stop> {
        let segment = &place.segment;
        if segment.is_sound(position, position + len) {
            return Ok(len);
        }
        if !spec.blocking {
            return Err(Stop::WouldBlock);
        }
        let (from, offset) = self.with_index(segment, file, end, true, |index| index.anchor(position))?;
        // Damage between the anchor and the range only means that the first offset is taken as it is.
        // Compaction keeps the batches of many leaders; else all are of the one who wrote the segment.
        let leader = segment.name().cleaned.is_none().then_some(segment.name().epoch);
        let mut before = Walk::new(Scanner::new(file, from, end, true), offset, leader);
        let expected = match before.to(position) {
            // An index that was made from a log with a flipped offset has it too: no anchor for the batch itself.
            Ok(()) if before.last.is_some() && before.scanner.position() == position => before.expected,
            Err(ScanError::Storage(error)) => return Err(Stop::Error(error.into())),
            Ok(()) | Err(_) => segment.base_offset(),
        };
        let limit = place.next.unwrap_or_else(|| self.offsets().high_watermark);
        let mut walk = Walk::new(Scanner::new(file, position, end, true), expected, leader);
        let sound_to = match walk.to(position + len).and_then(|()| walk.confirm(limit)) {
            Ok(()) => walk.scanner.position(),
            Err(ScanError::Bad { position: at, .. }) if at > position => at,
            Err(error) => return Err(Stop::scan(segment, error)),
        };
        segment.add_sound(position, sound_to);
        Ok(len.min(sound_to - position))
    }
}

/// A walk that checks what it passes: checksums, and what no checksum covers: that offsets follow each other, and who wrote
/// the batches. A gap
/// may be compaction's; it is a flipped bit if what comes behind it begins too early.
struct Walk<'a> {
    scanner: Scanner<'a>,
    /// The lowest offset that may come next.
    expected: i64,
    /// Who wrote all of it, if one did.
    leader: Option<i32>,
    /// Where the last batch began, and whether there was a gap before it.
    last: Option<(u64, bool)>,
}

impl<'a> Walk<'a> {
    fn new(scanner: Scanner<'a>, expected: i64, leader: Option<i32>) -> Self {
        Self { scanner, expected, leader, last: None }
    }

    /// Goes on to the first boundary of batches at or behind `aim`.
    fn to(&mut self, aim: u64) -> Result<(), ScanError> {
        while self.scanner.position() < aim {
            let Some((at, header, _)) = self.scanner.next_batch()? else { return Ok(()) };
            self.follow(at, &header)?;
        }
        Ok(())
    }

    /// Holds the last batch against what follows it: the next one, or else the offset `limit`.
    fn confirm(&self, limit: i64) -> Result<(), ScanError> {
        let following = match self.scanner.ahead().next_header() {
            Ok(header) => header.map_or(limit, |(_, header)| header.base_offset),
            // Damage further up is the next reader's.
            Err(_) => return Ok(()),
        };
        match self.last {
            Some((at, _)) if following < self.expected => Err(self.out_of_place(at)),
            _ => Ok(()),
        }
    }

    fn follow(&mut self, at: u64, header: &BatchHeader) -> Result<(), ScanError> {
        if header.base_offset < self.expected || header.last_offset_delta < 0 {
            let before = self.last.filter(|(_, gap)| *gap).map(|(before, _)| before);
            return Err(self.out_of_place(before.unwrap_or(at)));
        }
        if self.leader.is_some_and(|leader| header.leader_epoch != leader) {
            let why = format!("leader epoch {} in another's segment", header.leader_epoch);
            return Err(ScanError::Bad { position: at, why });
        }
        self.last = Some((at, header.base_offset > self.expected));
        self.expected = header.next_offset();
        Ok(())
    }

    fn out_of_place(&self, position: u64) -> ScanError {
        ScanError::Bad { position, why: "its offset is not between its neighbours'".to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_grow_together_and_few_are_kept() {
        let mut sound = Sound::default();
        sound.add(10, 20);
        sound.add(30, 40);
        assert!(sound.covers(10, 20) && sound.covers(32, 40) && !sound.covers(15, 35));
        sound.add(20, 30);
        assert!(sound.covers(10, 40) && !sound.covers(9, 40) && !sound.covers(10, 41));
        for n in 0..100 {
            sound.add(100 + 10 * n, 100 + 10 * n + 1 + n % 2);
        }
        assert_eq!(sound.0.len(), RANGES_MAX);
        assert!(sound.covers(10, 40), "the longest is kept");
        assert!(sound.0.windows(2).all(|pair| pair[0].1 < pair[1].0));
    }
}
