//! The broker under test, as a process.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::Context;
use kaas_test_client::ready_address;

/// How long a start may take before the campaign gives up.
const START_MAX: Duration = Duration::from_secs(60);
/// How often a broker that should die is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// How to start a broker.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    /// The kaas binary.
    pub(crate) path: PathBuf,
    /// Variables for it, such as a seeded bug.
    pub(crate) env: Vec<(String, String)>,
    /// What strace does to its system calls.
    pub(crate) injection: Option<Injection>,
}

/// What is done to system calls, in strace's words.
#[derive(Clone, Debug)]
pub(crate) struct Injection {
    /// The calls, separated by commas.
    pub(crate) calls: String,
    /// What happens to which of them.
    pub(crate) action: String,
}

/// A running broker; killed when dropped.
pub(crate) struct Broker {
    child: Child,
    /// Where it listens.
    pub(crate) address: SocketAddr,
}

impl Program {
    /// The same program under a fault.
    pub(crate) fn injected(&self, injection: Injection) -> Program {
        Program { injection: Some(injection), ..self.clone() }
    }

    fn command(&self) -> Command {
        let Some(Injection { calls, action }) = &self.injection else { return Command::new(&self.path) };
        let mut command = Command::new("strace");
        // With -D the broker is the child, and strace follows from outside.
        command.args(["-D", "-f", "-qq", "-o", "/dev/null"]);
        command.args(["-e", &format!("trace={calls}"), "-e", &format!("inject={calls}:{action}")]);
        command.arg(&self.path);
        command
    }

    /// Starts a broker on a folder and waits until it is ready.
    pub(crate) fn start(&self, folder: &Path) -> anyhow::Result<Broker> {
        let mut child = self
            .command()
            .arg("serve")
            .args(["--override", "listeners=PLAINTEXT://127.0.0.1:0"])
            .args(["--override", &format!("log.dirs={}", folder.display())])
            .args(["--override", "log.segment.bytes=262144"])
            .envs(self.env.iter().cloned())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {}", self.path.display()))?;
        let stderr = child.stderr.take().context("stderr is piped")?;
        let (ready, listens) = mpsc::channel();
        std::thread::spawn(move || {
            let mut last = String::new();
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                if let Some(address) = ready_address(&line) {
                    let _ = ready.send(Ok(address));
                }
                last = line;
            }
            let _ = ready.send(Err(last));
        });
        match listens.recv_timeout(START_MAX) {
            Ok(Ok(address)) => Ok(Broker { child, address }),
            Ok(Err(line)) => {
                let _ = child.wait();
                anyhow::bail!("the broker did not start: {line}")
            }
            Err(_) => {
                let _ = child.kill();
                let _ = child.wait();
                anyhow::bail!("the broker was not ready after {START_MAX:?}")
            }
        }
    }
}

impl Broker {
    /// Waits until the process has ended, and ends it when it does not.
    pub(crate) fn die_within(&mut self, life: Duration) -> anyhow::Result<()> {
        let deadline = Instant::now() + life;
        while self.child.try_wait()?.is_none() && Instant::now() < deadline {
            std::thread::sleep(LOOK_EVERY);
        }
        self.kill()
    }

    /// SIGKILL.
    pub(crate) fn kill(&mut self) -> anyhow::Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
