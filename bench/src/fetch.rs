//! The fetch driver: headers are read, record bytes are thrown away by the kernel.
//!
//! A consumer that copies records to user space costs more than a broker that sends them, and on a small machine it
//! would be what is measured. Every 64th response is read whole and its CRCs are checked, so fast cannot mean garbage.

use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail, ensure};
use kaas_proto::messages::FetchRequest;
use kaas_proto::messages::fetch_request::{FetchPartition, FetchTopic};
use rustix::net::{RecvFlags, recv};

use crate::batch;
use crate::meter::{Measured, Meter, Times};
use crate::wire;

/// The last version without tagged fields: its header has a known length.
pub(crate) const VERSION: i16 = 11;
const CHECK_EVERY: u64 = 64;
const DISCARD_BYTES: usize = 1 << 20;
/// As a Java consumer asks: 1 MiB of a partition.
const PARTITION_BYTES_MAX: i32 = 1 << 20;
const MAX_WAIT_MS: i32 = 500;

/// What lies in a partition: batches that are all alike.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    /// Bytes of a batch.
    pub(crate) batch_bytes: usize,
    /// Records of a batch.
    pub(crate) records: i64,
    /// The end of each partition; each is read from its start to its end before the next.
    pub(crate) end_offsets: Vec<i64>,
}

/// So many consumers read everything, again and again, each on its own connection and thread.
pub(crate) fn run(
    address: SocketAddr,
    pid: u32,
    topic: &str,
    stored: &Stored,
    consumers: usize,
    times: Times,
) -> Result<Measured> {
    let meter = Mutex::new(Meter::start(pid, times));
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        let consumer = |_| scope.spawn(|| consume(address, topic, stored, &meter, &ended));
        let consumers: Vec<_> = (0..consumers).map(consumer).collect();
        let join = |consumer: ScopedJoinHandle<'_, _>| {
            consumer.join().map_err(|_| anyhow!("a consumer panicked"))?
        };
        consumers.into_iter().try_for_each(join)
    })?;
    meter.into_inner().map_err(|_| anyhow!("a consumer panicked"))?.stop()
}

fn consume(
    address: SocketAddr,
    topic: &str,
    stored: &Stored,
    meter: &Mutex<Meter>,
    ended: &AtomicBool,
) -> Result<()> {
    let mut consumer = Consumer::open(address, topic)?;
    let (mut partition, mut offset, mut count) = (0, 0, 0);
    while !ended.load(Ordering::Relaxed) {
        let due = Instant::now();
        let bytes = consumer.fetch(partition as i32, offset, count % CHECK_EVERY == 0)?;
        let batches = bytes / stored.batch_bytes;
        ensure!(batches > 0, "no whole batch at offset {offset} of partition {partition}");
        let goes_on =
            meter.lock().map_err(|_| anyhow!("a consumer panicked"))?.answered(due, bytes as u64)?;
        if !goes_on {
            ended.store(true, Ordering::Relaxed);
        }
        count += 1;
        offset += batches as i64 * stored.records;
        if offset >= stored.end_offsets[partition] {
            (partition, offset) = ((partition + 1) % stored.end_offsets.len(), 0);
        }
    }
    Ok(())
}

struct Consumer {
    stream: TcpStream,
    topic: String,
    discarded: Vec<u8>,
}

