//! The batches of a segment.

use std::io::Write;

use kaas_core::inspect::InspectedBatch;
use serde_json::{Value, json};

/// Prints a batch and its records.
pub(super) fn print(batch: &InspectedBatch, out: &mut impl Write) -> anyhow::Result<()> {
    print_batch(batch, out)?;
    if batch.header.is_control() {
        return Ok(());
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
    Ok(())
}

/// The facts of a batch's header.
pub(super) fn json(batch: &InspectedBatch) -> Value {
    let header = &batch.header;
    json!({
        "position": batch.position,
        "base_offset": header.base_offset,
        "last_offset": header.last_offset(),
        "count": header.record_count,
        "leader_epoch": header.leader_epoch,
        "size": header.size,
        "crc": header.crc,
        "codec": format!("{:?}", header.codec()).to_lowercase(),
        "base_timestamp": header.base_timestamp,
        "max_timestamp": header.max_timestamp,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "transactional": header.is_transactional(),
        "control": header.is_control(),
    })
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
