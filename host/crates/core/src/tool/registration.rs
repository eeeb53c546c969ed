//! What a source publishes at once: its tools, its needs, and what was left out and why.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;

use super::{Hooks, Reason, Tool, ToolName};

/// Where tools come from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SourceId {
    /// The host itself.
    Builtin,
    /// A plugin: a file in a folder. The same id in two folders is two plugins.
    Plugin {
        /// The plugin's id.
        id: PluginId,
        /// The folder it lies in.
        folder: PathBuf,
    },
    /// An MCP server, by its name in the configuration.
    Mcp(String),
}

impl SourceId {
    /// Of a plugin: its id, and the folder it lies in.
    pub fn plugin(&self) -> Option<(&PluginId, &Path)> {
        match self {
            SourceId::Plugin { id, folder } => Some((id, folder)),
            SourceId::Builtin | SourceId::Mcp(_) => None,
        }
    }

    /// The folder that a plugin lies in.
    pub fn folder(&self) -> Option<&Path> {
        self.plugin().map(|(_, folder)| folder)
    }
}

impl fmt::Display for SourceId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SourceId::Builtin => formatter.write_str("builtin"),
            SourceId::Plugin { id, .. } => write!(formatter, "plugin:{id}"),
            SourceId::Mcp(server) => write!(formatter, "mcp:{server}"),
        }
    }
}

/// How far a source is trusted with names. It says nothing about authority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin {
    /// The host itself.
    Builtin,
    /// A plugin whose digest `make` recorded when it built it.
    Bundled,
    /// A plugin from the user's own folder.
    User,
    /// A plugin from the folder of a project, or one named on the command line.
    Project,
    /// An MCP server.
    Mcp,
}

/// The id of a plugin: the stem of its file name, lower-cased, `_` read as `-`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PluginId(Arc<str>);

/// What is shown beside a tool that says nothing else.
const EMOJI: &str = "⚡";

/// Why a file stem is no plugin id.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error(
    "`{0}` is no plugin id: allowed are 1 to 40 characters of a-z 0-9 - (case and _ are folded)"
)]
pub struct PluginIdError(String);

impl PluginId {
    /// Reads an id from a file stem.
    ///
    /// # Errors
    /// If what remains after folding has other characters than `a-z 0-9 -`, more than 40 of
    /// them, or none.
    pub fn from_stem(stem: &str) -> Result<PluginId, PluginIdError> {
        let id = stem.to_ascii_lowercase().replace('_', "-");
        let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if (1..=40).contains(&id.len()) && id.bytes().all(allowed) {
            return Ok(PluginId(id.into()));
        }
        Err(PluginIdError(stem.chars().take(60).flat_map(char::escape_debug).collect()))
    }

    /// An id for a file of any name, to look at it: what no id has becomes `-`.
    pub fn of_any(stem: &str) -> PluginId {
        let fold = |letter: char| match letter.to_ascii_lowercase() {
            letter @ ('a'..='z' | '0'..='9') => letter,
            _ => '-',
        };
        let id: String = stem.chars().take(40).map(fold).collect();
        PluginId(if id.is_empty() { "file".into() } else { id.into() })
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PluginId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// What one source publishes at once.
#[derive(Clone)]
pub struct Registration {
    /// Who publishes.
    pub source: SourceId,
    /// How far it is trusted with names.
    pub origin: Origin,
    /// Its place among sources of its origin: the folder's rank, or the server's place in the
    /// configuration. Lower comes first.
    pub rank: usize,
    /// The operator lets it replace tools and take reserved names.
    pub allow_tool_override: bool,
    /// Its tools.
    pub tools: Vec<Arc<dyn Tool>>,
    /// What it asks for.
    pub needs: Vec<Need>,
    /// Its hooks, if it asked for some and was granted them.
    pub hooks: Option<Arc<dyn Hooks>>,
    /// SHA-256 of the bytes it was made of, in hexadecimal, if it was made of bytes.
    pub digest: Option<Arc<str>>,
    /// A person has vouched for it: it is part of the host, bundled, or its bytes were trusted.
    pub trusted: bool,
    /// Tools it declared that are none, each with the reason.
    pub rejected: Vec<Rejection>,
    /// Tools of a build that waits for a person, each with the reason; none of them can be called.
    pub waiting: Vec<Rejection>,
}

impl fmt::Debug for Registration {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tools: Vec<_> = self.tools.iter().map(|tool| tool.spec().name.as_str()).collect();
        formatter
            .debug_struct("Registration")
            .field("source", &self.source)
            .field("origin", &self.origin)
            .field("tools", &tools)
            .finish_non_exhaustive()
    }
}

/// A tool that was left out, and why. Never fails the rest of a registration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rejection {
    /// The name it declared, made safe to show.
    pub tool: String,
    /// Why, and what to do.
    #[serde(flatten)]
    pub reason: Reason,
}

