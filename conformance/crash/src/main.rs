//! Kills and power cuts under load: what was acknowledged must be there, once, at its offset.

mod broker;
mod calls;
mod campaign;
mod committed;
mod consumer;
mod coordination;
mod disk;
mod injected;
mod ledger;
mod power;
mod producer;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

use broker::Program;
use campaign::{Crash, Outcome};
use disk::{Disk, Filesystem};

/// The topic of the campaigns.
const TOPIC: &str = "crash";
/// Its partitions.
const PARTITIONS: usize = 3;

/// Crashes a kaas broker under load and checks that nothing acknowledged was lost, doubled or moved.
#[derive(Parser)]
struct Arguments {
    /// The kaas binary
    #[arg(long)]
    kaas: PathBuf,
    /// How often the process is killed
    #[arg(long, default_value_t = 0)]
    kills: usize,
    /// How often the power is cut (needs root, a loop device and mkfs)
    #[arg(long, default_value_t = 0)]
    power_cuts: usize,
    /// The filesystem whose power is cut
    #[arg(long, value_enum, default_value_t = Filesystem::Ext4)]
    filesystem: Filesystem,
    /// How many system calls are struck: each kills the broker, or fails (needs strace)
    #[arg(long, default_value_t = 0)]
    faults: usize,
    /// Seeded bugs that must be found by power cuts, in a binary that contains them
    #[arg(long, value_delimiter = ',')]
    mutants: Vec<String>,
    /// Keep the folder of a broken promise, for a look at it
    #[arg(long)]
    keep: bool,
    /// Repeats a campaign
    #[arg(long)]
    seed: Option<u64>,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("kaas-crash: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> anyhow::Result<bool> {
    let seed =
        arguments.seed.unwrap_or_else(|| u64::from(std::process::id()).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    println!("seed {seed}");
    let program = |env| Program { path: arguments.kaas.clone(), env, injection: None };
    let mut passed = true;
    if arguments.kills > 0 {
        let folder = tempfile::tempdir()?;
        let mut crash = Crash::Kill(folder.path().join("kaas"));
        let outcome = campaign::run(&program(Vec::new()), &mut crash, arguments.kills, seed)?;
        passed &= report("kills", &outcome);
        keep_if_broken(arguments, &outcome, folder, crash);
    }
    if arguments.faults > 0 {
        let outcome = injected::run(&program(Vec::new()), arguments.faults, seed)?;
        passed &= report("faults at system calls", &outcome);
    }
    if arguments.power_cuts > 0 && arguments.mutants.is_empty() {
        let folder = tempfile::tempdir()?;
        let mut crash = Crash::Power(Box::new(Disk::create(folder.path(), arguments.filesystem)?));
        let outcome = campaign::run(&program(Vec::new()), &mut crash, arguments.power_cuts, seed)?;
        passed &= report("power cuts", &outcome);
        keep_if_broken(arguments, &outcome, folder, crash);
    }
    for mutant in &arguments.mutants {
        let folder = tempfile::tempdir()?;
        let mut crash = Crash::Power(Box::new(Disk::create(folder.path(), arguments.filesystem)?));
        let env = vec![("KAAS_MUTANT".to_owned(), mutant.clone())];
        let outcome = campaign::run(&program(env), &mut crash, arguments.power_cuts, seed)?;
        let killed = !outcome.violations.is_empty();
        let first = outcome.violations.first().map_or("", |violation| violation.0.as_str());
        println!(
            "mutant {mutant}: {} after {} power cuts {first}",
            if killed { "found" } else { "MISSED" },
            outcome.crashes
        );
        passed &= killed;
    }
    Ok(passed)
}

fn keep_if_broken(arguments: &Arguments, outcome: &Outcome, folder: tempfile::TempDir, crash: Crash) {
    if arguments.keep && !outcome.violations.is_empty() {
        println!("kept in {}", folder.keep().display());
        std::mem::forget(crash);
    }
}

fn report(kind: &str, outcome: &Outcome) -> bool {
    println!(
        "{kind}: {}, acknowledged records: {}, committed transactions: {}, slowest start: {} ms, violations: {}",
        outcome.crashes,
        outcome.acknowledged,
        outcome.transactions,
        outcome.slowest_start.as_millis(),
        outcome.violations.len()
    );
    for violation in outcome.violations.iter().take(20) {
        println!("  {}", violation.0);
    }
    outcome.violations.is_empty()
}
