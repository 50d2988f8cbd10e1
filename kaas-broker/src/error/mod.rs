//! What an API answers when it fails: a Kafka code and a sentence.

mod mapping;

use kaas_proto::{ErrorCode, KStr};

pub use mapping::{append_code, create_topic_code, delete_topic_code, producer_id_code, read_code};

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
        match &self.message {
            Some(text) => KStr::from(text.clone()),
            None => KStr::from(self.code.name()),
        }
    }
}
