//! The file of recorded transcripts: JSON with one answer a line, so that a change shows as a small one.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::Transcripts;

/// Reads a recording.
pub(crate) fn read(path: &Path) -> Result<Transcripts> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    Ok(serde_json::from_str(&text)?)
}

/// The text of a recording.
pub(crate) fn print(all: &Transcripts) -> String {
    let cases = all.iter().map(|(name, transcript)| {
        let answers: Vec<String> = transcript.iter().map(|answer| format!("    {answer}")).collect();
        format!("  \"{name}\": [\n{}\n  ]", answers.join(",\n"))
    });
    format!("{{\n{}\n}}\n", cases.collect::<Vec<_>>().join(",\n"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_printed_reads_the_same() {
        let all = Transcripts::from([
            ("a/b".to_owned(), vec![json!({ "a": 1 }), json!("closed")]),
            ("c".to_owned(), vec![json!(null)]),
        ]);
        let read: Transcripts = serde_json::from_str(&print(&all)).unwrap();
        assert_eq!(read, all);
    }
}
