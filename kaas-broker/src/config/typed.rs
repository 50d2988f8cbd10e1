//! The broker's configuration as the rest of the program reads it: typed, checked, with units in the names.

use std::path::PathBuf;
use std::time::Duration;

use super::{ConfigError, Endpoint, Layers, listeners};

/// The number of a broker that nobody numbered.
const NODE_ID_DEFAULT: i64 = 1;

/// Typed values of the broker-level keys, and the layers they came from.
#[derive(Clone, Debug)]
pub struct BrokerConfig {
    /// Where each value came from, for DescribeConfigs.
    pub layers: Layers,
    /// This broker's number.
    pub node_id: i32,
    /// The rack that Metadata shows.
    pub rack: Option<String>,
    /// Where to listen, and what clients are told.
    pub listeners: Vec<(Endpoint, Option<Endpoint>)>,
    /// The folder of the volume.
    pub log_dir: PathBuf,
    /// Partitions of a topic that is created without a count.
    pub num_partitions: i32,
    /// Replication factor of a topic that is created without one.
    pub default_replication_factor: i16,
    /// Whether asking for a topic creates it.
    pub auto_create_topics: bool,
    /// Whether topics can be deleted.
    pub delete_topic_enable: bool,
    /// The most that one fetch returns.
    pub fetch_bytes_max: usize,
    /// Fetch sessions that are remembered.
    pub fetch_sessions_max: usize,
    /// The largest request.
    pub request_bytes_max: usize,
    /// Memory for requests that are being received or answered; `None` is no bound.
    pub request_memory_max: Option<usize>,
    /// How long a silent connection lives; `None` is for ever.
    pub connection_idle_max: Option<Duration>,
    /// Connections in all.
    pub connections_max: usize,
    /// Connections from one address.
    pub connections_per_ip_max: usize,
    /// Connections that may wait to be accepted.
    pub backlog: i32,
    /// The kernel's send buffer; `None` lets it tune.
    pub send_buffer_bytes: Option<usize>,
    /// The kernel's receive buffer; `None` lets it tune.
    pub receive_buffer_bytes: Option<usize>,
    /// How long the sequences of an idle producer are remembered.
    pub producer_id_expiration: Duration,
    /// What bounds consumer groups.
    pub groups: kaas_core::group::GroupOptions,
    /// Whether coordinators answer when a change is synced; without it, when it is written.
    pub sync_coordinators: bool,
    /// What transactional producers may ask for, and how long they are remembered.
    pub transactions: kaas_core::transaction::Config,
    /// Whether batches of transactions are verified (KIP-890).
    pub verify_transactions: bool,
    /// How many partitions are synced at the same time, at least.
    pub sync_parallelism: usize,
    /// How often old segments are looked for.
    pub retention_check_interval: Duration,
    /// How logs are compacted.
    pub compaction: kaas_core::CompactionOptions,
}

