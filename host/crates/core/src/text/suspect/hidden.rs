//! Characters that a reader does not see, or does not see where they are.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

use super::SuspectKind;

/// What is found: its kind, what it is in words, and where.
pub(super) type SuspectSpan = (SuspectKind, &'static str, Range<usize>);

/// What is looked for. A character belongs to the first row that has it.
const ROWS: [(SuspectKind, &str, &str); 7] = [
    (
        SuspectKind::Direction,
        "changes the reading direction",
        r"[\x{061C}\x{200E}\x{200F}\x{202A}-\x{202E}\x{2066}-\x{2069}]",
    ),
    (
        SuspectKind::Invisible,
        "tag characters, which spell text that nobody sees",
        r"[\x{E0000}-\x{E007F}]",
    ),
    (
        SuspectKind::Invisible,
        "variation selectors where there is nothing to vary",
        r"[\x{180B}-\x{180D}\x{180F}\x{FE00}-\x{FE0F}\x{E0100}-\x{E01EF}]",
    ),
    (
        SuspectKind::Invisible,
        "characters without any width",
        r"[\p{Default_Ignorable_Code_Point}\x{2028}\x{2029}\x{2800}\x{FFF9}-\x{FFFB}]",
    ),
    (SuspectKind::Unreadable, "control characters", r"[\p{Cc}--\n\t]"),
    (SuspectKind::Unreadable, "characters of private use, without a meaning", r"\p{Co}"),
    (SuspectKind::Unreadable, "characters that nobody has given a meaning", r"\p{Cn}"),
];

static PATTERNS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    ROWS.iter().map(|(_, _, pattern)| Regex::new(pattern).expect("a pattern of our own")).collect()
});

/// A character of any row.
static ANY: LazyLock<Regex> = LazyLock::new(|| {
    let rows: Vec<&str> = ROWS.iter().map(|(_, _, pattern)| *pattern).collect();
    Regex::new(&format!("^(?:{})", rows.join("|"))).expect("a pattern of our own")
});

/// Sequences in which such characters have a use that everybody sees: line ends of Windows;
/// emoji with a presentation, a skin tone, or joined to one picture; keys; the three flags that
/// tags spell; joiners in scripts whose letters join; and variants of single characters.
static HARMLESS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?x)
        \r\n
        | \x{1F3F4} \x{E0067} \x{E0062} (?:
            \x{E0065}\x{E006E}\x{E0067} | \x{E0073}\x{E0063}\x{E0074} | \x{E0077}\x{E006C}\x{E0073}
          ) \x{E007F}
        | \p{Extended_Pictographic} (?: [\x{FE0E}\x{FE0F}] | \p{Emoji_Modifier} )?
            (?: \x{200D} \p{Extended_Pictographic} (?: \x{FE0F} | \p{Emoji_Modifier} )? ){0,8}
        | [0-9\#*] \x{FE0F} \x{20E3}
        | [\p{Arabic}\p{Syriac}\p{Nko}\p{Devanagari}\p{Bengali}\p{Gurmukhi}\p{Gujarati}\p{Oriya}
           \p{Tamil}\p{Telugu}\p{Kannada}\p{Malayalam}\p{Sinhala}\p{Khmer}\p{Myanmar}]
          [\x{200C}\x{200D}]
        | \p{Han} [\x{FE00}-\x{FE02}\x{E0100}-\x{E01EF}]
        | \p{Mongolian} [\x{180B}-\x{180F}]
        | [\p{Sm}\p{Myanmar}] \x{FE00}",
    )
    .expect("a pattern of our own")
});

/// Finds the first of each row that has no harmless use.
pub(super) fn find(text: &str) -> Vec<SuspectSpan> {
    // Most text is plain ASCII, and known to be harmless at a glance.
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\n' | b'\t')) {
        return Vec::new();
    }
    let harmless: Vec<Range<usize>> = HARMLESS.find_iter(text).map(|found| found.range()).collect();
    let is_harmless = |at: usize| {
        let after = harmless.partition_point(|range| range.start <= at);
        after > 0 && at < harmless[after - 1].end
    };
    let mut found = Vec::new();
    for (row, (kind, what, _)) in ROWS.iter().enumerate() {
        let belongs = |at: usize| {
            let first = text[at..].chars().next();
            first.is_some_and(|character| row_of(character) == Some(row))
        };
        let mut places = PATTERNS[row].find_iter(text).map(|place| place.range());
        if let Some(first) = places.find(|range| belongs(range.start) && !is_harmless(range.start))
        {
            // The whole run of them.
            let run = text[first.start..].char_indices();
            let end = run.take_while(|(_, character)| row_of(*character) == Some(row)).last();
            let end = end.map_or(first.end, |(at, last)| first.start + at + last.len_utf8());
            found.push((*kind, *what, first.start..end));
        }
    }
    found
}

