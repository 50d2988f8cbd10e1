//! Why a known Kafka key does nothing here: one sentence a cause, shown at start and by `kaas config explain`.

/// Keys of the log cleaner's threads and buffers.
pub const ONE_CLEANER: &str = "one thread compacts, with buffers of a fixed size";
/// Keys of followers, in-sync sets and their traffic.
pub const NO_REPLICATION: &str = "all brokers share one volume, so nothing is replicated";
/// Keys of tiered storage.
pub const NO_TIERING: &str = "the shared volume is the only storage tier";
/// Keys that choose an old message format.
pub const ONE_FORMAT: &str = "records are always stored in format v2";
/// Keys that reserve disk space ahead.
pub const NO_PREALLOCATION: &str = "segments grow as they are written";
/// Keys of ZooKeeper.
pub const NO_ZOOKEEPER: &str = "there is no ZooKeeper";
/// Keys of the KRaft quorum and its metadata log.
pub const NO_QUORUM: &str = "there is no controller quorum and no metadata log";
/// Keys of security protocols.
pub const LATER_SECURITY: &str = "only PLAINTEXT listeners are served so far";
/// Keys of the group protocol that is new in Kafka 3.7, in preview.
pub const LATER_GROUP_PROTOCOL: &str = "only the classic group protocol is served";
/// Keys of the topics that Kafka keeps offsets and transactions in.
pub const NO_COORDINATION_TOPIC: &str =
    "groups and transactions are kept in files of the volume, not in topics";
/// Keys of rounds in which Kafka looks for what is due.
pub const TIMED_EXACTLY: &str = "a transaction is aborted when its time-out is over, not in rounds";
/// Keys of quotas.
pub const LATER_QUOTAS: &str = "quotas are not enforced so far";
/// Keys of JVM plug-ins.
pub const NO_PLUGINS: &str = "JVM classes cannot be loaded";
/// Keys of thread pools that kaas does not have.
pub const NO_POOLS: &str = "threads are sized by the number of processors";
/// Keys of Kafka's metrics library.
pub const OWN_METRICS: &str = "metrics are not configured by Kafka's keys";
/// Keys of the request purgatory.
pub const NO_PURGATORY: &str = "waiting requests are woken by what they wait for";
/// Keys of flushing and checkpointing by timer.
pub const NO_FLUSH_TIMER: &str = "a sync belongs to an acknowledgement, not to a timer";
/// Keys of the connections between brokers.
pub const ONE_NODE: &str = "a broker does not call other brokers so far";
/// Keys of client telemetry.
pub const NO_TELEMETRY: &str = "client telemetry is not collected";
/// Keys of Kafka's internal switches.
pub const INTERNAL: &str = "an internal switch of Apache Kafka";
