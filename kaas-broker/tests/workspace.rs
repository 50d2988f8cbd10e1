//! Dependencies point one way: codegen <- proto <- core <- broker.

use std::collections::BTreeSet;
use std::process::Command;

/// Each crate with the workspace crates that it may use outside its tests.
const ALLOWED: &[(&str, &[&str])] = &[
    ("kaas-codegen", &[]),
    ("kaas-proto", &["kaas-codegen"]),
    ("kaas-core", &["kaas-proto"]),
    ("kaas-broker", &["kaas-core", "kaas-proto"]),
];

#[test]
fn crates_depend_only_on_those_below_them() {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--no-deps", "--offline"])
        .output()
        .unwrap();
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    for (name, allowed) in ALLOWED {
        let package =
            metadata["packages"].as_array().unwrap().iter().find(|package| package["name"] == *name).unwrap();
        let used: BTreeSet<&str> = package["dependencies"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|dependency| dependency["kind"] != "dev")
            .filter_map(|dependency| dependency["name"].as_str())
            .filter(|dependency| dependency.starts_with("kaas-") || *dependency == "kafka-protocol")
            .collect();
        let allowed: BTreeSet<&str> = allowed.iter().copied().collect();
        assert!(used.is_subset(&allowed), "{name} uses {used:?}");
    }
}
