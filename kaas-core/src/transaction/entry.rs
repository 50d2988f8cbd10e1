//! One change of a transactional id: a line of the journal.

use serde::{Deserialize, Serialize};

use super::Metadata;

/// The new state of a transactional id, whole, or that it is gone.
///
/// `{"transactional_id":"t","state":{...}}` or `{"transactional_id":"t","removed":true}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Whose.
    pub transactional_id: String,
    /// What it is now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<Metadata>,
    /// Whether it is forgotten.
    #[serde(default, skip_serializing_if = "is_false")]
    pub removed: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

impl Entry {
    pub(super) fn state(transactional_id: &str, state: Metadata) -> Self {
        Self { transactional_id: transactional_id.to_owned(), state: Some(state), removed: false }
    }

    pub(super) fn removed(transactional_id: &str) -> Self {
        Self { transactional_id: transactional_id.to_owned(), state: None, removed: true }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transaction::{Partitions, State};

    #[test]
    fn entries_are_lines_that_people_can_read() {
        let mut partitions = Partitions::default();
        partitions.insert("orders", 1);
        let state = Metadata {
            status: State::Ongoing,
            producer_id: 4000,
            producer_epoch: 3,
            last_producer_id: None,
            last_producer_epoch: Some(2),
            timeout_ms: 60_000,
            partitions,
            start_timestamp_ms: Some(17),
            last_update_timestamp_ms: 18,
        };
        let entry = Entry::state("t", state);
        let line = concat!(
            r#"{"transactional_id":"t","state":{"status":"Ongoing","producer_id":4000,"producer_epoch":3,"#,
            r#""last_producer_epoch":2,"timeout_ms":60000,"partitions":{"orders":[1]},"start_timestamp_ms":17,"#,
            r#""last_update_timestamp_ms":18}}"#
        );
        assert_eq!(serde_json::to_string(&entry).unwrap(), line);
        assert_eq!(serde_json::from_str::<Entry>(line).unwrap(), entry);
        let removed = Entry::removed("t");
        assert_eq!(serde_json::to_string(&removed).unwrap(), r#"{"transactional_id":"t","removed":true}"#);
    }
}
