//! What an API answers when it fails: a Kafka code and a sentence.

mod mapping;

use kaas_proto::{ErrorCode, KStr};

pub use mapping::{
    append_code, coordinator_code, create_topic_code, delete_records_code, delete_topic_code, group_code,
    producer_id_code, read_code, transaction_code,
};

/// Bytes of the longest string before the flexible versions: its length is 16 bits. A response with a longer one cannot be sent.
pub const STRING_BYTES_MAX: usize = i16::MAX as usize;

/// A failure with the code that a Kafka client understands.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{}", .code.name(), .message.as_ref().map(|text| format!(": {text}")).unwrap_or_default())]
pub struct ApiError {
    /// Kafka's code.
    pub code: ErrorCode,
    /// What happened, in words for the client; the code's own name when there is nothing to add.
    pub message: Option<String>,
}

impl ApiError {
    /// A failure that its code describes well enough.
    pub fn new(code: ErrorCode) -> ApiError {
        ApiError { code, message: None }
    }

    /// A failure with a sentence for the client.
    pub fn because(code: ErrorCode, message: impl Into<String>) -> ApiError {
        ApiError { code, message: Some(message.into()) }
    }

    /// The sentence, or the code's name.
    pub fn message(&self) -> KStr {
        self.sentence().unwrap_or(KStr::from(self.code.name()))
    }

    /// The sentence, cut where the oldest versions could not carry it: it may quote what the client sent.
    pub fn sentence(&self) -> Option<KStr> {
        let text = self.message.as_deref()?;
        let mut end = text.len().min(STRING_BYTES_MAX);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        Some(KStr::from(&text[..end]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_fits_every_version() {
        let error = ApiError::because(ErrorCode::InvalidConfig, "é".repeat(STRING_BYTES_MAX));
        assert_eq!(error.message().len(), STRING_BYTES_MAX - 1, "cut between two characters");
        assert_eq!(ApiError::because(ErrorCode::InvalidConfig, "short").message().as_str(), "short");
        assert_eq!(ApiError::new(ErrorCode::InvalidConfig).sentence(), None);
    }
}
