//! Results too large for a model's context: kept whole, shown as a preview, read in sections.
//!
//! The hard part is answers of many blocks, whose sum must fit. The largest blocks go first; if
//! even that is not enough, all texts of the answer are kept as one. Ids have a running number,
//! so that an old hint never leads to a newer result. What this module does not do: count pictures
//! and sounds, which models do not read as text, nor the addresses of resources; nor write to
//! disk. What is kept goes when the session ends.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;

use thiserror::Error;

use crate::result::{preview, stem};
use toolhost_core::limits::{Bytes, Limits};
use toolhost_core::text::{cut, one_line};
use toolhost_core::tool::{Content, ToolOutput};

/// The most characters that one [`Results::read`] returns: what one result may have by default.
pub const READ_CHARS_MAX: usize = 100_000;
/// Tools that bound their results themselves. To keep what was read from a kept result, or a
/// page of a file, would make the model read in circles.
const PINNED: [&str; 2] = ["read_file", "result_read"];
/// What a kept result takes in its place, at most: preview, id and words. A block that is not
/// longer than this is not replaced to save room.
const SHOWN_CHARS_MAX: usize = 2_200;
/// Stands between the texts of an answer that are kept as one.
const SEPARATOR: &str = "\n\n";
/// Characters of a wrong id that are repeated.
const ID_CHARS_MAX: usize = 160;

/// How much of a model's context results may take, in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// All texts of one result together.
    pub result_chars_max: usize,
    /// All results of one turn together.
    pub turn_chars_max: usize,
}

/// Returns how much room results have in a context of `context_tokens`, four characters to a
/// token: 15 % for one result, at least 8,000 characters, and 30 % for a turn, at least 16,000;
/// never more than the limits, which alone count if the context is not known.
pub fn window(context_tokens: Option<u64>, limits: &Limits) -> Window {
    let of_context = |percent: u64, least: u64| {
        let chars = |tokens: u64| (tokens.saturating_mul(4 * percent) / 100).max(least);
        context_tokens
            .map_or(usize::MAX, |tokens| usize::try_from(chars(tokens)).unwrap_or(usize::MAX))
    };
    Window {
        result_chars_max: of_context(15, 8_000).min(limits.result_chars_max.0),
        turn_chars_max: of_context(30, 16_000).min(limits.turn_chars_max.0),
    }
}

/// The results that a session keeps. When there is no room, the oldest make way.
#[derive(Debug)]
pub struct Results {
    /// What texts and ids may take together.
    bytes_max: usize,
    /// What they take now.
    bytes: usize,
    /// By running number, so that the oldest is the first.
    kept: BTreeMap<u64, KeptResult>,
    /// The last running number. It is never given twice, so that no id is.
    number: u64,
}

/// A result as it is kept.
#[derive(Debug)]
struct KeptResult {
    id: String,
    tool: String,
    text: String,
    chars: usize,
}

/// What one call returned.
#[derive(Debug)]
pub struct Returned<'a> {
    /// The tool that was called.
    pub tool: &'a str,
    /// The id of the call, if the front end gave one; else the tool's name stands for it.
    pub call_id: Option<&'a str>,
    /// `structured` stays, whatever is shown of the texts.
    pub keeps_structure: bool,
    /// The answer; what is too large is replaced in it.
    pub output: &'a mut ToolOutput,
}

/// A section of a kept result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    /// The tool that returned the result. What it says is no more to be trusted now than then.
    pub tool: String,
    /// The section.
    pub text: String,
    /// Characters of the whole result.
    pub total_chars: usize,
    /// Where the next section begins, if there is one.
    pub next_offset: Option<usize>,
}

/// Why a section cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ResultReadError {
    /// There is no such result in this session, or no longer.
    #[error("no result `{0}` is kept in this session; old results make way for new ones")]
    Unknown(String),
    /// The section would begin past the end.
    #[error("offset {offset} is past the end of `{id}`, which has {total_chars} characters")]
    PastEnd {
        /// The result.
        id: String,
        /// What was given.
        offset: usize,
        /// Characters of the whole result; the last offset is one less.
        total_chars: usize,
    },
}

impl Results {
    /// Keeps nothing yet. With a `bytes_max` of 0 it never will, and what is too large is cut.
    pub fn new(bytes_max: Bytes) -> Results {
        Results { bytes_max: bytes_max.as_usize(), bytes: 0, kept: BTreeMap::new(), number: 0 }
    }

    /// Makes one answer fit; [`Results::fit_all`] with a batch of one.
    pub fn fit(
        &mut self,
        returned: Returned<'_>,
        result_chars_max: usize,
        turn_chars_left: &mut usize,
    ) {
        self.fit_all(&mut [returned], result_chars_max, turn_chars_left);
    }

