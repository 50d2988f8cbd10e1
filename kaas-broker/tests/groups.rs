//! Groups and their offsets outlive the broker: killed without warning at any step, it comes back with what it has acknowledged.

#![allow(clippy::unwrap_used)]

mod support;

use std::time::Instant;

use bytes::Bytes;
use kaas_proto::ErrorCode;
use kaas_proto::messages::join_group_request::JoinGroupRequestProtocol;
use kaas_proto::messages::offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use kaas_proto::messages::offset_fetch_request::OffsetFetchRequestTopic;
use kaas_proto::messages::sync_group_request::SyncGroupRequestAssignment;
use kaas_proto::messages::{
    DescribeGroupsRequest, HeartbeatRequest, JoinGroupRequest, JoinGroupResponse, OffsetCommitRequest,
    OffsetFetchRequest, SyncGroupRequest, SyncGroupResponse,
};
use support::{Client, Kaas, PATIENCE};
use tempfile::TempDir;

/// Nobody is waited for but those who are known.
const OVERRIDES: &[&str] = &["group.initial.rebalance.delay.ms=0"];
const NONE: i16 = 0;

fn start(folder: Option<TempDir>) -> Kaas {
    match folder {
        None => Kaas::start_with(OVERRIDES),
        Some(folder) => Kaas::start_in(folder, OVERRIDES),
    }
}

/// Asks until the coordinator has loaded; every other answer counts.
fn loaded<T>(mut ask: impl FnMut() -> T, code: impl Fn(&T) -> i16) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let answer = ask();
        if code(&answer) != ErrorCode::CoordinatorLoadInProgress.code() {
            return answer;
        }
        assert!(Instant::now() < deadline, "the coordinator does not load");
    }
}

fn commit(client: &mut Client, offset: i64) -> i16 {
    let at = OffsetCommitRequestPartition { committed_offset: offset, ..Default::default() };
    let topics = vec![OffsetCommitRequestTopic { name: "t".into(), partitions: vec![at] }];
    let request = OffsetCommitRequest {
        group_id: "g".into(),
        generation_id_or_member_epoch: -1,
        topics,
        ..Default::default()
    };
    let code = |client: &mut Client| client.call(&request, 8).topics[0].partitions[0].error_code;
    loaded(|| code(client), |code| *code)
}

fn committed(client: &mut Client) -> i64 {
    let topics = vec![OffsetFetchRequestTopic { name: "t".into(), partition_indexes: vec![0] }];
    let request = OffsetFetchRequest { group_id: "g".into(), topics: Some(topics), ..Default::default() };
    let answer = loaded(|| client.call(&request, 7), |answer| answer.error_code);
    assert_eq!(answer.error_code, NONE);
    answer.topics[0].partitions[0].committed_offset
}

fn join(member_id: &str, instance: Option<&'static str>, metadata: &'static str) -> JoinGroupRequest {
    let metadata = Bytes::from_static(metadata.as_bytes());
    JoinGroupRequest {
        group_id: "g".into(),
        session_timeout_ms: 60_000,
        rebalance_timeout_ms: 60_000,
        member_id: member_id.into(),
        group_instance_id: instance.map(Into::into),
        protocol_type: "consumer".into(),
        protocols: vec![JoinGroupRequestProtocol { name: "range".into(), metadata }],
        ..Default::default()
    }
}

fn joined(client: &mut Client, request: &JoinGroupRequest) -> JoinGroupResponse {
    let answer = loaded(|| client.call(request, 9), |answer| answer.error_code);
    assert_eq!(answer.error_code, NONE);
    answer
}

