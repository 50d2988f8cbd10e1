//! A workload that keeps a history of what it was promised, and the check that the promises were kept.
#![allow(clippy::unwrap_used, dead_code)]

pub(crate) mod sound;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use kaas_core::record::read_batch;
use kaas_core::volume::{CrashKeep, MemVolume, OpKind};
use kaas_core::{
    AppendError, AppendOptions, Appended, CreateTopicError, Engine, EngineOptions, Isolation, LogConfig,
    ManualClock, Mutant, Partition, PendingAppend, Read, ReadSpec, RecordBatchBuilder, TopicSpec, Uuid,
};

/// The producer of all batches; each topic has sequences of its own.
const PRODUCER: i64 = 7;

/// How often a client retries before it gives up.
const TRIES_MAX: usize = 5;

/// The power was cut: the workload ends.
#[derive(Debug)]
pub(crate) struct Cut;

/// What was asked for, and what was promised.
#[derive(Debug, Clone, Default)]
pub(crate) struct History {
    topics: Vec<TopicHistory>,
    producer_ids: Vec<i64>,
}

#[derive(Debug, Clone)]
struct TopicHistory {
    name: String,
    /// Known when the creation was acknowledged.
    id: Option<Uuid>,
    delete_sent: bool,
    deleted: bool,
    /// Value `n` is sent with sequence `n`; its offset when it was acknowledged.
    sent: Vec<Option<i64>>,
    /// The highest high watermark that anyone could have seen.
    visible: Arc<AtomicI64>,
    /// The highest log start that was promised, and the highest that may have come to be.
    start_seen: i64,
    start_asked: i64,
}

pub(crate) struct Run {
    pub(crate) volume: MemVolume,
    pub(crate) engine: Option<Engine>,
    pub(crate) history: History,
    pub(crate) mutant: Option<Mutant>,
}

pub(crate) fn options(volume: &MemVolume, mutant: Option<Mutant>) -> EngineOptions {
    let config = LogConfig {
        segment_bytes: 400,
        index_interval_bytes: 100,
        file_delete_delay_ms: 0,
        ..LogConfig::default()
    };
    let options = EngineOptions::on(Arc::new(volume.clone()))
        .clock(Arc::new(ManualClock::at(1000)))
        .resolve(move |raw| LogConfig {
            retention_bytes: raw.get("retention.bytes").map_or(-1, |bytes| bytes.parse().unwrap()),
            ..config.clone()
        })
        .retention_check_interval(None)
        .checkpoint_bytes(150)
        .sync_parallelism(0);
    match mutant {
        Some(mutant) => options.mutant(mutant),
        None => options,
    }
}

fn value(topic: usize, n: usize) -> String {
    format!("{topic}:{n}")
}

fn batch(topic: usize, n: usize) -> Bytes {
    let value = value(topic, n);
    RecordBatchBuilder::new().producer(PRODUCER, 0, n as i32).push(None, Some(value.as_bytes()), 1000).build()
}

pub(crate) fn partition(engine: &Engine, name: &str) -> Option<Arc<Partition>> {
    engine.topics().by_name(name).map(|topic| Arc::clone(&topic.partitions[0]))
}

impl Run {
    pub(crate) fn new(volume: MemVolume, mutant: Option<Mutant>) -> Self {
        Self { volume, engine: None, history: History::default(), mutant }
    }

    pub(crate) fn open(&mut self) -> Result<(), Cut> {
        let engine = Engine::open(options(&self.volume, self.mutant)).map_err(|error| self.cut(error))?;
        self.engine = Some(engine);
        Ok(())
    }

    /// Ends the engine as a kill does: without closing it.
    pub(crate) fn kill(&mut self) {
        self.engine = None;
    }

    pub(crate) fn close(&mut self) -> Result<(), Cut> {
        let closed = self.engine.take().unwrap().close();
        closed.map_err(|error| self.cut(error))
    }

