//! Proof of the durability mode from outside: how many syncs the broker's process asks of the kernel, by strace.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::broker::signal;

const SYNC_CALLS: &str = "fsync,fdatasync,msync,sync_file_range,syncfs,sync";
const ATTACH_WAIT: Duration = Duration::from_secs(10);

/// Whether strace is there.
pub(crate) fn available() -> bool {
    Command::new("strace").arg("-V").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

/// Counts the sync calls of a process while `load` runs.
pub(crate) fn count<T>(pid: u32, load: impl FnOnce() -> Result<T>) -> Result<(u64, T)> {
    let table = tempfile::NamedTempFile::new()?;
    let mut strace = Command::new("strace")
        .args(["-f", "-c", "-e", &format!("trace={SYNC_CALLS}"), "-p", &pid.to_string(), "-o"])
        .arg(table.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("starting strace")?;
    let outcome = attached(pid, &mut strace).and_then(|()| load());
    signal(&strace, rustix::process::Signal::INT)?;
    strace.wait()?;
    Ok((calls(&fs::read_to_string(table.path())?), outcome?))
}

fn attached(pid: u32, strace: &mut Child) -> Result<()> {
    let deadline = Instant::now() + ATTACH_WAIT;
    loop {
        let threads = fs::read_dir(format!("/proc/{pid}/task"))?;
        let statuses =
            threads.filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("status")).ok());
        let free = statuses.filter(|status| status.contains("TracerPid:\t0\n")).count();
        if free == 0 {
            return Ok(());
        }
        ensure!(strace.try_wait()?.is_none(), "strace cannot attach to the broker");
        ensure!(Instant::now() < deadline, "strace does not attach to the broker");
        thread::sleep(Duration::from_millis(10));
    }
}

/// The sum of the column of calls in strace's summary: `% time, seconds, usecs/call, calls, [errors,] syscall`.
fn calls(table: &str) -> u64 {
    let rows =
        table.lines().filter(|line| SYNC_CALLS.split(',').any(|call| line.ends_with(&format!(" {call}"))));
    rows.filter_map(|row| row.split_whitespace().nth(3)?.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_summed_over_the_kinds() {
        let table = "% time     seconds  usecs/call     calls    errors syscall\n\
                     ------ ----------- ----------- --------- --------- ----------------\n \
                     90.00    0.100000         100      1000           fdatasync\n \
                     10.00    0.010000          10       234         2 msync\n\
                     ------ ----------- ----------- --------- --------- ----------------\n\
                     100.00    0.110000          89      1234         2 total\n";
        assert_eq!(calls(table), 1234);
        assert_eq!(calls(""), 0);
    }
}
