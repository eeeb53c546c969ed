//! Why something is no script.

use std::fmt;

use super::{DEPTH_MAX, ENTRIES_MAX, ENTRIES_PER_PLUGIN_FILE};
use toolhost_core::tool::Reason;
use toolhost_state::read::FileProblem;

/// Why something is no script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScriptError {
    /// A file or folder cannot be read.
    Unreadable {
        /// Below the script, or the script itself.
        path: String,
        /// What the system says.
        reason: String,
    },
    /// A file is no regular one, or lies elsewhere.
    Elsewhere {
        /// Below the script, or the script itself.
        path: String,
        /// What is wrong with it.
        problem: FileProblem,
    },
    /// A file is no text.
    NotText(String),
    /// Two files could be the main one.
    Mains(String),
    /// The main file is a link.
    Link(String),
    /// All modules together are too large.
    TooLarge(u64),
    /// There are too many modules.
    TooMany(usize),
    /// It lies too deep, or among too many other files.
    TooDeep,
    /// Its plugins folder has scripts with more entries than this, all together.
    TooCrowded(usize),
}

impl ScriptError {
    /// Why, and what to do.
    pub fn reason(&self) -> Reason {
        let (problem, repair) = match self {
            ScriptError::Unreadable { path, reason } => (
                format!("{path} cannot be read: {reason}"),
                Some("check that it is there and may be read".to_owned()),
            ),
            ScriptError::Elsewhere { path, problem } => {
                let Reason { problem, repair } = problem.reason();
                (format!("{path} {problem}"), repair)
            }
            ScriptError::NotText(given) => {
                (format!("{given} is not UTF-8 text"), Some("save it as UTF-8".to_owned()))
            }
            ScriptError::Mains(given) => {
                (format!("{given} could all be the main file"), Some("keep one".to_owned()))
            }
            ScriptError::Link(given) => (
                format!("its main file `{given}` is a link, and links are not followed"),
                Some("put the file itself there".to_owned()),
            ),
            ScriptError::TooLarge(given) => (
                format!("its modules have more than `script_bytes_max` of {given} bytes"),
                Some(
                    "raise that in toolhost.toml, or build a component of it with `toolhost build`"
                        .to_owned(),
                ),
            ),
            ScriptError::TooMany(given) => (
                format!("it has more than `script_files_max` of {given} modules"),
                Some(
                    "raise that in toolhost.toml, or build a component of it with `toolhost build`"
                        .to_owned(),
                ),
            ),
            ScriptError::TooDeep => (
                format!("its folder has more than {DEPTH_MAX} levels or {ENTRIES_MAX} entries"),
                Some("a script needs a folder of its own".to_owned()),
            ),
            ScriptError::TooCrowded(given) => (
                format!(
                    "the folders in its plugins folder have more than {given} entries together, {ENTRIES_PER_PLUGIN_FILE} times `plugin_files_max`"
                ),
                Some("raise that in toolhost.toml, or move some of them".to_owned()),
            ),
        };
        Reason { problem, repair }
    }
}

impl fmt::Display for ScriptError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason().fmt(formatter)
    }
}

impl std::error::Error for ScriptError {}
