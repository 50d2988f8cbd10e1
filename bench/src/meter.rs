//! What is measured between two moments of a trial.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::histogram::Histogram;
use crate::process;

/// A trial's time: first unmeasured, then measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    /// Until everything runs as it will.
    pub(crate) ramp: Duration,
    /// What counts.
    pub(crate) measured: Duration,
    /// Ends the trial earlier, once so many bytes of batches are through.
    pub(crate) bytes_max: u64,
}

impl Times {
    /// As long as it takes to move `bytes`, without a ramp.
    pub(crate) fn until_bytes(bytes: u64) -> Self {
        Self { ramp: Duration::ZERO, measured: BYTES_WAIT, bytes_max: bytes }
    }
}

/// How long moving a number of bytes may take.
const BYTES_WAIT: Duration = Duration::from_secs(300);

/// Follows a trial and takes the broker's CPU time at both ends of what is measured.
pub(crate) struct Meter {
    pid: u32,
    begin: Instant,
    end: Instant,
    cpu_before: Option<(f64, f64)>,
    bytes_max: u64,
    requests: u64,
    bytes: u64,
    latencies: Histogram,
}

/// What came of a trial.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    /// Wall-clock seconds.
    pub(crate) seconds: f64,
    /// CPU seconds of the broker.
    pub(crate) cpu_seconds: f64,
    /// CPU seconds of this driver.
    pub(crate) client_cpu_seconds: f64,
    /// Answered requests.
    pub(crate) requests: u64,
    /// Bytes of record batches.
    pub(crate) bytes: u64,
    /// From when a request was due to when its answer was read.
    pub(crate) latencies: Histogram,
}

impl Meter {
    /// Begins with the ramp.
    pub(crate) fn start(pid: u32, times: Times) -> Self {
        let begin = Instant::now() + times.ramp;
        Self {
            pid,
            begin,
            end: begin + times.measured,
            cpu_before: None,
            bytes_max: times.bytes_max,
            requests: 0,
            bytes: 0,
            latencies: Histogram::new(),
        }
    }

    /// Tells of one answered request; false when the time is over.
    pub(crate) fn answered(&mut self, due: Instant, bytes: u64) -> Result<bool> {
        let now = Instant::now();
        if now < self.begin {
            return Ok(true);
        }
        if self.cpu_before.is_none() {
            self.cpu_before = Some(self.cpu()?);
            self.begin = now;
            return Ok(true);
        }
        self.requests += 1;
        self.bytes += bytes;
        self.latencies.record(now.saturating_duration_since(due));
        Ok(now < self.end && self.bytes < self.bytes_max)
    }

    /// CPU seconds of the broker and of this process.
    fn cpu(&self) -> Result<(f64, f64)> {
        Ok((process::cpu_seconds(self.pid)?, process::cpu_seconds(std::process::id())?))
    }

    /// Ends the measurement.
    pub(crate) fn stop(self) -> Result<Measured> {
        let before = self.cpu_before.context("no request was answered in time")?;
        let after = self.cpu()?;
        Ok(Measured {
            seconds: self.begin.elapsed().as_secs_f64(),
            cpu_seconds: after.0 - before.0,
            client_cpu_seconds: after.1 - before.1,
            requests: self.requests,
            bytes: self.bytes,
            latencies: self.latencies,
        })
    }
}
