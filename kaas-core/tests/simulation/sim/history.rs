//! What everybody was told, and the rules that it must follow.

use std::collections::{BTreeMap, BTreeSet};

use super::producer::{is_aborted, key_of};

/// Everything that was told of one partition.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// Values that may be in the log.
    sent: BTreeSet<String>,
    /// What is at an offset, by the word of an acknowledgement or a read.
    values: BTreeMap<i64, Told>,
    offsets: BTreeMap<String, i64>,
    /// Who led under an epoch, and the high watermark that it began with.
    leaders: BTreeMap<i32, (u64, i64)>,
    /// The highest high watermark that was shown under an epoch.
    shown: BTreeMap<i32, i64>,
    /// Whether a record may go when there is a later one of its key.
    compacts: bool,
    /// Below this records may have been removed, and below that they were.
    removable: i64,
    removed: i64,
}

#[derive(Debug)]
struct Told {
    value: String,
    acknowledged: bool,
}

/// A log when all is over.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Log {
    pub(crate) start: i64,
    pub(crate) records: BTreeMap<i64, String>,
    /// Offsets that there are batches for, markers included.
    pub(crate) covered: i64,
    pub(crate) end: i64,
}

/// A rule was broken.
pub(crate) type Checked = Result<(), String>;

impl History {
    pub(crate) fn new(compacts: bool) -> Self {
        Self { compacts, ..Self::default() }
    }

    pub(crate) fn sent(&mut self, value: String) {
        self.sent.insert(value);
    }

    /// One offset has one value, and one value one offset, for all and for ever.
    pub(crate) fn told(&mut self, offset: i64, value: &str, acknowledged: bool) -> Checked {
        let how = if acknowledged { "acknowledged" } else { "read" };
        if !self.sent.contains(value) {
            return Err(format!("{} was {how} at {offset}, and never sent", short(value)));
        }
        if let Some(before) = self.offsets.get(value).filter(|before| **before != offset) {
            return Err(format!("{} was {how} at {offset}, and is at {before} too", short(value)));
        }
        let told = Told { value: value.to_owned(), acknowledged };
        let known = self.values.entry(offset).or_insert(told);
        if known.value != value {
            let (value, before) = (short(value), short(&known.value));
            return Err(format!("{value} was {how} at {offset}, where {before} had been told before"));
        }
        known.acknowledged |= acknowledged;
        self.offsets.insert(value.to_owned(), offset);
        Ok(())
    }

    /// An epoch has one leader, which begins behind everything that was told before.
    pub(crate) fn leads(&mut self, epoch: i32, process: u64, start: i64) -> Checked {
        if let Some((other, _)) = self.leaders.get(&epoch) {
            return if *other == process { Ok(()) } else { Err(format!("epoch {epoch} has two leaders")) };
        }
        if let Some((later, _)) = self.leaders.range(epoch..).next() {
            return Err(format!("epoch {epoch} began after epoch {later}"));
        }
        let shown = self.shown.values().copied().max().unwrap_or(0);
        let told = self.values.keys().next_back().map_or(0, |offset| offset + 1);
        if start < shown.max(told) {
            return Err(format!("epoch {epoch} began at {start}, told was {told}, shown {shown}"));
        }
        self.leaders.insert(epoch, (process, start));
        Ok(())
    }

    /// A high watermark never moves back, and never past where a later epoch begins.
    pub(crate) fn shows(&mut self, epoch: i32, high_watermark: i64) -> Checked {
        let before = self.shown.entry(epoch).or_default();
        if high_watermark < *before {
            return Err(format!("epoch {epoch} showed {before} and then {high_watermark}"));
        }
        *before = high_watermark;
        match self.leaders.range(epoch + 1..).next() {
            Some((later, (_, start))) if *start < high_watermark => {
                Err(format!("epoch {epoch} shows {high_watermark}, epoch {later} began at {start}"))
            }
            _ => Ok(()),
        }
    }

    /// Somebody may remove the records below an offset.
    pub(crate) fn removes(&mut self, below: i64) {
        self.removable = self.removable.max(below);
    }

    /// Somebody was told that the records below an offset are gone.
    pub(crate) fn removed(&mut self, below: i64) -> Checked {
        self.removed = self.removed.max(below);
        let removable = self.removable;
        if below > removable {
            Err(format!("the log begins at {below}, asked was for {removable}"))
        } else {
            Ok(())
        }
    }

    pub(crate) fn epoch_max(&self) -> i32 {
        self.leaders.keys().next_back().copied().unwrap_or(0)
    }

    pub(crate) fn shown_max(&self) -> i64 {
        self.shown.values().copied().max().unwrap_or(0)
    }

