//! Producers: what they send, and what they send again.

use std::collections::BTreeSet;

use bytes::Bytes;
use kaas_core::RecordBatchBuilder;

use super::random::mix;

/// Most batches that are sent at once; an engine remembers five of a producer.
const PIPELINE_MAX: u64 = 3;

/// A client that appends to one partition.
#[derive(Debug)]
pub(crate) struct Producer {
    number: u64,
    pub(crate) partition: usize,
    /// Sends every batch again until it is acknowledged. Otherwise none is sent twice.
    idempotent: bool,
    /// Whether its records have keys.
    keyed: bool,
    /// The first batch that was never sent, and the first that is not acknowledged.
    next: u64,
    unanswered: u64,
    acknowledged: BTreeSet<u64>,
    /// Answers of the present try that it waits for.
    awaited: u64,
    /// Which try is the present one: answers to earlier ones come too late.
    attempt: u64,
}

/// The key that a value has in a log that is compacted: which record of its batch it is. All producers share them.
pub(crate) fn key_of(value: &str) -> &str {
    value.split('.').nth(1).unwrap_or_default()
}

/// One batch on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ticket {
    pub(crate) producer: usize,
    pub(crate) batch: u64,
    attempt: u64,
}

impl Producer {
    pub(crate) fn new(number: u64, partition: usize, idempotent: bool, keyed: bool) -> Self {
        let (acknowledged, attempt) = (BTreeSet::new(), 0);
        Self {
            number,
            partition,
            idempotent,
            keyed,
            next: 0,
            unanswered: 0,
            acknowledged,
            awaited: 0,
            attempt,
        }
    }

    pub(crate) fn waits(&self) -> bool {
        self.awaited > 0
    }

    pub(crate) fn is_idempotent(&self) -> bool {
        self.idempotent
    }

    /// Whether some batch was sent and not acknowledged.
    pub(crate) fn has_unanswered(&self) -> bool {
        self.unanswered < self.next
    }

    /// Begins a try, whatever became of the one before: the batches to send, in order.
    pub(crate) fn begin(&mut self, index: usize, chance: u64) -> Vec<Ticket> {
        self.attempt += 1;
        self.awaited = 0;
        let first = if self.idempotent { self.unanswered } else { self.next };
        let batches = first..first + 1 + chance % PIPELINE_MAX;
        batches.map(|batch| Ticket { producer: index, batch, attempt: self.attempt }).collect()
    }

    /// Notes that a batch was accepted, and an answer will come.
    pub(crate) fn accepted(&mut self, ticket: Ticket) {
        self.next = self.next.max(ticket.batch + 1);
        self.awaited += 1;
    }

    /// Notes that a batch was refused: it may not be in the log.
    pub(crate) fn refused(&mut self, ticket: Ticket) {
        self.next = self.next.max(ticket.batch + 1);
    }

    pub(crate) fn answered(&mut self, ticket: Ticket, acknowledged: bool) {
        if ticket.attempt == self.attempt {
            self.awaited = self.awaited.saturating_sub(1);
        }
        if acknowledged && self.idempotent {
            self.acknowledged.insert(ticket.batch);
            while self.acknowledged.remove(&self.unanswered) {
                self.unanswered += 1;
            }
        }
    }

    /// The values of a batch.
    pub(crate) fn values(&self, batch: u64) -> Vec<String> {
        let number = self.number;
        let value = |record| {
            let padding = mix(mix(number) ^ mix(batch << 2 | record)) % 150;
            format!("{number}:{batch}.{record}{}", ".".repeat(padding as usize))
        };
        (0..self.records(batch)).map(value).collect()
    }

    /// The bytes of a batch.
    pub(crate) fn batch(&self, batch: u64) -> Bytes {
        let mut builder = RecordBatchBuilder::new();
        if self.idempotent {
            let sequence: u64 = (0..batch).map(|before| self.records(before)).sum();
            builder = builder.producer(1000 + self.number as i64, 0, sequence as i32);
        }
        let push = |builder: RecordBatchBuilder, value: String| {
            let key = self.keyed.then(|| key_of(&value));
            builder.push(key.map(str::as_bytes), Some(value.as_bytes()), 1000)
        };
        self.values(batch).into_iter().fold(builder, push).build()
    }

    fn records(&self, batch: u64) -> u64 {
        1 + mix(self.number ^ mix(batch)) % 3
    }
}
