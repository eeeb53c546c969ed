//! `#[tool]`: a function stays as it is, and a type of the same name implements `Tool`.
//!
//! Functions and braced structs live in different namespaces, so both can be called
//! `count_words`: the function to test and call, the type to list in `plugin!`.

use proc_macro2::TokenStream;
use quote::quote;
use syn::meta::ParseNestedMeta;
use syn::parse::Parser;
use syn::{
    Attribute, Expr, ExprLit, FnArg, ItemFn, Lit, LitBool, LitInt, LitStr, Meta, Path, Result,
    Token,
};

#[derive(Default)]
struct Settings {
    name: Option<LitStr>,
    toolset: Option<LitStr>,
    emoji: Option<LitStr>,
    requires_env: Vec<LitStr>,
    max_result_size_chars: Option<LitInt>,
    overrides: bool,
    read_only: Option<bool>,
    destructive: Option<bool>,
    idempotent: Option<bool>,
    open_world: Option<bool>,
    check: Option<Path>,
    describe: Option<Path>,
    examples: Vec<(LitStr, Option<LitStr>)>,
}

pub(crate) fn expand(attributes: TokenStream, item: TokenStream) -> Result<TokenStream> {
    let mut settings = Settings::default();
    syn::meta::parser(|meta| settings.read(&meta)).parse2(attributes)?;
    let function: ItemFn = syn::parse2(item)?;
    let tool_name = match &settings.name {
        Some(name) => name.value(),
        None => function.sig.ident.to_string(),
    };
    let tool_name = quote!(const NAME: &'static str = #tool_name;);
    let definition = definition(&settings, &function)?;
    let call = call(&function)?;
    let (name, visibility) = (&function.sig.ident, &function.vis);
    let check = option(settings.check.as_ref());
    let describe = option(settings.describe.as_ref());
    Ok(quote! {
        #function

        #[allow(non_camel_case_types)]
        #[doc(hidden)]
        #visibility struct #name {}

        impl ::toolhost_sdk::Tool for #name {
            #tool_name

            const CHECK: ::core::option::Option<::toolhost_sdk::Check> = #check;
            const DESCRIBE: ::core::option::Option<::toolhost_sdk::Describe> = #describe;

            #definition

            #call
        }
    })
}

impl Settings {
    fn read(&mut self, meta: &ParseNestedMeta<'_>) -> Result<()> {
        let key = meta.path.require_ident()?.to_string();
        match key.as_str() {
            "name" => self.name = Some(meta.value()?.parse()?),
            "toolset" => self.toolset = Some(meta.value()?.parse()?),
            "emoji" => self.emoji = Some(meta.value()?.parse()?),
            "max_result_size_chars" => self.max_result_size_chars = Some(meta.value()?.parse()?),
            "overrides" => self.overrides = flag(meta)?,
            "read_only" => self.read_only = Some(flag(meta)?),
            "destructive" => self.destructive = Some(flag(meta)?),
            "idempotent" => self.idempotent = Some(flag(meta)?),
            "open_world" => self.open_world = Some(flag(meta)?),
            "check" => self.check = Some(meta.value()?.parse()?),
            "describe" => self.describe = Some(meta.value()?.parse()?),
            "requires_env" => {
                let list;
                let stream = meta.value()?;
                syn::bracketed!(list in stream);
                let names = list.parse_terminated(|name| name.parse::<LitStr>(), Token![,])?;
                self.requires_env.extend(names);
            }
            "example" => {
                let pair;
                let stream = meta.value()?;
                syn::parenthesized!(pair in stream);
                let arguments = pair.parse()?;
                let expected = match pair.parse::<Option<Token![,]>>()? {
                    Some(_) if !pair.is_empty() => Some(pair.parse()?),
                    _ => None,
                };
                self.examples.push((arguments, expected));
            }
            _ => {
                return Err(meta.error(format!(
                    "unknown key `{key}`; known are name, toolset, read_only, destructive, \
                     idempotent, open_world, emoji, requires_env, max_result_size_chars, \
                     overrides, check, describe, example"
                )));
            }
        }
        Ok(())
    }
}

/// `read_only` alone means yes; `read_only = false` means no.
fn flag(meta: &ParseNestedMeta<'_>) -> Result<bool> {
    if meta.input.peek(Token![=]) { Ok(meta.value()?.parse::<LitBool>()?.value) } else { Ok(true) }
}

