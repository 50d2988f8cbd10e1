//! Reading: while the broker lives, to learn what it serves; and after a crash, the whole of each partition.

use std::net::SocketAddr;

use kaas_core::record::read_batch;
use kaas_proto::Records;
use kaas_test_client::{Client, ClientError, fetch};

use crate::TOPIC;
use crate::ledger::{Ledger, Value, Violation};
use crate::producer::Stopped;

/// The most bytes of one answer.
const BYTES_MAX: i32 = 1 << 20;
/// The version of the fetch requests.
const FETCH_VERSION: i16 = 12;

/// One answer of a partition.
struct Answer {
    values: Vec<(i64, Value)>,
    high_watermark: i64,
}

/// Follows all partitions until the connection breaks, noting everything that is served.
pub(crate) fn follow(address: SocketAddr, partitions: usize, ledger: &Ledger) -> Stopped {
    let run = || -> Result<std::convert::Infallible, Stopped> {
        let mut client = Client::connect(address).map_err(ClientError::from)?;
        let mut next = vec![0; partitions];
        loop {
            for (partition, offset) in next.iter_mut().enumerate() {
                let answer = read(&mut client, partition, *offset)?;
                if ledger.in_doubt() {
                    return Err(Stopped::Broken("the power is being cut".to_owned()));
                }
                for (at, value) in answer.values {
                    ledger.serve(partition, at, value)?;
                    *offset = at + 1;
                }
            }
        }
    };
    match run() {
        Ok(never) => match never {},
        Err(stopped) => stopped,
    }
}

/// A whole partition: its values by offset, with a violation where offsets are not consecutive.
pub(crate) fn read_all(client: &mut Client, partition: usize) -> Result<Vec<Value>, Stopped> {
    let mut log = Vec::new();
    loop {
        let offset = log.len() as i64;
        let answer = read(client, partition, offset)?;
        if offset >= answer.high_watermark {
            return Ok(log);
        }
        if answer.values.is_empty() {
            let why = format!("partition {partition}: nothing at {offset} below the high watermark");
            return Err(Violation(why).into());
        }
        for (at, value) in answer.values {
            if at != log.len() as i64 {
                let why = format!("partition {partition}: offset {at} after {} records", log.len());
                return Err(Violation(why).into());
            }
            log.push(value);
        }
    }
}

fn read(client: &mut Client, partition: usize, offset: i64) -> Result<Answer, Stopped> {
    let answer = client.call(&fetch(TOPIC, partition as i32, offset, BYTES_MAX), FETCH_VERSION)?;
    let row = answer
        .responses
        .into_iter()
        .next()
        .and_then(|topic| topic.partitions.into_iter().next())
        .ok_or_else(|| Stopped::Broken(format!("a fetch without a partition, code {}", answer.error_code)))?;
    if row.error_code != 0 {
        return Err(Stopped::Broken(format!("fetch: code {}", row.error_code)));
    }
    let bytes = row.records.as_ref().and_then(Records::as_bytes).cloned().unwrap_or_default();
    let mut values = parse(&bytes, partition)?;
    values.retain(|(at, _)| *at >= offset);
    Ok(Answer { values, high_watermark: row.high_watermark })
}

/// The values of all complete batches; the last one may be cut.
fn parse(mut bytes: &[u8], partition: usize) -> Result<Vec<(i64, Value)>, Stopped> {
    let damaged = |why: String| Stopped::Violated(Violation(format!("partition {partition}: {why}")));
    let mut values = Vec::new();
    while let Some(batch) = read_batch(bytes).map_err(|error| damaged(error.to_string()))? {
        for record in batch.records {
            let value = record.value.as_deref().and_then(Value::parse);
            let value = value.ok_or_else(|| damaged(format!("a strange record at {}", record.offset)))?;
            values.push((record.offset, value));
        }
        bytes = &bytes[batch.header.size..];
    }
    Ok(values)
}
