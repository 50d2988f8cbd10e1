//! The known key nearest to one that nobody knows.

use super::{broker, topic};

/// How many edits away a suggestion may lie, as a share of the longer name.
const NEAR_ENOUGH: f64 = 0.7;

/// The broker-level key that was probably meant.
pub fn broker_key(unknown: &str) -> Option<&'static str> {
    nearest(unknown, broker::BROKER.iter().map(|def| def.name))
}

/// The topic-level key that was probably meant.
pub fn topic_key(unknown: &str) -> Option<&'static str> {
    nearest(unknown, topic::TOPIC.iter().map(|row| row.def.name))
}

fn nearest(unknown: &str, known: impl Iterator<Item = &'static str>) -> Option<&'static str> {
    known
        // Each missing letter is an edit, so a name of another size cannot be near; a client may send a very long one.
        .filter(|name| name.len() as f64 >= NEAR_ENOUGH * unknown.chars().count() as f64)
        .map(|name| (strsim::normalized_levenshtein(unknown, name), name))
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .filter(|(score, _)| *score >= NEAR_ENOUGH)
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_finds_its_key_and_noise_finds_none() {
        assert_eq!(broker_key("listener"), Some("listeners"));
        assert_eq!(broker_key("auto.create.topic.enable"), Some("auto.create.topics.enable"));
        assert_eq!(topic_key("retention_ms"), Some("retention.ms"));
        assert_eq!(broker_key("zzzz"), None);
    }
}
