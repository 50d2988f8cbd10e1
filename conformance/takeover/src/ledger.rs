//! What was acknowledged and what was read, and whether the log keeps to it.

use std::collections::{BTreeMap, HashMap};

/// A broken promise.
#[derive(Debug)]
pub(crate) struct Violation(pub(crate) String);

/// One value an offset, for ever.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    acknowledged: BTreeMap<i64, String>,
    /// The longest log that anyone has read.
    read: Vec<String>,
}

impl Ledger {
    /// Takes an acknowledgement down.
    pub(crate) fn acknowledge(&mut self, offset: i64, value: &str) -> Result<(), Violation> {
        match self.acknowledged.insert(offset, value.to_owned()) {
            Some(other) if other != value => {
                Err(Violation(format!("offset {offset} was acknowledged for {other} and for {value}")))
            }
            _ => Ok(()),
        }
    }

    /// How many records were acknowledged.
    pub(crate) fn count(&self) -> usize {
        self.acknowledged.len()
    }

    /// Holds a log that was read from offset 0 against everything before it.
    pub(crate) fn check(&mut self, log: Vec<String>) -> Result<(), Violation> {
        let at = |offset: i64| usize::try_from(offset).ok().and_then(|at| log.get(at));
        for (offset, value) in &self.acknowledged {
            match at(*offset) {
                Some(found) if found == value => {}
                Some(found) => return Err(Violation(format!("offset {offset}: {value} became {found}"))),
                None => return Err(Violation(format!("offset {offset}: {value} is lost"))),
            }
        }
        for (offset, value) in self.read.iter().enumerate() {
            if log.get(offset) != Some(value) {
                return Err(Violation(format!(
                    "offset {offset}: {value} was served and is not there any more"
                )));
            }
        }
        let mut offsets = HashMap::new();
        for (offset, value) in log.iter().enumerate() {
            if let Some(other) = offsets.insert(value, offset) {
                return Err(Violation(format!("{value} is at offset {other} and at offset {offset}")));
            }
        }
        self.read = log;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(values: &[&str]) -> Vec<String> {
        values.iter().map(|value| (*value).to_owned()).collect()
    }

    #[test]
    fn whatever_is_lost_moved_doubled_or_retracted_is_a_violation() {
        let mut ledger = Ledger::default();
        ledger.acknowledge(1, "b").unwrap_or_else(|violation| panic!("{violation:?}"));
        assert!(ledger.check(log(&["a", "b", "c"])).is_ok());
        assert!(ledger.acknowledge(1, "x").is_err());
        let mut ledger = Ledger { acknowledged: [(1, "b".to_owned())].into(), read: log(&["a", "b", "c"]) };
        for wrong in [&["a"][..], &["b", "a", "c"], &["a", "b", "x"], &["a", "b"], &["a", "b", "c", "b"]] {
            assert!(ledger.check(log(wrong)).is_err(), "{wrong:?}");
        }
        assert!(ledger.check(log(&["a", "b", "c", "d"])).is_ok());
    }
}
