//! Faults at the n-th system call: the process is killed there, or the call fails. strace does it, from outside.
//!
//! Each trial has a broker of its own, on an empty folder: load while the fault strikes, a kill, a plain start, and everything that was
//! acknowledged must be there. What a fault only delayed must go through after it.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kaas_test_client::Client;

use crate::broker::{Broker, Injection, Program};
use crate::campaign::{Outcome, compare, finish};
use crate::ledger::{Ledger, Violation};
use crate::producer::{Producer, Stopped};
use crate::{PARTITIONS, TOPIC};

/// Producers that write at the same time.
const PRODUCERS: u32 = 3;
/// How long a broker lives that the fault does not kill.
const LIFE: Duration = Duration::from_millis(250);
/// Between two tries of a producer that was refused.
const RETRY_AFTER: Duration = Duration::from_millis(5);

/// The calls that change what is on the volume.
const DURABLE: &str =
    "pwrite64,pwritev,fdatasync,fsync,rename,renameat2,unlink,unlinkat,mkdir,mkdirat,ftruncate";

const NONE: i16 = 0;
const TOPIC_ALREADY_EXISTS: i16 = 36;

/// What is done, and to which calls.
struct Fault {
    calls: &'static str,
    action: &'static str,
    /// How many calls in a row it strikes.
    row: usize,
}

/// In turn; every second one is a kill, because every durable step must be cut.
const FAULTS: [Fault; 12] = [
    Fault { calls: DURABLE, action: "signal=KILL", row: 1 },
    Fault { calls: "fdatasync", action: "error=EIO", row: 1 },
    Fault { calls: "pwritev,pwrite64", action: "signal=KILL", row: 1 },
    Fault { calls: "pwritev,pwrite64", action: "error=EIO", row: 1 },
    Fault { calls: "fdatasync,fsync", action: "signal=KILL", row: 1 },
    Fault { calls: "pwritev,pwrite64", action: "error=ENOSPC", row: 30 },
    Fault { calls: DURABLE, action: "signal=KILL", row: 1 },
    Fault { calls: "fsync,rename,renameat2,unlink,mkdir", action: "error=EIO", row: 2 },
    Fault { calls: "rename,renameat2,unlink,ftruncate", action: "signal=KILL", row: 1 },
    Fault { calls: "fdatasync", action: "error=ENOSPC", row: 3 },
    Fault { calls: "fdatasync,pwritev,pwrite64", action: "signal=KILL", row: 1 },
    // A quota is met where a full disk would be.
    Fault { calls: "pwritev,pwrite64,fdatasync", action: "error=EDQUOT", row: 20 },
];

/// How far into the calls of a broker's life few trials are spread.
const SPAN: usize = 80;

/// Runs `count` trials: each fault at the first call, at the second, and so on, or further apart when they are few.
pub(crate) fn run(program: &Program, count: usize, seed: u64) -> anyhow::Result<Outcome> {
    let mut outcome = Outcome::default();
    for trial in 0..count {
        let fault = &FAULTS[trial % FAULTS.len()];
        // Few trials are spread: the first calls are those of the start, when nothing has been acknowledged.
        let rounds = count.div_ceil(FAULTS.len());
        let first = 1 + trial / FAULTS.len() * (SPAN / rounds).max(1);
        let injection = Injection {
            calls: fault.calls.to_owned(),
            action: format!("{}:when={first}..{}", fault.action, first + fault.row - 1),
        };
        let folder = tempfile::tempdir()?;
        strike(program, injection.clone(), &folder.path().join("kaas"), seed + trial as u64, &mut outcome)?;
        outcome.crashes += 1;
        if !outcome.violations.is_empty() {
            println!("{} at {}", injection.action, injection.calls);
            break;
        }
    }
    Ok(outcome)
}

fn strike(
    program: &Program,
    injection: Injection,
    folder: &Path,
    seed: u64,
    outcome: &mut Outcome,
) -> anyhow::Result<()> {
    let ledger = Ledger::new(PARTITIONS);
    let mut producers: Vec<Producer> =
        (0..PRODUCERS).map(|number| Producer::new(number, PARTITIONS, seed)).collect();
    // A broker that the fault strikes while it starts may die of it; it must start afterwards.
    if let Ok(mut broker) = program.injected(injection).start(folder) {
        outcome.violations = live(&mut producers, &ledger, &mut broker)?;
    }
    if outcome.violations.is_empty() {
        let mut broker = program.start(folder)?;
        create_topic(&broker)?;
        outcome.violations = compare(&broker, &ledger)?;
        broker.kill()?;
    }
    if outcome.violations.is_empty() {
        finish(program, folder, &mut producers, &ledger, outcome)?;
    }
    outcome.acknowledged += ledger.acknowledged();
    Ok(())
}

/// The topic, unless it is there already.
fn create_topic(broker: &Broker) -> anyhow::Result<()> {
    let answer = Client::connect(broker.address)?.create_topic(TOPIC, PARTITIONS as i32)?;
    let code = answer.topics.first().map_or(0, |topic| topic.error_code);
    anyhow::ensure!(matches!(code, NONE | TOPIC_ALREADY_EXISTS), "creating the topic gave error {code}");
    Ok(())
}

/// Load until the broker is dead or its time is over. A producer that is refused tries again.
fn live(producers: &mut [Producer], ledger: &Ledger, broker: &mut Broker) -> anyhow::Result<Vec<Violation>> {
    let address = broker.address;
    // The fault may strike here: then the load has no topic, and the next start makes it.
    let _ = create_topic(broker);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let over = &over;
        let load = |producer: &mut Producer| loop {
            match producer.run(address, ledger) {
                Stopped::Violated(violation) => return Some(violation),
                Stopped::Broken(_) if over.load(Ordering::SeqCst) => return None,
                Stopped::Broken(_) => std::thread::sleep(RETRY_AFTER),
            }
        };
        let load: Vec<_> = producers.iter_mut().map(|producer| scope.spawn(move || load(producer))).collect();
        broker.die_within(LIFE)?;
        over.store(true, Ordering::SeqCst);
        let found = load.into_iter().map(|thread| {
            thread.join().unwrap_or_else(|_| Some(Violation("a client thread panicked".to_owned())))
        });
        Ok(found.flatten().collect())
    })
}
