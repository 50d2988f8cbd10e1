//! `kaas-codegen`: imports Kafka's schemas and shows the code that they become.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use kaas_codegen::import;

/// Imports Kafka's message schemas and shows the code that they become.
#[derive(Parser)]
struct Cli {
    /// The folder of schemas.
    #[arg(long, default_value = "schema", global = true)]
    schema: PathBuf,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Writes the facts of the jars' schemas.
    Import {
        /// kafka-clients, kafka-group-coordinator and kafka_2.13, in this order.
        #[arg(required = true)]
        jars: Vec<PathBuf>,
    },
    /// Proves that the committed facts equal the jars'.
    CheckImport {
        /// The jars of the import, in the same order.
        #[arg(required = true)]
        jars: Vec<PathBuf>,
    },
    /// Prints the code of one message, such as `FetchRequest`, or of an API's request and response, such as `Fetch`.
    Expand {
        /// The name.
        message: String,
    },
}

fn main() -> Result<ExitCode> {
    let cli = Cli::parse();
    match cli.command {
        Command::Import { jars } => import::write(&import::read(&jars)?, &cli.schema)?,
        Command::CheckImport { jars } => return check_import(&jars, &cli.schema),
        Command::Expand { message } => print!("{}", kaas_codegen::expand(&cli.schema, &message)?),
    }
    Ok(ExitCode::SUCCESS)
}

fn check_import(jars: &[PathBuf], schema: &Path) -> Result<ExitCode> {
    let imported = import::read(jars)?;
    let differences = import::differences(&imported, &import::committed(schema)?);
    for path in &differences {
        eprintln!("{}: not what the jars say", schema.join(path).display());
    }
    if differences.is_empty() {
        println!("{} files equal the jars' schemas", imported.len());
        return Ok(ExitCode::SUCCESS);
    }
    Ok(ExitCode::FAILURE)
}
