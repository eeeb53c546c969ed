//! Why a schema cannot be used.

use std::fmt;

use thiserror::Error;

use toolhost_core::runtime::Stop;
use toolhost_core::text;

/// A keyword that costs too much, and where it stands in the schema with its references expanded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expensive {
    keyword: String,
    path: String,
}

impl Expensive {
    pub(super) fn new<'a>(keyword: &str, path: impl IntoIterator<Item = &'a str>) -> Expensive {
        let path: String = path.into_iter().flat_map(|step| ["/", step]).collect();
        let shown = |given: &str| text::one_line(&text::cut(given, super::PATH_CHARS_MAX));
        Expensive { keyword: shown(keyword), path: shown(&path) }
    }
}

impl fmt::Display for Expensive {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "keyword `{}` at {}", self.keyword, self.path)
    }
}

/// Why a schema cannot be used.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum SchemaError {
    /// The text is too long.
    #[error("schema of {given} bytes exceeds `schema_bytes_max` of {allowed}")]
    TooLarge {
        /// Bytes given.
        given: usize,
        /// Bytes allowed.
        allowed: usize,
    },
    /// The text is nested too deeply.
    #[error("schema is nested more than {allowed} levels deep, the value of `schema_depth_max`")]
    TooDeep {
        /// Levels allowed.
        allowed: usize,
    },
    /// The text is not JSON.
    #[error("schema is not JSON: {0}")]
    NotJson(String),
    /// The root does not describe an object.
    #[error("schema must describe an object, and describes {0}; use `\"type\": \"object\"`")]
    NotAnObject(String),
    /// A reference leaves the schema.
    #[error(
        "`$ref` to `{0}` is refused: a schema never reads files or the network; move the definition into `$defs` and refer to `#/$defs/...`"
    )]
    Remote(String),
    /// A reference leads nowhere.
    #[error(
        "`$ref` to `{0}` leads to no schema; refer to one in `$defs`, such as `#/$defs/name`, or to an `$anchor` of this schema"
    )]
    Dangling(String),
    /// A pattern is too long.
    #[error("`pattern` of {given} bytes exceeds `schema_pattern_bytes_max` of {allowed}")]
    PatternTooLong {
        /// Bytes given.
        given: usize,
        /// Bytes allowed.
        allowed: usize,
    },
    /// It copies too much.
    #[error(
        "{at}: with every `$ref` expanded, the schema exceeds `schema_expanded_bytes_max` of {allowed}; refer less often to large definitions"
    )]
    TooWide {
        /// What is copied when there is no room any more.
        at: Expensive,
        /// Bytes allowed.
        allowed: u64,
    },
    /// Its patterns take too much memory.
    #[error(
        "{at}: a pattern takes more than 1 MiB compiled, or all of the schema more than `schema_patterns_bytes_max` of {allowed}; repeat less, and bound lengths with `minLength` and `maxLength`: a class such as `\\p{{L}}` takes hundreds of states each time it is repeated"
    )]
    PatternsTooLarge {
        /// The pattern for which there is no room any more.
        at: Expensive,
        /// Bytes allowed.
        allowed: u64,
    },
    /// Its patterns take too long to read.
    #[error(
        "{0}: the patterns of the schema take too long to read; write fewer classes such as `\\s` and `\\p{{L}}`, and repeat them with `{{1,9}}`"
    )]
    PatternsTooDear(Expensive),
    /// A check takes too long, whatever is checked.
    #[error("{0} makes checks too expensive, also of small values; write it more simply")]
    TooHeavy(Expensive),
    /// A check can take so long that it has to be stopped, and the host has no process for it.
    #[error(
        "{0} makes checks so expensive that they need a process of their own, and this host starts none (`HostSettings::compiler`); write it more simply"
    )]
    NeedsProcess(Expensive),
    /// Nobody wants it any more.
    #[error("schema is not prepared: the host ends")]
    Stopped,
    /// The schema breaks a rule of JSON Schema, or has a pattern that cannot run in linear time.
    #[error("schema is invalid: {at}: {problem}")]
    Invalid {
        /// The keyword, and its place with every `$ref` expanded.
        at: Expensive,
        /// What is wrong there, and what is allowed.
        problem: String,
    },
}

/// Refuses to go on with what is stopped.
pub(super) fn check(stop: &Stop) -> Result<(), SchemaError> {
    if stop.is_stopped() { Err(SchemaError::Stopped) } else { Ok(()) }
}
