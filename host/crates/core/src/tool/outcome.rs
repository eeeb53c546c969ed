//! What became of a call. The one question of this file: whose move is it now?

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::ToolOutput;

/// What every call returns, also when the guest died.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The name of the tool that was called.
    pub tool: String,
    /// What was repaired in the caller's name and arguments, one sentence each.
    pub repairs: Vec<String>,
    /// The tool's answer, or why there is none.
    pub result: Result<ToolOutput, CallError>,
    /// The tool promises structured output by a schema, and its results are not marked as those
    /// of strangers. An answer has none only where a hook or the host replaced it.
    pub is_structured: bool,
    /// What the call used.
    pub usage: Usage,
    /// What the tool asked the host for in vain, each once. It may have coped.
    pub refusals: Vec<Refusal>,
    /// The catalog the call saw.
    pub generation: u64,
    /// From entering the host to leaving it.
    pub elapsed: Duration,
}

impl Outcome {
    /// What the model reads; always JSON text.
    pub fn to_json_text(&self) -> String {
        match &self.result {
            Ok(output) => output.to_json_text(),
            Err(error) => error.to_json().to_string(),
        }
    }
}

/// Why a call has no output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallError {
    /// The kind of error, for programs.
    pub code: Code,
    /// For the model: what went wrong, and what to do. Bounded, without paths of the host.
    pub message: String,
    /// Further members of the error object.
    pub details: Box<Map<String, Value>>,
    /// For the log only: a guest's backtrace, or what broke inside the host.
    pub log: Option<String>,
    /// For the log only: the tail of what a guest wrote to stderr before it died.
    pub stderr: Option<String>,
    /// The tool itself gave the error, so it ran.
    pub by_tool: bool,
}

impl CallError {
    /// An error with neither details nor a text for the log.
    pub fn new(code: Code, message: impl Into<String>) -> CallError {
        CallError {
            code,
            message: message.into(),
            details: Box::default(),
            log: None,
            stderr: None,
            by_tool: false,
        }
    }

    /// Whose move it is. What a tool itself says was not refused before it ran, whatever the code.
    pub fn class(&self) -> Class {
        if self.by_tool { Class::Failed } else { self.code.class() }
    }

    /// The limit that stopped the call, by its name in `toolhost.toml`, if one did.
    pub fn limit(&self) -> Option<&str> {
        self.details.get("limit").and_then(Value::as_str)
    }

    /// Adds a member to the error object.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> CallError {
        self.details.insert(name.to_owned(), value.into());
        self
    }

    /// Adds what only the log sees.
    #[must_use]
    pub fn with_log(mut self, log: impl Into<String>) -> CallError {
        self.log = Some(log.into());
        self
    }

    /// The error as the model reads it.
    pub fn to_json(&self) -> Value {
        let mut object = json!({ "error": self.message, "code": self.code.as_str() });
        if let Value::Object(members) = &mut object {
            members.extend((*self.details).clone());
        }
        object
    }
}

/// The kind of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Code {
    /// The tool ran and says no.
    Failed,
    /// No tool has this name.
    UnknownTool,
    /// The arguments are no JSON object, or break the tool's schema.
    InvalidArguments,
    /// The operator's rules refuse what was asked.
    Denied,
    /// Too many calls at once; the wait for a turn was over.
    Busy,
    /// Its plugin crashed too often, or was stopped too often by a limit of its own.
    Quarantined,
    /// Its plugin waits for a person to look at it.
    Pending,
    /// The session has not this tool.
    NotInSession,
    /// The tool says that something it requires is missing.
    Unavailable,
    /// The wall time was over.
    Deadline,
    /// The guest needed more memory than it may have.
    Memory,
    /// The output was larger than allowed.
    OutputTooLarge,
    /// The guest crashed.
    Trap,
    /// The host is wrong, or stopping.
    Internal,
}

/// Whose move it is after an error; the later, the worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// The tool ran and says no: the model's.
    Failed,
    /// Refused before running: the model's or the operator's.
    Rejected,
    /// Stopped by a limit or a crash: the plugin author's.
    Aborted,
    /// A bug of the host or a broken upstream: ours.
    Fault,
}

