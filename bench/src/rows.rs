//! The rows of the comparison: what load, which metric, which limit.

use kaas_core::record::CompressionCodec;

use crate::produce::{Load, Pace};

/// `flush.messages` that leaves syncing to the operating system: Kafka's default, kaas's page-cache mode.
pub(crate) const PAGE_CACHE: i64 = i64::MAX;
/// `flush.messages` that syncs before every acknowledgement: kaas's default.
pub(crate) const DURABLE: i64 = 1;

/// One row.
pub(crate) struct Row {
    /// A short name, for `--rows`.
    pub(crate) id: &'static str,
    /// What it is.
    pub(crate) title: &'static str,
    /// What runs.
    pub(crate) work: Work,
    /// The metric that is compared.
    pub(crate) metric: &'static str,
    /// What the ratio of kaas to Kafka must keep to.
    pub(crate) limit: Limit,
}

/// What a row runs.
pub(crate) enum Work {
    /// Producing to a topic with this `flush.messages`.
    Produce { load: Load, flush_messages: i64 },
    /// So many consumers that each read all that is in the page cache, records thrown away by the kernel.
    Consume { consumers: usize },
    /// The same by Apache's own consumer with its defaults.
    ConsumeByJava,
    /// The session itself: starting and resting.
    Session,
}

/// A limit of the ratio of kaas to Kafka.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Limit {
    /// Not more than.
    AtMost(f64),
    /// Not less than.
    AtLeast(f64),
    /// Only shown.
    None,
}

impl Limit {
    /// Whether a ratio keeps to it.
    pub(crate) fn holds(self, ratio: f64) -> bool {
        match self {
            Self::AtMost(limit) => ratio <= limit,
            Self::AtLeast(limit) => ratio >= limit,
            Self::None => true,
        }
    }
}

impl std::fmt::Display for Limit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::AtMost(limit) => write!(f, "<= {limit}"),
            Self::AtLeast(limit) => write!(f, ">= {limit}"),
            Self::None => f.write_str("-"),
        }
    }
}

/// The load of most rows: 8 connections, 16 partitions, 64 records of 1 KiB in a batch.
pub(crate) fn batches() -> Load {
    Load {
        connections: 8,
        partitions: 16,
        records: 64,
        value_bytes: 1 << 10,
        acks: 1,
        codec: CompressionCodec::None,
        idempotent: false,
        pace: Pace::Closed { in_flight: 4 },
    }
}

/// One record in a request, the next when it is acknowledged.
pub(crate) fn single(connections: usize, value_bytes: usize, acks: i16) -> Load {
    Load {
        connections,
        partitions: 1,
        records: 1,
        value_bytes,
        acks,
        codec: CompressionCodec::None,
        idempotent: false,
        pace: Pace::Closed { in_flight: 1 },
    }
}

