//! A slot with a clock and a journal, for the tests of the rules.

use std::time::Duration;

use super::{
    Config, Decision, Entry, InitProducerId, Initialized, Partitions, ProducerIdentity, Slot, State,
    TransactionError, WriteMarkers,
};
use crate::coordinator::{Machine, Now, Outbox};

pub(super) const TIMEOUT_MS: i32 = 60_000;

pub(super) struct Bench {
    pub(super) slot: Slot,
    pub(super) now: Now,
    pub(super) journal: Vec<Entry>,
    pub(super) effects: Vec<WriteMarkers>,
    next_id: i64,
    coordinator_epoch: i32,
}

impl Bench {
    pub(super) fn new() -> Self {
        let now = Now { wall_ms: 1_700_000_000_000, mono: Duration::from_secs(5) };
        let slot = Slot::new(Config::default(), 1);
        let mut bench =
            Self { slot, now, journal: Vec::new(), effects: Vec::new(), next_id: 1000, coordinator_epoch: 1 };
        bench.call(|slot, now, out| slot.loaded(now, out));
        bench
    }

    pub(super) fn call<T>(&mut self, call: impl FnOnce(&mut Slot, Now, &mut Outbox<Slot>) -> T) -> T {
        let mut out = Outbox::default();
        let answer = call(&mut self.slot, self.now, &mut out);
        self.journal.extend(out.entries);
        self.effects.extend(out.effects);
        answer
    }

    pub(super) fn pass(&mut self, ms: u64) {
        self.now.mono += Duration::from_millis(ms);
        self.now.wall_ms += i64::try_from(ms).unwrap();
    }

    pub(super) fn tick(&mut self) {
        self.call(|slot, now, out| slot.tick(now, out));
    }

    /// Throws the slot away and loads another one.
    pub(super) fn reload(&mut self) {
        self.coordinator_epoch += 1;
        self.slot = Slot::new(Config::default(), self.coordinator_epoch);
        for entry in self.journal.clone() {
            self.slot.replay(entry);
        }
        self.effects.clear();
        self.call(|slot, now, out| slot.loaded(now, out));
    }

    pub(super) fn init(&mut self) -> ProducerIdentity {
        self.try_init(None).unwrap()
    }

    pub(super) fn try_init(
        &mut self,
        current: Option<ProducerIdentity>,
    ) -> Result<ProducerIdentity, TransactionError> {
        self.init_for(TIMEOUT_MS, current)
    }

    pub(super) fn init_for(
        &mut self,
        timeout_ms: i32,
        current: Option<ProducerIdentity>,
    ) -> Result<ProducerIdentity, TransactionError> {
        let request = InitProducerId { transactional_id: "t", timeout_ms, current };
        let mut fresh = None;
        loop {
            match self.call(|slot, now, out| slot.init_producer_id(request, fresh, now, out))? {
                Initialized::Producer(producer) => return Ok(producer),
                Initialized::NeedsProducerId => {
                    assert_eq!(fresh, None, "asked twice");
                    fresh = Some(self.next_id);
                    self.next_id += 1;
                }
            }
        }
    }

    pub(super) fn add(
        &mut self,
        producer: ProducerIdentity,
        partitions: &[(&str, i32)],
    ) -> Result<(), TransactionError> {
        let partitions: Vec<_> = partitions.iter().map(|(topic, at)| ((*topic).to_owned(), *at)).collect();
        self.call(|slot, now, out| slot.add_partitions("t", producer, &partitions, now, out))
    }

    pub(super) fn end(&mut self, producer: ProducerIdentity, commit: bool) -> Result<(), TransactionError> {
        self.call(|slot, now, out| slot.end("t", producer, commit, now, out))
    }

    pub(super) fn verify(&self, producer: ProducerIdentity, topic: &str) -> Result<(), TransactionError> {
        self.slot.verify_partition("t", producer, topic, 0)
    }

    pub(super) fn written(&mut self, decision: &Decision, topic: &str, partition: i32) {
        self.call(|slot, now, out| slot.marker_written(decision, topic, partition, now, out));
    }

    /// Writes all markers that were asked for.
    pub(super) fn write_markers(&mut self) {
        for effect in std::mem::take(&mut self.effects) {
            for (topic, partition) in effect.partitions.iter() {
                self.written(&effect.decision, topic, partition);
            }
        }
    }

    pub(super) fn state(&self) -> State {
        self.slot.metadata("t").unwrap().status
    }

    /// The states that the journal tells of.
    pub(super) fn told(&self) -> Vec<State> {
        self.journal.iter().map(|entry| entry.state.as_ref().map_or(State::Dead, |it| it.status)).collect()
    }
}

pub(super) fn partitions(of: &[(&str, i32)]) -> Partitions {
    let mut partitions = Partitions::default();
    for (topic, partition) in of {
        partitions.insert(topic, *partition);
    }
    partitions
}
