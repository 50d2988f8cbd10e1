//! The `kaas` program.

mod cli;
mod telemetry;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let cli = match cli::Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { cli::EXIT_USAGE } else { 0 });
        }
    };
    match cli.run() {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("kaas: {error:#}");
            ExitCode::from(cli::exit_code(&error))
        }
    }
}
