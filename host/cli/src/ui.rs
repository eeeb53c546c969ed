//! What a person sees: stdout for answers, stderr for everything else. Text of strangers is
//! made safe here, so no command can forget it.

use std::collections::BTreeSet;
use std::io::{ErrorKind, IsTerminal, Write};
use std::time::Duration;

use indicatif::ProgressBar;
use serde_json::Value;
use tokio::sync::watch;

use super::failure::Failure;
use toolhost_core::text;

/// After how long a wait is explained.
const PATIENCE: Duration = Duration::from_secs(1);

/// Where a command's answer goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ui {
    /// The user asked for JSON.
    pub(super) json: bool,
}

impl Ui {
    pub(super) fn new(json: bool) -> Ui {
        Ui { json }
    }

    /// Prints a line for people.
    pub(super) fn line(&self, line: &str) -> Result<(), Failure> {
        write(&text::printable(line))
    }

    /// Prints JSON text; in a form in which it cannot harm a terminal.
    pub(super) fn json_text(&self, json: &str) -> Result<(), Failure> {
        write(&text::printable_json(json))
    }

    /// Prints a JSON value, indented.
    pub(super) fn json(&self, value: &Value) -> Result<(), Failure> {
        self.json_text(&format!("{value:#}"))
    }

    /// Prints rows in columns under headings; without trailing spaces.
    pub(super) fn table(&self, headings: &[&str], rows: &[Vec<String>]) -> Result<(), Failure> {
        let cell = |text: &str| text::one_line(text);
        let width = |column: usize| {
            let cells = rows.iter().map(|row| cell(&row[column]).chars().count());
            cells.chain([headings[column].len()]).max().unwrap_or_default()
        };
        let widths: Vec<usize> = (0..headings.len()).map(width).collect();
        let line = |cells: Vec<String>| {
            let padded: Vec<String> = cells
                .iter()
                .zip(&widths)
                .map(|(text, width)| format!("{text:<width$}", width = *width))
                .collect();
            padded.join("  ").trim_end().to_owned()
        };
        self.line(&line(headings.iter().map(|heading| (*heading).to_owned()).collect()))?;
        for row in rows {
            self.line(&line(row.iter().map(|text| cell(text)).collect()))?;
        }
        Ok(())
    }

    /// Asks the person at the terminal for a yes. Nobody can be asked without a terminal, or where the
    /// answer is JSON.
    pub(super) fn ask(&self, question: &str) -> Result<Option<bool>, Failure> {
        let somebody = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
        if self.json || !somebody {
            return Ok(None);
        }
        prompt(&format!("{question} [y/N] "));
        let mut line = String::new();
        let read = std::io::stdin().read_line(&mut line);
        read.map_err(|error| Failure::usage(format!("no answer can be read: {error}")))?;
        Ok(Some(["y", "yes"].contains(&line.trim().to_ascii_lowercase().as_str())))
    }

    /// Waits, and after a second says on a terminal what is compiled or waits for that.
    pub(super) async fn while_waiting<T>(
        &self,
        work: impl Future<Output = T>,
        mut compiling: watch::Receiver<BTreeSet<String>>,
    ) -> T {
        let explain = async {
            tokio::time::sleep(PATIENCE).await;
            let bar = ProgressBar::new_spinner();
            bar.enable_steady_tick(PATIENCE / 4);
            loop {
                let names: Vec<String> = compiling.borrow_and_update().iter().cloned().collect();
                bar.set_message(match names.as_slice() {
                    [] => "loading plugins".to_owned(),
                    names => format!("compiling {} (once; it is kept)", shortened(names)),
                });
                if compiling.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        };
        tokio::select! {
            done = work => done,
            never = explain => never,
        }
    }
}

/// The first names, and how many more there are.
fn shortened(names: &[String]) -> String {
    const SHOWN_MAX: usize = 4;
    let shown = names[..names.len().min(SHOWN_MAX)].join(", ");
    match names.len().saturating_sub(SHOWN_MAX) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// Prints a question to stderr, without a line break. If that fails, there is nobody to ask.
pub(super) fn prompt(words: &str) {
    let mut stderr = std::io::stderr();
    let _ = write!(stderr, "{}", text::printable(words)).and_then(|()| stderr.flush());
}

/// Prints a line to stderr. If that fails, there is nobody to tell.
pub(super) fn error_line(line: &str) {
    let _ = writeln!(std::io::stderr(), "{}", text::printable(line));
}

#[cfg(test)]
thread_local! {
    /// What would be printed, where a test asks for it.
    static PRINTED: std::cell::RefCell<Option<String>> = const { std::cell::RefCell::new(None) };
}

/// Returns what this prints on this thread, with what it returns.
#[cfg(test)]
pub(super) async fn printed<T>(work: impl Future<Output = T>) -> (String, T) {
    PRINTED.with_borrow_mut(|printed| *printed = Some(String::new()));
    let value = work.await;
    (PRINTED.take().unwrap_or_default(), value)
}

fn write(text: &str) -> Result<(), Failure> {
    #[cfg(test)]
    if PRINTED.with_borrow_mut(|printed| {
        let printed = printed.as_mut();
        printed.map(|printed| printed.extend([text, "\n"])).is_some()
    }) {
        return Ok(());
    }
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{text}").and_then(|()| stdout.flush()).map_err(|error| match error.kind() {
        ErrorKind::BrokenPipe => Failure::pipe_closed(),
        _ => Failure::usage(format!("stdout cannot be written: {error}")),
    })
}