impl Code {
    /// The code as it stands in error objects.
    pub fn as_str(self) -> &'static str {
        match self {
            Code::Failed => "failed",
            Code::UnknownTool => "unknown_tool",
            Code::InvalidArguments => "invalid_arguments",
            Code::Denied => "denied",
            Code::Busy => "busy",
            Code::Quarantined => "quarantined",
            Code::Pending => "pending",
            Code::NotInSession => "not_in_session",
            Code::Unavailable => "unavailable",
            Code::Deadline => "deadline",
            Code::Memory => "memory",
            Code::OutputTooLarge => "output_too_large",
            Code::Trap => "trap",
            Code::Internal => "internal",
        }
    }

    /// Whose move it is.
    pub fn class(self) -> Class {
        match self {
            Code::Failed => Class::Failed,
            Code::UnknownTool
            | Code::InvalidArguments
            | Code::Denied
            | Code::Busy
            | Code::Quarantined
            | Code::Pending
            | Code::NotInSession
            | Code::Unavailable => Class::Rejected,
            Code::Deadline | Code::Memory | Code::OutputTooLarge | Code::Trap => Class::Aborted,
            Code::Internal => Class::Fault,
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// What one call used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// The most memory the guest had at one time, in bytes.
    pub memory_bytes: u64,
    /// Calls of the guest into toolhost's own interfaces.
    pub host_calls: u64,
    /// Log lines that were passed on.
    pub log_lines: u64,
    /// Log lines that were dropped, being over the limit.
    pub log_lines_dropped: u64,
    /// Bytes of the output.
    pub output_bytes: u64,
}

/// Something a tool asked the host for in vain. As a text it is one sentence with the repair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What it asked for, such as `GET https://api.example.com/v1`, on one line and bounded.
    pub what: String,
    /// Why not, as it goes on after that: `is not granted`.
    pub why: String,
    /// What to do.
    pub repair: String,
    /// The kind and the text of the grant that would have let it pass, if there is one.
    pub grant: Option<(String, String)>,
}

impl Refusal {
    /// Tells whether it is about a directory that was not granted.
    pub fn is_of_directories(&self) -> bool {
        self.grant.as_ref().is_some_and(|(kind, _)| kind == "dirs")
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}: {}", self.what, self.why, self.repair)
    }
}

/// Counts what a call uses while it runs. It outlives the call, which may be dropped any time.
#[derive(Debug, Default)]
pub struct Meter {
    memory_bytes: AtomicU64,
    host_calls: AtomicU64,
    log_lines: AtomicU64,
    log_lines_dropped: AtomicU64,
    output_bytes: AtomicU64,
    guest_nanos: AtomicU64,
    refusals: Mutex<Vec<Refusal>>,
    used: Mutex<Vec<String>>,
}

impl Meter {
    /// Notes what the guest asked for in vain, if it is new and there are not `most` already.
    pub fn refused(&self, refusal: Refusal, most: usize) {
        let mut refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        if refusals.len() < most && !refusals.contains(&refusal) {
            refusals.push(refusal);
        }
    }

    /// What the guest has asked for in vain so far.
    pub fn refusals(&self) -> Vec<Refusal> {
        self.refusals.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Notes a piece of authority that the call makes use of, such as `dirs:/data:ro`, if it is
    /// new and there are not `most` already.
    pub fn used(&self, what: String, most: usize) {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        if used.len() < most && !used.contains(&what) {
            used.push(what);
        }
    }

    /// The authority that the call has made use of so far.
    pub fn authority_used(&self) -> Vec<String> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Counts time in which the guest, or a function of the host that it called, had a CPU.
    pub fn guest_ran(&self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.guest_nanos.fetch_add(nanos, Ordering::Relaxed);
    }

    /// How long the guest, with the functions of the host that it called, has had a CPU so far.
    pub fn guest_time(&self) -> Duration {
        Duration::from_nanos(self.guest_nanos.load(Ordering::Relaxed))
    }

    /// Notes that the guest has this much memory now.
    pub fn saw_memory(&self, bytes: u64) {
        self.memory_bytes.fetch_max(bytes, Ordering::Relaxed);
    }

    /// Counts a call into the host and returns how many there were before.
    pub fn count_host_call(&self) -> u64 {
        self.host_calls.fetch_add(1, Ordering::Relaxed)
    }

    /// Counts a log line, passed on or dropped.
    pub fn count_log_line(&self, passed_on: bool) {
        let counter = if passed_on { &self.log_lines } else { &self.log_lines_dropped };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes the size of the output.
    pub fn saw_output(&self, bytes: u64) {
        self.output_bytes.store(bytes, Ordering::Relaxed);
    }

    /// What has been counted so far.
    pub fn usage(&self) -> Usage {
        Usage {
            memory_bytes: self.memory_bytes.load(Ordering::Relaxed),
            host_calls: self.host_calls.load(Ordering::Relaxed),
            log_lines: self.log_lines.load(Ordering::Relaxed),
            log_lines_dropped: self.log_lines_dropped.load(Ordering::Relaxed),
            output_bytes: self.output_bytes.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn audit_used_max() {
        let meter = Meter::default();
        for what in ["kv", "kv", "env:A", "env:B"] {
            meter.used(what.to_owned(), 2);
        }
        assert_eq!(meter.authority_used(), ["kv", "env:A"]);
    }
}
