//! Asking the person at the terminal.

use std::io::IsTerminal;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio::sync::{Mutex, mpsc};

use super::ui;
use toolhost_core::text;
use toolhost_core::tool::{Approval, Approver, Question};

/// Characters of the arguments that are shown.
const SHOWN_CHARS_MAX: usize = 2_000;

/// Asks on stderr and reads answers from stdin.
struct Prompt {
    /// Lines of stdin, from the one thread that reads it.
    lines: Mutex<mpsc::Receiver<String>>,
}

/// Whoever can be asked: the person at the terminal, if there is one.
pub(super) fn approver() -> Option<Arc<dyn Approver>> {
    let somebody = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    somebody.then(|| {
        let (sender, lines) = mpsc::channel(1);
        // It goes with the process.
        std::thread::spawn(move || {
            for line in std::io::stdin().lines().map_while(Result::ok) {
                if sender.blocking_send(line).is_err() {
                    break;
                }
            }
        });
        Arc::new(Prompt { lines: Mutex::new(lines) }) as Arc<dyn Approver>
    })
}

impl Approver for Prompt {
    fn ask<'a>(&'a self, question: Question<'a>) -> BoxFuture<'a, Approval> {
        Box::pin(async move {
            let mut lines = self.lines.lock().await;
            // What was typed before the question is no answer to it.
            while lines.try_recv().is_ok() {}
            ui::prompt(&words(question));
            match lines.recv().await {
                Some(line) => answer(&line),
                None => Approval::Denied { reason: None },
            }
        })
    }
}

fn words(question: Question<'_>) -> String {
    let Question { tool, arguments, asker, message } = question;
    let arguments = text::printable_json(&text::cut(arguments, SHOWN_CHARS_MAX));
    let message = text::printable(message);
    format!(
        "{asker} asks before `{tool}` runs: {message}\n  {arguments}\nRun it? [o]nce, [s]ession (this, and what is asked for the same reason), [d]eny (and why): "
    )
}

/// Silence and anything that is no yes is a no; what follows `d` is the reason.
fn answer(line: &str) -> Approval {
    let line = line.trim();
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    match word.to_ascii_lowercase().as_str() {
        "o" | "once" => Approval::Once,
        "s" | "session" => Approval::Session,
        _ => {
            let reason = rest.trim();
            Approval::Denied { reason: (!reason.is_empty()).then(|| reason.to_owned()) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_yes_is_a_yes() {
        assert_eq!(answer("o\n"), Approval::Once);
        assert_eq!(answer(" Session \n"), Approval::Session);
        for no in ["", "\n", "y\n", "yes\n", "once?\n"] {
            assert_eq!(answer(no), Approval::Denied { reason: None }, "{no:?}");
        }
        let reason = Some("not on a Sunday".to_owned());
        assert_eq!(answer("d not on a Sunday\n"), Approval::Denied { reason });
    }

    #[test]
    fn the_question_cannot_harm_the_terminal() {
        let question = Question {
            tool: "t",
            arguments: r#"{"text":"\u202e"}"#,
            asker: "plugin:guard",
            message: "\u{1b}[2Jsure?",
        };
        let words = words(question);
        assert!(!words.contains('\u{1b}'), "{words:?}");
        assert!(words.contains("plugin:guard asks before `t` runs: \\u{1b}[2Jsure?"), "{words}");
    }
}
