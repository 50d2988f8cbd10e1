//! The golden vectors.

#![allow(clippy::unwrap_used)] // The committed file is part of the test.

use std::io::Read;
use std::sync::LazyLock;

use bytes::Bytes;
use kaas_proto::json::{CATALOGUE, CatalogueEntry};

/// What Kafka's own classes make of one message at one version.
pub(crate) struct Vector {
    pub(crate) entry: &'static CatalogueEntry,
    pub(crate) version: i16,
    pub(crate) variant: String,
    pub(crate) bytes: Bytes,
    pub(crate) json: serde_json::Value,
}

impl Vector {
    /// Names the vector in a failure.
    pub(crate) fn label(&self) -> String {
        format!("{} v{} {}", self.entry.name, self.version, self.variant)
    }
}

/// Every committed vector. `conformance/java/GoldenVectors.java` writes them.
pub(crate) static VECTORS: LazyLock<Vec<Vector>> = LazyLock::new(|| {
    let mut text = String::new();
    flate2::read::GzDecoder::new(&include_bytes!("../golden/vectors.tsv.gz")[..])
        .read_to_string(&mut text)
        .unwrap();
    text.lines().map(parse).collect()
});

fn parse(line: &str) -> Vector {
    let [name, version, variant, hex, json] = line.split('\t').collect::<Vec<_>>()[..] else {
        panic!("a line has five columns: {line}");
    };
    Vector {
        entry: CATALOGUE.iter().find(|entry| entry.name == name).expect("the message exists"),
        version: version.parse().unwrap(),
        variant: variant.to_owned(),
        bytes: (0..hex.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
            .collect(),
        json: serde_json::from_str(json).unwrap(),
    }
}
