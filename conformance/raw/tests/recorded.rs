//! kaas answers every raw request as Kafka 3.7.2 was recorded to, but for the known differences.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Command;

/// The program in this workspace, built as it is now. `KAAS_BIN` names another.
fn kaas() -> PathBuf {
    if let Some(path) = std::env::var_os("KAAS_BIN") {
        return path.into();
    }
    let built =
        Command::new(env!("CARGO")).args(["build", "-q", "-p", "kaas-broker", "--bin", "kaas"]).status();
    assert!(built.is_ok_and(|status| status.success()), "kaas does not build");
    PathBuf::from(env!("CARGO_BIN_EXE_kaas-raw")).with_file_name("kaas")
}

#[test]
fn kaas_answers_as_kafka_does() {
    let dir = tempfile::tempdir().unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let address = format!("127.0.0.1:{port}");
    // As in the recording: groups do not wait for members that nobody knows of.
    let overrides = [
        format!("listeners=PLAINTEXT://{address}"),
        format!("log.dirs={}", dir.path().display()),
        "group.initial.rebalance.delay.ms=0".to_owned(),
    ];
    let overrides: String = overrides.map(|text| format!(" --override '{text}'")).concat();
    let command = format!("'{}' serve{overrides}", kaas().display());
    let compared = Command::new(env!("CARGO_BIN_EXE_kaas-raw"))
        .args(["--kaas", &address, "--kaas-command", &command])
        .output()
        .unwrap();
    let [told, errors] =
        [compared.stdout, compared.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(compared.status.success(), "{told}{errors}");
}
