//! Coordinators under load: offset commits (P16) and transactions (P15), each with the journals and topics synced or not.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use bytes::Bytes;
use kaas_proto::ApiRequest;
use kaas_proto::messages::OffsetCommitRequest;
use kaas_proto::messages::offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};

use crate::batch;
use crate::blocks::Figures;
use crate::broker::{Broker, Programs, System};
use crate::process;
use crate::transaction::Producer;
use crate::wire::{self, Connection, GROUP, TRANSACTIONAL_ID, until_done};

const TOPIC: &str = "coordination";
const PARTITIONS: i32 = 12;
/// Groups that commit, and connections that commit for them.
const GROUPS: usize = 1000;
const COMMITTERS: usize = 64;
/// Transactional producers, and what each transaction writes.
const PRODUCERS: usize = 50;
const PARTITIONS_OF_TRANSACTION: i32 = 3;
const RECORDS: usize = 10;
const VALUE_BYTES: usize = 1 << 10;

/// What came of one load.
#[derive(Clone, Copy)]
struct Rate {
    per_second: f64,
    cpu_us: f64,
}

/// Both loads on one broker.
pub(crate) fn session(
    system: System,
    programs: &Programs,
    flush_messages: i64,
    measured: Duration,
) -> Result<Figures> {
    let flush = format!("log.flush.interval.messages={flush_messages}");
    let broker = Broker::start_with(system, programs, &[&flush])?;
    wire::create_topic(broker.address, TOPIC, PARTITIONS, flush_messages)?;
    wire::find_coordinator(broker.address, GROUP)?;
    wire::find_coordinator(broker.address, TRANSACTIONAL_ID)?;
    let commits = load(&broker, COMMITTERS, measured, |number, address| {
        let mut connection = Connection::open(address)?;
        let mut turn = number;
        Ok(move || {
            turn = (turn + COMMITTERS) % GROUPS;
            commit(&mut connection, &format!("group-{turn}"), (turn as i32) % PARTITIONS)
        })
    })?;
    let transactions = load(&broker, PRODUCERS, measured, |number, address| {
        let mut transactor = Transactor::new(number, address)?;
        Ok(move || transactor.transact())
    })?;
    broker.stop()?;
    Ok(vec![
        ("P16 offset commits a second", commits.per_second),
        ("CPU-us an offset commit", commits.cpu_us),
        ("P15 transactions a second", transactions.per_second),
        ("CPU-us a transaction", transactions.cpu_us),
    ])
}

/// Loops of their own, two seconds of them unmeasured.
fn load<W: FnMut() -> Result<()>>(
    broker: &Broker,
    workers: usize,
    measured: Duration,
    start: impl Fn(usize, SocketAddr) -> Result<W> + Sync,
) -> Result<Rate> {
    let (done, ended) = (AtomicU64::new(0), AtomicBool::new(false));
    let (start, address) = (&start, broker.address);
    thread::scope(|scope| {
        let worker = |number| {
            let (done, ended) = (&done, &ended);
            scope.spawn(move || -> Result<()> {
                let mut work = start(number, address)?;
                while !ended.load(Ordering::Relaxed) {
                    work()?;
                    done.fetch_add(1, Ordering::Relaxed);
                }
                Ok(())
            })
        };
        let workers: Vec<_> = (0..workers).map(worker).collect();
        thread::sleep(Duration::from_secs(2));
        let (began, cpu, before) =
            (Instant::now(), process::cpu_seconds(broker.pid())?, done.load(Ordering::Relaxed));
        thread::sleep(measured);
        let (seconds, count) =
            (began.elapsed().as_secs_f64(), (done.load(Ordering::Relaxed) - before) as f64);
        let cpu = process::cpu_seconds(broker.pid())? - cpu;
        ended.store(true, Ordering::Relaxed);
        for worker in workers {
            worker.join().map_err(|_| anyhow::anyhow!("a worker panicked"))??;
        }
        ensure!(count > 0.0, "nothing was done");
        Ok(Rate { per_second: count / seconds, cpu_us: cpu * 1e6 / count })
    })
}

fn commit(connection: &mut Connection, group: &str, partition: i32) -> Result<()> {
    let partition = OffsetCommitRequestPartition {
        partition_index: partition,
        committed_offset: 1,
        committed_leader_epoch: -1,
        committed_metadata: Some("".into()),
        ..Default::default()
    };
    let request = OffsetCommitRequest {
        group_id: group.into(),
        generation_id_or_member_epoch: -1,
        topics: vec![OffsetCommitRequestTopic { name: TOPIC.into(), partitions: vec![partition] }],
        ..Default::default()
    };
    let code = |response: &<OffsetCommitRequest as ApiRequest>::Response| {
        response.topics.first().and_then(|topic| topic.partitions.first()).map_or(-1, |row| row.error_code)
    };
    until_done(connection, &request, 8, code).map(drop)
}

/// One of the producers, with what it writes.
struct Transactor {
    producer: Producer,
    sequences: [i32; PARTITIONS as usize],
    turn: i32,
    batch: Vec<u8>,
}

impl Transactor {
    fn new(number: usize, address: SocketAddr) -> Result<Self> {
        let producer = Producer::open(address, &format!("producer-{number}"), TOPIC)?;
        let mut batch = batch::build(RECORDS, VALUE_BYTES, producer.id).to_vec();
        batch::set_transactional(&mut batch, producer.epoch);
        Ok(Self { producer, sequences: [0; PARTITIONS as usize], turn: number as i32, batch })
    }

    fn transact(&mut self) -> Result<()> {
        self.turn = (self.turn + 1) % PARTITIONS;
        let partitions: Vec<i32> =
            (0..PARTITIONS_OF_TRANSACTION).map(|at| (self.turn + at) % PARTITIONS).collect();
        self.producer.add(&partitions)?;
        let batches = partitions.iter().map(|&index| {
            let sequence = &mut self.sequences[index as usize];
            batch::set_sequence(&mut self.batch, *sequence);
            *sequence += RECORDS as i32;
            (index, Bytes::copy_from_slice(&self.batch))
        });
        self.producer.produce(batches)?;
        self.producer.commit()
    }
}
