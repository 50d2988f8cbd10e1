//! The engine: opens a volume, holds its topics and runs the commit loop.

mod background;
mod commit;
mod compaction;
pub(crate) mod fence;
pub(crate) mod identity;
mod leadership;
mod options;
pub(crate) mod producer_ids;
mod retention;
mod session;
pub(crate) mod stats;
mod sync_pool;
pub(crate) mod topics;

pub use compaction::CompactionOptions;
pub use fence::{Fence, Fenced, SingleNode};
pub use options::{EngineOptions, ResolveConfig};
pub use session::{BootClock, Session, SystemBootClock};
pub use stats::{EngineStats, Histogram};
pub use topics::{Topic, Topics};

pub(crate) use commit::{CommitQueue, sync_file};

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use uuid::Uuid;

use self::background::Background;
use self::commit::{Committer, Event, ManualLoop, Measure};
use self::compaction::Compaction;
use self::fence::{FenceFile, Gate};
use self::producer_ids::ProducerIds;
use self::retention::Retention;
use self::stats::Counters;
use self::sync_pool::SyncPool;
use self::topics::TopicRecord;
use crate::clock::Clock;
use crate::error::{CloseError, CreateTopicError, DeleteTopicError, Offline, OpenError, ProducerIdError};
use crate::ids::TopicName;
use crate::layout::{BROKERS_DIR, topic_dir};
use crate::log::{Opened, Partition, PartitionParts, RecoverContext, RecoverError, WriteContext, recover};
use crate::mutant::Mutants;
use crate::volume::Volume;

/// Most partitions of one topic.
pub const PARTITIONS_MAX: u32 = 100_000;

/// What a topic should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicSpec {
    /// Its name; see [`TopicName`].
    pub name: String,
    /// How many partitions, 1 to [`PARTITIONS_MAX`].
    pub partitions: u32,
    /// Overrides by Kafka's property names; the engine keeps them and hands them to the resolver.
    pub config: BTreeMap<String, String>,
}

impl TopicSpec {
    /// A topic without overrides.
    pub fn new(name: impl Into<String>, partitions: u32) -> Self {
        Self { name: name.into(), partitions, config: BTreeMap::new() }
    }
}

/// A storage engine on one volume. Clones are handles to the same engine; it stops when the last is dropped,
/// which is safe at any time. [`close`](Self::close) makes the next open fast.
#[derive(Clone)]
pub struct Engine {
    inner: Arc<Inner>,
}

struct Inner {
    options: EngineOptions,
    cluster_id: String,
    /// Tells what this process claims from what others do.
    incarnation: Uuid,
    gate: Arc<Gate>,
    topics: Arc<ArcSwap<Topics>>,
    counters: Arc<Counters>,
    /// One change of the topics at a time.
    admin: Mutex<()>,
    producer_ids: ProducerIds,
    queue: Arc<CommitQueue>,
    thread: Mutex<Option<JoinHandle<()>>>,
    retention: Arc<Retention>,
    compaction: Arc<Compaction>,
    /// What looks after the logs in the background.
    caretakers: Mutex<Vec<Background>>,
    /// The commit loop of an engine without threads.
    manual: Arc<ManualLoop>,
    next_key: AtomicU64,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Inner { cluster_id, options, .. } = &*self.inner;
        f.debug_struct("Engine").field("cluster_id", cluster_id).field("volume", &options.volume).finish()
    }
}