impl Consumer {
    fn open(address: SocketAddr, topic: &str) -> Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, topic: topic.to_owned(), discarded: vec![0; DISCARD_BYTES] })
    }

    /// One fetch; gives the number of record bytes.
    fn fetch(&mut self, partition: i32, offset: i64, check: bool) -> Result<usize> {
        let request = request(&self.topic, partition, offset, PARTITION_BYTES_MAX);
        std::io::Write::write_all(&mut self.stream, &wire::frame(&request, VERSION)?)?;
        let mut head = vec![0; head_bytes(&self.topic)];
        self.stream.read_exact(&mut head)?;
        let records = record_bytes(&head, &self.topic)?;
        if check {
            let mut bytes = vec![0; records];
            self.stream.read_exact(&mut bytes)?;
            batch::check(&bytes).context("a fetched batch is damaged")?;
        } else {
            self.discard(records)?;
        }
        Ok(records)
    }

    fn discard(&mut self, mut left: usize) -> Result<()> {
        while left > 0 {
            let now = left.min(self.discarded.len());
            let (_, read) = recv(&self.stream, &mut self.discarded[..now], RecvFlags::TRUNC)?;
            if read == 0 {
                bail!("the broker closed the connection");
            }
            left -= read;
        }
        Ok(())
    }
}

/// Asks for one partition, outside of any session.
pub(crate) fn request(topic: &str, partition: i32, offset: i64, partition_max_bytes: i32) -> FetchRequest {
    let partition =
        FetchPartition { partition, fetch_offset: offset, partition_max_bytes, ..FetchPartition::default() };
    let topic = FetchTopic { topic: topic.into(), partitions: vec![partition], ..FetchTopic::default() };
    FetchRequest { max_wait_ms: MAX_WAIT_MS, min_bytes: 1, topics: vec![topic], ..FetchRequest::default() }
}

/// The bytes of an answer before the records, length included, for one partition of one topic.
fn head_bytes(topic: &str) -> usize {
    let frame = 4 + 4;
    let response = 4 + 2 + 4 + 4;
    let topic = 2 + topic.len() + 4;
    let partition = 4 + 2 + 8 + 8 + 8 + 4 + 4 + 4;
    frame + response + topic + partition
}

/// The length of the records, once the head has been found to be as it must.
fn record_bytes(head: &[u8], topic: &str) -> Result<usize> {
    let int = |at: usize| {
        head.get(at..at + 4).map(|field| i32::from_be_bytes([field[0], field[1], field[2], field[3]]))
    };
    let short = |at: usize| head.get(at..at + 2).map(|field| i16::from_be_bytes([field[0], field[1]]));
    let partition = 8 + 14 + 2 + topic.len() + 4;
    ensure!(short(12) == Some(0), "fetch gave error {:?}", short(12));
    ensure!(short(partition + 4) == Some(0), "fetch gave error {:?} for the partition", short(partition + 4));
    ensure!(int(partition + 30).is_some_and(|count| count <= 0), "aborted transactions in a log without any");
    let (length, records) = (int(0).unwrap_or(0), int(partition + 38).unwrap_or(0).max(0));
    ensure!(
        length + 4 == head.len() as i32 + records,
        "the answer is {length} bytes, of which {records} records"
    );
    Ok(records as usize)
}

#[cfg(test)]
mod tests {
    use kaas_proto::header::ResponseHeader;
    use kaas_proto::messages::FetchResponse;
    use kaas_proto::messages::fetch_response::{FetchableTopicResponse, PartitionData};
    use kaas_proto::{Message, Writer};

    use super::*;

    #[test]
    fn the_head_is_where_the_codec_puts_it() {
        let records = batch::build(2, 10, batch::NO_PRODUCER);
        let partition = PartitionData { records: Some(records.clone().into()), ..PartitionData::default() };
        let topic = FetchableTopicResponse {
            topic: "topic".into(),
            partitions: vec![partition],
            ..Default::default()
        };
        let response = FetchResponse { responses: vec![topic], ..FetchResponse::default() };
        let mut writer = Writer::new();
        ResponseHeader::default().encode(&mut writer, 0).unwrap();
        response.encode(&mut writer, VERSION).unwrap();
        let body = writer.into_pieces().to_bytes().unwrap();
        let frame = [&(body.len() as i32).to_be_bytes()[..], &body].concat();
        let head = head_bytes("topic");
        assert_eq!(record_bytes(&frame[..head], "topic").unwrap(), records.len());
        assert_eq!(frame[head..], records[..]);
    }
}
