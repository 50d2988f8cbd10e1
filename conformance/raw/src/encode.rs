//! Requests from JSON, by the schemas.
//!
//! This walks the schemas itself instead of using the codec, for two reasons: the codec's own mistakes cannot hide, and
//! a hostile request can say what no codec would write (a count without elements, text that is not UTF-8).

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail, ensure};
use kaas_codegen::model::{Default, Field, Message, Struct, Type};
use kaas_proto::uuid_text;
use serde_json::{Map, Value};

use crate::batch;

/// The key of a struct's unknown tagged fields: an object of tag to hexadecimal bytes.
const TAGS: &str = "$tags";
/// The key of an array's or string's claimed length, beside `items` or `hex`.
const COUNT: &str = "$count";

/// Every message by name.
pub(crate) struct Schemas(BTreeMap<String, Message>);

impl Schemas {
    /// Reads the folder of schemas.
    pub(crate) fn load(folder: &Path) -> Result<Self> {
        let schema = kaas_codegen::load(folder)?;
        Ok(Self(schema.messages.into_iter().map(|message| (message.name.clone(), message)).collect()))
    }

    /// The bytes of a message whose fields are `body`'s; a field that `body` lacks has the schema's default.
    ///
    /// A field of another version is left out, so that one body serves many versions. A name that the schema does not
    /// have is an error.
    pub(crate) fn encode(&self, name: &str, version: i16, body: &Value) -> Result<Vec<u8>> {
        let message = self.0.get(name).ok_or_else(|| anyhow!("no message is called {name}"))?;
        let flexible = message.flexible_from.is_some_and(|from| version >= from);
        let mut encoder = Encoder { message, version, flexible, out: Vec::new() };
        encoder.structure(name, body).with_context(|| format!("{name} v{version}"))?;
        Ok(encoder.out)
    }
}

struct Encoder<'a> {
    message: &'a Message,
    version: i16,
    flexible: bool,
    out: Vec<u8>,
}

impl<'a> Encoder<'a> {
    fn declared(&self, name: &str) -> Result<&'a Struct> {
        self.message.structs.iter().find(|one| one.name == name).ok_or_else(|| anyhow!("no struct {name}"))
    }

    fn structure(&mut self, name: &str, value: &Value) -> Result<()> {
        let declared = self.declared(name)?;
        let empty = Map::new();
        let given = match value {
            Value::Object(map) => map,
            Value::Null => &empty,
            other => bail!("{name} is an object, not {other}"),
        };
        for key in given.keys().filter(|key| *key != TAGS) {
            ensure!(declared.fields.iter().any(|field| field.json_name == *key), "{name} has no {key}");
        }
        let mut tagged: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
        let version = self.version;
        for field in declared.fields.iter().filter(|field| field.versions.contains(version)) {
            let value = given.get(&field.json_name);
            match (field.tag, value) {
                (Some(_), None) => {}
                (Some(tag), Some(value)) => {
                    let outer = std::mem::take(&mut self.out);
                    self.field(field, Some(value))?;
                    tagged.insert(tag, std::mem::replace(&mut self.out, outer));
                }
                (None, value) => self.field(field, value)?,
            }
        }
        if let Some(Value::Object(unknown)) = given.get(TAGS) {
            for (tag, bytes) in unknown {
                tagged.insert(tag.parse()?, from_hex(text(bytes)?)?);
            }
        }
        if self.flexible {
            self.uvarint(tagged.len() as u32);
            for (tag, bytes) in tagged {
                self.uvarint(tag);
                self.uvarint(bytes.len() as u32);
                self.out.extend(bytes);
            }
        }
        Ok(())
    }

    fn field(&mut self, field: &Field, value: Option<&Value>) -> Result<()> {
        let absent = match &field.default {
            Default::Zero => zero(&field.ty),
            Default::Null => Value::Null,
            Default::True => Value::Bool(true),
            Default::Integer(number) => Value::from(*number),
        };
        let nullable = field.nullable_versions.contains(self.version);
        let compact = self.flexible && !field.never_flexible;
        let value = value.unwrap_or(&absent);
        self.value(&field.ty, value, nullable, compact).with_context(|| field.json_name.clone())
    }

    fn value(&mut self, ty: &Type, value: &Value, nullable: bool, compact: bool) -> Result<()> {
        match ty {
            Type::Bool => self.out.push(u8::from(value.as_bool().context("a bool")?)),
            Type::Int8 => self.out.extend((number(value)? as i8).to_be_bytes()),
            Type::Int16 | Type::Uint16 => self.out.extend((number(value)? as i16).to_be_bytes()),
            Type::Int32 | Type::Uint32 => self.out.extend((number(value)? as i32).to_be_bytes()),
            Type::Int64 => self.out.extend(number(value)?.to_be_bytes()),
            Type::Float64 => self.out.extend(value.as_f64().context("a number")?.to_be_bytes()),
            Type::Uuid => self.out.extend(uuid_text::decode(text(value)?).context("a uuid")?.as_bytes()),
            Type::String | Type::Bytes => {
                let bytes = match value {
                    Value::Null => None,
                    Value::Object(map) => Some(from_hex(text(map.get("hex").context("hex")?)?)?),
                    value => Some(text(value)?.as_bytes().to_vec()),
                };
                self.length(value, bytes.as_ref().map(Vec::len), compact, *ty == Type::String);
                self.out.extend(bytes.unwrap_or_default());
            }
            Type::Records => {
                let bytes = batch::encode_all(value)?;
                self.length(value, bytes.as_ref().map(Vec::len), compact, false);
                self.out.extend(bytes.unwrap_or_default());
            }
            Type::Struct(name) => {
                if nullable {
                    self.out.push(if value.is_null() { 0xff } else { 1 });
                }
                if !(nullable && value.is_null()) {
                    self.structure(name, value)?;
                }
            }
            Type::Array(element) => {
                let items = match value {
                    Value::Null => None,
                    Value::Object(map) => map.get("items").and_then(Value::as_array),
                    value => Some(value.as_array().context("an array")?),
                };
                self.length(value, items.map(Vec::len), compact, false);
                for item in items.into_iter().flatten() {
                    self.value(element, item, false, compact)?;
                }
            }
        }
        Ok(())
    }

    /// A length, or the length that the value claims to have, or null.
    fn length(&mut self, value: &Value, length: Option<usize>, compact: bool, short: bool) {
        let length =
            value.get(COUNT).and_then(Value::as_i64).or(length.map(|length| length as i64)).unwrap_or(-1);
        match (compact, short) {
            (true, _) => self.uvarint((length + 1) as u32),
            (false, true) => self.out.extend((length as i16).to_be_bytes()),
            (false, false) => self.out.extend((length as i32).to_be_bytes()),
        }
    }

    fn uvarint(&mut self, mut number: u32) {
        while number >= 0x80 {
            self.out.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.out.push(number as u8);
    }
}

