//! Variables of a case: topics, ids, epochs and what earlier answers said.

use std::collections::BTreeMap;

use anyhow::{Context, Result, anyhow};
use serde_json::Value;

/// The values of a case's variables.
///
/// `$name` is a variable, or else the topic of that name; `${any text}` is always a topic. `$name+1` and `$name-1` count.
/// Topics have names of their own in every run, so that a case never meets what an earlier run left behind.
pub(crate) struct Names {
    /// Precedes every topic's name.
    pub prefix: String,
    values: BTreeMap<String, Value>,
    topics: Vec<String>,
}

impl Names {
    /// No variables yet.
    pub(crate) fn new(prefix: String) -> Self {
        Self { prefix, values: BTreeMap::new(), topics: Vec::new() }
    }

    /// Gives a variable its value.
    pub(crate) fn set(&mut self, name: &str, value: Value) {
        self.values.insert(name.to_owned(), value);
    }

    /// The topics that were spoken of.
    pub(crate) fn topics(&self) -> &[String] {
        &self.topics
    }

    /// The value with every variable in it replaced.
    pub(crate) fn resolve(&mut self, value: &Value) -> Result<Value> {
        Ok(match value {
            Value::String(text) => match text.strip_prefix('$') {
                Some(name) => self.variable(name).with_context(|| format!("in {text}"))?,
                None => value.clone(),
            },
            Value::Array(items) => {
                Value::Array(items.iter().map(|item| self.resolve(item)).collect::<Result<_>>()?)
            }
            Value::Object(map) => Value::Object(
                map.iter()
                    .map(|(key, item)| Ok((key.clone(), self.resolve(item)?)))
                    .collect::<Result<_>>()?,
            ),
            other => other.clone(),
        })
    }

    fn variable(&mut self, text: &str) -> Result<Value> {
        if let Some(topic) = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')) {
            return Ok(self.topic(topic));
        }
        let at = text.find(['+', '-']).unwrap_or(text.len());
        let (name, offset) = text.split_at(at);
        if let Some(value) = self.values.get(name) {
            return match (offset, value.as_i64()) {
                ("", _) => Ok(value.clone()),
                (offset, Some(number)) => Ok(Value::from(number + offset.parse::<i64>()?)),
                _ => Err(anyhow!("${name} is no number")),
            };
        }
        anyhow::ensure!(!text.contains(':'), "no variable is called ${text}");
        Ok(self.topic(text))
    }

    fn topic(&mut self, name: &str) -> Value {
        let name = format!("{}{name}", self.prefix);
        if !self.topics.contains(&name) {
            self.topics.push(name.clone());
        }
        Value::from(name)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn variables_count_and_topics_have_names_of_their_own() {
        let mut names = Names::new("run-".to_owned());
        names.set("epoch", json!(4));
        let resolved =
            names.resolve(&json!(["$epoch", "$epoch+1", "$epoch-5", "$t", "${a.b}", "plain"])).unwrap();
        assert_eq!(resolved, json!([4, 5, -1, "run-t", "run-a.b", "plain"]));
        assert_eq!(names.topics(), ["run-t", "run-a.b"]);
        assert!(names.resolve(&json!("$id:t")).is_err());
    }
}
