//! Checks a plugin before others get it: what it declares by rules, and its examples by running
//! them, in a sandbox that has nothing.
//!
//! What a rule finds is a [`Finding`], a value; the rules are pure (`rules`, `schema`, `prose`),
//! and what must run the plugin is in `run`. It decides nothing: no host asks for it.

mod prose;
mod rules;
mod run;
mod schema;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use thiserror::Error;

use toolhost_core::limits::Limits;
use toolhost_core::text;
use toolhost_egress::RootError;
use toolhost_wasm::{Candidate, EngineError, Facts, RunnerPlaces};

pub use run::check;

/// Findings that are told; a person has seen enough then.
const FINDINGS_MAX: usize = 300;
/// Characters of a message, since a stranger may have chosen most of it.
const MESSAGE_CHARS_MAX: usize = 600;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// It does not work, or not for everybody.
    Error,
    /// It works, and should be better.
    Warning,
    /// To know.
    Note,
}

impl Level {
    /// The level as a word.
    pub fn as_str(self) -> &'static str {
        match self {
            Level::Error => "error",
            Level::Warning => "warning",
            Level::Note => "note",
        }
    }
}

/// One thing that a rule has found. As a text it is one line, safe to show.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How bad it is.
    pub level: Level,
    /// The rule, in a word.
    pub rule: &'static str,
    /// Where: `plugin`, or a tool, and where it is a text of it, the pointer to that.
    pub place: String,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub repair: String,
}

impl Finding {
    pub(super) fn new(
        level: Level,
        rule: &'static str,
        place: impl AsRef<str>,
        message: impl Into<String>,
        repair: impl Into<String>,
    ) -> Finding {
        let safe = |text: &str| text::one_line(&text::cut(text, MESSAGE_CHARS_MAX));
        Finding {
            level,
            rule,
            place: safe(place.as_ref()),
            message: safe(&message.into()),
            repair: safe(&repair.into()),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Finding { level, rule, place, message, repair } = self;
        write!(formatter, "{}[{rule}] {place}: {message}; {repair}", level.as_str())
    }
}

/// What is checked, and with what.
#[derive(Clone, Debug)]
pub struct CheckRequest {
    /// The plugin.
    pub candidate: Candidate,
    /// The bounds under which it runs.
    pub limits: Limits,
    /// It may replace tools, and take reserved names.
    pub allow_tool_override: bool,
    /// Ids and digests of bundled plugins, which may take reserved names.
    pub bundled: BTreeMap<(String, String), usize>,
    /// Where compiled components are kept, if anywhere.
    pub cache: Option<PathBuf>,
    /// The program that compiles; see [`Loader::compile_with`](toolhost_wasm::Loader::compile_with).
    pub compiler: Option<PathBuf>,
    /// Where the runners of scripts lie.
    pub runners: RunnerPlaces,
}

/// Why nothing could be checked. What is wrong with the plugin is a [`Finding`].
#[derive(Debug, Error)]
pub enum CheckError {
    /// The engine refuses this machine.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A certificate authority is none.
    #[error(transparent)]
    Root(#[from] RootError),
    /// There is no room for what the plugin stores.
    #[error("no temporary directory can be made: {0}")]
    NoRoom(std::io::Error),
}

/// What came of a check.
#[derive(Clone, Debug)]
pub struct CheckedPlugin {
    /// What was found, the worst first.
    pub findings: Vec<Finding>,
    /// What is known of the plugin, if it loads.
    pub facts: Option<Facts>,
    /// Its tools that can be called, by name.
    pub tools: Vec<CheckedTool>,
    /// CPU time of its `register`.
    pub register: Option<Duration>,
}

/// What was measured of one tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckedTool {
    /// Its name.
    pub name: String,
    /// About what its definition costs in a prompt.
    pub tokens: usize,
    /// Wall time of a call with its first example that passed: the median of some.
    pub call: Option<Duration>,
    /// Examples that gave what they expect.
    pub passed: usize,
    /// Examples that could not work without authority.
    pub skipped: usize,
    /// Examples that failed.
    pub failed: usize,
}

impl CheckedPlugin {
    fn new(mut findings: Vec<Finding>) -> CheckedPlugin {
        // Stable: those of one level stay in the order of the rules.
        findings.sort_by_key(|finding| finding.level);
        if findings.len() > FINDINGS_MAX {
            let more = findings.len() - FINDINGS_MAX;
            findings.truncate(FINDINGS_MAX);
            let message = format!("{more} more findings are not shown");
            findings.push(Finding::new(
                Level::Note,
                "more",
                "plugin",
                message,
                "repair these first",
            ));
        }
        CheckedPlugin { findings, facts: None, tools: Vec::new(), register: None }
    }

    /// How many findings have this level.
    pub fn count(&self, level: Level) -> usize {
        self.findings.iter().filter(|finding| finding.level == level).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_are_sorted_bounded_and_safe_to_show() {
        let finding = |level, rule| {
            Finding::new(level, rule, "t\u{202e}", format!("\u{1b}[31m{}", "x".repeat(10_000)), "y")
        };
        let mut many: Vec<Finding> = (0..1_000).map(|_| finding(Level::Warning, "b")).collect();
        many.push(finding(Level::Error, "a"));
        let checked = CheckedPlugin::new(many);
        assert_eq!(checked.findings.len(), FINDINGS_MAX + 1);
        assert_eq!((checked.count(Level::Error), checked.findings[0].rule), (1, "a"));
        let line = checked.findings[0].to_string();
        assert!(line.len() < 1_000 && !line.contains(['\u{1b}', '\u{202e}']), "{line}");
        assert_eq!(checked.findings[FINDINGS_MAX].message, "701 more findings are not shown");
    }
}
