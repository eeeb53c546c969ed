//! `toolhost completions`

use clap_complete::Shell;

use super::failure::Failure;
use super::ui::Ui;
use super::usage;

/// Prints a script that completes commands and flags in a shell.
#[derive(Debug, clap::Args)]
pub(super) struct CompletionsArguments {
    /// The shell.
    shell: Shell,
}

pub(super) fn run(ui: &Ui, arguments: &CompletionsArguments) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut usage::command(), "toolhost", &mut script);
    ui.line(String::from_utf8_lossy(&script).trim_end())
}
