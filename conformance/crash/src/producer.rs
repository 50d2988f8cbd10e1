//! An idempotent producer that keeps what is not acknowledged and sends it again, with the same sequence numbers, after a crash.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use kaas_core::RecordBatchBuilder;
use kaas_proto::messages::{InitProducerIdRequest, ProduceRequest};
use kaas_test_client::{Client, ClientError, Random, produce};

use crate::TOPIC;
use crate::ledger::{Ledger, Value, Violation};

/// Batches in flight, as many as Kafka allows an idempotent producer and a broker must remember.
const IN_FLIGHT_MAX: usize = 5;
/// The most records of a batch.
const RECORDS_MAX: u64 = 4;
/// The longest record.
const VALUE_BYTES_MAX: u64 = 2000;
/// The version of the produce requests.
const PRODUCE_VERSION: i16 = 9;

/// A batch that is not acknowledged.
#[derive(Clone, Debug)]
struct Unacknowledged {
    partition: usize,
    first: i32,
    count: i32,
    bytes: Bytes,
}

/// One producer.
pub(crate) struct Producer {
    number: u32,
    id: Option<i64>,
    next: Vec<i32>,
    unacknowledged: VecDeque<Unacknowledged>,
    random: Random,
}

/// Why a producer stopped.
#[derive(Debug)]
pub(crate) enum Stopped {
    /// The connection broke or the broker refused with a code that may be retried; the batches are kept.
    Broken(String),
    /// A promise was broken.
    Violated(Violation),
}

impl From<ClientError> for Stopped {
    fn from(error: ClientError) -> Stopped {
        Stopped::Broken(error.to_string())
    }
}

impl From<Violation> for Stopped {
    fn from(violation: Violation) -> Stopped {
        Stopped::Violated(violation)
    }
}

impl Producer {
    /// A producer that has written nothing.
    pub(crate) fn new(number: u32, partitions: usize, seed: u64) -> Producer {
        Producer {
            number,
            id: None,
            next: vec![0; partitions],
            unacknowledged: VecDeque::new(),
            random: Random::new(seed ^ u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15)),
        }
    }

    /// Produces until the connection breaks.
    pub(crate) fn run(&mut self, address: SocketAddr, ledger: &Ledger) -> Stopped {
        match self.produce_for_ever(address, ledger) {
            Ok(never) => match never {},
            Err(stopped) => stopped,
        }
    }

    /// Sends what is left, and returns when all is acknowledged.
    pub(crate) fn settle(&mut self, address: SocketAddr, ledger: &Ledger) -> Result<(), Stopped> {
        let mut client = self.connect(address)?;
        self.resend(&mut client)?;
        while !self.unacknowledged.is_empty() {
            self.take_answer(&mut client, ledger)?;
        }
        Ok(())
    }

    fn produce_for_ever(
        &mut self,
        address: SocketAddr,
        ledger: &Ledger,
    ) -> Result<std::convert::Infallible, Stopped> {
        let mut client = self.connect(address)?;
        self.resend(&mut client)?;
        loop {
            while self.unacknowledged.len() < IN_FLIGHT_MAX {
                let batch = self.next_batch();
                self.unacknowledged.push_back(batch.clone());
                send(&mut client, &batch)?;
            }
            self.take_answer(&mut client, ledger)?;
        }
    }

    fn connect(&mut self, address: SocketAddr) -> Result<Client, Stopped> {
        let mut client = Client::connect(address).map_err(ClientError::from)?;
        if self.id.is_none() {
            let request = InitProducerIdRequest {
                transactional_id: None,
                transaction_timeout_ms: 60_000,
                producer_id: -1,
                producer_epoch: -1,
            };
            let answer = client.call(&request, 4)?;
            if answer.error_code != 0 {
                return Err(Stopped::Broken(format!("no producer id: code {}", answer.error_code)));
            }
            self.id = Some(answer.producer_id);
        }
        Ok(client)
    }

    fn resend(&self, client: &mut Client) -> Result<(), Stopped> {
        self.unacknowledged.iter().try_for_each(|batch| send(client, batch))
    }

    fn next_batch(&mut self) -> Unacknowledged {
        let partition = self.random.below(self.next.len() as u64) as usize;
        let count = 1 + self.random.below(RECORDS_MAX) as i32;
        let first = self.next[partition];
        self.next[partition] += count;
        let id = self.id.expect("connect sets it");
        let mut builder = RecordBatchBuilder::new();
        // The present, or retention would take the records away.
        let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as i64;
        for sequence in first..first + count {
            let len = self.random.below(VALUE_BYTES_MAX) as usize;
            let value = Value { producer: self.number, sequence }.to_bytes(len);
            builder = builder.push(None, Some(&value), now_ms);
        }
        let bytes = builder.producer(id, 0, first).build();
        Unacknowledged { partition, first, count, bytes }
    }

    fn take_answer(&mut self, client: &mut Client, ledger: &Ledger) -> Result<(), Stopped> {
        let (_, answer) = client.receive::<ProduceRequest>(PRODUCE_VERSION)?;
        let row = answer
            .responses
            .first()
            .and_then(|topic| topic.partition_responses.first())
            .ok_or_else(|| Stopped::Broken("an answer without a partition".to_owned()))?;
        if ledger.in_doubt() {
            return Err(Stopped::Broken("the power is being cut".to_owned()));
        }
        if row.error_code != 0 {
            return Err(Stopped::Broken(format!("code {}: {:?}", row.error_code, row.error_message)));
        }
        let batch = self
            .unacknowledged
            .pop_front()
            .ok_or_else(|| Stopped::Broken("an answer too many".to_owned()))?;
        for at in 0..batch.count {
            let value = Value { producer: self.number, sequence: batch.first + at };
            ledger.acknowledge(batch.partition, row.base_offset + i64::from(at), value)?;
        }
        Ok(())
    }
}

fn send(client: &mut Client, batch: &Unacknowledged) -> Result<(), Stopped> {
    let request = produce(TOPIC, batch.partition as i32, batch.bytes.clone(), -1);
    client.send(&request, PRODUCE_VERSION)?;
    Ok(())
}
