//! Apache's own Java consumer as the driver of a row: what it costs a broker to serve a real client with its defaults.

use std::io::{BufRead, BufReader, Lines};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result};

use crate::meter::{Measured, Meter, Times};

/// Passes over the topic before anything is measured: the consumer's JVM compiles what it needs.
const WARM_PASSES: usize = 2;

/// The running program.
struct Consumer {
    child: Child,
    passes: Lines<BufReader<ChildStdout>>,
}

/// Reads all of a topic, again and again. A request is a pass here.
pub(crate) fn run(
    class_path: &str,
    address: SocketAddr,
    pid: u32,
    topic: &str,
    partitions: i32,
    times: Times,
) -> Result<Measured> {
    let mut consumer = Consumer::start(class_path, address, topic, partitions)?;
    for _ in 0..WARM_PASSES {
        consumer.pass()?;
    }
    let mut meter = Meter::start(pid, times);
    loop {
        let due = Instant::now();
        let bytes = consumer.pass()?;
        if !meter.answered(due, bytes)? {
            return meter.stop();
        }
    }
}

impl Consumer {
    fn start(class_path: &str, address: SocketAddr, topic: &str, partitions: i32) -> Result<Self> {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("java/Consumer.java");
        let log4j = Path::new(env!("CARGO_MANIFEST_DIR")).join("../conformance/lib/log4j.properties");
        let mut child = Command::new("java")
            .args(["-Xmx512M", "-cp", class_path])
            .arg(format!("-Dlog4j.configuration=file:{}", log4j.display()))
            .arg(source)
            .args([address.to_string(), topic.to_owned(), partitions.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("running java")?;
        let output = child.stdout.take().context("the consumer's output")?;
        Ok(Self { child, passes: BufReader::new(output).lines() })
    }

    /// Waits for the end of a pass; its bytes.
    fn pass(&mut self) -> Result<u64> {
        let line = self.passes.next().context("the consumer ended")??;
        line.parse().with_context(|| format!("the consumer said {line}"))
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
