//! Replies come in the order of their requests, and what asks for no reply gets none.

mod support;

use kaas_proto::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kaas_proto::messages::{FetchRequest, ListOffsetsRequest, MetadataRequest, ProduceRequest};
use support::{Kaas, fetch, produce};

fn no_topics() -> MetadataRequest {
    MetadataRequest { topics: Some(Vec::new()), ..Default::default() }
}

fn poll(max_wait_ms: i32) -> FetchRequest {
    FetchRequest { max_wait_ms, min_bytes: 1, ..fetch("t", 0, 0, 1 << 20) }
}

#[test]
fn pipelined_produces_are_answered_in_order_with_consecutive_offsets() {
    let kaas = Kaas::start();
    let mut client = kaas.connect();
    client.create_topic("t", 1);
    for _ in 0..20 {
        let sent: Vec<i32> = (0..5).map(|_| client.send(&produce("t", 0, b"v", -1), 9)).collect();
        let mut offsets = Vec::new();
        for id in sent {
            let (received, answer) = client.receive::<ProduceRequest>(9);
            assert_eq!(received, id);
            offsets.push(answer.responses[0].partition_responses[0].base_offset);
        }
        assert!(offsets.windows(2).all(|pair| pair[1] == pair[0] + 1), "{offsets:?}");
    }
}

#[test]
fn a_request_behind_a_long_poll_is_answered_after_it() {
    let kaas = Kaas::start();
    let mut client = kaas.connect();
    client.create_topic("t", 1);
    let poll = client.send(&poll(500), 12);
    let metadata = client.send(&no_topics(), 12);
    assert_eq!(client.receive::<FetchRequest>(12).0, poll);
    assert_eq!(client.receive::<MetadataRequest>(12).0, metadata);
}

#[test]
fn an_append_wakes_a_long_poll() {
    let kaas = Kaas::start();
    let (mut reader, mut writer) = (kaas.connect(), kaas.connect());
    writer.create_topic("t", 1);
    // The poll would last for longer than a test has patience.
    reader.send(&poll(i32::MAX), 12);
    writer.produce("t", 0, b"wake up");
    let (_, answer) = reader.receive::<FetchRequest>(12);
    let row = &answer.responses[0].partitions[0];
    assert_eq!(row.high_watermark, 1);
    assert!(!row.records.as_ref().unwrap().is_empty());
}

#[test]
fn a_request_behind_a_produce_sees_its_effect() {
    let kaas = Kaas::start();
    let mut client = kaas.connect();
    client.create_topic("t", 1);
    let partition = ListOffsetsPartition {
        partition_index: 0,
        timestamp: -1,
        current_leader_epoch: -1,
        ..Default::default()
    };
    let topic = ListOffsetsTopic { name: "t".into(), partitions: vec![partition] };
    let list = ListOffsetsRequest { replica_id: -1, topics: vec![topic], ..Default::default() };
    for n in 1..=10 {
        client.send(&produce("t", 0, b"v", -1), 9);
        client.send(&list, 7);
        client.receive::<ProduceRequest>(9);
        let (_, answer) = client.receive::<ListOffsetsRequest>(7);
        assert_eq!(answer.topics[0].partitions[0].offset, n);
    }
}

#[test]
fn no_acknowledgement_is_silence_and_its_failure_a_close() {
    let kaas = Kaas::start();
    let mut client = kaas.connect();
    client.create_topic("t", 1);
    client.send(&produce("t", 0, b"quiet", 0), 9);
    let metadata = client.send(&no_topics(), 12);
    assert_eq!(client.receive::<MetadataRequest>(12).0, metadata);
    assert_eq!(client.produce("t", 0, b"loud"), 1);
    client.send(&produce("nowhere", 0, b"quiet", 0), 9);
    client.expect_close();
}

#[test]
fn answers_before_a_refused_request_still_come() {
    let kaas = Kaas::start();
    let mut client = kaas.connect();
    client.create_topic("t", 1);
    let good = client.send(&produce("t", 0, b"v", -1), 9);
    // A key that nobody serves closes the connection, but not before its turn.
    use std::io::Write;
    client.0.stream.write_all(&[0, 0, 0, 10, 0x7f, 0, 0, 0, 0, 0, 0, 9, 0, 0]).unwrap();
    assert_eq!(client.receive::<ProduceRequest>(9).0, good);
    client.expect_close();
}

#[test]
fn a_client_that_sends_no_more_still_gets_its_acknowledgements() {
    let kaas = Kaas::start();
    let mut client = kaas.connect();
    client.create_topic("t", 1);
    let sent: Vec<i32> = (0..5).map(|_| client.send(&produce("t", 0, b"v", -1), 9)).collect();
    client.0.stream.shutdown(std::net::Shutdown::Write).unwrap();
    for id in sent {
        assert_eq!(client.receive::<ProduceRequest>(9).0, id);
    }
    client.expect_close();
}

#[test]
fn garbage_behind_a_produce_does_not_take_its_acknowledgement_away() {
    use std::io::Write;
    let kaas = Kaas::start();
    let mut client = kaas.connect();
    client.create_topic("t", 1);
    let sent = client.send(&produce("t", 0, b"v", -1), 9);
    client.0.stream.write_all(&[0xff; 4]).unwrap();
    assert_eq!(client.receive::<ProduceRequest>(9).0, sent);
    client.expect_close();
}
