//! Writes the codec of `schema/` into `OUT_DIR`.

use std::env;
use std::path::PathBuf;

fn main() -> anyhow::Result<()> {
    let schema = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("../schema");
    println!("cargo::rerun-if-changed={}", schema.display());
    kaas_codegen::generate(&schema, &PathBuf::from(env::var("OUT_DIR")?))
}
