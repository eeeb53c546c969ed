//! From the four functions of the contract to the author's tools, and back.
//!
//! The macros generate no logic: they build a table of [`Entry`] and call in here.

use serde::de::DeserializeOwned;

use crate::bindings::toolhost::plugin::{progress as host_progress, types};
use crate::{Context, Error, Extension, Need, Output};

/// Answers whether a tool can work at present, or why not.
pub type Check = fn() -> Result<(), String>;

/// Returns what changes in a tool's definition when the named tools are visible, as the
/// text of a JSON object with `description`, `parameters` or both.
pub type Describe = fn(available: &[String]) -> Option<String>;

/// A tool as the [`tool`](crate::tool) macro implements it, on a type named like the function.
pub trait Tool {
    /// The tool's name.
    const NAME: &'static str;
    /// Answers whether the tool can work at present.
    const CHECK: Option<Check>;
    /// Changes the tool's definition according to what else is visible.
    const DESCRIBE: Option<Describe>;

    /// What the tool registers.
    fn definition() -> types::Tool;

    /// Runs one call with arguments as JSON text.
    ///
    /// # Errors
    /// If the arguments do not fit the tool's argument type, or the tool itself fails.
    fn call(arguments: &str, context: &Context) -> Result<Output, Error>;
}

/// A row in a plugin's table of tools.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    name: &'static str,
    definition: fn() -> types::Tool,
    call: fn(&str, &Context) -> Result<Output, Error>,
    check: Option<Check>,
    describe: Option<Describe>,
}

impl Entry {
    /// The row of one tool.
    pub const fn of<T: Tool>() -> Entry {
        Entry {
            name: T::NAME,
            definition: T::definition,
            call: T::call,
            check: T::CHECK,
            describe: T::DESCRIBE,
        }
    }
}

/// Reports progress to whoever waits for the call: `done` of `total`, in units of your choice.
pub fn progress(done: f64, total: Option<f64>, message: Option<&str>) {
    if cfg!(target_family = "wasm") {
        host_progress::progress(done, total, message);
    }
}

/// Builds the registration of a plugin.
pub fn register(
    name: &str,
    version: &str,
    tools: &[Entry],
    needs: Vec<Need>,
    extensions: Vec<Extension>,
) -> types::Registration {
    types::Registration {
        name: name.to_owned(),
        version: version.to_owned(),
        tools: tools.iter().map(|entry| (entry.definition)()).collect(),
        needs: needs.into_iter().map(Need::into_contract).collect(),
        extensions,
    }
}

/// Runs one call of the tool named `tool`.
pub fn call(
    tools: &[Entry],
    tool: &str,
    arguments: &str,
    context: &Context,
) -> Result<types::ToolOutput, types::ToolError> {
    let entry = find(tools, tool)
        .ok_or_else(|| types::ToolError::Failed(format!("this plugin has no tool `{tool}`")))?;
    (entry.call)(arguments, context).map(Output::into_contract).map_err(Error::into_contract)
}

/// Runs the check of one tool; a tool without one is available.
pub fn check(tools: &[Entry], tool: &str) -> Result<(), String> {
    find(tools, tool).and_then(|entry| entry.check).map_or(Ok(()), |check| check())
}

/// Runs the describe function of one tool; a tool without one stays as registered.
pub fn describe(tools: &[Entry], tool: &str, available: &[String]) -> Option<String> {
    find(tools, tool).and_then(|entry| entry.describe).and_then(|describe| describe(available))
}

/// Reads a tool's arguments from JSON text.
pub fn parse<T: DeserializeOwned>(arguments: &str) -> Result<T, Error> {
    serde_json::from_str(arguments).map_err(|error| Error::bad_argument("", error.to_string()))
}

fn find<'a>(tools: &'a [Entry], name: &str) -> Option<&'a Entry> {
    tools.iter().find(|entry| entry.name == name)
}
