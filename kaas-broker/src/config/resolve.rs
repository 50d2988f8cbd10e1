//! The effective value of a topic-level key, and the typed configuration of a log.

use std::collections::BTreeMap;

use kaas_core::LogConfig;

use super::def::{InvalidValue, list};
use super::topic::{self, TopicDef};
use super::{Layers, suggest};
use crate::error::STRING_BYTES_MAX;

/// A topic's own settings, by key.
pub type Overrides = BTreeMap<String, String>;

/// Why a topic's settings were refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TopicConfigError {
    /// A key that Kafka 3.7 does not have.
    #[error("Unknown topic config name: {key}{}", .nearest.map(|name| format!("; did you mean {name}?")).unwrap_or_default())]
    Unknown {
        /// The key.
        key: String,
        /// The key that was probably meant.
        nearest: Option<&'static str>,
    },
    /// A key without a value.
    #[error("Null value not supported for topic configs: {0}")]
    Null(String),
    /// A value that the older versions of DescribeConfigs could not show.
    #[error("The value of {0} has {1} bytes, more than {STRING_BYTES_MAX}")]
    TooLong(String, usize),
    /// A value that its key does not take.
    #[error(transparent)]
    Invalid(#[from] InvalidValue),
}

/// Checks one setting and gives its canonical text.
pub fn check(key: &str, value: Option<&str>) -> Result<String, TopicConfigError> {
    let Some(row) = topic::find(key) else {
        return Err(TopicConfigError::Unknown { key: key.to_owned(), nearest: suggest::topic_key(key) });
    };
    let value = value.ok_or_else(|| TopicConfigError::Null(key.to_owned()))?;
    if value.len() > STRING_BYTES_MAX {
        return Err(TopicConfigError::TooLong(key.to_owned(), value.len()));
    }
    Ok(row.def.normalise(value)?)
}

/// The broker's default of a topic-level key: its synonym's value, else the table's.
pub fn broker_default(row: &TopicDef, layers: &Layers) -> String {
    let fallback = || row.def.default.unwrap_or_default().to_owned();
    let Some(synonym) = row.synonym else { return fallback() };
    if let Some(value) = layers.get(synonym) {
        return value.to_owned();
    }
    coarser(synonym)
        .iter()
        .find_map(|(key, ms)| {
            let count: i64 = layers.setting(key)?.value.parse().ok()?;
            Some(if count < 0 { -1 } else { count.saturating_mul(*ms) }.to_string())
        })
        .unwrap_or_else(fallback)
}

/// Kafka's older keys with coarser units, and their unit in milliseconds; the finer one wins.
fn coarser(synonym: &str) -> &'static [(&'static str, i64)] {
    match synonym {
        "log.retention.ms" => &[("log.retention.minutes", 60_000), ("log.retention.hours", 3_600_000)],
        "log.roll.ms" => &[("log.roll.hours", 3_600_000)],
        "log.roll.jitter.ms" => &[("log.roll.jitter.hours", 3_600_000)],
        _ => &[],
    }
}

/// The effective text of a topic-level key.
pub fn effective(row: &TopicDef, overrides: &Overrides, layers: &Layers) -> String {
    overrides.get(row.def.name).cloned().unwrap_or_else(|| broker_default(row, layers))
}

