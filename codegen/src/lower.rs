//! From what a schema says to what it means, with every semantic check.

use std::collections::{BTreeMap, BTreeSet};

use heck::ToSnakeCase;

use crate::errors::ErrorSpec;
use crate::model::{Api, Default, Field, Message, Place, Schema, Struct, Type};
use crate::overrides;
use crate::spec::{FieldSpec, Kind, MessageSpec, StructSpec};
use crate::versions::{BadVersions, Versions};

/// A schema that makes no sense: what and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{at}: {problem}")]
pub struct LowerError {
    /// The message, and the field where one is to blame.
    pub at: String,
    /// What is wrong.
    pub problem: String,
}

type Result<T> = std::result::Result<T, LowerError>;

fn fail<T>(at: impl Into<String>, problem: impl Into<String>) -> Result<T> {
    Err(LowerError { at: at.into(), problem: problem.into() })
}

/// Resolves every schema.
pub fn lower(specs: &[(MessageSpec, Place)], errors: Vec<ErrorSpec>) -> Result<Schema> {
    let mut messages: Vec<Message> =
        specs.iter().map(|(spec, place)| lower_message(spec, *place)).collect::<Result<_>>()?;
    messages.sort_by(|a, b| (a.place, &a.name).cmp(&(b.place, &b.name)));
    check_overrides(specs)?;
    let apis = lower_apis(specs, &messages)?;
    if !errors.is_sorted_by(|a, b| a.code < b.code) {
        return fail("errors.json", "codes must be unique and in order");
    }
    Ok(Schema { messages, apis, errors })
}

/// Every override must speak of a field that exists, or a renamed field would silently lose its protection.
fn check_overrides(specs: &[(MessageSpec, Place)]) -> Result<()> {
    fn has(fields: &[FieldSpec], name: &str) -> bool {
        fields.iter().any(|field| field.name == name || has(&field.fields, name))
    }
    for (message, field) in overrides::mentioned() {
        if let Some((spec, _)) = specs.iter().find(|(spec, _)| spec.name == message)
            && !has(&spec.fields, field)
            && !spec.common_structs.iter().any(|common| has(&common.fields, field))
        {
            return fail(message, format!("an override speaks of {field}, which does not exist"));
        }
    }
    Ok(())
}

fn lower_apis(specs: &[(MessageSpec, Place)], messages: &[Message]) -> Result<Vec<Api>> {
    let mut apis: Vec<Api> = Vec::new();
    for (spec, _) in specs.iter().filter(|(spec, _)| spec.kind == Kind::Request) {
        let at = &spec.name;
        let find = |name: &str| messages.iter().find(|message| message.name == name);
        let Some(name) = spec.name.strip_suffix("Request") else {
            return fail(at, "a request's name must end in Request");
        };
        let (Some(request), Some(response)) = (find(at), find(&format!("{name}Response"))) else {
            return fail(at, "the request has no response");
        };
        let Some(key) = request.api_key else {
            return fail(at, "a request must have an API key");
        };
        let facts = |message: &Message| (message.api_key, message.valid, message.flexible_from);
        if facts(request) != facts(response) {
            return fail(at, "request and response differ in key, versions or flexible versions");
        }
        let deprecated =
            spec.deprecated_versions.as_deref().map_or(Ok(Versions::NONE), |text| parse(text, at))?;
        apis.push(Api {
            key,
            name: name.to_owned(),
            valid: request.valid,
            flexible_from: request.flexible_from,
            deprecated,
            listeners: spec.listeners.clone(),
            latest_version_unstable: spec.latest_version_unstable,
        });
    }
    apis.sort_by_key(|api| api.key);
    if let Some(pair) = apis.windows(2).find(|pair| pair[0].key == pair[1].key) {
        return fail(&pair[0].name, format!("shares its API key with {}", pair[1].name));
    }
    Ok(apis)
}

fn parse(text: &str, at: &str) -> Result<Versions> {
    Versions::parse(text).or_else(|bad: BadVersions| fail(at, bad.to_string()))
}

