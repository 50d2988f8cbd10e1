//! Struct declarations, `Default` and `Debug`.

use proc_macro2::{Literal, TokenStream};
use quote::quote;

use super::{ident, rust_type};
use crate::model::{Default, Field, Message, Struct};

/// The declaration of a struct.
pub(super) fn emit(message: &Message, declared: &Struct) -> TokenStream {
    let name = ident(&declared.name);
    let doc = if declared.name == message.name {
        message_doc(message)
    } else {
        format!(" In [`{}`], versions {}.", message.name, declared.versions)
    };
    let fields = declared.fields.iter().map(|field| {
        let (name, ty, doc) = (ident(&field.name), field_type(field), field_doc(field));
        quote! { #[doc = #doc] pub #name: #ty }
    });
    let mut derives = vec![quote!(Clone), quote!(PartialEq)];
    let mut impls = TokenStream::new();
    if declared.fields.iter().all(is_natural) {
        derives.push(quote!(Default));
    } else {
        impls.extend(default_impl(declared));
    }
    if declared.fields.iter().any(|field| field.sensitive) {
        impls.extend(debug_impl(declared));
    } else {
        derives.push(quote!(Debug));
    }
    quote! {
        #[doc = #doc]
        #[derive(#(#derives),*)]
        pub struct #name { #(#fields),* }
        #impls
    }
}

fn message_doc(message: &Message) -> String {
    let key = message.api_key.map(|key| format!("API key {key}, ")).unwrap_or_default();
    let flexible = match message.flexible_from {
        Some(from) => format!("flexible from {from}"),
        None => "never flexible".to_owned(),
    };
    format!(" `{}`: {key}versions {}, {flexible}.", message.name, message.valid)
}

fn field_doc(field: &Field) -> String {
    let mut doc = format!(" Versions {}", field.versions);
    if let Some(tag) = field.tag {
        doc.push_str(&format!(", tag {tag}"));
    }
    if field.is_option() && field.nullable_versions != field.versions {
        doc.push_str(&format!(", nullable in {}", field.nullable_versions));
    }
    if field.ignorable {
        doc.push_str(", ignorable");
    }
    if field.sensitive {
        doc.push_str("; secret, hidden in `Debug`");
    }
    doc + "."
}

fn field_type(field: &Field) -> TokenStream {
    let ty = rust_type(&field.ty);
    if field.is_option() { quote!(Option<#ty>) } else { ty }
}

/// Whether the default is what `Default` gives for the field's type.
fn is_natural(field: &Field) -> bool {
    match field.default {
        Default::Zero => !field.is_option(),
        Default::Null => true,
        Default::True | Default::Integer(_) => false,
    }
}

fn default_impl(declared: &Struct) -> TokenStream {
    let name = ident(&declared.name);
    let fields = declared.fields.iter().map(|field| {
        let name = ident(&field.name);
        let value = match field.default {
            Default::True => quote!(true),
            Default::Integer(number) => {
                let number = Literal::i64_unsuffixed(number);
                quote!(#number)
            }
            Default::Null | Default::Zero => quote!(Default::default()),
        };
        let value =
            if field.is_option() && field.default != Default::Null { quote!(Some(#value)) } else { value };
        quote! { #name: #value }
    });
    quote! {
        impl Default for #name {
            fn default() -> Self {
                Self { #(#fields),* }
            }
        }
    }
}

fn debug_impl(declared: &Struct) -> TokenStream {
    let (name, text) = (ident(&declared.name), &declared.name);
    let fields = declared.fields.iter().map(|field| {
        let (text, name) = (&field.name, ident(&field.name));
        if field.sensitive {
            quote! { .field(#text, &Redacted) }
        } else {
            quote! { .field(#text, &self.#name) }
        }
    });
    quote! {
        impl std::fmt::Debug for #name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(#text) #(#fields)* .finish()
            }
        }
    }
}
