//! The deterministic simulation for as long as one likes; see `tests/simulation/sim/mod.rs`.
//!
//! `cargo run --release -p kaas-core --example sim -- [--seeds N] [--from S] [--minutes M] [--mutant NAME]
//! [--aloud yes]` runs the seeds from S on, N of them or for M minutes, and stops with exit code 1 at the first violation.

#[path = "../tests/simulation/sim/mod.rs"]
mod sim;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use kaas_core::Mutant;

const USAGE: &str = "usage: sim [--seeds N] [--from SEED] [--minutes M] [--mutant NAME] [--aloud yes]";

/// How often progress is printed.
const REPORT_EVERY: u64 = 1000;

struct Arguments {
    seeds: u64,
    from: u64,
    limit: Option<Duration>,
    mutant: Option<Mutant>,
    aloud: bool,
}

fn main() -> ExitCode {
    match arguments(std::env::args().skip(1)) {
        Ok(arguments) => campaign(&arguments),
        Err(why) => {
            eprintln!("{why}\n{USAGE}");
            ExitCode::from(64)
        }
    }
}

fn campaign(arguments: &Arguments) -> ExitCode {
    let began = Instant::now();
    let mut total = sim::Tally::default();
    for (done, seed) in
        (arguments.from..).take(usize::try_from(arguments.seeds).unwrap_or(usize::MAX)).enumerate()
    {
        if arguments.limit.is_some_and(|limit| began.elapsed() >= limit) {
            break;
        }
        let outcome = sim::run(sim::Story { seed, mutant: arguments.mutant, aloud: arguments.aloud });
        total.add(&outcome.tally);
        if let Some(violation) = outcome.violation {
            println!("seed {seed}: {violation}\nafter {done} other seeds: {total}");
            return ExitCode::FAILURE;
        }
        if (done as u64 + 1).is_multiple_of(REPORT_EVERY) {
            println!("to seed {seed}, {} s: {total}", began.elapsed().as_secs());
        }
    }
    println!("no violation in {} s: {total}", began.elapsed().as_secs());
    ExitCode::SUCCESS
}

fn arguments(mut given: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let mut arguments = Arguments { seeds: u64::MAX, from: 0, limit: None, mutant: None, aloud: false };
    let mut bounded = false;
    while let Some(name) = given.next() {
        let value = given.next().ok_or_else(|| format!("{name} needs a value"))?;
        let number = || value.parse::<u64>().map_err(|error| format!("{name} {value}: {error}"));
        match name.as_str() {
            "--seeds" => (arguments.seeds, bounded) = (number()?, true),
            "--from" => arguments.from = number()?,
            "--minutes" => (arguments.limit, bounded) = (Some(Duration::from_secs(60 * number()?)), true),
            "--aloud" => arguments.aloud = value == "yes",
            "--mutant" => arguments.mutant = Some(mutant(&value)?),
            _ => return Err(format!("{name} is not known")),
        }
    }
    if bounded { Ok(arguments) } else { Err("say how many seeds, or how long".to_owned()) }
}

fn mutant(name: &str) -> Result<Mutant, String> {
    let known = [
        Mutant::AckBeforeSync,
        Mutant::CheckpointAheadOfSync,
        Mutant::EpochReused,
        Mutant::FenceBeforeSync,
        Mutant::IndexTrusted,
        Mutant::NoDirectorySync,
        Mutant::NoSeal,
        Mutant::ProducersNotRebuilt,
        Mutant::RetryFailedSync,
        Mutant::SealNotSecured,
        Mutant::SealNotSynced,
        Mutant::TailNotRewritten,
        Mutant::UnlinkBeforeStart,
        Mutant::VisibleBeforeFence,
        Mutant::VisibleBeforeSync,
    ];
    let found = known.into_iter().find(|mutant| format!("{mutant:?}") == name);
    found.ok_or_else(|| format!("{name} is none of {known:?}"))
}