    pub(crate) fn create(&mut self, name: &str) -> Result<(), Cut> {
        self.create_with(name, &[])
    }

    pub(crate) fn create_with(&mut self, name: &str, config: &[(&str, &str)]) -> Result<(), Cut> {
        self.history.topics.push(TopicHistory {
            name: name.to_owned(),
            id: None,
            delete_sent: false,
            deleted: false,
            sent: Vec::new(),
            visible: Arc::default(),
            start_seen: 0,
            start_asked: 0,
        });
        let config = config.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        match self.engine().create_topic(TopicSpec { config, ..TopicSpec::new(name, 1) }) {
            Ok(topic) => {
                self.history.topics.last_mut().unwrap().id = Some(topic.id);
                self.watch_visible(&topic.partitions[0]);
                Ok(())
            }
            Err(CreateTopicError::Exists(name)) => panic!("{name} was there already"),
            Err(error) => Err(self.cut(error)),
        }
    }

    pub(crate) fn delete(&mut self, name: &str) -> Result<(), Cut> {
        let index = self.index(name);
        self.history.topics[index].delete_sent = true;
        let topic = self.engine().topics().by_name(name).unwrap();
        let deleted = self.engine().delete_topic(&topic);
        deleted.map_err(|error| self.cut(error))?;
        self.history.topics[index].deleted = true;
        Ok(())
    }

    /// Deletes the records below an offset, or all when it is -1.
    pub(crate) fn delete_records(&mut self, name: &str, before: i64) -> Result<(), Cut> {
        let index = self.index(name);
        let partition = partition(self.engine(), name).unwrap();
        let asked = if before == -1 { partition.offsets().high_watermark } else { before };
        let topic = &mut self.history.topics[index];
        topic.start_asked = topic.start_asked.max(asked);
        let start = partition.delete_records(before).map_err(|error| self.cut(error))?;
        self.history.topics[index].start_seen = start;
        Ok(())
    }

    /// One pass of retention: it may take any record that was there before.
    pub(crate) fn retain(&mut self) -> Result<(), Cut> {
        let engine = self.engine.clone().unwrap();
        let partitions: Vec<(usize, Arc<Partition>)> = (0..self.history.topics.len())
            .filter(|index| !self.history.topics[*index].delete_sent)
            .filter_map(|index| Some((index, partition(&engine, &self.history.topics[index].name)?)))
            .collect();
        for (index, partition) in &partitions {
            let topic = &mut self.history.topics[*index];
            topic.start_asked = topic.start_asked.max(partition.offsets().high_watermark);
        }
        engine.apply_retention();
        for (index, partition) in &partitions {
            self.history.topics[*index].start_seen = partition.offsets().log_start;
        }
        if self.volume.has_crashed() { Err(Cut) } else { Ok(()) }
    }

    /// The log start of a topic, as promised.
    pub(crate) fn log_start(&self, name: &str) -> i64 {
        self.history.topics[self.index(name)].start_seen
    }

    pub(crate) fn producer_id(&mut self) -> Result<(), Cut> {
        let id = self.engine().next_producer_id().map_err(|error| self.cut(error))?;
        self.history.producer_ids.push(id);
        Ok(())
    }

    /// Sends `count` batches that are committed together, and retries what fails, in order, as clients do.
    pub(crate) fn send(&mut self, name: &str, count: usize) -> Result<(), Cut> {
        let index = self.index(name);
        let first = self.history.topics[index].sent.len();
        self.history.topics[index].sent.extend(std::iter::repeat_n(None, count));
        let mut todo: Vec<usize> = (first..first + count).collect();
        for _ in 0..TRIES_MAX {
            let partition = partition(self.engine(), name).unwrap();
            let held = self.engine().hold_commits();
            let pending: Vec<Result<PendingAppend, AppendError>> =
                todo.iter().map(|n| partition.append(batch(index, *n), AppendOptions::default())).collect();
            drop(held);
            let mut failed = Vec::new();
            for (n, pending) in todo.iter().zip(pending) {
                match pending.and_then(PendingAppend::wait) {
                    Ok(Appended { base_offset, .. }) => {
                        self.history.topics[index].sent[*n] = Some(base_offset);
                    }
                    Err(error) if self.volume.has_crashed() => return Err(self.cut(error)),
                    Err(_) => failed.push(*n),
                }
            }
            drop(self.engine().hold_commits());
            let seen = partition.offsets().high_watermark;
            self.history.topics[index].visible.fetch_max(seen, Ordering::SeqCst);
            todo = failed;
            if todo.is_empty() {
                return Ok(());
            }
        }
        panic!("{name}: {todo:?} failed {TRIES_MAX} times")
    }