    /// Makes the answers of a batch fit, each alone and then all together, and takes what they
    /// have then from `turn_chars_left`.
    ///
    /// Texts, JSON and texts of resources are counted, in characters. An answer of exactly
    /// `result_chars_max` stays as it is. In a larger one the largest blocks are kept here and a
    /// text with a preview and an id takes their place (after the resource's address, if it was
    /// one); if there are too many small ones, all are kept as one, two line breaks between
    /// them. `structured`, unless it is to stay, is dropped if it is larger by itself; where it is all there is, it is
    /// kept and previewed like a block. What cannot be kept is cut.
    ///
    /// The bound of the turn is a soft one: only blocks of more than 2,200 characters are
    /// replaced for its sake, because of a smaller one little could be saved. `read_file` and
    /// `result_read` are counted, but never kept or cut, because they have bounds of their own.
    pub fn fit_all(
        &mut self,
        batch: &mut [Returned<'_>],
        result_chars_max: usize,
        turn_chars_left: &mut usize,
    ) {
        for returned in batch.iter_mut().filter(|returned| !is_pinned(returned.tool)) {
            self.fit_result(returned, result_chars_max);
        }
        self.fit_turn(batch, *turn_chars_left);
        let shown: usize = batch.iter().map(|returned| sizes(returned.output).sum::<usize>()).sum();
        *turn_chars_left = turn_chars_left.saturating_sub(shown);
    }

    /// Returns `limit` characters of a kept result from `offset` on, both in characters; at
    /// least 1 and at most [`READ_CHARS_MAX`]. The time is linear in the text before the end of
    /// the section.
    ///
    /// # Errors
    /// If no result has the id, or `offset` is not less than its characters.
    pub fn read(&self, id: &str, offset: usize, limit: usize) -> Result<Slice, ResultReadError> {
        let number = id.rsplit_once('-').and_then(|(_, number)| number.parse().ok());
        let kept = number.and_then(|number: u64| self.kept.get(&number));
        let Some(kept) = kept.filter(|kept| kept.id == id) else {
            return Err(ResultReadError::Unknown(one_line(&cut(id, ID_CHARS_MAX))));
        };
        let KeptResult { text, chars, tool, .. } = kept;
        let mut places = text.char_indices().map(|(at, _)| at);
        let Some(start) = places.nth(offset) else {
            let (id, total_chars) = (id.to_owned(), *chars);
            return Err(ResultReadError::PastEnd { id, offset, total_chars });
        };
        let limit = limit.clamp(1, READ_CHARS_MAX);
        let end = places.nth(limit - 1);
        Ok(Slice {
            tool: tool.clone(),
            text: text[start..end.unwrap_or(text.len())].to_owned(),
            total_chars: *chars,
            next_offset: end.map(|_| offset + limit),
        })
    }

    fn fit_result(&mut self, returned: &mut Returned<'_>, chars_max: usize) {
        let keeps_structure = returned.keeps_structure;
        let output = &mut *returned.output;
        if !keeps_structure
            && output.structured.as_ref().is_some_and(|json| json.chars().count() > chars_max)
        {
            let structured = output.structured.take().filter(|_| output.content.is_empty());
            output.content.extend(structured.map(Content::Json));
        }
        let blocks: Vec<(usize, usize)> = sizes(output).enumerate().collect();
        match largest(blocks, chars_max) {
            (chosen, true) => self.replace(returned, &chosen.into_iter().collect()),
            (_, false) => self.replace_all(returned),
        }
    }

    fn fit_turn(&mut self, batch: &mut [Returned<'_>], chars_left: usize) {
        let mut pinned_chars = 0;
        let mut blocks = Vec::new();
        for (at, returned) in batch.iter().enumerate() {
            let sizes = sizes(returned.output);
            if is_pinned(returned.tool) {
                pinned_chars += sizes.sum::<usize>();
            } else {
                blocks.extend(sizes.enumerate().map(|(block, chars)| ((at, block), chars)));
            }
        }
        let (chosen, _) = largest(blocks, chars_left.saturating_sub(pinned_chars));
        let mut of_answer: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
        for (at, block) in chosen {
            of_answer.entry(at).or_default().insert(block);
        }
        for (at, chosen) in of_answer {
            self.replace(&mut batch[at], &chosen);
        }
    }

    /// Keeps the chosen blocks of an answer, each by itself.
    fn replace(&mut self, returned: &mut Returned<'_>, chosen: &BTreeSet<usize>) {
        if chosen.is_empty() {
            return;
        }
        returned.drop_structure();
        let blocks = mem::take(&mut returned.output.content);
        let mut shown = Vec::with_capacity(blocks.len() + 1);
        for (at, block) in blocks.into_iter().enumerate() {
            if !chosen.contains(&at) {
                shown.push(block);
                continue;
            }
            let (rest, text) = divided(block);
            shown.extend(rest);
            shown.extend(text.map(|text| Content::Text(self.keep(returned, text))));
        }
        returned.output.content = shown;
    }

    /// Keeps all texts of an answer as one, in the place of the first.
    fn replace_all(&mut self, returned: &mut Returned<'_>) {
        returned.drop_structure();
        let (mut shown, mut whole, mut place) = (Vec::new(), String::new(), None);
        for block in mem::take(&mut returned.output.content) {
            let (rest, text) = divided(block);
            shown.extend(rest);
            if let Some(text) = text {
                match place {
                    None => place = Some(shown.len()),
                    Some(_) => whole.push_str(SEPARATOR),
                }
                whole.push_str(&text);
            }
        }
        if let Some(place) = place {
            shown.insert(place, Content::Text(self.keep(returned, whole)));
        }
        returned.output.content = shown;
    }

    /// Keeps a text if there is room, and returns what is shown in its place.
    fn keep(&mut self, returned: &Returned<'_>, text: String) -> String {
        let (number, chars) = (self.number + 1, text.chars().count());
        let id = format!("{}-{number}", stem(returned.call_id.unwrap_or(returned.tool)));
        let bytes = text.len() + id.len();
        if bytes > self.bytes_max {
            return format!(
                "{}\n\n[Truncated: tool response was {} chars. Full output could not be saved to \
                 sandbox.]",
                preview(&text),
                thousands(chars)
            );
        }
        while self.bytes + bytes > self.bytes_max
            && let Some((_, oldest)) = self.kept.pop_first()
        {
            self.bytes -= oldest.text.len() + oldest.id.len();
        }
        let shown = persisted(&text, chars, &id);
        (self.number, self.bytes) = (number, self.bytes + bytes);
        self.kept.insert(number, KeptResult { id, tool: returned.tool.to_owned(), text, chars });
        shown
    }
}

impl Returned<'_> {
    /// It says the same again as the texts, and would be shown whole.
    fn drop_structure(&mut self) {
        if !self.keeps_structure {
            self.output.structured = None;
        }
    }
}

/// Says structured output as a text too, unless one says it.
pub(super) fn say_structure(mut output: ToolOutput) -> ToolOutput {
    let Some(structured) = &output.structured else { return output };
    let says_so = |block: &Content| matches!(block, Content::Json(text) | Content::Text(text) if text == structured);
    if !output.content.iter().any(says_so) {
        output.content.push(Content::Json(structured.clone()));
    }
    output
}

fn is_pinned(tool: &str) -> bool {
    PINNED.contains(&tool)
}

/// The text of a block that is counted and kept.
fn text(block: &Content) -> Option<&str> {
    match block {
        Content::Text(text) | Content::Json(text) => Some(text),
        Content::Resource { text, .. } => text.as_deref(),
        Content::Image { .. } | Content::Audio { .. } => None,
    }
}

/// Divides a block into what stays and its text.
fn divided(block: Content) -> (Option<Content>, Option<String>) {
    match block {
        Content::Text(text) | Content::Json(text) => (None, Some(text)),
        Content::Resource { uri, media_type, text } => {
            (Some(Content::Resource { uri, media_type, text: None }), text)
        }
        picture => (Some(picture), None),
    }
}

/// Characters of the text of each block.
fn sizes(output: &ToolOutput) -> impl Iterator<Item = usize> {
    output.content.iter().map(|block| text(block).map_or(0, |text| text.chars().count()))
}

/// Chooses which blocks to replace, the largest first, until the sum is at most `chars_max`, and
/// tells whether it is then. Of equal blocks the first is chosen first.
fn largest<P>(mut blocks: Vec<(P, usize)>, chars_max: usize) -> (Vec<P>, bool) {
    let mut sum: usize = blocks.iter().map(|(_, chars)| chars).sum();
    blocks.sort_by_key(|(_, chars)| std::cmp::Reverse(*chars));
    let mut chosen = Vec::new();
    for (place, chars) in blocks {
        if sum <= chars_max || chars <= SHOWN_CHARS_MAX {
            break;
        }
        sum -= chars - SHOWN_CHARS_MAX;
        chosen.push(place);
    }
    (chosen, sum <= chars_max)
}

/// What is shown in the place of a kept text.
fn persisted(text: &str, chars: usize, id: &str) -> String {
    let preview = preview(text);
    let mut shown = format!(
        "<persisted-output>\n\
         This tool result was too large ({} characters, {}).\n\
         Full output saved to: {id}\n\
         Use result_read with id \"{id}\", offset and limit to read sections of it; offsets count \
         characters and begin at 0.\n\n\
         Preview (first {} chars):\n\
         {preview}",
        thousands(chars),
        size(text.len()),
        preview.chars().count()
    );
    if preview.len() < text.len() {
        shown.push_str("\n...");
    }
    shown.push_str("\n</persisted-output>");
    shown
}

fn thousands(number: usize) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// A number of bytes in KB, or in MB from 1,024 KB on.
fn size(bytes: usize) -> String {
    let kilobytes = bytes as f64 / 1_024.0;
    if kilobytes < 1_024.0 {
        format!("{kilobytes:.1} KB")
    } else {
        format!("{:.1} MB", kilobytes / 1_024.0)
    }
}

#[cfg(test)]
mod tests;
