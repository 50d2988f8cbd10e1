//! Reads schemas out of the jars that Apache publishes and keeps their facts: no prose, no comments.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::{Cursor, Read};
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::spec::{self, Kind};

/// Where the jars keep their schemas.
const JAR_FOLDER: &str = "common/message/";

/// The facts of some jars: the text of each file under `schema/`, by its path there.
pub type Facts = BTreeMap<String, String>;

/// Reads the schemas of `jars` into facts, `VERSION` included.
///
/// `VERSION` has a line for each jar with its file name and SHA-256, and one with the digest of all facts.
pub fn read(jars: &[impl AsRef<Path>]) -> Result<Facts> {
    let mut facts = Facts::new();
    let mut version = String::new();
    for jar in jars {
        let jar = jar.as_ref();
        let bytes = fs::read(jar).with_context(|| format!("reading {}", jar.display()))?;
        let name = jar.file_name().and_then(|name| name.to_str()).context("the jar's name is not UTF-8")?;
        writeln!(version, "{name} sha256 {}", hex(&Sha256::digest(&bytes)))?;
        let count = facts.len();
        read_jar(bytes, &mut facts).with_context(|| format!("importing {name}"))?;
        ensure!(facts.len() > count, "{name} holds no schema");
    }
    writeln!(version, "facts sha256 {}", digest(&facts))?;
    facts.insert("VERSION".to_owned(), version);
    Ok(facts)
}

/// The digest of the schema files among `facts`, in the order of their paths.
fn digest(facts: &Facts) -> String {
    let mut hash = Sha256::new();
    for (path, text) in facts.iter().filter(|(path, _)| path.contains('/')) {
        hash.update(format!("{path} {}\n", text.len()));
        hash.update(text);
    }
    hex(&hash.finalize())
}

fn read_jar(bytes: Vec<u8>, facts: &mut Facts) -> Result<()> {
    let mut jar = zip::ZipArchive::new(Cursor::new(bytes))?;
    for index in 0..jar.len() {
        let mut entry = jar.by_index(index)?;
        let name = entry.name()?.into_owned();
        if !name.starts_with(JAR_FOLDER) || !name.ends_with(".json") {
            continue;
        }
        let mut text = String::new();
        entry.read_to_string(&mut text)?;
        let (path, text) = facts_of(&text).with_context(|| format!("in {name}"))?;
        if facts.insert(path, text).is_some() {
            bail!("two schemas are called {name}");
        }
    }
    Ok(())
}

/// The path and the text under `schema/` for a schema as Apache writes it.
fn facts_of(text: &str) -> Result<(String, String)> {
    let mut json: Value = serde_json::from_str(&strip_comments(text))?;
    normalise(&mut json);
    let spec: spec::MessageSpec = serde_json::from_value(json)?;
    let folder = match spec.kind {
        Kind::Request | Kind::Response => "messages",
        Kind::Header => "headers",
        Kind::Data => "records",
    };
    Ok((format!("{folder}/{}.json", spec.name), spec::print(&spec)?))
}

/// Drops prose, and writes defaults as text and tags as numbers whichever way the source has them.
fn normalise(json: &mut Value) {
    match json {
        Value::Array(items) => items.iter_mut().for_each(normalise),
        Value::Object(keys) => {
            keys.remove("about");
            if let Some(default) = keys.get_mut("default")
                && !default.is_string()
            {
                *default = Value::String(default.to_string());
            }
            if let Some(tag) = keys.get_mut("tag")
                && let Some(number) = tag.as_str().and_then(|text| text.parse::<u32>().ok())
            {
                *tag = number.into();
            }
            keys.values_mut().for_each(normalise);
        }
        _ => {}
    }
}

/// Blanks `//` comments, leaving strings alone.
fn strip_comments(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    let mut in_string = false;
    while let Some(c) = chars.next() {
        match c {
            '\\' if in_string => {
                kept.push(c);
                kept.extend(chars.next());
                continue;
            }
            '"' => in_string = !in_string,
            '/' if !in_string && chars.peek() == Some(&'/') => {
                while chars.peek().is_some_and(|&next| next != '\n') {
                    chars.next();
                }
                continue;
            }
            _ => {}
        }
        kept.push(c);
    }
    kept
}

/// Writes `facts` under `schema`, removing schema files that are no longer among them.
pub fn write(facts: &Facts, schema: &Path) -> Result<()> {
    for path in committed(schema)?.keys().filter(|path| !facts.contains_key(*path)) {
        fs::remove_file(schema.join(path))?;
    }
    for (path, text) in facts {
        let path = schema.join(path);
        fs::create_dir_all(path.parent().context("a schema file lies in a folder")?)?;
        fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(())
}

/// What `schema` holds now, in the form of [`read`]; files that do not come from a jar are left out.
pub fn committed(schema: &Path) -> Result<Facts> {
    let mut facts = Facts::new();
    for folder in ["messages", "headers", "records"] {
        if !schema.join(folder).exists() {
            continue;
        }
        for path in crate::json_files(&schema.join(folder))? {
            let name = path.file_name().and_then(|name| name.to_str()).context("a file name is not UTF-8")?;
            facts.insert(format!("{folder}/{name}"), fs::read_to_string(&path)?);
        }
    }
    if let Ok(version) = fs::read_to_string(schema.join("VERSION")) {
        facts.insert("VERSION".to_owned(), version);
    }
    Ok(facts)
}

/// The paths at which two sets of facts differ.
pub fn differences(left: &Facts, right: &Facts) -> Vec<String> {
    let mut paths: Vec<&String> = left.keys().chain(right.keys()).collect();
    paths.sort();
    paths.dedup();
    paths.into_iter().filter(|path| left.get(*path) != right.get(*path)).cloned().collect()
}

/// Whether the facts still have the digest that their own `VERSION` names: nothing was edited by hand.
pub fn is_unedited(facts: &Facts) -> bool {
    let line = format!("facts sha256 {}", digest(facts));
    facts.get("VERSION").is_some_and(|version| version.lines().any(|have| have == line))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_go_and_strings_stay() {
        let text = "// one\n{ \"a\": \"x // y \\\" // z\", // two\n \"b\": 1 }";
        assert_eq!(strip_comments(text), "\n{ \"a\": \"x // y \\\" // z\", \n \"b\": 1 }");
    }

    #[test]
    fn prose_goes_and_spellings_are_normal() {
        let text = r#"// licence
            { "type": "data", "name": "A", "validVersions": "0", "flexibleVersions": "0+", "fields": [
              { "name": "X", "type": "int32", "versions": "0+", "about": "Prose.", "default": -1, "tag": "3" } ] }"#;
        let (path, facts) = facts_of(text).unwrap();
        assert_eq!(path, "records/A.json");
        assert!(!facts.contains("Prose") && !facts.contains("licence"), "{facts}");
        assert!(facts.contains("\"default\": \"-1\"") && facts.contains("\"tag\": 3"), "{facts}");
    }

    #[test]
    fn a_hand_edit_shows() {
        let schema = Path::new(env!("CARGO_MANIFEST_DIR")).join("../schema");
        let mut facts = committed(&schema).unwrap();
        assert!(is_unedited(&facts));
        facts.get_mut("messages/FetchRequest.json").unwrap().push(' ');
        assert!(!is_unedited(&facts));
    }
}