impl BrokerConfig {
    /// Types and cross-checks the merged layers.
    pub fn new(layers: Layers) -> Result<BrokerConfig, ConfigError> {
        let read = Reader(&layers);
        let node_id = match (read.int("node.id"), read.int("broker.id")) {
            (-1, -1) => NODE_ID_DEFAULT,
            (-1, id) => id,
            (id, _) => id,
        };
        let log_dir = layers.get("log.dirs").or(layers.get("log.dir")).unwrap_or_default();
        if node_id < 0 {
            return Err(read.invalid("node.id", "Value must be at least 0"));
        }
        if log_dir.is_empty() || log_dir.contains(',') {
            return Err(read.invalid("log.dirs", "One folder is expected"));
        }
        Ok(BrokerConfig {
            node_id: node_id as i32,
            rack: layers.get("broker.rack").map(str::to_owned),
            listeners: listeners::resolve(&layers)?,
            log_dir: PathBuf::from(log_dir),
            num_partitions: read.int("num.partitions") as i32,
            default_replication_factor: read.int("default.replication.factor") as i16,
            auto_create_topics: read.flag("auto.create.topics.enable"),
            delete_topic_enable: read.flag("delete.topic.enable"),
            fetch_bytes_max: read.size("fetch.max.bytes"),
            fetch_sessions_max: read.size("max.incremental.fetch.session.cache.slots"),
            request_bytes_max: read.size("socket.request.max.bytes"),
            request_memory_max: read.size_or_none("queued.max.request.bytes"),
            connection_idle_max: read.duration_or_none("connections.max.idle.ms"),
            connections_max: read.size("max.connections"),
            connections_per_ip_max: read.size("max.connections.per.ip"),
            backlog: read.int("socket.listen.backlog.size") as i32,
            send_buffer_bytes: read.size_or_none("socket.send.buffer.bytes"),
            receive_buffer_bytes: read.size_or_none("socket.receive.buffer.bytes"),
            producer_id_expiration: Duration::from_millis(read.int("producer.id.expiration.ms") as u64),
            groups: kaas_core::group::GroupOptions {
                min_session_timeout_ms: read.int("group.min.session.timeout.ms") as i32,
                max_session_timeout_ms: read.int("group.max.session.timeout.ms") as i32,
                initial_rebalance_delay_ms: read.int("group.initial.rebalance.delay.ms") as i32,
                max_size: read.size("group.max.size"),
                offset_metadata_max: read.size("offset.metadata.max.bytes"),
                offsets_retention_ms: read.int("offsets.retention.minutes").saturating_mul(60_000),
                offsets_retention_check_interval_ms: read.int("offsets.retention.check.interval.ms"),
                ..Default::default()
            },
            sync_coordinators: read.int("log.flush.interval.messages") != i64::MAX,
            transactions: kaas_core::transaction::Config {
                timeout_max_ms: read.int("transaction.max.timeout.ms") as i32,
                expiration_ms: read.int("transactional.id.expiration.ms"),
                expiration_interval: Duration::from_millis(
                    read.int("transaction.remove.expired.transaction.cleanup.interval.ms") as u64,
                ),
            },
            verify_transactions: read.flag("transaction.partition.verification.enable"),
            sync_parallelism: read
                .size("num.recovery.threads.per.data.dir")
                .max(std::thread::available_parallelism().map_or(1, usize::from)),
            retention_check_interval: Duration::from_millis(
                read.int("log.retention.check.interval.ms") as u64
            ),
            compaction: kaas_core::CompactionOptions {
                backoff: read
                    .flag("log.cleaner.enable")
                    .then(|| Duration::from_millis(read.int("log.cleaner.backoff.ms") as u64)),
                dedupe_bytes_max: read.size("log.cleaner.dedupe.buffer.size"),
                bytes_per_second_max: read.double("log.cleaner.io.max.bytes.per.second"),
            },
            layers,
        })
    }
}

/// Reads values that the definition table has already checked.
struct Reader<'a>(&'a Layers);

impl Reader<'_> {
    fn int(&self, key: &str) -> i64 {
        self.0
            .get(key)
            .and_then(|value| value.parse().ok())
            .expect("the table checks numbers and gives defaults")
    }

    fn double(&self, key: &str) -> f64 {
        self.0
            .get(key)
            .and_then(|value| value.parse().ok())
            .expect("the table checks numbers and gives defaults")
    }

    fn size(&self, key: &str) -> usize {
        usize::try_from(self.int(key)).unwrap_or(0)
    }

    fn size_or_none(&self, key: &str) -> Option<usize> {
        usize::try_from(self.int(key)).ok().filter(|size| *size > 0)
    }

    fn duration_or_none(&self, key: &str) -> Option<Duration> {
        u64::try_from(self.int(key)).ok().map(Duration::from_millis)
    }

    fn flag(&self, key: &str) -> bool {
        self.0.get(key) == Some("true")
    }

    fn invalid(&self, key: &str, why: &str) -> ConfigError {
        let origin = self.0.setting(key).map_or(super::Origin::Default, |setting| setting.origin.clone());
        let value = self.0.get(key).unwrap_or_default().to_owned();
        ConfigError::Invalid {
            invalid: super::def::InvalidValue { key: key.to_owned(), value, why: why.to_owned() },
            origin,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Origin;

    fn of(pairs: &[(&str, &str)]) -> Result<BrokerConfig, ConfigError> {
        let mut layers = Layers::default();
        for (key, value) in pairs {
            layers.set(key, value, Origin::Override).unwrap();
        }
        BrokerConfig::new(layers)
    }

    #[test]
    fn defaults_are_complete() {
        let config = of(&[("log.dirs", "/data")]).unwrap();
        assert_eq!(config.node_id, 1);
        assert_eq!(config.request_bytes_max, 104857600);
        assert_eq!(config.connection_idle_max, Some(Duration::from_secs(600)));
    }

    #[test]
    fn negative_values_mean_no_bound_and_odd_ones_are_refused() {
        let config =
            of(&[("log.dir", "/d"), ("queued.max.request.bytes", "-1"), ("connections.max.idle.ms", "-1")])
                .unwrap();
        assert_eq!((config.request_memory_max, config.connection_idle_max), (None, None));
        assert!(of(&[("log.dir", "/d"), ("node.id", "-7")]).is_err());
        assert!(of(&[("log.dirs", "/a,/b")]).is_err());
        assert_eq!(of(&[("log.dir", "/d"), ("broker.id", "5")]).unwrap().node_id, 5);
    }
}
