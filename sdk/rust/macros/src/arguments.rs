//! `#[arguments]`: the derives and their settings, so that authors need no other crate.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{DeriveInput, Ident, Result};

pub(crate) fn expand(attributes: TokenStream, item: TokenStream) -> Result<TokenStream> {
    let allow_unknown_fields = match syn::parse2::<Option<Ident>>(attributes)? {
        None => false,
        Some(word) if word == "allow_unknown_fields" => true,
        Some(word) => {
            let message = format!("unknown word `{word}`; the only one is `allow_unknown_fields`");
            return Err(syn::Error::new(word.span(), message));
        }
    };
    let item: DeriveInput = syn::parse2(item)?;
    let unknown_fields = (!allow_unknown_fields).then(|| quote!(#[serde(deny_unknown_fields)]));
    Ok(quote! {
        #[derive(
            ::toolhost_sdk::private::serde::Deserialize,
            ::toolhost_sdk::private::schemars::JsonSchema,
        )]
        #[serde(crate = "::toolhost_sdk::private::serde")]
        #[schemars(crate = "::toolhost_sdk::private::schemars")]
        #unknown_fields
        #item
    })
}
