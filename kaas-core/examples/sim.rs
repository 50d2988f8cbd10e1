//! The deterministic simulation for as long as one likes; see `tests/simulation/sim/mod.rs`.

#[path = "../tests/simulation/sim/mod.rs"]
mod sim;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use kaas_core::Mutant;

/// How often progress is printed.
const REPORT_EVERY: u64 = 1000;

/// Runs seeds of the simulation, and stops with exit code 1 at the first violation.
#[derive(Parser)]
#[command(group = clap::ArgGroup::new("bound").required(true).multiple(true).args(["seeds", "minutes"]))]
struct Arguments {
    /// How many seeds.
    #[arg(long)]
    seeds: Option<u64>,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// For how long.
    #[arg(long)]
    minutes: Option<u64>,
    /// A seeded bug, by its name in `Mutant`.
    #[arg(long, value_parser = mutant)]
    mutant: Option<Mutant>,
    /// Prints every step.
    #[arg(long)]
    aloud: bool,
}

fn mutant(name: &str) -> Result<Mutant, String> {
    let found = Mutant::ALL.iter().find(|mutant| format!("{mutant:?}") == name);
    found.copied().ok_or_else(|| format!("none of {:?}", Mutant::ALL))
}

fn main() -> ExitCode {
    let Arguments { seeds, from, minutes, mutant, aloud } = Arguments::parse();
    let limit = minutes.map(|minutes| Duration::from_secs(60 * minutes));
    let last = from.saturating_add(seeds.unwrap_or(u64::MAX));
    let began = Instant::now();
    let mut total = sim::Tally::default();
    for seed in from..last {
        if limit.is_some_and(|limit| began.elapsed() >= limit) {
            break;
        }
        let outcome = sim::run(sim::Story { seed, mutant, aloud });
        total.add(&outcome.tally);
        let done = seed - from + 1;
        if let Some(violation) = outcome.violation {
            println!("seed {seed}: {violation}\nafter {done} seeds: {total}");
            return ExitCode::FAILURE;
        }
        if done.is_multiple_of(REPORT_EVERY) {
            println!("to seed {seed}, {} s: {total}", began.elapsed().as_secs());
        }
    }
    println!("no violation in {} s: {total}", began.elapsed().as_secs());
    ExitCode::SUCCESS
}
