//! Kafka's broker keys that are known here and do nothing, each with its reason.
//!
//! A `server.properties` that works with Kafka 3.7 must start kaas: these keys are accepted, named once at start, and not shown by
//! DescribeConfigs. A key that is neither here nor in the tables is a typing error and is refused.

use super::reasons::*;

/// Names and prefixes (those that end with a dot) by reason. The first row that matches gives the reason.
#[rustfmt::skip]
const IGNORED: &[(&str, &[&str])] = &[
    (NO_ZOOKEEPER, &["zookeeper."]),
    (NO_QUORUM, &["controller.quorum.", "controller.listener.names", "controller.socket.timeout.ms", "metadata.", "process.roles",
        "initial.broker.registration.timeout.ms", "server.max.startup.time.ms", "eligible.leader.replicas.enable",
        "broker.id.generation.enable", "reserved.broker.max.id", "control.plane.listener.name", "early.start.listeners",
        "inter.broker.protocol.version", "broker.heartbeat.interval.ms", "broker.session.timeout.ms",
        "controlled.shutdown."]),
    (NO_PLUGINS, &["alter.config.policy.class.name", "create.topic.policy.class.name", "client.quota.callback.class",
        "principal.builder.class", "replica.selector.class", "security.providers"]),
    (LATER_SECURITY, &["ssl.", "sasl.", "delegation.token.", "password.encoder.", "authorizer.class.name", "super.users",
        "connections.max.reauth.ms", "connection.failed.authentication.delay.ms", "security.inter.broker.protocol",
        "allow.everyone.if.no.acl.found"]),
    (ONE_NODE, &["inter.broker.listener.name", "request.timeout.ms", "socket.connection.setup.timeout.ms",
        "socket.connection.setup.timeout.max.ms"]),
    (LATER_GROUP_PROTOCOL, &["group.consumer.", "group.coordinator."]),
    (NO_COORDINATION_TOPIC, &["offsets.topic.", "offsets.load.buffer.size", "offsets.commit.", "transaction.state.log."]),
    (TIMED_EXACTLY, &["transaction.abort.timed.out.transaction.cleanup.interval.ms"]),
    (LATER_QUOTAS, &["quota.", "controller.quota.", "alter.log.dirs.replication.quota.", "max.connection.creation.rate",
        "max.connections.per.ip.overrides"]),
    (NO_REPLICATION, &["replica.", "replication.quota.", "num.replica.", "leader.imbalance.", "auto.leader.rebalance.enable"]),
    (NO_TIERING, &["remote.log."]),
    (ONE_CLEANER, &["log.cleaner.threads", "log.cleaner.io.buffer.size", "log.cleaner.io.buffer.load.factor"]),
    (NO_FLUSH_TIMER, &["log.flush.scheduler.interval.ms", "log.flush.offset.checkpoint.interval.ms",
        "log.flush.start.offset.checkpoint.interval.ms", "producer.id.expiration.check.interval.ms"]),
    (NO_PURGATORY, &["fetch.purgatory.purge.interval.requests", "producer.purgatory.purge.interval.requests",
        "delete.records.purgatory.purge.interval.requests"]),
    (NO_POOLS, &["num.network.threads", "num.io.threads", "background.threads", "queued.max.requests"]),
    (OWN_METRICS, &["metric.reporters", "metrics.", "kafka.metrics.", "auto.include.jmx.reporter"]),
    (NO_TELEMETRY, &["telemetry."]),
    (INTERNAL, &["unstable.api.versions.enable", "unstable.metadata.versions.enable"]),
];

/// Why `key` does nothing here, or `None` when it is not a Kafka key that this list knows.
pub fn reason(key: &str) -> Option<&'static str> {
    IGNORED
        .iter()
        .find(|(_, keys)| {
            keys.iter().any(|known| key == *known || (known.ends_with('.') && key.starts_with(known)))
        })
        .map(|(reason, _)| *reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_match_whole_and_prefixes_match_by_their_dot() {
        assert_eq!(reason("zookeeper.connect"), Some(NO_ZOOKEEPER));
        assert_eq!(reason("num.io.threads"), Some(NO_POOLS));
        assert_eq!(reason("num.io.threads.more"), None);
        assert_eq!(reason("zookeeperconnect"), None);
    }

    #[test]
    fn no_key_is_both_live_and_ignored() {
        for def in crate::config::broker::BROKER {
            let synonym = crate::config::topic::TOPIC.iter().any(|row| row.synonym == Some(def.name));
            assert!(synonym || reason(def.name).is_none(), "{}", def.name);
        }
    }
}
