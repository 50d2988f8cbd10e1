//! The broker-level keys that kaas knows by value: those it acts on, and the defaults of the topic-level keys.

use super::def::{Check, Def, Effect, Kind};
use super::reasons::{NO_FLUSH_TIMER, NO_PREALLOCATION, NO_REPLICATION, NO_TIERING, ONE_FORMAT};

const fn row(
    name: &'static str,
    kind: Kind,
    default: Option<&'static str>,
    check: Check,
    effect: Effect,
    doc: &'static str,
) -> Def {
    Def { name, kind, default, check, effect, doc }
}

const MAX: i64 = i64::MAX;
const FOREVER: Option<&str> = Some("9223372036854775807");
use Check::{Any, Fraction, ListOf, OneOf, Range};
use Effect::{Live, None as Idle};
use Kind::{Boolean, Double, Int, List, Long, String};

/// Every broker-level key with a value, sorted by name.
#[rustfmt::skip]
pub const BROKER: &[Def] = &[
    row("advertised.listeners", String, None, Any, Live,
        "The addresses that clients are told, NAME://host:port separated by commas; the listeners themselves when unset."),
    row("auto.create.topics.enable", Boolean, Some("true"), Any, Live,
        "Whether a topic that a client asks for by name is created."),
    row("broker.id", Int, Some("-1"), Any, Live,
        "The older name of node.id."),
    row("broker.rack", String, None, Any, Live,
        "The rack that Metadata shows for this broker."),
    row("compression.type", String, Some("producer"), OneOf(super::topic::COMPRESSION_TYPES), Live,
        "The codec that stored batches have; producer keeps the producer's."),
    row("connections.max.idle.ms", Long, Some("600000"), Any, Live,
        "How long a connection may be silent before it is closed, in milliseconds; negative means for ever."),
    row("default.replication.factor", Int, Some("1"), Range(1, 32767), Live,
        "The replication factor of topics that are created without one."),
    row("delete.topic.enable", Boolean, Some("true"), Any, Live,
        "Whether topics can be deleted."),
    row("fetch.max.bytes", Int, Some("57671680"), Range(1024, MAX), Live,
        "The most that one fetch returns, in bytes; a first batch that is larger is returned all the same."),
    row("group.initial.rebalance.delay.ms", Int, Some("3000"), Range(0, MAX), Live,
        "How long a group that was empty waits for more members before it assigns, in milliseconds."),
    row("group.max.session.timeout.ms", Int, Some("1800000"), Range(1, MAX), Live,
        "The longest session timeout that a member may ask for, in milliseconds."),
    row("group.max.size", Int, Some("2147483647"), Range(1, MAX), Live, "How many members a group may have."),
    row("group.min.session.timeout.ms", Int, Some("6000"), Range(1, MAX), Live,
        "The shortest session timeout that a member may ask for, in milliseconds."),
    row("listener.security.protocol.map", String, Some("PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL"), Any, Live,
        "The security protocol of each listener name. Only PLAINTEXT listeners are served so far."),
    row("listeners", String, Some("PLAINTEXT://:9092"), Any, Live,
        "Where the broker listens: NAME://host:port separated by commas. An empty host is every interface, port 0 any free port."),
    row("log.cleaner.backoff.ms", Long, Some("15000"), Range(0, MAX), Live,
        "How long compaction waits when no log is due, in milliseconds."),
    row("log.cleaner.dedupe.buffer.size", Long, Some("134217728"), Range(1024, MAX), Live,
        "The most memory that the keys of one compaction take, in bytes, at 16 bytes a key; what does not fit is left to the next one."),
    row("log.cleaner.delete.retention.ms", Long, Some("86400000"), Range(0, MAX), Live, "The default of delete.retention.ms."),
    row("log.cleaner.enable", Boolean, Some("true"), Any, Live,
        "Whether logs with cleanup.policy=compact are compacted."),
    row("log.cleaner.io.max.bytes.per.second", Double, Some("1.7976931348623157E308"), Fraction(0.0, f64::MAX), Live,
        "The most bytes that compaction reads and writes in a second."),
    row("log.cleaner.max.compaction.lag.ms", Long, FOREVER, Range(1, MAX), Live, "The default of max.compaction.lag.ms."),
    row("log.cleaner.min.cleanable.ratio", Double, Some("0.5"), Fraction(0.0, 1.0), Live, "The default of min.cleanable.dirty.ratio."),
    row("log.cleaner.min.compaction.lag.ms", Long, Some("0"), Range(0, MAX), Live, "The default of min.compaction.lag.ms."),
    row("log.cleanup.policy", List, Some("delete"), ListOf(&["compact", "delete"]), Live, "The default of cleanup.policy."),
    row("log.dir", String, None, Any, Live,
        "The folder of the volume, when log.dirs is not set. The user's data folder when neither is; Kafka's own default is /tmp/kafka-logs."),
    row("log.dirs", String, None, Any, Live,
        "The folder of the volume. One folder so far."),
    row("log.flush.interval.messages", Long, Some("1"), Range(1, MAX), Live,
        "The default of flush.messages: 1, so that every acknowledgement is synced. Kafka's own default never syncs."),
    row("log.flush.interval.ms", Long, None, Any, Idle(NO_FLUSH_TIMER), "The default of flush.ms."),
    row("log.index.interval.bytes", Int, Some("4096"), Range(0, MAX), Live, "The default of index.interval.bytes."),
    row("log.index.size.max.bytes", Int, Some("10485760"), Range(4, MAX), Live, "The default of segment.index.bytes."),
    row("log.local.retention.bytes", Long, Some("-2"), Range(-2, MAX), Idle(NO_TIERING), "The default of local.retention.bytes."),
    row("log.local.retention.ms", Long, Some("-2"), Range(-2, MAX), Idle(NO_TIERING), "The default of local.retention.ms."),
    row("log.message.downconversion.enable", Boolean, Some("true"), Any, Idle(ONE_FORMAT), "The default of message.downconversion.enable."),
    row("log.message.format.version", String, Some("3.0-IV1"), Any, Idle(ONE_FORMAT), "The default of message.format.version."),
    row("log.message.timestamp.after.max.ms", Long, FOREVER, Range(0, MAX), Live, "The default of message.timestamp.after.max.ms."),
    row("log.message.timestamp.before.max.ms", Long, FOREVER, Range(0, MAX), Live, "The default of message.timestamp.before.max.ms."),
    row("log.message.timestamp.difference.max.ms", Long, FOREVER, Range(0, MAX), Live, "The default of message.timestamp.difference.max.ms."),
    row("log.message.timestamp.type", String, Some("CreateTime"), OneOf(&["CreateTime", "LogAppendTime"]), Live, "The default of message.timestamp.type."),
    row("log.preallocate", Boolean, Some("false"), Any, Idle(NO_PREALLOCATION), "The default of preallocate."),
    row("log.retention.bytes", Long, Some("-1"), Any, Live, "The default of retention.bytes."),
    row("log.retention.check.interval.ms", Long, Some("300000"), Range(1, MAX), Live,
        "How often old segments are looked for, in milliseconds."),
    row("log.retention.hours", Int, Some("168"), Any, Live, "The default of retention.ms in hours, when neither log.retention.ms nor log.retention.minutes is set."),
    row("log.retention.minutes", Int, None, Any, Live, "The default of retention.ms in minutes, when log.retention.ms is not set."),
    row("log.retention.ms", Long, None, Any, Live, "The default of retention.ms."),
    row("log.roll.hours", Int, Some("168"), Range(1, MAX), Live, "The default of segment.ms in hours, when log.roll.ms is not set."),
    row("log.roll.jitter.hours", Int, Some("0"), Range(0, MAX), Live, "The default of segment.jitter.ms in hours, when log.roll.jitter.ms is not set."),
    row("log.roll.jitter.ms", Long, None, Any, Live, "The default of segment.jitter.ms."),
    row("log.roll.ms", Long, None, Any, Live, "The default of segment.ms."),
    row("log.segment.bytes", Int, Some("1073741824"), Range(14, MAX), Live, "The default of segment.bytes."),
    row("log.segment.delete.delay.ms", Long, Some("60000"), Range(0, MAX), Live, "The default of file.delete.delay.ms."),
    row("max.connections", Int, Some("2147483647"), Range(0, MAX), Live,
        "How many connections the broker holds; one more is closed as soon as it is accepted."),
    row("max.connections.per.ip", Int, Some("2147483647"), Range(0, MAX), Live,
        "How many connections the broker holds from one address; one more is closed as soon as it is accepted."),
    row("max.incremental.fetch.session.cache.slots", Int, Some("1000"), Range(0, MAX), Live,
        "How many fetch sessions (KIP-227) the broker remembers."),
    row("message.max.bytes", Int, Some("1048588"), Range(0, MAX), Live, "The default of max.message.bytes."),
    row("min.insync.replicas", Int, Some("1"), Range(1, MAX), Idle(NO_REPLICATION), "The default of min.insync.replicas."),
    row("node.id", Int, Some("-1"), Any, Live,
        "The number of this broker, 0 or more; 1 when neither it nor broker.id is set."),
    row("num.partitions", Int, Some("1"), Range(1, MAX), Live,
        "The number of partitions of topics that are created without one."),
    row("num.recovery.threads.per.data.dir", Int, Some("1"), Range(1, MAX), Live,
        "How many partitions are synced at the same time, at least; the number of processors counts too."),
    row("offset.metadata.max.bytes", Int, Some("4096"), Range(0, MAX), Live,
        "How long the metadata of a committed offset may be, in UTF-16 units, as Kafka counts them."),
    row("offsets.retention.check.interval.ms", Long, Some("600000"), Range(1, MAX), Live,
        "How often offsets that nobody uses are looked for, in milliseconds."),
    row("offsets.retention.minutes", Int, Some("10080"), Range(1, MAX), Live,
        "How long committed offsets are kept once nobody uses them, in minutes."),
    row("producer.id.expiration.ms", Int, Some("86400000"), Range(1, MAX), Live,
        "How long the last sequences of an idle producer are remembered, in milliseconds."),
    row("queued.max.request.bytes", Long, Some("536870912"), Any, Live,
        "Memory for requests that are being received or answered, in bytes; past it no socket is read, but that one request which has begun is completed. Kafka's own default has no bound."),
    row("socket.listen.backlog.size", Int, Some("1024"), Range(1, MAX), Live,
        "How many connections may wait to be accepted. Kafka's own default, 50, drops a burst of reconnects."),
    row("socket.receive.buffer.bytes", Int, Some("-1"), Any, Live,
        "The kernel's receive buffer of a connection, in bytes; -1 lets the kernel tune it. Kafka's own default is 102400."),
    row("socket.request.max.bytes", Int, Some("104857600"), Range(1, MAX), Live,
        "The largest request that is read, in bytes; a longer one closes its connection before anything is allocated."),
    row("socket.send.buffer.bytes", Int, Some("-1"), Any, Live,
        "The kernel's send buffer of a connection, in bytes; -1 lets the kernel tune it. Kafka's own default is 102400."),
    row("transaction.max.timeout.ms", Int, Some("900000"), Range(1, MAX), Live,
        "The longest time-out that a transactional producer may ask for, in milliseconds."),
    row("transaction.partition.verification.enable", Boolean, Some("true"), Any, Live,
        "Whether the first batch of a transaction in a partition must belong to a transaction that the coordinator knows."),
    row("transaction.remove.expired.transaction.cleanup.interval.ms", Int, Some("3600000"), Range(1, MAX), Live,
        "How often transactional ids that nobody uses are looked for, in milliseconds."),
    row("transactional.id.expiration.ms", Int, Some("604800000"), Range(1, MAX), Live,
        "How long a transactional id without an open transaction is remembered, in milliseconds."),
    row("unclean.leader.election.enable", Boolean, Some("false"), Any, Idle(NO_REPLICATION), "The default of unclean.leader.election.enable."),
];

/// The row of a broker-level key.
pub fn find(name: &str) -> Option<&'static Def> {
    BROKER.binary_search_by(|row| row.name.cmp(name)).ok().map(|at| &BROKER[at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_its_defaults_pass_their_own_checks() {
        assert!(BROKER.is_sorted_by(|a, b| a.name < b.name));
        for row in BROKER {
            if let Some(default) = row.default {
                assert_eq!(row.normalise(default).unwrap(), default, "{}", row.name);
            }
        }
    }
}
