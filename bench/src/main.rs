//! kaas and Apache Kafka 3.7.2 in turn under the same load, on the same machine, and the ratios between them.
//!
//! The broker that is not measured is not running. A block is Kafka, kaas, kaas, Kafka, so that a machine that slows
//! down or speeds up does so for both; ratios are made within a block, and a broker's ratio to itself is shown beside
//! them. The first metric is the broker's CPU time for a unit of work, which does not depend on how fast the driver is.

mod batch;
mod blocks;
mod broker;
mod cold;
mod compaction;
mod coordination;
mod fetch;
mod groups;
mod histogram;
mod java;
mod keyed;
mod member;
mod metadata;
mod meter;
mod process;
mod produce;
mod report;
mod restart;
mod rows;
mod session;
mod steady;
mod swarm;
mod syncs;
mod transaction;
mod wire;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::{Parser, Subcommand};

use blocks::Figures;
use broker::{Programs, System};
use keyed::Keyed;
use report::{Block, Proof};
use rows::Row;
use session::Plan;

/// How long a trial is measured in which syncs are only counted.
const PROOF: Duration = Duration::from_secs(1);

/// Compares kaas with Apache Kafka 3.7.2.
#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    command: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Runs both brokers in turn and prints the ratios.
    Run(Run),
    /// Prints the rows.
    Rows,
    /// Kills both brokers and times how they come back, by size (P22) and with many idle partitions (P24).
    Restart {
        /// Sizes of the one partition, in GiB.
        #[arg(long, value_delimiter = ',', default_values_t = [1, 10])]
        gib: Vec<u64>,
        /// How many idle partitions.
        #[arg(long, default_value_t = 10_000)]
        partitions: i32,
        #[command(flatten)]
        run: Run,
    },
    /// Offset commits (P16) and transactions (P15) on both brokers in turn, in page-cache and in durable mode.
    Coordination {
        #[command(flatten)]
        run: Run,
    },
    /// Consumer groups of three members on both brokers in turn (P20): how they join, what a heartbeat costs, and how they
    /// come back when the broker is killed.
    Groups {
        /// How many groups.
        #[arg(long, default_value_t = 1000)]
        groups: usize,
        #[command(flatten)]
        run: Run,
    },
    /// Compaction of a large log beside a steady producer on both brokers in turn (P25), and whether what is left is right.
    Compaction {
        /// Size of the log, in GiB.
        #[arg(long, default_value_t = 10)]
        gib: u64,
        /// Keys of its records.
        #[arg(long, default_value_t = 1_000_000)]
        keys: u64,
        #[command(flatten)]
        run: Run,
    },
    /// A consumer of what is not in the page cache, beside a steady producer, on both brokers in turn (P12).
    Cold {
        /// What it consumes, in GiB.
        #[arg(long, default_value_t = 4)]
        gib: u64,
        #[command(flatten)]
        run: Run,
    },
    /// Times the encoding of a Metadata answer about 10,000 partitions.
    Metadata,
}

#[derive(clap::Args)]
struct Run {
    /// The rows, by name; all when not given.
    #[arg(long, value_delimiter = ',')]
    rows: Vec<String>,
    /// Blocks of Kafka, kaas, kaas, Kafka.
    #[arg(long, default_value_t = 3)]
    blocks: usize,
    /// Runs this broker alone, once, and prints its numbers.
    #[arg(long)]
    only: Option<System>,
    /// Measured seconds of a trial.
    #[arg(long, default_value_t = 8)]
    seconds: u64,
    /// The kaas program.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/release/kaas"))]
    kaas: PathBuf,
    /// Where the brokers keep their data while they run: the file system that is measured.
    #[arg(long, default_value_os_t = std::env::temp_dir())]
    folder: PathBuf,
    /// Where every number goes.
    #[arg(long, default_value = "bench.json")]
    json: PathBuf,
    /// Makes each fsync and fdatasync of both brokers take so many milliseconds longer, and runs the rows for that (P8).
    #[arg(long, default_value_t = 0)]
    slow_syncs: u64,
    /// Leaves out the counting of syncs.
    #[arg(long)]
    no_strace: bool,
}

