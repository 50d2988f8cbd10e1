//! Brokers that take one partition from each other on a shared volume: nothing that was acknowledged by any of them may be
//! lost, doubled or changed.

mod drive;
mod host;
mod ledger;
mod link;
mod node;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use host::{Hosts, Processes, Scripted};

/// Takeovers of a partition on a shared volume.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a campaign of three nodes
    Run {
        /// How many takeovers
        #[arg(long, default_value_t = 50)]
        rounds: usize,
        /// The folder that all share; a temporary one by default
        #[arg(long)]
        volume: Option<PathBuf>,
        /// Repeats the choices of a campaign
        #[arg(long)]
        seed: Option<u64>,
        /// A script that starts, pauses, resumes and kills nodes on other hosts, whose mount of the volume it knows
        #[arg(long)]
        hosts: Option<PathBuf>,
    },
    /// Make the volume
    Create {
        #[arg(long)]
        volume: PathBuf,
    },
    /// Be a node
    Node {
        #[arg(long)]
        volume: PathBuf,
        #[arg(long)]
        broker_id: i32,
        #[arg(long, default_value = "127.0.0.1:0")]
        listen: SocketAddr,
    },
}

fn main() -> ExitCode {
    // A fenced broker says so as an error, which here is the point. RUST_LOG shows it.
    let filter = EnvFilter::builder().with_default_directive(LevelFilter::OFF.into()).from_env_lossy();
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_env_filter(filter).init();
    let result = match Arguments::parse().command {
        Command::Run { rounds, volume, seed, hosts } => run(rounds, volume, seed, hosts),
        Command::Create { volume } => node::create(&volume).map(|()| true),
        Command::Node { volume, broker_id, listen } => node::serve(&volume, broker_id, listen).map(|()| true),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("kaas-takeover: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(
    rounds: usize,
    volume: Option<PathBuf>,
    seed: Option<u64>,
    hosts: Option<PathBuf>,
) -> anyhow::Result<bool> {
    let seed = seed.unwrap_or_else(|| u64::from(std::process::id()).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    println!("seed {seed}");
    let temporary = tempfile::tempdir()?;
    let volume = volume.unwrap_or_else(|| temporary.path().join("volume"));
    node::create(&volume)?;
    let mut hosts: Box<dyn Hosts> = match hosts {
        Some(script) => Box::new(Scripted(script)),
        None => Box::new(Processes::new(volume)),
    };
    let outcome = drive::run(&mut *hosts, rounds, seed)?;
    let mut done: Vec<String> =
        outcome.done.iter().map(|(what, count)| format!("{what:?} {count}")).collect();
    done.sort();
    println!("takeovers: {}", done.join(", "));
    println!(
        "acknowledged records: {}, violations: {}",
        outcome.acknowledged,
        u8::from(outcome.violation.is_some())
    );
    if let Some(violation) = &outcome.violation {
        println!("  {}", violation.0);
    }
    Ok(outcome.violation.is_none())
}
