//! Transactions and offsets under load, and after a crash: each transaction whole or not at all, in its partitions and in its
//! group's offset; no committed offset going back; the last stable offset going on.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use kaas_proto::Records;
use kaas_test_client::{Client, ClientError, PATIENCE, Random};

use crate::calls::{self, Identity};
use crate::committed::committed_values;
use crate::ledger::{Ledger, Value, Violation};
use crate::producer::Stopped;

/// The topic of the transactions.
pub(crate) const TRANSFERS: &str = "transfers";
/// Its partitions.
pub(crate) const TRANSFER_PARTITIONS: i32 = 4;
/// Transactional producers at the same time.
const TRANSACTORS: u32 = 3;
/// Between two tries of a call that another one holds up.
const RETRY_AFTER: Duration = Duration::from_millis(2);
/// The version of the fetch requests.
const FETCH_VERSION: i16 = 12;
/// The most bytes of one answer.
const BYTES_MAX: i32 = 1 << 20;

/// What is known of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// Its commit was asked for, and the answer is missing.
    Unknown,
    /// Its commit was acknowledged, or found.
    Committed,
    /// Nobody asked to commit it, or it was found aborted.
    Aborted,
}

struct Transaction {
    partitions: Vec<i32>,
    outcome: Outcome,
}

/// One transactional producer, whose n-th transaction writes the value n to some partitions, and n + 1 as its group's offset.
struct Transactor {
    number: u32,
    transactions: Vec<Transaction>,
    random: Random,
    /// What its plain commits asked for, and what was acknowledged or seen.
    asked: i64,
    promised: i64,
}

/// All of them.
pub(crate) struct Coordination(Vec<Transactor>);

impl Coordination {
    pub(crate) fn new(seed: u64) -> Coordination {
        let transactor = |number: u32| Transactor {
            number,
            transactions: Vec::new(),
            random: Random::new(seed ^ u64::from(number + 100).wrapping_mul(0x9e37_79b9_7f4a_7c15)),
            asked: 0,
            promised: 0,
        };
        Coordination((0..TRANSACTORS).map(transactor).collect())
    }

    /// Loads of their own, each until the connection breaks.
    pub(crate) fn loads(
        &mut self,
    ) -> impl Iterator<Item = impl FnOnce(SocketAddr, &Ledger) -> Stopped + Send + '_> {
        self.0.iter_mut().map(|transactor| {
            move |address: SocketAddr, ledger: &Ledger| match transactor.run(address, ledger) {
                Ok(never) => match never {},
                Err(stopped) => stopped,
            }
        })
    }

    /// How many transactions were acknowledged.
    pub(crate) fn committed(&self) -> usize {
        let all = self.0.iter().flat_map(|transactor| &transactor.transactions);
        all.filter(|transaction| transaction.outcome == Outcome::Committed).count()
    }

    /// Ends what a crash left open, and holds what is there against what was said.
    pub(crate) fn check(&mut self, address: SocketAddr) -> Result<Vec<Violation>, ClientError> {
        let mut client = Client::connect(address)?;
        for transactor in &self.0 {
            if let Err(Stopped::Broken(why)) = transactor.begin(&mut client) {
                return Ok(vec![Violation(format!("{}: no identity after a crash: {why}", transactor.id()))]);
            }
        }
        let mut found: BTreeMap<Value, Vec<i32>> = BTreeMap::new();
        for partition in 0..TRANSFER_PARTITIONS {
            match read_stable(&mut client, partition)? {
                Ok(values) => {
                    values.into_iter().for_each(|value| found.entry(value).or_default().push(partition))
                }
                Err(violation) => return Ok(vec![violation]),
            }
        }
        let mut violations = Vec::new();
        for transactor in &mut self.0 {
            violations.extend(transactor.check(&found));
            violations.extend(transactor.check_offsets(&mut client)?);
        }
        Ok(violations)
    }
}

impl Transactor {
    fn id(&self) -> String {
        format!("transactor-{}", self.number)
    }

    /// A new identity, which fences the one before and ends its transaction.
    fn begin(&self, client: &mut Client) -> Result<Identity, Stopped> {
        retried(|| calls::init_producer_id(client, &self.id()))
    }

    fn run(&mut self, address: SocketAddr, ledger: &Ledger) -> Result<std::convert::Infallible, Stopped> {
        let mut client = Client::connect(address).map_err(ClientError::from)?;
        let producer = self.begin(&mut client)?;
        let mut sequences = [0; TRANSFER_PARTITIONS as usize];
        loop {
            self.transact(&mut client, producer, &mut sequences, ledger)?;
            self.asked += 1;
            calls::commit(&mut client, &format!("plain-{}", self.number), TRANSFERS, self.asked)?;
            if !ledger.in_doubt() {
                self.promised = self.asked;
            }
        }
    }

