//! Transactions of a real process: what was decided comes to its end, whoever is killed meanwhile.

mod support;

use std::time::Instant;

use kaas_core::RecordBatchBuilder;
use kaas_proto::KStr;
use kaas_proto::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use kaas_proto::messages::delete_topics_request::DeleteTopicState;
use kaas_proto::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kaas_proto::messages::{
    AddPartitionsToTxnRequest, DeleteTopicsRequest, DescribeTransactionsRequest, EndTxnRequest,
    InitProducerIdRequest, ListOffsetsRequest,
};
use support::{Client, Kaas, PATIENCE};

const ID: &str = "t";
const INVALID_TXN_STATE: i16 = 48;
const LATEST: i64 = -1;
/// The attribute of batches that belong to a transaction.
const TRANSACTIONAL: i16 = 0x10;

/// A transactional producer.
struct Producer {
    client: Client,
    id: i64,
    epoch: i16,
}

/// Asks until there is an answer that counts: a slot that is being loaded, or whose last transaction is being ended, says so.
fn patiently<T>(mut ask: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < deadline, "it does not come to that");
    }
}

impl Producer {
    fn init(mut client: Client, timeout_ms: i32) -> Producer {
        let request = InitProducerIdRequest {
            transactional_id: Some(KStr::from(ID)),
            transaction_timeout_ms: timeout_ms,
            producer_id: -1,
            producer_epoch: -1,
        };
        let (id, epoch) = patiently(|| {
            let answer = client.call(&request, 4);
            (answer.error_code == 0).then_some((answer.producer_id, answer.producer_epoch))
        });
        Producer { client, id, epoch }
    }

    fn add(&mut self, topics: &[&str]) {
        let topic = |topic: &&str| AddPartitionsToTxnTopic { name: KStr::from(*topic), partitions: vec![0] };
        let request = AddPartitionsToTxnRequest {
            v3_and_below_transactional_id: ID.into(),
            v3_and_below_producer_id: self.id,
            v3_and_below_producer_epoch: self.epoch,
            v3_and_below_topics: topics.iter().map(topic).collect(),
            ..Default::default()
        };
        patiently(|| {
            let answer = self.client.call(&request, 3);
            let code = answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code;
            (code == 0).then_some(())
        });
    }

    /// The first record of this producer in the topic.
    fn try_produce(&mut self, topic: &str) -> i16 {
        let batch = RecordBatchBuilder::new()
            .producer(self.id, self.epoch, 0)
            .attributes(TRANSACTIONAL)
            .push(None, Some(b"value"), 1_700_000_000_000)
            .build();
        let mut request = kaas_test_client::produce(topic, 0, batch, -1);
        request.transactional_id = Some(ID.into());
        self.client.call(&request, 9).responses[0].partition_responses[0].error_code
    }

    fn produce(&mut self, topic: &str) {
        assert_eq!(self.try_produce(topic), 0);
    }

    fn end(&mut self, committed: bool) {
        let request = EndTxnRequest {
            transactional_id: ID.into(),
            producer_id: self.id,
            producer_epoch: self.epoch,
            committed,
        };
        assert_eq!(self.client.call(&request, 3).error_code, 0);
    }
}

/// The end of the log, of the stable part or of all of it.
fn end_of(client: &mut Client, topic: &str, stable: bool) -> i64 {
    let partition = ListOffsetsPartition { timestamp: LATEST, ..Default::default() };
    let topics = vec![ListOffsetsTopic { name: KStr::from(topic.to_owned()), partitions: vec![partition] }];
    let request = ListOffsetsRequest { isolation_level: stable.into(), topics, ..Default::default() };
    let answer = client.call(&request, 7);
    assert_eq!(answer.topics[0].partitions[0].error_code, 0);
    answer.topics[0].partitions[0].offset
}

