//! WriteTxnMarkers (key 27, versions 0-1): markers that end transactions in partitions, whatever their coordinator thinks.
//!
//! * v1: flexible.
//! * Coordinators of other brokers send it; and `kafka-transactions --abort`, for a transaction that nobody ends.

use std::collections::HashMap;
use std::sync::Arc;

use kaas_core::record::{EndTxnMarker, TxnOutcome};
use kaas_proto::messages::write_txn_markers_request::WritableTxnMarker;
use kaas_proto::messages::write_txn_markers_response::{
    WritableTxnMarkerPartitionResult, WritableTxnMarkerResult, WritableTxnMarkerTopicResult,
};
use kaas_proto::messages::{WriteTxnMarkersRequest, WriteTxnMarkersResponse};
use kaas_proto::{ErrorCode, KStr};

use crate::broker::Broker;
use crate::error::ApiError;
use crate::request::{Answer, Reply, RequestCx};
use crate::router::Handler;
use crate::transactions::{MarkerError, StartedMarker};

/// A marker that was started or refused.
struct Started {
    producer_id: i64,
    topic: KStr,
    partition: i32,
    outcome: Result<StartedMarker, MarkerError>,
}

/// Markers of one request that share a wait for the disk.
const MARKERS_AT_ONCE: usize = 1024;

impl Handler<WriteTxnMarkersRequest> for Broker {
    async fn handle(
        self: Arc<Self>,
        _: RequestCx,
        request: WriteTxnMarkersRequest,
    ) -> Result<Reply<WriteTxnMarkersResponse>, ApiError> {
        let (mut results, mut started) = (Results::default(), Vec::new());
        for (marker, topic, partition) in request.markers.iter().flat_map(asked) {
            let outcome = self.start_marker(&marker, topic, partition);
            started.push(Started {
                producer_id: marker.producer_id,
                topic: topic.clone(),
                partition,
                outcome,
            });
            if started.len() >= MARKERS_AT_ONCE {
                results.finish(&mut started).await;
            }
        }
        results.finish(&mut started).await;
        Ok(Reply::Now(Answer::Send(WriteTxnMarkersResponse { markers: results.markers })))
    }
}

/// The marker of each partition.
fn asked(asked: &WritableTxnMarker) -> impl Iterator<Item = (EndTxnMarker, &KStr, i32)> {
    let marker = EndTxnMarker {
        producer_id: asked.producer_id,
        producer_epoch: asked.producer_epoch,
        coordinator_epoch: asked.coordinator_epoch,
        outcome: if asked.transaction_result { TxnOutcome::Commit } else { TxnOutcome::Abort },
    };
    asked.topics.iter().flat_map(move |topic| {
        topic.partition_indexes.iter().map(move |&partition| (marker, &topic.name, partition))
    })
}

/// The answer: what is said of one producer in several places, or of one topic of it, comes together.
#[derive(Default)]
struct Results {
    markers: Vec<WritableTxnMarkerResult>,
    producers: HashMap<i64, usize>,
    topics: HashMap<(i64, KStr), usize>,
}

impl Results {
    async fn finish(&mut self, started: &mut Vec<Started>) {
        for Started { producer_id, topic, partition, outcome } in started.drain(..) {
            let outcome = match outcome {
                Ok(started) => started.finish().await,
                Err(error) => Err(error),
            };
            let code = outcome.map_or_else(|error| error.code(), |()| ErrorCode::None);
            self.put(producer_id, topic, partition, code);
        }
    }

    fn put(&mut self, producer_id: i64, name: KStr, partition_index: i32, code: ErrorCode) {
        let place = *self.producers.entry(producer_id).or_insert(self.markers.len());
        if place == self.markers.len() {
            self.markers.push(WritableTxnMarkerResult { producer_id, ..Default::default() });
        }
        let topics = &mut self.markers[place].topics;
        let at = *self.topics.entry((producer_id, name.clone())).or_insert(topics.len());
        if at == topics.len() {
            topics.push(WritableTxnMarkerTopicResult { name, ..Default::default() });
        }
        let row = WritableTxnMarkerPartitionResult { partition_index, error_code: code.code() };
        topics[at].partitions.push(row);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_together_by_producer_and_topic() {
        let mut results = Results::default();
        for (producer_id, topic, partition) in [(7, "a", 0), (8, "a", 0), (7, "b", 0), (7, "a", 1)] {
            results.put(producer_id, topic.into(), partition, ErrorCode::None);
        }
        let shape: Vec<_> = results
            .markers
            .iter()
            .map(|marker| {
                let topic =
                    |topic: &WritableTxnMarkerTopicResult| (topic.name.to_string(), topic.partitions.len());
                (marker.producer_id, marker.topics.iter().map(topic).collect::<Vec<_>>())
            })
            .collect();
        let (a, b) = ("a".to_owned(), "b".to_owned());
        assert_eq!(shape, [(7, vec![(a.clone(), 2), (b, 1)]), (8, vec![(a, 1)])]);
    }
}
