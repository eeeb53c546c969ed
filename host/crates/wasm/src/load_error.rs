//! Why a file is no plugin: every way in which loading can fail, with its reason and a repair.

use std::fmt;

use super::surface::ContractError;
use crate::script::{Language, ScriptError};
use toolhost_core::limits::Limits;
use toolhost_core::text;
use toolhost_core::tool::{CallError, Code, Reason};
use toolhost_state::read::FileProblem;

/// How far a file came on its way to be a plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It was looked at: its name, and what else lies there.
    Find,
    /// It was read.
    Read,
    /// It was compiled and linked.
    Compile,
    /// Its `register` was called.
    Register,
    /// Its examples were run.
    Examples,
}

impl fmt::Display for Phase {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            Phase::Find => "find",
            Phase::Read => "read",
            Phase::Compile => "compile",
            Phase::Register => "register",
            Phase::Examples => "examples",
        })
    }
}

/// Why a file is no plugin of this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadError {
    /// It cannot be opened or read.
    Unreadable(String),
    /// It is a directory, a pipe, a socket or a device.
    NotAFile(&'static str),
    /// It lies where the plugins of its folder may not lie.
    Elsewhere(FileProblem),
    /// It is too large.
    TooLarge {
        /// Bytes given.
        given: u64,
        /// Bytes allowed.
        allowed: u64,
    },
    /// The plugins of its folder have had all that such plugins may have together.
    FolderSpent {
        /// The limit.
        limit: &'static str,
        /// What is allowed, in words.
        allowed: String,
    },
    /// Others of its folder took the time.
    NotTried {
        /// How many were stopped.
        stopped: u32,
        /// What is allowed, in words.
        allowed: String,
    },
    /// It kept changing.
    Changing,
    /// It is no component of our contract.
    Contract(ContractError),
    /// It does not compile, or the pool has no room for one like it.
    Compile(String),
    /// It imports what the host does not have, or its functions have another shape.
    Link(String),
    /// `register` did not return in time.
    RegisterTime(String),
    /// The same bytes did not return in time lately.
    RegisterTimeBefore {
        /// What is allowed, in words.
        allowed: String,
        /// When it is tried again, in words.
        again: String,
    },
    /// `register` was stopped by a limit or crashed.
    RegisterStopped {
        /// Which limit, or how it crashed.
        message: String,
        /// The last line of stderr, in words.
        log: String,
    },
    /// `register` returned more than allowed.
    RegisterTooLarge(u64),
    /// `register` returned an error.
    RegisterRefused(String),
    /// The registration has too many tools.
    TooManyTools {
        /// Tools given.
        given: usize,
        /// Tools allowed.
        allowed: usize,
    },
    /// The registration makes no sense as a whole.
    Nonsense(String),
    /// It is a script, and nothing can run it.
    Runner(RunnerError),
    /// It is a script that cannot be read.
    Script(ScriptError),
    /// It is a kept script, and what ran it is gone.
    OtherRunner,
    /// It was to be a kept build, and is not what was kept.
    NotKept,
    /// Loading itself broke.
    Internal(String),
}

impl LoadError {
    /// Why, and what to do.
    pub fn reason(&self) -> Reason {
        let (problem, repair) = match self {
            LoadError::Unreadable(given) => (
                format!("cannot be read: {given}"),
                Some("check that it is there and may be read".to_owned()),
            ),
            LoadError::NotAFile(given) => {
                (format!("{given}, not a regular file"), Some("remove it".to_owned()))
            }
            LoadError::Elsewhere(problem) => return problem.reason(),
            LoadError::TooLarge { given, allowed } => (
                format!("file of {given} bytes exceeds `component_bytes_max` of {allowed}"),
                Some("raise that in toolhost.toml, or build it smaller".to_owned()),
            ),
            LoadError::FolderSpent { limit, allowed } => (
                format!(
                    "the plugins of this folder, in a project that nobody has trusted, have used up `{limit}` of {allowed}"
                ),
                Some("remove some, or trust the project with `toolhost trust`".to_owned()),
            ),
            LoadError::NotTried { stopped, allowed } => (
                format!(
                    "not tried: the plugins of this folder, in a project that nobody has trusted, have used up `untrusted_register_time_max` of {allowed}, and {stopped} of them did not register in time"
                ),
                Some("remove those, or trust this file with `toolhost trust`".to_owned()),
            ),
            LoadError::Changing => (
                "changed while it was read, several times".to_owned(),
                Some("try again when its writer has finished".to_owned()),
            ),
            LoadError::Contract(error) => return error.reason(),
            LoadError::Compile(given) => (format!("does not compile: {given}"), None),
            LoadError::Link(given) => (
                format!("does not fit this host: {given}"),
                Some("build it with the SDK of this version".to_owned()),
            ),
            LoadError::RegisterTime(given) => (
                format!("`register` did not return within `register_time_max` of {given}"),
                Some("the plugin must not loop or wait there".to_owned()),
            ),
            LoadError::RegisterTimeBefore { allowed, again } => (
                format!(
                    "`register` did not return within `register_time_max` of {allowed} when it was last tried; it is tried again in {again}, and when its file changes"
                ),
                Some("`toolhost doctor` tries it now".to_owned()),
            ),
            LoadError::RegisterStopped { message, log } => {
                (format!("`register` failed: {message}{log}"), None)
            }
            LoadError::RegisterTooLarge(given) => (
                format!("`register` returned more than `registration_bytes_max` of {given} bytes"),
                Some("the plugin must register less".to_owned()),
            ),
            LoadError::RegisterRefused(given) => (format!("`register` says: {given}"), None),
            LoadError::TooManyTools { given, allowed } => (
                format!("registers {given} tools, and `tools_max` is {allowed}"),
                Some("raise that in toolhost.toml, or split the plugin".to_owned()),
            ),
            LoadError::Nonsense(given) => (format!("registers nonsense: {given}"), None),
            LoadError::Runner(error) => return error.reason(),
            LoadError::Script(error) => return error.reason(),
            LoadError::OtherRunner => (
                "was kept for another version of what runs it, and cannot be run any more"
                    .to_owned(),
                None,
            ),
            LoadError::NotKept => ("is not what was kept; it is damaged".to_owned(), None),
            LoadError::Internal(given) => (format!("could not be loaded: {given}"), None),
        };
        Reason { problem, repair }
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason().fmt(formatter)
    }
}