    fn engine(&self) -> &Engine {
        self.engine.as_ref().unwrap()
    }

    fn index(&self, name: &str) -> usize {
        self.history.topics.iter().rposition(|topic| topic.name == name).unwrap()
    }

    /// Notes the high watermark at every sync: who reads at that moment sees that far.
    fn watch_visible(&self, partition: &Arc<Partition>) {
        let visible = Arc::clone(&self.history.topics.last().unwrap().visible);
        let partition = Arc::downgrade(partition);
        self.volume.watch(move |op| {
            if op.kind == OpKind::Sync
                && let Some(partition) = partition.upgrade()
            {
                visible.fetch_max(partition.offsets().high_watermark, Ordering::SeqCst);
            }
        });
    }

    fn cut(&self, error: impl std::fmt::Display) -> Cut {
        assert!(self.volume.has_crashed(), "failed without a crash: {error}");
        Cut
    }
}

/// Opens what a crash left and holds it against the history; then goes on as a client would, crashes again,
/// and looks once more.
pub(crate) fn check(volume: &MemVolume, history: &History, mutant: Option<Mutant>) -> Result<(), String> {
    audited(volume, mutant)?;
    let engine = Engine::open(options(volume, mutant)).map_err(|error| format!("open: {error}"))?;
    let ids: Vec<Uuid> = engine.topics().iter().map(|topic| topic.id).collect();
    for topic in &history.topics {
        let exists = topic.id.map(|id| ids.contains(&id));
        match exists {
            Some(false) if !topic.delete_sent => return Err(format!("{}: lost", topic.name)),
            Some(true) if topic.deleted => return Err(format!("{}: undead", topic.name)),
            _ => {}
        }
    }
    for (index, topic) in history.topics.iter().enumerate() {
        let Some(found) = topic.id.and_then(|id| engine.topics().by_id(&id)) else { continue };
        let partition = &found.partitions[0];
        let (start, values) = read_log(partition).map_err(|why| format!("{}: {why}", topic.name))?;
        expect_history(index, topic, start, &values)?;
        // The client retries everything that it has no answer for.
        for (n, acked) in topic.sent.iter().enumerate().filter(|(_, acked)| acked.is_none()) {
            let pending = partition.append(batch(index, n), AppendOptions::default());
            let retried = pending.map(|pending| answered(&engine, pending)).map_err(|e| e.to_string());
            let retried = retried.and_then(|answer| answer.ok_or("no answer".to_owned()));
            let retried = retried.and_then(|answer| answer.map_err(|error| error.to_string()));
            retried.map_err(|error| format!("{}: retry of {n} (was {acked:?}): {error}", topic.name))?;
        }
        let (again, values) = read_log(partition).map_err(|why| format!("{}: {why}", topic.name))?;
        let expected: Vec<String> = (start as usize..topic.sent.len()).map(|n| value(index, n)).collect();
        if values != expected || again != start {
            return Err(format!("{}: {values:?} after the retries", topic.name));
        }
    }
    let id = engine.next_producer_id().map_err(|error| error.to_string())?;
    if history.producer_ids.contains(&id) {
        return Err(format!("producer id {id} twice"));
    }
    drop(engine);
    let again = volume.after_crash(CrashKeep::Nothing);
    let engine = Engine::open(options(&again, mutant)).map_err(|error| format!("open again: {error}"))?;
    for topic in &history.topics {
        let Some(found) = topic.id.and_then(|id| engine.topics().by_id(&id)) else { continue };
        let (start, values) = read_log(&found.partitions[0])?;
        if start as usize + values.len() != topic.sent.len() {
            return Err(format!("{}: {values:?} after the second crash", topic.name));
        }
    }
    Ok(())
}

