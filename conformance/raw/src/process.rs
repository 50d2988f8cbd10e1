//! A broker that is started here, so that it can be killed and started again.

use std::cell::RefCell;
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::broker::ASK_AGAIN_AFTER;

/// How long a broker may take to listen.
const START_WAIT: Duration = Duration::from_secs(60);

/// A broker's process, which ends with this value.
pub(crate) struct Process {
    command: String,
    address: String,
    child: RefCell<Option<Child>>,
}

impl Process {
    /// Starts the broker that listens at `address` by a shell command that becomes it.
    pub(crate) fn start(command: &str, address: &str) -> Result<Self> {
        let child = RefCell::new(Some(spawn(command)?));
        let process = Self { command: command.to_owned(), address: address.to_owned(), child };
        process.wait_until_it_listens()?;
        Ok(process)
    }

    /// Kills it without a warning, and starts it again.
    pub(crate) fn restart(&self) -> Result<()> {
        self.kill();
        *self.child.borrow_mut() = Some(spawn(&self.command)?);
        self.wait_until_it_listens()
    }

    fn wait_until_it_listens(&self) -> Result<()> {
        let deadline = Instant::now() + START_WAIT;
        while TcpStream::connect(&self.address).is_err() {
            let mut child = self.child.borrow_mut();
            let has_ended = child.as_mut().is_none_or(|child| !matches!(child.try_wait(), Ok(None)));
            ensure!(!has_ended, "{} has ended", self.command);
            ensure!(Instant::now() < deadline, "{} does not listen at {}", self.command, self.address);
            thread::sleep(ASK_AGAIN_AFTER);
        }
        Ok(())
    }

    fn kill(&self) {
        if let Some(mut child) = self.child.take() {
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

fn spawn(command: &str) -> Result<Child> {
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(format!("exec {command}")).stdin(Stdio::null()).stdout(Stdio::null());
    shell.spawn().with_context(|| command.to_owned())
}
