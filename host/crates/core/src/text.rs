//! Text of strangers made safe to show, and names that are near to one another.

pub mod suspect;

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::Regex;
use strsim::normalized_damerau_levenshtein;

/// Bytes of a name that is compared with others.
const COMPARED_BYTES_MAX: usize = 128;
/// How alike two names must be for one to be offered for the other.
const LIKENESS_MIN: f64 = 0.6;
/// The most names offered.
const OFFERED_MAX: usize = 3;
/// The mark of an error that is not the tool's own answer.
const ERROR_PREFIX: &str = "[TOOL_ERROR] ";
/// Characters of such an error after its mark.
const ERROR_CHARS_MAX: usize = 2_000;

/// What is taken out of an error text, in this order: tags that look like turns of a
/// conversation, fences that open a block of code, a fence at the end, and CDATA sections.
static TAKEN_OUT: LazyLock<[Regex; 4]> = LazyLock::new(|| {
    [
        r"(?i)</?(?:tool_call|function_call|result|response|output|input|system|assistant|user)>",
        r"(?m)^\s*```(?:json|xml|html|markdown)?\s*",
        r"\s*```\s*$",
        r"(?s)<!\[CDATA\[.*?\]\]>",
    ]
    .map(|pattern| Regex::new(pattern).expect("a pattern of our own"))
});

/// Returns `text` without characters that move the cursor, change colours, reverse the reading
/// direction or cannot be seen; each is replaced by a visible escape. Line breaks and tabs stay.
pub fn printable(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' | '\t' => safe.push(character),
            _ if is_deceptive(character) => safe.extend(character.escape_unicode()),
            _ => safe.push(character),
        }
    }
    safe
}

/// Like [`printable`], on one line: line breaks and tabs become spaces.
pub fn one_line(text: &str) -> String {
    printable(text).replace(['\n', '\t'], " ")
}

/// Returns at most `chars_max` characters of `text`, with `...` in place of what is cut.
pub fn cut(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}...", &text[..end]),
    }
}

/// Returns the text of an exception as a model may read it: marked with `[TOOL_ERROR] `, without
/// what could pass for a turn of the conversation, and at most 2,013 characters long.
///
/// Each kind of mark-up is taken out once, as Hermes does: what only comes to look like a tag
/// because something inside it was taken out stays. Tags with attributes stay too.
pub fn sanitized(text: &str) -> String {
    let bare = without_markup(text);
    match bare.char_indices().nth(ERROR_CHARS_MAX) {
        None => format!("{ERROR_PREFIX}{bare}"),
        Some(_) => format!("{ERROR_PREFIX}{}", cut(&bare, ERROR_CHARS_MAX - "...".len())),
    }
}

/// Returns the text of an exception as a person may read it: what [`sanitized`] makes, without its mark.
pub fn without_error_mark(text: &str) -> &str {
    text.strip_prefix(ERROR_PREFIX).unwrap_or(text)
}

/// Returns a text that is no error, without what could pass for a turn of the conversation.
pub fn without_markup(text: &str) -> Cow<'_, str> {
    let mut bare = Cow::Borrowed(text);
    for pattern in TAKEN_OUT.iter() {
        if let Cow::Owned(without) = pattern.replace_all(&bare, "") {
            bare = Cow::Owned(without);
        }
    }
    bare
}

/// Returns JSON text in which no character needs [`printable`]: such characters stand escaped.
pub fn printable_json(json: &str) -> String {
    let mut safe = String::with_capacity(json.len());
    for character in json.chars() {
        match character {
            '\n' | '\t' => safe.push(character),
            _ if is_deceptive(character) => {
                let mut units = [0; 2];
                for unit in character.encode_utf16(&mut units) {
                    safe.push_str(&format!("\\u{unit:04x}"));
                }
            }
            _ => safe.push(character),
        }
    }
    safe
}

/// Returns the few of `known` that are most like `given`, the nearest first. What is longer than
/// names are is like nothing: comparing takes the product of both lengths.
pub fn nearest<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    if given.len() > COMPARED_BYTES_MAX {
        return Vec::new();
    }
    let given = given.to_lowercase();
    let mut near: Vec<(f64, &str)> = known
        .into_iter()
        .filter(|name| name.len() <= COMPARED_BYTES_MAX)
        .map(|name| (normalized_damerau_levenshtein(&given, &name.to_lowercase()), name))
        .filter(|(likeness, _)| *likeness >= LIKENESS_MIN)
        .collect();
    near.sort_by(|left, right| right.0.total_cmp(&left.0).then(left.1.cmp(right.1)));
    near.into_iter().take(OFFERED_MAX).map(|(_, name)| name.to_owned()).collect()
}

/// Control characters, marks of reading direction, and characters without any width.
fn is_deceptive(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_made_safe_to_show() {
        assert_eq!(printable("a\tb\n\u{1b}[31mred\u{7}"), "a\tb\n\\u{1b}[31mred\\u{7}");
        assert_eq!(printable("a\u{202e}b\u{9b}c\rd"), "a\\u{202e}b\\u{9b}c\\u{d}d");
        assert_eq!(one_line("a\nb"), "a b");
        assert_eq!(printable("grün 🔎 日本"), "grün 🔎 日本");
        let json = serde_json::json!("\u{9b}\u{202e}\u{e0041}").to_string();
        let safe = printable_json(&json);
        assert!(safe.is_ascii());
        assert_eq!(serde_json::from_str::<String>(&safe).expect("JSON"), "\u{9b}\u{202e}\u{e0041}");
    }

    #[test]
    fn errors_are_sanitised() {
        let check = |given: &str, expected: &str| {
            assert_eq!(sanitized(given), format!("[TOOL_ERROR] {expected}"));
        };
        // A11.
        check(
            "Tool execution failed: ValueError: bad <system>x</system>",
            "Tool execution failed: ValueError: bad x",
        );
        // B15, B17.
        check("boom", "boom");
        check("", "");
        check("a<![CDATA[zz]]>b", "ab");
        check("<![CDATA[a]]>b<![CDATA[\nc]]>d]]>", "bd]]>");
        check("a\n```json\n{}\n```\n", "a\n{}\n");
        check("```python\nx", "python\nx");
        check("a\n\n  ```xml  y```  \n\n", "a\ny");
        // Of fences that end a line, only the one at the end of the text is taken out; at the
        // beginning of a line every one opens a block.
        check("a```\nb ```\nc ```\n", "a```\nb ```\nc");
        check("a ```\n  b\n```\nc", "a ```\n  b\nc");
        check("<SYSTEM>a</Tool_Call><user x='1'>", "a<user x='1'>");
        check("<sys<system>tem>", "<system>");
        check(&"é".repeat(2_000), &"é".repeat(2_000));
        // A line that is no error has no mark.
        assert_eq!(without_markup("x.wasm: <system>live"), "x.wasm: live");
        // B19.
        let long = sanitized(&"x".repeat(2_500));
        assert_eq!(long.chars().count(), 2_013);
        assert!(long.ends_with("xxx..."));
    }

    #[test]
    fn near_names_are_found() {
        let known = ["json_query", "json_schema_infer", "read_file"];
        assert_eq!(nearest("jsonquery", known), ["json_query"]);
        assert_eq!(nearest("Json-Query", known), ["json_query"]);
        assert!(nearest("weather", known).is_empty());
    }
}
