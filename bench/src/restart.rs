//! What a broker that was killed needs until it serves again, by how much it holds (P22), and what many idle partitions
//! cost (P24).

use anyhow::{Result, ensure};

use crate::broker::{Broker, Programs, System};
use crate::meter::Times;
use crate::process;
use crate::produce;
use crate::rows::{self, DURABLE};
use crate::wire;

const TOPIC: &str = "restart";
/// Starts that are measured; the median counts.
const STARTS: usize = 5;
/// The same with many partitions, with which Kafka needs minutes.
const STARTS_WITH_MANY: usize = 3;
/// Partitions of each of many topics.
const TOPIC_PARTITIONS: i32 = 1000;
/// kaas's default and Kafka's.
const FLUSH_MESSAGES: [(System, i64); 2] = [(System::Kaas, DURABLE), (System::Kafka, rows::PAGE_CACHE)];

/// Starts after SIGKILL with so many GiB in one partition; each broker syncs as it does by default.
pub(crate) fn sizes(programs: &Programs, gib: &[u64]) -> Result<()> {
    for &gib in gib {
        for (system, flush_messages) in FLUSH_MESSAGES {
            let mut broker = Broker::start(system, programs)?;
            let load = produce::Load { partitions: 1, ..rows::batches() };
            wire::create_topic(broker.address, TOPIC, load.partitions, flush_messages)?;
            produce::run(broker.address, broker.pid(), TOPIC, &load, Times::until_bytes(gib << 30))?;
            let before = wire::end_offsets(broker.address, TOPIC, load.partitions)?;
            let mut starts = Vec::with_capacity(STARTS);
            for _ in 0..STARTS {
                broker.crash(programs)?;
                starts.push(broker.start.as_secs_f64() * 1000.0);
                let after = wire::end_offsets(broker.address, TOPIC, load.partitions)?;
                // What was on its way when the load ended may have come in behind.
                ensure!(after >= before, "{} came back with {after:?}, not {before:?}", system.name());
            }
            println!("{} with {gib} GiB: killed to first answer {}", system.name(), shown(starts));
            broker.stop()?;
        }
    }
    Ok(())
}

/// Starts after SIGKILL with so many partitions that hold nothing, and the memory that they take.
pub(crate) fn partitions(programs: &Programs, count: i32) -> Result<()> {
    for (system, flush_messages) in FLUSH_MESSAGES {
        let mut broker = Broker::start(system, programs)?;
        let mut left = count;
        while left > 0 {
            let here = left.min(TOPIC_PARTITIONS);
            wire::create_topic(broker.address, &format!("{TOPIC}-{left}"), here, flush_messages)?;
            left -= here;
        }
        let mut starts = Vec::with_capacity(STARTS_WITH_MANY);
        for _ in 0..STARTS_WITH_MANY {
            broker.crash(programs)?;
            starts.push(broker.start.as_secs_f64() * 1000.0);
        }
        let memory = process::memory(broker.pid())?;
        println!(
            "{} with {count} idle partitions: {:.1} MiB resident ({:.1} anonymous), killed to first answer {}",
            system.name(),
            memory.resident,
            memory.anonymous,
            shown(starts)
        );
        broker.stop()?;
    }
    Ok(())
}

fn shown(mut milliseconds: Vec<f64>) -> String {
    milliseconds.sort_by(f64::total_cmp);
    let last = milliseconds.len().saturating_sub(1);
    format!("{:.0} ms ({:.0}-{:.0})", milliseconds[last / 2], milliseconds[0], milliseconds[last])
}
