//! How much descriptions say, in any language; and what they say that a schema could say: values
//! that are allowed, and whether an argument may be left out. It finds the usual ways of saying
//! that in English.

use std::sync::LazyLock;

use regex::Regex;

/// Values that one list may have to be worth an `enum`.
const VALUES_MAX: usize = 30;

static QUOTED: LazyLock<Regex> = LazyLock::new(|| pattern(ITEM));
static ALTERNATIVES: LazyLock<Regex> =
    LazyLock::new(|| pattern(&format!(r"{ITEM}(?:\s*\|\s*{ITEM})+")));
static LISTED: LazyLock<Regex> = LazyLock::new(|| {
    pattern(&format!(
        r"(?i)\b(?:one of|either|any of|must be|can be|may be|allowed(?: values)?(?: are| is)?|values are)[:\s]\s*{ITEM}(?:{BETWEEN}{ITEM})+"
    ))
});
static LISTED_BARE: LazyLock<Regex> = LazyLock::new(|| {
    pattern(&format!(r"(?i)\bone of[:\s]\s*({WORD}(?:\s*,\s*{WORD})*,?\s+(?:or|and)\s+{WORD})\b"))
});
static BARE: LazyLock<Regex> = LazyLock::new(|| pattern(WORD));
static OPTIONAL: LazyLock<Regex> = LazyLock::new(|| {
    pattern(concat!(
        r"(?i)^optional\b|\(optional\b|\boptional(?:[.:;,)]|$)|\bdefaults? (?:to|is)\b",
        r"|\bdefault\s*[:=]|\b(?:if|when|where) (?:it is )?(?:omitted|absent|missing|left out|not given|not set)\b",
        r"|\bmay be (?:omitted|left out)\b"
    ))
});
static REQUIRED: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?i)^required\b|\(required\)|\brequired(?:[.:;,)]|$)"));

/// Something in quotes.
const ITEM: &str = r#"(?:"[^"\n]{1,40}"|`[^`\n]{1,40}`|'[\w./-]{1,40}')"#;
const BETWEEN: &str = r"(?:\s*,\s*(?:or\s+|and\s+)?|\s+or\s+|\s+and\s+|\s*/\s*)";
const WORD: &str = r"[A-Za-z0-9][\w.-]{0,39}";

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a pattern of our own")
}

/// Returns the values that a description lists as those which are allowed; none if it lists
/// fewer than two.
pub(super) fn values(description: &str) -> Vec<String> {
    let quoted = [&ALTERNATIVES, &LISTED].into_iter().find_map(|list| list.find(description));
    let mut found: Vec<String> = match quoted {
        Some(list) => QUOTED
            .find_iter(list.as_str())
            .map(|item| item.as_str()[1..item.len() - 1].to_owned())
            .collect(),
        None => match LISTED_BARE.captures(description) {
            Some(list) => BARE
                .find_iter(&list[1])
                .map(|item| item.as_str().to_owned())
                .filter(|word| !["or", "and"].contains(&word.as_str()))
                .collect(),
            None => Vec::new(),
        },
    };
    let mut seen = std::collections::BTreeSet::new();
    found.retain(|value| seen.insert(value.clone()));
    if (2..=VALUES_MAX).contains(&found.len()) { found } else { Vec::new() }
}

/// Tells whether a description says that an argument may be left out.
pub(super) fn says_optional(description: &str) -> bool {
    OPTIONAL.is_match(description)
}

/// Tells whether a description says that an argument must be given.
pub(super) fn says_required(description: &str) -> bool {
    REQUIRED.is_match(description)
}

/// How much a text says, in characters of an alphabet: one of Chinese, Japanese or Korean says as
/// much as two of those.
pub(super) fn length(text: &str) -> usize {
    text.chars().map(|letter| if is_syllable(letter) { 2 } else { 1 }).sum()
}

/// Tells whether most letters of a text are of languages that have no spaces between words.
pub(super) fn has_no_spaces(text: &str) -> bool {
    let letters = text.chars().filter(|letter| letter.is_alphabetic());
    let (without, with): (Vec<char>, Vec<char>) = letters.partition(|&letter| {
        let is_korean = matches!(letter, '\u{1100}'..='\u{11ff}' | '\u{ac00}'..='\u{d7af}');
        // Thai, Lao, Burmese, Khmer.
        let is_south_east = matches!(letter,
            '\u{0e00}'..='\u{0eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}');
        is_south_east || is_syllable(letter) && !is_korean
    });
    without.len() > with.len()
}

/// A character that stands for a syllable or a word: Chinese, Japanese, Korean.
fn is_syllable(letter: char) -> bool {
    matches!(letter,
        '\u{1100}'..='\u{11ff}'
        | '\u{3040}'..='\u{30ff}'
        | '\u{3400}'..='\u{4dbf}'
        | '\u{4e00}'..='\u{9fff}'
        | '\u{ac00}'..='\u{d7af}'
        | '\u{f900}'..='\u{faff}'
        | '\u{20000}'..='\u{3ffff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(description: &str, expected: &[&str]) {
        assert_eq!(values(description), expected, "{description}");
    }

    #[test]
    fn values_that_prose_lists_are_found() {
        check(
            "The unit: one of metric, imperial or standard.",
            &["metric", "imperial", "standard"],
        );
        check("One of `a`, `b`, or `c d`.", &["a", "b", "c d"]);
        check(r#"The mode ("fast"|"slow")."#, &["fast", "slow"]);
        check(r#""asc" | "desc""#, &["asc", "desc"]);
        check("Must be 'utf-8' or 'latin-1'.", &["utf-8", "latin-1"]);
        check("Either `on` or `off`", &["on", "off"]);
        check("Allowed values are `1`, `2`, `1` and `3`.", &["1", "2", "3"]);
    }

    #[test]
    fn prose_without_a_list_has_none() {
        check("The city, such as `Paris`, or with its country, `Paris,FR`.", &[]);
        check("One of the files that were found.", &[]);
        check("A path: it must be below `plugins`.", &[]);
        check("Either the name or the number of a line.", &[]);
        check("", &[]);
    }

    #[test]
    fn languages_without_spaces_are_known() {
        let without = [
            "计算文本中的单词数量。",
            "テキストの単語を数えます。",
            "นับจำนวนคำในข้อความ",
            "读取 CSV 文件，返回符合条件的行。",
        ];
        for text in without {
            assert!(has_no_spaces(text) && length(text) >= 19, "{text}");
        }
        let with = ["Counts words.", "Считает слова", "텍스트의 단어 수를 셉니다.", "Μετράει", ""];
        for text in with {
            assert!(!has_no_spaces(text), "{text}");
        }
        assert_eq!((length("a文b"), length("텍스트의"), length("слово")), (4, 8, 5));
    }

    #[test]
    fn what_may_be_left_out_is_found() {
        for text in [
            "Optional limit.",
            "The limit (optional).",
            "How many lines; defaults to 10.",
            "The default is 10 lines, and default: 10.",
            "The limit. If omitted, all of them.",
            "The limit, optional",
        ] {
            assert!(says_optional(text), "{text}");
        }
        for text in ["The limit.", "Which optional parts to show.", "A default case of the switch"]
        {
            assert!(!says_optional(text), "{text}");
        }
        assert!(says_required("The city (required)."));
        assert!(says_required("Required: the city"));
        assert!(!says_required("Which required parts are missing"));
    }
}
