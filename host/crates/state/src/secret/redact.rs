//! Takes the values of secrets out of text, bytes and streams.
//!
//! Caught are the value itself, its `forms`, and these seen through `views`: any mixture of
//! escapes (JSON, percent, HTML), also escaped twice; hexadecimal and decimal numbers, whatever
//! stands between them; base64, whatever stands before it and however it is broken into lines.
//! What overlaps goes together: where occurrences touch the same bytes, all of these bytes make
//! way for one replacement, so that nothing of a value is left at its edge.
//!
//! Not caught is what is not contiguous or not a known form: a value that a server compresses,
//! encrypts, hashes, reverses or writes in another character set or case; one encoded in two
//! ways, such as base64 of hexadecimal; one cut off by the end of the text; and one of which every
//! result has only a part. Up to four bits of a value's first and last byte may stand in base64
//! characters that they share with their neighbours. So a secret is for hosts that one trusts to
//! keep it.

mod look;

use std::borrow::Cow;
use std::cmp::Reverse;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use zeroize::Zeroizing;

use super::search::{KEY_BYTES, Search};
use super::views::{Classes, Grams, Kinds, Numbers, Pairs, ViewText};
use super::{SecretValue, check_name, forms};
use look::{Hit, Look};

/// How the usual replacement begins; the name and `]` follow.
const BEGINNING: &str = "[REDACTED:";
/// Stands in place of a value where the usual replacement could itself complete a value, such as
/// one that ends with `[`. No value has this character, so it completes none.
const NAMELESS: &str = "\u{fffd}\u{fffd}\u{fffd}";
/// Bytes that are looked at in one go.
const BLOCK_BYTES: usize = 64 << 10;
/// When more than this is held back, it is looked at again only once it has grown by a part.
const HELD_BYTES: usize = 4 << 10;

/// Replaces the values of secrets by `[REDACTED:NAME]`. Cheap to clone.
///
/// If a value could arise from the replacement and what stands beside it, the replacement is
/// three U+FFFD. Neither has quotes or backslashes, so text in a JSON string stays one.
#[derive(Clone)]
pub struct Redactor {
    patterns: Option<Arc<SecretForms>>,
}

/// The forms of all secrets.
struct SecretForms {
    search: Search,
    /// By their first bytes, the longest first among those with the same.
    forms: Vec<Form>,
    /// What stands in place of each secret.
    replacements: Vec<String>,
    /// The length of the longest form.
    reach: usize,
    numbers: Numbers,
    pairs: Pairs,
    base64: Classes,
    grams: Grams,
    /// The same for texts whose case does not count, once they are asked for.
    folded: OnceLock<Box<SecretForms>>,
    /// Whether these are for such texts: what is decoded from one counts in lower case.
    folds: bool,
}

/// What a form is, for the views that it may stand in.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum FormKind {
    Plain,
    Digits,
    UpperDigits,
    Base64,
}

struct Form {
    /// The first bytes, as a number that sorts as they do.
    key: u64,
    bytes: Zeroizing<Vec<u8>>,
    /// The index of its secret.
    secret: usize,
    kind: FormKind,
}

impl Form {
    fn new(bytes: Zeroizing<Vec<u8>>, secret: usize, kind: FormKind) -> Form {
        Form { key: key(&bytes), bytes, secret, kind }
    }
}

impl Redactor {
    /// Makes a redactor for secrets, each with its name. Of equal values the first name counts.
    ///
    /// It keeps copies of the values in memory. They are zeroed when the last clone is dropped,
    /// but for the first eight bytes of each form.
    pub fn new(secrets: &[(&str, &SecretValue)]) -> Redactor {
        let mut found = Vec::new();
        for (secret, (_, value)) in secrets.iter().enumerate() {
            let value = value.expose();
            let mut add = |bytes, kind| found.push(Form::new(bytes, secret, kind));
            forms::plain(value).into_iter().for_each(|form| add(form, FormKind::Plain));
            add(forms::hexadecimal(value), FormKind::Digits);
            add(forms::upper_hexadecimal(value), FormKind::UpperDigits);
            forms::base64(value).into_iter().for_each(|form| add(form, FormKind::Base64));
        }
        if found.is_empty() {
            return Redactor { patterns: None };
        }
        let named = |name: &str| {
            // A name that is none could have quotes.
            let name = if check_name(name).is_ok() { name } else { "SECRET" };
            format!("{BEGINNING}{name}]")
        };
        let mut replacements: Vec<String> = secrets.iter().map(|(name, _)| named(name)).collect();
        let completes =
            |form: &Form| replacements.iter().any(|text| may_complete(text, &form.bytes));
        if found.iter().any(completes) {
            replacements.fill(NAMELESS.to_owned());
        }
        Redactor { patterns: Some(Arc::new(SecretForms::new(found, replacements, false))) }
    }

