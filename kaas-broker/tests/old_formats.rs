//! What is converted stays within bounds: for old readers, however much they ask for and however slowly they read, and for topics
//! whose batches grow when they are stored.

mod support;

use std::collections::HashSet;
use std::io::Write;

use bytes::Bytes;
use kaas_core::RecordBatchBuilder;
use kaas_core::record::{CompressionCodec, read_batch};
use kaas_proto::messages::fetch_request::{FetchPartition, FetchTopic};
use kaas_proto::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kaas_proto::messages::{FetchRequest, FetchResponse, ProduceRequest};
use kaas_proto::{ErrorCode, Records};
use support::{Client, Kaas};

/// The version that gets messages of magic 1 and no limit but that of each partition.
const VERSION: i16 = 2;
const GZIP: i16 = 1;
const PARTITIONS: i32 = 12;
const VALUE_BYTES: usize = 1_000_000;
/// What one answer may hold, and one batch more.
const ANSWER_BYTES_MAX: usize = (8 << 20) + VALUE_BYTES + 1000;

fn filled(kaas: &Kaas) -> Client {
    let mut client = kaas.connect();
    client.create_topic("t", PARTITIONS);
    for partition in 0..PARTITIONS {
        client.produce("t", partition, &vec![partition as u8; VALUE_BYTES]);
    }
    client
}

/// Everything of all partitions.
fn all() -> FetchRequest {
    let partition =
        |partition| FetchPartition { partition, partition_max_bytes: 2 << 20, ..Default::default() };
    let topic = FetchTopic {
        topic: "t".into(),
        partitions: (0..PARTITIONS).map(partition).collect(),
        ..Default::default()
    };
    FetchRequest { topics: vec![topic], ..Default::default() }
}

/// The partitions that came with records, each with its bytes.
fn received(response: &FetchResponse) -> Vec<(i32, usize)> {
    let rows = response.responses.iter().flat_map(|topic| &topic.partitions);
    rows.filter_map(|row| {
        assert_eq!(row.error_code, 0);
        let bytes = row.records.as_ref().and_then(Records::as_bytes).map_or(0, |bytes| bytes.len());
        (bytes > 0).then_some((row.partition_index, bytes))
    })
    .collect()
}

#[test]
fn an_answer_has_a_bound_and_no_partition_starves() {
    let kaas = Kaas::start();
    let mut client = filled(&kaas);
    let mut seen = HashSet::new();
    for _ in 0..PARTITIONS {
        let rows = received(&client.call(&all(), VERSION));
        assert!(rows.iter().all(|(_, bytes)| *bytes > VALUE_BYTES), "a first batch is whole: {rows:?}");
        let total: usize = rows.iter().map(|(_, bytes)| bytes).sum();
        assert!(total > 4 << 20 && total <= ANSWER_BYTES_MAX, "{total}");
        seen.extend(rows.into_iter().map(|(partition, _)| partition));
    }
    assert_eq!(seen.len(), PARTITIONS as usize);
}

#[test]
fn answers_that_nobody_reads_take_bounded_memory_and_block_nobody() {
    let kaas = Kaas::start();
    filled(&kaas);
    let before = kaas.rss_bytes();
    let mut readers: Vec<Client> = (0..40).map(|_| kaas.connect()).collect();
    for reader in &mut readers {
        reader.send(&all(), VERSION);
    }
    for reader in &readers {
        // An answer that has begun is in memory whole.
        assert_eq!(reader.0.stream.peek(&mut [0]).unwrap(), 1);
    }
    let grown = kaas.rss_bytes().saturating_sub(before);
    // 16 answers of 8 MiB and 24 of one batch; without the bound it would be 40 of 8 MiB.
    assert!(grown < 224 << 20, "{grown}");
    for reader in &mut readers {
        let (_, response) = reader.receive::<FetchRequest>(VERSION);
        assert!(!received(&response).is_empty());
    }
}

#[test]
fn batches_that_grow_are_stored_and_answered_each_in_its_place() {
    let kaas = Kaas::start_with(&["compression.type=uncompressed"]);
    let mut client = kaas.connect();
    client.create_topic("t", 3);
    let value = vec![7; 500_000];
    let builder = RecordBatchBuilder::new().push(None, Some(&value), 5);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(builder.payload()).unwrap();
    let grows = builder.clone().attributes(GZIP).build_with(&gzip.finish().unwrap());
    assert!(grows.len() < 5000, "{}", grows.len());
    let too_large = RecordBatchBuilder::new().push(None, Some(&[7; 2 << 20]), 5).build();
    let data = |index, records: &Bytes| PartitionProduceData {
        index,
        records: Some(Records::Bytes(records.clone())),
    };
    let topic = TopicProduceData {
        name: "t".into(),
        partition_data: vec![data(0, &grows), data(1, &too_large), data(2, &grows)],
    };
    let request =
        ProduceRequest { acks: -1, timeout_ms: 10_000, topic_data: vec![topic], ..Default::default() };
    for offset in 0..2 {
        let response = client.call(&request, 9);
        let rows = &response.responses[0].partition_responses;
        let told: Vec<_> = rows.iter().map(|row| (row.index, row.error_code, row.base_offset)).collect();
        assert_eq!(told, [(0, 0, offset), (1, ErrorCode::MessageTooLarge.code(), -1), (2, 0, offset)]);
    }
    let response = client.call(&support::fetch("t", 2, 1, 1 << 20), 12);
    let records = response.responses[0].partitions[0].records.as_ref().and_then(Records::as_bytes).unwrap();
    let batch = read_batch(records).unwrap().unwrap();
    assert_eq!(
        (batch.header.codec(), batch.records[0].value.as_ref()),
        (CompressionCodec::None, Some(&value))
    );
}
