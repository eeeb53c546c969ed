//! Why a schema cannot be used.

use std::fmt;

use toolhost_core::runtime::Stop;
use toolhost_core::text;
use toolhost_core::tool::Reason;

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
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SchemaError {
    /// The text is too long.
    TooLarge {
        /// Bytes given.
        given: usize,
        /// Bytes allowed.
        allowed: usize,
    },
    /// The text is nested too deeply.
    TooDeep {
        /// Levels allowed.
        allowed: usize,
    },
    /// The text is not JSON.
    NotJson(String),
    /// The root does not describe an object.
    NotAnObject(String),
    /// A reference leaves the schema.
    Remote(String),
    /// A reference leads nowhere.
    Dangling(String),
    /// A pattern is too long.
    PatternTooLong {
        /// Bytes given.
        given: usize,
        /// Bytes allowed.
        allowed: usize,
    },
    /// It copies too much.
    TooWide {
        /// What is copied when there is no room any more.
        at: Expensive,
        /// Bytes allowed.
        allowed: u64,
    },
    /// Its patterns take too much memory.
    PatternsTooLarge {
        /// The pattern for which there is no room any more.
        at: Expensive,
        /// Bytes allowed.
        allowed: u64,
    },
    /// Its patterns take too long to read.
    PatternsTooDear(Expensive),
    /// A check takes too long, whatever is checked.
    TooHeavy(Expensive),
    /// A check can take so long that it has to be stopped, and the host has no process for it.
    NeedsProcess(Expensive),
    /// Nobody wants it any more.
    Stopped,
    /// The schema breaks a rule of JSON Schema, or has a pattern that cannot run in linear time.
    Invalid {
        /// The keyword, and its place with every `$ref` expanded.
        at: Expensive,
        /// What is wrong there, and what is allowed.
        reason: Reason,
    },
}

impl SchemaError {
    /// Why, apart from what to do.
    pub fn reason(&self) -> Reason {
        let (problem, repair) = match self {
            SchemaError::TooLarge { given, allowed } => {
                (format!("schema of {given} bytes exceeds `schema_bytes_max` of {allowed}"), None)
            }
            SchemaError::TooDeep { allowed } => {
                let limit = "the value of `schema_depth_max`";
                (format!("schema is nested more than {allowed} levels deep, {limit}"), None)
            }
            SchemaError::NotJson(why) => (format!("schema is not JSON: {why}"), None),
            SchemaError::NotAnObject(given) => (
                format!("schema must describe an object, and describes {given}"),
                Some("use `\"type\": \"object\"`"),
            ),
            SchemaError::Remote(target) => (
                format!(
                    "`$ref` to `{target}` is refused: a schema never reads files or the network"
                ),
                Some("move the definition into `$defs` and refer to `#/$defs/...`"),
            ),
            SchemaError::Dangling(target) => (
                format!("`$ref` to `{target}` leads to no schema"),
                Some(
                    "refer to one in `$defs`, such as `#/$defs/name`, or to an `$anchor` of this schema",
                ),
            ),
            SchemaError::PatternTooLong { given, allowed } => {
                let limit = format!("`schema_pattern_bytes_max` of {allowed}");
                (format!("`pattern` of {given} bytes exceeds {limit}"), None)
            }
            SchemaError::TooWide { at, allowed } => (
                format!(
                    "{at}: with every `$ref` expanded, the schema exceeds `schema_expanded_bytes_max` of {allowed}"
                ),
                Some("refer less often to large definitions"),
            ),
            SchemaError::PatternsTooLarge { at, allowed } => (
                format!(
                    "{at}: a pattern takes more than 1 MiB compiled, or all of the schema more than `schema_patterns_bytes_max` of {allowed}"
                ),
                Some(
                    "repeat less, and bound lengths with `minLength` and `maxLength`: a class such as `\\p{L}` takes hundreds of states each time it is repeated",
                ),
            ),
            SchemaError::PatternsTooDear(at) => (
                format!("{at}: the patterns of the schema take too long to read"),
                Some(
                    "write fewer classes such as `\\s` and `\\p{L}`, and repeat them with `{1,9}`",
                ),
            ),
            SchemaError::TooHeavy(at) => (
                format!("{at} makes checks too expensive, also of small values"),
                Some("write it more simply"),
            ),
            SchemaError::NeedsProcess(at) => (
                format!(
                    "{at} makes checks so expensive that they need a process of their own, and this host starts none (`HostSettings::compiler`)"
                ),
                Some("write it more simply"),
            ),
            SchemaError::Stopped => ("schema is not prepared: the host ends".to_owned(), None),
            SchemaError::Invalid { at, reason } => {
                return reason.clone().of(format_args!("schema is invalid: {at}"));
            }
        };
        Reason { problem, repair: repair.map(str::to_owned) }
    }
}

impl fmt::Display for SchemaError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason().fmt(formatter)
    }
}

impl std::error::Error for SchemaError {}

/// Refuses to go on with what is stopped.
pub(super) fn check(stop: &Stop) -> Result<(), SchemaError> {
    if stop.is_stopped() { Err(SchemaError::Stopped) } else { Ok(()) }
}