impl Engine {
    /// Opens the volume, recovers every log, and finishes deletions that were interrupted. Blocks.
    ///
    /// A partition whose log is damaged is offline; the others are served.
    ///
    /// # Errors
    /// [`OpenError`]: nothing can be served. Nothing that could not be read was changed.
    pub fn open(options: EngineOptions) -> Result<Self, OpenError> {
        let cluster_id = identity::load_or_create(&*options.volume, &*options.identities)?;
        let incarnation = (options.identities)();
        let gate = Arc::new(register(&options, incarnation)?);
        let queue = Arc::new(CommitQueue::new(&*gate));
        let context = WriteContext {
            volume: Arc::clone(&options.volume),
            broker_id: options.broker_id,
            nonce: incarnation.to_string(),
            checkpoint_bytes: options.checkpoint_bytes,
            shared: options.shared,
            mutants: options.mutants,
        };
        let pool = SyncPool::new(options.sync_parallelism, options.mutants);
        let fence: Arc<dyn Fence> = Arc::clone(&gate) as _;
        let counters = Arc::<Counters>::default();
        let measures = Measure { clock: Arc::clone(&options.clock), counters: Arc::clone(&counters) };
        let committer = Committer::new(Arc::clone(&queue), context, fence, pool, measures);
        let manual = Arc::new(ManualLoop::default());
        let topics: Arc<ArcSwap<Topics>> = Arc::default();
        let retention = Arc::new(Retention {
            volume: Arc::clone(&options.volume),
            clock: Arc::clone(&options.clock),
            queue: Arc::clone(&queue),
            manual: Arc::clone(&manual),
            topics: Arc::clone(&topics),
            doomed: Mutex::default(),
        });
        let compaction = Arc::new(Compaction {
            options: options.compaction.clone(),
            clock: Arc::clone(&options.clock),
            topics: Arc::clone(&topics),
            retention: Arc::clone(&retention),
            given_up: Mutex::default(),
        });
        let inner = Inner {
            options,
            cluster_id,
            incarnation,
            gate,
            topics,
            counters,
            admin: Mutex::new(()),
            producer_ids: ProducerIds::default(),
            queue,
            thread: Mutex::new(None),
            retention,
            compaction,
            caretakers: Mutex::default(),
            manual,
            next_key: AtomicU64::new(0),
        };
        inner.open_topics()?;
        if inner.options.manual_commits {
            inner.manual.start(committer);
            return Ok(Self { inner: Arc::new(inner) });
        }
        let thread = std::thread::Builder::new().name("kaas-commit".to_owned());
        let thread = thread.spawn(move || committer.run()).map_err(|error| OpenError::Storage {
            path: "the commit thread".to_owned(),
            error: error.into(),
        })?;
        *inner.thread.lock() = Some(thread);
        inner.start_caretakers().map_err(|error| OpenError::Storage {
            path: "the background threads".to_owned(),
            error: error.into(),
        })?;
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The cluster's id: a random UUID in 22 characters of URL-safe base64.
    pub fn cluster_id(&self) -> &str {
        &self.inner.cluster_id
    }

    /// All topics at this moment.
    pub fn topics(&self) -> Arc<Topics> {
        self.inner.topics.load_full()
    }

    /// Creates a topic; it is durable when this returns. Blocks.
    ///
    /// # Errors
    /// [`CreateTopicError`].
    pub fn create_topic(&self, spec: TopicSpec) -> Result<Arc<Topic>, CreateTopicError> {
        let inner = &*self.inner;
        let name = TopicName::new(&spec.name)?;
        if !(1..=PARTITIONS_MAX).contains(&spec.partitions) {
            return Err(CreateTopicError::PartitionCount(spec.partitions));
        }
        let _one_at_a_time = inner.admin.lock();
        if inner.queue.is_closed() {
            return Err(CreateTopicError::Closed);
        }
        let topics = self.topics();
        if topics.by_name(&name).is_some() {
            return Err(CreateTopicError::Exists(spec.name));
        }
        let TopicSpec { name: raw_name, partitions, config } = spec;
        let record = TopicRecord { name: raw_name, id: (inner.options.identities)(), partitions, config };
        topics::store(&*inner.options.volume, &record)?;
        let topic = Arc::new(inner.new_topic(record, name));
        if !inner.announce(&topic) {
            return Err(CreateTopicError::Closed);
        }
        inner.topics.store(Arc::new(topics.with(Arc::clone(&topic))));
        Ok(topic)
    }

    /// Deletes this topic, not another one of its name; on return it is gone for good. Its readers and writers are told. Blocks.
    ///
    /// # Errors
    /// [`DeleteTopicError`].
    pub fn delete_topic(&self, topic: &Topic) -> Result<(), DeleteTopicError> {
        let inner = &*self.inner;
        let _one_at_a_time = inner.admin.lock();
        if inner.queue.is_closed() {
            return Err(DeleteTopicError::Closed);
        }
        let topics = self.topics();
        let name = topic.name.as_str();
        let topic = topics.by_id(&topic.id).ok_or_else(|| DeleteTopicError::Unknown(name.to_owned()))?;
        let volume = &*inner.options.volume;
        topics::retire(volume, name, &topic.id)?;
        inner.topics.store(Arc::new(topics.without(&topic)));
        for partition in &topic.partitions {
            partition.mark_deleted();
        }
        let keys = topic.partitions.iter().map(|partition| partition.key()).collect();
        let (answer, answered) = sync_channel(1);
        // After the answer the commit loop touches none of its files; nor does it when it has ended.
        if inner.queue.send(Event::Forget(keys, answer)) {
            inner.commit();
            let _ = answered.recv();
        }
        // The topic is gone; what cannot be removed now is removed at the next start.
        if let Err(error) = topics::sweep(volume, name, &topic.id) {
            tracing::warn!(topic = name, %error, "deleted topic's files remain until the next start");
        }
        Ok(())
    }

    /// One pass of retention over all partitions, as the engine makes one at every
    /// [check interval](EngineOptions::retention_check_interval): closes segments that are old enough, removes those that
    /// the topics' settings do not keep, and unlinks removed files whose delay is over. What fails is logged
    /// and tried again by the next pass. Blocks.
    pub fn apply_retention(&self) {
        self.inner.retention.pass();
    }

    /// Compacts every log with `cleanup.policy=compact` that is due by its settings, as fast as it can, while the engine's own
    /// thread does the same at its [pace](CompactionOptions). What fails is logged and tried again by the next pass. Blocks.
    pub fn compact(&self) {
        self.inner.compaction.pass(&|_| true);
    }

    /// What has been counted since the engine was opened. Cheap; the numbers are each right, and not of one moment.
    pub fn stats(&self) -> EngineStats {
        self.inner.counters.snapshot()
    }

    /// A producer id that was never given out before, on this volume. May block.
    ///
    /// # Errors
    /// [`ProducerIdError`].
    pub fn next_producer_id(&self) -> Result<i64, ProducerIdError> {
        let Inner { options, producer_ids, incarnation, .. } = &*self.inner;
        producer_ids.next(&*options.volume, options.broker_id, &incarnation.to_string())
    }

    /// What a coordinator on the same volume needs of the engine.
    pub(crate) fn seams(&self) -> Seams {
        let Inner { options, incarnation, gate, .. } = &*self.inner;
        Seams {
            volume: Arc::clone(&options.volume),
            clock: Arc::clone(&options.clock),
            fence: Arc::clone(gate) as _,
            broker_id: options.broker_id,
            incarnation: *incarnation,
            mutants: options.mutants,
        }
    }

    /// Commits what is pending, and does whatever else waits for the commit loop, on this thread: for an engine that was
    /// opened with [`manual_commits`](EngineOptions::manual_commits). Nothing happens in any other.
    pub fn commit(&self) {
        self.inner.commit();
    }

    /// Holds the commit loop between two cycles until the guard is dropped, so that a test decides what is
    /// committed together. Holding and letting go at once waits for the cycle that is under way.
    #[cfg(feature = "test-util")]
    pub fn hold_commits(&self) -> HeldCommits {
        let (reached, arrival) = sync_channel(1);
        let (guard, released) = sync_channel(0);
        if !self.inner.options.manual_commits && self.inner.queue.send(Event::Hold(reached, released)) {
            // An error means that the loop has ended, which is as good.
            let _ = arrival.recv();
        }
        HeldCommits { _released_when_dropped: guard }
    }

    /// Commits what is pending, syncs everything and writes checkpoints, so that the next open need not read
    /// the logs. Later appends fail; reads go on. Blocks.
    ///
    /// # Errors
    /// [`CloseError`]; what was acknowledged is safe all the same.
    pub fn close(&self) -> Result<(), CloseError> {
        self.inner.stop_caretakers();
        for topic in self.topics().iter() {
            topic.partitions.iter().for_each(|partition| partition.refuse_appends());
        }
        let (answer, answered) = sync_channel(1);
        if !self.inner.queue.send(Event::Close(answer)) {
            return Err(CloseError::Closed);
        }
        self.inner.commit();
        let result = answered.recv().unwrap_or(Err(CloseError::Closed));
        self.inner.join();
        result
    }
}

/// The engine's way to the outside, for whoever else writes on its volume.
pub(crate) struct Seams {
    pub(crate) volume: Arc<dyn Volume>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) fence: Arc<dyn Fence>,
    pub(crate) broker_id: i32,
    pub(crate) incarnation: Uuid,
    pub(crate) mutants: Mutants,
}

