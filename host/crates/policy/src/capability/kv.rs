//! A store of a plugin's own, which it has or has not.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::{Asks, Capability, Grant, GrantError, Grants, Kind, ToolNeeds, asks_for_tool};
use toolhost_core::tool::Need;

struct KvKind;

impl Kind {
    /// A store of its own.
    pub const KV: Kind = Kind(&KvKind);
}

impl Capability for KvKind {
    fn key(&self) -> &'static str {
        "kv"
    }

    fn value_name(&self) -> Option<&'static str> {
        None
    }

    fn help(&self) -> &'static str {
        "A small key-value store of its own that outlives calls"
    }

    fn noun(&self) -> &'static str {
        "store"
    }

    fn read(&self, _: &str, _: Option<&Path>) -> Result<Arc<dyn Grant>, GrantError> {
        Ok(Arc::new(StoreGrant))
    }

    fn meets(&self, asks: &Asks<'_>, (tool, _): ToolNeeds<'_>, _: &dyn Grant) -> bool {
        asks_for_tool(asks.needs, Kind::KV, tool)
    }

    fn lacking(&self, _: &Need, _: &Value, held: &Grants) -> Vec<String> {
        if held.has(Kind::KV) { Vec::new() } else { vec![StoreGrant.to_string()] }
    }

    fn need_words(&self, _: &Map<String, Value>) -> Option<(String, usize)> {
        Some(("to keep values from one call to the next".to_owned(), 0))
    }

    fn grant_words(&self, _: &str) -> String {
        "a store of its own".to_owned()
    }

    fn imports(&self) -> &'static [(&'static str, &'static str)] {
        const WORDS: &str = "values kept between calls";
        &[("toolhost:plugin/kv", WORDS), ("wasi:keyvalue/", WORDS)]
    }

    fn used_by(&self) -> Option<&'static str> {
        Some("toolhost:plugin/kv@")
    }
}

/// That a plugin has a store.
#[derive(Debug)]
struct StoreGrant;

impl fmt::Display for StoreGrant {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("kv")
    }
}
