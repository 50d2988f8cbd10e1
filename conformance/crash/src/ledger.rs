//! What was acknowledged and what was served, and whether a log still says the same.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

/// What one record says of itself: who wrote it, and its number among that producer's records of the partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Value {
    /// The producer.
    pub(crate) producer: u32,
    /// Its sequence number.
    pub(crate) sequence: i32,
}

impl Value {
    /// The record's bytes, padded to `len`.
    pub(crate) fn to_bytes(self, len: usize) -> Vec<u8> {
        let mut bytes = format!("{}:{}:", self.producer, self.sequence).into_bytes();
        bytes.resize(len.max(bytes.len()), b'.');
        bytes
    }

    /// Reads a record's bytes.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Value> {
        let text = std::str::from_utf8(bytes).ok()?;
        let mut parts = text.split(':');
        Some(Value { producer: parts.next()?.parse().ok()?, sequence: parts.next()?.parse().ok()? })
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "record {} of producer {}", self.sequence, self.producer)
    }
}

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Violation(pub String);

/// One partition's promises.
#[derive(Debug, Default)]
struct Promises {
    acknowledged: BTreeMap<i64, Value>,
    served: BTreeMap<i64, Value>,
}

/// All promises, by partition.
#[derive(Debug)]
pub(crate) struct Ledger {
    partitions: Vec<Mutex<Promises>>,
    doubtful: AtomicBool,
}

impl Ledger {
    /// No promise yet.
    pub(crate) fn new(partitions: usize) -> Ledger {
        Ledger {
            partitions: (0..partitions).map(|_| Mutex::default()).collect(),
            doubtful: AtomicBool::new(false),
        }
    }

    /// From now on nothing that the broker says is a promise, until the next start.
    ///
    /// A sync that is under way while `FS_IOC_SHUTDOWN` runs may return success though nothing was written: Linux 6.18 aborts the
    /// journal without an error. A machine without power says nothing, so what arrives after the cut has begun does not count.
    pub(crate) fn doubt(&self, doubtful: bool) {
        self.doubtful.store(doubtful, Ordering::SeqCst);
    }

    /// Whether answers are worth nothing at the moment.
    pub(crate) fn in_doubt(&self) -> bool {
        self.doubtful.load(Ordering::SeqCst)
    }

    /// The broker acknowledged this record at this offset.
    pub(crate) fn acknowledge(&self, partition: usize, offset: i64, value: Value) -> Result<(), Violation> {
        Self::note(&mut self.partitions[partition].lock().acknowledged, partition, offset, value)
    }

    /// The broker served this record at this offset.
    pub(crate) fn serve(&self, partition: usize, offset: i64, value: Value) -> Result<(), Violation> {
        Self::note(&mut self.partitions[partition].lock().served, partition, offset, value)
    }

    fn note(
        map: &mut BTreeMap<i64, Value>,
        partition: usize,
        offset: i64,
        value: Value,
    ) -> Result<(), Violation> {
        match map.insert(offset, value) {
            Some(before) if before != value => Err(Violation(format!(
                "partition {partition}, offset {offset}: first {before}, then {value}"
            ))),
            _ => Ok(()),
        }
    }

    /// How many acknowledged records there are.
    pub(crate) fn acknowledged(&self) -> usize {
        self.partitions.iter().map(|partition| partition.lock().acknowledged.len()).sum()
    }

    /// Compares a whole partition, read from offset 0 on, with every promise.
    pub(crate) fn check(&self, partition: usize, log: &[Value]) -> Vec<Violation> {
        let promises = self.partitions[partition].lock();
        let mut violations = Vec::new();
        let kinds = [("acknowledged", &promises.acknowledged), ("served", &promises.served)];
        for (kind, map) in kinds {
            for (offset, value) in map {
                let found = usize::try_from(*offset).ok().and_then(|at| log.get(at));
                if found != Some(value) {
                    let found = found.map_or("nothing".to_owned(), ToString::to_string);
                    violations.push(Violation(format!(
                        "partition {partition}, offset {offset}: {kind} {value}, found {found}"
                    )));
                }
            }
        }
        violations.extend(check_order(partition, log));
        violations
    }
}

/// Each record once, and each producer's records in their order without a gap.
fn check_order(partition: usize, log: &[Value]) -> Vec<Violation> {
    let mut seen = HashSet::new();
    let mut next: HashMap<u32, i32> = HashMap::new();
    let mut violations = Vec::new();
    for (offset, value) in log.iter().enumerate() {
        let place = format!("partition {partition}, offset {offset}");
        if !seen.insert(*value) {
            violations.push(Violation(format!("{place}: {value} a second time")));
        }
        let expected = next.entry(value.producer).or_insert(0);
        if value.sequence != *expected {
            violations.push(Violation(format!("{place}: {value}, expected record {expected}")));
        }
        *expected = value.sequence + 1;
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(sequence: i32) -> Value {
        Value { producer: 1, sequence }
    }

    #[test]
    fn values_survive_their_bytes() {
        assert_eq!(Value::parse(&value(7).to_bytes(100)), Some(value(7)));
        assert_eq!(Value::parse(b"noise"), None);
    }

    #[test]
    fn lost_moved_doubled_and_reordered_records_are_found() {
        let ledger = Ledger::new(1);
        ledger.acknowledge(0, 0, value(0)).unwrap();
        ledger.acknowledge(0, 1, value(1)).unwrap();
        assert!(ledger.check(0, &[value(0), value(1)]).is_empty());
        assert_eq!(ledger.check(0, &[value(0)]).len(), 1, "lost");
        assert!(!ledger.check(0, &[value(1), value(0)]).is_empty(), "moved");
        assert!(!ledger.check(0, &[value(0), value(1), value(1)]).is_empty(), "doubled");
        assert!(!ledger.check(0, &[value(0), value(1), value(3)]).is_empty(), "a gap");
    }

    #[test]
    fn a_served_record_may_not_be_taken_back() {
        let ledger = Ledger::new(1);
        ledger.serve(0, 0, value(0)).unwrap();
        assert_eq!(ledger.check(0, &[]).len(), 1);
        assert!(ledger.serve(0, 0, value(1)).is_err());
    }
}