/// Lowers one message.
fn lower_message(spec: &MessageSpec, place: Place) -> Result<Message> {
    let valid = parse(&spec.valid_versions, &spec.name)?;
    let flexible = parse(&spec.flexible_versions, &spec.name)?;
    if valid.highest == i16::MAX || (!flexible.is_empty() && flexible.highest != i16::MAX) {
        return fail(&spec.name, "valid versions must end and flexible versions must not");
    }
    let mut lowering = Lowering { spec, valid, flexible, structs: BTreeMap::new(), order: Vec::new() };
    lowering.add_struct(&spec.name, valid, &spec.fields)?;
    for StructSpec { name, versions, fields } in &spec.common_structs {
        lowering.add_struct(name, parse(versions, &spec.name)?, fields)?;
    }
    Ok(Message {
        name: spec.name.clone(),
        module: spec.name.to_snake_case(),
        place,
        kind: spec.kind,
        api_key: spec.api_key,
        valid,
        flexible_from: flexible.intersect(valid).iter().next(),
        structs: lowering.finish()?,
    })
}

struct Lowering<'a> {
    spec: &'a MessageSpec,
    valid: Versions,
    flexible: Versions,
    structs: BTreeMap<String, Struct>,
    order: Vec<String>,
}

impl Lowering<'_> {
    fn add_struct(&mut self, name: &str, versions: Versions, fields: &[FieldSpec]) -> Result<()> {
        let versions = versions.intersect(self.valid);
        if versions.is_empty() || self.order.iter().any(|known| known == name) {
            return fail(&self.spec.name, format!("struct {name} is never used or declared twice"));
        }
        self.order.push(name.to_owned());
        let mut lowered = Vec::new();
        for field in fields {
            let field = self.lower_field(name, versions, field)?;
            if field.versions.is_empty() {
                return fail(&self.spec.name, format!("{name}.{} exists in no version", field.name));
            }
            lowered.push(field);
        }
        check_tags(&lowered).or_else(|problem| fail(&self.spec.name, format!("{name}: {problem}")))?;
        let flexible = self.flexible.condition(versions);
        let size_min = Vec::new();
        self.structs.insert(
            name.to_owned(),
            Struct { name: name.to_owned(), versions, flexible, fields: lowered, size_min },
        );
        Ok(())
    }

    fn lower_field(&mut self, owner: &str, possible: Versions, spec: &FieldSpec) -> Result<Field> {
        let at = format!("{}.{owner}.{}", self.spec.name, spec.name);
        let ranges =
            |text: &Option<String>| text.as_deref().map_or(Ok(Versions::NONE), |text| parse(text, &at));
        let versions = parse(&spec.versions, &at)?.intersect(possible);
        let nullable_versions = ranges(&spec.nullable_versions)?.intersect(versions);
        let tagged = ranges(&spec.tagged_versions)?.intersect(versions);
        let ty = parse_type(&spec.ty, &at)?;
        match (spec.tag, tagged.is_empty()) {
            (None, true) => {}
            (Some(_), false) if tagged == versions && versions.intersect(self.flexible) == versions => {}
            _ => return fail(at, "a tagged field must be tagged, and flexible, in all of its versions"),
        }
        let never_flexible = match spec.flexible_versions.as_deref() {
            None => false,
            Some("none") => true,
            Some(_) => return fail(at, "a field's flexible versions can only be none"),
        };
        let default = parse_default(spec, &ty, nullable_versions, &at)?;
        if !spec.fields.is_empty() {
            let Some(name) = ty.struct_name() else {
                return fail(at, "only structs have fields");
            };
            self.add_struct(name, versions, &spec.fields)?;
        }
        let rust_name = overrides::renamed(&self.spec.name, &spec.name);
        Ok(Field {
            name: rust_name.map_or_else(|| spec.name.to_snake_case(), str::to_owned),
            json_name: lower_first(&spec.name),
            versions,
            present: versions.condition(possible),
            nullable: nullable_versions.condition(versions),
            nullable_versions,
            tag: spec.tag,
            never_flexible,
            default,
            ignorable: spec.ignorable,
            sensitive: overrides::is_sensitive(&self.spec.name, owner, &spec.name),
            ty,
        })
    }

    /// Checks references, computes the least sizes and gives the structs in the order of their declaration.
    fn finish(mut self) -> Result<Vec<Struct>> {
        for name in self.order.clone() {
            let sizes = self.sizes_min(&name)?;
            if let Some(declared) = self.structs.get_mut(&name) {
                declared.size_min = sizes;
            }
        }
        Ok(self.order.iter().filter_map(|name| self.structs.remove(name)).collect())
    }

    fn sizes_min(&self, name: &str) -> Result<Vec<(i16, usize)>> {
        let mut sizes: Vec<(i16, usize)> = Vec::new();
        for version in self.structs[name].versions.iter() {
            let size = self.size_min(name, version)?;
            if sizes.last().is_none_or(|last| last.1 != size) {
                sizes.push((version, size));
            }
        }
        Ok(sizes)
    }

    fn size_min(&self, name: &str, version: i16) -> Result<usize> {
        let Some(declared) = self.structs.get(name) else {
            return fail(&self.spec.name, format!("struct {name} is not declared"));
        };
        let flexible = self.flexible.contains(version);
        let mut size = usize::from(flexible);
        for field in
            declared.fields.iter().filter(|field| field.versions.contains(version) && field.tag.is_none())
        {
            let compact = flexible && !field.never_flexible;
            size += match &field.ty {
                Type::Struct(_) if field.nullable_versions.contains(version) => 1,
                Type::Struct(name) => self.size_min(name, version)?,
                ty => ty.size_min(compact),
            };
        }
        Ok(size)
    }
}

