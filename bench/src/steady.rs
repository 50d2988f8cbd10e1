//! A steady producer beside other work: what that work does to its latency.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Result, anyhow};

use crate::broker::Broker;
use crate::meter::{Measured, Times};
use crate::produce::{self, Load, Pace};
use crate::rows::{DURABLE, single};
use crate::wire;

const TOPIC: &str = "steady";

/// Durable, 250 records of 1 KiB a second over 8 connections and as many partitions: far below what either broker can do.
fn load() -> Load {
    Load { partitions: 8, pace: Pace::Open { per_second: 250.0 }, ..single(8, 1 << 10, -1) }
}

/// Makes the topic that it produces to.
pub(crate) fn prepare(broker: &Broker) -> Result<()> {
    wire::create_topic(broker.address, TOPIC, load().partitions, DURABLE)
}

/// Produces for a time, without anything beside.
pub(crate) fn alone(broker: &Broker, time: Duration) -> Result<Measured> {
    let wait = || {
        thread::sleep(time);
        Ok(())
    };
    beside(broker, wait).map(|(measured, ())| measured)
}

/// Produces while `work` runs; what was measured meanwhile.
pub(crate) fn beside<T>(broker: &Broker, work: impl FnOnce() -> Result<T>) -> Result<(Measured, T)> {
    let ended = Arc::new(AtomicBool::new(false));
    let times = Times::until(Arc::clone(&ended));
    thread::scope(|scope| {
        let producer = scope.spawn(|| produce::run(broker.address, broker.pid(), TOPIC, &load(), times));
        let outcome = work();
        ended.store(true, Ordering::Relaxed);
        let measured = producer.join().map_err(|_| anyhow!("the producer panicked"))??;
        Ok((measured, outcome?))
    })
}