/// The typed configuration of a topic's logs.
pub fn log_config(overrides: &Overrides, layers: &Layers) -> LogConfig {
    let text = |key: &str| topic::find(key).map(|row| effective(row, overrides, layers)).unwrap_or_default();
    let number = |key: &str| text(key).parse::<i64>().expect("the table checks numbers and gives defaults");
    let unsigned = |key: &str| u32::try_from(number(key)).unwrap_or(0);
    let difference = number("message.timestamp.difference.max.ms");
    // Kafka reads the deprecated key only where the newer one is at its default.
    let bound = |key: &str| match number(key) {
        i64::MAX => difference,
        bound => bound,
    };
    LogConfig {
        segment_bytes: unsigned("segment.bytes"),
        index_interval_bytes: unsigned("index.interval.bytes"),
        index_bytes_max: unsigned("segment.index.bytes"),
        message_bytes_max: unsigned("max.message.bytes"),
        flush_messages: number("flush.messages").unsigned_abs(),
        delete: list(&text("cleanup.policy")).any(|policy| policy == "delete"),
        compact: list(&text("cleanup.policy")).any(|policy| policy == "compact"),
        timestamp_type: match text("message.timestamp.type").as_str() {
            "LogAppendTime" => kaas_core::TimestampType::LogAppendTime,
            _ => kaas_core::TimestampType::CreateTime,
        },
        timestamp_before_max_ms: bound("message.timestamp.before.max.ms"),
        timestamp_after_max_ms: bound("message.timestamp.after.max.ms"),
        retention_ms: number("retention.ms"),
        retention_bytes: number("retention.bytes"),
        segment_ms: number("segment.ms"),
        segment_jitter_ms: number("segment.jitter.ms"),
        file_delete_delay_ms: number("file.delete.delay.ms"),
        compression: match text("compression.type").as_str() {
            "uncompressed" => kaas_core::Compression::Uncompressed,
            "gzip" => kaas_core::Compression::Gzip,
            "snappy" => kaas_core::Compression::Snappy,
            "lz4" => kaas_core::Compression::Lz4,
            "zstd" => kaas_core::Compression::Zstd,
            _ => kaas_core::Compression::Producer,
        },
        down_conversion: text("message.downconversion.enable") == "true",
        min_cleanable_dirty_ratio: text("min.cleanable.dirty.ratio")
            .parse()
            .expect("the table checks numbers and gives defaults"),
        min_compaction_lag_ms: number("min.compaction.lag.ms"),
        max_compaction_lag_ms: number("max.compaction.lag.ms"),
        delete_retention_ms: number("delete.retention.ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Origin;

    #[test]
    fn a_topic_overrides_the_broker_and_the_broker_the_table() {
        let mut layers = Layers::default();
        let overrides = Overrides::from([("segment.bytes".to_owned(), "100".to_owned())]);
        layers.set("log.segment.bytes", "200", Origin::Override).unwrap();
        assert_eq!(log_config(&overrides, &layers).segment_bytes, 100);
        assert_eq!(log_config(&Overrides::new(), &layers).segment_bytes, 200);
        assert_eq!(log_config(&Overrides::new(), &Layers::default()).segment_bytes, 1 << 30);
        assert_eq!(log_config(&Overrides::new(), &Layers::default()).flush_messages, 1);
    }

    #[test]
    fn every_codec_that_a_topic_may_name_is_one_of_the_engine() {
        let names = super::super::topic::COMPRESSION_TYPES;
        let codecs = names.iter().map(|name| {
            let value = check("compression.type", Some(name)).unwrap();
            log_config(&Overrides::from([("compression.type".to_owned(), value)]), &Layers::default())
                .compression
        });
        use kaas_core::Compression::{Gzip, Lz4, Producer, Snappy, Uncompressed, Zstd};
        assert_eq!(codecs.collect::<Vec<_>>(), [Uncompressed, Zstd, Lz4, Snappy, Gzip, Producer]);
        assert!(matches!(check("compression.type", Some("brotli")), Err(TopicConfigError::Invalid(_))));
    }

    #[test]
    fn the_finest_unit_wins() {
        let mut layers = Layers::default();
        let row = topic::find("retention.ms").unwrap();
        layers.set("log.retention.hours", "2", Origin::Override).unwrap();
        assert_eq!(broker_default(row, &layers), "7200000");
        layers.set("log.retention.minutes", "1", Origin::Override).unwrap();
        assert_eq!(broker_default(row, &layers), "60000");
        layers.set("log.retention.ms", "5", Origin::Override).unwrap();
        assert_eq!(broker_default(row, &layers), "5");
        layers.set("log.retention.ms", "-1", Origin::Override).unwrap();
        assert_eq!(broker_default(row, &layers), "-1");
    }

    #[test]
    fn unknown_null_and_bad_settings_are_told_apart() {
        assert!(matches!(check("retention", Some("1")), Err(TopicConfigError::Unknown { .. })));
        assert!(matches!(check("retention.ms", None), Err(TopicConfigError::Null(_))));
        assert!(matches!(check("retention.ms", Some("-2")), Err(TopicConfigError::Invalid(_))));
        assert_eq!(check("retention.ms", Some(" 5 ")).unwrap(), "5");
        let long = "x".repeat(STRING_BYTES_MAX + 1);
        assert!(matches!(check("message.format.version", Some(&long)), Err(TopicConfigError::TooLong(..))));
    }
}
