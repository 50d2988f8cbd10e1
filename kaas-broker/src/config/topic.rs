//! The topic-level keys of Kafka 3.7 and the broker key that gives each its default.

use super::def::{Check, Def, Effect, Kind};
use super::reasons::{NO_PREALLOCATION, NO_REPLICATION, NO_TIERING, ONE_FORMAT};

/// One topic-level key.
#[derive(Clone, Copy, Debug)]
pub struct TopicDef {
    /// The row.
    pub def: Def,
    /// The broker key whose value is this key's default, when Kafka has one.
    pub synonym: Option<&'static str>,
}

const fn row(
    name: &'static str,
    synonym: Option<&'static str>,
    kind: Kind,
    default: &'static str,
    check: Check,
    effect: Effect,
    doc: &'static str,
) -> TopicDef {
    TopicDef { def: Def { name, kind, default: Some(default), check, effect, doc }, synonym }
}

const MAX: i64 = i64::MAX;
const FOREVER: &str = "9223372036854775807";
use Check::{Any, Fraction, ListOf, OneOf, Only, Range};
use Effect::{Live, None as Idle};
use Kind::{Boolean, Double, Int, List, Long, String};

/// What `compression.type` takes, in Kafka's order.
pub(super) const COMPRESSION_TYPES: &[&str] = &["uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"];

