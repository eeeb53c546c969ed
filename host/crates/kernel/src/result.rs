//! Results too large for a model's context: the name they are kept under, and what is shown.
//!
//! What this module does not do: keep anything. It knows neither folders nor thresholds.

use sha2::{Digest, Sha256};

/// The stem of a result whose id says nothing.
const NAMELESS: &str = "tool_result";
/// Characters of an id that go into the stem.
const STEM_CHARS_MAX: usize = 120;
/// Bytes of the id's hash that go into the stem if the id itself could not.
const HASH_BYTES: usize = 6;
/// Characters of a result that are shown.
const PREVIEW_CHARS_MAX: usize = 1_500;

/// Returns the stem of the file that keeps the result of a call, made of the call's id.
///
/// It has only `A-Z a-z 0-9 _ . -`, begins with neither a dot nor an underscore, and is at most
/// 133 characters long. If the id had to change, twelve digits of its SHA-256 keep it apart from
/// others that look the same then. What it does not promise: an id that is already written like
/// such a stem shares it.
pub fn stem(id: &str) -> String {
    if id.is_empty() {
        return NAMELESS.to_owned();
    }
    let allowed = |letter: char| letter.is_ascii_alphanumeric() || "_.-".contains(letter);
    let safe = |letter: char| if allowed(letter) { letter } else { '_' };
    let letters = id.chars().map(safe).skip_while(|letter| matches!(letter, '.' | '_'));
    let mut stem: String = letters.take(STEM_CHARS_MAX).collect();
    if stem.is_empty() {
        stem.push_str(NAMELESS);
    }
    if stem != id {
        let hash = Sha256::digest(id);
        let digits = hash.iter().take(HASH_BYTES).map(|byte| format!("{byte:02x}"));
        stem.push('_');
        stem.extend(digits);
    }
    stem
}

/// Returns the beginning of a result that is shown in its place: 1,500 characters, cut back to
/// the last line break if that lies past their middle. A shorter text is shown whole.
pub fn preview(text: &str) -> &str {
    let Some((end, _)) = text.char_indices().nth(PREVIEW_CHARS_MAX) else {
        return text;
    };
    let shown = &text[..end];
    match shown.rfind('\n') {
        Some(last) if shown[..last].chars().count() > PREVIEW_CHARS_MAX / 2 => &shown[..=last],
        _ => shown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g93_stems() {
        assert_eq!(stem("abc"), "abc");
        assert_eq!(stem("a/b"), "a_b_c14cddc033f6");
        assert_eq!(stem("../x"), "x_d6b96a97d147");
        assert_eq!(stem(""), "tool_result");
        assert_eq!(stem(".."), "tool_result_5ec1f7e700f3");
        assert_eq!(stem(&"a".repeat(120)), "a".repeat(120));
        assert_eq!(stem(&"a".repeat(130)), format!("{}_1e3c4f4750c8", "a".repeat(120)));
        assert!(stem("日本\u{0}").is_ascii());
    }

    #[test]
    fn a_preview_ends_with_a_line_where_it_can() {
        assert_eq!(preview("a\nb"), "a\nb");
        let whole = "é\n".repeat(750);
        assert_eq!(preview(&whole), whole);
        let at = |line_break: usize| {
            let text = format!("{}\n{}", "é".repeat(line_break), "x".repeat(2_000));
            preview(&text).chars().count()
        };
        assert_eq!(at(1_000), 1_001);
        assert_eq!(at(751), 752);
        assert_eq!(at(750), 1_500);
        assert_eq!(at(1_600), 1_500);
    }
}
