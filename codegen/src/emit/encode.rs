//! `Struct::write`: one statement a field.

use proc_macro2::{Literal, TokenStream};
use quote::{format_ident, quote};

use super::decode::when_flexible;
use super::{flex, ident, scalar, sized, test};
use crate::model::{Default, Field, Struct, Type};
use crate::versions::Condition;

/// The function that writes a struct.
pub(super) fn write(declared: &Struct) -> TokenStream {
    let flexible = test(declared.flexible);
    let fields = declared.fields.iter().map(statement);
    let tags = when_flexible(declared, tags(declared));
    quote! {
        fn write(&self, w: &mut Writer, version: i16) -> Result<(), EncodeError> {
            let flex = #flexible;
            #(#fields)*
            #tags
            Ok(())
        }
    }
}

/// Writes a field in place, or refuses a value that the version cannot carry.
fn statement(field: &Field) -> TokenStream {
    let value = if field.tag.is_some() { TokenStream::new() } else { value(field) };
    if field.present == Condition::Always {
        return value;
    }
    let test = test(field.present);
    if field.ignorable {
        return if field.tag.is_some() {
            value
        } else {
            quote! { if #test { #value } }
        };
    }
    let (path, differs) = (&field.name, differs(field));
    let refuse = quote! { return Err(EncodeErrorKind::NotInVersion(version)).at(#path); };
    if field.tag.is_some() {
        return quote! { if !(#test) && #differs { #refuse } };
    }
    quote! { if #test { #value } else if #differs { #refuse } }
}

/// Whether the field's value is not its default, as an expression.
pub(super) fn differs(field: &Field) -> TokenStream {
    let name = ident(&field.name);
    if field.is_option() {
        return match field.default {
            Default::Null => quote!(self.#name.is_some()),
            _ => quote!(self.#name.as_ref().is_none_or(|value| !value.is_empty())),
        };
    }
    match (&field.ty, &field.default) {
        (Type::Bool, Default::Zero) => quote!(self.#name),
        (Type::Bool, _) => quote!(!self.#name),
        (Type::Uuid, _) => quote!(!self.#name.is_nil()),
        (Type::String | Type::Bytes | Type::Records | Type::Array(_), _) => quote!(!self.#name.is_empty()),
        (Type::Struct(_), _) => quote!(self.#name != Default::default()),
        (_, Default::Integer(number)) => {
            let number = Literal::i64_unsuffixed(*number);
            quote!(self.#name != #number)
        }
        (Type::Float64, _) => quote!(self.#name != 0.0),
        _ => quote!(self.#name != 0),
    }
}

/// The statement that writes the field's value.
fn value(field: &Field) -> TokenStream {
    let (name, path, flex) = (ident(&field.name), &field.name, flex(field));
    if let Some(method) = scalar(&field.ty) {
        return quote! { w.#method(self.#name); };
    }
    let nullable = || {
        let call = nullable(&field.ty, &flex);
        quote! { let value = self.#name.as_ref(); #call.at(#path)?; }
    };
    let required = |value: TokenStream| {
        let call = plain(&field.ty, &flex);
        quote! { let value = #value; #call.at(#path)?; }
    };
    match field.nullable {
        Condition::Always => nullable(),
        Condition::Never => required(quote!(&self.#name)),
        condition => {
            let (test, nullable) = (test(condition), nullable());
            let required = required(quote!(required(&self.#name).at(#path)?));
            quote! { if #test { #nullable } else { #required } }
        }
    }
}

/// Writes `value: &T` and gives a `Result`.
fn plain(ty: &Type, flex: &TokenStream) -> TokenStream {
    if let Some(method) = sized(ty) {
        let method = format_ident!("{method}");
        return quote!(w.#method(value, #flex));
    }
    match ty {
        Type::Array(element) => array(element, flex, ""),
        _ => quote!(value.write(w, version)),
    }
}

/// Writes `value: Option<&T>` and gives a `Result`.
fn nullable(ty: &Type, flex: &TokenStream) -> TokenStream {
    if let Some(method) = sized(ty) {
        let method = format_ident!("opt_{method}");
        return quote!(w.#method(value, #flex));
    }
    match ty {
        Type::Array(element) => array(element, flex, "opt_"),
        _ => quote!(w.opt_struct(value, version)),
    }
}

fn array(element: &Type, flex: &TokenStream, prefix: &str) -> TokenStream {
    let array = format_ident!("{prefix}array");
    let each = match (scalar(element), sized(element)) {
        (Some(method), _) => quote!({ w.#method(*item); Ok::<(), EncodeError>(()) }),
        (_, Some(method)) => {
            let method = format_ident!("{method}");
            quote!(w.#method(item, #flex))
        }
        _ => {
            let structs = format_ident!("{prefix}structs");
            return quote!(w.#structs(value, #flex, version));
        }
    };
    quote!(w.#array(value, #flex, |w, item| #each))
}

/// Writes the tagged fields whose values are not their defaults, in the order of their tags.
fn tags(declared: &Struct) -> TokenStream {
    let mut tagged: Vec<&Field> = declared.fields.iter().filter(|field| field.tag.is_some()).collect();
    tagged.sort_by_key(|field| field.tag);
    if tagged.is_empty() {
        return quote! { w.uvarint(0); };
    }
    let conditions = tagged.iter().map(|field| {
        let (name, differs) = (has(field), differs(field));
        match field.present {
            Condition::Always => quote! { let #name = #differs; },
            condition => {
                let test = test(condition);
                quote! { let #name = #test && #differs; }
            }
        }
    });
    let names = tagged.iter().map(|field| has(field));
    let writes = tagged.iter().map(|field| {
        let (name, value) = (has(field), value(field));
        let tag = field.tag.map(Literal::u32_unsuffixed);
        quote! { if #name { w.tagged(#tag, |w| { #value Ok(()) })?; } }
    });
    quote! {
        #(#conditions)*
        w.uvarint(#(u32::from(#names))+*);
        #(#writes)*
    }
}

/// The name of the local that tells whether a tagged field is written.
fn has(field: &Field) -> proc_macro2::Ident {
    format_ident!("has_{}", field.name)
}