fn wait_for_state(client: &mut Client, state: &str) {
    let request = DescribeTransactionsRequest { transactional_ids: vec![ID.into()] };
    patiently(|| (client.call(&request, 0).transaction_states[0].transaction_state == *state).then_some(()));
}

#[test]
fn a_decision_is_carried_out_by_the_killed_brokers_successor() {
    let mut kaas = Kaas::start();
    kaas.connect().create_topic("a", 1);
    kaas.connect().create_topic("b", 1);
    for round in 0..8 {
        let committed = round % 2 == 0;
        let mut producer = Producer::init(kaas.connect(), 60_000);
        assert_eq!(i64::from(producer.epoch), round);
        producer.add(&["a", "b"]);
        producer.produce("a");
        producer.produce("b");
        producer.end(committed);
        kaas = Kaas::start_in(kaas.kill(), &[]);
        let mut client = kaas.connect();
        wait_for_state(&mut client, if committed { "CompleteCommit" } else { "CompleteAbort" });
        for topic in ["a", "b"] {
            let end = end_of(&mut client, topic, false);
            assert_eq!(end_of(&mut client, topic, true), end);
            // A record and a marker a round; a marker that the killed broker had written may be there twice.
            assert!(end >= 2 * (round + 1), "{topic} ends at {end}");
        }
    }
}

#[test]
fn a_transaction_that_nobody_ends_times_out_after_a_restart() {
    let kaas = Kaas::start();
    kaas.connect().create_topic("a", 1);
    let mut producer = Producer::init(kaas.connect(), 500);
    producer.add(&["a"]);
    producer.produce("a");
    let kaas = Kaas::start_in(kaas.kill(), &[]);
    let mut client = kaas.connect();
    patiently(|| (end_of(&mut client, "a", true) == 2).then_some(()));
    wait_for_state(&mut client, "CompleteAbort");
    assert_eq!(Producer::init(client, 500).epoch, 2, "the epoch of the abort was nobody's");
}

#[test]
fn an_epoch_that_a_client_made_up_holds_up_nobody() {
    let kaas = Kaas::start();
    kaas.connect().create_topic("a", 1);
    let mut producer = Producer::init(kaas.connect(), 60_000);
    producer.add(&["a"]);
    producer.produce("a");
    // The partition knows that the transaction is open, and asks nobody whether the epoch is.
    let mut pretender = Producer { client: kaas.connect(), id: producer.id, epoch: producer.epoch + 5 };
    pretender.produce("a");
    producer.end(true);
    let mut client = kaas.connect();
    wait_for_state(&mut client, "CompleteCommit");
    assert_eq!(end_of(&mut client, "a", true), 3);
}

#[test]
fn a_topic_that_is_gone_holds_up_no_transaction() {
    let kaas = Kaas::start();
    let mut client = kaas.connect();
    client.create_topic("a", 1);
    client.create_topic("b", 1);
    let mut producer = Producer::init(kaas.connect(), 60_000);
    producer.add(&["a", "b"]);
    producer.produce("a");
    producer.produce("b");
    let gone = DeleteTopicState { name: Some("b".into()), ..Default::default() };
    let request = DeleteTopicsRequest { topics: vec![gone], timeout_ms: 10_000, ..Default::default() };
    assert_eq!(client.call(&request, 6).responses[0].error_code, 0);
    producer.end(true);
    wait_for_state(&mut client, "CompleteCommit");
    assert_eq!(end_of(&mut client, "a", true), 2);
}

#[test]
fn batches_are_verified_unless_the_broker_is_told_not_to() {
    let kaas = Kaas::start();
    kaas.connect().create_topic("a", 1);
    let mut producer = Producer::init(kaas.connect(), 60_000);
    assert_eq!(producer.try_produce("a"), INVALID_TXN_STATE);
    let (_, folder) = kaas.terminate();
    let kaas = Kaas::start_in(folder, &["transaction.partition.verification.enable=false"]);
    let mut producer = Producer::init(kaas.connect(), 60_000);
    producer.produce("a");
}
