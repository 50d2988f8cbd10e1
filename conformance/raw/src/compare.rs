//! Where two transcripts differ, and which differences are known.

use std::cell::Cell;
use std::fmt;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// One place where kaas and Kafka differ.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Difference {
    /// The case.
    pub case: String,
    /// The place: a step's number from 0, the connection, then the keys of the JSON.
    pub place: String,
    /// Kafka's value; `None` when it has none.
    pub kafka: Option<Value>,
    /// kaas's value; `None` when it has none.
    pub kaas: Option<Value>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let show = |value: &Option<Value>| value.as_ref().map_or("nothing".to_owned(), Value::to_string);
        write!(f, "  at    {}\n  Kafka {}\n  kaas  {}", self.place, show(&self.kafka), show(&self.kaas))
    }
}

/// Every place where two transcripts of a case differ.
pub(crate) fn differences(case: &str, kafka: &[Value], kaas: &[Value]) -> Vec<Difference> {
    let mut found = Vec::new();
    for index in 0..kafka.len().max(kaas.len()) {
        walk(case, &index.to_string(), kafka.get(index), kaas.get(index), &mut found);
    }
    found
}

fn walk(case: &str, place: &str, kafka: Option<&Value>, kaas: Option<&Value>, found: &mut Vec<Difference>) {
    if kafka == kaas {
        return;
    }
    match (kafka, kaas) {
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            for key in a.keys().chain(b.keys().filter(|key| !a.contains_key(*key))) {
                walk(case, &format!("{place}/{key}"), a.get(key), b.get(key), found);
            }
        }
        (Some(Value::Array(a)), Some(Value::Array(b))) if a.len() == b.len() => {
            for index in 0..a.len() {
                walk(case, &format!("{place}/{index}"), a.get(index), b.get(index), found);
            }
        }
        _ => found.push(Difference {
            case: case.to_owned(),
            place: place.to_owned(),
            kafka: kafka.cloned(),
            kaas: kaas.cloned(),
        }),
    }
}

/// A difference that is meant, with its reason: a row of the table in `differences.md`.
#[derive(Debug)]
pub(crate) struct Known {
    case: String,
    place: String,
    kafka: Option<Value>,
    kaas: Option<Value>,
    any_kafka: bool,
    any_kaas: bool,
    met: Cell<bool>,
}

/// Reads the table: `| case | place | Kafka 3.7.2 | kaas | why |`. In the first two columns [`glob`] holds.
/// Values are JSON in backquotes, or `nothing`, or `any`.
pub(crate) fn read_known(table: &str) -> Result<Vec<Known>> {
    let rows = table.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        ensure!(cells.len() == 5 && !cells[4].is_empty(), "five columns, the last with a reason: {row}");
        let plain = |text: &str| text.trim_matches('`').to_owned();
        let value = |text: &str| match text {
            "any" | "nothing" => Ok(None),
            text => serde_json::from_str(text.trim_matches('`')).map(Some).with_context(|| row.to_owned()),
        };
        Ok(Known {
            case: plain(cells[0]),
            place: plain(cells[1]),
            kafka: value(cells[2])?,
            kaas: value(cells[3])?,
            any_kafka: cells[2] == "any",
            any_kaas: cells[3] == "any",
            met: Cell::new(false),
        })
    })
    .collect()
}

impl Known {
    /// Whether this row explains a difference; it then counts as met.
    pub(crate) fn explains(&self, difference: &Difference) -> bool {
        let matches = glob(&self.case, &difference.case)
            && glob(&self.place, &difference.place)
            && (self.any_kafka || self.kafka == difference.kafka)
            && (self.any_kaas || self.kaas == difference.kaas);
        self.met.set(self.met.get() || matches);
        matches
    }

    /// Whether the row explained something.
    pub(crate) fn was_met(&self) -> bool {
        self.met.get()
    }
}

impl fmt::Display for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.case, self.place)
    }
}

/// Whether `text` is `pattern`, in which `*` stands for any text and `{a,b}` for a or b.
pub(crate) fn glob(pattern: &str, text: &str) -> bool {
    if let Some((start, rest)) = pattern.split_once('{')
        && let Some((choices, end)) = rest.split_once('}')
    {
        return choices.split(',').any(|choice| glob(&format!("{start}{choice}{end}"), text));
    }
    match pattern.split_once('*') {
        None => pattern == text,
        Some((start, rest)) => text.strip_prefix(start).is_some_and(|text| {
            (0..=text.len()).filter(|at| text.is_char_boundary(*at)).any(|at| glob(rest, &text[at..]))
        }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn differences_are_told_by_place() {
        let kafka = [json!({ "a": { "body": { "x": 1, "list": [1, 2] } } }), json!({ "a": "closed" })];
        let kaas = [json!({ "a": { "body": { "x": 2, "list": [1, 2], "y": 3 } } })];
        let found = differences("c", &kafka, &kaas);
        let places: Vec<&str> = found.iter().map(|one| one.place.as_str()).collect();
        assert_eq!(places, ["0/a/body/x", "0/a/body/y", "1"]);
        assert_eq!(differences("c", &kafka, &kafka), []);
    }

    #[test]
    fn a_known_difference_covers_its_own_values_only() {
        let known = read_known("| `c/*` | `0/a/body/x` | `1` | nothing | because |").unwrap();
        let difference = |kafka: i64| Difference {
            case: "c/v3".to_owned(),
            place: "0/a/body/x".to_owned(),
            kafka: Some(json!(kafka)),
            kaas: None,
        };
        assert!(!known[0].explains(&difference(2)) && !known[0].was_met());
        assert!(known[0].explains(&difference(1)) && known[0].was_met());
        assert!(read_known("| `c` | `0` | `1` | `2` | |").is_err());
    }

    #[test]
    fn globs() {
        assert!(glob("a*c", "abbc") && glob("*", "") && glob("produce/*/v3", "produce/x/v3"));
        assert!(!glob("a*c", "abcd") && !glob("a", "ab"));
        assert!(glob("{a,b}/{c,*d}", "b/xd") && glob("{a,b}*", "a") && !glob("{a,b}", "c"));
    }
}