/// The audit knows nothing of what was promised, and must agree all the same that nothing is damaged.
fn audited(volume: &MemVolume, mutant: Option<Mutant>) -> Result<(), String> {
    match sound::damage(volume).filter(|_| mutant.is_none()) {
        Some(damage) => Err(format!("the audit finds: {damage}")),
        None => Ok(()),
    }
}

/// The outcome of an append that nothing delays; `None` if it never comes.
fn answered(engine: &Engine, mut pending: PendingAppend) -> Option<Result<Appended, AppendError>> {
    // The first hold may end before the cycle that commits it, the second cannot.
    drop(engine.hold_commits());
    drop(engine.hold_commits());
    match Pin::new(&mut pending).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => Some(answer),
        Poll::Pending => None,
    }
}

fn expect_history(index: usize, topic: &TopicHistory, start: i64, values: &[String]) -> Result<(), String> {
    let name = &topic.name;
    if !(topic.start_seen..=topic.start_asked).contains(&start) {
        let (seen, asked) = (topic.start_seen, topic.start_asked);
        return Err(format!("{name}: the log starts at {start}, promised was {seen}, asked for {asked}"));
    }
    for (n, offset) in topic.sent.iter().enumerate() {
        let Some(offset) = offset.filter(|offset| *offset >= start) else { continue };
        let at = values.get((offset - start) as usize);
        if at != Some(&value(index, n)) {
            return Err(format!("{name}: value {n} was acknowledged at {offset}, found {at:?}"));
        }
    }
    let start = start as usize;
    let expected: Vec<String> = (start..start + values.len()).map(|n| value(index, n)).collect();
    if values != expected {
        return Err(format!("{name}: {values:?} is not what was sent, in order and once"));
    }
    let visible = topic.visible.load(Ordering::SeqCst);
    if ((start + values.len()) as i64) < visible {
        return Err(format!("{name}: offset {visible} was visible, {} are left", values.len()));
    }
    Ok(())
}

/// All values of a partition.
pub(crate) fn read_all(partition: &Partition) -> Result<Vec<String>, String> {
    Ok(read_log(partition)?.1)
}

/// The log start of a partition and all values from there on, by offset, with everything verified on the way.
pub(crate) fn read_log(partition: &Partition) -> Result<(i64, Vec<String>), String> {
    let start = partition.offsets().log_start;
    let mut values = Vec::new();
    loop {
        let offset = start + values.len() as i64;
        let spec = ReadSpec {
            offset,
            bytes_max: 1 << 20,
            at_least_one_batch: true,
            isolation: Isolation::ReadUncommitted,
            blocking: true,
        };
        let read = partition.read(spec).map_err(|error| error.to_string())?;
        let Read::Data(data) = read else { return Err("a blocking read would block".to_owned()) };
        let bytes = data.slice.to_bytes().map_err(|error| error.to_string())?;
        if bytes.is_empty() {
            let end = data.high_watermark;
            return if offset == end { Ok((start, values)) } else { Err(format!("ends before {end}")) };
        }
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let batch = read_batch(rest).map_err(|error| error.to_string())?.ok_or("a batch is cut")?;
            let header = batch.header;
            let expected = start + values.len() as i64;
            if header.base_offset != expected {
                return Err(format!("{header:?} at offset {expected}"));
            }
            let text = |value: Vec<u8>| String::from_utf8_lossy(&value).into_owned();
            values
                .extend(batch.records.into_iter().map(|record| record.value.map_or_else(String::new, text)));
            rest = &rest[header.size..];
        }
    }
}
