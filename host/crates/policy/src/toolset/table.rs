//! The committed table of toolsets, `host/data/toolsets.json`, as checked values.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use serde::Deserialize;

pub(super) static TABLE: LazyLock<ToolsetTable> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../../../../data/toolsets.json"))
        .expect("the committed table is valid, as a test of this module shows")
});

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ToolsetTable {
    pub(super) core: BTreeSet<String>,
    pub(super) toolsets: BTreeMap<String, StaticToolset>,
    /// The toolsets that a user is asked about, platform by platform.
    pub(super) configurable: BTreeSet<String>,
    /// Those of them that are off until a user asks for them.
    pub(super) default_off: BTreeSet<String>,
    agent_loop: BTreeSet<String>,
    /// Names of former times, with their tools.
    pub(super) legacy: BTreeMap<String, Vec<String>>,
    /// By name: of each toolset, in how many samples of a hundred it is.
    pub(super) distributions: BTreeMap<String, BTreeMap<String, u8>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StaticToolset {
    pub(super) description: String,
    /// It has all core tools, beside those it names.
    #[serde(default)]
    core: bool,
    /// It says how to work, not what is at hand: to disable it takes no core tool away.
    #[serde(default)]
    pub(super) posture: bool,
    #[serde(default)]
    tools: Vec<String>,
    #[serde(default)]
    pub(super) includes: Vec<String>,
}

impl StaticToolset {
    /// Its own tools, without those of the toolsets it includes.
    pub(super) fn tools(&self) -> impl Iterator<Item = &str> {
        let core = self.core.then(|| TABLE.core.iter()).into_iter().flatten();
        core.chain(&self.tools).map(String::as_str)
    }

    /// It has no tools but those that join it.
    pub(super) fn is_empty(&self) -> bool {
        !self.core && self.tools.is_empty() && self.includes.is_empty()
    }
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

/// Tells whether `name` is a tool that the agent's own loop runs, because it works on what only
/// the loop has: its plan, its memory, its sessions, its helpers.
pub fn is_agent_loop_tool(name: &str) -> bool {
    TABLE.agent_loop.contains(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(name: &str) -> usize {
        TABLE.toolsets[name].tools().count()
    }

    #[test]
    fn the_table_is_whole() {
        assert_eq!(TABLE.core.len(), 52);
        assert_eq!((members("browser"), members("kanban"), members("coding")), (13, 12, 32));
        assert_eq!((members("hermes-cli"), members("hermes-discord")), (52, 54));
        assert_eq!((members("hermes-acp"), members("hermes-api-server")), (29, 35));
        assert_eq!((TABLE.legacy.len(), TABLE.distributions.len()), (9, 17));
        for (name, toolset) in &TABLE.toolsets {
            assert!(toolset.description.ends_with('.'), "{name}: {}", toolset.description);
            for included in &toolset.includes {
                assert!(is_builtin_toolset(included), "{name} includes {included}");
                let deeper = &TABLE.toolsets[included].includes;
                assert!(deeper.is_empty(), "{name} includes {included}, which includes others");
            }
        }
        let postures = TABLE.toolsets.iter().filter(|(_, toolset)| toolset.posture);
        assert_eq!(postures.map(|(name, _)| name).collect::<Vec<_>>(), ["coding"]);
    }

    #[test]
    fn its_lists_name_what_exists() {
        for name in TABLE.configurable.iter().chain(&TABLE.default_off) {
            assert!(is_builtin_toolset(name), "{name}");
        }
        assert!(TABLE.default_off.is_subset(&TABLE.configurable));
        assert!(TABLE.agent_loop.is_subset(&TABLE.core));
        for (name, percents) in &TABLE.distributions {
            assert!(!percents.is_empty(), "{name}");
            for (toolset, percent) in percents {
                assert!(is_builtin_toolset(toolset), "{name}: {toolset}");
                assert!((1..=100).contains(percent), "{name}: {toolset} {percent}");
            }
        }
        for name in TABLE.legacy.keys() {
            assert!(!is_builtin_toolset(name), "{name}");
        }
    }

    #[test]
    fn names_are_looked_up() {
        assert!(is_core_tool("read_file"));
        assert!(!is_core_tool("json_query"));
        assert!(is_builtin_toolset("web"));
        assert!(!is_builtin_toolset("data"));
        assert!(is_agent_loop_tool("delegate_task"));
        assert!(!is_agent_loop_tool("read_file"));
        assert_eq!(core_tools().count(), 52);
    }
}
