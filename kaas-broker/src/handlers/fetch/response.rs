//! The response of a fetch: one row a partition, rows of a topic together.

use kaas_core::{Offsets, Slice};
use kaas_proto::messages::FetchResponse;
use kaas_proto::messages::fetch_response::{AbortedTransaction, EpochEndOffset, FetchableTopicResponse};
use kaas_proto::{FileSlice, Records};

use super::items::Item;
use super::read::{Outcome, Round};

pub(super) use kaas_proto::messages::fetch_response::PartitionData;

/// A row without records.
pub(super) fn empty() -> PartitionData {
    PartitionData {
        high_watermark: -1,
        last_stable_offset: -1,
        log_start_offset: -1,
        aborted_transactions: None,
        preferred_read_replica: -1,
        records: Some(Records::default()),
        ..Default::default()
    }
}

/// A row for every item, those of unknown partitions at the end, as Kafka has it.
pub(super) fn partitions(items: &[Item], round: Round) -> Vec<(&Item, PartitionData)> {
    let read_committed = round.read_committed;
    let mut rows: Vec<(bool, &Item, PartitionData)> = items
        .iter()
        .zip(round.outcomes)
        .map(|(item, outcome)| {
            let unknown = matches!(outcome, Outcome::Unknown(_));
            let row = PartitionData { partition_index: item.key.partition, ..empty() };
            (unknown, item, row_of(row, outcome, read_committed))
        })
        .collect();
    rows.sort_by_key(|(unknown, ..)| *unknown);
    rows.into_iter().map(|(_, item, row)| (item, row)).collect()
}

fn row_of(row: PartitionData, outcome: Outcome, read_committed: bool) -> PartitionData {
    match outcome {
        Outcome::Data(data) => PartitionData {
            high_watermark: data.high_watermark,
            last_stable_offset: data.last_stable,
            log_start_offset: data.log_start,
            aborted_transactions: read_committed.then(|| {
                let aborted = data.aborted.iter();
                aborted
                    .map(|txn| AbortedTransaction {
                        producer_id: txn.producer_id,
                        first_offset: txn.first_offset,
                    })
                    .collect()
            }),
            records: Some(records(data.slice)),
            ..row
        },
        Outcome::Diverged { epoch, end_offset, at } => {
            PartitionData { diverging_epoch: EpochEndOffset { epoch, end_offset }, ..with_offsets(row, at) }
        }
        Outcome::Failed(code) => PartitionData { error_code: code.code(), ..row },
        Outcome::Unreadable(code) => PartitionData {
            error_code: code.code(),
            aborted_transactions: Some(Vec::new()),
            records: None,
            ..row
        },
        // Kafka tells the two kinds of failure apart by an empty list.
        Outcome::Unknown(code) => {
            PartitionData { error_code: code.code(), aborted_transactions: Some(Vec::new()), ..row }
        }
    }
}

fn with_offsets(row: PartitionData, at: Offsets) -> PartitionData {
    PartitionData {
        high_watermark: at.high_watermark,
        last_stable_offset: at.last_stable,
        log_start_offset: at.log_start,
        ..row
    }
}

fn records(slice: Slice) -> Records {
    match slice {
        Slice::Empty => Records::default(),
        Slice::Bytes(bytes) => Records::Bytes(bytes),
        Slice::File { file, position, len } => Records::File(FileSlice { file, offset: position, len }),
    }
}

/// Puts rows of the same topic together, keeping their order.
pub(super) fn group<'a>(
    session_id: i32,
    rows: impl Iterator<Item = (&'a Item, PartitionData)>,
) -> FetchResponse {
    let mut responses: Vec<FetchableTopicResponse> = Vec::new();
    let mut last: Option<&Item> = None;
    for (item, row) in rows {
        let same = last.is_some_and(|before| before.key.same_topic(&item.key));
        match responses.last_mut().filter(|_| same) {
            Some(topic) => topic.partitions.push(row),
            None => responses.push(FetchableTopicResponse {
                topic: item.key.topic.clone(),
                topic_id: item.key.topic_id,
                partitions: vec![row],
            }),
        }
        last = Some(item);
    }
    FetchResponse { session_id, responses, ..Default::default() }
}
