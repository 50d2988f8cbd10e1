//! Journals: the changes of a coordinator's slot as JSON lines, one file after the other.
//!
//! A file begins with everything there was when it was made, so that one file is the whole state: the newest that is whole
//! counts, and those before it go. Nothing is ever written into a file of an earlier life. A write that was interrupted ends a
//! file; what was known to be synced and cannot be read is damage, and the slot is not served.

mod file;
mod line;
mod store;

pub(crate) use file::{JournalFile, Verdict};
pub(crate) use line::read_line;
pub(crate) use store::{FIRST, JOURNAL_BYTES_MAX, JournalError, JournalStore, Loaded, Writer};
