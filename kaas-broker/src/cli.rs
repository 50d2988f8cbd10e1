//! The command line.

use std::path::PathBuf;

use anyhow::Context;
use clap::{Parser, Subcommand};
use kaas_broker::config::{BrokerConfig, ConfigError, Layers, explain};
use kaas_broker::{api_matrix, audit, data_folder, inspect, serve};

use crate::telemetry;

/// `EX_USAGE`: the command line is wrong.
pub(crate) const EXIT_USAGE: u8 = 64;
/// `EX_CONFIG`: the configuration is wrong.
const EXIT_CONFIG: u8 = 78;

/// A broker that Apache Kafka 3.7 clients and tools talk to unchanged.
///
/// Without a command: one broker on 127.0.0.1:9092, on disk in the user's data folder, durable.
#[derive(Parser)]
#[command(name = "kaas", version)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Start a broker with Kafka's property names
    Serve(ConfigArgs),
    /// Print any file of a volume: a segment's batches and records, an index, a claim, a snapshot
    Inspect {
        /// The file, under its own name; a `.log` may have any
        file: PathBuf,
        /// Print JSON; of a segment an object a batch, without its records
        #[arg(long)]
        json: bool,
    },
    /// Say what is wrong with a volume, and change nothing; a broker may be running on it
    ///
    /// Exit code 0: nothing, or notes; 1: warnings; 2: damage; 3: the volume cannot be read.
    Audit {
        /// The directory that `log.dirs` names
        volume: PathBuf,
        /// Print an object of JSON a line
        #[arg(long)]
        json: bool,
    },
    /// Look up configuration
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Print the table of APIs and versions that this broker serves
    ApiMatrix,
}

#[derive(Subcommand)]
enum ConfigCommand {
    /// Say what a key means, its values, and what it is set to
    Explain {
        /// Kafka's property name
        key: String,
        #[command(flatten)]
        config: ConfigArgs,
    },
}

#[derive(clap::Args)]
struct ConfigArgs {
    /// A file in the form of Kafka's server.properties
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// One property; may be repeated, and wins over the file and the environment
    #[arg(long = "override", value_name = "KEY=VALUE")]
    overrides: Vec<String>,
}

impl ConfigArgs {
    fn layers(&self) -> Result<Layers, ConfigError> {
        Layers::load(self.config.as_deref(), std::env::vars(), &self.overrides)
    }
}

impl Cli {
    /// Does what the command says; the exit code.
    pub(crate) fn run(self) -> anyhow::Result<u8> {
        match self.command {
            None => {
                let mut layers = Layers::load(None, std::env::vars(), &[])?;
                layers.fall_back("listeners", "PLAINTEXT://127.0.0.1:9092")?;
                start(layers)?;
            }
            Some(Command::Serve(args)) => start(args.layers()?)?,
            Some(Command::Inspect { file, json }) => {
                inspect::print(&file, json, &mut std::io::stdout().lock())
                    .with_context(|| format!("cannot inspect {}", file.display()))?
            }
            Some(Command::Audit { volume, json }) => {
                return Ok(audit::print(&volume, json, &mut std::io::stdout().lock())?);
            }
            Some(Command::Config(ConfigCommand::Explain { key, config })) => {
                let text = explain::explain(&key, &config.layers()?).map_err(anyhow::Error::msg)?;
                print!("{text}");
            }
            Some(Command::ApiMatrix) => print!("{}", api_matrix::markdown()),
        }
        Ok(0)
    }
}

fn start(mut layers: Layers) -> anyhow::Result<()> {
    telemetry::start();
    if layers.get("log.dirs").or(layers.get("log.dir")).is_none() {
        let folder = data_folder::default().context("no data folder: set log.dirs")?;
        layers.fall_back("log.dirs", &folder.to_string_lossy())?;
    }
    for warning in layers.warnings() {
        tracing::warn!("{warning}");
    }
    serve::serve(BrokerConfig::new(layers)?)
}

/// The exit code that says whose mistake it was.
pub(crate) fn exit_code(error: &anyhow::Error) -> u8 {
    if error.downcast_ref::<ConfigError>().is_some() { EXIT_CONFIG } else { 1 }
}
