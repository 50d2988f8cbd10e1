//! The fuzzing corpus, replayed as ordinary tests.

#[path = "../../fuzz/src/checks.rs"]
mod checks;

use std::fs;
use std::path::Path;

/// Runs `check` on every file of a corpus and says how many there were.
fn replay(corpus: &str, check: impl Fn(&[u8])) -> usize {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(corpus);
    let mut count = 0;
    for entry in fs::read_dir(&folder).expect("the corpus is committed") {
        let path = entry.expect("the corpus can be listed").path();
        let bytes = fs::read(&path).expect("the corpus can be read");
        check(&bytes);
        count += 1;
    }
    count
}

#[test]
fn the_corpus_of_messages_breaks_nothing() {
    assert!(replay("message", checks::message) >= 290);
}

#[test]
fn the_corpus_of_frames_breaks_nothing() {
    assert!(replay("frame", checks::frame) >= 128);
}
