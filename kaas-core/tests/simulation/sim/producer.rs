//! Producers: what they send, and what they send again.

use std::collections::BTreeSet;

use bytes::Bytes;
use kaas_core::record::{EndTxnMarker, TxnOutcome};
use kaas_core::{AppendOptions, Origin, RecordBatchBuilder, TxnProof};

use super::random::mix;

/// Most batches that are sent at once; an engine remembers five of a producer.
const PIPELINE_MAX: u64 = 3;

/// Batches of a transaction.
const TXN_BATCHES: u64 = 2;

/// Attribute bit of a transactional batch.
const TRANSACTIONAL: i16 = 0x10;

/// A client that appends to one partition.
#[derive(Debug)]
pub(crate) struct Producer {
    number: u64,
    pub(crate) partition: usize,
    /// Sends every batch again until it is acknowledged. Otherwise none is sent twice.
    idempotent: bool,
    /// Whether its records have keys.
    keyed: bool,
    /// Whether its batches come in transactions, each of which is decided before the next one begins.
    transactional: bool,
    /// Transactions whose end was acknowledged.
    ended: u64,
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
    value.split(['.', '+', '-']).nth(1).unwrap_or_default()
}

/// What the values of a transaction say that is to be aborted.
const ABORTED: &str = "-";

/// Whether a value belongs to a transaction that is to be aborted.
pub(crate) fn is_aborted(value: &str) -> bool {
    value.contains(ABORTED)
}

/// What a ticket stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Sent {
    Batch(u64),
    /// The marker that ends the transaction of this number.
    Marker(u64),
}

/// One batch on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ticket {
    pub(crate) producer: usize,
    pub(crate) sent: Sent,
    attempt: u64,
}

impl Producer {
    pub(crate) fn new(number: u64, partition: usize, keyed: bool, transactions: bool) -> Self {
        let idempotent = number % 3 != 2;
        Self {
            number,
            partition,
            idempotent,
            keyed,
            transactional: transactions && idempotent && number % 3 != 1,
            ended: 0,
            next: 0,
            unanswered: 0,
            acknowledged: BTreeSet::new(),
            awaited: 0,
            attempt: 0,
        }
    }

    pub(crate) fn waits(&self) -> bool {
        self.awaited > 0
    }

    pub(crate) fn is_idempotent(&self) -> bool {
        self.idempotent
    }

    /// Whether some batch was sent and not acknowledged, or a transaction was begun and its end not acknowledged.
    pub(crate) fn has_unanswered(&self) -> bool {
        self.unanswered < self.next || self.transactional && self.ended * TXN_BATCHES < self.next
    }

    /// Begins a try, whatever became of the one before: the batches to send, in order.
    pub(crate) fn begin(&mut self, index: usize, chance: u64) -> Vec<Ticket> {
        self.attempt += 1;
        self.awaited = 0;
        let ticket = |sent| Ticket { producer: index, sent, attempt: self.attempt };
        let first = if self.idempotent { self.unanswered } else { self.next };
        let mut end = first + 1 + chance % PIPELINE_MAX;
        if self.transactional {
            let decided_at = (self.ended + 1) * TXN_BATCHES;
            if first >= decided_at {
                return vec![ticket(Sent::Marker(self.ended))];
            }
            end = end.min(decided_at);
        }
        (first..end).map(|batch| ticket(Sent::Batch(batch))).collect()
    }

    /// As [`begin`](Self::begin), for one who begins nothing new: the first thing without an answer. An open transaction is decided before it is
    /// complete.
    pub(crate) fn begin_last(&mut self, index: usize) -> Ticket {
        self.attempt += 1;
        self.awaited = 0;
        let sent = match self.unanswered < self.next {
            true => Sent::Batch(self.unanswered),
            false => Sent::Marker(self.ended),
        };
        Ticket { producer: index, sent, attempt: self.attempt }
    }

    /// Notes what was handed to a broker, which will answer if it has not refused it.
    pub(crate) fn handed(&mut self, ticket: Ticket, accepted: bool) {
        self.awaited += u64::from(accepted);
        if let Sent::Batch(batch) = ticket.sent {
            self.next = self.next.max(batch + 1);
        }
    }

    pub(crate) fn answered(&mut self, ticket: Ticket, acknowledged: bool) {
        if ticket.attempt == self.attempt {
            self.awaited = self.awaited.saturating_sub(1);
        }
        if let Sent::Marker(transaction) = ticket.sent {
            self.ended = self.ended.max(transaction + u64::from(acknowledged));
        } else if let Sent::Batch(batch) = ticket.sent
            && acknowledged
            && self.idempotent
        {
            self.acknowledged.insert(batch);
            while self.acknowledged.remove(&self.unanswered) {
                self.unanswered += 1;
            }
        }
    }

    /// Whether a transaction is to be committed.
    fn commits(&self, transaction: u64) -> bool {
        mix(self.number << 32 ^ mix(transaction)).is_multiple_of(2)
    }

    /// The values of what was sent; they say what becomes of them.
    pub(crate) fn values(&self, sent: Sent) -> Vec<String> {
        let Sent::Batch(batch) = sent else { return Vec::new() };
        let number = self.number;
        let fate = match (self.transactional, self.commits(batch / TXN_BATCHES)) {
            (false, _) => "",
            (true, true) => "+",
            (true, false) => ABORTED,
        };
        let value = |record| {
            let padding = mix(mix(number) ^ mix(batch << 2 | record)) % 150;
            format!("{number}:{batch}.{record}{fate}{}", ".".repeat(padding as usize))
        };
        (0..self.records(batch)).map(value).collect()
    }

    /// The bytes of what is sent, and how to append them.
    pub(crate) fn bytes(&self, sent: Sent) -> (Bytes, AppendOptions) {
        match sent {
            Sent::Batch(batch) => (
                self.batch(batch),
                AppendOptions { transaction: TxnProof::NotRequired, ..AppendOptions::default() },
            ),
            Sent::Marker(transaction) => {
                let outcome = if self.commits(transaction) { TxnOutcome::Commit } else { TxnOutcome::Abort };
                let (producer_id, producer_epoch, coordinator_epoch) = (self.id(), 0, 0);
                let marker = EndTxnMarker { producer_id, producer_epoch, coordinator_epoch, outcome };
                (
                    marker.to_batch(1000),
                    AppendOptions { origin: Origin::Coordinator, ..AppendOptions::default() },
                )
            }
        }
    }

    fn id(&self) -> i64 {
        1000 + self.number as i64
    }

    fn batch(&self, batch: u64) -> Bytes {
        let mut builder = RecordBatchBuilder::new();
        if self.transactional {
            builder = builder.attributes(TRANSACTIONAL);
        }
        if self.idempotent {
            let sequence: u64 = (0..batch).map(|before| self.records(before)).sum();
            builder = builder.producer(self.id(), 0, sequence as i32);
        }
        let push = |builder: RecordBatchBuilder, value: String| {
            let key = self.keyed.then(|| key_of(&value));
            builder.push(key.map(str::as_bytes), Some(value.as_bytes()), 1000)
        };
        self.values(Sent::Batch(batch)).into_iter().fold(builder, push).build()
    }

    fn records(&self, batch: u64) -> u64 {
        1 + mix(self.number ^ mix(batch)) % 3
    }
}
