//! A real `kaas` process on a free port and a folder of its own, and a client that sends whatever bytes a test wants.
#![allow(
    dead_code,
    unused_imports,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "every test file uses its own part"
)]

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;

use kaas_proto::ApiRequest;
use kaas_proto::messages::ProduceRequest;
use kaas_test_client::ready_address;
pub use kaas_test_client::{PATIENCE, encode, fetch};
use tempfile::TempDir;

/// A running broker; killed when dropped.
pub struct Kaas {
    pub child: Child,
    pub address: SocketAddr,
    pub folder: TempDir,
}

impl Kaas {
    pub fn start() -> Kaas {
        Kaas::start_with(&[])
    }

    pub fn start_with(overrides: &[&str]) -> Kaas {
        Kaas::start_in(tempfile::tempdir().unwrap(), overrides)
    }

    /// Starts on a folder that may hold an earlier broker's data.
    pub fn start_in(folder: TempDir, overrides: &[&str]) -> Kaas {
        let mut command = command(&folder, overrides);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let stderr = child.stderr.take().unwrap();
        let (ready, listens) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                match ready_address(&line) {
                    Some(address) => drop(ready.send(address)),
                    None => eprintln!("kaas: {line}"),
                }
            }
        });
        let address = listens.recv_timeout(PATIENCE).expect("the broker says that it is ready");
        Kaas { child, address, folder }
    }

    /// SIGKILL, and the folder for the next broker.
    pub fn kill(mut self) -> TempDir {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        std::mem::replace(&mut self.folder, tempfile::tempdir().unwrap())
    }

    /// SIGTERM; the exit code and the folder.
    pub fn terminate(mut self) -> (Option<i32>, TempDir) {
        signal(&self.child, "TERM");
        let status = self.child.wait().unwrap();
        (status.code(), std::mem::replace(&mut self.folder, tempfile::tempdir().unwrap()))
    }

    pub fn connect(&self) -> Client {
        Client::to(self.address)
    }

    /// Resident memory in bytes.
    pub fn rss_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
    }

    /// Descriptors that the process holds.
    pub fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap().count()
    }
}

impl Drop for Kaas {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn command(folder: &TempDir, overrides: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kaas"));
    command.arg("serve").args(["--override", "listeners=PLAINTEXT://127.0.0.1:0"]);
    command.args(["--override", &format!("log.dirs={}", folder.path().display())]);
    for pair in overrides {
        command.args(["--override", pair]);
    }
    command
}

pub fn signal(child: &Child, name: &str) {
    assert!(Command::new("kill").args(["-s", name, &child.id().to_string()]).status().unwrap().success());
}

/// One connection whose failures fail the test.
pub struct Client(pub kaas_test_client::Client);

impl Client {
    pub fn to(address: SocketAddr) -> Client {
        Client(kaas_test_client::Client::connect(address).unwrap())
    }

    /// Sends a request and returns its correlation id.
    pub fn send<R: ApiRequest>(&mut self, request: &R, version: i16) -> i32 {
        self.0.send(request, version).unwrap()
    }

    /// Reads the next response.
    pub fn receive<R: ApiRequest>(&mut self, version: i16) -> (i32, R::Response) {
        self.0.receive::<R>(version).unwrap()
    }

    pub fn call<R: ApiRequest>(&mut self, request: &R, version: i16) -> R::Response {
        self.0.call(request, version).unwrap()
    }

    /// Fails unless the broker closes the connection without another answer.
    pub fn expect_close(&mut self) {
        let mut byte = [0];
        match self.0.stream.read(&mut byte) {
            Ok(0) => {}
            Ok(_) => panic!("an answer instead of a close"),
            Err(error) => assert_ne!(error.kind(), std::io::ErrorKind::WouldBlock, "no answer and no close"),
        }
    }

    pub fn create_topic(&mut self, name: &str, partitions: i32) {
        let response = self.0.create_topic(name, partitions).unwrap();
        assert_eq!(response.topics[0].error_code, 0, "{:?}", response.topics[0].error_message);
    }

    /// Produces one record and returns its offset.
    pub fn produce(&mut self, topic: &str, partition: i32, value: &[u8]) -> i64 {
        let response = self.call(&produce(topic, partition, value, -1), 9);
        let answer = &response.responses[0].partition_responses[0];
        assert_eq!(answer.error_code, 0, "{:?}", answer.error_message);
        answer.base_offset
    }
}

/// A request that produces one record.
pub fn produce(topic: &str, partition: i32, value: &[u8], acks: i16) -> ProduceRequest {
    kaas_test_client::produce(topic, partition, kaas_test_client::batch(value), acks)
}
