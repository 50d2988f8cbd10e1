//! `kaas inspect <segment>`: the batches and records of a segment file, in words.

use std::io::Write;
use std::path::Path;

use kaas_core::inspect::{InspectedBatch, batches};

/// Prints every batch and record; an error when the file ends in something else.
pub fn print(segment: &Path, out: &mut impl Write) -> anyhow::Result<()> {
    for batch in batches(segment)? {
        let batch = batch?;
        print_batch(&batch, out)?;
        if batch.header.is_control() {
            continue;
        }
        for record in batch.records()? {
            let headers: Vec<String> = record
                .headers
                .iter()
                .map(|(key, value)| format!("{}={}", key.escape_ascii(), text(value.as_deref())))
                .collect();
            writeln!(
                out,
                "  offset {} timestamp {} key {} value {} headers [{}]",
                record.offset,
                record.timestamp,
                text(record.key.as_deref()),
                text(record.value.as_deref()),
                headers.join(", ")
            )?;
        }
    }
    Ok(())
}

fn print_batch(batch: &InspectedBatch, out: &mut impl Write) -> std::io::Result<()> {
    let header = &batch.header;
    writeln!(
        out,
        "batch at byte {}: offsets {}..{} count {} epoch {} size {} codec {:?} producer {}/{} sequence {} crc {:08x}{}{}",
        batch.position,
        header.base_offset,
        header.last_offset(),
        header.record_count,
        header.leader_epoch,
        header.size,
        header.codec(),
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.crc,
        if header.is_transactional() { " transactional" } else { "" },
        if header.is_control() { " control" } else { "" },
    )
}

/// Bytes as text, with everything unprintable escaped.
fn text(bytes: Option<&[u8]>) -> String {
    bytes.map_or_else(|| "null".to_owned(), |bytes| format!("\"{}\"", bytes.escape_ascii()))
}
