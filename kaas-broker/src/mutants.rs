//! Seeded durability bugs for the crash campaign, which must find them.

use kaas_core::{EngineOptions, Mutant};

/// The variable that names the bug.
const VARIABLE: &str = "KAAS_MUTANT";

/// Switches on the bug that the environment names.
pub(crate) fn seed(options: EngineOptions) -> EngineOptions {
    let Ok(name) = std::env::var(VARIABLE) else { return options };
    let mutant = match name.as_str() {
        "ack-before-sync" => Mutant::AckBeforeSync,
        "no-directory-sync" => Mutant::NoDirectorySync,
        "checkpoint-ahead-of-sync" => Mutant::CheckpointAheadOfSync,
        "producers-not-rebuilt" => Mutant::ProducersNotRebuilt,
        "retry-failed-sync" => Mutant::RetryFailedSync,
        "visible-before-sync" => Mutant::VisibleBeforeSync,
        other => panic!("no mutant is called {other}"),
    };
    tracing::warn!(name, "this broker has a seeded bug");
    options.mutant(mutant)
}
