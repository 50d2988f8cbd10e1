//! Where log lines go: plain on a terminal, JSON otherwise. `RUST_LOG` chooses what is shown.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

/// Shown unless `RUST_LOG` says otherwise.
const DEFAULT_FILTER: &str = "info";

/// Starts logging to standard error.
pub(crate) fn start() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(DEFAULT_FILTER));
    let lines =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_target(false);
    // Only the first caller in a process decides; there is one.
    let _ = if std::io::stderr().is_terminal() {
        lines.try_init()
    } else {
        lines.json().flatten_event(true).try_init()
    };
}
