//! The one place where errors become words for a person and exit codes.

use std::process::ExitCode;

use super::ui;
use toolhost::{InspectError, StartError};
use toolhost_core::text;
use toolhost_core::tool::{CallError, Class, Code};
use toolhost_wasm::LoadError;

/// Why a command did not do what it was asked.
#[derive(Debug)]
pub(super) struct Failure {
    kind: FailureKind,
    code: Option<Code>,
    message: String,
    hints: Vec<String>,
    /// There is nobody of the name that was given.
    is_of_nobody: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FailureKind {
    /// Nothing went wrong; whoever reads our output has gone.
    PipeClosed,
    /// The tool ran and says no.
    Tool,
    /// Something was done and came to no good: a build that fails, a file that is no plugin, a tool that
    /// does not work.
    Broken,
    /// Wrong usage or configuration.
    Usage,
    /// Refused before running.
    Rejected,
    /// Stopped while running.
    Aborted,
    /// Our bug.
    Fault,
}

impl Failure {
    fn new(kind: FailureKind, message: impl Into<String>) -> Failure {
        Failure {
            kind,
            code: None,
            message: message.into(),
            hints: Vec::new(),
            is_of_nobody: false,
        }
    }

    /// Wrong usage or configuration.
    pub(super) fn usage(message: impl Into<String>) -> Failure {
        Failure::new(FailureKind::Usage, message)
    }

    /// Something was tried and failed, such as the build of a plugin.
    pub(super) fn failed(message: impl Into<String>) -> Failure {
        Failure::new(FailureKind::Broken, message)
    }

    /// Something other than a call was refused, such as building what nobody agreed to.
    pub(super) fn rejected(message: impl Into<String>) -> Failure {
        Failure::new(FailureKind::Rejected, message)
    }

    /// Nobody has this name.
    pub(super) fn nobody(message: impl Into<String>) -> Failure {
        Failure { is_of_nobody: true, ..Failure::usage(message) }
    }

    /// Our bug.
    pub(super) fn fault(message: impl Into<String>) -> Failure {
        Failure::new(FailureKind::Fault, message)
    }

    /// Whoever reads our output has gone.
    pub(super) fn pipe_closed() -> Failure {
        Failure::new(FailureKind::PipeClosed, "")
    }

    /// Something that is enabled does not work. What, was printed as the command's answer.
    pub(super) fn broken() -> Failure {
        Failure::new(FailureKind::Broken, "")
    }

    /// No tool has this name, which is not called.
    pub(super) fn unknown_tool(name: &str) -> Failure {
        let error = CallError::new(Code::UnknownTool, format!("Unknown tool: {name}"));
        Failure { kind: FailureKind::Usage, ..Failure::call(&error) }
    }

    /// Adds what to do next.
    #[must_use]
    pub(super) fn hint(mut self, hint: impl Into<String>) -> Failure {
        self.hints.push(hint.into());
        self
    }

    /// The host does not start.
    pub(super) fn start(error: StartError) -> Failure {
        match error {
            StartError::Lock(error) => Failure::usage(error.to_string()),
            StartError::Engine(error) => Failure::fault(error.to_string()),
            StartError::Root(error) => Failure::fault(error.to_string()),
        }
    }

    /// A file is no plugin, or there is no such file.
    pub(super) fn inspect(file: &str, error: &InspectError) -> Failure {
        let message = format!("{file}: {error}");
        match error {
            InspectError::Start(error) => Failure::fault(error.to_string()),
            InspectError::NoRoom(_) => Failure::usage(error.to_string()),
            InspectError::Load(
                LoadError::Unreadable(_) | LoadError::NotAFile(_) | LoadError::Elsewhere(_),
            ) => Failure::usage(message),
            InspectError::Load(_) => Failure::failed(message),
            InspectError::Unrecorded(_) => Failure::rejected(message),
        }
    }

    /// A call has no output.
    pub(super) fn call(error: &CallError) -> Failure {
        let kind = match error.class() {
            Class::Failed => FailureKind::Tool,
            Class::Rejected => FailureKind::Rejected,
            Class::Aborted => FailureKind::Aborted,
            Class::Fault => FailureKind::Fault,
        };
        // The mark is for models; a person sees the code.
        let message = text::without_error_mark(&error.message);
        let mut failure = Failure::new(kind, message);
        failure.code = Some(error.code);
        failure
    }

    /// There is nobody of the name that was given.
    pub(super) fn is_of_nobody(&self) -> bool {
        self.is_of_nobody
    }

    /// What went wrong, without what to do.
    pub(super) fn message(&self) -> &str {
        &self.message
    }

    /// Prints the failure to stderr and returns the exit code.
    pub(super) fn report(&self) -> ExitCode {
        if self.kind != FailureKind::PipeClosed && !self.message.is_empty() {
            let code = self.code.map(|code| format!("[{code}]")).unwrap_or_default();
            ui::error_line(&format!("error{code}: {}", self.message));
            for hint in &self.hints {
                ui::error_line(&format!("hint: {hint}"));
            }
        }
        ExitCode::from(match self.kind {
            FailureKind::PipeClosed => 0,
            FailureKind::Tool | FailureKind::Broken => 1,
            FailureKind::Usage => 2,
            FailureKind::Rejected => 3,
            FailureKind::Aborted => 4,
            FailureKind::Fault => 70,
        })
    }

    /// What went wrong, without hints.
    pub(super) fn into_message(self) -> String {
        self.message
    }

    /// The same failure without words, for when they were printed as JSON.
    #[must_use]
    pub(super) fn silent(mut self) -> Failure {
        self.message.clear();
        self
    }
}