    /// Tells whether there are no secrets, so that nothing is ever replaced.
    pub fn is_empty(&self) -> bool {
        self.patterns.is_none()
    }

    /// Replaces every value in a text; without one the text is not copied.
    ///
    /// In JSON text a value may begin within an escape or span two strings, and replacing it then
    /// breaks the JSON. Where that matters, redact the strings of the JSON value instead.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.bytes(text.as_bytes()) {
            Cow::Borrowed(_) => Cow::Borrowed(text),
            // All forms are whole characters, so nothing is lost here.
            Cow::Owned(bytes) => Cow::Owned(match String::from_utf8(bytes) {
                Ok(text) => text,
                Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
            }),
        }
    }

    /// The same for a short text whose case has changed, or may have: the name of a host, say.
    pub fn text_of_any_case<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let exact = self.text(text);
        let Some(patterns) = &self.patterns else { return exact };
        let runs = patterns.folded().runs(exact.to_ascii_lowercase().as_bytes());
        if runs.is_empty() {
            return exact;
        }
        let mut bytes = exact.into_owned().into_bytes();
        for (run, secret) in runs.into_iter().rev() {
            bytes.splice(run, patterns.replacements[secret].bytes());
        }
        Cow::Owned(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Replaces every value in bytes of any kind; without one they are not copied.
    pub fn bytes<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        let pass =
            self.patterns.as_ref().and_then(|patterns| patterns.pass(bytes, 0, true).replaced);
        pass.map_or(Cow::Borrowed(bytes), Cow::Owned)
    }

    /// Takes every value out of texts that a reader may put together: of each alone, and of one
    /// and the next, also with a comma between them.
    pub fn parts(&self, parts: &mut [Vec<u8>]) {
        let Some(patterns) = &self.patterns else { return };
        for between in [&b""[..], b", ", b","] {
            let joined = parts.join(between);
            // From the end, so that what is before stays where it is.
            for (run, secret) in patterns.runs(&joined).into_iter().rev() {
                let mut replacement = Some(patterns.replacements[secret].as_bytes());
                let mut start = 0;
                for part in &mut *parts {
                    let end = start + part.len();
                    let cut = run.start.max(start)..run.end.min(end);
                    let next = end + between.len();
                    if cut.start < cut.end {
                        let replacement = replacement.take().unwrap_or_default();
                        part.splice(
                            cut.start - start..cut.end - start,
                            replacement.iter().copied(),
                        );
                    }
                    start = next;
                }
            }
        }
    }

    /// Tells which of some names have a value in them, alone or with the next. Names have no case,
    /// so that of the values does not count.
    pub fn in_names(&self, names: &[&str]) -> Vec<bool> {
        let mut found = vec![false; names.len()];
        for run in self.folded_runs(&names.concat()) {
            let mut start = 0;
            for (name, found) in names.iter().zip(&mut found) {
                let end = start + name.len();
                *found |= run.start < end && start < run.end;
                start = end;
            }
        }
        found
    }

    /// Tells which of these texts, names of fields and their values by turns, have a part of a secret that
    /// spans several, as whoever reads or joins the lines sees them. Case does not count.
    pub fn spanned(&self, texts: &[&str]) -> Vec<bool> {
        const BETWEEN: [[&str; 2]; 5] = [["", ""], [":", ""], [":", ":"], [": ", ""], [": ", ": "]];
        let mut spanned = vec![false; texts.len()];
        for between in BETWEEN {
            let (mut joined, mut places) = (String::new(), Vec::new());
            for (text, between) in texts.iter().zip(between.into_iter().cycle()) {
                places.push(joined.len()..joined.len() + text.len());
                joined.extend([*text, between]);
            }
            for run in self.folded_runs(&joined) {
                let is_touched =
                    |place: &Range<usize>| run.start < place.end && place.start < run.end;
                let first = places.partition_point(|place| place.end <= run.start);
                let touched = places[first..].iter().take_while(|place| is_touched(place)).count();
                if touched > 1 {
                    spanned[first..first + touched].fill(true);
                }
            }
        }
        spanned
    }

    /// Where values stand in a text whose case does not count.
    fn folded_runs(&self, text: &str) -> Vec<Range<usize>> {
        let Some(patterns) = &self.patterns else { return Vec::new() };
        let runs = patterns.folded().runs(text.to_ascii_lowercase().as_bytes());
        runs.into_iter().map(|(run, _)| run).collect()
    }

    /// Starts to replace the values in bytes that come in chunks.
    pub fn stream(&self) -> RedactStream {
        RedactStream { patterns: self.patterns.clone(), held: Vec::new(), covered: 0, looked_at: 0 }
    }
}

impl fmt::Debug for Redactor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let secrets = self.patterns.as_ref().map_or(0, |patterns| patterns.replacements.len());
        write!(formatter, "Redactor of {secrets} secrets")
    }
}