fn sync(
    client: &mut Client,
    member: &JoinGroupResponse,
    assignments: &[(&str, &'static str)],
) -> SyncGroupResponse {
    let assignment = |&(member_id, bytes): &(&str, &'static str)| SyncGroupRequestAssignment {
        member_id: member_id.into(),
        assignment: Bytes::from_static(bytes.as_bytes()),
    };
    let request = SyncGroupRequest {
        group_id: "g".into(),
        generation_id: member.generation_id,
        member_id: member.member_id.clone(),
        assignments: assignments.iter().map(assignment).collect(),
        ..Default::default()
    };
    client.call(&request, 4)
}

fn heartbeat(client: &mut Client, member: &JoinGroupResponse) -> i16 {
    let request = HeartbeatRequest {
        group_id: "g".into(),
        generation_id: member.generation_id,
        member_id: member.member_id.clone(),
        ..Default::default()
    };
    client.call(&request, 4).error_code
}

fn state(client: &mut Client) -> String {
    let request = DescribeGroupsRequest { groups: vec!["g".into()], ..Default::default() };
    let answer = loaded(|| client.call(&request, 5), |answer| answer.groups[0].error_code);
    answer.groups[0].group_state.to_string()
}

#[test]
fn committed_offsets_outlive_the_broker_and_are_never_none() {
    let mut folder = None;
    for round in 0..5 {
        let kaas = start(folder.take());
        let mut client = kaas.connect();
        if round == 0 {
            client.create_topic("t", 1);
        } else {
            assert_eq!(committed(&mut client), round * 10, "before anything else is asked");
        }
        for offset in 1..=10 {
            assert_eq!(commit(&mut client, round * 10 + offset), NONE);
        }
        folder = Some(kaas.kill());
    }
}

#[test]
fn a_topic_that_died_with_the_broker_leaves_no_offsets_to_its_successor() {
    let kaas = start(None);
    let mut client = kaas.connect();
    client.create_topic("t", 1);
    assert_eq!(commit(&mut client, 7), NONE);
    let folder = kaas.kill();
    // The broker died when the deletion was durable, and before the groups were told.
    for entry in std::fs::read_dir(folder.path().join("cluster/topics")).unwrap() {
        std::fs::remove_file(entry.unwrap().path()).unwrap();
    }
    let kaas = start(Some(folder));
    let mut client = kaas.connect();
    client.create_topic("t", 1);
    assert_eq!(committed(&mut client), -1);
    assert_eq!(commit(&mut client, 9), NONE);
    // Whatever is forgotten meanwhile, it is not this one.
    assert_eq!(committed(&mut client), 9);
}

#[test]
fn members_outlive_the_broker_with_their_assignments() {
    let kaas = start(None);
    let mut client = kaas.connect();
    let member = joined(&mut client, &join("", Some("i"), "m"));
    let synced = sync(&mut client, &member, &[(&member.member_id, "mine")]);
    assert_eq!((synced.error_code, &synced.assignment[..]), (NONE, &b"mine"[..]));

    let kaas = start(Some(kaas.kill()));
    let mut client = kaas.connect();
    assert_eq!(heartbeat(&mut client, &member), NONE, "while it loads, and afterwards");
    assert_eq!(state(&mut client), "Stable");
    assert_eq!(heartbeat(&mut client, &member), NONE);
    assert_eq!(&sync(&mut client, &member, &[]).assignment[..], b"mine");
    let again = joined(&mut client, &join("", Some("i"), "m"));
    assert_eq!(again.generation_id, member.generation_id, "a static member comes back without a rebalance");
    assert!(again.skip_assignment);

    let kaas = start(Some(kaas.kill()));
    let mut client = kaas.connect();
    assert_eq!(state(&mut client), "Stable");
    assert_eq!(heartbeat(&mut client, &again), NONE);
    assert_eq!(
        heartbeat(&mut client, &member),
        ErrorCode::UnknownMemberId.code(),
        "the one that it replaced"
    );
}

#[test]
fn a_rebalance_that_the_broker_died_in_begins_anew() {
    let kaas = start(None);
    let mut client = kaas.connect();
    let member = joined(&mut client, &join("", Some("i"), "m"));
    assert_eq!(state(&mut client), "CompletingRebalance");

    // Nobody had an assignment: there is no group.
    let kaas = start(Some(kaas.kill()));
    let mut client = kaas.connect();
    assert_eq!(state(&mut client), "Dead");
    assert_eq!(heartbeat(&mut client, &member), ErrorCode::UnknownMemberId.code());
    let member = joined(&mut client, &join("", Some("i"), "m"));
    sync(&mut client, &member, &[(&member.member_id, "mine")]);
    let mut other = kaas.connect();
    other.send(&join("", Some("j"), "m"), 9);
    while state(&mut client) != "PreparingRebalance" {}

    // The generation that had one goes on.
    let kaas = start(Some(kaas.kill()));
    let mut client = kaas.connect();
    assert_eq!(state(&mut client), "Stable");
    assert_eq!(heartbeat(&mut client, &member), NONE);
    let mut other = kaas.connect();
    other.send(&join("", Some("j"), "m"), 9);
    while heartbeat(&mut client, &member) != ErrorCode::RebalanceInProgress.code() {}
    let next = joined(&mut client, &join(&member.member_id, Some("i"), "m"));
    assert_eq!(next.generation_id, member.generation_id + 1);
    assert_eq!(other.receive::<JoinGroupRequest>(9).1.generation_id, next.generation_id);
}

#[test]
fn a_stopping_broker_waits_for_no_rebalance() {
    let kaas = start(None);
    let mut client = kaas.connect();
    let member = joined(&mut client, &join("", Some("i"), "m"));
    sync(&mut client, &member, &[]);
    let mut other = kaas.connect();
    other.send(&join("", Some("j"), "m"), 9);
    while state(&mut client) != "PreparingRebalance" {}
    let (code, _) = kaas.terminate();
    assert_eq!(code, Some(0));
    other.expect_close();
}

#[test]
fn offsets_of_a_deleted_topic_do_not_come_back() {
    let kaas = start(None);
    let mut client = kaas.connect();
    client.create_topic("t", 1);
    assert_eq!(commit(&mut client, 7), NONE);
    let request = kaas_proto::messages::DeleteTopicsRequest {
        topic_names: vec!["t".into()],
        timeout_ms: 10_000,
        ..Default::default()
    };
    assert_eq!(client.call(&request, 5).responses[0].error_code, NONE);
    client.create_topic("t", 1);
    assert_eq!(committed(&mut client), -1);
    let kaas = start(Some(kaas.kill()));
    assert_eq!(committed(&mut kaas.connect()), -1);
}
