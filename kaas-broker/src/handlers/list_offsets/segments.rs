//! Version 0: the starts of segments and the end of the log that are not younger than a time, newest first.

use std::time::{SystemTime, UNIX_EPOCH};

use kaas_core::{Partition, SegmentStart};
use kaas_proto::ErrorCode;
use kaas_proto::messages::list_offsets_request::ListOffsetsPartition;
use kaas_proto::messages::list_offsets_response::{ListOffsetsPartitionResponse, ListOffsetsTopicResponse};
use kaas_proto::messages::{ListOffsetsRequest, ListOffsetsResponse};

use crate::broker::Broker;
use crate::error::read_code;

/// The replica id of a client that is no broker: it sees nothing above the high watermark.
const CONSUMER: i32 = -1;
/// The timestamps that mean the end and the beginning; every other one is a time.
const LATEST: i64 = -1;
const EARLIEST: i64 = -2;

/// Answers a request. Unlike the later versions, a partition that comes twice is answered twice.
pub(super) fn list(broker: &Broker, request: ListOffsetsRequest) -> ListOffsetsResponse {
    let consumer = request.replica_id == CONSUMER;
    let topics = request.topics.into_iter().map(|topic| {
        let row = |asked: &ListOffsetsPartition| {
            let found = broker
                .partition(&topic.name, asked.partition_index)
                .and_then(|p| offsets(&p, asked, consumer));
            let (error, old_style_offsets) = match found {
                Ok(offsets) => (ErrorCode::None, offsets),
                Err(code) => (code, Vec::new()),
            };
            ListOffsetsPartitionResponse {
                partition_index: asked.partition_index,
                error_code: error.code(),
                old_style_offsets,
                ..Default::default()
            }
        };
        ListOffsetsTopicResponse {
            partitions: topic.partitions.iter().map(row).collect(),
            name: topic.name.clone(),
        }
    });
    ListOffsetsResponse { topics: topics.collect(), ..Default::default() }
}

fn offsets(
    partition: &Partition,
    asked: &ListOffsetsPartition,
    consumer: bool,
) -> Result<Vec<i64>, ErrorCode> {
    // Kafka fails inside on a negative count.
    let count = usize::try_from(asked.max_num_offsets).map_err(|_| ErrorCode::UnknownServerError)?;
    let starts = partition.segment_starts().map_err(|error| read_code(&error))?;
    let at = partition.offsets();
    let end = SegmentStart { offset: at.log_end, time_ms: Some(now_ms()) };
    let found = not_younger(starts.into_iter().chain([end]).collect(), asked.timestamp, count);
    Ok(if consumer { visible(found, at.high_watermark) } else { found })
}

/// At most `count` offsets, the first of them the newest that is not younger than the time.
fn not_younger(mut offsets: Vec<SegmentStart>, timestamp: i64, count: usize) -> Vec<i64> {
    let known = match timestamp {
        LATEST => offsets.len(),
        EARLIEST => 1,
        time => offsets
            .iter()
            .rposition(|start| start.time_ms.is_some_and(|at| at <= time))
            .map_or(0, |at| at + 1),
    };
    offsets.truncate(known);
    offsets.iter().rev().take(count).map(|start| start.offset).collect()
}

/// Puts the high watermark in place of all that is above it.
fn visible(offsets: Vec<i64>, high_watermark: i64) -> Vec<i64> {
    if offsets.iter().all(|offset| *offset <= high_watermark) {
        return offsets;
    }
    let below = offsets.into_iter().skip_while(|offset| *offset > high_watermark);
    std::iter::once(high_watermark).chain(below).collect()
}

fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn starts() -> Vec<SegmentStart> {
        [(0, Some(10)), (5, None), (9, Some(30)), (12, Some(99))]
            .map(|(offset, time_ms)| SegmentStart { offset, time_ms })
            .to_vec()
    }

    #[test]
    fn the_newest_that_is_old_enough_comes_first() {
        for (timestamp, count, expected) in [
            (LATEST, 9, &[12, 9, 5, 0][..]),
            (LATEST, 1, &[12]),
            (LATEST, 0, &[]),
            (EARLIEST, 9, &[0]),
            (98, 9, &[9, 5, 0]),
            (30, 2, &[9, 5]),
            (29, 9, &[0]),
            (9, 9, &[]),
            (-3, 9, &[]),
        ] {
            assert_eq!(not_younger(starts(), timestamp, count), expected, "{timestamp} {count}");
        }
    }

    #[test]
    fn a_consumer_sees_the_high_watermark_in_place_of_what_is_above() {
        assert_eq!(visible(vec![12, 9, 5, 0], 12), [12, 9, 5, 0]);
        assert_eq!(visible(vec![12, 9, 5, 0], 7), [7, 5, 0]);
        assert_eq!(visible(vec![12], 7), [7]);
    }
}