/// Every row, in the order in which a session runs them.
pub(crate) fn all() -> Vec<Row> {
    let produce = |id, title, load, flush_messages, metric, limit| Row {
        id,
        title,
        work: Work::Produce { load, flush_messages },
        metric,
        limit,
    };
    let session = |id, title, metric, limit| Row { id, title, work: Work::Session, metric, limit };
    // CPU for a GiB of what was compressed.
    let compressed = |id, title, codec| {
        produce(id, title, Load { codec, ..batches() }, PAGE_CACHE, "cpu_s_per_gib", Limit::AtMost(0.8))
    };
    let open = Load { pace: Pace::Open { per_second: 2000.0 }, ..single(8, 1 << 10, 1) };
    vec![
        session("START", "start to first answer", "start_ms", Limit::AtMost(0.05)),
        session("IDLE", "resident memory, idle", "idle_mib", Limit::AtMost(0.1)),
        produce(
            "P1",
            "produce, page cache, 1 KiB records, 64 KiB batches",
            batches(),
            PAGE_CACHE,
            "cpu_s_per_gib",
            Limit::AtMost(0.4),
        ),
        produce(
            "P2",
            "the same, 100 B records",
            Load { records: 600, value_bytes: 100, ..batches() },
            PAGE_CACHE,
            "cpu_s_per_gib",
            Limit::None,
        ),
        produce(
            "P4",
            "the same, 1 MiB records",
            Load { records: 1, value_bytes: 1_048_000, pace: Pace::Closed { in_flight: 1 }, ..batches() },
            PAGE_CACHE,
            "cpu_s_per_gib",
            Limit::None,
        ),
        produce(
            "P14",
            "P1, idempotent producers",
            Load { idempotent: true, acks: -1, ..batches() },
            PAGE_CACHE,
            "cpu_s_per_gib",
            Limit::None,
        ),
        produce(
            "P3",
            "1,000 requests/s of one 100 B record, page cache, 1 connection",
            Load { pace: Pace::Open { per_second: 1000.0 }, ..single(1, 100, 1) },
            PAGE_CACHE,
            "cpu_us_per_request",
            Limit::AtMost(0.3),
        ),
        produce(
            "P3-1",
            "the same as fast as it goes, 1 connection",
            single(1, 100, 1),
            PAGE_CACHE,
            "cpu_us_per_request",
            Limit::None,
        ),
        produce(
            "P3-100",
            "the same as fast as it goes, 100 connections",
            single(100, 100, 1),
            PAGE_CACHE,
            "cpu_us_per_request",
            Limit::None,
        ),
        produce(
            "P9",
            "open loop, 2000 requests/s of one 1 KiB record, page cache",
            open,
            PAGE_CACHE,
            "p99_us",
            Limit::None,
        ),
        Row {
            id: "P10",
            title: "consume from the page cache by Apache's own consumer",
            work: Work::ConsumeByJava,
            metric: "cpu_s_per_gib",
            limit: Limit::AtMost(0.4),
        },
        Row {
            id: "P10-RAW",
            title: "the same by a driver that discards in the kernel, 1 MiB a fetch",
            work: Work::Consume { consumers: 1 },
            metric: "cpu_s_per_gib",
            limit: Limit::None,
        },
        Row {
            id: "P11",
            title: "the same by 10 at once",
            work: Work::Consume { consumers: 10 },
            metric: "cpu_s_per_gib",
            limit: Limit::AtMost(1.0),
        },
        compressed("P13-ZSTD", "P1, zstd", CompressionCodec::Zstd),
        compressed("P13-LZ4", "P1, lz4", CompressionCodec::Lz4),
        compressed("P13-SNAP", "P1, snappy", CompressionCodec::Snappy),
        compressed("P13-GZIP", "P1, gzip", CompressionCodec::Gzip),
        produce(
            "P27",
            "P1, bytes written by the broker for each byte of a batch",
            batches(),
            PAGE_CACHE,
            "written_per_byte",
            Limit::AtMost(1.0),
        ),
        produce(
            "P27-D",
            "the same, durable",
            Load { acks: -1, ..batches() },
            DURABLE,
            "written_per_byte",
            Limit::AtMost(1.0),
        ),
        produce(
            "P5",
            "durable, 1 KiB, 64 connections, 1 partition",
            single(64, 1 << 10, -1),
            DURABLE,
            "requests_per_s",
            Limit::AtLeast(5.0),
        ),
        produce(
            "P6",
            "durable, 1 KiB, 1 connection",
            single(1, 1 << 10, -1),
            DURABLE,
            "requests_per_s",
            Limit::None,
        ),
        produce(
            "P7",
            "durable, 1 KiB, 64 connections, 1,000 partitions",
            Load { partitions: 1000, ..single(64, 1 << 10, -1) },
            DURABLE,
            "requests_per_s",
            Limit::None,
        ),
        session("LOADED", "resident memory after the load", "loaded_mib", Limit::None),
    ]
}

/// The rows of a machine on which every sync takes milliseconds (P8).
pub(crate) fn slow_syncs() -> Vec<Row> {
    let durable = |id, title, connections, at_least| Row {
        id,
        title,
        work: Work::Produce { load: single(connections, 1 << 10, -1), flush_messages: DURABLE },
        metric: "requests_per_s",
        limit: Limit::AtLeast(at_least),
    };
    vec![
        durable("P8", "durable, slow syncs, 1 KiB, 64 connections, 1 partition", 64, 2.7),
        durable("P8-1", "the same, 1 connection", 1, 1.0),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_limits_are_read_right() {
        let rows = all();
        for (index, row) in rows.iter().enumerate() {
            assert!(rows[..index].iter().all(|other| other.id != row.id), "{}", row.id);
        }
        assert!(Limit::AtMost(0.4).holds(0.4) && !Limit::AtMost(0.4).holds(0.41));
        assert!(Limit::AtLeast(5.0).holds(5.0) && !Limit::AtLeast(5.0).holds(4.9));
    }
}
