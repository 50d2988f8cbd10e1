//! How an engine is opened.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::compaction::CompactionOptions;
use uuid::Uuid;

use super::fence::{Fence, SingleNode};
use crate::clock::{Clock, SystemClock};
use crate::config::LogConfig;
use crate::error::OpenError;
use crate::mutant::Mutants;
use crate::volume::{OsVolume, Volume};

/// Turns a topic's raw overrides into its log settings.
pub type ResolveConfig = Arc<dyn Fn(&BTreeMap<String, String>) -> LogConfig + Send + Sync>;

/// Gives out identities that never repeat.
pub(crate) type Identities = Arc<dyn Fn() -> Uuid + Send + Sync>;

/// `producer.id.expiration.ms`: Kafka's default, one day.
const PRODUCER_ID_EXPIRATION_MS: i64 = 86_400_000;
/// Files that are synced at once: beyond this a local disk gains little.
const SYNC_PARALLELISM: usize = 8;
/// Bytes that are synced between two checkpoints, and so the most that recovery reads per partition.
const CHECKPOINT_BYTES: u64 = 64 << 20;
/// `log.retention.check.interval.ms`: Kafka's default, five minutes.
const RETENTION_CHECK_INTERVAL: Duration = Duration::from_secs(300);

/// Everything an engine needs; it has no globals.
#[derive(Clone)]
pub struct EngineOptions {
    pub(crate) volume: Arc<dyn Volume>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) fence: Arc<dyn Fence>,
    pub(crate) resolve: ResolveConfig,
    pub(crate) broker_id: i32,
    pub(crate) shared: bool,
    pub(crate) manual_commits: bool,
    pub(crate) identities: Identities,
    pub(crate) sync_parallelism: usize,
    pub(crate) producer_id_expiration_ms: i64,
    pub(crate) checkpoint_bytes: u64,
    pub(crate) retention_check_interval: Option<Duration>,
    pub(crate) compaction: CompactionOptions,
    pub(crate) mutants: Mutants,
}

impl fmt::Debug for EngineOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EngineOptions").field("volume", &self.volume).finish_non_exhaustive()
    }
}

impl EngineOptions {
    /// An engine on a directory of the operating system, which is created if need be.
    ///
    /// # Errors
    /// [`OpenError::Storage`].
    pub fn at(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        let path = path.as_ref();
        let volume = OsVolume::at(path)
            .map_err(|error| OpenError::Storage { path: path.display().to_string(), error: error.into() })?;
        Ok(Self::on(Arc::new(volume)))
    }

    /// An engine on any volume.
    pub fn on(volume: Arc<dyn Volume>) -> Self {
        Self {
            volume,
            clock: Arc::new(SystemClock),
            fence: Arc::new(SingleNode),
            resolve: Arc::new(|_| LogConfig::default()),
            broker_id: 0,
            shared: false,
            manual_commits: false,
            identities: Arc::new(Uuid::new_v4),
            sync_parallelism: SYNC_PARALLELISM,
            producer_id_expiration_ms: PRODUCER_ID_EXPIRATION_MS,
            checkpoint_bytes: CHECKPOINT_BYTES,
            retention_check_interval: Some(RETENTION_CHECK_INTERVAL),
            compaction: CompactionOptions::default(),
            mutants: Mutants::default(),
        }
    }

    /// The clock that stamps records.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Other brokers mount the same volume. The engine registers an incarnation of its broker id, whose fence file is
    /// read before every acknowledgement, and leads only what [`Engine::lead`](crate::Engine::lead) has taken over.
    /// Every commit is synced, whatever [`LogConfig::flush_messages`] says: what is in one machine's cache is not there for
    /// another. The volume must have been opened once before it is shared.
    #[must_use]
    pub fn shared(mut self) -> Self {
        self.shared = true;
        self
    }

    /// Without threads: nothing is committed before [`Engine::commit`](crate::Engine::commit) is called, and syncs are
    /// done there, one after the other. For hosts that schedule by themselves, and for simulations.
    #[must_use]
    pub fn manual_commits(mut self) -> Self {
        self.manual_commits = true;
        self.sync_parallelism = 0;
        self
    }

    /// Where identities come from: of the cluster, of topics, of this incarnation. They must never repeat. Random by
    /// default; a simulation counts.
    #[must_use]
    pub fn identities(mut self, next: impl Fn() -> Uuid + Send + Sync + 'static) -> Self {
        self.identities = Arc::new(next);
        self
    }

    /// A fence that is asked before every acknowledgement, besides the fence file of a shared volume; a
    /// [`Session`](crate::Session), for example.
    #[must_use]
    pub fn fence(mut self, fence: Arc<dyn Fence>) -> Self {
        self.fence = fence;
        self
    }

    /// How a topic's raw overrides become its log settings. Without it every topic has the defaults.
    #[must_use]
    pub fn resolve(
        mut self,
        resolve: impl Fn(&BTreeMap<String, String>) -> LogConfig + Send + Sync + 'static,
    ) -> Self {
        self.resolve = Arc::new(resolve);
        self
    }

    /// The id that this broker writes into what it claims.
    #[must_use]
    pub fn broker_id(mut self, broker_id: i32) -> Self {
        self.broker_id = broker_id;
        self
    }

    /// Most files that are synced at once; 0 syncs one after the other.
    #[must_use]
    pub fn sync_parallelism(mut self, threads: usize) -> Self {
        self.sync_parallelism = threads;
        self
    }

    /// After how long a silent producer is forgotten, in milliseconds.
    #[must_use]
    pub fn producer_id_expiration_ms(mut self, expiration_ms: i64) -> Self {
        self.producer_id_expiration_ms = expiration_ms;
        self
    }

    /// Bytes that are synced between two checkpoints of a partition.
    #[must_use]
    pub fn checkpoint_bytes(mut self, bytes: u64) -> Self {
        self.checkpoint_bytes = bytes;
        self
    }

    /// How often retention looks at the partitions, in real time; `None`: only when
    /// [`Engine::apply_retention`](crate::Engine::apply_retention) is called.
    #[must_use]
    pub fn retention_check_interval(mut self, interval: Option<Duration>) -> Self {
        self.retention_check_interval = interval;
        self
    }

    /// How logs are compacted.
    #[must_use]
    pub fn compaction(mut self, compaction: CompactionOptions) -> Self {
        self.compaction = compaction;
        self
    }

    /// Switches a seeded bug on.
    #[cfg(feature = "test-util")]
    #[must_use]
    pub fn mutant(mut self, mutant: crate::Mutant) -> Self {
        self.mutants.on = Some(mutant);
        self
    }
}
