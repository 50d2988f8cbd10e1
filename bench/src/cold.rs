//! A consumer of what is no longer in the page cache, beside a steady durable producer (P12).

use std::fs::{self, File};
use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};
use rustix::fs::{Advice, fadvise};

use crate::blocks::Figures;
use crate::broker::{Broker, Programs, System};
use crate::fetch;
use crate::meter::Times;
use crate::process;
use crate::session::{RAMP, fill, warm};
use crate::steady;

const TOPIC: &str = "cold";
/// Less than this share of what was consumed came from the device: it was not cold.
const COLD_SHARE: f64 = 0.9;

/// Fills so many GiB, puts them out of the page cache and has one consumer read them.
pub(crate) fn session(system: System, programs: &Programs, gib: u64, measured: Duration) -> Result<Figures> {
    let broker = Broker::start(system, programs)?;
    warm(&broker)?;
    let stored = fill(&broker, TOPIC, gib << 30)?;
    steady::prepare(&broker)?;
    steady::alone(&broker, RAMP)?;
    rustix::fs::sync();
    let before = steady::alone(&broker, measured)?;
    forget(&broker.data())?;
    let read = process::read_bytes(broker.pid())?;
    let (during, consumed) = steady::beside(&broker, || {
        fetch::run(broker.address, broker.pid(), TOPIC, &stored, 1, Times::until_bytes(gib << 30))
    })?;
    let read = (process::read_bytes(broker.pid())? - read) as f64 / consumed.bytes as f64;
    ensure!(read >= COLD_SHARE, "{read:.2} of what was consumed came from the device");
    broker.stop()?;
    let (before, during) = (before.p99_ms(), during.p99_ms());
    Ok(vec![
        ("MiB/s", consumed.bytes as f64 / f64::from(1 << 20) / consumed.seconds),
        ("produce p99 before, ms", before),
        ("produce p99 meanwhile, ms", during),
        ("rise of p99", during / before),
        ("bytes read for each consumed", read),
    ])
}

/// Puts the files of a folder out of the page cache, as far as they were written out.
fn forget(folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            forget(&path)?;
        } else {
            fadvise(File::open(&path)?, 0, None, Advice::DontNeed)?;
        }
    }
    Ok(())
}
