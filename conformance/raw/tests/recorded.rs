//! kaas answers every raw request as Kafka 3.7.2 was recorded to, but for the known differences.

use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How long a broker may take to listen.
const START_WAIT: Duration = Duration::from_secs(30);

/// A broker process that ends with the test.
struct Broker(Child);

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

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
    let broker = Command::new(kaas())
        .arg("serve")
        .args(["--override", &format!("listeners=PLAINTEXT://{address}")])
        .args(["--override", &format!("log.dirs={}", dir.path().display())])
        // As in the recording: groups do not wait for members that nobody knows of.
        .args(["--override", "group.initial.rebalance.delay.ms=0"])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut broker = Broker(broker);
    let deadline = Instant::now() + START_WAIT;
    while TcpStream::connect(&address).is_err() {
        assert!(broker.0.try_wait().unwrap().is_none(), "kaas ended");
        assert!(Instant::now() < deadline, "kaas does not listen");
        thread::sleep(Duration::from_millis(10));
    }
    let compared = Command::new(env!("CARGO_BIN_EXE_kaas-raw")).args(["--kaas", &address]).output().unwrap();
    assert!(compared.status.success(), "{}", String::from_utf8_lossy(&compared.stdout));
}
