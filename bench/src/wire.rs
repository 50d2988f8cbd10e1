//! Requests on a blocking connection, for everything that is not measured.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use kaas_proto::header::{RequestHeader, ResponseHeader};
use kaas_proto::messages::create_topics_request::{
    CreatableTopic, CreateTopicsRequest, CreateableTopicConfig,
};
use kaas_proto::messages::delete_topics_request::{DeleteTopicState, DeleteTopicsRequest};
use kaas_proto::messages::list_offsets_request::{
    ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic,
};
use kaas_proto::messages::{ApiVersionsRequest, FindCoordinatorRequest, InitProducerIdRequest};
use kaas_proto::{ApiRequest, KStr, Message, Reader, Writer};

/// Where the correlation id lies in a frame that has its length before it.
pub(crate) const CORRELATION_AT: usize = 8;
/// How long a broker may take to answer anything.
const ANSWER_WAIT: Duration = Duration::from_secs(60);
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(10);
/// A coordinator that loads, moves, or has a transaction to end: ask again.
const FOR_LATER: [i16; 5] = [14, 15, 16, 51, 3];
const COORDINATOR_AGAIN_AFTER: Duration = Duration::from_millis(1);
/// What there are coordinators for.
pub(crate) const GROUP: i8 = 0;
pub(crate) const TRANSACTIONAL_ID: i8 = 1;
/// Latest is the end of a partition for ListOffsets.
const LATEST: i64 = -1;

/// A request with header and length, and correlation id 0.
pub(crate) fn frame<R: ApiRequest>(request: &R, version: i16) -> Result<Vec<u8>> {
    let header = RequestHeader {
        api_key: R::KEY.code(),
        api_version: version,
        correlation_id: 0,
        client_id: Some(KStr::from_static("kaas-bench")),
    };
    let mut writer = Writer::new();
    header.encode(&mut writer, R::KEY.info().request_header_version(version))?;
    request.encode(&mut writer, version)?;
    let body = writer.into_pieces().to_bytes()?;
    let mut frame = (body.len() as i32).to_be_bytes().to_vec();
    frame.extend_from_slice(&body);
    Ok(frame)
}

/// The response in a frame without its length.
pub(crate) fn response<R: ApiRequest>(frame: Bytes, version: i16) -> Result<R::Response> {
    let mut reader = Reader::new(frame);
    ResponseHeader::decode(&mut reader, R::KEY.info().response_header_version(version))?;
    Ok(R::Response::decode(&mut reader, version)?)
}

/// A connection for requests that wait for their answers.
pub(crate) struct Connection(TcpStream);

impl Connection {
    /// Connects.
    pub(crate) fn open(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER_WAIT))?;
        Ok(Self(stream))
    }

    /// One request and its response.
    pub(crate) fn ask<R: ApiRequest>(&mut self, request: &R, version: i16) -> Result<R::Response> {
        self.0.write_all(&frame(request, version)?)?;
        let mut length = [0; 4];
        self.0.read_exact(&mut length).context("no answer")?;
        let mut answer = vec![0; u32::from_be_bytes(length) as usize];
        self.0.read_exact(&mut answer)?;
        response::<R>(answer.into(), version)
    }
}

/// Asks until the answer's code is 0.
pub(crate) fn until_done<R: ApiRequest>(
    connection: &mut Connection,
    request: &R,
    version: i16,
    code: impl Fn(&R::Response) -> i16,
) -> Result<R::Response> {
    let deadline = Instant::now() + ANSWER_WAIT;
    loop {
        let response = connection.ask(request, version)?;
        match code(&response) {
            0 => return Ok(response),
            later if FOR_LATER.contains(&later) && Instant::now() < deadline => {
                thread::sleep(COORDINATOR_AGAIN_AFTER)
            }
            code => anyhow::bail!("{:?} gave error {code}", R::KEY),
        }
    }
}

/// Waits until somebody coordinates keys of a type. Kafka makes its internal topics when it is asked the first time.
pub(crate) fn find_coordinator(address: SocketAddr, key_type: i8) -> Result<()> {
    let request = FindCoordinatorRequest { key: "any".into(), key_type, ..Default::default() };
    until_done(&mut Connection::open(address)?, &request, 3, |response| response.error_code).map(drop)
}

