//! Why a file is no plugin: every way in which loading can fail, with its reason and a repair.

use std::fmt;

use thiserror::Error;

use super::surface::ContractError;
use crate::script::{Language, ScriptError};
use toolhost_core::limits::Limits;
use toolhost_core::text;
use toolhost_core::tool::{CallError, Code};
use toolhost_state::read::Problem;

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
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum LoadError {
    /// It cannot be opened or read.
    #[error("cannot be read: {0}; check that it is there and may be read")]
    Unreadable(String),
    /// It is a directory, a pipe, a socket or a device.
    #[error("{0}, not a regular file; remove it")]
    NotAFile(&'static str),
    /// It lies where the plugins of its folder may not lie.
    #[error("{0}")]
    Elsewhere(Problem),
    /// It is too large.
    #[error(
        "file of {given} bytes exceeds `component_bytes_max` of {allowed}; raise that in toolhost.toml, or build it smaller"
    )]
    TooLarge {
        /// Bytes given.
        given: u64,
        /// Bytes allowed.
        allowed: u64,
    },
    /// The plugins of its folder have had all that such plugins may have together.
    #[error(
        "the plugins of this folder, in a project that nobody has trusted, have used up `{limit}` of {allowed}; remove some, or trust the project with `toolhost trust`"
    )]
    FolderSpent {
        /// The limit.
        limit: &'static str,
        /// What is allowed, in words.
        allowed: String,
    },
    /// Others of its folder took the time.
    #[error(
        "not tried: the plugins of this folder, in a project that nobody has trusted, have used up `untrusted_register_time_max` of {allowed}, and {stopped} of them did not register in time; remove those, or trust this file with `toolhost trust`"
    )]
    NotTried {
        /// How many were stopped.
        stopped: u32,
        /// What is allowed, in words.
        allowed: String,
    },
    /// It kept changing.
    #[error("changed while it was read, several times; try again when its writer has finished")]
    Changing,
    /// It is no component of our contract.
    #[error(transparent)]
    Contract(#[from] ContractError),
    /// It does not compile, or the pool has no room for one like it.
    #[error("does not compile: {0}")]
    Compile(String),
    /// It imports what the host does not have, or its functions have another shape.
    #[error("does not fit this host: {0}; build it with the SDK of this version")]
    Link(String),
    /// `register` did not return in time.
    #[error(
        "`register` did not return within `register_time_max` of {0}; the plugin must not loop or wait there"
    )]
    RegisterTime(String),
    /// The same bytes did not return in time lately.
    #[error(
        "`register` did not return within `register_time_max` of {allowed} when it was last tried; it is tried again in {again}, and when its file changes; `toolhost doctor` tries it now"
    )]
    RegisterTimeBefore {
        /// What is allowed, in words.
        allowed: String,
        /// When it is tried again, in words.
        again: String,
    },
    /// `register` was stopped by a limit or crashed.
    #[error("`register` failed: {message}{log}")]
    RegisterStopped {
        /// Which limit, or how it crashed.
        message: String,
        /// The last line of stderr, in words.
        log: String,
    },
    /// `register` returned more than allowed.
    #[error(
        "`register` returned more than `registration_bytes_max` of {0} bytes; the plugin must register less"
    )]
    RegisterTooLarge(u64),
    /// `register` returned an error.
    #[error("`register` says: {0}")]
    RegisterRefused(String),
    /// The registration has too many tools.
    #[error(
        "registers {given} tools, and `tools_max` is {allowed}; raise that in toolhost.toml, or split the plugin"
    )]
    TooManyTools {
        /// Tools given.
        given: usize,
        /// Tools allowed.
        allowed: usize,
    },
    /// The registration makes no sense as a whole.
    #[error("registers nonsense: {0}")]
    Nonsense(String),
    /// It is a script, and nothing can run it.
    #[error(transparent)]
    Runner(#[from] RunnerError),
    /// It is a script that cannot be read.
    #[error(transparent)]
    Script(#[from] ScriptError),
    /// It is a kept script, and what ran it is gone.
    #[error("was kept for another version of what runs it, and cannot be run any more")]
    OtherRunner,
    /// It was to be a kept build, and is not what was kept.
    #[error("is not what was kept; it is damaged")]
    NotKept,
    /// Loading itself broke.
    #[error("could not be loaded: {0}")]
    Internal(String),
}

/// Why a script has no runner.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum RunnerError {
    /// There is none where it is looked for.
    #[error(
        "a {} script, and this host has no runner for it; `make install` builds one (looked for {looked_for})",
        language.name()
    )]
    None {
        /// What the script is written in.
        language: Language,
        /// Where it was looked for.
        looked_for: String,
    },
}

impl LoadError {
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
