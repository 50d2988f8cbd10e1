//! Every served version of every API gives an answer that this version can carry, to good requests and to bad ones.
//!
//! A response field that is newer than its version makes the encoder fail, and that closes the connection.

mod support;

use kaas_proto::messages::create_topics_request::{
    CreatableReplicaAssignment, CreatableTopic, CreateableTopicConfig,
};
use kaas_proto::messages::delete_topics_request::DeleteTopicState;
use kaas_proto::messages::describe_configs_request::DescribeConfigsResource;
use kaas_proto::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kaas_proto::messages::metadata_request::MetadataRequestTopic;
use kaas_proto::messages::offset_for_leader_epoch_request::{OffsetForLeaderPartition, OffsetForLeaderTopic};
use kaas_proto::messages::{
    ApiVersionsRequest, CreateTopicsRequest, DeleteTopicsRequest, DescribeClusterRequest,
    DescribeConfigsRequest, FetchRequest, InitProducerIdRequest, ListOffsetsRequest, MetadataRequest,
    OffsetForLeaderEpochRequest, ProduceRequest,
};
use kaas_proto::{ApiRequest, KStr};
use kaas_test_client::ClientError;
use support::{Client, Kaas, fetch, produce};

/// The longest text of the versions before the flexible ones.
const LONGEST: usize = i16::MAX as usize;

/// A message of magic 0 without key and value, its checksum included.
const MESSAGE: &[u8] = &[
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 14, 0xa7, 0xec, 0x68, 0x03, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255,
];

struct Sweep {
    kaas: Kaas,
    answered: usize,
}

impl Sweep {
    /// Sends each request at each served version that can carry it; a version that carries none is a mistake of this test.
    fn all<R: ApiRequest + std::fmt::Debug>(&mut self, requests: &[R]) {
        let versions = kaas_broker::apis::find(R::KEY.code()).expect("the API is served").versions;
        for version in versions.min..=versions.max {
            let mut carried = 0;
            for (at, request) in requests.iter().enumerate() {
                match Client::to(self.kaas.address).0.call(request, version) {
                    Ok(_) => carried += 1,
                    Err(ClientError::Encode(_)) => {}
                    Err(error) => panic!("{:?} version {version} request {at}: {error}", R::KEY),
                }
            }
            assert!(carried > 0, "{:?} version {version}", R::KEY);
            self.answered += carried;
        }
    }
}

fn topic(name: &str) -> CreatableTopic {
    CreatableTopic { name: name.into(), num_partitions: 1, replication_factor: 1, ..Default::default() }
}

fn creations() -> Vec<CreateTopicsRequest> {
    let config = |name: &str, value: Option<KStr>| CreatableTopic {
        configs: vec![CreateableTopicConfig { name: name.into(), value }],
        ..topic("configured")
    };
    let assignments = vec![CreatableReplicaAssignment { partition_index: 0, broker_ids: vec![1] }];
    let topics = vec![
        topic("fresh"),
        topic("t"),
        topic(""),
        topic(&"n".repeat(LONGEST)),
        CreatableTopic { num_partitions: -1, replication_factor: -1, ..topic("defaults") },
        CreatableTopic { assignments, num_partitions: -1, replication_factor: -1, ..topic("assigned") },
        config("retention.ms", Some("x".repeat(LONGEST).into())),
        config("leader.replication.throttled.replicas", Some("x".repeat(LONGEST).into())),
        config(&"k".repeat(LONGEST), None),
    ];
    let alone = |topic: CreatableTopic| CreateTopicsRequest { topics: vec![topic], ..Default::default() };
    let twice = CreateTopicsRequest { topics: vec![topic("t"), topic("t")], ..Default::default() };
    topics.into_iter().map(alone).chain([twice]).collect()
}

fn deletions() -> Vec<DeleteTopicsRequest> {
    let named = |names: Vec<KStr>| DeleteTopicsRequest { topic_names: names, ..Default::default() };
    let listed = |topics| DeleteTopicsRequest { topics, ..Default::default() };
    let by_name = |name: &str| DeleteTopicState { name: Some(name.into()), ..Default::default() };
    let by_id = DeleteTopicState { name: None, topic_id: uuid::Uuid::from_u128(7) };
    vec![
        named(vec!["fresh".into(), "nowhere".into(), "nowhere".into()]),
        listed(vec![by_name("defaults"), by_name("nowhere"), by_id, DeleteTopicState::default()]),
        listed(vec![DeleteTopicState { name: None, ..Default::default() }]),
    ]
}

