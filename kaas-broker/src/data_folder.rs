//! The user's data folder, by the XDG base directory specification.

use std::path::PathBuf;

/// `$XDG_DATA_HOME/kaas`, or `~/.local/share/kaas`; `None` when the process has no home.
pub fn default() -> Option<PathBuf> {
    choose(std::env::var_os("XDG_DATA_HOME").map(PathBuf::from), std::env::home_dir())
}

fn choose(xdg: Option<PathBuf>, home: Option<PathBuf>) -> Option<PathBuf> {
    // The specification says that a relative path is to be ignored.
    let base = xdg.filter(|path| path.is_absolute()).or_else(|| Some(home?.join(".local/share")))?;
    Some(base.join("kaas"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_absolute_variable_wins_over_the_home() {
        let home = Some(PathBuf::from("/home/u"));
        assert_eq!(choose(Some("/data".into()), home.clone()), Some("/data/kaas".into()));
        assert_eq!(choose(Some("data".into()), home.clone()), Some("/home/u/.local/share/kaas".into()));
        assert_eq!(choose(None, None), None);
    }
}
