//! Notices when a model turns in circles: the same failing call, a tool that only fails, a look
//! that shows nothing new.
//!
//! [`Guardrails`] counts within one turn; [`Reads`] counts repeated reads across turns. Only one
//! of them should speak about a call, so their order is fixed. Before a call: guardrails, then
//! reads; a call that either refuses is told to neither afterwards. After it: reads, then the
//! guardrails with the text that reads left. A replaced or annotated result is a new text to
//! them, so what reads have said is not said twice.
//!
//! What this module does not do: decide what failed, run or stop anything, or know when a turn
//! begins. A host cannot end a model's turn, so unlike in Hermes a hard stop refuses the tool's
//! further calls instead.

mod reads;
mod recent;
mod signature;

use std::fmt;

use serde_json::json;
use sha2::{Digest, Sha256};

use toolhost_core::tool::{CallError, Code, Content, ToolOutput};

pub use reads::{Reads, Repeated};
use recent::{CallKey, Recent};
pub use signature::Signature;

/// Tools that only look: called again with the same arguments they show nothing new, unless the
/// world has changed.
const IDEMPOTENT: [&str; 8] = [
    "browser_console",
    "browser_get_images",
    "browser_snapshot",
    "read_file",
    "search_files",
    "session_search",
    "web_extract",
    "web_search",
];
/// The same of the file system's MCP server, whose tools have its name before theirs.
const IDEMPOTENT_SERVER: &str = "mcp__filesystem__";
/// The tools of that server that only look.
const IDEMPOTENT_OF_SERVER: [&str; 8] = [
    "directory_tree",
    "get_file_info",
    "list_directory",
    "list_directory_with_sizes",
    "read_file",
    "read_multiple_files",
    "read_text_file",
    "search_files",
];

/// When the guardrails speak. The defaults are those of Hermes: warnings, and no hard stops.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuardrailSettings {
    /// Whether results are annotated with warnings.
    pub warnings_enabled: bool,
    /// Whether calls are refused.
    pub hard_stop_enabled: bool,
    /// From which count on a result is annotated.
    pub warn_after: Thresholds,
    /// From which count on a call is refused.
    pub hard_stop_after: Thresholds,
}

/// How often something may happen in a turn before a guardrail speaks; 0 is read as 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// Failures of one tool with the same arguments.
    pub exact_failure: usize,
    /// Failures of one tool in a row, whatever its arguments.
    pub same_tool_failure: usize,
    /// Equal results of one call of a tool that only looks.
    pub idempotent_no_progress: usize,
}

impl Default for GuardrailSettings {
    fn default() -> GuardrailSettings {
        GuardrailSettings {
            warnings_enabled: true,
            hard_stop_enabled: false,
            warn_after: Thresholds {
                exact_failure: 2,
                same_tool_failure: 3,
                idempotent_no_progress: 2,
            },
            hard_stop_after: Thresholds {
                exact_failure: 5,
                same_tool_failure: 8,
                idempotent_no_progress: 5,
            },
        }
    }
}

/// Counts the calls of one turn.
///
/// It remembers the 4,096 calls that it met last, by digest; an older one counts as new.
#[derive(Debug)]
pub struct Guardrails {
    settings: GuardrailSettings,
    /// Failures of the same call.
    exact: Recent<usize>,
    /// Failures of the same tool.
    same_tool: Recent<usize>,
    /// The last result of a call that only looks, and how often it came in a row.
    no_progress: Recent<(CallKey, usize)>,
}

/// How a call came out, as the guardrails need to know it.
#[derive(Clone, Copy, Debug)]
pub struct Observed<'a> {
    /// Whether the call failed, in whatever way.
    pub failed: bool,
    /// What the model reads of it, before any note of the guardrails.
    pub text: &'a str,
}

/// What a guardrail says about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// The same call fails again and again.
    RepeatedExactFailure,
    /// A tool only fails, with varying arguments.
    SameToolFailure,
    /// A call that only looks returns the same again and again.
    IdempotentNoProgress,
}

