//! What a person sees at start: at most ten lines.

use std::fmt::Write as _;
use std::path::Path;

/// The banner of a broker that is ready.
pub fn banner(folder: &Path, free_bytes: Option<u64>, listeners: &[(String, i32)]) -> String {
    let addresses: Vec<String> =
        listeners.iter().map(|(host, port)| format!("{}:{port}", bracketed(host))).collect();
    let first = addresses.first().map_or("", String::as_str);
    let free = free_bytes.map(|bytes| format!(" ({} free)", human(bytes))).unwrap_or_default();
    let mut text = String::new();
    let _ = writeln!(text, "kaas {} - speaks Apache Kafka 3.7", env!("CARGO_PKG_VERSION"));
    let _ = writeln!(text, "  data      {}{free}", folder.display());
    let _ = writeln!(text, "  listening {}", addresses.join(", "));
    let _ = writeln!(text, "  durable   every acknowledgement is synced to disk");
    let _ = writeln!(text, "Try:");
    let _ = writeln!(text, "  echo hello | kcat -P -b {first} -t greetings");
    let _ = writeln!(text, "  kcat -C -b {first} -t greetings -e");
    let _ = writeln!(text, "  kafka-topics.sh --bootstrap-server {first} --list");
    let _ = writeln!(text, "Ctrl-C stops it; nothing that was acknowledged is lost.");
    text
}

/// Free bytes of the filesystem that holds `folder`, for this user.
pub fn free_bytes(folder: &Path) -> Option<u64> {
    let stat = rustix::fs::statvfs(folder).ok()?;
    Some(stat.f_bavail.saturating_mul(stat.f_frsize))
}

fn bracketed(host: &str) -> String {
    if host.contains(':') { format!("[{host}]") } else { host.to_owned() }
}

fn human(bytes: u64) -> String {
    let mut amount = bytes as f64;
    let mut units = ["B", "KiB", "MiB", "GiB", "TiB"].iter();
    let mut unit = units.next();
    while amount >= 1024.0 {
        let Some(next) = units.next() else { break };
        amount /= 1024.0;
        unit = Some(next);
    }
    format!("{amount:.1} {}", unit.unwrap_or(&""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_banner_has_ten_lines_at_most_and_commands_that_can_be_pasted() {
        let text =
            banner(Path::new("/data"), Some(3 << 30), &[("::1".to_owned(), 9092), ("b".to_owned(), 1)]);
        assert!(text.lines().count() <= 10);
        assert!(text.contains("/data (3.0 GiB free)"));
        assert!(text.contains("kcat -P -b [::1]:9092"));
    }
}