fn definition(settings: &Settings, function: &ItemFn) -> Result<TokenStream> {
    let ident = &function.sig.ident;
    let Some(toolset) = &settings.toolset else {
        return Err(syn::Error::new(ident.span(), "a tool needs `toolset = \"...\"`"));
    };
    let description = description(&function.attrs);
    if description.is_empty() {
        let message = "a tool needs a doc comment: it is the description a model reads";
        return Err(syn::Error::new(ident.span(), message));
    }
    let (_, arguments) = parameters(function)?;
    let output = success_type(function)?;
    let emoji = option(settings.emoji.as_ref().map(|emoji| quote!(#emoji.to_string())));
    let requires_env = &settings.requires_env;
    let max_result_size_chars = option(settings.max_result_size_chars.as_ref());
    let overrides = settings.overrides;
    let (has_check, has_dynamic_schema) = (settings.check.is_some(), settings.describe.is_some());
    // Tools with one check function share its answer.
    let shared_check = settings.check.iter().map(|check| {
        let name = quote!(#check).to_string();
        quote!(("check".to_string(), ::std::format!("{:?}", #name)))
    });
    let read_only = option(settings.read_only);
    let destructive = option(settings.destructive);
    let idempotent = option(settings.idempotent);
    let open_world = option(settings.open_world);
    let examples = settings.examples.iter().map(|(arguments, expected)| {
        let expected = option(expected.as_ref().map(|text| quote!(#text.to_string())));
        quote!(::toolhost_sdk::private::Example { arguments: #arguments.to_string(), expected: #expected })
    });
    Ok(quote! {
        fn definition() -> ::toolhost_sdk::bindings::toolhost::plugin::types::Tool {
            ::toolhost_sdk::bindings::toolhost::plugin::types::Tool {
                name: <Self as ::toolhost_sdk::Tool>::NAME.to_string(),
                toolset: #toolset.to_string(),
                description: #description.to_string(),
                parameters: ::toolhost_sdk::private::schema_of::<#arguments>(),
                output: <#output as ::toolhost_sdk::IntoOutput>::output_schema(),
                emoji: #emoji,
                requires_env: ::std::vec![#(#requires_env.to_string()),*],
                max_result_size_chars: #max_result_size_chars,
                overrides: #overrides,
                has_check: #has_check,
                has_dynamic_schema: #has_dynamic_schema,
                annotations: ::toolhost_sdk::private::Annotations {
                    read_only: #read_only,
                    destructive: #destructive,
                    idempotent: #idempotent,
                    open_world: #open_world,
                },
                examples: ::std::vec![#(#examples),*],
                extensions: ::std::vec![#(#shared_check),*],
            }
        }
    })
}

fn call(function: &ItemFn) -> Result<TokenStream> {
    let name = &function.sig.ident;
    let (takes_context, _) = parameters(function)?;
    // Names that no author's function has.
    let context = takes_context.then(|| quote!(__context));
    Ok(quote! {
        #[allow(unused_variables)]
        fn call(
            __arguments: &str,
            __context: &::toolhost_sdk::Context,
        ) -> ::core::result::Result<::toolhost_sdk::Output, ::toolhost_sdk::Error> {
            let __arguments = ::toolhost_sdk::private::parse(__arguments)?;
            ::toolhost_sdk::IntoOutput::into_output(#name(__arguments, #context)?)
        }
    })
}

/// Returns whether the function takes a context, and the type of its arguments.
fn parameters(function: &ItemFn) -> Result<(bool, &syn::Type)> {
    let inputs = function.sig.inputs.iter().collect::<Vec<_>>();
    match inputs.as_slice() {
        [FnArg::Typed(arguments)] => Ok((false, &*arguments.ty)),
        [FnArg::Typed(arguments), FnArg::Typed(_)] => Ok((true, &*arguments.ty)),
        _ => {
            let message = "a tool takes its arguments, and optionally a `&Context`";
            Err(syn::Error::new_spanned(&function.sig, message))
        }
    }
}

/// Returns the `T` of `Result<T, Error>`.
fn success_type(function: &ItemFn) -> Result<&syn::Type> {
    if let syn::ReturnType::Type(_, result) = &function.sig.output
        && let syn::Type::Path(path) = &**result
        && let Some(last) = path.path.segments.last()
        && let syn::PathArguments::AngleBracketed(arguments) = &last.arguments
        && let Some(syn::GenericArgument::Type(success)) = arguments.args.first()
    {
        return Ok(success);
    }
    let message = "a tool returns `Result<T, toolhost_sdk::Error>`";
    Err(syn::Error::new_spanned(&function.sig, message))
}

fn description(attributes: &[Attribute]) -> String {
    let lines = attributes.iter().filter_map(|attribute| match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("doc") => match &pair.value {
            Expr::Lit(ExprLit { lit: Lit::Str(line), .. }) => Some(line.value()),
            _ => None,
        },
        _ => None,
    });
    let lines = lines.map(|line| line.strip_prefix(' ').unwrap_or(&line).to_owned());
    lines.collect::<Vec<_>>().join("\n").trim().to_owned()
}

fn option(value: Option<impl quote::ToTokens>) -> TokenStream {
    match value {
        Some(value) => quote!(::core::option::Option::Some(#value)),
        None => quote!(::core::option::Option::None),
    }
}
