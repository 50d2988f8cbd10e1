//! What every record must satisfy, whatever format it comes in; the answers are Kafka 3.7's.

use crate::config::{LogConfig, TimestampType};
use crate::error::{AppendError, InvalidRecord, InvalidTimestamp};

/// A record without a timestamp.
pub(super) const NO_TIMESTAMP: i64 = -1;
/// Most record errors that one refusal lists.
const RECORD_ERRORS_MAX: usize = 1000;

/// Looks at the records of one batch in order and collects what is wrong with them.
pub(super) struct RecordRules<'a> {
    config: &'a LogConfig,
    now_ms: i64,
    /// Whether the producer claims that the timestamps are the broker's.
    log_append_time: bool,
    index: i32,
    record_errors: Vec<(i32, String)>,
    timestamps: bool,
}

impl<'a> RecordRules<'a> {
    pub(super) fn new(config: &'a LogConfig, now_ms: i64, log_append_time: bool) -> Self {
        Self { config, now_ms, log_append_time, index: 0, record_errors: Vec::new(), timestamps: false }
    }

    /// The index of the next record.
    pub(super) fn index(&self) -> i32 {
        self.index
    }

    /// Looks at the next record. True while nothing was wrong.
    pub(super) fn check(&mut self, timestamp: i64, has_key: bool) -> bool {
        if self.record_errors.len() < RECORD_ERRORS_MAX {
            if self.config.compact && !has_key {
                self.put("Compacted topic cannot accept message without key".to_owned());
            } else if let Some(why) = self.timestamp_fault(timestamp) {
                self.timestamps = true;
                self.put(why);
            }
        }
        self.index = self.index.saturating_add(1);
        self.record_errors.is_empty()
    }

    /// Refuses the next record for a reason of its format.
    pub(super) fn refuse(&mut self, why: String) {
        if self.record_errors.len() < RECORD_ERRORS_MAX {
            self.put(why);
        }
        self.index = self.index.saturating_add(1);
    }

    fn put(&mut self, why: String) {
        self.record_errors.push((self.index, why));
    }

    fn timestamp_fault(&self, timestamp: i64) -> Option<String> {
        let LogConfig { timestamp_before_max_ms: before, timestamp_after_max_ms: after, .. } = *self.config;
        let index = self.index;
        if self.config.timestamp_type == TimestampType::CreateTime && timestamp != NO_TIMESTAMP {
            let age = self.now_ms.saturating_sub(timestamp);
            return (age > before || age.saturating_neg() > after).then(|| {
                format!(
                    "Timestamp {timestamp} of message with offset {index} is out of range. The timestamp should be within [{}, {}]",
                    self.now_ms.saturating_sub(before),
                    self.now_ms.saturating_add(after)
                )
            });
        }
        self.log_append_time.then(|| {
            format!("Invalid timestamp type in message {index}. Producer should not set timestamp type to LogAppendTime.")
        })
    }

    /// The refusal of the whole batch, if any record is wrong.
    pub(super) fn finish(self) -> Result<(), AppendError> {
        let record_errors = self.record_errors;
        if record_errors.is_empty() {
            return Ok(());
        }
        if self.timestamps {
            let message = "One or more records have been rejected due to invalid timestamp".to_owned();
            return Err(InvalidTimestamp { message, record_errors }.into());
        }
        let message = format!(
            "One or more records have been rejected due to {} record errors in total, and only showing the first three errors at most",
            record_errors.len()
        );
        Err(InvalidRecord { message, record_errors }.into())
    }
}