fn lookups(sweep: &mut Sweep) {
    let by_name = |name: &str| MetadataRequestTopic { name: Some(name.into()), ..Default::default() };
    let by_id = MetadataRequestTopic { name: None, topic_id: uuid::Uuid::from_u128(7) };
    let asking = |topics, flags| MetadataRequest {
        topics,
        include_topic_authorized_operations: flags,
        include_cluster_authorized_operations: flags,
        ..Default::default()
    };
    sweep.all(&[
        asking(None, false),
        asking(None, true),
        asking(Some(vec![by_name("t"), by_name("created by asking"), by_name("created")]), false),
        asking(Some(vec![by_name(&"n".repeat(LONGEST))]), true),
        asking(Some(vec![by_id]), false),
        asking(Some(Vec::new()), false),
    ]);
    sweep.all(&[
        ApiVersionsRequest::default(),
        ApiVersionsRequest { client_software_name: "a".into(), client_software_version: "1".into() },
    ]);
    let endpoint =
        |endpoint_type| DescribeClusterRequest { endpoint_type, include_cluster_authorized_operations: true };
    sweep.all(&[DescribeClusterRequest::default(), endpoint(1), endpoint(2), endpoint(3)]);
    let resource = |resource_type, name: &str| DescribeConfigsResource {
        resource_type,
        resource_name: name.into(),
        ..Default::default()
    };
    let resources = [
        resource(2, "t"),
        resource(2, "configured"),
        resource(2, "nowhere"),
        resource(2, &"n".repeat(LONGEST)),
        resource(4, "1"),
        resource(4, ""),
        resource(4, &"b".repeat(LONGEST)),
        resource(9, "x"),
    ];
    let describe = |resource, flags| DescribeConfigsRequest {
        resources: vec![resource],
        include_synonyms: flags,
        include_documentation: flags,
    };
    let plain = resources.iter().cloned().map(|resource| describe(resource, false));
    let full = resources.iter().cloned().map(|resource| describe(resource, true));
    sweep.all(&plain.chain(full).collect::<Vec<_>>());
}

fn logs(sweep: &mut Sweep) {
    sweep.all(&[
        produce("t", 0, b"value", -1),
        produce("t", 9, b"value", 1),
        produce("nowhere", 0, b"value", -1),
        produce("t", 0, b"value", 7),
        kaas_test_client::produce("t", 0, bytes::Bytes::from_static(b"no batch"), -1),
        kaas_test_client::produce("t", 0, bytes::Bytes::from_static(MESSAGE), -1),
        kaas_test_client::produce("t", 0, bytes::Bytes::new(), 1),
        ProduceRequest { acks: -1, ..Default::default() },
    ]);
    let by_id = |mut request: FetchRequest| {
        request.topics[0].topic_id = uuid::Uuid::from_u128(7);
        request
    };
    sweep.all(&[
        fetch("t", 0, 0, 1 << 20),
        FetchRequest { session_epoch: 0, ..fetch("t", 0, 0, 1 << 20) },
        FetchRequest { isolation_level: 1, ..fetch("t", 0, 0, 1 << 20) },
        FetchRequest { isolation_level: 5, ..fetch("t", 0, 0, 1 << 20) },
        FetchRequest { session_id: 5, session_epoch: 9, ..fetch("t", 0, 0, 1 << 20) },
        fetch("t", 9, 0, 1 << 20),
        fetch("t", 0, 1 << 40, 1 << 20),
        by_id(fetch("t", 0, 0, 1 << 20)),
        FetchRequest { session_epoch: -1, ..Default::default() },
        diverging(),
    ]);
    let list = |timestamp, current_leader_epoch| {
        let partition = |partition_index| ListOffsetsPartition {
            partition_index,
            timestamp,
            current_leader_epoch,
            ..Default::default()
        };
        let of = |name: &str| ListOffsetsTopic {
            name: name.into(),
            partitions: vec![partition(0), partition(9), partition(9)],
        };
        ListOffsetsRequest { replica_id: -1, topics: vec![of("t"), of("nowhere")], ..Default::default() }
    };
    sweep.all(&[list(-1, -1), list(-2, -1), list(-3, -1), list(-4, -1), list(0, -1), list(-1, 9)]);
    let end = |leader_epoch, current_leader_epoch| {
        let partition = OffsetForLeaderPartition { partition: 0, leader_epoch, current_leader_epoch };
        let of =
            |name: &str| OffsetForLeaderTopic { topic: name.into(), partitions: vec![partition.clone()] };
        OffsetForLeaderEpochRequest { topics: vec![of("t"), of("nowhere")], ..Default::default() }
    };
    sweep.all(&[end(1, -1), end(9, -1), end(1, 9)]);
    let producer = |transactional_id: Option<&'static str>, producer_id| InitProducerIdRequest {
        transactional_id: transactional_id.map(KStr::from),
        producer_id,
        ..Default::default()
    };
    sweep.all(&[producer(None, -1), producer(Some(""), -1), producer(Some("t"), -1), producer(None, 7)]);
}

/// A client whose last record has an epoch that never was.
fn diverging() -> FetchRequest {
    let mut request = fetch("t", 0, 5, 1 << 20);
    request.topics[0].partitions[0].last_fetched_epoch = 0;
    request
}

#[test]
fn every_version_carries_its_answers() {
    let mut sweep = Sweep { kaas: Kaas::start(), answered: 0 };
    sweep.kaas.connect().create_topic("t", 1);
    sweep.all(&creations());
    lookups(&mut sweep);
    logs(&mut sweep);
    sweep.all(&deletions());
    assert!(sweep.answered > 400, "{}", sweep.answered);
}

#[test]
fn no_version_of_topic_deletion_is_silent_when_it_is_disabled() {
    let kaas = Kaas::start_with(&["delete.topic.enable=false"]);
    Sweep { kaas, answered: 0 }.all(&deletions());
}
