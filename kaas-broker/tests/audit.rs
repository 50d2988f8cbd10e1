//! `kaas audit` and `kaas inspect` as programs, beside a broker and after it.
#![allow(clippy::unwrap_used)]

mod support;

use std::path::Path;
use std::process::{Command, Output};

use support::Kaas;

fn kaas(args: &[&str], path: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_kaas")).args(args).arg(path).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// The first file below a folder whose name ends so.
fn find(folder: &Path, suffix: &str) -> Option<std::path::PathBuf> {
    let mut entries: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    entries.iter().find_map(|path| match path.is_dir() {
        true => find(path, suffix),
        false => path.to_str().filter(|path| path.ends_with(suffix)).map(Into::into),
    })
}

#[test]
fn an_audit_says_by_its_exit_code_how_bad_it_is() {
    let broker = Kaas::start();
    let mut client = broker.connect();
    client.create_topic("t", 2);
    for n in 0..3 {
        client.produce("t", 1, format!("value {n}").as_bytes());
    }
    let beside = kaas(&["audit"], broker.folder.path());
    assert_eq!((beside.status.code(), text(&beside.stderr)), (Some(0), ""), "{}", text(&beside.stdout));
    let sum = "1 topics, 1 partitions, 1 segments, 3 batches";
    assert!(text(&beside.stdout).starts_with(sum), "{}", text(&beside.stdout));

    let (_, folder) = broker.terminate();
    std::fs::write(folder.path().join("notes.txt"), "x").unwrap();
    let noted = kaas(&["audit"], folder.path());
    assert_eq!(noted.status.code(), Some(0));
    assert!(text(&noted.stdout).starts_with("note: notes.txt: not a name of this format\n"));

    let index = find(folder.path(), ".index").unwrap();
    std::fs::write(&index, "short").unwrap();
    assert_eq!(kaas(&["audit"], folder.path()).status.code(), Some(1));

    let log = find(folder.path(), ".log").unwrap();
    let mut bytes = std::fs::read(&log).unwrap();
    // In the second batch of three.
    bytes[100] ^= 1;
    std::fs::write(&log, bytes).unwrap();
    let damaged = kaas(&["audit", "--json"], folder.path());
    assert_eq!(damaged.status.code(), Some(2));
    let lines: Vec<serde_json::Value> =
        text(&damaged.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let batch = lines.iter().find(|line| line["kind"] == "batch").unwrap();
    assert_eq!((batch["severity"].as_str(), batch["position"].as_u64()), (Some("damage"), Some(75)));
    assert_eq!(log, folder.path().join(batch["path"].as_str().unwrap()));
    assert!(lines.last().unwrap()["summary"]["damages"].as_u64().unwrap() > 0);
    assert_eq!(std::fs::read(folder.path().join("notes.txt")).unwrap(), b"x");
}

#[test]
fn what_is_no_volume_is_not_audited() {
    let folder = tempfile::tempdir().unwrap();
    let nowhere = folder.path().join("nowhere");
    for path in [folder.path(), &nowhere] {
        let audited = kaas(&["audit"], path);
        assert_eq!(audited.status.code(), Some(3), "{}", text(&audited.stderr));
    }
    assert!(!nowhere.exists());
}

fn files(folder: &Path, found: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files(&path, found) } else { found.push(path) }
    }
}

#[test]
fn every_file_of_a_volume_can_be_inspected_and_a_damaged_one_is_an_error() {
    let broker = Kaas::start();
    let mut client = broker.connect();
    client.create_topic("t", 1);
    client.produce("t", 0, b"value");
    let (_, folder) = broker.terminate();
    let mut found = Vec::new();
    files(folder.path(), &mut found);
    found.retain(|path| !path.ends_with("kaas.lock"));
    assert!(found.len() >= 8, "{found:?}");
    for path in found {
        let printed = kaas(&["inspect"], &path);
        assert!(printed.status.success(), "{path:?}: {}", text(&printed.stderr));
        assert!(!printed.stdout.is_empty(), "{path:?}");
        let json = kaas(&["inspect", "--json"], &path);
        text(&json.stdout)
            .lines()
            .for_each(|line| drop(serde_json::from_str::<serde_json::Value>(line).unwrap()));
        let mut bytes = std::fs::read(&path).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        std::fs::write(&path, bytes).unwrap();
        assert_eq!(kaas(&["inspect"], &path).status.code(), Some(1), "{path:?}");
    }
    let unknown = folder.path().join("notes.txt");
    std::fs::write(&unknown, "x").unwrap();
    let refused = kaas(&["inspect"], &unknown);
    assert!(text(&refused.stderr).contains("not a name of this format"), "{}", text(&refused.stderr));
}
