//! The rows of a produce response.

use kaas_core::{AppendError, Appended};
use kaas_proto::messages::produce_response::{
    BatchIndexAndErrorMessage, PartitionProduceResponse, TopicProduceResponse,
};
use kaas_proto::{ErrorCode, KStr};

use crate::error::append_code;

/// "No offset" in every field of a row.
pub(super) const NO_OFFSET: i64 = -1;

/// Why a partition's records were not appended.
#[derive(Clone)]
pub(super) struct Refusal {
    code: ErrorCode,
    message: Option<String>,
    records: Vec<(i32, String)>,
    log_start: i64,
}

impl From<ErrorCode> for Refusal {
    fn from(code: ErrorCode) -> Refusal {
        Refusal { code, message: None, records: Vec::new(), log_start: NO_OFFSET }
    }
}

impl Refusal {
    /// A refusal in words.
    pub(super) fn because(code: ErrorCode, message: impl Into<String>) -> Refusal {
        Refusal { message: Some(message.into()), ..code.into() }
    }

    /// Its code.
    #[cfg(test)]
    pub(super) fn code(&self) -> ErrorCode {
        self.code
    }

    /// The refusal of a log that begins at `log_start`.
    pub(super) fn of(error: &AppendError, log_start: i64) -> Refusal {
        let records = match error {
            AppendError::InvalidRecord(invalid) => invalid.record_errors.clone(),
            AppendError::InvalidTimestamp(invalid) => invalid.record_errors.clone(),
            _ => Vec::new(),
        };
        // Kafka sends words only with failures of single records and with bytes that are no batch at all, and the log's start unless
        // the batch as a whole was unreadable.
        let no_batch = log_start == NO_OFFSET && matches!(error, AppendError::CorruptBatch(_));
        let message = (!records.is_empty() || no_batch).then(|| error.to_string());
        let unreadable = matches!(
            error,
            AppendError::CorruptBatch(_)
                | AppendError::MessageTooLarge(_)
                | AppendError::RecordListTooLarge(_)
                | AppendError::Storage(_)
                | AppendError::Fenced
                | AppendError::Deleted
        );
        Refusal {
            code: append_code(error),
            message,
            records,
            log_start: if unreadable { NO_OFFSET } else { log_start },
        }
    }
}

/// The rows of a topic.
pub(super) fn topic(name: KStr, partition_responses: Vec<PartitionProduceResponse>) -> TopicProduceResponse {
    TopicProduceResponse { name, partition_responses }
}

/// The row of a partition; of one that nothing was appended to, without offsets.
pub(super) fn row(index: i32, result: Result<Option<Appended>, Refusal>) -> PartitionProduceResponse {
    match result {
        Ok(None) => PartitionProduceResponse { index, base_offset: NO_OFFSET, ..Default::default() },
        Ok(Some(appended)) => PartitionProduceResponse {
            index,
            base_offset: appended.base_offset,
            log_append_time_ms: appended.log_append_time_ms,
            log_start_offset: appended.log_start_offset,
            ..Default::default()
        },
        Err(refusal) => PartitionProduceResponse {
            index,
            error_code: refusal.code.code(),
            base_offset: NO_OFFSET,
            log_append_time_ms: -1,
            log_start_offset: refusal.log_start,
            record_errors: refusal.records.into_iter().map(record_error).collect(),
            error_message: refusal.message.map(KStr::from),
            ..Default::default()
        },
    }
}

fn record_error((batch_index, message): (i32, String)) -> BatchIndexAndErrorMessage {
    BatchIndexAndErrorMessage { batch_index, batch_index_error_message: Some(message.into()) }
}
