//! Consumers: what one read gives, and what must never be in it.

use std::collections::BTreeSet;
use std::sync::Arc;

use kaas_core::error::ReadError;
use kaas_core::record::{EndTxnMarker, TxnOutcome, read_batch};
use kaas_core::{Isolation, Partition, Read, ReadSpec};

use super::producer::is_aborted;
use super::world::World;

/// A consumer that asks any broker for any offset.
pub(crate) fn read_now_and_then(world: &Arc<World>) {
    loop {
        let steps = world.state().random.between(1, 60);
        if !world.sleep(steps) {
            return;
        }
        let mut state = world.state();
        let Some((number, _, partitions)) = state.any_serving(None) else { continue };
        let index = state.random.below(partitions.len() as u64) as usize;
        let offset = state.histories[index].shown_max() - state.random.below(20) as i64;
        let isolation = match state.weather.transacts && offset % 2 == 0 {
            true => Isolation::ReadCommitted,
            false => Isolation::ReadUncommitted,
        };
        drop(state);
        let outcome = read(&partitions[index], offset.max(0), isolation);
        let mut state = world.state();
        match outcome {
            Ok(Seen { records, .. }) => {
                state.tally.read += records.len() as u64;
                state.record(("read", number, &records));
                records.iter().for_each(|(offset, value)| state.told(index, *offset, value, false));
                if isolation == Isolation::ReadCommitted
                    && let Some((offset, value)) = records.iter().find(|(_, value)| is_aborted(value))
                {
                    state.note(Err(format!(
                        "partition {index}: {value} was read at {offset}, and is aborted"
                    )));
                }
            }
            Err(Failed::Read(ReadError::Damaged { .. } | ReadError::Offline(_))) | Err(Failed::Bytes(_))
                if !state.is_alive(number) => {}
            Err(Failed::Read(error @ (ReadError::Damaged { .. } | ReadError::Offline(_)))) => {
                state.note(Err(format!("partition {index} of process {number}: {error}")));
            }
            Err(Failed::Bytes(why)) => {
                state.note(Err(format!("partition {index} of process {number} served {why}")));
            }
            Err(Failed::Read(_)) => {}
        }
    }
}

pub(crate) enum Failed {
    Read(ReadError),
    /// What came is not what should have come.
    Bytes(String),
}

/// What one read gives.
pub(crate) struct Seen {
    /// Offsets and values; batches that compaction has emptied give none.
    pub(crate) records: Vec<(i64, String)>,
    /// Offsets that the batches cover, markers included.
    pub(crate) covered: i64,
    /// Where to go on: the same place at the end of the log.
    pub(crate) next: i64,
}

/// Records from an offset on, as many as one read gives, as a consumer with this isolation shows them.
pub(crate) fn read(partition: &Partition, offset: i64, isolation: Isolation) -> Result<Seen, Failed> {
    let spec = ReadSpec { offset, bytes_max: 2000, at_least_one_batch: true, isolation, blocking: true };
    let Read::Data(data) = partition.read(spec).map_err(Failed::Read)? else {
        return Err(Failed::Bytes("a blocking read would block".to_owned()));
    };
    let bytes = data.slice.to_bytes().map_err(|error| Failed::Bytes(error.to_string()))?;
    let mut seen = Seen { records: Vec::new(), covered: 0, next: offset };
    let mut aborted = data.aborted.clone();
    aborted.sort_by_key(|began| began.first_offset);
    let mut aborted = aborted.into_iter().peekable();
    let mut hidden = BTreeSet::new();
    let mut rest = &bytes[..];
    while let Some(batch) = read_batch(rest).map_err(|error| Failed::Bytes(error.to_string()))? {
        let header = &batch.header;
        seen.next = header.next_offset();
        seen.covered += seen.next - header.base_offset.max(offset);
        while let Some(began) = aborted.next_if(|began| began.first_offset <= header.last_offset()) {
            hidden.insert(began.producer_id);
        }
        let marker = EndTxnMarker::read(header, &rest[..header.size]);
        let marker = marker.map_err(|error| Failed::Bytes(error.to_string()))?;
        if marker.is_some_and(|marker| marker.outcome == TxnOutcome::Abort) {
            hidden.remove(&header.producer_id);
        }
        let is_hidden =
            header.is_control() || header.is_transactional() && hidden.contains(&header.producer_id);
        for record in batch.records.into_iter().filter(|_| !is_hidden) {
            let value = String::from_utf8_lossy(&record.value.unwrap_or_default()).into_owned();
            seen.records.push((record.offset, value));
        }
        rest = &rest[batch.header.size..];
        if rest.is_empty() {
            break;
        }
    }
    let limit = match isolation {
        Isolation::ReadCommitted => data.last_stable,
        Isolation::ReadUncommitted => data.high_watermark,
    };
    if seen.next > limit && seen.next > offset {
        let why = format!("up to offset {}, where {limit} was the limit ({isolation:?})", seen.next);
        return Err(Failed::Bytes(why));
    }
    Ok(seen)
}