/// One piece of authority a source asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Need {
    /// Such as `dirs` or `http`; a kind the host does not know grants nothing.
    pub kind: String,
    /// What exactly, as JSON text.
    pub value: String,
    /// The tools it is for; empty means all.
    pub tools: Vec<String>,
    /// Why, for the person who decides.
    pub reason: String,
}

/// What one tool registered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// The name a model calls.
    pub name: ToolName,
    /// The named group it belongs to.
    pub toolset: String,
    /// What it does, for the model.
    pub description: String,
    /// JSON Schema of the arguments.
    pub parameters: Value,
    /// JSON Schema of the structured output.
    pub output: Option<Value>,
    /// Shown beside the tool, as it says; see [`ToolSpec::shown_emoji`].
    pub emoji: Option<String>,
    /// Variables without which it is unavailable.
    pub requires_env: Vec<String>,
    /// From how many characters on a result is kept and previewed.
    pub max_result_size_chars: Option<u32>,
    /// It asks to replace a tool of the same name.
    pub overrides: bool,
    /// `check` has an answer for it, and the component exports the interface.
    pub has_check: bool,
    /// `describe` has an answer for it, and the component exports the interface.
    pub has_dynamic_schema: bool,
    /// Hints, for people.
    pub annotations: Annotations,
    /// Calls that show its use.
    pub examples: Vec<Example>,
    /// Names the host does not know, with JSON text; reported, without effect.
    pub extensions: Vec<(String, String)>,
}

/// Hints about a tool, for people. No decision rests on them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Annotations {
    /// It changes nothing outside itself.
    pub read_only: Option<bool>,
    /// What it changes may be lost for good.
    pub destructive: Option<bool>,
    /// A second call with the same arguments changes nothing more.
    pub idempotent: Option<bool>,
    /// It deals with an open set of things.
    pub open_world: Option<bool>,
}

/// A call that shows a tool's use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Example {
    /// The arguments, as JSON text.
    pub arguments: String,
    /// Text that occurs in the output.
    pub expected: Option<String>,
}

impl ToolSpec {
    /// A tool with nothing special: no requirements, hints, examples or extensions.
    pub fn new(name: ToolName, toolset: &str, description: &str, parameters: Value) -> ToolSpec {
        ToolSpec {
            name,
            toolset: toolset.to_owned(),
            description: description.to_owned(),
            parameters,
            output: None,
            emoji: None,
            requires_env: Vec::new(),
            max_result_size_chars: None,
            overrides: false,
            has_check: false,
            has_dynamic_schema: false,
            annotations: Annotations::default(),
            examples: Vec::new(),
            extensions: Vec::new(),
        }
    }

    /// What is shown beside the tool.
    pub fn shown_emoji(&self) -> &str {
        self.emoji.as_deref().filter(|emoji| !emoji.is_empty()).unwrap_or(EMOJI)
    }

    /// The name of the check that the tool shares with others of its source, if it does.
    pub fn shared_check(&self) -> Option<&str> {
        self.extensions.iter().find(|(name, _)| name == "check").map(|(_, value)| value.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejections_of_older_records_are_read() {
        let older = r#"{"tool":"t","reason":"it is twice; rename one"}"#;
        let read: Rejection = serde_json::from_str(older).expect("a rejection");
        assert_eq!(read.reason, Reason::without_repair("it is twice; rename one"));
        assert_eq!(serde_json::to_string(&read).expect("JSON"), older);
        let now = Rejection { tool: "t".into(), reason: Reason::new("it is twice", "rename one") };
        let json = serde_json::to_string(&now).expect("JSON");
        assert_eq!(json, r#"{"tool":"t","reason":"it is twice","repair":"rename one"}"#);
        assert_eq!(serde_json::from_str::<Rejection>(&json).expect("a rejection"), now);
    }

    #[test]
    fn stems_become_ids() {
        let id = |stem: &str| PluginId::from_stem(stem).map(|id| id.as_str().to_owned());
        assert_eq!(id("json"), Ok("json".to_owned()));
        assert_eq!(id("My_Tool"), Ok("my-tool".to_owned()));
        for bad in ["", "a b", "ümlaut", "a.b", &"x".repeat(41)] {
            assert!(id(bad).is_err(), "{bad}");
            assert!(id(PluginId::of_any(bad).as_str()).is_ok(), "{bad}");
        }
        assert_eq!(PluginId::of_any("My tool.v2").as_str(), "my-tool-v2");
    }
}