/// Replaces the values in bytes that come in chunks, as if they had come at once.
///
/// It holds back no more than the end of what came that may be the beginning of a value, which is
/// less than the longest form of a value.
pub struct RedactStream {
    patterns: Option<Arc<SecretForms>>,
    /// What is held back.
    held: Vec<u8>,
    /// How many bytes at the beginning of `held` have made way for a replacement already.
    covered: usize,
    /// How many bytes of `held` were looked at.
    looked_at: usize,
}

impl RedactStream {
    /// Takes the next chunk and returns what is decided. A chunk without a value is not copied,
    /// unless the one before ended with what may have begun one.
    #[must_use]
    pub fn push(&mut self, chunk: Bytes) -> Bytes {
        let Some(patterns) = &self.patterns else { return chunk };
        let mut data = chunk;
        if !self.held.is_empty() {
            self.held.extend_from_slice(&data);
            // Whoever sends single bytes of what may be a long value has them looked at less often.
            let looked_at = self.looked_at;
            if looked_at > HELD_BYTES && self.held.len() < looked_at + looked_at / 4 {
                return Bytes::new();
            }
            data = Bytes::from(std::mem::take(&mut self.held));
        }
        let pass = patterns.pass(&data, self.covered, false);
        self.held.extend_from_slice(&data[pass.decided..]);
        self.covered = pass.covered;
        self.looked_at = self.held.len();
        match pass.replaced {
            Some(bytes) => Bytes::from(bytes),
            None => {
                data.truncate(pass.decided);
                data
            }
        }
    }

    /// Returns what was held back, at the end of the stream: it did not become a value.
    #[must_use]
    pub fn finish(self) -> Bytes {
        match &self.patterns {
            None => Bytes::new(),
            Some(patterns) => match patterns.pass(&self.held, self.covered, true).replaced {
                Some(bytes) => Bytes::from(bytes),
                None => Bytes::from(self.held),
            },
        }
    }
}

impl fmt::Debug for RedactStream {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "RedactStream holding {} bytes", self.held.len())
    }
}

/// What one look at some bytes decided.
struct Pass {
    /// What stands in place of the decided bytes, if that differs from them.
    replaced: Option<Vec<u8>>,
    /// How many bytes are decided. What follows may be the beginning of a value.
    decided: usize,
    /// How many of the following bytes have made way for a replacement already.
    covered: usize,
}

impl SecretForms {
    fn new(mut forms: Vec<Form>, replacements: Vec<String>, folds: bool) -> SecretForms {
        forms.sort_by(|left, right| {
            let bytes = || {
                right
                    .bytes
                    .len()
                    .cmp(&left.bytes.len())
                    .then(left.bytes.as_slice().cmp(&right.bytes))
            };
            left.key
                .cmp(&right.key)
                .then_with(bytes)
                .then((left.kind, left.secret).cmp(&(right.kind, right.secret)))
        });
        forms.dedup_by(|left, right| left.bytes == right.bytes && left.kind == right.kind);
        let all: Vec<&[u8]> = forms.iter().map(|form| form.bytes.as_slice()).collect();
        let of = |kind: FormKind| {
            let forms = forms.iter().filter(move |form| form.kind == kind);
            forms.map(|form| form.bytes.as_slice())
        };
        SecretForms {
            search: Search::new(&all),
            reach: all.iter().map(|form| form.len()).max().unwrap_or_default(),
            numbers: Numbers::new(of(FormKind::Plain), of(FormKind::Digits), folds),
            pairs: Pairs::new(all.iter().copied()),
            base64: Classes::base64(),
            grams: Grams::new(of(FormKind::Base64)),
            folded: OnceLock::new(),
            folds,
            replacements,
            forms,
        }
    }

    /// The same for texts of lower case: of each value, and of each in lower case.
    fn folded(&self) -> &SecretForms {
        self.folded.get_or_init(|| {
            let mut forms = Vec::new();
            for form in &self.forms {
                let mut add = |bytes: &[u8], kind| {
                    let bytes = Zeroizing::new(bytes.to_ascii_lowercase());
                    forms.push(Form::new(bytes, form.secret, kind));
                };
                add(&form.bytes, form.kind);
                let lower = Zeroizing::new(form.bytes.to_ascii_lowercase());
                if let (FormKind::Plain, Ok(lower)) = (form.kind, str::from_utf8(&lower)) {
                    add(&forms::hexadecimal(lower), FormKind::Digits);
                    forms::base64(lower).iter().for_each(|form| add(form, FormKind::Base64));
                }
            }
            Box::new(SecretForms::new(forms, self.replacements.clone(), true))
        })
    }

