//! The produce driver: one thread, epoll, frames that were encoded before.
//!
//! Closed loop: each connection keeps so many requests in flight and sends the next when one is answered. Open loop:
//! requests are due at fixed times, whether or not the broker keeps up, and latency counts from when a request was due
//! (so a stall is not hidden by the requests that it kept from being sent).

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bytes::{Bytes, BytesMut};
use kaas_core::record::CompressionCodec;
use kaas_proto::messages::ProduceRequest;
use kaas_proto::messages::produce_request::{PartitionProduceData, TopicProduceData};
use rustix::event::{Timespec, epoll};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};

use crate::batch::{self, NO_PRODUCER};
use crate::meter::{Measured, Meter, Times};
use crate::wire::{self, CORRELATION_AT};

pub(crate) const VERSION: i16 = 9;
/// Behind the records: the empty tag sections of the partition, the topic and the request.
const BYTES_AFTER_RECORDS: usize = 3;
/// Requests that wait for an answer of one connection in an open loop; more wait for their turn.
const OPEN_LOOP_IN_FLIGHT_MAX: usize = 5;
const READ_BYTES: usize = 64 << 10;
const EVENTS_MAX: usize = 256;
/// The timer among the events; connections count from 0.
const TIMER: u64 = u64::MAX;

/// A load.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    /// Connections.
    pub(crate) connections: usize,
    /// Partitions of the topic; each connection goes round them.
    pub(crate) partitions: i32,
    /// Records of a batch.
    pub(crate) records: usize,
    /// Bytes of a record's value.
    pub(crate) value_bytes: usize,
    /// 1 or -1.
    pub(crate) acks: i16,
    /// What batches are compressed with; those of idempotent producers are not.
    pub(crate) codec: CompressionCodec,
    /// Whether each connection is an idempotent producer.
    pub(crate) idempotent: bool,
    /// How requests are timed.
    pub(crate) pace: Pace,
}

/// How requests are timed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pace {
    /// So many in flight on each connection.
    Closed { in_flight: usize },
    /// So many due each second, over all connections.
    Open { per_second: f64 },
}

impl Load {
    /// The most requests that can wait for an acknowledgement at once.
    pub(crate) fn waiting(&self) -> usize {
        self.connections * self.pace.in_flight_max()
    }
}

/// Runs a load and measures it.
pub(crate) fn run(address: SocketAddr, pid: u32, topic: &str, load: &Load, times: Times) -> Result<Measured> {
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let mut connections = Vec::new();
    for index in 0..load.connections {
        let connection = Connection::open(address, topic, load, index)?;
        let flags = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::ET;
        epoll::add(&poll, &connection.stream, epoll::EventData::new_u64(index as u64), flags)?;
        connections.push(connection);
    }
    let mut meter = Meter::start(pid, times);
    let mut schedule = Schedule::new(load.pace)?;
    if let Some(timer) = &schedule.timer {
        epoll::add(&poll, timer, epoll::EventData::new_u64(TIMER), epoll::EventFlags::IN)?;
    }
    let mut events = Vec::with_capacity(EVENTS_MAX);
    if let Pace::Closed { in_flight } = load.pace {
        for connection in &mut connections {
            (0..in_flight).for_each(|_| connection.due.push_back(Instant::now()));
            connection.write(in_flight)?;
        }
    }
    loop {
        events.clear();
        epoll::wait(&poll, rustix::buffer::spare_capacity(&mut events), None)?;
        for event in &events {
            if event.data.u64() == TIMER {
                schedule.release(&mut connections)?;
                continue;
            }
            let connection = &mut connections[event.data.u64() as usize];
            connection.write(load.pace.in_flight_max())?;
            let bytes = connection.payload_bytes;
            for due in connection.read()? {
                if !meter.answered(due, bytes)? {
                    return meter.stop();
                }
                if matches!(load.pace, Pace::Closed { .. }) {
                    connection.due.push_back(Instant::now());
                }
            }
            connection.write(load.pace.in_flight_max())?;
        }
    }
}

impl Pace {
    fn in_flight_max(self) -> usize {
        match self {
            Self::Closed { in_flight } => in_flight,
            Self::Open { .. } => OPEN_LOOP_IN_FLIGHT_MAX,
        }
    }
}

/// When the requests of an open loop are due.
struct Schedule {
    /// Fires whenever one is; epoll's own timeouts are too coarse.
    timer: Option<OwnedFd>,
    next: Instant,
    every: Duration,
    turn: usize,
}

impl Schedule {
    fn new(pace: Pace) -> Result<Self> {
        let mut schedule = Self { timer: None, next: Instant::now(), every: Duration::MAX, turn: 0 };
        if let Pace::Open { per_second } = pace {
            schedule.every = Duration::from_secs_f64(1.0 / per_second);
            let every = Timespec::try_from(schedule.every)?;
            let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
            let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
            let periodic = Itimerspec { it_interval: every, it_value: every };
            timerfd_settime(&timer, TimerfdTimerFlags::empty(), &periodic)?;
            schedule.timer = Some(timer);
        }
        Ok(schedule)
    }

    /// Gives what is due to the connections in turn.
    fn release(&mut self, connections: &mut [Connection]) -> Result<()> {
        if let Some(timer) = &self.timer {
            rustix::io::read(timer, &mut [0; 8])?;
        }
        while self.next <= Instant::now() {
            let turn = self.turn % connections.len();
            connections[turn].due.push_back(self.next);
            connections[turn].write(OPEN_LOOP_IN_FLIGHT_MAX)?;
            self.next += self.every;
            self.turn += 1;
        }
        Ok(())
    }
}