    fn transact(
        &mut self,
        client: &mut Client,
        producer: Identity,
        sequences: &mut [i32],
        ledger: &Ledger,
    ) -> Result<(), Stopped> {
        let number = self.transactions.len() as i32;
        let first = self.random.below(TRANSFER_PARTITIONS as u64) as i32;
        let count = 1 + self.random.below(2) as i32;
        let partitions: Vec<i32> = (first..first + count).map(|at| at % TRANSFER_PARTITIONS).collect();
        self.transactions.push(Transaction { partitions: partitions.clone(), outcome: Outcome::Aborted });
        let (id, group) = (self.id(), format!("progress-{}", self.number));
        retried(|| calls::add_partitions(client, &id, producer, TRANSFERS, &partitions))?;
        let value = Value { producer: self.number, sequence: number }.to_bytes(0);
        for partition in partitions {
            let sequence = &mut sequences[partition as usize];
            calls::produce(client, &id, producer, *sequence, TRANSFERS, partition, &value)?;
            *sequence += 1;
        }
        retried(|| calls::add_offsets(client, &id, producer, &group))?;
        calls::commit_in_transaction(client, &id, producer, &group, TRANSFERS, i64::from(number) + 1)?;
        let commits = self.random.below(4) > 0;
        if commits {
            self.transactions[number as usize].outcome = Outcome::Unknown;
        }
        calls::end(client, &id, producer, commits)?;
        if commits && !ledger.in_doubt() {
            self.transactions[number as usize].outcome = Outcome::Committed;
        }
        Ok(())
    }

    /// Every transaction is where it should be, or nowhere; what was unknown is known from now on.
    fn check(&mut self, found: &BTreeMap<Value, Vec<i32>>) -> Vec<Violation> {
        let mut violations = Vec::new();
        for (number, transaction) in self.transactions.iter_mut().enumerate() {
            let value = Value { producer: self.number, sequence: number as i32 };
            let mut places = found.get(&value).cloned().unwrap_or_default();
            places.sort_unstable();
            let mut expected = transaction.partitions.clone();
            expected.sort_unstable();
            let seen = if places == expected { Outcome::Committed } else { Outcome::Aborted };
            let whole = places == expected || places.is_empty();
            if !whole || (transaction.outcome != Outcome::Unknown && transaction.outcome != seen) {
                violations.push(Violation(format!(
                    "transaction {number} of {}, {:?}, is in {places:?} of {expected:?}",
                    self.number, transaction.outcome
                )));
            }
            transaction.outcome = seen;
        }
        violations
    }

    fn check_offsets(&mut self, client: &mut Client) -> Result<Vec<Violation>, ClientError> {
        let mut violations = Vec::new();
        let last =
            self.transactions.iter().rposition(|transaction| transaction.outcome == Outcome::Committed);
        let expected = last.map_or(-1, |last| last as i64 + 1);
        let offset = calls::committed(client, &format!("progress-{}", self.number), TRANSFERS)?;
        if offset != Ok(expected) {
            violations.push(Violation(format!(
                "progress-{}: the offset is {offset:?}, the last committed transaction's {expected}",
                self.number
            )));
        }
        let lowest = if self.promised == 0 { -1 } else { self.promised };
        match calls::committed(client, &format!("plain-{}", self.number), TRANSFERS)? {
            Ok(offset) if (lowest..=self.asked).contains(&offset) => self.promised = offset.max(0),
            other => violations.push(Violation(format!(
                "plain-{}: the offset is {other:?}, promised were {}, asked for {}",
                self.number, self.promised, self.asked
            ))),
        }
        Ok(violations)
    }
}

/// Tries again what a transaction that is being ended, or a coordinator that is loading, holds up.
fn retried<T>(mut call: impl FnMut() -> Result<Result<T, i16>, ClientError>) -> Result<T, Stopped> {
    let began = Instant::now();
    loop {
        match call()? {
            Ok(done) => return Ok(done),
            Err(code) if calls::is_for_later(code) && began.elapsed() < PATIENCE => {
                std::thread::sleep(RETRY_AFTER);
            }
            Err(code) => return Err(Stopped::Broken(format!("code {code}"))),
        }
    }
}

/// What a read_committed consumer finds once nothing is open any more: everything below the high watermark.
fn read_stable(client: &mut Client, partition: i32) -> Result<Result<Vec<Value>, Violation>, ClientError> {
    let began = Instant::now();
    let (mut next, mut values) = (0, Vec::new());
    loop {
        let answer =
            client.call(&calls::fetch_committed(TRANSFERS, partition, next, BYTES_MAX), FETCH_VERSION)?;
        let row = answer.responses.into_iter().next().and_then(|topic| topic.partitions.into_iter().next());
        let Some(row) = row.filter(|row| row.error_code == 0) else {
            return Ok(Err(Violation(format!("transfers-{partition} cannot be read"))));
        };
        let bytes = row.records.as_ref().and_then(Records::as_bytes).cloned().unwrap_or_default();
        let aborted = row.aborted_transactions.unwrap_or_default();
        let aborted = aborted.iter().map(|one| (one.first_offset, one.producer_id)).collect();
        match committed_values(&bytes, next, aborted) {
            Ok((found, end)) => {
                values.extend(found);
                next = end.max(next);
            }
            Err(why) => return Ok(Err(Violation(format!("transfers-{partition}: {why}")))),
        }
        if next >= row.high_watermark {
            return Ok(Ok(values));
        }
        if bytes.is_empty() {
            if began.elapsed() > PATIENCE {
                let why = format!(
                    "transfers-{partition}: the last stable offset stays at {}, below {}",
                    row.last_stable_offset, row.high_watermark
                );
                return Ok(Err(Violation(why)));
            }
            std::thread::sleep(RETRY_AFTER);
        }
    }
}
