//! A blocking client of one connection, for tests and campaigns: it sends what it is told and hides nothing.

mod random;

pub use random::Random;

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use kaas_core::RecordBatchBuilder;
use kaas_proto::header::{RequestHeader, ResponseHeader};
use kaas_proto::messages::create_topics_request::CreatableTopic;
use kaas_proto::messages::fetch_request::{FetchPartition, FetchTopic};
use kaas_proto::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kaas_proto::messages::{CreateTopicsRequest, CreateTopicsResponse, FetchRequest, ProduceRequest};
use kaas_proto::{ApiRequest, DecodeError, EncodeError, KStr, Message, Reader, Records, Writer};

/// How long an answer may take before the client gives up; never a measure of speed.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The broker closed the connection, or the socket failed.
    #[error("connection: {0}")]
    Io(#[from] io::Error),
    /// An answer that its own version cannot carry.
    #[error("answer: {0}")]
    Decode(#[from] DecodeError),
    /// A request that its version cannot carry.
    #[error("request: {0}")]
    Encode(#[from] EncodeError),
    /// An answer to another request, or bytes after the answer.
    #[error("out of step: {0}")]
    OutOfStep(String),
}

/// One connection.
#[derive(Debug)]
pub struct Client {
    /// The socket, for tests that send bytes of their own.
    pub stream: TcpStream,
    correlation_id: i32,
}

impl Client {
    /// Connects.
    pub fn connect(address: SocketAddr) -> io::Result<Client> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Client { stream, correlation_id: 0 })
    }

    /// Sends a request and returns its correlation id.
    pub fn send<R: ApiRequest>(&mut self, request: &R, version: i16) -> Result<i32, ClientError> {
        self.correlation_id += 1;
        self.stream.write_all(&encode(request, version, self.correlation_id)?)?;
        Ok(self.correlation_id)
    }

    /// Reads the next answer with its correlation id.
    pub fn receive<R: ApiRequest>(&mut self, version: i16) -> Result<(i32, R::Response), ClientError> {
        let frame = self.frame()?;
        let mut reader = Reader::new(frame);
        let header = ResponseHeader::decode(&mut reader, R::KEY.info().response_header_version(version))?;
        let response = R::Response::decode(&mut reader, version)?;
        match reader.remaining() {
            0 => Ok((header.correlation_id, response)),
            rest => Err(ClientError::OutOfStep(format!("{rest} bytes after the answer"))),
        }
    }

    /// Sends a request and reads its answer.
    pub fn call<R: ApiRequest>(&mut self, request: &R, version: i16) -> Result<R::Response, ClientError> {
        let sent = self.send(request, version)?;
        let (received, response) = self.receive::<R>(version)?;
        if sent == received {
            Ok(response)
        } else {
            Err(ClientError::OutOfStep(format!("sent {sent}, received {received}")))
        }
    }

    /// The next frame, without its length.
    pub fn frame(&mut self) -> io::Result<Bytes> {
        let mut prefix = [0; 4];
        self.stream.read_exact(&mut prefix)?;
        let mut frame = vec![0; u32::from_be_bytes(prefix) as usize];
        self.stream.read_exact(&mut frame)?;
        Ok(Bytes::from(frame))
    }

    /// Creates a topic; the answer may say that it exists.
    pub fn create_topic(&mut self, name: &str, partitions: i32) -> Result<CreateTopicsResponse, ClientError> {
        let topic = CreatableTopic {
            name: name.into(),
            num_partitions: partitions,
            replication_factor: 1,
            ..Default::default()
        };
        self.call(&CreateTopicsRequest { topics: vec![topic], timeout_ms: 30_000, ..Default::default() }, 7)
    }
}

/// A request as it goes over the wire, length included.
pub fn encode<R: ApiRequest>(request: &R, version: i16, correlation_id: i32) -> Result<Bytes, EncodeError> {
    let mut writer = Writer::new();
    let header = RequestHeader {
        api_key: R::KEY.code(),
        api_version: version,
        correlation_id,
        client_id: Some(KStr::from_static("kaas-test-client")),
    };
    header.encode(&mut writer, R::KEY.info().request_header_version(version))?;
    request.encode(&mut writer, version)?;
    let body = writer.into_pieces().to_bytes()?;
    let mut frame = BytesMut::with_capacity(4 + body.len());
    frame.put_u32(body.len() as u32);
    frame.put(body);
    Ok(frame.freeze())
}

/// A batch with one record.
pub fn batch(value: &[u8]) -> Bytes {
    RecordBatchBuilder::new().push(None, Some(value), 1_700_000_000_000).build()
}

/// A request that produces one batch.
pub fn produce(topic: &str, partition: i32, batch: Bytes, acks: i16) -> ProduceRequest {
    let data = PartitionProduceData { index: partition, records: Some(Records::Bytes(batch)) };
    ProduceRequest {
        transactional_id: None,
        acks,
        timeout_ms: 30_000,
        topic_data: vec![TopicProduceData { name: topic.into(), partition_data: vec![data] }],
    }
}

/// A request that fetches from one partition, outside of any session.
pub fn fetch(topic: &str, partition: i32, offset: i64, bytes_max: i32) -> FetchRequest {
    let partition = FetchPartition {
        partition,
        fetch_offset: offset,
        partition_max_bytes: bytes_max,
        current_leader_epoch: -1,
        last_fetched_epoch: -1,
        ..Default::default()
    };
    let topic = FetchTopic { topic: topic.into(), partitions: vec![partition], ..Default::default() };
    FetchRequest {
        max_bytes: bytes_max,
        session_epoch: -1,
        topics: vec![topic],
        rack_id: KStr::default(),
        ..Default::default()
    }
}

/// Where a broker listens, out of the line with which it says that it is ready; `None` for any other line of its log.
pub fn ready_address(line: &str) -> Option<SocketAddr> {
    let json: serde_json::Value = serde_json::from_str(line).ok()?;
    if json["message"] != "ready" {
        return None;
    }
    let told = json["listeners"].as_str()?;
    let port = told.trim_end_matches([')', ']']).rsplit(' ').next()?.parse().ok()?;
    Some(SocketAddr::from(([127, 0, 0, 1], port)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ready_line_names_the_port() {
        let line = r#"{"message":"ready","listeners":"[(\"127.0.0.1\", 43210)]"}"#;
        assert_eq!(ready_address(line).map(|address| address.port()), Some(43210));
        assert_eq!(ready_address("noise"), None);
    }
}