/// Every topic-level key, sorted by name.
#[rustfmt::skip]
pub const TOPIC: &[TopicDef] = &[
    row("cleanup.policy", Some("log.cleanup.policy"), List, "delete", ListOf(&["compact", "delete"]), Live,
        "What happens to old records: delete drops whole segments by age or size, compact keeps the last record of each key. With compact, records must have a key."),
    row("compression.type", Some("compression.type"), String, "producer", OneOf(COMPRESSION_TYPES), Live,
        "The codec that stored batches have, by recompression where they come in another; producer keeps the producer's."),
    row("delete.retention.ms", Some("log.cleaner.delete.retention.ms"), Long, "86400000", Range(0, MAX), Live,
        "How long a tombstone stays after its first cleaning, in milliseconds."),
    row("file.delete.delay.ms", Some("log.segment.delete.delay.ms"), Long, "60000", Range(0, MAX), Live,
        "How long a deleted segment stays on disk under its aside name, in milliseconds."),
    row("flush.messages", Some("log.flush.interval.messages"), Long, "1", Range(1, MAX), Live,
        "How many records may be acknowledged before a sync. 1, the default, means that every acknowledgement is synced; the largest value is page-cache mode, Kafka's own default."),
    row("flush.ms", Some("log.flush.interval.ms"), Long, FOREVER, Range(0, MAX), Idle("an acknowledgement waits for its sync, so no timer adds to it"),
        "The longest time that a record stays unsynced, in milliseconds."),
    row("follower.replication.throttled.replicas", None, List, "", Any, Idle(NO_REPLICATION),
        "Replicas whose replication traffic is throttled on the follower."),
    row("index.interval.bytes", Some("log.index.interval.bytes"), Int, "4096", Range(0, MAX), Live,
        "Bytes of log between two entries of the offset index."),
    row("leader.replication.throttled.replicas", None, List, "", Any, Idle(NO_REPLICATION),
        "Replicas whose replication traffic is throttled on the leader."),
    row("local.retention.bytes", Some("log.local.retention.bytes"), Long, "-2", Range(-2, MAX), Idle(NO_TIERING),
        "Bytes that stay on local storage when older segments are tiered."),
    row("local.retention.ms", Some("log.local.retention.ms"), Long, "-2", Range(-2, MAX), Idle(NO_TIERING),
        "Milliseconds that segments stay on local storage when older ones are tiered."),
    row("max.compaction.lag.ms", Some("log.cleaner.max.compaction.lag.ms"), Long, FOREVER, Range(1, MAX), Live,
        "The longest time that a record stays uncompacted, in milliseconds."),
    row("max.message.bytes", Some("message.max.bytes"), Int, "1048588", Range(0, MAX), Live,
        "The largest batch that is accepted, in bytes, as it arrives (after compression)."),
    row("message.downconversion.enable", Some("log.message.downconversion.enable"), Boolean, "true", Any, Live,
        "Whether batches are converted down for clients that only read the old formats."),
    row("message.format.version", Some("log.message.format.version"), String, "3.0-IV1", Any, Idle(ONE_FORMAT),
        "Deprecated by Kafka: the format in which records are stored."),
    row("message.timestamp.after.max.ms", Some("log.message.timestamp.after.max.ms"), Long, FOREVER, Range(0, MAX), Live,
        "How far a record's timestamp may lie ahead of the broker's clock, in milliseconds."),
    row("message.timestamp.before.max.ms", Some("log.message.timestamp.before.max.ms"), Long, FOREVER, Range(0, MAX), Live,
        "How far a record's timestamp may lie behind the broker's clock, in milliseconds."),
    row("message.timestamp.difference.max.ms", Some("log.message.timestamp.difference.max.ms"), Long, FOREVER, Range(0, MAX), Live,
        "Deprecated by Kafka: one bound for both directions, used where the two newer keys are at their default."),
    row("message.timestamp.type", Some("log.message.timestamp.type"), String, "CreateTime", OneOf(&["CreateTime", "LogAppendTime"]), Live,
        "Whether a record carries its producer's time or the time of its append."),
    row("min.cleanable.dirty.ratio", Some("log.cleaner.min.cleanable.ratio"), Double, "0.5", Fraction(0.0, 1.0), Live,
        "The share of a log that must be uncompacted before it is cleaned."),
    row("min.compaction.lag.ms", Some("log.cleaner.min.compaction.lag.ms"), Long, "0", Range(0, MAX), Live,
        "The shortest time that a record stays uncompacted, in milliseconds."),
    row("min.insync.replicas", Some("min.insync.replicas"), Int, "1", Range(1, MAX), Idle(NO_REPLICATION),
        "How many replicas must have a record before it is acknowledged. All replicas share one volume, so all have it."),
    row("preallocate", Some("log.preallocate"), Boolean, "false", Any, Idle(NO_PREALLOCATION),
        "Whether a segment's file gets its full size when it is created."),
    row("remote.storage.enable", None, Boolean, "false", Only("false", "kaas does not tier segments"), Live,
        "Whether old segments move to remote storage."),
    row("retention.bytes", Some("log.retention.bytes"), Long, "-1", Any, Live,
        "The size at which a partition drops its oldest segments, in bytes; -1 means no limit."),
    row("retention.ms", Some("log.retention.ms"), Long, "604800000", Range(-1, MAX), Live,
        "The age of its youngest record at which a segment is dropped, in milliseconds; -1 means never."),
    row("segment.bytes", Some("log.segment.bytes"), Int, "1073741824", Range(14, MAX), Live,
        "The size at which a segment is closed and the next one begins, in bytes."),
    row("segment.index.bytes", Some("log.index.size.max.bytes"), Int, "10485760", Range(4, MAX), Live,
        "The largest size of an index; a full index closes its segment."),
    row("segment.jitter.ms", Some("log.roll.jitter.ms"), Long, "0", Range(0, MAX), Live,
        "A random time that is taken off segment.ms, so that segments do not all close at once."),
    row("segment.ms", Some("log.roll.ms"), Long, "604800000", Range(1, MAX), Live,
        "The age of its first record at which a segment is closed though it is not full, in milliseconds."),
    row("unclean.leader.election.enable", Some("unclean.leader.election.enable"), Boolean, "false", Any, Idle(NO_REPLICATION),
        "Whether a replica that lacks records may lead. No replica of kaas can lack records."),
];

/// The row of a topic-level key.
pub fn find(name: &str) -> Option<&'static TopicDef> {
    TOPIC.binary_search_by(|row| row.def.name.cmp(name)).ok().map(|at| &TOPIC[at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_its_defaults_pass_their_own_checks() {
        assert!(TOPIC.is_sorted_by(|a, b| a.def.name < b.def.name));
        for row in TOPIC {
            let default = row.def.default.unwrap();
            assert_eq!(row.def.normalise(default).unwrap(), default, "{}", row.def.name);
        }
    }

    #[test]
    fn every_synonym_is_a_broker_key_of_the_same_kind() {
        for row in TOPIC {
            if let Some(name) = row.synonym {
                let broker = crate::config::broker::find(name).unwrap_or_else(|| panic!("{name}"));
                assert_eq!(broker.kind, row.def.kind, "{name}");
            }
        }
    }
}