fn zero(ty: &Type) -> Value {
    match ty {
        Type::Bool => Value::Bool(false),
        Type::Uuid => Value::from("AAAAAAAAAAAAAAAAAAAAAA"),
        Type::String | Type::Bytes => Value::from(""),
        Type::Records => Value::Null,
        Type::Struct(_) => Value::Object(Map::new()),
        Type::Array(_) => Value::Array(Vec::new()),
        _ => Value::from(0),
    }
}

/// The integer of a JSON value.
pub(crate) fn number(value: &Value) -> Result<i64> {
    value.as_i64().ok_or_else(|| anyhow!("{value} is not an integer"))
}

/// The text of a JSON value.
pub(crate) fn text(value: &Value) -> Result<&str> {
    value.as_str().ok_or_else(|| anyhow!("{value} is not a string"))
}

/// Bytes from hexadecimal digits; spaces may lie between.
pub(crate) fn from_hex(digits: &str) -> Result<Vec<u8>> {
    let digits: Vec<u8> = digits.bytes().filter(|byte| *byte != b' ').collect();
    ensure!(digits.len().is_multiple_of(2), "an odd number of hexadecimal digits");
    digits.chunks(2).map(|pair| Ok(u8::from_str_radix(std::str::from_utf8(pair)?, 16)?)).collect()
}

/// Hexadecimal digits of bytes.
pub(crate) fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use kaas_proto::json::CATALOGUE;

    use super::*;

    /// The codec's and this walker's idea of every message at every version are the same bytes.
    #[test]
    fn defaults_are_the_codecs() {
        let schemas = Schemas::load(&PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../schema")).unwrap();
        let mut compared = 0;
        for entry in &CATALOGUE {
            for version in entry.valid.min..=entry.valid.max {
                let ours = schemas.encode(entry.name, version, &Value::Null).unwrap();
                let theirs = (entry.encode_default)(version).unwrap().to_bytes().unwrap();
                assert_eq!(to_hex(&ours), to_hex(&theirs), "{} v{version}", entry.name);
                compared += 1;
            }
        }
        assert!(compared > 400, "{compared}");
    }
}