/// Puts up the fence of this incarnation when the volume is shared.
fn register(options: &EngineOptions, incarnation: Uuid) -> Result<Gate, OpenError> {
    let other = Arc::clone(&options.fence);
    if !options.shared {
        return Ok(Gate::new(None, other));
    }
    let file = FenceFile::register(Arc::clone(&options.volume), options.broker_id, incarnation);
    let file =
        file.map_err(|error| OpenError::Storage { path: BROKERS_DIR.to_owned(), error: error.into() })?;
    Ok(Gate::new(Some(file), other))
}

/// Keeps the commit loop from going on.
#[cfg(feature = "test-util")]
#[derive(Debug)]
pub struct HeldCommits {
    _released_when_dropped: std::sync::mpsc::SyncSender<()>,
}

impl Inner {
    fn open_topics(&self) -> Result<(), OpenError> {
        let found = topics::load(&*self.options.volume, self.options.shared)?;
        // On a shared volume whoever retired a topic is removing it.
        for record in found.retired.into_iter().filter(|_| !self.options.shared) {
            if let Err(error) = topics::sweep(&*self.options.volume, &record.name, &record.id) {
                tracing::warn!(topic = record.name, %error, "deleted topic's files remain");
            }
        }
        let mut image = Topics::default();
        for record in found.live {
            let name = TopicName::new(&record.name).map_err(|error| crate::state_file::DamagedState {
                path: record.name.clone(),
                why: error.to_string(),
            })?;
            let topic = Arc::new(self.new_topic(record, name));
            if let Some(other) = image.by_name(&topic.name) {
                let (name, first, second) = (topic.name.to_string(), other.id, topic.id);
                return Err(OpenError::DuplicateTopic { name, first, second });
            }
            self.announce(&topic);
            image.insert(topic);
        }
        self.topics.store(Arc::new(image));
        Ok(())
    }

