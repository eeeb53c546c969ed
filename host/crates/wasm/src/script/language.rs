//! The languages that scripts are written in, and what names tell of it.

use serde::{Deserialize, Serialize};

/// A language of scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    /// `.py`
    Python,
    /// `.js`, `.mjs`, `.ts`
    JavaScript,
}

impl Language {
    /// Every one.
    pub const ALL: [Language; 2] = [Language::Python, Language::JavaScript];

    /// Its name, for people.
    pub fn name(self) -> &'static str {
        match self {
            Language::Python => "Python",
            Language::JavaScript => "JavaScript",
        }
    }

    /// Its name in file names.
    pub fn word(self) -> &'static str {
        match self {
            Language::Python => "python",
            Language::JavaScript => "javascript",
        }
    }

    /// The language of a file with this extension.
    pub(super) fn of_extension(extension: &str) -> Option<Language> {
        match extension {
            "py" => Some(Language::Python),
            "js" | "mjs" | "ts" => Some(Language::JavaScript),
            _ => None,
        }
    }

    /// The language of a file name, if it can be a module of a script.
    pub(super) fn of(name: &str) -> Option<Language> {
        let (stem, extension) = name.rsplit_once('.')?;
        let language = Language::of_extension(extension)?;
        let hidden = name.starts_with('.') || stem.is_empty();
        let is_test = match language {
            Language::Python => {
                stem.starts_with("test_") || stem.ends_with("_test") || stem == "conftest"
            }
            Language::JavaScript => [".test", ".d"].iter().any(|part| stem.ends_with(part)),
        };
        (!hidden && !is_test).then_some(language)
    }
}
