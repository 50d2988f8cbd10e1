//! Where the nodes run: as processes of this machine, or on hosts that a script starts, pauses and kills.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use anyhow::Context;

/// Starts and disturbs nodes; they are numbered from 1.
pub(crate) trait Hosts {
    /// Starts node `number`; where it listens.
    fn start(&mut self, number: usize) -> anyhow::Result<SocketAddr>;
    /// Stops the clock of a node.
    fn pause(&mut self, number: usize) -> anyhow::Result<()>;
    /// Lets it go on.
    fn resume(&mut self, number: usize) -> anyhow::Result<()>;
    /// Ends it without warning.
    fn kill(&mut self, number: usize) -> anyhow::Result<()>;
}

/// Processes on a folder of this machine.
pub(crate) struct Processes {
    volume: PathBuf,
    children: Vec<Option<Child>>,
}

impl Processes {
    pub(crate) fn new(volume: PathBuf) -> Self {
        Self { volume, children: Vec::new() }
    }

    fn signal(&self, number: usize, signal: &str) -> anyhow::Result<()> {
        let child = self.children[number].as_ref().context("not running")?;
        let status = Command::new("kill").args([signal, &child.id().to_string()]).status()?;
        anyhow::ensure!(status.success(), "kill {signal}: {status}");
        Ok(())
    }

    fn end(&mut self, number: usize) {
        if let Some(mut child) = self.children.get_mut(number).and_then(Option::take) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Hosts for Processes {
    fn start(&mut self, number: usize) -> anyhow::Result<SocketAddr> {
        self.end(number);
        let mut child = Command::new(std::env::current_exe()?)
            .args(["node", "--broker-id", &number.to_string(), "--volume"])
            .arg(&self.volume)
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("no output")?).read_line(&mut line)?;
        if self.children.len() <= number {
            self.children.resize_with(number + 1, || None);
        }
        self.children[number] = Some(child);
        line.trim().parse().with_context(|| format!("node {number} said {line:?}"))
    }

    fn pause(&mut self, number: usize) -> anyhow::Result<()> {
        self.signal(number, "-STOP")
    }

    fn resume(&mut self, number: usize) -> anyhow::Result<()> {
        self.signal(number, "-CONT")
    }

    fn kill(&mut self, number: usize) -> anyhow::Result<()> {
        self.end(number);
        Ok(())
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        (0..self.children.len()).for_each(|number| self.end(number));
    }
}

/// Hosts that a script knows: `SCRIPT start|pause|resume|kill NUMBER`. `start` ends what ran there, starts a node, and prints
/// where it listens when it does.
pub(crate) struct Scripted(pub(crate) PathBuf);

impl Scripted {
    fn call(&self, verb: &str, number: usize) -> anyhow::Result<String> {
        let output =
            Command::new(&self.0).args([verb, &number.to_string()]).stderr(Stdio::inherit()).output()?;
        anyhow::ensure!(output.status.success(), "{verb} {number}: {}", output.status);
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }
}

impl Hosts for Scripted {
    fn start(&mut self, number: usize) -> anyhow::Result<SocketAddr> {
        let said = self.call("start", number)?;
        said.parse().with_context(|| format!("node {number}: {said:?}"))
    }

    fn pause(&mut self, number: usize) -> anyhow::Result<()> {
        self.call("pause", number).map(|_| ())
    }

    fn resume(&mut self, number: usize) -> anyhow::Result<()> {
        self.call("resume", number).map(|_| ())
    }

    fn kill(&mut self, number: usize) -> anyhow::Result<()> {
        self.call("kill", number).map(|_| ())
    }
}
