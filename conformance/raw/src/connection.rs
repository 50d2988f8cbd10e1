//! One connection, with a memory of what it still expects.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result};
use bytes::Bytes;
use kaas_proto::header::ResponseHeader;
use kaas_proto::json::{CATALOGUE, Decoded};
use kaas_proto::{ApiKey, Message, Reader};
use serde_json::{Value, json};

use crate::batch;
use crate::encode::to_hex;

/// How long an answer may take before the case goes on without it.
const ANSWER_WAIT: Duration = Duration::from_secs(20);
/// How long a connection must say nothing to be called quiet.
const QUIET_WAIT: Duration = Duration::from_millis(200);
/// No answer of a case is longer; a broker that says so is not followed.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// What an answer is an answer to.
#[derive(Clone, Debug)]
pub(crate) struct Expected {
    /// The API.
    pub api: String,
    /// The version of the answer's body.
    pub version: i16,
    /// See [`Request::unpack`](crate::case::Request::unpack).
    pub unpack: bool,
}

/// What came of waiting for a frame.
pub(crate) enum Frame {
    /// A frame without its length.
    Whole(Vec<u8>),
    /// The end of the connection, orderly or by reset.
    Closed,
    /// Nothing, or not enough, in time.
    Late,
}

/// A connection to a broker.
pub(crate) struct Connection {
    stream: TcpStream,
    sent: i32,
    expected: VecDeque<Expected>,
}

impl Connection {
    /// Connects.
    pub(crate) fn open(address: &str) -> Result<Self> {
        let stream = TcpStream::connect(address).with_context(|| format!("connecting to {address}"))?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, sent: 0, expected: VecDeque::new() })
    }

    /// The next correlation id: 1, 2, 3...
    pub(crate) fn next_correlation_id(&mut self) -> i32 {
        self.sent += 1;
        self.sent
    }

    /// Gives the last correlation id again.
    pub(crate) fn repeat_correlation_id(&mut self) {
        self.sent -= 1;
    }

    /// Remembers that an answer is due.
    pub(crate) fn expect(&mut self, expected: Expected) {
        self.expected.push_back(expected);
    }

    /// Writes bytes. A peer that has closed is found out by reading.
    pub(crate) fn write(&mut self, bytes: &[u8], pieces: &[usize]) {
        let mut rest = bytes;
        for piece in pieces {
            let (now, later) = rest.split_at((*piece).min(rest.len()));
            let _ = self.stream.write_all(now);
            rest = later;
        }
        let _ = self.stream.write_all(rest);
    }

    /// Whether there is nothing to read and the connection is open.
    pub(crate) fn quiet(&mut self) -> Result<Value> {
        self.stream.set_read_timeout(Some(QUIET_WAIT))?;
        Ok(match self.stream.peek(&mut [0]) {
            Ok(0) => json!("closed"),
            Ok(_) => json!("has something to read"),
            Err(error) if is_timeout(error.kind()) => json!("quiet"),
            Err(_) => json!("closed"),
        })
    }

    /// The next answer as JSON: what it answers, and its body.
    pub(crate) fn receive(&mut self) -> Result<Value> {
        let frame = match self.frame()? {
            Frame::Whole(frame) => frame,
            Frame::Closed => return Ok(json!("closed")),
            Frame::Late => return Ok(json!("no answer in time")),
        };
        let Some(expected) = self.expected.pop_front() else {
            return Ok(json!({ "unexpected": to_hex(&frame) }));
        };
        Ok(describe(&expected, frame.into())
            .unwrap_or_else(|error| json!({ "undecodable": error.to_string() })))
    }

    fn frame(&mut self) -> Result<Frame> {
        self.stream.set_read_timeout(Some(ANSWER_WAIT))?;
        let mut length = [0; 4];
        match self.stream.read_exact(&mut length) {
            Ok(()) => {}
            Err(error) if is_timeout(error.kind()) => return Ok(Frame::Late),
            Err(_) => return Ok(Frame::Closed),
        }
        let mut frame = vec![0; (u32::from_be_bytes(length) as usize).min(ANSWER_BYTES_MAX)];
        Ok(match self.stream.read_exact(&mut frame) {
            Ok(()) => Frame::Whole(frame),
            Err(error) if is_timeout(error.kind()) => Frame::Late,
            Err(_) => Frame::Closed,
        })
    }
}

fn is_timeout(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// An answer in JSON. Bytes after the body and a body that is not written the usual way are told.
fn describe(expected: &Expected, frame: Bytes) -> Result<Value> {
    let name = format!("{}Response", expected.api);
    let key = key(&expected.api)?;
    let mut reader = Reader::new(frame);
    let header = ResponseHeader::decode(&mut reader, key.info().response_header_version(expected.version))?;
    let body = reader.rest();
    let entry = CATALOGUE.iter().find(|entry| entry.name == name).with_context(|| name.clone())?;
    let Decoded { rest, mut json, again } = (entry.decode)(body.clone(), expected.version)?;
    describe_records(&mut json, expected.unpack);
    let mut answer = json!({ "api": expected.api, "correlationId": header.correlation_id, "body": json });
    if !rest.is_empty() {
        answer["bytesAfterTheBody"] = rest.len().into();
    }
    if again?.to_bytes()? != body.slice(..body.len() - rest.len()) {
        answer["writtenUnusually"] = true.into();
    }
    Ok(answer)
}

/// The API of a name.
pub(crate) fn key(api: &str) -> Result<ApiKey> {
    let info = kaas_proto::APIS.iter().find(|info| info.name == api);
    Ok(info.with_context(|| format!("no API is called {api}"))?.key)
}

/// Puts the batches in place of their base64.
fn describe_records(value: &mut Value, unpack: bool) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| describe_records(item, unpack)),
        Value::Object(map) => {
            for (key, value) in map.iter_mut() {
                match value {
                    Value::String(text) if key == "records" => {
                        *value = batch::describe(&from_base64(text), unpack);
                    }
                    value => describe_records(value, unpack),
                }
            }
        }
        _ => {}
    }
}

/// Bytes of RFC 4648 base64, as the codec's JSON form has it.
fn from_base64(text: &str) -> Vec<u8> {
    let digits = text.bytes().filter_map(|byte| match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    });
    let (mut out, mut bits, mut held) = (Vec::new(), 0u32, 0);
    for digit in digits {
        bits = bits << 6 | u32::from(digit);
        held += 6;
        if held >= 8 {
            held -= 8;
            out.push((bits >> held) as u8);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_read() {
        for (text, bytes) in [("", ""), ("Zg==", "f"), ("Zm8=", "fo"), ("Zm9vYmFy", "foobar")] {
            assert_eq!(from_base64(text), bytes.as_bytes());
        }
    }
}
