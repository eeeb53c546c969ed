//! Writes a toolhost plugin in Rust.
//!
//! A plugin is a `cdylib` crate with functions marked [`tool`] and one [`plugin!`] line.
//! `toolhost build DIR` turns it into one `.wasm` file that the host loads from a folder.
//!
//! ```
//! use toolhost_sdk::{Error, Json, arguments, plugin, tool};
//!
//! #[arguments]
//! struct CountWords {
//!     /// The text to count.
//!     text: String,
//!     /// Count words of at least this many characters.
//!     #[serde(default)]
//!     min_length: usize,
//! }
//!
//! /// Counts the words of a text.
//! #[tool(toolset = "text", read_only, example = (r#"{"text": "a b"}"#, "2"))]
//! fn count_words(arguments: CountWords) -> Result<Json<usize>, Error> {
//!     let long = |word: &&str| word.chars().count() >= arguments.min_length;
//!     Ok(Json(arguments.text.split_whitespace().filter(long).count()))
//! }
//!
//! plugin!(tools: [count_words]);
//! # fn main() {
//! let output = toolhost_sdk::testing::call::<count_words>(r#"{"text": "one two"}"#);
//! assert_eq!(output.unwrap().text(), "2");
//! # }
//! ```
//!
//! What the crate does *not* do: it talks to no host directory, socket or clock of its own.
//! Directories are `std`, other machines are [`http`], and both refuse until the operator grants
//! what the plugin asked for with [`Need`].

/// The examples of the README compile and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub mod hooks;
pub mod http;
pub mod kv;
pub mod log;
mod need;
#[cfg(toolhost_old_libc)]
mod old_libc;
mod output;
mod runtime;
mod schema;
pub mod secrets;
pub mod testing;

/// The bindings generated from the contract in `wit/`, for what the typed layer leaves out.
pub mod bindings {
    #![expect(missing_docs, reason = "generated from wit/, where the documentation is")]
    #![expect(clippy::too_many_arguments, reason = "generated, one for each flat parameter")]

    wit_bindgen::generate!({
        path: "../../wit",
        world: "plugin-full",
        pub_export_macro: true,
        default_bindings_module: "toolhost_sdk::bindings",
    });
}

pub use bindings::toolhost::plugin::types::{CallContext as Context, Extension};
pub use need::{Need, Slot};
pub use output::{Error, IntoOutput, Json, Output, Shown, Structured};
pub use runtime::{Check, Describe, Entry, Tool, progress};
pub use toolhost_sdk_macros::{arguments, tool};

/// What the macros refer to. Not part of the public interface.
#[doc(hidden)]
pub mod private {
    pub use crate::bindings::toolhost::plugin::types::{Annotations, Example};
    pub use crate::runtime::{call, check, describe, parse, register};
    pub use crate::schema::of as schema_of;
    pub use {schemars, serde};
}

/// Exports the crate as a plugin. Each crate has exactly one.
///
/// `tools` are functions marked [`tool`]. `hooks` (a type that implements
/// [`Hooks`](hooks::Hooks)), `needs` and `extensions` are optional and come in this order. The registration's name and version are the crate's.
///
/// ```
/// # use toolhost_sdk::{Error, Need, arguments, plugin, tool};
/// # #[arguments] struct Nothing {}
/// # /// Fetches.
/// # #[tool(toolset = "web")] fn fetch(_: Nothing) -> Result<String, Error> { Ok(String::new()) }
/// plugin! {
///     tools: [fetch],
///     needs: [Need::http(["api.example.com"]).reason("where the answers are")],
/// }
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! plugin {
    (
        tools: [$($tool:path),* $(,)?]
        $(, hooks: $hooks:ty)?
        $(, needs: [$($need:expr),* $(,)?])?
        $(, extensions: [$($extension:expr),* $(,)?])?
        $(,)?
    ) => {
        const _: () = {
            // Used also where nothing is exported: in the author's own unit tests.
            #[used]
            static TOOLS: &[$crate::Entry] = &[$($crate::Entry::of::<$tool>()),*];

            struct Plugin;

            impl $crate::bindings::Guest for Plugin {
                fn register()
                -> Result<$crate::bindings::toolhost::plugin::types::Registration, String> {
                    Ok($crate::private::register(
                        env!("CARGO_PKG_NAME"),
                        env!("CARGO_PKG_VERSION"),
                        TOOLS,
                        vec![$($($need),*)?],
                        vec![$($($extension),*)?],
                    ))
                }

                fn call(
                    tool: String,
                    arguments: String,
                    context: $crate::Context,
                ) -> Result<
                    $crate::bindings::toolhost::plugin::types::ToolOutput,
                    $crate::bindings::toolhost::plugin::types::ToolError,
                > {
                    $crate::private::call(TOOLS, &tool, &arguments, &context)
                }
            }

            impl $crate::bindings::exports::toolhost::plugin::availability::Guest for Plugin {
                fn check(tool: String) -> Result<(), String> {
                    $crate::private::check(TOOLS, &tool)
                }
            }

            impl $crate::bindings::exports::toolhost::plugin::schema_override::Guest for Plugin {
                fn describe(tool: String, available: Vec<String>) -> Option<String> {
                    $crate::private::describe(TOOLS, &tool, &available)
                }
            }

            type PluginHooks = $crate::hooks_or_none!($($hooks)?);

            impl $crate::bindings::exports::toolhost::plugin::hooks::Guest for Plugin {
                fn request(call: $crate::hooks::HookedCall) -> Result<Option<String>, String> {
                    <PluginHooks as $crate::hooks::Hooks>::request(&call)
                }

                fn pre_call(
                    call: $crate::hooks::HookedCall,
                ) -> Result<$crate::hooks::Decision, String> {
                    <PluginHooks as $crate::hooks::Hooks>::pre_call(&call)
                }

                fn post_call(
                    call: $crate::hooks::HookedCall,
                    outcome: $crate::hooks::HookedOutcome,
                ) -> Result<(), String> {
                    <PluginHooks as $crate::hooks::Hooks>::post_call(&call, &outcome)
                }

                fn transform(
                    call: $crate::hooks::HookedCall,
                    outcome: $crate::hooks::HookedOutcome,
                ) -> Result<Option<String>, String> {
                    <PluginHooks as $crate::hooks::Hooks>::transform(&call, &outcome)
                }
            }

            #[cfg(target_family = "wasm")]
            $crate::bindings::export!(Plugin with_types_in $crate::bindings);
        };
    };
}

/// The type of a plugin's hooks.
#[doc(hidden)]
#[macro_export]
macro_rules! hooks_or_none {
    () => {
        $crate::hooks::NoHooks
    };
    ($hooks:ty) => {
        $hooks
    };
}
