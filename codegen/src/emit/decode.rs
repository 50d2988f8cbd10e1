//! `Struct::read`: one statement a field.

use proc_macro2::{Literal, TokenStream};
use quote::{format_ident, quote};

use super::{flex, ident, scalar, sized, test, when};
use crate::model::{Field, Struct, Type};
use crate::versions::Condition;

/// The function that reads a struct.
pub(super) fn read(declared: &Struct) -> TokenStream {
    let flexible = test(declared.flexible);
    let fields = declared
        .fields
        .iter()
        .filter(|field| field.tag.is_none())
        .map(|field| when(field.present, assign(field)));
    let tags = when_flexible(declared, tags(declared));
    quote! {
        fn read(r: &mut Reader, version: i16) -> Result<Self, DecodeError> {
            let flex = #flexible;
            let mut this = Self::default();
            #(#fields)*
            #tags
            Ok(this)
        }
    }
}

/// `if flex { then }`, folded when it is known.
pub(super) fn when_flexible(declared: &Struct, then: TokenStream) -> TokenStream {
    match declared.flexible {
        Condition::Always => then,
        Condition::Never => TokenStream::new(),
        _ => quote! { if flex { #then } },
    }
}

fn assign(field: &Field) -> TokenStream {
    let (name, path) = (ident(&field.name), &field.name);
    let value = value(field);
    quote! { this.#name = #value.at(#path)?; }
}

/// The field's value as a `Result`.
fn value(field: &Field) -> TokenStream {
    let plain = || plain(&field.ty, &flex(field));
    match field.nullable {
        Condition::Never => plain(),
        Condition::Always => nullable(&field.ty, &flex(field)),
        condition => {
            let (test, plain, nullable) = (test(condition), plain(), nullable(&field.ty, &flex(field)));
            quote! { (if #test { #nullable } else { #plain.map(Some) }) }
        }
    }
}

fn plain(ty: &Type, flex: &TokenStream) -> TokenStream {
    if let Some(method) = scalar(ty) {
        return quote!(r.#method());
    }
    if let Some(method) = sized(ty) {
        let method = format_ident!("{method}");
        return quote!(r.#method(#flex));
    }
    match ty {
        Type::Array(element) => array(element, flex, ""),
        _ => quote!(Struct::read(r, version)),
    }
}

fn nullable(ty: &Type, flex: &TokenStream) -> TokenStream {
    if let Some(method) = sized(ty) {
        let method = format_ident!("opt_{method}");
        return quote!(r.#method(#flex));
    }
    match ty {
        Type::Array(element) => array(element, flex, "opt_"),
        _ => quote!(r.opt_struct(version)),
    }
}

fn array(element: &Type, flex: &TokenStream, prefix: &str) -> TokenStream {
    let (array, structs) = (format_ident!("{prefix}array"), format_ident!("{prefix}structs"));
    if let Some(method) = scalar(element) {
        let size = Literal::usize_unsuffixed(element.size_min(false));
        return quote!(r.#array(#flex, #size, Reader::#method));
    }
    match sized(element) {
        Some(method) => {
            let method = format_ident!("{method}");
            let compact = Literal::usize_unsuffixed(element.size_min(true));
            let classic = Literal::usize_unsuffixed(element.size_min(false));
            quote!(r.#array(#flex, if #flex { #compact } else { #classic }, |r| r.#method(#flex)))
        }
        None => quote!(r.#structs(#flex, version)),
    }
}

/// Reads the tagged fields that are known and skips the others.
fn tags(declared: &Struct) -> TokenStream {
    let arms: Vec<TokenStream> = declared
        .fields
        .iter()
        .filter_map(|field| {
            let tag = Literal::u32_unsuffixed(field.tag?);
            let assign = assign(field);
            let guard = match field.present {
                Condition::Always => TokenStream::new(),
                condition => {
                    let test = test(condition);
                    quote!(if #test)
                }
            };
            Some(quote! { #tag #guard => { #assign } })
        })
        .collect();
    if arms.is_empty() {
        return quote! { r.skip_tags()?; };
    }
    quote! {
        r.tags(|r, tag| {
            match tag {
                #(#arms)*
                _ => return Ok(false),
            }
            Ok(true)
        })?;
    }
}
