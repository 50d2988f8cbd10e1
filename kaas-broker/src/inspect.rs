//! `kaas inspect <file>`: any file of a volume, in words or as JSON.

use std::io::Write;
use std::path::Path;

use kaas_core::inspect::{Inspected, InspectedBatch, inspect};
use serde_json::{Value, json};

mod segment;

/// Prints a file; an error when it is damaged, or not one of a volume.
///
/// # Errors
/// What is wrong with the file, or with `out`.
pub fn print(path: &Path, as_json: bool, out: &mut impl Write) -> anyhow::Result<()> {
    match inspect(path)? {
        Inspected::Segment(batches) => {
            for batch in batches {
                let batch: InspectedBatch = batch?;
                if as_json {
                    writeln!(out, "{}", segment::json(&batch))?
                } else {
                    segment::print(&batch, out)?
                }
            }
            Ok(())
        }
        inspected if as_json => Ok(writeln!(out, "{}", file_json(inspected))?),
        inspected => print_file(inspected, out),
    }
}

fn print_file(inspected: Inspected, out: &mut impl Write) -> anyhow::Result<()> {
    match inspected {
        Inspected::Index { covered, next_offset, max_timestamp, entries } => {
            writeln!(
                out,
                "offset index of {covered} bytes, up to offset {next_offset}, greatest timestamp {max_timestamp}"
            )?;
            for (relative_offset, position) in entries {
                writeln!(out, "  offset +{relative_offset} at byte {position}")?;
            }
        }
        Inspected::TimeIndex(times) => {
            writeln!(out, "time index of {} entries", times.len())?;
            for (entry, time) in times.iter().enumerate() {
                writeln!(out, "  greatest timestamp before entry {entry}: {time}")?;
            }
        }
        Inspected::TxnIndex { covered, next_offset, open, aborted } => {
            writeln!(out, "transaction index of {covered} bytes, up to offset {next_offset}")?;
            for (producer_id, first_offset) in open {
                writeln!(out, "  open: producer {producer_id} from offset {first_offset}")?;
            }
            for txn in aborted {
                writeln!(
                    out,
                    "  aborted: producer {} from offset {} to {}, last stable offset {}",
                    txn.producer_id, txn.first_offset, txn.last_offset, txn.last_stable
                )?;
            }
        }
        Inspected::State(kind, value) => writeln!(out, "{kind} {value:#}")?,
        Inspected::Fence { broker_id, incarnation, stands } => {
            let state = fence_state(stands);
            writeln!(out, "fence of broker {broker_id}, incarnation {incarnation}: {state}")?;
        }
        Inspected::Mark(what, offset) => writeln!(out, "{what} offset {offset}")?,
        Inspected::Journal { lines, unread } => {
            writeln!(out, "journal of {} lines, {unread} bytes behind them that are not whole", lines.len())?;
            lines.iter().try_for_each(|line| writeln!(out, "{line}"))?;
        }
        other => writeln!(out, "{other:?}")?,
    }
    Ok(())
}

fn file_json(inspected: Inspected) -> Value {
    match inspected {
        Inspected::Index { covered, next_offset, max_timestamp, entries } => json!({
            "kind": "index", "covered": covered, "next_offset": next_offset, "max_timestamp": max_timestamp,
            "entries": entries,
        }),
        Inspected::TimeIndex(times) => json!({ "kind": "time index", "times": times }),
        Inspected::TxnIndex { covered, next_offset, open, aborted } => {
            let aborted = aborted.iter().map(|txn| {
                json!({
                    "producer_id": txn.producer_id, "first_offset": txn.first_offset,
                    "last_offset": txn.last_offset, "last_stable": txn.last_stable,
                })
            });
            let (open, aborted): (Vec<_>, Vec<_>) = (open, aborted.collect());
            json!({
                "kind": "transaction index", "covered": covered, "next_offset": next_offset, "open": open,
                "aborted": aborted,
            })
        }
        Inspected::State(kind, value) => json!({ "kind": kind, "content": value }),
        Inspected::Fence { broker_id, incarnation, stands } => json!({
            "kind": "fence", "broker_id": broker_id, "incarnation": incarnation.to_string(),
            "state": fence_state(stands),
        }),
        Inspected::Mark(what, offset) => json!({ "kind": "mark", "says": what, "offset": offset }),
        Inspected::Journal { lines, unread } => {
            json!({ "kind": "journal", "unread": unread, "lines": lines })
        }
        other => json!({ "kind": "unknown", "content": format!("{other:?}") }),
    }
}

fn fence_state(stands: Option<bool>) -> &'static str {
    match stands {
        Some(true) => "stands",
        Some(false) => "revoked",
        None => "torn, which counts as revoked",
    }
}
