//! What is measured between two moments of a trial.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::histogram::Histogram;
use crate::process;

/// A trial's time: first unmeasured, then measured.
#[derive(Clone, Debug)]
pub(crate) struct Times {
    /// Until everything runs as it will.
    pub(crate) ramp: Duration,
    /// What counts.
    pub(crate) measured: Duration,
    /// Ends the trial earlier, once so many bytes of batches are through.
    pub(crate) bytes_max: u64,
    /// Ends the trial earlier, once it is true.
    pub(crate) ended: Arc<AtomicBool>,
}

impl Times {
    /// A ramp, and a stretch that is measured.
    pub(crate) fn new(ramp: Duration, measured: Duration) -> Self {
        Self { ramp, measured, bytes_max: u64::MAX, ended: Arc::default() }
    }

    /// As long as it takes to move `bytes`, without a ramp.
    pub(crate) fn until_bytes(bytes: u64) -> Self {
        Self { bytes_max: bytes, ..Self::new(Duration::ZERO, WAIT) }
    }

    /// Until `ended` is true.
    pub(crate) fn until(ended: Arc<AtomicBool>) -> Self {
        Self { ended, ..Self::new(Duration::ZERO, WAIT) }
    }
}

/// How long a trial without a time of its own may take.
const WAIT: Duration = Duration::from_secs(900);

/// Follows a trial and takes the broker's CPU time at both ends of what is measured.
pub(crate) struct Meter {
    pid: u32,
    begin: Instant,
    end: Instant,
    before: Option<Usage>,
    bytes_max: u64,
    ended: Arc<AtomicBool>,
    requests: u64,
    bytes: u64,
    latencies: Histogram,
}

/// What was used up to a moment.
struct Usage {
    broker_cpu: f64,
    client_cpu: f64,
    written: u64,
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
    /// Bytes that the broker wrote, by the kernel's account.
    pub(crate) written: u64,
    /// Answered requests.
    pub(crate) requests: u64,
    /// Bytes of record batches.
    pub(crate) bytes: u64,
    /// From when a request was due to when its answer was read.
    pub(crate) latencies: Histogram,
}

impl Measured {
    /// Of the latencies, in milliseconds.
    pub(crate) fn p99_ms(&self) -> f64 {
        self.latencies.percentile_us(0.99) / 1000.0
    }
}

impl Meter {
    /// Begins with the ramp.
    pub(crate) fn start(pid: u32, times: Times) -> Self {
        let begin = Instant::now() + times.ramp;
        Self {
            pid,
            begin,
            end: begin + times.measured,
            before: None,
            bytes_max: times.bytes_max,
            ended: times.ended,
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
        if self.before.is_none() {
            self.before = Some(self.usage()?);
            self.begin = now;
            return Ok(true);
        }
        self.requests += 1;
        self.bytes += bytes;
        self.latencies.record(now.saturating_duration_since(due));
        Ok(now < self.end && self.bytes < self.bytes_max && !self.ended.load(Ordering::Relaxed))
    }

    fn usage(&self) -> Result<Usage> {
        Ok(Usage {
            broker_cpu: process::cpu_seconds(self.pid)?,
            client_cpu: process::cpu_seconds(std::process::id())?,
            written: process::written_bytes(self.pid)?,
        })
    }

    /// Ends the measurement.
    pub(crate) fn stop(self) -> Result<Measured> {
        let after = self.usage()?;
        let before = self.before.context("no request was answered in time")?;
        Ok(Measured {
            seconds: self.begin.elapsed().as_secs_f64(),
            cpu_seconds: after.broker_cpu - before.broker_cpu,
            client_cpu_seconds: after.client_cpu - before.client_cpu,
            written: after.written - before.written,
            requests: self.requests,
            bytes: self.bytes,
            latencies: self.latencies,
        })
    }
}
