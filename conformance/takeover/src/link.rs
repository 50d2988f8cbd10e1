//! The driver's end of a node's connection.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use anyhow::Context;
use kaas_test_client::PATIENCE;
use uuid::Uuid;

/// How long the last lines of a dead node may be on their way.
const LAST_WORDS: Duration = Duration::from_millis(300);

/// A line that a node said.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Said {
    Ready {
        broker_id: i32,
        incarnation: Uuid,
    },
    Ack {
        offset: i64,
        value: String,
    },
    Record {
        offset: i64,
        value: String,
    },
    End,
    Led,
    Resigned,
    Revoked,
    Refused {
        broker_id: i32,
        incarnation: Uuid,
    },
    Failed(String),
    Stopped(String),
    /// The connection has ended.
    Gone,
}

impl Said {
    fn parse(line: &str) -> anyhow::Result<Said> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let (first, second) = rest.split_once(' ').unwrap_or((rest, ""));
        Ok(match word {
            "ready" => Said::Ready { broker_id: first.parse()?, incarnation: second.parse()? },
            "ack" => Said::Ack { offset: first.parse()?, value: second.to_owned() },
            "record" => Said::Record { offset: first.parse()?, value: second.to_owned() },
            "end" => Said::End,
            "led" => Said::Led,
            "resigned" => Said::Resigned,
            "revoked" => Said::Revoked,
            "refused" => Said::Refused { broker_id: first.parse()?, incarnation: second.parse()? },
            "failed" => Said::Failed(rest.to_owned()),
            "stopped" => Said::Stopped(rest.to_owned()),
            _ => anyhow::bail!("unknown: {line:?}"),
        })
    }
}

/// A connection to a node. What it says is read by a thread, so that it never waits for the driver.
pub(crate) struct Link {
    stream: TcpStream,
    lines: Receiver<String>,
}

impl Link {
    pub(crate) fn connect(address: SocketAddr) -> anyhow::Result<Link> {
        let stream = TcpStream::connect(address).with_context(|| format!("{address}"))?;
        stream.set_nodelay(true)?;
        let (sender, lines) = channel();
        let reader = BufReader::new(stream.try_clone()?);
        std::thread::spawn(move || {
            for line in reader.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Ok(Link { stream, lines })
    }

    /// Asks for something. That the node is gone is noticed when it is listened to.
    pub(crate) fn tell(&mut self, line: &str) {
        let _ = self.stream.write_all(format!("{line}\n").as_bytes());
    }

    /// The next line of a node that was killed. Its host may be gone with it, and then nothing says that this is the end.
    pub(crate) fn next_of_dead(&self) -> anyhow::Result<Said> {
        self.lines.recv_timeout(LAST_WORDS).map_or(Ok(Said::Gone), |line| Said::parse(&line))
    }

    /// The next line; an error when none comes for very long.
    pub(crate) fn next(&self) -> anyhow::Result<Said> {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => Said::parse(&line),
            Err(RecvTimeoutError::Disconnected) => Ok(Said::Gone),
            Err(RecvTimeoutError::Timeout) => anyhow::bail!("a node said nothing for {PATIENCE:?}"),
        }
    }
}