impl std::error::Error for LoadError {}

impl From<ContractError> for LoadError {
    fn from(error: ContractError) -> LoadError {
        LoadError::Contract(error)
    }
}

impl From<RunnerError> for LoadError {
    fn from(error: RunnerError) -> LoadError {
        LoadError::Runner(error)
    }
}

impl From<ScriptError> for LoadError {
    fn from(error: ScriptError) -> LoadError {
        LoadError::Script(error)
    }
}

/// Why a script has no runner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunnerError {
    /// There is none where it is looked for.
    None {
        /// What the script is written in.
        language: Language,
        /// Where it was looked for.
        looked_for: String,
    },
}

impl RunnerError {
    /// Why, and what to do.
    pub fn reason(&self) -> Reason {
        let (problem, repair) = match self {
            RunnerError::None { language, looked_for } => (
                format!("a {} script, and this host has no runner for it", language.name()),
                Some(format!("`make install` builds one (looked for {looked_for})")),
            ),
        };
        Reason { problem, repair }
    }
}

impl fmt::Display for RunnerError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason().fmt(formatter)
    }
}

impl std::error::Error for RunnerError {}

impl LoadError {
    /// The limit that was met, if one was.
    pub fn limit(&self) -> Option<&'static str> {
        Some(match self {
            LoadError::TooLarge { .. } => "component_bytes_max",
            LoadError::FolderSpent { limit, .. } => limit,
            LoadError::NotTried { .. } => "untrusted_register_time_max",
            LoadError::RegisterTime(_) | LoadError::RegisterTimeBefore { .. } => {
                "register_time_max"
            }
            LoadError::RegisterTooLarge(_) => "registration_bytes_max",
            LoadError::TooManyTools { .. } => "tools_max",
            LoadError::Script(ScriptError::TooLarge(_)) => "script_bytes_max",
            LoadError::Script(ScriptError::TooMany(_)) => "script_files_max",
            _ => return None,
        })
    }

    /// How far the file came.
    pub fn phase(&self) -> Phase {
        match self {
            LoadError::Unreadable(_)
            | LoadError::NotAFile(_)
            | LoadError::Elsewhere(_)
            | LoadError::TooLarge { .. }
            | LoadError::Changing
            | LoadError::Script(_)
            | LoadError::FolderSpent { .. }
            | LoadError::NotTried { .. }
            | LoadError::NotKept => Phase::Read,
            LoadError::Contract(_)
            | LoadError::Compile(_)
            | LoadError::Link(_)
            | LoadError::Runner(_)
            | LoadError::OtherRunner
            | LoadError::Internal(_) => Phase::Compile,
            LoadError::RegisterTime(_)
            | LoadError::RegisterTimeBefore { .. }
            | LoadError::RegisterStopped { .. }
            | LoadError::RegisterTooLarge(_)
            | LoadError::RegisterRefused(_)
            | LoadError::TooManyTools { .. }
            | LoadError::Nonsense(_) => Phase::Register,
        }
    }
}

/// What is said of a plugin that was published from a record and does not load, after "its plugin".
/// What its own code said stands in the list of plugins.
pub(super) fn told(error: &LoadError) -> String {
    match error {
        LoadError::NotKept | LoadError::Changing => {
            "has just changed, and is being loaded again; call it again in a moment".to_owned()
        }
        error if error.phase() == Phase::Register => {
            "no longer loads: its `register` failed; `toolhost list` shows why".to_owned()
        }
        error => format!("no longer loads: it {error}"),
    }
}

/// The last line that says something, of what a guest wrote before it died.
fn last_words(stderr: &str) -> String {
    let says_something = |line: &&str| {
        let line = line.trim();
        !line.is_empty() && !line.starts_with("note:")
    };
    match stderr.lines().rev().find(says_something) {
        Some(line) => format!(" (the tail of its stderr: {})", text::cut(line.trim(), 200)),
        None => String::new(),
    }
}

/// Why `register` was stopped.
pub(super) fn of_register(error: CallError, limits: &Limits) -> LoadError {
    match error.code {
        Code::OutputTooLarge => LoadError::RegisterTooLarge(limits.registration_bytes_max.0),
        _ => LoadError::RegisterStopped {
            message: error.message,
            log: last_words(error.stderr.as_deref().unwrap_or_default()),
        },
    }
}

/// Compiled code cannot be written.
pub(super) fn internal(error: std::io::Error) -> LoadError {
    LoadError::Internal(format!("compiled code cannot be written: {error}"))
}

/// A refusal of the pool comes here, not when compiling.
pub(super) fn uncompiled(error: wasmtime::Error) -> LoadError {
    LoadError::Compile(reason(&error))
}

/// The whole chain of an error of wasmtime on one line, bounded.
pub(super) fn reason(error: &wasmtime::Error) -> String {
    shown(&format!("{error:#}"))
}

/// A reason as it is shown.
pub(super) fn shown(reason: &str) -> String {
    text::cut(&text::one_line(reason), 400)
}
