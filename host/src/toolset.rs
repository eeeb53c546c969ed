//! The static table of core tools and toolsets: which names are the house's own.
//!
//! The table is data, in `host/data/toolsets.json`. A file dropped into a folder must not
//! pass for a core tool or slip into a toolset that users have switched on; so these names
//! are reserved for bundled plugins, and others need the operator's `allow_tool_override`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::Value;

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../data/toolsets.json"))
        .expect("the committed table is valid, as a test of this room shows")
});

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    core: BTreeSet<String>,
    /// By name; what each one takes in is data for whoever resolves toolsets.
    toolsets: BTreeMap<String, Value>,
}

/// Tells whether `name` is the name of a core tool.
pub fn is_core_tool(name: &str) -> bool {
    TABLE.core.contains(name)
}

/// The names of all core tools, sorted.
pub fn core_tools() -> impl Iterator<Item = &'static str> {
    TABLE.core.iter().map(String::as_str)
}

/// Tells whether `name` is a toolset of the static table.
pub fn is_builtin_toolset(name: &str) -> bool {
    TABLE.toolsets.contains_key(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_whole() {
        assert_eq!(TABLE.core.len(), 52);
        let list = |toolset: &Value, key: &str| -> Vec<String> {
            toolset.get(key).map_or(Vec::new(), |list| {
                serde_json::from_value(list.clone()).expect("a list of names")
            })
        };
        for (name, toolset) in &TABLE.toolsets {
            for key in toolset.as_object().expect("an object").keys() {
                assert!(
                    ["tools", "includes", "core", "posture"].contains(&key.as_str()),
                    "{name}: {key}"
                );
            }
            for included in list(toolset, "includes") {
                assert!(is_builtin_toolset(&included), "{name} includes {included}");
            }
        }
        let members = |name: &str| list(&TABLE.toolsets[name], "tools").len();
        assert_eq!((members("browser"), members("kanban"), members("coding")), (13, 12, 32));
        assert_eq!(TABLE.toolsets["coding"]["posture"], true);
        assert_eq!(TABLE.toolsets["hermes-cli"]["core"], true);
    }

    #[test]
    fn names_are_looked_up() {
        assert!(is_core_tool("read_file"));
        assert!(!is_core_tool("json_query"));
        assert!(is_builtin_toolset("web"));
        assert!(!is_builtin_toolset("data"));
    }
}