    /// Looks at some bytes in every way: occurrences in their order, and how many bytes are
    /// decided.
    fn look(&self, data: &[u8], is_last: bool) -> (Vec<Hit>, usize) {
        let mut look = Look::new(self, data.len());
        look.look(ViewText { bytes: data, origins: None }, Kinds::ALL, 0, is_last);
        let decided = if is_last { data.len() } else { look.decided() };
        let mut hits = look.hits;
        hits.retain(|hit| hit.start < decided);
        hits.sort_by_key(|hit| (hit.start, Reverse(hit.end), hit.secret));
        (hits, decided)
    }

    /// The runs of overlapping occurrences in whole bytes, each with the secret that begins it.
    fn runs(&self, data: &[u8]) -> Vec<(Range<usize>, usize)> {
        let mut runs: Vec<(Range<usize>, usize)> = Vec::new();
        for Hit { start, end, secret } in self.look(data, true).0 {
            match runs.last_mut() {
                Some((run, _)) if start < run.end => run.end = run.end.max(end),
                _ => runs.push((start..end, secret)),
            }
        }
        runs
    }

    /// Looks at bytes of which `covered` at the beginning have made way already. With `last`
    /// nothing follows, and all is decided.
    fn pass(&self, data: &[u8], covered: usize, last: bool) -> Pass {
        let mut replaced = Vec::new();
        let mut any = covered > 0;
        // Everything before has been replaced.
        let mut hidden = covered;
        let (mut decided, mut block) = (0, BLOCK_BYTES);
        loop {
            let end = data.len().min(decided + block);
            let (hits, more) = self.look(&data[decided..end], last && end == data.len());
            for hit in hits {
                let start = decided + hit.start;
                if start >= hidden {
                    replaced.extend_from_slice(&data[hidden..start]);
                    replaced.extend_from_slice(self.replacements[hit.secret].as_bytes());
                    any = true;
                }
                hidden = hidden.max(decided + hit.end);
            }
            decided += more;
            if end == data.len() {
                break;
            }
            block = if more == 0 { 2 * block } else { BLOCK_BYTES };
        }
        if any && hidden < decided {
            replaced.extend_from_slice(&data[hidden..decided]);
        }
        Pass { replaced: any.then_some(replaced), decided, covered: hidden.saturating_sub(decided) }
    }

    /// What begins with these bytes, at least a key long.
    fn at(&self, data: &[u8]) -> FoundForm {
        let key = key(data);
        let first = self.forms.partition_point(|form| form.key < key);
        let mut found = FoundForm { longest: None, unfinished: false };
        for form in self.forms[first..].iter().take_while(|form| form.key == key) {
            if data.starts_with(&form.bytes) {
                found.longest = Some((form.bytes.len(), form.secret));
                break;
            }
            found.unfinished |= form.bytes.len() > data.len() && form.bytes.starts_with(data);
        }
        found
    }

    /// Where, among the last bytes that are too few for the search, a form may begin.
    fn beginning(&self, data: &[u8]) -> usize {
        let Range { start, end } = data.len().saturating_sub(self.search.width() - 1)..data.len();
        let begins = |start: &usize| {
            let rest = &data[*start..];
            if rest.len() >= KEY_BYTES {
                return self.at(rest).unfinished;
            }
            let mut padded = [0; KEY_BYTES];
            padded[..rest.len()].copy_from_slice(rest);
            let least = u64::from_be_bytes(padded);
            let form = self.forms.partition_point(|form| form.key < least);
            self.forms.get(form).is_some_and(|form| form.bytes.starts_with(rest))
        };
        (start..end).find(begins).unwrap_or(end)
    }
}

/// What begins at some place.
struct FoundForm {
    /// The longest form that is whole: its length and its secret.
    longest: Option<(usize, usize)>,
    /// A longer form may come to stand there when more bytes come.
    unfinished: bool,
}

/// The first bytes of a form, or of as many bytes at least, as a number that sorts as they do.
fn key(bytes: &[u8]) -> u64 {
    let first = bytes.first_chunk::<KEY_BYTES>().expect("no form is shorter than a value may be");
    u64::from_be_bytes(*first)
}

/// Tells whether a replacement, with something beside it or not, may have `form` in it.
fn may_complete(replacement: &str, form: &[u8]) -> bool {
    let replacement = replacement.as_bytes();
    let contains = |text: &[u8], part: &[u8]| text.windows(part.len()).any(|window| window == part);
    let straddles = |length| {
        let (beginning, end) = (&replacement[..length], &replacement[replacement.len() - length..]);
        form.ends_with(beginning) || form.starts_with(end)
    };
    // What straddles an end of the replacement, or has all of it, has one of its brackets.
    contains(replacement, form)
        || form.iter().any(|byte| b"[]".contains(byte))
            && (contains(form, BEGINNING.as_bytes())
                || (1..replacement.len().min(form.len())).any(straddles))
}

#[cfg(test)]
mod tests;
