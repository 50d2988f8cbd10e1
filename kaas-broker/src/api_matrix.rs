//! The table of APIs: Kafka 3.7's range beside ours, from the protocol registry and the broker's own table.

use std::fmt::Write as _;

use kaas_proto::registry::APIS;

use crate::apis;

/// The book's page. A test compares it with the book, another one with what a running broker answers.
pub fn markdown() -> String {
    let mut text = String::from(HEAD);
    for info in APIS.iter().filter(|info| info.listeners.broker) {
        let kafka = format!("{}-{}", info.valid.min, info.valid.max);
        let (kaas, note) = match apis::find(info.key as i16) {
            Some(api) => (format!("{}-{}", api.versions.min, api.versions.max), api.note),
            None => ("-".to_owned(), ""),
        };
        let flexible = info.flexible_from.map_or_else(|| "-".to_owned(), |version| version.to_string());
        let key = info.key as i16;
        let _ = writeln!(text, "| {key} | {} | {kafka} | {kaas} | {flexible} | {note} |", info.name);
    }
    text
}

const HEAD: &str = "\
# API matrix

What a client of a kaas listener is offered, beside Apache Kafka 3.7.2. An API that is not served is not advertised, so a client
says so cleanly. This page is printed by `kaas api-matrix`; the tests fail when it differs from the program.

| key | API | Kafka 3.7 | kaas | flexible from | note |
| --: | --- | --- | --- | --- | --- |
";
