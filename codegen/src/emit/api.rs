//! Message facts, the registry of APIs, and the enums over all requests and responses.

use proc_macro2::{Literal, TokenStream};
use quote::{format_ident, quote};

use super::ident;
use crate::model::{Api, Message};
use crate::spec::{Kind, Listener};
use crate::versions::Versions;

/// `impl Message`, and `impl ApiRequest` for a request.
pub(super) fn message(message: &Message) -> TokenStream {
    let (name, text) = (ident(&message.name), &message.name);
    let (valid, flexible) = (range(message.valid), flexible_from(message.flexible_from));
    let api = match (message.kind, message.name.strip_suffix("Request")) {
        (Kind::Request, Some(api)) => {
            let key = ident(api);
            let (module, response) = (format_ident!("{}", module_of(api)), format_ident!("{api}Response"));
            quote! {
                impl ApiRequest for #name {
                    const KEY: ApiKey = ApiKey::#key;
                    type Response = crate::messages::#module::#response;
                }
            }
        }
        _ => TokenStream::new(),
    };
    quote! {
        impl Message for #name {
            const NAME: &'static str = #text;
            const VALID: VersionRange = #valid;
            const FLEXIBLE_FROM: Option<i16> = #flexible;
        }
        #api
    }
}

fn module_of(api: &str) -> String {
    use heck::ToSnakeCase;
    format!("{}_response", api.to_snake_case())
}

fn range(versions: Versions) -> TokenStream {
    let (min, max) = (Literal::i16_unsuffixed(versions.lowest), Literal::i16_unsuffixed(versions.highest));
    quote!(VersionRange { min: #min, max: #max })
}

fn flexible_from(from: Option<i16>) -> TokenStream {
    match from.map(Literal::i16_unsuffixed) {
        Some(from) => quote!(Some(#from)),
        None => quote!(None),
    }
}

/// `ApiKey` and `APIS`.
pub(super) fn registry(apis: &[Api]) -> TokenStream {
    let names: Vec<_> = apis.iter().map(|api| ident(&api.name)).collect();
    let keys: Vec<_> = apis.iter().map(|api| Literal::i16_unsuffixed(api.key)).collect();
    let docs = apis.iter().map(|api| format!(" {}, key {}, versions {}.", api.name, api.key, api.valid));
    let indices = (0..apis.len()).map(Literal::usize_unsuffixed);
    let infos = apis.iter().zip(&names).map(|(api, key)| info(api, key));
    quote! {
        /// The key of an API.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(i16)]
        pub enum ApiKey {
            #(#[doc = #docs] #names = #keys,)*
        }

        impl TryFrom<i16> for ApiKey {
            type Error = UnknownApiKey;
            fn try_from(key: i16) -> Result<Self, UnknownApiKey> {
                match key {
                    #(#keys => Ok(Self::#names),)*
                    other => Err(UnknownApiKey(other)),
                }
            }
        }

        impl ApiKey {
            /// What the schemas say about the API.
            pub const fn info(self) -> &'static ApiInfo {
                match self {
                    #(Self::#names => &APIS[#indices],)*
                }
            }
        }

        /// Every API of Kafka 3.7, in the order of keys.
        pub const APIS: &[ApiInfo] = &[#(#infos),*];
    }
}

fn info(api: &Api, key: &proc_macro2::Ident) -> TokenStream {
    let name = &api.name;
    let (valid, flexible, unstable) =
        (range(api.valid), flexible_from(api.flexible_from), api.latest_version_unstable);
    let deprecated = if api.deprecated.is_empty() {
        quote!(None)
    } else {
        let range = range(api.deprecated);
        quote!(Some(#range))
    };
    let [zk_broker, broker, controller] = [Listener::ZkBroker, Listener::Broker, Listener::Controller]
        .map(|listener| api.listeners.contains(&listener));
    quote! {
        ApiInfo {
            key: ApiKey::#key,
            name: #name,
            valid: #valid,
            flexible_from: #flexible,
            deprecated: #deprecated,
            listeners: Listeners { zk_broker: #zk_broker, broker: #broker, controller: #controller },
            latest_version_unstable: #unstable,
        }
    }
}

/// `RequestBody` and `ResponseBody`.
pub(super) fn bodies(apis: &[Api]) -> TokenStream {
    let requests = body(apis, "Request", " The body of a request, whichever it is.");
    let responses = body(apis, "Response", " The body of a response, whichever it is.");
    quote! { #requests #responses }
}

fn body(apis: &[Api], suffix: &str, doc: &str) -> TokenStream {
    let body = format_ident!("{suffix}Body");
    let names: Vec<_> = apis.iter().map(|api| ident(&api.name)).collect();
    let types: Vec<_> = apis.iter().map(|api| format_ident!("{}{suffix}", api.name)).collect();
    let docs = apis.iter().map(|api| format!(" [`{}{suffix}`].", api.name));
    quote! {
        #[doc = #doc]
        #[derive(Clone, Debug, PartialEq)]
        #[allow(clippy::large_enum_variant)]
        pub enum #body {
            #(#[doc = #docs] #names(#types),)*
        }

        impl #body {
            /// The key of the API that the body belongs to.
            pub const fn api_key(&self) -> ApiKey {
                match self {
                    #(Self::#names(_) => ApiKey::#names,)*
                }
            }

            /// Reads the body of API `key` at `version`. Bytes that follow it stay in `r`.
            pub fn decode(key: ApiKey, version: i16, r: &mut Reader) -> Result<Self, DecodeError> {
                match key {
                    #(ApiKey::#names => <#types as Message>::decode(r, version).map(Self::#names),)*
                }
            }

            /// Writes the body at `version`.
            pub fn encode(&self, version: i16, w: &mut Writer) -> Result<(), EncodeError> {
                match self {
                    #(Self::#names(body) => Message::encode(body, w, version),)*
                }
            }
        }

        #(impl From<#types> for #body {
            fn from(body: #types) -> Self {
                Self::#names(body)
            }
        })*
    }
}
