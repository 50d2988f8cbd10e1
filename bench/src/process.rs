//! What `/proc` says of a process.

use std::fs;

use anyhow::{Context, Result};

/// CPU seconds of a process with all its threads, in user space and in the kernel.
pub(crate) fn cpu_seconds(pid: u32) -> Result<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).context("the broker is gone")?;
    let ticks = ticks(&stat).context("/proc/PID/stat is not as expected")?;
    Ok(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// utime + stime: the 14th and 15th field; the second, the name, may hold spaces and brackets.
fn ticks(stat: &str) -> Option<u64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_whitespace().skip(11);
    Some(fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?)
}

/// Bytes that a process has dirtied in the page cache or written past it, since it started. The kernel counts whole pages, and a
/// page again when it is dirtied again after it was written out.
pub(crate) fn written_bytes(pid: u32) -> Result<u64> {
    let io = fs::read_to_string(format!("/proc/{pid}/io")).context("the broker is gone")?;
    field(&io, "write_bytes").context("/proc/PID/io is not as expected")
}

/// Bytes that were read for a process from a device.
pub(crate) fn read_bytes(pid: u32) -> Result<u64> {
    let io = fs::read_to_string(format!("/proc/{pid}/io")).context("the broker is gone")?;
    field(&io, "read_bytes").context("/proc/PID/io is not as expected")
}

/// Makes [`resident_peak`] begin anew.
pub(crate) fn forget_resident_peak(pid: u32) -> Result<()> {
    fs::write(format!("/proc/{pid}/clear_refs"), "5").context("resetting the peak of resident memory")
}

/// The most memory that was resident at once, in MiB.
pub(crate) fn resident_peak(pid: u32) -> Result<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).context("the broker is gone")?;
    let kib = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB"));
    Ok(kib.context("no VmHWM")?.parse::<f64>()? / 1024.0)
}

fn field(text: &str, name: &str) -> Option<u64> {
    let of = |line: &str| line.strip_prefix(name)?.strip_prefix(": ")?.trim().parse().ok();
    text.lines().find_map(of)
}

/// Memory of a process in MiB.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    /// All that is resident.
    pub(crate) resident: f64,
    /// The part of it that no file is behind.
    pub(crate) anonymous: f64,
}

/// Counted exactly, which `/proc/PID/status` is not.
pub(crate) fn memory(pid: u32) -> Result<Memory> {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).context("the broker is gone")?;
    let mib = |key: &str| -> Result<f64> {
        let line =
            rollup.lines().find_map(|line| line.strip_prefix(key)).with_context(|| format!("no {key}"))?;
        Ok(line.trim().trim_end_matches(" kB").parse::<f64>()? / 1024.0)
    };
    Ok(Memory { resident: mib("Rss:")?, anonymous: mib("Anonymous:")? })
}

/// How many threads of the whole machine wanted to run in the last minute.
pub(crate) fn load_average() -> Result<f64> {
    let text = fs::read_to_string("/proc/loadavg")?;
    Ok(text.split_whitespace().next().context("an empty /proc/loadavg")?.parse()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_does_not_confuse() {
        let stat = "42 (a) b) (c) S 1 2 3 4 5 6 7 8 9 10 100 23 0 0 20 0";
        assert_eq!(ticks(stat), Some(123));
        assert_eq!(ticks("nothing"), None);
    }

    #[test]
    fn written_bytes_are_not_those_taken_back() {
        let io = "rchar: 5\nwchar: 6\nread_bytes: 0\nwrite_bytes: 4096\ncancelled_write_bytes: 7\n";
        assert_eq!(field(io, "write_bytes"), Some(4096));
        assert_eq!(field(io, "bytes"), None);
    }

    #[test]
    fn this_process_uses_memory() {
        let memory = memory(std::process::id()).unwrap();
        assert!(memory.anonymous > 0.0 && memory.anonymous < memory.resident);
        assert!(cpu_seconds(std::process::id()).unwrap() >= 0.0);
    }
}