/// Tells whether a character cannot be seen, wherever it stands.
pub(super) fn is_hidden(character: char) -> bool {
    !matches!(character, ' '..='~' | '\n' | '\t') && row_of(character).is_some()
}

/// The row that a character belongs to.
fn row_of(character: char) -> Option<usize> {
    if matches!(character, ' '..='~') {
        return None;
    }
    let mut bytes = [0; 4];
    let character: &str = character.encode_utf8(&mut bytes);
    if !ANY.is_match(character) {
        return None;
    }
    PATTERNS.iter().position(|pattern| pattern.is_match(character))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[(SuspectKind, &str)]) {
        let found: Vec<(SuspectKind, String)> = find(text)
            .into_iter()
            .map(|(kind, _, range)| (kind, super::super::visible(&text[range])))
            .collect();
        let expected: Vec<(SuspectKind, String)> =
            expected.iter().map(|(kind, text)| (*kind, (*text).to_owned())).collect();
        assert_eq!(found, expected, "{text:?}");
    }

    #[test]
    fn what_cannot_be_seen_is_found() {
        check("a\u{200b}b", &[(SuspectKind::Invisible, "[U+200B]")]);
        check("pass\u{ad}word", &[(SuspectKind::Invisible, "[U+00AD]")]);
        check("\u{feff}a\u{2060}", &[(SuspectKind::Invisible, "[U+FEFF]")]);
        check("a\u{3164}b", &[(SuspectKind::Invisible, "[U+3164]")]);
        check("a\u{2028}b", &[(SuspectKind::Invisible, "[U+2028]")]);
        check("hi\u{e0069}\u{e0067}", &[(SuspectKind::Invisible, "[U+E0069][U+E0067]")]);
        check("a\u{fe0f}", &[(SuspectKind::Invisible, "[U+FE0F]")]);
        check("😀\u{e0101}\u{e0102}", &[(SuspectKind::Invisible, "[U+E0101][U+E0102]")]);
        check("a\u{200d}b", &[(SuspectKind::Invisible, "[U+200D]")]);
        // Nothing is hidden behind a flag that nobody flies.
        check("\u{1f3f4}\u{e0061}\u{e007f}", &[(SuspectKind::Invisible, "[U+E0061][U+E007F]")]);
        check("❤\u{fe0f}\u{fe0f}", &[(SuspectKind::Invisible, "[U+FE0F]")]);
        check("1\u{fe0f}", &[(SuspectKind::Invisible, "[U+FE0F]")]);
        for direction in "\u{202a}\u{202e}\u{2066}\u{2069}\u{200e}\u{200f}\u{61c}".chars() {
            let shown = super::super::visible(&direction.to_string());
            check(&format!("a{direction}"), &[(SuspectKind::Direction, &shown)]);
        }
        check("a\u{1b}[31m", &[(SuspectKind::Unreadable, "[U+001B]")]);
        check("a\rb\r\nc", &[(SuspectKind::Unreadable, "[U+000D]")]);
        check("a\u{9b}", &[(SuspectKind::Unreadable, "[U+009B]")]);
        check("\u{e000}", &[(SuspectKind::Unreadable, "[U+E000]")]);
        check("\u{378}", &[(SuspectKind::Unreadable, "[U+0378]")]);
        check(
            "\u{200b}\u{202e}",
            &[(SuspectKind::Direction, "[U+202E]"), (SuspectKind::Invisible, "[U+200B]")],
        );
    }

    #[test]
    fn what_can_be_seen_is_not() {
        for text in [
            "plain text\n\twith two lines\r\nand a third",
            "grün, naïve, 日本語, Ελληνικά, Русский, עברית, العربية, हिन्दी",
            "non\u{a0}breaking, thin\u{2009}spaces, “quotes” – dashes … ≤ → µm",
            "❤\u{fe0f} ☎\u{fe0e} 🧪 👍🏽 👩\u{200d}💻 🏳\u{fe0f}\u{200d}🌈 👨\u{200d}👩\u{200d}👧 1\u{fe0f}\u{20e3} ©\u{fe0f}",
            "🏴\u{e0067}\u{e0062}\u{e0073}\u{e0063}\u{e0074}\u{e007f} 🇩🇪",
            "می\u{200c}خواهم क्\u{200d}ष",
            "葛\u{e0100}城 ∩\u{fe00}",
        ] {
            check(text, &[]);
        }
    }
}