/// Tags must be 0, 1, 2, ... without a gap, as Kafka's own generator demands.
fn check_tags(fields: &[Field]) -> std::result::Result<(), String> {
    let tags: Vec<u32> = fields.iter().filter_map(|field| field.tag).collect();
    let distinct: BTreeSet<u32> = tags.iter().copied().collect();
    if distinct.len() != tags.len() || distinct.last().is_some_and(|last| *last as usize + 1 != tags.len()) {
        return Err("tags must be unique and without a gap".to_owned());
    }
    Ok(())
}

fn parse_type(text: &str, at: &str) -> Result<Type> {
    if let Some(element) = text.strip_prefix("[]") {
        return match parse_type(element, at)? {
            Type::Array(_) => fail(at, "arrays of arrays do not exist"),
            element => Ok(Type::Array(Box::new(element))),
        };
    }
    Ok(match text {
        "bool" => Type::Bool,
        "int8" => Type::Int8,
        "int16" => Type::Int16,
        "uint16" => Type::Uint16,
        "int32" => Type::Int32,
        "uint32" => Type::Uint32,
        "int64" => Type::Int64,
        "float64" => Type::Float64,
        "uuid" => Type::Uuid,
        "string" => Type::String,
        "bytes" => Type::Bytes,
        "records" => Type::Records,
        name if name.starts_with(|c: char| c.is_ascii_uppercase()) => Type::Struct(name.to_owned()),
        _ => return fail(at, format!("`{text}` is not a type")),
    })
}

fn parse_default(spec: &FieldSpec, ty: &Type, nullable: Versions, at: &str) -> Result<Default> {
    let bad = |text: &str| fail(at, format!("`{text}` is not a default of a {}", spec.ty));
    match (spec.default.as_deref(), ty) {
        // Kafka's records are null until they are set, whether or not the schema says so.
        (None, Type::Records) if !nullable.is_empty() => Ok(Default::Null),
        (None, _) => Ok(Default::Zero),
        (Some("null"), _) if !nullable.is_empty() => Ok(Default::Null),
        (Some(""), Type::String) => Ok(Default::Zero),
        (Some("true"), Type::Bool) => Ok(Default::True),
        (Some("false"), Type::Bool) => Ok(Default::Zero),
        (Some(text), Type::Int8 | Type::Int16 | Type::Uint16 | Type::Int32 | Type::Uint32 | Type::Int64) => {
            let number = match text.strip_prefix("0x") {
                Some(digits) => i64::from_str_radix(digits, 16),
                None => text.parse(),
            };
            match number {
                Ok(0) => Ok(Default::Zero),
                Ok(number) => Ok(Default::Integer(number)),
                Err(_) => bad(text),
            }
        }
        (Some(text), _) => bad(text),
    }
}

