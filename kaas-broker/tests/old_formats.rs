//! Old readers: what is converted for them stays within bounds, however much they ask for and however slowly they read.

mod support;

use std::collections::HashSet;

use kaas_proto::Records;
use kaas_proto::messages::fetch_request::{FetchPartition, FetchTopic};
use kaas_proto::messages::{FetchRequest, FetchResponse};
use support::{Client, Kaas};

/// The version that gets messages of magic 1 and no limit but that of each partition.
const VERSION: i16 = 2;
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
