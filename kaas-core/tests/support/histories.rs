//! How many random histories a property is held against, and which.

use proptest::test_runner::{Config, RngSeed};

/// The same histories at every run, so that a change is judged by itself; `PROPTEST_RNG_SEED` asks for others and
/// `PROPTEST_CASES` for more.
pub(crate) fn histories(cases: u32) -> Config {
    let asked = Config::default();
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() { asked.cases } else { cases };
    let rng_seed = match asked.rng_seed {
        RngSeed::Random => RngSeed::Fixed(1),
        fixed @ RngSeed::Fixed(_) => fixed,
    };
    Config { cases, rng_seed, failure_persistence: None, ..asked }
}
