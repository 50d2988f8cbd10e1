//! The schema files as they are written: a strict mirror of their JSON.

use serde::{Deserialize, Serialize};

/// One message's schema: the facts of one file under `schema/`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MessageSpec {
    /// The API key; only requests and responses have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_key: Option<i16>,
    /// What kind of message this is.
    #[serde(rename = "type")]
    pub kind: Kind,
    /// The listeners that serve the request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub listeners: Vec<Listener>,
    /// The name, such as `FetchRequest`.
    pub name: String,
    /// The versions that exist.
    pub valid_versions: String,
    /// The versions that Kafka calls deprecated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deprecated_versions: Option<String>,
    /// The versions with compact lengths and tagged fields.
    pub flexible_versions: String,
    /// Whether the highest version may still change and is therefore not advertised.
    #[serde(default, skip_serializing_if = "is_false")]
    pub latest_version_unstable: bool,
    /// The fields in wire order.
    pub fields: Vec<FieldSpec>,
    /// Structs that several fields share.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub common_structs: Vec<StructSpec>,
}

/// The `type` of a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Kind {
    /// What a client sends.
    Request,
    /// What the broker answers.
    Response,
    /// What precedes either.
    Header,
    /// What is stored in records or in opaque bytes.
    Data,
}

/// A listener kind in a request's schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Listener {
    /// A broker of a ZooKeeper cluster.
    ZkBroker,
    /// A broker.
    Broker,
    /// A controller.
    Controller,
}

/// A struct in `commonStructs`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StructSpec {
    /// The name that fields refer to.
    pub name: String,
    /// The versions that can hold the struct.
    pub versions: String,
    /// The fields in wire order.
    pub fields: Vec<FieldSpec>,
}

/// One field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FieldSpec {
    /// The name, in camel case.
    pub name: String,
    /// The type, such as `int32`, `[]string` or `[]FetchTopic`.
    #[serde(rename = "type")]
    pub ty: String,
    /// The versions that have the field.
    pub versions: String,
    /// The versions in which the field may be null.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nullable_versions: Option<String>,
    /// The value of a field that is absent, as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    /// The tag of a tagged field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<u32>,
    /// The versions in which the field is tagged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tagged_versions: Option<String>,
    /// Overrides the message's flexible versions for this field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flexible_versions: Option<String>,
    /// What the value identifies, such as `topicName`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entity_type: Option<String>,
    /// Whether the field is part of the key of the array that holds its struct.
    #[serde(default, skip_serializing_if = "is_false")]
    pub map_key: bool,
    /// Whether a version without the field may drop its value.
    #[serde(default, skip_serializing_if = "is_false")]
    pub ignorable: bool,
    /// Whether Kafka's own code reads the field without a copy.
    #[serde(default, skip_serializing_if = "is_false")]
    pub zero_copy: bool,
    /// The fields of the struct that is declared here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<FieldSpec>,
}

fn is_false(value: &bool) -> bool {
    !value
}

/// Parses one file of `schema/`.
pub fn parse(text: &str) -> serde_json::Result<MessageSpec> {
    serde_json::from_str(text)
}

/// Prints a schema as `schema/` holds it: keys in a fixed order, two spaces, a final newline.
pub fn print(spec: &MessageSpec) -> serde_json::Result<String> {
    let mut text = serde_json::to_string_pretty(spec)?;
    text.push('\n');
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_keys_are_refused() {
        let known = r#"{"type":"data","name":"A","validVersions":"0","flexibleVersions":"none","fields":[]}"#;
        assert!(parse(known).is_ok());
        let unknown = known.replace("\"name\"", "\"surprise\":1,\"name\"");
        assert!(parse(&unknown).unwrap_err().to_string().contains("surprise"));
    }
}
