//! The model as Rust source.

mod api;
mod codes;
mod decode;
mod encode;
mod json;
mod types;

use anyhow::{Context, Result};
use proc_macro2::{Ident, Literal, Span, TokenStream};
use quote::{format_ident, quote};

use crate::model::{Field, Message, Place, Schema, Struct, Type};
use crate::versions::Condition;

/// Every generated file: its path below the output folder and its text.
pub fn files(schema: &Schema) -> Result<Vec<(String, String)>> {
    let mut files = Vec::new();
    for message in &schema.messages {
        files.push((format!("{}/{}.rs", folder(message.place), message.module), module(message)?));
    }
    for place in [Place::Messages, Place::Headers, Place::Records] {
        let messages = schema.messages.iter().filter(|message| message.place == place);
        files.push((format!("{}.rs", folder(place)), list(place, messages)));
    }
    files.push(("registry.rs".to_owned(), print(api::registry(&schema.apis))?));
    files.push(("body.rs".to_owned(), print(api::bodies(&schema.apis))?));
    files.push(("error_code.rs".to_owned(), print(codes::error_code(&schema.errors))?));
    files.push(("catalogue.rs".to_owned(), print(json::catalogue(&schema.messages))?));
    Ok(files)
}

/// The module of one message: its structs and their codec.
pub fn module(message: &Message) -> Result<String> {
    let structs = message.structs.iter().map(|declared| {
        let types = types::emit(message, declared);
        let codec = codec(declared);
        let json = json::emit(declared);
        quote! { #types #codec #json }
    });
    let message_impl = api::message(message);
    print(quote! {
        use crate::wire::codec::*;
        #message_impl
        #(#structs)*
    })
    .with_context(|| format!("emitting {}", message.name))
}

fn codec(declared: &Struct) -> TokenStream {
    let name = ident(&declared.name);
    let size_min = size_min(declared);
    let read = decode::read(declared);
    let write = encode::write(declared);
    quote! {
        impl Struct for #name {
            #size_min
            #read
            #write
        }
    }
}

/// `fn size_min`: the least size by version, the highest versions first.
fn size_min(declared: &Struct) -> TokenStream {
    let mut sizes = declared.size_min.iter().rev();
    let mut arms = TokenStream::new();
    while let Some((from, size)) = sizes.next() {
        let size = Literal::usize_unsuffixed(*size);
        let from = Literal::i16_unsuffixed(*from);
        arms.extend(match (sizes.len(), declared.size_min.len()) {
            (0, 1) => quote! { #size },
            (0, _) => quote! { { #size } },
            _ => quote! { if version >= #from { #size } else },
        });
    }
    quote! {
        fn size_min(version: i16) -> usize {
            #arms
        }
    }
}

fn folder(place: Place) -> &'static str {
    match place {
        Place::Messages => "messages",
        Place::Headers => "headers",
        Place::Records => "records",
    }
}

/// The file that lists the modules of a place. Written as text, since `include!` must see `env!` unexpanded.
fn list<'a>(place: Place, messages: impl Iterator<Item = &'a Message>) -> String {
    let folder = folder(place);
    let mut text = String::new();
    for Message { name, module, .. } in messages {
        text.push_str(&format!(
            "#[allow(clippy::all, unused_variables, unused_imports, unused_mut)]\n\
             #[doc = \"`{name}` and its structs.\"]\n\
             pub mod {module} {{\n    include!(concat!(env!(\"OUT_DIR\"), \"/{folder}/{module}.rs\"));\n}}\n\
             pub use {module}::{name};\n"
        ));
    }
    text
}

/// Formats tokens as a file.
fn print(tokens: TokenStream) -> Result<String> {
    // Through text, so that negative literals become an operator and a literal, as the parser expects them.
    let file = syn::parse_file(&tokens.to_string())?;
    Ok(prettyplease::unparse(&file))
}

fn ident(name: &str) -> Ident {
    match syn::parse_str::<Ident>(name) {
        Ok(ident) => ident,
        Err(_) => Ident::new_raw(name, Span::call_site()),
    }
}

/// A condition as an expression over `version`.
fn test(condition: Condition) -> TokenStream {
    match condition {
        Condition::Always => quote!(true),
        Condition::Never => quote!(false),
        Condition::AtLeast(lowest) => {
            let lowest = Literal::i16_unsuffixed(lowest);
            quote!(version >= #lowest)
        }
        Condition::AtMost(highest) => {
            let highest = Literal::i16_unsuffixed(highest);
            quote!(version <= #highest)
        }
        Condition::Between(lowest, highest) if lowest == highest => {
            let only = Literal::i16_unsuffixed(lowest);
            quote!(version == #only)
        }
        Condition::Between(lowest, highest) => {
            let (lowest, highest) = (Literal::i16_unsuffixed(lowest), Literal::i16_unsuffixed(highest));
            quote!((#lowest..=#highest).contains(&version))
        }
    }
}

/// `if condition { then }`, or just one of the two when the condition is known.
fn when(condition: Condition, then: TokenStream) -> TokenStream {
    match condition {
        Condition::Always => then,
        Condition::Never => TokenStream::new(),
        _ => {
            let test = test(condition);
            quote! { if #test { #then } }
        }
    }
}

/// `flex`, or `false` for a field that keeps classic lengths.
fn flex(field: &Field) -> TokenStream {
    if field.never_flexible { quote!(false) } else { quote!(flex) }
}

/// The type of a value in Rust.
fn rust_type(ty: &Type) -> TokenStream {
    match ty {
        Type::Bool => quote!(bool),
        Type::Int8 => quote!(i8),
        Type::Int16 => quote!(i16),
        Type::Uint16 => quote!(u16),
        Type::Int32 => quote!(i32),
        Type::Uint32 => quote!(u32),
        Type::Int64 => quote!(i64),
        Type::Float64 => quote!(f64),
        Type::Uuid => quote!(Uuid),
        Type::String => quote!(KStr),
        Type::Bytes => quote!(Bytes),
        Type::Records => quote!(Records),
        Type::Struct(name) => {
            let name = ident(name);
            quote!(#name)
        }
        Type::Array(element) => {
            let element = rust_type(element);
            quote!(Vec<#element>)
        }
    }
}

/// The method of `Reader` and `Writer` for a value of fixed size.
fn scalar(ty: &Type) -> Option<Ident> {
    let name = match ty {
        Type::Bool => "bool",
        Type::Int8 => "i8",
        Type::Int16 => "i16",
        Type::Uint16 => "u16",
        Type::Int32 => "i32",
        Type::Uint32 => "u32",
        Type::Int64 => "i64",
        Type::Float64 => "f64",
        Type::Uuid => "uuid",
        _ => return None,
    };
    Some(format_ident!("{name}"))
}

/// The method of `Reader` and `Writer` for a value with a length before it.
fn sized(ty: &Type) -> Option<&'static str> {
    match ty {
        Type::String => Some("string"),
        Type::Bytes => Some("bytes"),
        Type::Records => Some("records"),
        _ => None,
    }
}
