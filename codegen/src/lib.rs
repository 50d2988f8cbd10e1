//! Turns Kafka's message schemas into the kaas-proto codec.
//!
//! Three steps, each testable alone:
//!
//! 1. [`spec`] mirrors the JSON of `schema/`, refusing keys it does not know.
//! 2. [`model`] is what the JSON means: types and versions resolved, ranges intersected, defaults typed. [`lower`]
//!    makes it and holds every semantic check.
//! 3. [`emit`] prints Rust. It asks the model for conditions and never compares version ranges itself.
//!
//! [`import`] writes `schema/` from the jars that Apache publishes.

pub mod emit;
pub mod errors;
pub mod import;
pub mod lower;
pub mod model;
mod overrides;
pub mod spec;
pub mod versions;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Reads the whole of `schema/` and lowers it.
pub fn load(schema: &Path) -> Result<model::Schema> {
    let mut specs = Vec::new();
    for (folder, place) in [
        ("messages", model::Place::Messages),
        ("headers", model::Place::Headers),
        ("records", model::Place::Records),
    ] {
        for path in json_files(&schema.join(folder))? {
            let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
            let spec = spec::parse(&text).with_context(|| format!("parsing {}", path.display()))?;
            specs.push((spec, place));
        }
    }
    let path = schema.join("errors.json");
    let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    let errors = errors::parse(&text).with_context(|| format!("parsing {}", path.display()))?;
    Ok(lower::lower(&specs, errors)?)
}

/// Writes the codec of everything in `schema/` under `out`: a file for each message and the files that list them.
pub fn generate(schema: &Path, out: &Path) -> Result<()> {
    for (name, text) in emit::files(&load(schema)?)? {
        let path = out.join(name);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(())
}

/// The generated module of one message, such as `FetchRequest`; `Fetch` gives its request and its response.
pub fn expand(schema: &Path, name: &str) -> Result<String> {
    let schema = load(schema)?;
    let wanted = [name.to_owned(), format!("{name}Request"), format!("{name}Response")];
    let modules: Vec<String> = schema
        .messages
        .iter()
        .filter(|message| wanted.contains(&message.name))
        .map(emit::module)
        .collect::<Result<_>>()?;
    anyhow::ensure!(!modules.is_empty(), "no message is called {name}");
    Ok(modules.join("\n"))
}

/// The JSON files of a folder, sorted by name.
fn json_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "json") {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}
