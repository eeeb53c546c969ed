//! Names of tools and toolsets: what is allowed, and which two names a reader takes for one.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The most characters a name may have, as the function schemas of model vendors demand.
const NAME_CHARS_MAX: usize = 64;

/// The name of a tool: 1 to 64 characters of `A-Z a-z 0-9 _ -`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ToolName(Arc<str>);

/// Why a text is no name.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum NameError {
    /// It has characters that are not allowed, too many, or none.
    #[error("`{0}` is not a name: allowed are 1 to 64 characters of A-Z a-z 0-9 _ -")]
    Characters(String),
    /// The prefix is for the toolsets of MCP servers.
    #[error("toolset `{0}` begins with `mcp-`, which is for MCP servers")]
    McpToolset(String),
}

impl ToolName {
    /// Checks a name.
    ///
    /// # Errors
    /// If it is empty, longer than 64 characters, or has any but the allowed ones.
    pub fn new(name: &str) -> Result<ToolName, NameError> {
        check_characters(name)?;
        Ok(ToolName(name.into()))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What the name looks like to a reader: the same for names that count as one.
    ///
    /// Case, `-` against `_`, `0` against `o` and `1` against `l` make no difference.
    pub fn skeleton(&self) -> String {
        let look = |character: char| match character.to_ascii_lowercase() {
            '-' => '_',
            '0' => 'o',
            '1' => 'l',
            other => other,
        };
        self.0.chars().map(look).collect()
    }
}

impl TryFrom<String> for ToolName {
    type Error = NameError;

    fn try_from(name: String) -> Result<ToolName, NameError> {
        ToolName::new(&name)
    }
}

impl From<ToolName> for String {
    fn from(name: ToolName) -> String {
        name.0.as_ref().to_owned()
    }
}

impl fmt::Display for ToolName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// Checks the name of a toolset that a plugin declares.
///
/// # Errors
/// If it is no name, or begins with `mcp-`.
pub fn check_toolset(name: &str) -> Result<(), NameError> {
    check_characters(name)?;
    if name.to_ascii_lowercase().starts_with("mcp-") {
        return Err(NameError::McpToolset(name.to_owned()));
    }
    Ok(())
}

fn check_characters(name: &str) -> Result<(), NameError> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if (1..=NAME_CHARS_MAX).contains(&name.len()) && name.bytes().all(allowed) {
        return Ok(());
    }
    let shown: String = name.chars().take(NAME_CHARS_MAX).flat_map(char::escape_debug).collect();
    Err(NameError::Characters(shown))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked() {
        let name = |name: &str| ToolName::new(name).map(|_| ());
        assert_eq!(name("read_file"), Ok(()));
        assert_eq!(name(&"a".repeat(64)), Ok(()));
        for bad in ["", "a b", "é", "a\u{1b}[31m", "a/b", &"a".repeat(65)] {
            let message = name(bad).expect_err(bad).to_string();
            assert!(message.contains("1 to 64"), "{message}");
            assert!(!message.contains('\u{1b}'), "{message:?}");
        }
        assert!(check_toolset("data").is_ok());
        assert!(check_toolset("MCP-github").is_err());
    }

    #[test]
    fn confusable_names_share_a_skeleton() {
        let skeleton = |name: &str| ToolName::new(name).expect(name).skeleton();
        assert_eq!(skeleton("read-file"), skeleton("read_file"));
        assert_eq!(skeleton("Read_File"), skeleton("read_file"));
        assert_eq!(skeleton("go_1"), skeleton("g0-l"));
        assert_ne!(skeleton("readfile"), skeleton("read_file"));
    }
}
