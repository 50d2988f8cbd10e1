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
    fn this_process_uses_memory() {
        let memory = memory(std::process::id()).unwrap();
        assert!(memory.anonymous > 0.0 && memory.anonymous < memory.resident);
        assert!(cpu_seconds(std::process::id()).unwrap() >= 0.0);
    }
}
