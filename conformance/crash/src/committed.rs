//! What a read_committed consumer makes of a fetch: the records of aborted transactions are left out.

use std::collections::HashSet;

use kaas_core::record::{EndTxnMarker, TxnOutcome, read_batch};

use crate::ledger::Value;

/// The values from `from` on that count, and the offset behind the last batch. `aborted` are first offsets and producers, as the
/// broker names them.
pub(crate) fn committed_values(
    mut bytes: &[u8],
    from: i64,
    mut aborted: Vec<(i64, i64)>,
) -> Result<(Vec<Value>, i64), String> {
    aborted.sort_unstable();
    let mut aborted = aborted.into_iter().peekable();
    let mut aborting: HashSet<i64> = HashSet::new();
    let (mut values, mut end) = (Vec::new(), from);
    while let Some(batch) = read_batch(bytes).map_err(|error| error.to_string())? {
        let header = &batch.header;
        while let Some((_, producer)) = aborted.next_if(|(first, _)| *first <= header.last_offset()) {
            aborting.insert(producer);
        }
        if header.is_control() {
            let marker =
                EndTxnMarker::read(header, &bytes[..header.size]).map_err(|error| error.to_string())?;
            if marker.is_some_and(|marker| marker.outcome == TxnOutcome::Abort) {
                aborting.remove(&header.producer_id);
            }
        } else if !(header.is_transactional() && aborting.contains(&header.producer_id)) {
            for record in batch.records.iter().filter(|record| record.offset >= from) {
                let value = record.value.as_deref().and_then(Value::parse);
                values.push(value.ok_or_else(|| format!("a strange record at {}", record.offset))?);
            }
        }
        end = header.next_offset();
        bytes = &bytes[header.size..];
    }
    Ok((values, end))
}
