//! Examples as tests: does an output have what its example expects?
//!
//! The contract says of `example.expected`: text that must occur in the text of the output. This
//! is what that means, in one place, for whoever runs examples.

use thiserror::Error;

use super::{Content, ToolOutput};
use crate::text;

/// Characters of each side that a mismatch shows.
const SHOWN_CHARS_MAX: usize = 200;

/// An output that has not what its example expects. As a text it is one bounded line, in which
/// nothing can harm a terminal.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("expected `{expected}` in the output, which is {given}")]
pub struct Mismatch {
    /// What was expected, made safe to show.
    pub expected: String,
    /// The output, made safe to show: its text, or in words that it has none.
    pub given: String,
}

/// Tells whether `expected` occurs in the text of an output, letter by letter.
///
/// The text of an output is that of its blocks in order, with a line break between two: plain
/// text and JSON text as the tool wrote them, of a resource its URI and the text that comes with
/// it. Pictures and sounds have none. `structured` is the same answer once more, so what occurs
/// there is found as well. Empty text occurs in every output.
///
/// # Errors
/// If it does not occur.
pub fn fits(expected: &str, output: &ToolOutput) -> Result<(), Mismatch> {
    let written = text_of(output);
    let occurs = |text: &String| text.contains(expected);
    if occurs(&written) || output.structured.as_ref().is_some_and(occurs) {
        return Ok(());
    }
    let shown = |text: &str| text::one_line(&text::cut(text, SHOWN_CHARS_MAX));
    let given = match (written.as_str(), &output.structured) {
        ("", None) => "without text".to_owned(),
        ("", Some(structured)) => format!("`{}`", shown(structured)),
        (written, _) => format!("`{}`", shown(written)),
    };
    Err(Mismatch { expected: shown(expected), given })
}

fn text_of(output: &ToolOutput) -> String {
    let texts: Vec<&str> = output
        .content
        .iter()
        .flat_map(|block| match block {
            Content::Text(text) | Content::Json(text) => [Some(text.as_str()), None],
            Content::Resource { uri, text, .. } => [Some(uri.as_str()), text.as_deref()],
            Content::Image { .. } | Content::Audio { .. } => [None, None],
        })
        .flatten()
        .collect();
    texts.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(content: Vec<Content>, structured: Option<&str>) -> ToolOutput {
        let structured = structured.map(str::to_owned);
        ToolOutput { content, structured, ..ToolOutput::default() }
    }

    #[track_caller]
    fn check(expected: &str, output: &ToolOutput, mismatch: &str) {
        let found = fits(expected, output).map_or_else(|error| error.to_string(), |()| "".into());
        assert_eq!(found, mismatch);
    }

    #[test]
    fn what_occurs_in_the_text_fits() {
        let text = output(vec![Content::Text("say \"three\" words".into())], None);
        check("three", &text, "");
        // As the tool wrote it, not as JSON makes it for the model.
        check("\"three\" words", &text, "");
        check("", &text, "");
        check("four", &text, "expected `four` in the output, which is `say \"three\" words`");
        check("Three", &text, "expected `Three` in the output, which is `say \"three\" words`");

        let json = output(vec![Content::Json(r#"{"count": 3}"#.into())], None);
        check(r#""count": 3"#, &json, "");
        check(
            r#""count":3"#,
            &json,
            "expected `\"count\":3` in the output, which is `{\"count\": 3}`",
        );
    }

    #[test]
    fn every_block_that_has_text_counts_and_the_structured_answer() {
        let picture = || Content::Image { media_type: "image/png".into(), data: b"3".to_vec() };
        let resource = Content::Resource {
            uri: "file:///a".into(),
            media_type: Some("text/plain".into()),
            text: Some("within".into()),
        };
        let blocks = output(vec![Content::Text("one".into()), picture(), resource], None);
        for expected in ["one", "file:///a", "within", "one\nfile", "a\nwithin"] {
            check(expected, &blocks, "");
        }
        for expected in ["png", "3", "plain"] {
            fits(expected, &blocks).expect_err(expected);
        }
        let both = output(vec![Content::Text("20 °C".into())], Some(r#"{"temperature":20}"#));
        check("\"temperature\":20", &both, "");
        check("20 °C", &both, "");
        check("30", &both, "expected `30` in the output, which is `20 °C`");
        let alone = output(Vec::new(), Some("{}"));
        check("30", &alone, "expected `30` in the output, which is `{}`");
        check(
            "3",
            &output(vec![picture()], None),
            "expected `3` in the output, which is without text",
        );
        check("", &output(Vec::new(), None), "");
    }

    #[test]
    fn a_mismatch_is_one_bounded_line_that_harms_no_terminal() {
        let text = format!("\u{1b}[31m\n{}", "x".repeat(100_000));
        let line = fits(&"y".repeat(100_000), &output(vec![Content::Text(text)], None))
            .expect_err("a mismatch")
            .to_string();
        assert!(line.len() < 600 && !line.contains(['\n', '\u{1b}']), "{line}");
    }
}
