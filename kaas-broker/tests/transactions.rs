//! Transactions of a real process: what was decided comes to its end, whoever is killed meanwhile.

mod support;

use std::time::Instant;

use kaas_core::RecordBatchBuilder;
use kaas_core::coordinator::slot_of;
use kaas_proto::KStr;
use kaas_proto::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use kaas_proto::messages::delete_topics_request::DeleteTopicState;
use kaas_proto::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kaas_proto::messages::offset_fetch_request::OffsetFetchRequestTopic;
use kaas_proto::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use kaas_proto::messages::{
    AddOffsetsToTxnRequest, AddPartitionsToTxnRequest, DeleteTopicsRequest, DescribeTransactionsRequest,
    EndTxnRequest, InitProducerIdRequest, ListOffsetsRequest, OffsetFetchRequest, TxnOffsetCommitRequest,
};
use support::{Client, Kaas, PATIENCE};

const ID: &str = "t";
const GROUP: &str = "g";
const LOADING: i16 = 14;
const NOT_AVAILABLE: i16 = 15;
const NOT_ENOUGH_REPLICAS: i16 = 19;
const INVALID_TXN_STATE: i16 = 48;
const UNSTABLE_OFFSET_COMMIT: i16 = 88;
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

    /// The same producer behind a restart.
    fn on(self, kaas: &Kaas) -> Producer {
        Producer { client: kaas.connect(), ..self }
    }

    fn add_offsets(&mut self) {
        let request = AddOffsetsToTxnRequest {
            transactional_id: ID.into(),
            producer_id: self.id,
            producer_epoch: self.epoch,
            group_id: GROUP.into(),
        };
        patiently(|| (self.client.call(&request, 3).error_code == 0).then_some(()));
    }

    fn commit_offset(&mut self, offset: i64) {
        let at = TxnOffsetCommitRequestPartition { committed_offset: offset, ..Default::default() };
        let request = TxnOffsetCommitRequest {
            transactional_id: ID.into(),
            group_id: GROUP.into(),
            producer_id: self.id,
            producer_epoch: self.epoch,
            generation_id: -1,
            topics: vec![TxnOffsetCommitRequestTopic { name: "a".into(), partitions: vec![at] }],
            ..Default::default()
        };
        patiently(|| {
            let code = self.client.call(&request, 3).topics[0].partitions[0].error_code;
            assert!([0, LOADING, NOT_AVAILABLE].contains(&code), "{code}");
            (code == 0).then_some(())
        });
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
        // A coordinator that is being loaded cannot verify.
        patiently(|| {
            let code = self.try_produce(topic);
            assert!([0, NOT_ENOUGH_REPLICAS].contains(&code), "{code}");
            (code == 0).then_some(())
        });
    }

    fn end(&mut self, committed: bool) {
        let request = EndTxnRequest {
            transactional_id: ID.into(),
            producer_id: self.id,
            producer_epoch: self.epoch,
            committed,
        };
        patiently(|| {
            let code = self.client.call(&request, 3).error_code;
            assert!([0, LOADING].contains(&code), "{code}");
            (code == 0).then_some(())
        });
    }
}

/// What the group has committed of topic a, and whether that may still change.
fn committed(client: &mut Client) -> (i64, bool) {
    let topics = vec![OffsetFetchRequestTopic { name: "a".into(), partition_indexes: vec![0] }];
    let fetch = |require_stable| OffsetFetchRequest {
        group_id: GROUP.into(),
        topics: Some(topics.clone()),
        require_stable,
        ..Default::default()
    };
    let ask = |client: &mut Client, stable| {
        patiently(|| {
            let answer = client.call(&fetch(stable), 7);
            (answer.error_code == 0).then(|| answer.topics[0].partitions[0].clone())
        })
    };
    let unstable = ask(client, true).error_code == UNSTABLE_OFFSET_COMMIT;
    (ask(client, false).committed_offset, unstable)
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
fn a_transaction_goes_on_behind_a_kill_at_every_step() {
    let mut kaas = Kaas::start();
    kaas.connect().create_topic("a", 1);
    let mut before = -1;
    for (round, commit) in [true, false, true].into_iter().enumerate() {
        let offset = 10 * (round as i64 + 1);
        let restart = |kaas: Kaas, producer: Producer| {
            let kaas = Kaas::start_in(kaas.kill(), &[]);
            let producer = producer.on(&kaas);
            (kaas, producer)
        };
        let mut producer = Producer::init(kaas.connect(), 60_000);
        (kaas, producer) = restart(kaas, producer);
        producer.add(&["a"]);
        (kaas, producer) = restart(kaas, producer);
        producer.add_offsets();
        (kaas, producer) = restart(kaas, producer);
        producer.produce("a");
        (kaas, producer) = restart(kaas, producer);
        producer.commit_offset(offset);
        (kaas, producer) = restart(kaas, producer);
        assert_eq!(committed(&mut producer.client), (before, true), "pending behind a restart");
        producer.end(commit);
        (kaas, producer) = restart(kaas, producer);
        wait_for_state(&mut producer.client, if commit { "CompleteCommit" } else { "CompleteAbort" });
        before = if commit { offset } else { before };
        assert_eq!(committed(&mut producer.client), (before, false));
        let end = end_of(&mut producer.client, "a", false);
        assert_eq!(end_of(&mut producer.client, "a", true), end);
    }
}

#[test]
fn a_marker_that_cannot_be_written_is_tried_again() {
    let kaas = Kaas::start();
    kaas.connect().create_topic("a", 1);
    let folder = kaas.kill();
    // The slot of the group cannot be loaded while there is a file in the place of its folder.
    let slot = folder.path().join(format!("cluster/groups/{:02}", slot_of(GROUP)));
    std::fs::create_dir_all(slot.parent().unwrap()).unwrap();
    std::fs::write(&slot, b"").unwrap();
    let kaas = Kaas::start_in(folder, &[]);
    let mut producer = Producer::init(kaas.connect(), 60_000);
    producer.add(&["a"]);
    producer.add_offsets();
    producer.produce("a");
    producer.end(true);
    // The other marker does not wait for this one.
    patiently(|| (end_of(&mut producer.client, "a", true) == 2).then_some(()));
    wait_for_state(&mut producer.client, "PrepareCommit");
    std::fs::remove_file(&slot).unwrap();
    wait_for_state(&mut producer.client, "CompleteCommit");
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
