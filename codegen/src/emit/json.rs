//! Kafka's JSON form of a message and the catalogue of all messages, for tests (feature `json`).

use proc_macro2::TokenStream;
use quote::quote;

use super::encode::differs;
use super::{folder, ident, test};
use crate::model::{Message, Struct};
use crate::versions::Condition;

/// The JSON view of a struct.
pub(super) fn emit(declared: &Struct) -> TokenStream {
    let name = ident(&declared.name);
    let fields = declared.fields.iter().map(|field| {
        let (name, key) = (ident(&field.name), &field.json_name);
        let insert = quote! { map.insert(#key.to_owned(), self.#name.to_json(version)); };
        let tests = [
            (field.present != Condition::Always).then(|| test(field.present)),
            field.tag.map(|_| differs(field)),
        ];
        match tests.into_iter().flatten().reduce(|a, b| quote!(#a && #b)) {
            Some(test) => quote! { if #test { #insert } },
            None => insert,
        }
    });
    quote! {
        #[cfg(feature = "json")]
        impl crate::json::ToJson for #name {
            fn to_json(&self, version: i16) -> serde_json::Value {
                let mut map = serde_json::Map::new();
                #(#fields)*
                serde_json::Value::Object(map)
            }
        }
    }
}

/// The table of every message.
pub(super) fn catalogue(messages: &[Message]) -> TokenStream {
    let entries = messages.iter().map(|message| {
        let (folder, name) = (ident(folder(message.place)), ident(&message.name));
        quote!(CatalogueEntry::of::<crate::#folder::#name>())
    });
    let count = messages.len();
    quote! {
        /// Every message, header and record schema.
        pub static CATALOGUE: [CatalogueEntry; #count] = [#(#entries),*];
    }
}
