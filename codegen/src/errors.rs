//! The protocol's error codes.

use serde::Deserialize;

/// One error code of `schema/errors.json`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ErrorSpec {
    /// The number on the wire.
    pub code: i16,
    /// Kafka's name, such as `OFFSET_OUT_OF_RANGE`.
    pub name: String,
    /// Whether a client may send the same request again.
    pub retriable: bool,
}

/// Parses `schema/errors.json`.
pub fn parse(text: &str) -> serde_json::Result<Vec<ErrorSpec>> {
    serde_json::from_str(text)
}