    /// Tells the commit loop of a topic's partitions. False when it has ended.
    fn announce(&self, topic: &Topic) -> bool {
        topic.partitions.iter().all(|partition| self.queue.send(Event::Add(Arc::clone(partition))))
    }

    fn new_topic(&self, record: TopicRecord, name: TopicName) -> Topic {
        let TopicRecord { id, partitions, config, .. } = record;
        let log_config = Arc::new(ArcSwap::from_pointee((self.options.resolve)(&config)));
        let dir = topic_dir(&name, &id);
        let open = |index: u32| {
            let dir: Arc<str> = format!("{dir}/{index}").into();
            let log = match self.options.shared {
                true => Opened::Elsewhere,
                false => self.recover(&dir, log_config.load().flush_messages),
            };
            Arc::new(Partition::new(PartitionParts {
                key: self.next_key.fetch_add(1, Ordering::Relaxed),
                topic_id: id,
                index: i32::try_from(index).unwrap_or(i32::MAX),
                dir,
                config: Arc::clone(&log_config),
                volume: Arc::clone(&self.options.volume),
                clock: Arc::clone(&self.options.clock),
                fence: Arc::clone(&self.gate) as _,
                mutants: self.options.mutants,
                queue: Arc::clone(&self.queue),
                counters: Arc::clone(&self.counters),
                producer_expiration_ms: self.options.producer_id_expiration_ms,
                log,
            }))
        };
        let partitions = (0..partitions).map(open).collect();
        Topic { name, id, config, partitions, log_config }
    }

    fn start_caretakers(&self) -> std::io::Result<()> {
        let mut caretakers = self.caretakers.lock();
        if let Some(interval) = self.options.retention_check_interval {
            caretakers.push(Arc::clone(&self.retention).start(interval)?);
        }
        if let Some(backoff) = self.options.compaction.backoff {
            caretakers.push(Arc::clone(&self.compaction).start(backoff)?);
        }
        Ok(())
    }

    fn stop_caretakers(&self) {
        let caretakers = std::mem::take(&mut *self.caretakers.lock());
        caretakers.into_iter().for_each(Background::stop);
    }

    fn recover_context(&self) -> RecoverContext<'_> {
        RecoverContext {
            volume: &*self.options.volume,
            now_ms: self.options.clock.now_ms(),
            mutants: self.options.mutants,
        }
    }

    fn recover(&self, dir: &Arc<str>, flush_messages: u64) -> Opened {
        match recover(&self.recover_context(), dir, flush_messages) {
            Ok(log) => Opened::Log(Box::new(log)),
            Err(error) => {
                tracing::error!(partition = %dir, %error, "partition offline");
                Opened::Offline(match error {
                    RecoverError::Damaged(offline) => offline,
                    RecoverError::Storage(error) => Offline { why: error.to_string().into() },
                })
            }
        }
    }

    /// Does the work of the commit loop if it has no thread.
    fn commit(&self) {
        self.manual.run();
    }

    fn join(&self) {
        if let Some(thread) = self.thread.lock().take() {
            // A panic there was reported by its hook; there is nothing to add.
            let _ = thread.join();
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.stop_caretakers();
        self.queue.send(Event::Stop);
        self.commit();
        self.join();
    }
}