fn main() -> Result<ExitCode> {
    match Cli::parse().command {
        Verb::Run(run) => match run.only {
            None => compare(&run),
            Some(system) => only(system, &run),
        },
        Verb::Rows => {
            rows::all().iter().for_each(|row| println!("{:7} {:20} {}", row.id, row.metric, row.title));
            Ok(ExitCode::SUCCESS)
        }
        Verb::Restart { gib, partitions, run } => {
            let programs = run.programs(true)?;
            restart::sizes(&programs, &gib)?;
            if partitions > 0 {
                restart::partitions(&programs, partitions)?;
            }
            Ok(ExitCode::SUCCESS)
        }
        Verb::Coordination { run } => {
            let (programs, measured) = (run.programs(true)?, Duration::from_secs(run.seconds));
            for (mode, flush) in [("page cache", rows::PAGE_CACHE), ("durable", rows::DURABLE)] {
                run.blocks(mode, |system| coordination::session(system, &programs, flush, measured))?;
            }
            Ok(ExitCode::SUCCESS)
        }
        Verb::Groups { groups, run } => {
            let (programs, measured) = (run.programs(true)?, Duration::from_secs(run.seconds));
            let title = format!("P20, {groups} groups, durable");
            run.blocks(&title, |system| groups::session(system, &programs, groups, measured))?;
            Ok(ExitCode::SUCCESS)
        }
        Verb::Compaction { gib, keys, run } => {
            let (programs, measured) = (run.programs(true)?, Duration::from_secs(run.seconds));
            let log = Keyed::of_bytes(keys, gib << 30);
            let title = format!("P25, {gib} GiB, {keys} keys");
            run.blocks(&title, |system| compaction::session(system, &programs, log, measured))?;
            Ok(ExitCode::SUCCESS)
        }
        Verb::Cold { gib, run } => {
            let (programs, measured) = (run.programs(true)?, Duration::from_secs(run.seconds));
            let title = format!("P12, {gib} GiB");
            run.blocks(&title, |system| cold::session(system, &programs, gib, measured))?;
            Ok(ExitCode::SUCCESS)
        }
        Verb::Metadata => {
            let (time, bytes) = metadata::encode_time()?;
            println!("Metadata answer about 10,000 partitions: {bytes} bytes, encoded in {time:?} (median)");
            Ok(ExitCode::SUCCESS)
        }
    }
}

impl Run {
    fn rows(&self) -> Result<Vec<Row>> {
        let mut rows = if self.slow_syncs > 0 { rows::slow_syncs() } else { rows::all() };
        for wanted in &self.rows {
            ensure!(rows.iter().any(|row| row.id == wanted), "no row is called {wanted}");
        }
        rows.retain(|row| self.rows.is_empty() || self.rows.iter().any(|wanted| row.id == wanted));
        Ok(rows)
    }

    fn programs(&self, kaas: bool) -> Result<Programs> {
        ensure!(!kaas || self.kaas.exists(), "{} is not there: cargo build --release", self.kaas.display());
        let class_path = class_path()?;
        let sync_delay = Duration::from_millis(self.slow_syncs);
        Ok(Programs { kaas: self.kaas.clone(), class_path, folder: self.folder.clone(), sync_delay })
    }

    /// Both in turn, or one alone.
    fn blocks(&self, title: &str, mut session: impl FnMut(System) -> Result<Figures>) -> Result<()> {
        match self.only {
            None => blocks::run(title, self.blocks, session),
            Some(system) => session(system).map(|figures| blocks::show(title, system, &figures)),
        }
    }

    fn plan<'a>(&self, rows: &'a [Row], programs: &'a Programs) -> Plan<'a> {
        let measured = Duration::from_secs(self.seconds);
        Plan { rows, class_path: &programs.class_path, measured, count_syncs: false }
    }

    /// Counting syncs slows a broker down for the rest of its life: it has sessions of its own.
    fn proof(&self, rows: &[Row], programs: &Programs) -> Result<Option<Proof>> {
        if self.slow_syncs > 0 {
            // A process has one tracer, and that is the one which slows it down.
            return Ok(None);
        }
        if self.no_strace || !syncs::available() {
            eprintln!("NO STRACE: syncs are not counted, and no durability mode is proven");
            return Ok(None);
        }
        eprintln!("counting syncs");
        let plan = Plan { rows, class_path: &programs.class_path, measured: PROOF, count_syncs: true };
        let kafka = session::run(System::Kafka, programs, &plan)?;
        Ok(Some(Proof { kafka, kaas: session::run(System::Kaas, programs, &plan)? }))
    }
}

/// The class path of Kafka's jars.
fn class_path() -> Result<String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../conformance/lib/jars.sh");
    let output = Command::new(&script).output().with_context(|| script.display().to_string())?;
    ensure!(output.status.success(), "no Kafka jars: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

fn compare(run: &Run) -> Result<ExitCode> {
    let rows = run.rows()?;
    let programs = run.programs(true)?;
    let proof = run.proof(&rows, &programs)?;
    let mut blocks = Vec::new();
    for number in 1..=run.blocks {
        eprintln!("block {number} of {}", run.blocks);
        let load_average = process::load_average()?;
        let session = |system| session::run(system, &programs, &run.plan(&rows, &programs));
        let first = session(System::Kafka)?;
        let kaas = [session(System::Kaas)?, session(System::Kaas)?];
        blocks.push(Block { load_average, kafka: [first, session(System::Kafka)?], kaas });
    }
    let (table, good) = report::table(&blocks, proof.as_ref(), &rows);
    println!("{table}");
    let (time, bytes) = metadata::encode_time()?;
    println!("Metadata answer about 10,000 partitions: {bytes} bytes, encoded in {time:?} (median)");
    fs::write(&run.json, serde_json::to_string_pretty(&report::raw(&blocks, proof.as_ref(), &rows))?)?;
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn only(system: System, run: &Run) -> Result<ExitCode> {
    let rows = run.rows()?;
    let programs = run.programs(system == System::Kaas)?;
    let metrics = session::run(system, &programs, &run.plan(&rows, &programs))?;
    println!("{}", serde_json::to_string_pretty(&metrics)?);
    Ok(ExitCode::SUCCESS)
}
