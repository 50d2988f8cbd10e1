//! What the bytes of a journal file say, and how far they can be believed.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::line::{push_line, read_line};

/// The format that this code reads and writes.
pub(crate) const JOURNAL_FORMAT: u32 = 1;

/// The first line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Header {
    /// [`JOURNAL_FORMAT`].
    pub(crate) format: u32,
    /// Who wrote the file.
    pub(crate) broker_id: i32,
    /// Which life of it.
    pub(crate) incarnation: Uuid,
    /// Lines that follow with what there was when the file was made. Without all of them the file does not count.
    pub(crate) snapshot_entries: u64,
}

/// How every other line begins.
const LINE_START: &[u8] = b"{\"synced\":";

/// Every other line.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Line<E> {
    /// Bytes of the file that were known to be synced when the line was written: none of them can be torn.
    pub(crate) synced: u64,
    /// The change.
    pub(crate) entry: E,
}

/// What a file is good for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It counts, and was read up to this position: its end, or where a write was interrupted.
    Whole(u64),
    /// It was never finished, so nothing rests on it.
    Unfinished,
    /// Bytes that were synced cannot be read any more, from this position on.
    Damaged(u64),
    /// Another format.
    UnknownFormat(u32),
}

/// The bytes of a file.
pub(crate) struct JournalFile<'a>(pub(crate) &'a [u8]);

impl JournalFile<'_> {
    /// Hands every entry that can be read to `replay`, in order. Only a [`Verdict::Whole`] makes them count.
    pub(crate) fn read<E: DeserializeOwned>(&self, mut replay: impl FnMut(E)) -> Verdict {
        let mut lines = Lines { bytes: self.0, position: 0 };
        let Some(header) = lines.next_line::<Header>() else { return self.torn(0, false) };
        if header.format != JOURNAL_FORMAT {
            return Verdict::UnknownFormat(header.format);
        }
        let mut entries = 0;
        while let Some(Line { entry, .. }) = lines.next_line::<Line<E>>() {
            entries += 1;
            replay(entry);
        }
        self.torn(lines.position, entries >= header.snapshot_entries)
    }

    /// The verdict about a file that can be read up to `end`.
    fn torn(&self, end: usize, whole: bool) -> Verdict {
        let rest = self.0.get(end..).unwrap_or_default();
        // A later line that was written when the bytes here were synced: then it was not a write that was interrupted.
        // Where lines begin is not for newlines to say: one of them may be what is damaged.
        let starts = (0..rest.len()).filter(|at| rest[*at..].starts_with(LINE_START));
        let believed = starts
            .filter_map(|at| rest[at..].split(|byte| *byte == b'\n').next())
            .filter_map(read_line::<Line<serde::de::IgnoredAny>>)
            .any(|line| line.synced > end as u64);
        match (believed, whole) {
            (true, _) => Verdict::Damaged(end as u64),
            (false, true) => Verdict::Whole(end as u64),
            (false, false) => Verdict::Unfinished,
        }
    }
}

/// The lines of a file that can be read, one after the other.
struct Lines<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl Lines<'_> {
    /// The next line, if it is whole; the position stays where it is if not.
    fn next_line<T: DeserializeOwned>(&mut self) -> Option<T> {
        let rest = self.bytes.get(self.position..)?;
        let len = rest.iter().position(|byte| *byte == b'\n')?;
        let value = read_line(rest.get(..len)?)?;
        self.position += len + 1;
        Some(value)
    }
}

/// The beginning of a new file: its header and everything there is.
pub(crate) fn beginning<E: Serialize>(
    broker_id: i32,
    incarnation: Uuid,
    snapshot: &[E],
) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let header =
        Header { format: JOURNAL_FORMAT, broker_id, incarnation, snapshot_entries: snapshot.len() as u64 };
    push_line(&mut bytes, &header)?;
    for entry in snapshot {
        push_line(&mut bytes, &Line { synced: 0, entry })?;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> (Vec<u8>, usize) {
        let mut bytes = beginning(3, Uuid::nil(), &[10, 11]).unwrap();
        let begun = bytes.len();
        push_line(&mut bytes, &Line { synced: begun as u64, entry: 12 }).unwrap();
        push_line(&mut bytes, &Line { synced: begun as u64, entry: 13 }).unwrap();
        (bytes, begun)
    }

    fn read(bytes: &[u8]) -> (Vec<i32>, Verdict) {
        let mut entries = Vec::new();
        let verdict = JournalFile(bytes).read(|entry: i32| entries.push(entry));
        (entries, verdict)
    }

    #[test]
    fn a_file_cut_anywhere_is_whole_up_to_there_or_unfinished() {
        let (bytes, begun) = sample();
        assert_eq!(read(&bytes), (vec![10, 11, 12, 13], Verdict::Whole(bytes.len() as u64)));
        for at in 0..bytes.len() {
            let (entries, verdict) = read(&bytes[..at]);
            assert_eq!(matches!(verdict, Verdict::Whole(end) if end <= at as u64), at >= begun, "{at}");
            assert_eq!(verdict == Verdict::Unfinished, at < begun, "{at}");
            assert_eq!(entries, (10..14).take(entries.len()).collect::<Vec<_>>());
            assert!(at < begun || entries.len() >= 2);
        }
    }

    #[test]
    fn a_hole_in_what_was_synced_is_damage_and_one_in_the_last_write_is_its_end() {
        let (bytes, begun) = sample();
        for at in 0..begun {
            let mut bad = bytes.clone();
            bad[at] = 0;
            assert!(matches!(read(&bad).1, Verdict::Damaged(position) if position as usize <= at), "{at}");
        }
        // The two last lines were one write: its first block may be missing while its second is there.
        let mut torn = bytes.clone();
        torn[begun + 3] = 0;
        assert_eq!(read(&torn), (vec![10, 11], Verdict::Whole(begun as u64)));
    }

    #[test]
    fn another_format_is_not_guessed_at() {
        let mut bytes = Vec::new();
        let header = Header { format: 2, broker_id: 0, incarnation: Uuid::nil(), snapshot_entries: 0 };
        push_line(&mut bytes, &header).unwrap();
        assert_eq!(read(&bytes).1, Verdict::UnknownFormat(2));
    }
}
