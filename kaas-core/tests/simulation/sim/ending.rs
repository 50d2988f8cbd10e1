//! Before and after: the topic is created, and when all is over nothing goes wrong any more, a new broker takes
//! everything over, and what it finds is held against the history.

use std::sync::Arc;

use kaas_core::error::LeadError;
use kaas_core::{Engine, EngineOptions, Isolation, Partition, TopicSpec};

use super::history::{Checked, Log};
use super::producer::is_aborted;
use super::random::Random;
use super::reader::{Failed, Seen, read};
use super::tasks::{TOPIC, open};
use super::world::World;

/// The brokers that make and that check, none of those that run.
const CREATOR: usize = 100;
const HEIR: usize = 101;
const SECOND_HEIR: usize = 102;

/// Brokers that may have to be revoked, and epochs that may be lost, before one partition is taken over without faults.
const TRIES: usize = 20;

pub(crate) fn begin(world: &Arc<World>, partitions: usize) {
    let (number, engine) = open(world, CREATOR, world.nfs.machine());
    let engine = engine.expect("an empty volume opens");
    engine.create_topic(TopicSpec::new(TOPIC, partitions as u32)).expect("a topic is created");
    engine.close().expect("nothing goes wrong yet");
    world.state().kill(number);
}

pub(crate) fn end(world: &Arc<World>, random: &mut Random) -> Checked {
    let coarse_times = world.state().weather.faults.coarse_times;
    world.nfs.set_faults(kaas_core::volume::NfsFaults { coarse_times, ..Default::default() });
    match random.below(4) {
        0 => world.nfs.settle(),
        1 => world.nfs.power_cut(),
        2 => world.nfs.restart_server(),
        _ => {}
    }
    let (engine, partitions) = inherit(world, HEIR)?;
    let logs = compare(world, &partitions)?;
    for (index, log) in logs.iter().enumerate() {
        go_on(world, &engine, &partitions[index], index, log.end)?;
    }
    // Whatever is still under way arrives now, and means nothing.
    world.nfs.settle();
    if random.once_in(2) {
        world.nfs.power_cut();
    }
    let logs = compare_again(world, SECOND_HEIR).map_err(|why| format!("again, {why}"))?;
    alone(world, &logs)
}

/// Takes everything over.
fn inherit(world: &Arc<World>, broker: usize) -> Result<(Engine, Vec<Arc<Partition>>), String> {
    let (_, opened) = open(world, broker, world.nfs.machine());
    let engine = opened.map_err(|error| format!("the heir does not open: {error}"))?;
    let topic = engine.topics().by_name(TOPIC).ok_or("the topic is lost")?;
    for partition in &topic.partitions {
        let mut outcome = engine.lead(partition, None);
        for _ in 0..TRIES {
            match outcome {
                Err(LeadError::NotRevoked { broker_id, incarnation }) => {
                    engine.revoke(broker_id, incarnation).map_err(|error| error.to_string())?;
                }
                Err(LeadError::Lost { .. }) => {}
                _ => break,
            }
            outcome = engine.lead(partition, None);
        }
        outcome.map_err(|error| format!("the heir cannot lead partition {}: {error}", partition.index()))?;
    }
    let partitions = topic.partitions.iter().map(Arc::clone).collect();
    Ok((engine, partitions))
}

fn compare(world: &World, partitions: &[Arc<Partition>]) -> Result<Vec<Log>, String> {
    let mut logs = Vec::new();
    for (index, partition) in partitions.iter().enumerate() {
        let log = whole_log(partition).map_err(|why| format!("partition {index}: {why}"))?;
        let ends = world.state().histories[index].ends(&log);
        ends.map_err(|why| format!("partition {index}, in the end: {why}"))?;
        compare_committed(partition, &log).map_err(|why| format!("partition {index}, committed: {why}"))?;
        logs.push(log);
    }
    Ok(logs)
}

