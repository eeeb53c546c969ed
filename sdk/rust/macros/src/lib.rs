//! The attribute macros of toolhost-sdk, documented where authors meet them: on
//! `toolhost_sdk::arguments` and `toolhost_sdk::tool`.

use proc_macro::TokenStream;

mod arguments;
mod tool;

/// Makes a struct or enum usable as the arguments of a tool, or as a part of them.
///
/// It derives `Deserialize` and `JsonSchema`: doc comments become descriptions, a field with
/// `#[serde(default)]` or of type `Option` is not required, and defaults stand in the schema.
/// All attributes of serde and schemars work on the fields.
///
/// Fields that are not declared are refused, so that a misspelt argument is an error instead
/// of silence. `#[arguments(allow_unknown_fields)]` lets them pass.
#[proc_macro_attribute]
pub fn arguments(attributes: TokenStream, item: TokenStream) -> TokenStream {
    arguments::expand(attributes.into(), item.into())
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}

/// Makes a function a tool. Its doc comment is the description a model reads.
///
/// The function takes its arguments, a type marked `arguments`, and optionally a
/// `&Context`; it returns `Result<T, Error>` with `T` a `String`, `&str`, `()`, `Json<_>`,
/// `Structured<_>`, `Shown<_>`, `serde_json::Value` or `Output`.
///
/// | attribute | meaning |
/// |---|---|
/// | `toolset = "data"` | the group the tool belongs to; required |
/// | `name = "count_words"` | the tool's name, by default the function's |
/// | `read_only`, `destructive`, `idempotent`, `open_world` | hints for people; `= false` says no, leaving it out says nothing |
/// | `emoji = "🔢"` | shown beside the tool |
/// | `requires_env = ["TOKEN"]` | variables without which the tool is unavailable |
/// | `max_result_size_chars = 20_000` | from which size on a result is kept and previewed |
/// | `overrides` | asks to replace a tool of the same name |
/// | `check = ready` | a `fn() -> Result<(), String>`: can the tool work at present? Tools with the same function share its answer |
/// | `describe = describe` | a `fn(&[String]) -> Option<String>`: the definition, given the visible tools |
/// | `example = (r#"{"text": "a b"}"#, "2")` | arguments, and text that must occur in the output; may be repeated |
#[proc_macro_attribute]
pub fn tool(attributes: TokenStream, item: TokenStream) -> TokenStream {
    tool::expand(attributes.into(), item.into())
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}
