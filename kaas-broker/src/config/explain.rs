//! `kaas config explain <key>`: everything the tables know of one key.

use std::fmt::Write as _;

use super::def::{Def, Effect};
use super::{Layers, broker, ignored, suggest, topic};

/// A description for people, or the nearest key when there is no such key.
pub fn explain(key: &str, layers: &Layers) -> Result<String, String> {
    let mut text = String::new();
    if let Some(def) = broker::find(key) {
        describe(&mut text, def, "broker");
        let (value, origin) = match layers.setting(key) {
            Some(setting) if !def.sensitive() => (Some(setting.value.as_str()), setting.origin.to_string()),
            Some(setting) => (Some("(hidden)"), setting.origin.to_string()),
            None => (def.default, "default".to_owned()),
        };
        let _ = writeln!(text, "  value    {} ({origin})", value.unwrap_or("(none)"));
    }
    if let Some(row) = topic::find(key) {
        describe(&mut text, &row.def, "topic");
        if let Some(synonym) = row.synonym {
            let _ = writeln!(text, "  broker   {synonym} sets the default of all topics");
        }
    }
    if !text.is_empty() {
        return Ok(text);
    }
    if let Some(reason) = ignored::reason(key) {
        return Ok(format!("{key}: a key of Apache Kafka that does nothing here: {reason}\n"));
    }
    let nearest = suggest::broker_key(key).or_else(|| suggest::topic_key(key));
    Err(match nearest {
        Some(name) => format!("unknown key {key}; did you mean {name}?"),
        None => format!("unknown key {key}"),
    })
}

fn describe(text: &mut String, def: &Def, level: &str) {
    let _ = writeln!(text, "{} ({level} level)", def.name);
    let _ = writeln!(text, "  {}", def.doc);
    let _ = writeln!(text, "  type     {}", format!("{:?}", def.kind).to_lowercase());
    let _ = writeln!(text, "  default  {}", def.default.filter(|text| !text.is_empty()).unwrap_or("(none)"));
    let _ = writeln!(text, "  values   {}", def.check);
    if let Effect::None(reason) = def.effect {
        let _ = writeln!(text, "  effect   none: {reason}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_key_has_an_answer() {
        let layers = Layers::default();
        assert!(explain("flush.messages", &layers).unwrap().contains("log.flush.interval.messages"));
        assert!(explain("listeners", &layers).unwrap().contains("PLAINTEXT://:9092 (default)"));
        assert!(explain("zookeeper.connect", &layers).unwrap().contains("no ZooKeeper"));
        assert!(explain("listenerz", &layers).unwrap_err().contains("did you mean listeners?"));
    }
}