    /// What is in the log when all is over: everything that was told and not removed, everything once.
    pub(crate) fn ends(&mut self, log: &Log) -> Checked {
        if log.start < self.removed {
            return Err(format!("the log begins at {}, promised was {}", log.start, self.removed));
        }
        self.removed(log.start)?;
        if !self.compacts && log.start + log.covered != log.end {
            return Err(format!("from {} to {} there are {} offsets", log.start, log.end, log.covered));
        }
        let mut last: BTreeMap<&str, i64> = BTreeMap::new();
        for (offset, value) in log.records.iter().filter(|(_, value)| !is_aborted(value)) {
            last.insert(key_of(value), *offset);
        }
        let is_replaced = |offset: i64, value: &str| {
            self.compacts
                && (is_aborted(value) || last.get(key_of(value)).is_some_and(|later| *later > offset))
        };
        for (offset, told) in self.values.range(log.start..) {
            let found = log.records.get(offset);
            if found.is_none() && is_replaced(*offset, &told.value) {
                continue;
            }
            if found != Some(&told.value) {
                let how = if told.acknowledged { "acknowledged" } else { "read" };
                let (value, found) = (short(&told.value), found.map(|found| short(found)));
                return Err(format!("{value} was {how} at {offset}, where the log has {found:?}"));
            }
        }
        let shown = self.shown_max();
        if log.end < shown {
            return Err(format!("the log ends at {}, shown was {shown}", log.end));
        }
        log.records.iter().try_for_each(|(offset, value)| self.told(*offset, value, false))
    }
}

/// The value without its padding.
fn short(value: &str) -> &str {
    value.trim_end_matches('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history() -> History {
        let mut history = History::default();
        ["a", "b", "c"].into_iter().for_each(|value| history.sent(value.to_owned()));
        history
    }

    fn log(start: i64, values: &[&str]) -> Log {
        let records: BTreeMap<i64, String> =
            (start..).zip(values.iter().map(|value| (*value).to_owned())).collect();
        let covered = records.len() as i64;
        Log { start, end: start + covered, covered, records }
    }

    #[test]
    fn an_honest_history_passes() {
        let mut history = history();
        history.leads(1, 7, 0).unwrap();
        history.told(0, "a", true).unwrap();
        history.shows(1, 1).unwrap();
        history.told(0, "a", false).unwrap();
        history.leads(2, 8, 2).unwrap();
        history.shows(1, 2).unwrap();
        history.ends(&log(0, &["a", "b"])).unwrap();
    }

    #[test]
    fn a_record_may_go_when_there_is_a_later_one_of_its_key() {
        let mut history = History::new(true);
        for (offset, value) in [(0, "1:0.0"), (1, "1:0.1"), (2, "1:1.0")] {
            history.sent(value.to_owned());
            history.told(offset, value, true).unwrap();
        }
        let ends = |history: &mut History, offsets: &[i64]| {
            let records = [(0, "1:0.0"), (1, "1:0.1"), (2, "1:1.0")].into_iter();
            let records = records.filter(|(offset, _)| offsets.contains(offset));
            let records = records.map(|(offset, value)| (offset, value.to_owned())).collect();
            history.ends(&Log { start: 0, records, covered: 3, end: 3 })
        };
        ends(&mut history, &[0, 1, 2]).unwrap();
        ends(&mut history, &[1, 2]).unwrap();
        assert!(ends(&mut history, &[2]).unwrap_err().contains("acknowledged at 1"));
        assert!(ends(&mut history, &[0, 1]).unwrap_err().contains("acknowledged at 2"));
    }

    #[test]
    fn every_broken_rule_is_named() {
        type Story = fn(&mut History) -> Checked;
        let stories: [(&str, Story); 13] = [
            ("asked was for 1", |history| {
                history.removes(1);
                history.ends(&log(2, &[]))
            }),
            ("promised was 1", |history| {
                history.removes(1);
                history.removed(1).and_then(|()| history.ends(&log(0, &["a"])))
            }),
            ("never sent", |history| history.told(0, "x", false)),
            ("is at 0 too", |history| history.told(0, "a", true).and_then(|()| history.told(1, "a", false))),
            ("told before", |history| history.told(0, "a", true).and_then(|()| history.told(0, "b", true))),
            ("two leaders", |history| history.leads(1, 7, 0).and_then(|()| history.leads(1, 8, 0))),
            ("began after", |history| history.leads(2, 7, 0).and_then(|()| history.leads(1, 8, 0))),
            ("began at 0, told was 1", |history| {
                history.told(0, "a", true).and_then(|()| history.leads(1, 8, 0))
            }),
            ("shown 5", |history| history.shows(1, 5).and_then(|()| history.leads(2, 8, 4))),
            ("and then 4", |history| history.shows(1, 5).and_then(|()| history.shows(1, 4))),
            ("shows 5", |history| history.leads(2, 8, 4).and_then(|()| history.shows(1, 5))),
            ("acknowledged at 1", |history| {
                history.told(1, "a", true).and_then(|()| history.ends(&log(0, &["a"])))
            }),
            ("the log ends at 0", |history| history.shows(1, 1).and_then(|()| history.ends(&log(0, &[])))),
        ];
        for (expected, story) in stories {
            let violation = story(&mut history()).unwrap_err();
            assert!(violation.contains(expected), "{expected}: {violation}");
        }
        assert!(history().ends(&log(0, &["a", "a"])).is_err(), "a value twice");
    }
}
