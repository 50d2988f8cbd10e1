//! Raw requests, good and hostile, and what brokers answer.
//!
//! The cases are data (`cases/`). Kafka's answers, normalised, are committed (`expected.json`), so that kaas can be
//! compared with Kafka without a JVM; the differences that are meant are a table with reasons (`differences.md`).

mod batch;
mod broker;
mod case;
mod compare;
mod connection;
mod encode;
mod names;
mod normalise;
mod process;
mod recording;
mod run;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use clap::Parser;

use broker::Broker;
use case::Case;
use compare::Known;
use encode::Schemas;
use process::Process;
use run::Transcript;

/// The transcripts of a run, by case.
type Transcripts = BTreeMap<String, Transcript>;

/// Sends raw requests to brokers and compares the answers.
///
/// With --kaas alone, kaas is compared with the recording of Kafka. With --kafka and --record, Kafka is recorded. With
/// --kafka alone, Kafka is compared with its own recording. With both, the two are compared as they run.
#[derive(Parser)]
struct Cli {
    /// Apache Kafka 3.7.2, as host:port. It must have been restarted since its first run.
    #[arg(long)]
    kafka: Option<String>,
    /// kaas, as host:port.
    #[arg(long)]
    kaas: Option<String>,
    /// Starts Kafka by this shell command, which becomes the broker, so that it can be killed and started again; cases that need
    /// that are left out otherwise.
    #[arg(long, requires = "kafka")]
    kafka_command: Option<String>,
    /// The same for kaas.
    #[arg(long, requires = "kaas")]
    kaas_command: Option<String>,
    /// Writes Kafka's answers to this file.
    #[arg(long)]
    record: Option<PathBuf>,
    /// Kafka's answers of an earlier run.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/expected.json"))]
    expect: PathBuf,
    /// The differences that are meant.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/differences.md"))]
    known: PathBuf,
    /// Only the cases that match; `*` stands for any text.
    #[arg(long, default_value = "*")]
    case: String,
    /// Prints the transcripts.
    #[arg(long)]
    show: bool,
}

fn main() -> Result<ExitCode> {
    let cli = Cli::parse();
    let home = Path::new(env!("CARGO_MANIFEST_DIR"));
    let schemas = Schemas::load(&home.join("../../schema"))?;
    let mut cases = case::load(&home.join("cases"))?;
    cases.retain(|case| compare::glob(&cli.case, &case.name));
    let brokers = [(&cli.kafka, &cli.kafka_command), (&cli.kaas, &cli.kaas_command)];
    if brokers.iter().any(|(address, command)| address.is_some() && command.is_none()) {
        let all = cases.len();
        cases.retain(|case| !case.has_restart());
        println!("{} cases left out: they need a broker that can be started again", all - cases.len());
    }
    let transcripts = |address: &Option<String>, command: &Option<String>| -> Result<Option<Transcripts>> {
        let Some(address) = address else { return Ok(None) };
        let process = command.as_ref().map(|command| Process::start(command, address)).transpose()?;
        let broker = Broker::at(address, &schemas, process.as_ref())?;
        play(&broker, &cases, cli.show).map(Some)
    };
    let kafka = transcripts(&cli.kafka, &cli.kafka_command)?;
    if let (Some(kafka), Some(path)) = (&kafka, &cli.record) {
        let mut all = recording::read(path).unwrap_or_default();
        all.retain(|name, _| cli.case != "*" && !kafka.contains_key(name));
        all.extend(kafka.clone());
        fs::write(path, recording::print(&all)).with_context(|| path.display().to_string())?;
        println!("recorded {} cases in {}", kafka.len(), path.display());
        return Ok(ExitCode::SUCCESS);
    }
    let kaas = transcripts(&cli.kaas, &cli.kaas_command)?;
    let known = match &kaas {
        Some(_) => compare::read_known(&fs::read_to_string(&cli.known)?)?,
        None => Vec::new(), // Kafka does not differ from its own recording
    };
    let (kafka, other) = match (kafka, kaas) {
        (Some(kafka), Some(kaas)) => (kafka, kaas),
        (Some(other), None) | (None, Some(other)) => (recording::read(&cli.expect)?, other),
        (None, None) => anyhow::bail!("no broker given: --kafka or --kaas"),
    };
    let whole = cli.case == "*" && cases.iter().any(Case::has_restart);
    report(&cases, &kafka, &other, &known, whole)
}

fn play(broker: &Broker<'_>, cases: &[Case], show: bool) -> Result<Transcripts> {
    let mut all = Transcripts::new();
    for (index, case) in cases.iter().enumerate() {
        let transcript =
            run::run(broker, case, index).unwrap_or_else(|error| vec![format!("{error:#}").into()]);
        if show {
            println!("{}", case.name);
            transcript.iter().for_each(|answer| println!("  {answer}"));
        }
        all.insert(case.name.clone(), transcript);
    }
    Ok(all)
}

/// Prints every difference that no row explains, and every row that explains none.
fn report(
    cases: &[Case],
    kafka: &Transcripts,
    other: &Transcripts,
    known: &[Known],
    whole: bool,
) -> Result<ExitCode> {
    let (mut same, mut explained) = (0, 0);
    for case in cases {
        let expected = kafka.get(&case.name).with_context(|| format!("{} was not recorded", case.name))?;
        let found = compare::differences(&case.name, expected, &other[&case.name]);
        let explained_by = |difference: &_| known.iter().filter(|row| row.explains(difference)).count() > 0;
        let (meant, new): (Vec<_>, Vec<_>) = found.into_iter().partition(explained_by);
        match (meant.is_empty(), new.is_empty()) {
            (true, true) => same += 1,
            (false, true) => explained += 1,
            _ => {}
        }
        if !new.is_empty() {
            println!("{}: {}", case.name, case.why);
        }
        new.iter().for_each(|difference| println!("{difference}"));
    }
    let stale: Vec<&Known> = known.iter().filter(|row| whole && !row.was_met()).collect();
    stale.iter().for_each(|row| println!("differences.md explains what does not differ: {row}"));
    let failed = cases.len() - same - explained;
    println!("raw: {same} cases the same, {explained} with known differences, {failed} with others");
    ensure!(!cases.is_empty(), "no case matches");
    Ok(if failed == 0 && stale.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