impl Pattern {
    /// The code in a warning.
    pub fn warning(self) -> &'static str {
        match self {
            Pattern::RepeatedExactFailure => "repeated_exact_failure_warning",
            Pattern::SameToolFailure => "same_tool_failure_warning",
            Pattern::IdempotentNoProgress => "idempotent_no_progress_warning",
        }
    }

    /// The code in a hard stop.
    pub fn hard_stop(self) -> &'static str {
        match self {
            Pattern::RepeatedExactFailure => "repeated_exact_failure_block",
            Pattern::SameToolFailure => "same_tool_failure_halt",
            Pattern::IdempotentNoProgress => "idempotent_no_progress_block",
        }
    }
}

/// Why a call must not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Such as `repeated_exact_failure_block`.
    pub code: &'static str,
    /// How often it happened.
    pub count: usize,
    /// For the model: what happened, and what to do instead.
    pub message: String,
    /// The tool that was called.
    pub tool: String,
}

impl Block {
    /// The refusal as a model reads it: the message, and a member `guardrail` with everything.
    pub fn to_error(&self) -> CallError {
        let Block { code, count, message, tool } = self;
        let guardrail = json!({ "code": code, "count": count, "message": message, "tool": tool });
        CallError::new(Code::Denied, message.clone()).with("guardrail", guardrail)
    }
}

/// What is said to a result. It is written as its suffix, such as
/// `[Tool loop warning: repeated_exact_failure_warning; count=2; ...]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Whether further calls are refused now.
    pub hard_stop: bool,
    /// Such as `repeated_exact_failure_warning`.
    pub code: &'static str,
    /// How often it happened.
    pub count: usize,
    /// For the model: what happened, and what to do instead.
    pub message: String,
}

impl fmt::Display for Note {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Note { hard_stop, code, count, message } = self;
        let kind = if *hard_stop { "hard stop" } else { "warning" };
        write!(formatter, "[Tool loop {kind}: {code}; count={count}; {message}]")
    }
}

impl Guardrails {
    /// Guardrails at the beginning of a turn.
    pub fn new(settings: GuardrailSettings) -> Guardrails {
        Guardrails {
            settings,
            exact: Recent::default(),
            same_tool: Recent::default(),
            no_progress: Recent::default(),
        }
    }

    /// Forgets what was counted: a new turn begins.
    pub fn begin_turn(&mut self) {
        *self = Guardrails::new(self.settings.clone());
    }

    /// Tells whether a call must not run, which only hard stops do. The signature is of the
    /// arguments that the tool would get.
    pub fn before(&self, signature: &Signature<'_>) -> Option<Block> {
        if !self.settings.hard_stop_enabled {
            return None;
        }
        let Signature { tool, call, .. } = signature;
        let after = self.settings.hard_stop_after;
        let exact = self.exact.get(call).copied().unwrap_or_default();
        let same_tool = self.same_tool.get(&digest(tool)).copied().unwrap_or_default();
        let unchanged = self.no_progress.get(call).map_or(0, |(_, count)| *count);
        let (pattern, count) = if reached(exact, after.exact_failure) {
            (Pattern::RepeatedExactFailure, exact)
        } else if reached(same_tool, after.same_tool_failure) {
            (Pattern::SameToolFailure, same_tool)
        } else if reached(unchanged, after.idempotent_no_progress) {
            (Pattern::IdempotentNoProgress, unchanged)
        } else {
            return None;
        };
        let message = format!("{} was not run: {}", tool, advice(pattern, count));
        Some(Block { code: pattern.hard_stop(), count, message, tool: (*tool).to_owned() })
    }