/// One request and its response, on a connection of its own.
pub(crate) fn ask<R: ApiRequest>(address: SocketAddr, request: &R, version: i16) -> Result<R::Response> {
    Connection::open(address)?.ask(request, version)
}

/// Whether something answers ApiVersions at an address.
pub(crate) fn answers(address: SocketAddr) -> bool {
    ask(address, &ApiVersionsRequest::default(), 0).is_ok_and(|response| response.error_code == 0)
}

/// Creates a topic and waits until its partitions are led.
pub(crate) fn create_topic(
    address: SocketAddr,
    name: &str,
    partitions: i32,
    flush_messages: i64,
) -> Result<()> {
    create_topic_with(address, name, partitions, &[("flush.messages", &flush_messages.to_string())])
}

/// The same with settings of its own.
pub(crate) fn create_topic_with(
    address: SocketAddr,
    name: &str,
    partitions: i32,
    settings: &[(&'static str, &str)],
) -> Result<()> {
    let setting = |(name, value): &(&'static str, &str)| CreateableTopicConfig {
        name: KStr::from_static(name),
        value: Some((*value).into()),
    };
    let topic = CreatableTopic {
        name: name.into(),
        num_partitions: partitions,
        replication_factor: 1,
        configs: settings.iter().map(setting).collect(),
        ..CreatableTopic::default()
    };
    let response = ask(address, &CreateTopicsRequest { topics: vec![topic], ..Default::default() }, 4)?;
    let code = response.topics.first().context("no topic in the answer")?.error_code;
    ensure!(code == 0, "creating {name} gave error {code}");
    let deadline = Instant::now() + ANSWER_WAIT;
    while end_offsets(address, name, partitions).is_err() {
        ensure!(Instant::now() < deadline, "{name} has no leader");
        thread::sleep(ASK_AGAIN_AFTER);
    }
    Ok(())
}

/// The end of each partition of a topic.
pub(crate) fn end_offsets(address: SocketAddr, name: &str, partitions: i32) -> Result<Vec<i64>> {
    let asked = (0..partitions)
        .map(|index| ListOffsetsPartition { partition_index: index, timestamp: LATEST, ..Default::default() })
        .collect();
    let topics = vec![ListOffsetsTopic { name: name.into(), partitions: asked }];
    let response = ask(address, &ListOffsetsRequest { replica_id: -1, topics, ..Default::default() }, 5)?;
    let mut told: Vec<_> = response.topics.into_iter().flat_map(|topic| topic.partitions).collect();
    told.sort_by_key(|partition| partition.partition_index);
    ensure!(told.len() == partitions as usize, "{} of {partitions} partitions were told of", told.len());
    ensure!(told.iter().all(|partition| partition.error_code == 0), "a partition of {name} is not led");
    Ok(told.iter().map(|partition| partition.offset).collect())
}

/// Deletes a topic.
pub(crate) fn delete_topic(address: SocketAddr, name: &str) -> Result<()> {
    let topics = vec![DeleteTopicState { name: Some(name.into()), ..Default::default() }];
    let request = DeleteTopicsRequest { topics, timeout_ms: 60_000, ..Default::default() };
    let response = ask(address, &request, 6)?;
    match response.responses.first().map(|response| response.error_code) {
        Some(0) => Ok(()),
        code => bail!("deleting {name} gave error {code:?}"),
    }
}

/// A fresh producer id.
pub(crate) fn producer_id(address: SocketAddr) -> Result<i64> {
    let request = InitProducerIdRequest {
        transactional_id: None,
        transaction_timeout_ms: 60_000,
        ..Default::default()
    };
    let deadline = Instant::now() + ANSWER_WAIT;
    loop {
        let response = ask(address, &request, 4)?;
        match response.error_code {
            0 => return Ok(response.producer_id),
            code => ensure!(Instant::now() < deadline, "no producer id: error {code}"),
        }
        thread::sleep(ASK_AGAIN_AFTER);
    }
}
