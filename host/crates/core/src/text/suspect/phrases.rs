//! Words that are addressed to a model, where a tool was to be described.
//!
//! A description may well say "you must pass a path", name the chat history it returns, or write
//! `<user>` for a part to fill in. So each pattern asks for more than a word: an order together
//! with what only someone who talks past the user would order. The tests hold both sides.

use std::sync::{LazyLock, OnceLock};

use regex::{Regex, RegexSet};

use super::SuspectKind;
use super::hidden::SuspectSpan;
use super::plain::Plain;
use In::{Letters, Words};

/// What a pattern is looked for in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum In {
    /// The bare words. In the pattern `~` stands for up to four words of one sentence.
    Words,
    /// The text in ordinary letters.
    Letters,
}

/// How a pattern is written that stands for up to four words of one sentence.
const FOUR_WORDS: &str = "(?:[^ .!?]+ ){0,4}";
/// The name of the row whose matches must look like encoded data as well.
const ENCODED: &str = "a long run of encoded data";

/// What is looked for.
const ROWS: [(SuspectKind, &str, In, &str); 20] = [
    (
        SuspectKind::Instruction,
        "tells the model to ignore its instructions",
        Words,
        r"\b(?:ignore|disregard|forget|override|bypass) ~(?:previous|prior|preceding|earlier|above|foregoing|original|initial|system|developer|safety|your) ~(?:instructions?|prompts?|rules|guidelines|directives|guardrails|policies)\b|\b(?:ignore|disregard|forget) all (?:of )?(?:the )?instructions\b|\bforget (?:everything|all) (?:above|before|you (?:were|have been) told)\b",
    ),
    (
        SuspectKind::Instruction,
        "gives the model a new role",
        Words,
        r"\byou are (?:now|no longer) (?:an?|bound|restricted|limited)\b|\b(?:from now on|henceforth) you (?:will|must|are|should)\b|\byour (?:new|real|true|actual) (?:task|role|goal|purpose|job|instructions?|objective) (?:is to|is now|are)\b",
    ),
    (
        SuspectKind::Instruction,
        "tells the model to keep something from the user",
        Words,
        r"\b(?:do not|don't|never|must not|should not|without) (?:ever )?(?:tell|telling|inform|informing) ~(?:the|your) (?:user|human|operator)s?\b|\b(?:do not|don't|never|must not|should not|without) (?:ever )?(?:mention|mentioning|reveal|revealing|disclose|disclosing|show|showing) ~to (?:the |your )?(?:users?|humans?|operator|anyone)\b|\b(?:do not|don't|never) (?:mention|reveal|disclose) (?:this|that|it|these instructions)\b|\b(?:hide|conceal|keep) ~from the (?:user|human|operator)\b",
    ),
    (
        SuspectKind::Instruction,
        "tells the model to act in secret",
        Words,
        r"\b(?:silently|secretly|covertly|quietly) (?:call|invoke|send|forward|upload|transmit|post|include|append|pass)\b",
    ),
    (
        SuspectKind::Instruction,
        "tells the model when it must call",
        Words,
        r"\b(?:you|the (?:model|assistant|agent|ai|llm)|assistants|agents|models) (?:must|should|shall|have to|need to|will|are required to|is required to) (?:always |first |also |immediately )+(?:call|invoke)\b|\balways (?:call|invoke|use|run|execute) th(?:is|e) (?:tool|function)\b|\bmust (?:always )?be (?:called|invoked|used|run) before (?:any|every|all|each)\b|\b(?:call|invoke|use|run) this (?:tool|function) (?:first )?before (?:any|every|all|each|doing|answering|responding)\b",
    ),
    (
        SuspectKind::Instruction,
        "sets itself before other tools",
        Words,
        r"\b(?:before|prior to|instead of|rather than|in place of) ~(?:any|every|all|each|the) (?:of the )?other tools?\b|\bbefore ~(?:any|every|each|all) (?:other )?(?:tool calls?|tool use|function calls?)\b|\b(?:do not|don't|never) (?:use|call|invoke|trust) (?:any |the |all )?(?:of the )?other tools?\b",
    ),
    (
        SuspectKind::Instruction,
        "tells the model what to do in every turn",
        Words,
        r"\bat the (?:start|beginning|end) of (?:every|each|any|all) (?:new )?(?:conversations?|chats?|turns?|responses?|repl(?:y|ies)|answers?)\b|\b(?:in|with|to) every (?:reply|response|answer) (?:to the user|you (?:give|write|send))\b",
    ),
    (
        SuspectKind::Instruction,
        "speaks to the model by name",
        Words,
        r"\b(?:important|attention|note|notice|reminder) (?:to|for) (?:the |all |any )?(?:ai|llms?|language models?|models?|assistants?|ai assistants?|ai agents?|agents?)(?: reading this)?:",
    ),
    (
        SuspectKind::Leak,
        "asks for the system prompt",
        Words,
        r"\b(?:reveal|print|repeat|copy|paste|output|leak|quote|disclose|expose|dump|include|provide|pass|put|append|attach|send|forward|insert|write) (?:(?:the|your|my|its|a|all|me|us|out|back|of|copy|text|contents?|summary|full|entire|whole|complete|exact|own) ){1,6}(?:system|developer|hidden|initial) (?:prompt|instructions?)\b|\byour (?:hidden|initial|system) (?:prompt|instructions)\b",
    ),
    (
        SuspectKind::Leak,
        "asks for the conversation",
        Words,
        r"\b(?:send|forward|upload|pass|include|put|copy|append|attach|provide|paste|transmit|post|write) ~(?:conversation|chat|message|dialogue) (?:history|so far|log|transcript|context)\b|\b(?:send|forward|upload|pass|include|put|copy|append|attach|provide|paste|transmit|post|write) ~(?:entire|whole|full|complete) (?:conversation|chat|context)\b",
    ),
    (
        SuspectKind::Leak,
        "asks for files with secrets",
        Letters,
        r"(?i)\b(?:read|open|cat|include|send|copy|pass|load|fetch|upload|provide)\b[^.!?\n]{0,60}?(?:~/\.ssh\b|\bid_(?:rsa|ed25519)\b|~/\.aws\b|~/\.netrc\b|/etc/shadow\b|\.cursor/mcp\.json|claude_desktop_config\.json)",
    ),
    (
        SuspectKind::Turn,
        "tags of a conversation",
        Letters,
        r"(?im)</?(?:system|assistant|important|instructions?|tool_call|tool_result|tool_response|function_calls?|function_results?|system[-_]reminder|system[-_]prompt|thinking)(?:\s[^<>]{0,200})?/?>|</(?:user|human)>|^[ \t]*<(?:user|human)>",
    ),
    (
        SuspectKind::Turn,
        "marks that models are trained to read as turns",
        Letters,
        r"<\|[A-Za-z0-9_▁-]{1,40}\|>|\[/?INST\]|<</?SYS>>|\[/?(?:AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|SYSTEM_PROMPT)\]|<(?:start|end)_of_turn>",
    ),
    (
        SuspectKind::Turn,
        "a line that begins as a turn does",
        Letters,
        r"(?m)(?:^|[^0-9\s][.!?][ \t]+)[#>*_ \t-]{0,8}(?:[Aa]ssistant|ASSISTANT|Human|HUMAN)[*_]{0,2}[ \t]?:|^[#>*_ \t-]{0,8}(?i:system|user|developer)[*_]{0,2}[ \t]?:[ \t]*(?i:you|ignore|always|never|do not|from now)\b",
    ),
    (
        SuspectKind::Hidden,
        "a comment, which a page does not show",
        Letters,
        r"(?m)(?:^|[^`])<!--|^[ \t]*\[(?://|comment)\]:[ \t]*[#<(]",
    ),
    (
        SuspectKind::Hidden,
        "a style, which hides text on a page",
        Letters,
        r#"(?i)\bstyle\s*=\s*["'][^"'<>]{0,200}(?:display\s*:\s*none|visibility\s*:\s*hidden|font-size\s*:\s*0|opacity\s*:\s*0\s*[;"'])"#,
    ),
    (SuspectKind::Hidden, ENCODED, Letters, r"[A-Za-z0-9+/_-]{80,}={0,2}"),
    (
        SuspectKind::Leak,
        "an address with a place for data",
        Letters,
        r#"(?i)\bhttps?://[^\s"'`<>]{1,300}[?&](?:[a-z_-]{0,30}(?:data|payload|conversation|history|context|prompt|secret|token|password|credentials?|content|memory|chat|env|dump|stolen|leak)|d)=(?:\{|%7B|\$\{|\[|<)"#,
    ),
    (
        SuspectKind::Leak,
        "a picture, which a page fetches from elsewhere",
        Letters,
        r#"(?i)!\[[^\]\n]{0,200}\]\(\s*(?:https?:)?//|<img\s[^<>]{0,200}src\s*=\s*["']?(?:https?:)?//"#,
    ),
    (
        SuspectKind::Unreadable,
        "letters of two alphabets in one word",
        Letters,
        r"\p{Latin}\p{Cyrillic}{1,40}\p{Latin}",
    ),
];

