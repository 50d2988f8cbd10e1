//! `kaas audit <volume>`: what is wrong with a volume, one line a finding and a line that sums up.

use std::io::{self, Write};
use std::path::Path;

use kaas_core::audit::{AuditError, Finding, Severity, Summary, audit_dir};
use serde_json::json;

/// The volume could not be audited at all.
pub const EXIT_UNREADABLE: u8 = 3;

/// Prints what an audit finds, as it finds it; the exit code is 0 when nothing is wrong, 1 after a warning, 2 after
/// damage and [`EXIT_UNREADABLE`] when nothing can be said.
///
/// # Errors
/// What writing to `out` says.
pub fn print(volume: &Path, json: bool, out: &mut impl Write) -> io::Result<u8> {
    let mut written = Ok(());
    let audited = audit_dir(volume, &mut |finding| {
        if written.is_ok() {
            written =
                if json { writeln!(out, "{}", finding_json(&finding)) } else { writeln!(out, "{finding}") };
        }
    });
    written?;
    match audited {
        Ok(summary) => {
            if json { writeln!(out, "{}", summary_json(&summary)) } else { writeln!(out, "{summary}") }?;
            Ok(exit_code(&summary))
        }
        Err(error) => {
            if json {
                writeln!(
                    out,
                    "{}",
                    json!({ "error": error.to_string(), "volume": volume.to_string_lossy() })
                )?;
            }
            complain(volume, &error);
            Ok(EXIT_UNREADABLE)
        }
    }
}

fn exit_code(summary: &Summary) -> u8 {
    match summary.worst() {
        None | Some(Severity::Note) => 0,
        Some(Severity::Warning) => 1,
        Some(Severity::Damage) => 2,
    }
}

fn finding_json(finding: &Finding) -> serde_json::Value {
    let Finding { severity, path, position, problem } = finding;
    json!({
        "severity": severity.to_string(),
        "path": path,
        "position": position,
        "kind": problem.kind(),
        "detail": problem.to_string(),
    })
}

fn summary_json(summary: &Summary) -> serde_json::Value {
    let Summary { topics, partitions, segments, batches, bytes, notes, warnings, damages } = summary;
    json!({ "summary": {
        "topics": topics, "partitions": partitions, "segments": segments, "batches": batches, "bytes": bytes,
        "notes": notes, "warnings": warnings, "damages": damages,
    } })
}

fn complain(volume: &Path, error: &AuditError) {
    eprintln!("kaas: cannot audit {}: {error}", volume.display());
}