fn lower_first(name: &str) -> String {
    let mut chars = name.chars();
    chars.next().map_or_else(String::new, |first| first.to_ascii_lowercase().to_string() + chars.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec;
    use crate::versions::Condition;

    fn lower_one(json: &str) -> Result<Message> {
        lower_message(&spec::parse(json).unwrap(), Place::Records)
    }

    /// A schema of one field, with `field` after its name.
    fn field(field: &str) -> String {
        format!(
            r#"{{"type":"data","name":"A","validVersions":"1-5","flexibleVersions":"3+",
                "fields":[{{"name":"someField",{field}}}]}}"#
        )
    }

    #[test]
    fn ranges_are_intersected_with_what_is_possible() {
        let message = lower_one(&field(
            r#""type":"[]B","versions":"2+","nullableVersions":"0-4","fields":[
                {"name":"x","type":"int32","versions":"0+"},{"name":"y","type":"string","versions":"4-9"}]"#,
        ))
        .unwrap();
        let [outer, inner] = message.structs.as_slice() else { panic!("{message:?}") };
        let array = &outer.fields[0];
        assert_eq!((array.name.as_str(), array.json_name.as_str()), ("some_field", "someField"));
        assert_eq!((array.present, array.nullable), (Condition::AtLeast(2), Condition::AtMost(4)));
        assert_eq!(
            (inner.fields[0].present, inner.fields[1].present),
            (Condition::Always, Condition::AtLeast(4))
        );
        assert_eq!((outer.flexible, inner.flexible), (Condition::AtLeast(3), Condition::AtLeast(3)));
        // v2: an int32. v3: and a byte for tags. v4: and an empty compact string.
        assert_eq!(inner.size_min, [(2, 4), (3, 5), (4, 6)]);
        // v1: nothing. v2: a classic array. v3: a compact one and a byte for tags.
        assert_eq!(outer.size_min, [(1, 0), (2, 4), (3, 2)]);
    }

    #[test]
    fn schemas_that_make_no_sense_are_refused() {
        for (bad, why) in [
            (r#""type":"int33","versions":"0+""#, "is not a type"),
            (r#""type":"[][]int32","versions":"0+""#, "arrays of arrays"),
            (r#""type":"B","versions":"0+""#, "not declared"),
            (r#""type":"int32","versions":"7+""#, "in no version"),
            (r#""type":"int32","versions":"five""#, "not a version range"),
            (r#""type":"int32","versions":"0+","default":"x""#, "not a default"),
            (r#""type":"string","versions":"0+","default":"null""#, "not a default"),
            (
                r#""type":"int32","versions":"0+","fields":[{"name":"x","type":"int8","versions":"0+"}]"#,
                "only structs",
            ),
            (r#""type":"int32","versions":"3+","tag":1,"taggedVersions":"3+""#, "without a gap"),
            (r#""type":"int32","versions":"0+","tag":0,"taggedVersions":"3+""#, "all of its versions"),
            (r#""type":"int32","versions":"0+","tag":0,"taggedVersions":"0+""#, "all of its versions"),
            (r#""type":"int32","versions":"0+","flexibleVersions":"4+""#, "can only be none"),
        ] {
            let error = lower_one(&field(bad)).unwrap_err().to_string();
            assert!(error.contains(why), "{bad}: {error}");
        }
    }

    #[test]
    fn defaults_are_typed() {
        let default = |text: &str| lower_one(&field(text)).unwrap().structs[0].fields[0].default.clone();
        assert_eq!(
            default(r#""type":"int32","versions":"0+","default":"0x7fffffff""#),
            Default::Integer(0x7fff_ffff)
        );
        assert_eq!(default(r#""type":"int64","versions":"0+","default":"-1""#), Default::Integer(-1));
        assert_eq!(default(r#""type":"bool","versions":"0+","default":"true""#), Default::True);
        assert_eq!(default(r#""type":"string","versions":"0+","nullableVersions":"0+""#), Default::Zero);
        assert_eq!(default(r#""type":"records","versions":"0+","nullableVersions":"0+""#), Default::Null);
    }
}
