//! Repairs JSON text that is nearly right, in one pass over it.
//!
//! What stands in a string is never changed, only written so that JSON can hold it. This module
//! completes no string, value or key: it would be guessing.

use std::fmt::Write as _;

/// The most surplus closing brackets that are removed.
const SURPLUS_MAX: usize = 50;

/// Text that may be JSON now, and what was done to it.
pub(super) struct Repaired {
    pub(super) text: String,
    pub(super) repairs: Vec<String>,
}

/// Repairs `text`: escapes control characters in strings, removes commas before a closing
/// bracket, adds the missing `}` and after them the missing `]`, removes surplus ones from the
/// end. None if there was nothing to do, or the result would be longer than `bytes_max`.
pub(super) fn repair(text: &str, bytes_max: usize) -> Option<Repaired> {
    let scanned = ScannedText::new(text, bytes_max)?;
    let mut repairs = Vec::new();
    let mut record = |count: usize, done: &str, one: &str, many: &str| match count {
        0 => {}
        1 => repairs.push(format!("{done} 1 {one}")),
        _ => repairs.push(format!("{done} {count} {many}")),
    };
    record(scanned.controls, "escaped", "control character", "control characters");
    record(scanned.commas, "removed", "trailing comma", "trailing commas");

    let mut text = scanned.text;
    let (mut curly, mut square) = (scanned.curly, scanned.square);
    let missing = |open: isize| usize::try_from(open).unwrap_or(0);
    let (missing_curly, missing_square) = (missing(curly), missing(square));
    if text.len().saturating_add(missing_curly).saturating_add(missing_square) > bytes_max {
        return None;
    }
    text.extend(std::iter::repeat_n('}', missing_curly));
    text.extend(std::iter::repeat_n(']', missing_square));
    record(missing_curly, "added", "missing `}`", "missing `}`");
    record(missing_square, "added", "missing `]`", "missing `]`");

    let mut surplus = 0;
    while (curly < 0 || square < 0) && surplus < SURPLUS_MAX {
        text.truncate(text.trim_end().len());
        match text.as_bytes().last() {
            Some(b'}') if curly < 0 => curly += 1,
            Some(b']') if square < 0 => square += 1,
            _ => break,
        }
        text.pop();
        surplus += 1;
    }
    record(surplus, "removed", "surplus closing bracket", "surplus closing brackets");
    (!repairs.is_empty()).then_some(Repaired { text, repairs })
}

/// What one pass over the text found and did.
struct ScannedText {
    text: String,
    controls: usize,
    commas: usize,
    /// How many more `{` than `}` stand outside of strings.
    curly: isize,
    /// How many more `[` than `]` stand outside of strings.
    square: isize,
}

impl ScannedText {
    /// None if a string is not closed, or the text grows beyond `bytes_max`.
    fn new(text: &str, bytes_max: usize) -> Option<ScannedText> {
        let mut scanned =
            ScannedText { text: String::new(), controls: 0, commas: 0, curly: 0, square: 0 };
        // `copied` is how far the input has been taken over; `comma` is where the last comma
        // is, if only white space has come after it.
        let (mut copied, mut comma) = (0, None);
        let (mut in_string, mut escaped) = (false, false);
        for (at, byte) in text.bytes().enumerate() {
            match byte {
                _ if escaped => escaped = false,
                b'\\' if in_string => escaped = true,
                b'"' => {
                    in_string = !in_string;
                    comma = None;
                }
                0..0x20 if in_string => {
                    scanned.text.push_str(&text[copied..at]);
                    scanned.push_escaped(byte);
                    copied = at + 1;
                    if scanned.text.len() > bytes_max {
                        return None;
                    }
                }
                _ if in_string => {}
                b',' => comma = Some(at),
                b'}' | b']' => {
                    if let Some(comma) = comma.take() {
                        scanned.text.push_str(&text[copied..comma]);
                        scanned.commas += 1;
                        copied = at;
                    }
                    scanned.count(byte);
                }
                b' ' | b'\t' | b'\n' | b'\r' => {}
                _ => {
                    comma = None;
                    scanned.count(byte);
                }
            }
        }
        scanned.text.push_str(&text[copied..]);
        (!in_string).then_some(scanned)
    }

    fn push_escaped(&mut self, control: u8) {
        self.controls += 1;
        match control {
            b'\n' => self.text.push_str("\\n"),
            b'\r' => self.text.push_str("\\r"),
            b'\t' => self.text.push_str("\\t"),
            _ => write!(self.text, "\\u{control:04x}").expect("a String takes all text"),
        }
    }

    fn count(&mut self, byte: u8) {
        match byte {
            b'{' => self.curly += 1,
            b'}' => self.curly -= 1,
            b'[' => self.square += 1,
            b']' => self.square -= 1,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(given: &str, expected: &str, repairs: &[&str]) {
        let repaired = repair(given, 1_000).expect(given);
        assert_eq!((repaired.text.as_str(), repaired.repairs), (expected, owned(repairs)));
    }

    fn owned(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn brackets_and_commas_are_put_right() {
        check(r#"{"a":1"#, r#"{"a":1}"#, &["added 1 missing `}`"]);
        check(
            r#"{"a":[{"b":1"#,
            r#"{"a":[{"b":1}}]"#,
            &["added 2 missing `}`", "added 1 missing `]`"],
        );
        check("{\"a\":[1, \n],}", r#"{"a":[1]}"#, &["removed 2 trailing commas"]);
        check(r#"{"a":1}} ]}"#, r#"{"a":1}"#, &["removed 3 surplus closing brackets"]);
        check(
            r#"{"a":1,}}"#,
            r#"{"a":1}"#,
            &["removed 1 trailing comma", "removed 1 surplus closing bracket"],
        );
    }

    #[test]
    fn strings_keep_their_meaning() {
        check(
            "{\"a\":\"x\ty\n\u{1}é\"}",
            r#"{"a":"x\ty\n\u0001é"}"#,
            &["escaped 3 control characters"],
        );
        check(
            r#"{"a":",]{[\"}","b":1,}"#,
            r#"{"a":",]{[\"}","b":1}"#,
            &["removed 1 trailing comma"],
        );
        assert!(repair(r#"{"a":"not closed"#, 1_000).is_none());
        assert!(repair(r#"{"a":"b" "c"}"#, 1_000).is_none());
    }

    #[test]
    fn the_result_is_bounded() {
        assert!(repair(&format!("{{\"a\":\"{}\"}}", "\u{1}".repeat(300)), 1_000).is_none());
        assert!(repair(&"{".repeat(600), 1_000).is_none());
        let surplus = repair(&format!("{{}}{}", "}".repeat(60)), 1_000).expect("a repair");
        assert_eq!(surplus.text, format!("{{}}{}", "}".repeat(10)));
    }
}
