//! ListOffsets (key 2, versions 0-8): offsets by meaning or by time.
//!
//! * v0: the starts of segments, see [`segments`]. v2: isolation level. v4: leader epochs (KIP-320). v6: flexible. v7: the greatest timestamp, -3 (KIP-734). v8: the earliest local
//!   offset, -4 (KIP-405), which is the earliest one, as nothing is tiered.
//! * A time past the last record gives offset -1 and timestamp -1 without an error.

mod segments;

use std::collections::HashSet;
use std::sync::Arc;

use kaas_core::{Partition, TimestampHit};
use kaas_proto::ErrorCode;
use kaas_proto::messages::list_offsets_request::ListOffsetsPartition;
use kaas_proto::messages::list_offsets_response::{ListOffsetsPartitionResponse, ListOffsetsTopicResponse};
use kaas_proto::messages::{ListOffsetsRequest, ListOffsetsResponse};

use crate::broker::{Broker, check_leader_epoch};
use crate::error::{ApiError, read_code};
use crate::request::{Answer, Reply, RequestCx};
use crate::router::Handler;

/// The first version whose answers carry leader epochs.
const EPOCHS_FROM: i16 = 4;

/// What a request's timestamp asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Latest,
    Earliest,
    Greatest,
    Time(i64),
}

/// The meaning of a timestamp. Kafka 3.7 does not ask which version it came with, and takes any other negative number for a time.
fn target(timestamp: i64) -> Target {
    match timestamp {
        -1 => Target::Latest,
        -2 | -4 => Target::Earliest,
        -3 => Target::Greatest,
        time => Target::Time(time),
    }
}

/// Where a partition was found to be, in the terms of the response.
struct Found {
    offset: i64,
    timestamp: i64,
    leader_epoch: i32,
}

impl Handler<ListOffsetsRequest> for Broker {
    async fn handle(
        self: Arc<Self>,
        cx: RequestCx,
        request: ListOffsetsRequest,
    ) -> Result<Reply<ListOffsetsResponse>, ApiError> {
        if cx.version == 0 {
            let response = self.blocking(move |broker| segments::list(broker, request)).await?;
            return Ok(Reply::Now(Answer::Send(response)));
        }
        let read_committed = request.isolation_level == 1;
        let searches = request
            .topics
            .iter()
            .flat_map(|topic| &topic.partitions)
            .any(|asked| matches!(target(asked.timestamp), Target::Time(_) | Target::Greatest));
        let work = move |broker: &Broker| broker.list_offsets(request, cx.version, read_committed);
        // Looking for a time reads the log; the rest is known.
        let response = if searches { self.blocking(work).await? } else { work(&self) };
        Ok(Reply::Now(Answer::Send(response)))
    }
}

impl Broker {
    fn list_offsets(
        &self,
        request: ListOffsetsRequest,
        version: i16,
        read_committed: bool,
    ) -> ListOffsetsResponse {
        let mut seen = HashSet::new();
        let mut twice = HashSet::new();
        for topic in &request.topics {
            for asked in &topic.partitions {
                if !seen.insert((topic.name.clone(), asked.partition_index)) {
                    twice.insert((topic.name.clone(), asked.partition_index));
                }
            }
        }
        let topics = request.topics.into_iter().map(|topic| {
            let partitions = topic.partitions.iter().map(|asked| {
                let found = if twice.contains(&(topic.name.clone(), asked.partition_index)) {
                    Err(ErrorCode::InvalidRequest)
                } else {
                    self.find_offset(&topic.name, asked, read_committed)
                };
                shape(asked, found, version)
            });
            ListOffsetsTopicResponse { partitions: partitions.collect(), name: topic.name.clone() }
        });
        ListOffsetsResponse { topics: topics.collect(), ..Default::default() }
    }

    fn find_offset(
        &self,
        topic: &str,
        asked: &ListOffsetsPartition,
        read_committed: bool,
    ) -> Result<Option<Found>, ErrorCode> {
        let partition = self.partition(topic, asked.partition_index)?;
        check_leader_epoch(asked.current_leader_epoch, partition.leader_epoch())?;
        look_up(&partition, target(asked.timestamp), read_committed)
    }
}

fn look_up(partition: &Partition, target: Target, read_committed: bool) -> Result<Option<Found>, ErrorCode> {
    let offsets = partition.offsets();
    let end = if read_committed { offsets.last_stable } else { offsets.high_watermark };
    let current = partition.leader_epoch();
    let known = |offset, leader_epoch| Some(Found { offset, timestamp: -1, leader_epoch });
    let hit = match target {
        Target::Latest => return Ok(known(end, current)),
        Target::Earliest => {
            let epoch = partition.epoch_at(offsets.log_start);
            return Ok(known(offsets.log_start, epoch.unwrap_or(-1)));
        }
        // Kafka names the current epoch here, whatever that of the record.
        Target::Greatest => {
            let greatest = partition.max_timestamp();
            greatest.map(|hit| hit.map(|hit| TimestampHit { leader_epoch: current, ..hit }))
        }
        Target::Time(time) => partition.offset_for_timestamp(time),
    };
    let hit = hit.map_err(|error| read_code(&error))?;
    Ok(hit.filter(|hit| hit.offset < end).map(|TimestampHit { offset, timestamp, leader_epoch }| Found {
        offset,
        timestamp,
        leader_epoch,
    }))
}

fn shape(
    asked: &ListOffsetsPartition,
    found: Result<Option<Found>, ErrorCode>,
    version: i16,
) -> ListOffsetsPartitionResponse {
    let nothing = Found { offset: -1, timestamp: -1, leader_epoch: -1 };
    let (error, found) = match found {
        Ok(found) => (ErrorCode::None, found.unwrap_or(nothing)),
        Err(error) => (error, nothing),
    };
    ListOffsetsPartitionResponse {
        partition_index: asked.partition_index,
        error_code: error.code(),
        timestamp: found.timestamp,
        offset: found.offset,
        leader_epoch: if version >= EPOCHS_FROM { found.leader_epoch } else { -1 },
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn negative_times_have_meanings_and_others_are_times() {
        assert_eq!(target(-1), Target::Latest);
        assert_eq!(target(-2), Target::Earliest);
        assert_eq!(target(-3), Target::Greatest);
        assert_eq!(target(-4), Target::Earliest);
        assert_eq!(target(-5), Target::Time(-5));
        assert_eq!(target(0), Target::Time(0));
    }
}