/// Who reads what is committed gets what is not aborted, up to the first transaction that is open.
fn compare_committed(partition: &Partition, log: &Log) -> Checked {
    let last_stable = partition.offsets().last_stable;
    let committed = log_as(partition, Isolation::ReadCommitted)?;
    let mut expected = log.records.clone();
    expected.retain(|offset, value| *offset < last_stable && !is_aborted(value));
    expect(committed.records == expected, || {
        let differs = committed.records.iter().zip(&expected).find(|(found, wanted)| found != wanted);
        let (found, wanted) = (committed.records.len(), expected.len());
        format!("{found} records below {last_stable} of {}, not {wanted}: {differs:?}", log.end)
    })
}

fn compare_again(world: &Arc<World>, broker: usize) -> Result<Vec<Log>, String> {
    let (_engine, partitions) = inherit(world, broker)?;
    compare(world, &partitions)
}

/// Producers send again what they have no answer for; it goes where it was, or to the end.
fn go_on(world: &World, engine: &Engine, partition: &Partition, index: usize, mut end: i64) -> Checked {
    let producers = world.state().producers.len();
    for producer in 0..producers {
        loop {
            let mut state = world.state();
            let unanswered = &mut state.producers[producer];
            if unanswered.partition != index || !unanswered.is_idempotent() || !unanswered.has_unanswered() {
                break;
            }
            let ticket = unanswered.begin_last(producer);
            let ((bytes, options), values) = (unanswered.bytes(ticket.sent), unanswered.values(ticket.sent));
            drop(state);
            let failed = |error| format!("{ticket:?}, sent again in the end: {error}");
            let pending = partition.append(bytes, options).map_err(failed)?;
            engine.commit();
            let appended = pending.wait().map_err(failed)?;
            expect(appended.duplicate || appended.base_offset == end, || {
                format!("{ticket:?} is at {appended:?}, not {end}")
            })?;
            end = end.max(appended.last_offset + 1);
            let mut state = world.state();
            state.producers[producer].answered(ticket, true);
            for (offset, value) in (appended.base_offset..).zip(values) {
                state.histories[index].told(offset, &value, true)?;
            }
        }
    }
    let offsets = partition.offsets();
    expect(offsets.last_stable == offsets.high_watermark, || {
        format!(
            "all is decided, and the last stable offset is {}, below {}",
            offsets.last_stable, offsets.high_watermark
        )
    })
}

/// A broker that has the volume to itself finds the same.
fn alone(world: &World, logs: &[Log]) -> Checked {
    let mount = world.nfs.mount(world.nfs.machine(), |_| {});
    let engine = EngineOptions::on(Arc::new(mount)).manual_commits();
    let engine = Engine::open(engine).map_err(|error| format!("a lone broker does not open: {error}"))?;
    let topic = engine.topics().by_name(TOPIC).ok_or("the topic is lost")?;
    for (partition, log) in topic.partitions.iter().zip(logs) {
        let found = whole_log(partition).map_err(|why| format!("a lone broker: {why}"))?;
        expect(found == *log, || {
            format!("a lone broker finds {} records, not {}", found.records.len(), log.records.len())
        })?;
    }
    Ok(())
}

fn whole_log(partition: &Partition) -> Result<Log, String> {
    log_as(partition, Isolation::ReadUncommitted)
}

fn log_as(partition: &Partition, isolation: Isolation) -> Result<Log, String> {
    let offsets = partition.offsets();
    let mut log = Log { start: offsets.log_start, end: offsets.log_start, ..Log::default() };
    loop {
        let Seen { records, covered, next } =
            read(partition, log.end, isolation).map_err(|failed| match failed {
                Failed::Read(error) => error.to_string(),
                Failed::Bytes(why) => why,
            })?;
        if next <= log.end {
            break;
        }
        // The first batch may begin before what was asked for.
        log.records.extend(records.into_iter().filter(|(offset, _)| *offset >= log.end));
        (log.end, log.covered) = (next, log.covered + covered);
    }
    expect(log.end <= offsets.high_watermark, || {
        format!("the log was read to {}, with a high watermark of {}", log.end, offsets.high_watermark)
    })?;
    // What compaction has left at the end may be a gap.
    log.end = offsets.high_watermark;
    Ok(log)
}

fn expect(holds: bool, otherwise: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(otherwise()) }
}