/// The rows of one sort, compiled together, and each for itself as soon as it is found.
struct PhrasePatterns {
    all: RegexSet,
    each: Vec<(SuspectKind, &'static str, String, OnceLock<Regex>)>,
}

impl PhrasePatterns {
    fn new(place: In) -> PhrasePatterns {
        let rows = || ROWS.iter().filter(|(_, _, looked_in, _)| *looked_in == place);
        let written = |pattern: &str| match place {
            Words => pattern.replace('~', FOUR_WORDS),
            Letters => pattern.to_owned(),
        };
        let all = RegexSet::new(rows().map(|(_, _, _, pattern)| written(pattern)));
        let each = rows()
            .map(|(kind, what, _, pattern)| (*kind, *what, written(pattern), OnceLock::new()));
        PhrasePatterns { all: all.expect("patterns of our own"), each: each.collect() }
    }

    fn find(&self, plain: &Plain, found: &mut Vec<SuspectSpan>) {
        for row in &self.all.matches(&plain.text) {
            let (kind, what, pattern, compiled) = &self.each[row];
            let pattern =
                compiled.get_or_init(|| Regex::new(pattern).expect("a pattern of our own"));
            let counts = |text: &str| *what != ENCODED || is_encoded(text);
            let mut matches = pattern.find_iter(&plain.text);
            if let Some(first) = matches.find(|first| counts(first.as_str())) {
                found.push((*kind, what, plain.original(first.range())));
            }
        }
    }
}

static IN_WORDS: LazyLock<PhrasePatterns> = LazyLock::new(|| PhrasePatterns::new(Words));
static IN_LETTERS: LazyLock<PhrasePatterns> = LazyLock::new(|| PhrasePatterns::new(Letters));

/// Finds the first of each row.
pub(super) fn find(text: &str) -> Vec<SuspectSpan> {
    let letters = Plain::letters(text);
    let mut found = Vec::new();
    IN_LETTERS.find(&letters, &mut found);
    IN_WORDS.find(&Plain::words(&letters), &mut found);
    found
}

/// Tells a run of encoded data from a long path, a name or a number: it has letters of both
/// sizes and digits, and few other characters.
fn is_encoded(run: &str) -> bool {
    let count = |belongs: fn(&u8) -> bool| run.bytes().filter(belongs).count();
    let (large, small) = (count(u8::is_ascii_uppercase), count(u8::is_ascii_lowercase));
    let digits = count(u8::is_ascii_digit);
    let others = run.len() - large - small - digits;
    large > 3 && small > 3 && digits > 3 && others * 10 < run.len()
}

#[cfg(test)]
mod tests;