    /// Counts a call that ran, and returns what is to be said to its result.
    ///
    /// A success ends the failures of its call and of its tool. Of two things to say the graver
    /// one is said: hard stop, same call, same tool.
    pub fn after(&mut self, signature: &Signature<'_>, observed: Observed<'_>) -> Option<Note> {
        let Signature { tool, call, .. } = *signature;
        if observed.failed {
            return self.failed(tool, call);
        }
        self.exact.remove(&call);
        self.same_tool.remove(&digest(tool));
        if !is_idempotent(tool) {
            return None;
        }
        let text = digest(observed.text);
        let count = match self.no_progress.get(&call) {
            Some((last, count)) if *last == text => count + 1,
            _ => 1,
        };
        self.no_progress.insert(call, (text, count));
        self.warning(tool, Pattern::IdempotentNoProgress, count)
    }

    fn failed(&mut self, tool: &str, call: CallKey) -> Option<Note> {
        self.no_progress.remove(&call);
        let exact = increment(&mut self.exact, call);
        let same_tool = increment(&mut self.same_tool, digest(tool));
        let settings = &self.settings;
        if settings.hard_stop_enabled
            && reached(same_tool, settings.hard_stop_after.same_tool_failure)
        {
            let pattern = Pattern::SameToolFailure;
            let advice = advice(pattern, same_tool);
            let message = format!("further calls of {tool} are refused in this turn: {advice}");
            return Some(Note {
                hard_stop: true,
                code: pattern.hard_stop(),
                count: same_tool,
                message,
            });
        }
        self.warning(tool, Pattern::RepeatedExactFailure, exact)
            .or_else(|| self.warning(tool, Pattern::SameToolFailure, same_tool))
    }

    fn warning(&self, tool: &str, pattern: Pattern, count: usize) -> Option<Note> {
        let after = self.settings.warn_after;
        let threshold = match pattern {
            Pattern::RepeatedExactFailure => after.exact_failure,
            Pattern::SameToolFailure => after.same_tool_failure,
            Pattern::IdempotentNoProgress => after.idempotent_no_progress,
        };
        if !self.settings.warnings_enabled || !reached(count, threshold) {
            return None;
        }
        let message = format!("{tool}: {}", advice(pattern, count));
        Some(Note { hard_stop: false, code: pattern.warning(), count, message })
    }
}

/// Adds a note to what a model reads: after the last text of an output, as a text of its own if
/// the output has none, or after the message of an error.
pub fn annotate(
    mut result: Result<ToolOutput, CallError>,
    note: &str,
) -> Result<ToolOutput, CallError> {
    let text = match &mut result {
        Err(error) => &mut error.message,
        Ok(output) => match output.content.last_mut() {
            Some(Content::Text(text)) => text,
            _ => {
                output.content.push(Content::Text(note.to_owned()));
                return result;
            }
        },
    };
    text.push_str("\n\n");
    text.push_str(note);
    result
}

/// Tells whether a tool only looks.
fn is_idempotent(tool: &str) -> bool {
    let of_server = |tool: &str| IDEMPOTENT_OF_SERVER.contains(&tool);
    IDEMPOTENT.contains(&tool) || tool.strip_prefix(IDEMPOTENT_SERVER).is_some_and(of_server)
}

fn advice(pattern: Pattern, count: usize) -> String {
    let (what, instead) = match pattern {
        Pattern::RepeatedExactFailure => (
            "failures of this call with the same arguments",
            "read the error, then change the arguments or the approach, or say what is in the way",
        ),
        Pattern::SameToolFailure => (
            "failures of this tool in a row, with any arguments",
            "find out why it fails, use another tool, or say what is in the way",
        ),
        Pattern::IdempotentNoProgress => (
            "equal results of this call in a row",
            "use the result you have, or ask for something else",
        ),
    };
    format!("{count} {what}; {instead}")
}

fn reached(count: usize, threshold: usize) -> bool {
    count >= threshold.max(1)
}

fn increment(counts: &mut Recent<usize>, key: CallKey) -> usize {
    let count = counts.get(&key).copied().unwrap_or_default() + 1;
    counts.insert(key, count);
    count
}

fn digest(text: &str) -> CallKey {
    Sha256::digest(text).into()
}

#[cfg(test)]
mod tests;
