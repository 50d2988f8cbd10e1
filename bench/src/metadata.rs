//! How long the encoding of a large Metadata answer takes.

use std::time::{Duration, Instant};

use anyhow::Result;
use kaas_proto::messages::MetadataResponse;
use kaas_proto::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use kaas_proto::{Message, Writer};

const TOPICS: usize = 100;
const PARTITIONS: i32 = 100;
const ROUNDS: usize = 101;
/// The newest version.
const VERSION: i16 = 12;

/// The median time and the size of an answer about 10,000 partitions.
pub(crate) fn encode_time() -> Result<(Duration, usize)> {
    let response = answer();
    let mut times = Vec::new();
    let mut size = 0;
    for _ in 0..ROUNDS {
        let began = Instant::now();
        let mut writer = Writer::new();
        response.encode(&mut writer, VERSION)?;
        size = std::hint::black_box(writer.into_pieces()).len();
        times.push(began.elapsed());
    }
    times.sort();
    Ok((times[ROUNDS / 2], size))
}

fn answer() -> MetadataResponse {
    let partition = |index| MetadataResponsePartition {
        partition_index: index,
        leader_id: 1,
        leader_epoch: 1,
        replica_nodes: vec![1, 2, 3],
        isr_nodes: vec![1, 2, 3],
        ..MetadataResponsePartition::default()
    };
    let topic = |index| MetadataResponseTopic {
        name: Some(format!("a-topic-with-a-name-{index}").into()),
        partitions: (0..PARTITIONS).map(partition).collect(),
        ..MetadataResponseTopic::default()
    };
    let broker =
        |id| MetadataResponseBroker { node_id: id, host: "broker.example".into(), port: 9092, rack: None };
    MetadataResponse {
        brokers: (1..=3).map(broker).collect(),
        cluster_id: Some("cluster".into()),
        controller_id: 1,
        topics: (0..TOPICS).map(topic).collect(),
        ..MetadataResponse::default()
    }
}
