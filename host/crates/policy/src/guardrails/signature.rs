//! The identity of a call, worked out once: guardrails and repeated reads go by it, before the call and
//! after it.

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::reads::{LIMIT_DEFAULT, OFFSET_DEFAULT, READ, SEARCH};
use super::recent::CallKey;

/// Which call it is: the tool, and its arguments in whatever order their keys stand.
#[derive(Clone, Copy, Debug)]
pub struct Signature<'a> {
    pub(super) tool: &'a str,
    pub(super) call: CallKey,
    /// What is read or searched, if that is what the tool does.
    pub(super) read: Option<CallKey>,
}

impl<'a> Signature<'a> {
    /// The arguments are coerced ones.
    pub fn new(tool: &'a str, arguments: &Map<String, Value>) -> Signature<'a> {
        let call = key(tool, arguments);
        let read = match tool {
            SEARCH => Some(call),
            READ => Some(key(tool, &region(arguments))),
            _ => None,
        };
        Signature { tool, call, read }
    }
}

/// What a `read_file` reads. `offset` and `limit` have its defaults.
fn region(arguments: &Map<String, Value>) -> Map<String, Value> {
    let argument = |name: &str| arguments.get(name).filter(|value| !value.is_null());
    let or = |name: &str, default: u64| argument(name).cloned().unwrap_or(json!(default));
    let mut region = Map::new();
    region.insert("path".to_owned(), argument("path").cloned().unwrap_or_default());
    region.insert("offset".to_owned(), or("offset", OFFSET_DEFAULT));
    region.insert("limit".to_owned(), or("limit", LIMIT_DEFAULT));
    region
}

fn key(tool: &str, arguments: &Map<String, Value>) -> CallKey {
    let mut arguments = Value::Object(arguments.clone());
    arguments.sort_all_objects();
    // JSON text has no NUL, so no tool's name can run over into its arguments.
    let text = arguments.to_string();
    Sha256::new().chain_update(tool).chain_update([0]).chain_update(text).finalize().into()
}
