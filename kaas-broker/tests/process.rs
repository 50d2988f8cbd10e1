//! The program as a process: starting, stopping, restarting, and who may share a folder.

mod support;

use std::process::{Command, Stdio};

use kaas_proto::messages::MetadataRequest;
use support::{Kaas, command};

#[test]
fn a_terminated_broker_exits_0_and_its_successor_has_everything() {
    let kaas = Kaas::start();
    let mut client = kaas.connect();
    client.create_topic("t", 2);
    for n in 0..10 {
        assert_eq!(client.produce("t", 1, format!("value {n}").as_bytes()), n);
    }
    let id = client.call(&MetadataRequest { topics: None, ..Default::default() }, 12).cluster_id;
    let (code, folder) = kaas.terminate();
    assert_eq!(code, Some(0));

    let kaas = Kaas::start_in(folder, &[]);
    let mut client = kaas.connect();
    assert_eq!(client.produce("t", 1, b"one more"), 10);
    assert_eq!(client.call(&MetadataRequest { topics: None, ..Default::default() }, 12).cluster_id, id);
}

#[test]
fn a_killed_brokers_successor_has_what_was_acknowledged() {
    let mut folder = None;
    for round in 0..5 {
        let kaas = match folder.take() {
            None => Kaas::start(),
            Some(folder) => Kaas::start_in(folder, &[]),
        };
        let mut client = kaas.connect();
        if round == 0 {
            client.create_topic("t", 1);
        }
        assert_eq!(client.produce("t", 0, b"value"), round);
        folder = Some(kaas.kill());
    }
}

#[test]
fn a_second_instance_is_refused_with_the_owners_pid() {
    let kaas = Kaas::start();
    let output = command(&kaas.folder, &[]).stdout(Stdio::null()).output().unwrap();
    assert!(!output.status.success());
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains(&format!("pid {}", kaas.child.id())), "{error}");
}

#[test]
fn a_wrong_configuration_is_refused_before_anything_is_touched() {
    let folder = tempfile::tempdir().unwrap();
    let output = command(&folder, &["log.segment.byte=5"]).output().unwrap();
    assert_eq!(output.status.code(), Some(78));
    assert!(String::from_utf8(output.stderr).unwrap().contains("did you mean log.segment.bytes?"));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn explain_and_matrix_print() {
    let kaas = |args: &[&str]| Command::new(env!("CARGO_BIN_EXE_kaas")).args(args).output().unwrap();
    let explained = kaas(&["config", "explain", "flush.messages"]);
    assert!(explained.status.success());
    assert!(String::from_utf8(explained.stdout).unwrap().contains("page-cache mode"));
    assert!(!kaas(&["config", "explain", "nonsense"]).status.success());
}
