//! DeleteRecords (key 21, versions 0-2): the log start moves up, for good.
//!
//! * v2: flexible.
//! * Offset -1 means everything that is committed. An offset below the log start changes nothing and is no error.
//! * Files are removed later, by retention. The answer's low watermark is the log start: there are no other replicas to wait for.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use kaas_proto::messages::delete_records_response::{DeleteRecordsPartitionResult, DeleteRecordsTopicResult};
use kaas_proto::messages::{DeleteRecordsRequest, DeleteRecordsResponse};
use kaas_proto::{ErrorCode, KStr};

use crate::broker::Broker;
use crate::error::{ApiError, delete_records_code};
use crate::request::{Answer, Reply, RequestCx};
use crate::router::Handler;

/// The low watermark of a partition that was not changed.
const NO_LOW_WATERMARK: i64 = -1;

impl Handler<DeleteRecordsRequest> for Broker {
    async fn handle(
        self: Arc<Self>,
        _: RequestCx,
        request: DeleteRecordsRequest,
    ) -> Result<Reply<DeleteRecordsResponse>, ApiError> {
        let response = self.blocking(move |broker| broker.delete_records(request)).await?;
        Ok(Reply::Now(Answer::Send(response)))
    }
}

/// What is asked of each partition. Kafka merges what is said of one topic in several places, and of one partition believes the last.
fn asked(request: DeleteRecordsRequest) -> Vec<(KStr, BTreeMap<i32, i64>)> {
    let mut topics: Vec<(KStr, BTreeMap<i32, i64>)> = Vec::new();
    let mut places: HashMap<KStr, usize> = HashMap::new();
    for topic in request.topics.into_iter().filter(|topic| !topic.partitions.is_empty()) {
        let place = *places.entry(topic.name.clone()).or_insert(topics.len());
        if place == topics.len() {
            topics.push((topic.name, BTreeMap::new()));
        }
        topics[place].1.extend(topic.partitions.iter().map(|asked| (asked.partition_index, asked.offset)));
    }
    topics
}

impl Broker {
    fn delete_records(&self, request: DeleteRecordsRequest) -> DeleteRecordsResponse {
        let topics = asked(request).into_iter().map(|(name, partitions)| {
            let partitions = partitions.into_iter().map(|(partition_index, before)| {
                let result = self.delete_records_of(&name, partition_index, before);
                DeleteRecordsPartitionResult {
                    partition_index,
                    low_watermark: result.unwrap_or(NO_LOW_WATERMARK),
                    error_code: result.err().unwrap_or(ErrorCode::None).code(),
                }
            });
            DeleteRecordsTopicResult { partitions: partitions.collect(), name: name.clone() }
        });
        DeleteRecordsResponse { topics: topics.collect(), ..Default::default() }
    }

    fn delete_records_of(&self, topic: &str, index: i32, before: i64) -> Result<i64, ErrorCode> {
        let partition = self.partition(topic, index)?;
        partition.delete_records(before).map_err(|error| {
            tracing::debug!(topic, index, before, %error, "records not deleted");
            delete_records_code(&error)
        })
    }
}
