//! What the schemas mean: the input of the emitters, which never see a version range as text.

use crate::errors::ErrorSpec;
use crate::spec::{Kind, Listener};
use crate::versions::{Condition, Versions};

/// Everything that the codec is made from.
#[derive(Clone, Debug)]
pub struct Schema {
    /// The messages, sorted by place and name.
    pub messages: Vec<Message>,
    /// The APIs, sorted by key.
    pub apis: Vec<Api>,
    /// The error codes, sorted by code.
    pub errors: Vec<ErrorSpec>,
}

/// The module that a message's own module lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// Requests and responses.
    Messages,
    /// Request and response headers.
    Headers,
    /// What is stored in records or in opaque bytes.
    Records,
}

/// An API: a request and its response.
#[derive(Clone, Debug)]
pub struct Api {
    /// The API key.
    pub key: i16,
    /// The name, such as `Fetch`.
    pub name: String,
    /// The versions that exist.
    pub valid: Versions,
    /// The first flexible version.
    pub flexible_from: Option<i16>,
    /// The versions that Kafka calls deprecated.
    pub deprecated: Versions,
    /// The listeners that serve the API.
    pub listeners: Vec<Listener>,
    /// Whether the highest version may still change.
    pub latest_version_unstable: bool,
}

/// One message with its structs.
#[derive(Clone, Debug)]
pub struct Message {
    /// The name, such as `FetchRequest`.
    pub name: String,
    /// The name of its module, such as `fetch_request`.
    pub module: String,
    /// Where the module lies.
    pub place: Place,
    /// What kind of message it is.
    pub kind: Kind,
    /// The API key of a request or response.
    pub api_key: Option<i16>,
    /// The versions that exist.
    pub valid: Versions,
    /// The first flexible version.
    pub flexible_from: Option<i16>,
    /// The structs, the message itself first, each once.
    pub structs: Vec<Struct>,
}

/// A struct: the message itself or a nested one.
#[derive(Clone, Debug)]
pub struct Struct {
    /// The name, the schema's.
    pub name: String,
    /// The versions in which the struct can occur.
    pub versions: Versions,
    /// When lengths are compact and tagged fields follow.
    pub flexible: Condition,
    /// The fields in wire order; tagged fields lie among them.
    pub fields: Vec<Field>,
    /// The least number of bytes that the struct takes: (from this version on, bytes), in order of versions.
    pub size_min: Vec<(i16, usize)>,
}

/// A field of a struct.
#[derive(Clone, Debug)]
pub struct Field {
    /// The name in Rust, without `r#`.
    pub name: String,
    /// The name in Kafka's JSON form.
    pub json_name: String,
    /// The type without its nullability.
    pub ty: Type,
    /// The versions that have the field.
    pub versions: Versions,
    /// When the field is there, given that its struct is.
    pub present: Condition,
    /// The versions in which the field may be null.
    pub nullable_versions: Versions,
    /// When the field may be null, given that it is there.
    pub nullable: Condition,
    /// The tag of a tagged field.
    pub tag: Option<u32>,
    /// Whether lengths stay classic although the message is flexible.
    pub never_flexible: bool,
    /// The value of a field that is absent.
    pub default: Default,
    /// Whether a version without the field may drop its value.
    pub ignorable: bool,
    /// Whether `Debug` hides the value.
    pub sensitive: bool,
}

impl Field {
    /// Whether some version lets the field be null.
    pub fn is_option(&self) -> bool {
        !self.nullable_versions.is_empty()
    }
}

/// The type of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Type {
    Bool,
    Int8,
    Int16,
    Uint16,
    Int32,
    Uint32,
    Int64,
    Float64,
    Uuid,
    String,
    Bytes,
    Records,
    /// A struct of the same message.
    Struct(String),
    /// An array; arrays of arrays do not exist.
    Array(Box<Type>),
}

impl Type {
    /// The struct that the value is, or is an array of.
    pub fn struct_name(&self) -> Option<&str> {
        match self {
            Self::Struct(name) => Some(name),
            Self::Array(element) => element.struct_name(),
            _ => None,
        }
    }

    /// The least size of a value on the wire, in bytes, with compact or classic lengths. Zero for a struct, whose size
    /// depends on its fields.
    pub fn size_min(&self, compact: bool) -> usize {
        match self {
            Self::Bool | Self::Int8 => 1,
            Self::Int16 | Self::Uint16 => 2,
            Self::Int32 | Self::Uint32 => 4,
            Self::Int64 | Self::Float64 => 8,
            Self::Uuid => 16,
            Self::String if !compact => 2,
            Self::Bytes | Self::Records | Self::Array(_) if !compact => 4,
            Self::String | Self::Bytes | Self::Records | Self::Array(_) => 1,
            Self::Struct(_) => 0,
        }
    }
}

/// The default of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Default {
    /// Zero, false, empty, or a struct of defaults.
    Zero,
    /// Null.
    Null,
    /// `true`.
    True,
    /// An integer other than zero.
    Integer(i64),
}