struct Connection {
    stream: TcpStream,
    /// One for each partition.
    frames: Vec<Vec<u8>>,
    /// The bytes of the batch at the end of each frame.
    batch_bytes: u64,
    /// The bytes that it has uncompressed.
    payload_bytes: u64,
    /// The next sequence on each partition, and how many each batch takes; idempotent producers only.
    sequences: Option<(Vec<i32>, i32)>,
    turn: usize,
    correlation: i32,
    /// The requests that are not sent yet, by when they were due.
    due: VecDeque<Instant>,
    /// The requests that are being sent or wait for their answers.
    in_flight: VecDeque<Instant>,
    /// How much of the current frame is written.
    written: Option<usize>,
    incoming: BytesMut,
}

impl Connection {
    fn open(address: SocketAddr, topic: &str, load: &Load, index: usize) -> Result<Self> {
        let producer = if load.idempotent { wire::producer_id(address)? } else { NO_PRODUCER };
        let batch = match load.codec {
            CompressionCodec::None => batch::build(load.records, load.value_bytes, producer),
            codec => batch::build_compressed(load.records, load.value_bytes, codec)?,
        };
        let payload_bytes = match load.codec {
            CompressionCodec::None => batch.len(),
            _ => batch::build_compressed(load.records, load.value_bytes, CompressionCodec::None)?.len(),
        };
        let frames = (0..load.partitions)
            .map(|index| frame(topic, index, &batch, load.acks))
            .collect::<Result<_>>()?;
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(Self {
            stream,
            frames,
            batch_bytes: batch.len() as u64,
            payload_bytes: payload_bytes as u64,
            sequences: load.idempotent.then(|| (vec![0; load.partitions as usize], load.records as i32)),
            turn: index,
            correlation: 0,
            due: VecDeque::new(),
            in_flight: VecDeque::new(),
            written: None,
            incoming: BytesMut::new(),
        })
    }

    /// Writes what is due until the socket is full or `in_flight_max` requests wait.
    fn write(&mut self, in_flight_max: usize) -> Result<()> {
        loop {
            let written = match self.written {
                Some(written) => written,
                None if self.in_flight.len() < in_flight_max => {
                    let Some(due) = self.due.pop_front() else { return Ok(()) };
                    self.in_flight.push_back(due);
                    self.prepare();
                    0
                }
                None => return Ok(()),
            };
            let frame = &self.frames[self.turn];
            match self.stream.write(&frame[written..]) {
                Ok(more) if written + more < frame.len() => self.written = Some(written + more),
                Ok(_) => {
                    self.written = None;
                    self.turn = (self.turn + 1) % self.frames.len();
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.written = Some(written);
                    return Ok(());
                }
                Err(error) => return Err(error).context("writing to the broker"),
            }
        }
    }

    /// Gives the next frame its correlation id and, for an idempotent producer, its sequence.
    fn prepare(&mut self) {
        self.turn %= self.frames.len();
        self.correlation = self.correlation.wrapping_add(1);
        let frame = &mut self.frames[self.turn];
        frame[CORRELATION_AT..CORRELATION_AT + 4].copy_from_slice(&self.correlation.to_be_bytes());
        if let Some((sequences, step)) = &mut self.sequences {
            let end = frame.len() - BYTES_AFTER_RECORDS;
            let batch = &mut frame[end - self.batch_bytes as usize..end];
            batch::set_sequence(batch, sequences[self.turn]);
            sequences[self.turn] = sequences[self.turn].checked_add(*step).unwrap_or(0);
        }
    }

    /// Reads answers and gives the times when the answered requests were due. An error in an answer ends the trial.
    fn read(&mut self) -> Result<Vec<Instant>> {
        let mut answered = Vec::new();
        let mut buffer = [0; READ_BYTES];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => anyhow::bail!("the broker closed the connection"),
                Ok(read) => self.incoming.extend_from_slice(&buffer[..read]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error).context("reading from the broker"),
            }
        }
        while let Some(length) =
            self.incoming.first_chunk::<4>().map(|bytes| u32::from_be_bytes(*bytes) as usize)
            && self.incoming.len() >= 4 + length
        {
            let frame = self.incoming.split_to(4 + length).freeze().slice(4..);
            let response = wire::response::<ProduceRequest>(frame, VERSION)?;
            let errors = response.responses.iter().flat_map(|topic| &topic.partition_responses);
            let code = errors.map(|partition| partition.error_code).find(|code| *code != 0);
            ensure!(code.is_none(), "produce gave error {code:?}");
            answered.push(self.in_flight.pop_front().context("an answer to nothing")?);
        }
        Ok(answered)
    }
}

/// A request with one batch; its correlation id is 0.
pub(crate) fn frame(topic: &str, partition: i32, batch: &Bytes, acks: i16) -> Result<Vec<u8>> {
    let partition = PartitionProduceData { index: partition, records: Some(batch.clone().into()) };
    let topic = TopicProduceData { name: topic.into(), partition_data: vec![partition] };
    let request =
        ProduceRequest { transactional_id: None, acks, timeout_ms: 30_000, topic_data: vec![topic] };
    let frame = wire::frame(&request, VERSION)?;
    debug_assert!(frame[..frame.len() - BYTES_AFTER_RECORDS].ends_with(batch));
    Ok(frame)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_batch_lies_where_sequences_are_written() {
        let batch = batch::build(2, 50, 9);
        let frame = frame("t", 0, &batch, 1).unwrap();
        assert!(frame[..frame.len() - BYTES_AFTER_RECORDS].ends_with(&batch));
        assert_eq!(frame[CORRELATION_AT..CORRELATION_AT + 4], [0; 4]);
    }
}
