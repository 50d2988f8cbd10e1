//! The `ErrorCode` enum.

use heck::ToUpperCamelCase;
use proc_macro2::{Literal, TokenStream};
use quote::quote;

use super::ident;
use crate::errors::ErrorSpec;

/// The enum of error codes with its conversions.
pub(super) fn error_code(errors: &[ErrorSpec]) -> TokenStream {
    let variants: Vec<_> = errors.iter().map(|error| ident(&error.name.to_upper_camel_case())).collect();
    let codes: Vec<_> = errors.iter().map(|error| Literal::i16_unsuffixed(error.code)).collect();
    let names: Vec<_> = errors.iter().map(|error| &error.name).collect();
    let docs = errors.iter().map(|error| {
        let retriable = if error.retriable { ", retriable" } else { "" };
        format!(" `{}`, code {}{retriable}.", error.name, error.code)
    });
    let retriable =
        errors.iter().zip(&variants).filter(|(error, _)| error.retriable).map(|(_, variant)| variant);
    let defaults = errors.iter().map(|error| (error.code == 0).then(|| quote!(#[default])));
    quote! {
        /// An error code of the protocol.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub enum ErrorCode {
            #(#[doc = #docs] #defaults #variants,)*
            /// A code that Kafka 3.7 does not have, kept as it came. Never holds a code that has a variant when
            /// made by [`ErrorCode::from_code`].
            Other(i16),
        }

        impl ErrorCode {
            /// The number on the wire.
            pub const fn code(self) -> i16 {
                match self {
                    #(Self::#variants => #codes,)*
                    Self::Other(code) => code,
                }
            }

            /// The error with this number.
            pub const fn from_code(code: i16) -> Self {
                match code {
                    #(#codes => Self::#variants,)*
                    other => Self::Other(other),
                }
            }

            /// Kafka's name, such as `OFFSET_OUT_OF_RANGE`; `UNKNOWN` for a code that Kafka 3.7 does not have.
            pub const fn name(self) -> &'static str {
                match self {
                    #(Self::#variants => #names,)*
                    Self::Other(_) => "UNKNOWN",
                }
            }

            /// Whether a client may send the same request again.
            pub const fn is_retriable(self) -> bool {
                matches!(self, #(Self::#retriable)|*)
            }
        }
    }
}
