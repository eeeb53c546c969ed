//! Ways to look at bytes in which a value may stand otherwise than it is: with escapes resolved,
//! as the hexadecimal or decimal numbers alone, as base64 without its line breaks, without the
//! zeros of UTF-16. A view knows of
//! each of its bytes where it came from, so what is found in it can be taken out of the bytes.
//!
//! Most bytes hold nothing of the kind, so each view is made only of the places where there is
//! some sign of it.

mod numbers;

use std::ops::Range;

use super::escape::{self, Step};

pub(super) use numbers::Numbers;

/// How often escapes are resolved: what was escaped twice is found.
pub(super) const LEVELS_MAX: usize = 2;
/// Bytes that may stand between two numbers, or two parts of base64.
pub(super) const GAP_BYTES_MAX: usize = 16;
/// Stands in a view where a gap is longer. No form has it.
const BREAK: u8 = 0xff;
/// Characters of base64 that tell whether a line may go on in the next.
const GRAM: usize = 4;
/// The set of grams has two to this many bits.
const GRAM_BITS: u32 = 18;

/// Where some byte of a view came from: its beginning and its end in the bytes themselves.
pub(super) type ByteOrigins = (u32, u32);

/// Bytes seen in another way.
#[derive(Default)]
pub(super) struct DecodedView {
    pub(super) bytes: Vec<u8>,
    pub(super) origins: Vec<ByteOrigins>,
    /// What it was made of, in the bytes that were looked at.
    pub(super) of: Range<usize>,
    /// Where what came last may be part of a longer escape, there.
    pub(super) unfinished: Option<usize>,
}

/// Kinds of escapes, by their first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kinds([bool; escape::FIRST.len()]);

impl Kinds {
    /// Every kind.
    pub(super) const ALL: Kinds = Kinds([true; escape::FIRST.len()]);

    fn of(byte: u8) -> Kinds {
        Kinds(escape::FIRST.map(|first| first == byte))
    }

    /// Each kind alone, if there are several.
    pub(super) fn single(self) -> impl Iterator<Item = Kinds> {
        let several = self.0.iter().filter(|has| **has).count() > 1;
        let kinds = escape::FIRST.into_iter().zip(self.0);
        kinds.filter(move |(_, has)| several && *has).map(|(first, _)| Kinds::of(first))
    }

    fn has(self, byte: u8) -> bool {
        escape::FIRST.into_iter().zip(self.0).any(|(first, has)| has && first == byte)
    }

    /// Of these kinds, those of which there may be an escape.
    pub(super) fn present(self, bytes: &[u8]) -> Kinds {
        let mut kinds = self;
        for (first, has) in escape::FIRST.into_iter().zip(&mut kinds.0) {
            *has = *has && memchr::memchr(first, bytes).is_some();
        }
        kinds
    }

    /// Where an escape of these kinds begins; without `is_last`, also where one may.
    fn places(self, bytes: &[u8], is_last: bool) -> impl Iterator<Item = usize> {
        let [first, second, third] = escape::FIRST;
        let firsts: Box<dyn Iterator<Item = usize> + '_> = match self.0 {
            [true, false, false] => Box::new(memchr::memchr_iter(first, bytes)),
            [false, true, false] => Box::new(memchr::memchr_iter(second, bytes)),
            [false, false, true] => Box::new(memchr::memchr_iter(third, bytes)),
            _ => Box::new(memchr::memchr3_iter(first, second, third, bytes)),
        };
        firsts.filter(move |place| match escape::step_to_end(&bytes[*place..], is_last) {
            Step::Plain => false,
            Step::Unfinished => !is_last,
            Step::Escape { .. } => true,
        })
    }
}

/// The bytes that are looked at; within a view, those of the view.
#[derive(Clone, Copy)]
pub(super) struct ViewText<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) origins: Option<&'a [ByteOrigins]>,
}

impl ViewText<'_> {
    /// Where some of these bytes came from.
    pub(super) fn origin(&self, range: &Range<usize>) -> ByteOrigins {
        let whole = |place: usize| u32::try_from(place).unwrap_or(u32::MAX);
        match self.origins {
            None => (whole(range.start), whole(range.end)),
            Some(origins) => {
                let start = origins.get(range.start).map_or(u32::MAX, |origin| origin.0);
                let end = range.end.checked_sub(1).and_then(|last| origins.get(last));
                (start, end.map_or(start, |origin| origin.1))
            }
        }
    }
}

impl DecodedView {
    fn push(&mut self, text: ViewText<'_>, byte: u8, from: Range<usize>) {
        self.bytes.push(byte);
        self.origins.push(text.origin(&from));
    }

    /// The view as something to look at.
    pub(super) fn text(&self) -> ViewText<'_> {
        ViewText { bytes: &self.bytes, origins: Some(&self.origins) }
    }
}

/// Bytes with their escapes resolved, once.
pub(super) fn unescaped(bytes: &[u8]) -> Vec<u8> {
    let mut view = DecodedView::default();
    resolve(ViewText { bytes, origins: None }, 0..bytes.len(), Kinds::ALL, true, &mut view);
    view.bytes
}

/// The parts of a text with escapes, and `reach` bytes to either side, with the escapes resolved.
/// Without `is_last`, more bytes may follow.
pub(super) fn without_escapes(
    text: ViewText<'_>,
    kinds: Kinds,
    reach: usize,
    is_last: bool,
) -> Vec<DecodedView> {
    let mut parts = Vec::new();
    for place in kinds.places(text.bytes, is_last) {
        add_around(&mut parts, place..place + escape::LENGTH_MAX, reach, text.bytes.len());
    }
    let resolved = |part: Range<usize>| {
        let mut view = DecodedView::default();
        resolve(text, part, kinds, is_last, &mut view);
        view
    };
    parts.into_iter().map(resolved).collect()
}

/// Adds a place and `reach` bytes to either side to parts that stand before, or to the last of them.
fn add_around(parts: &mut Vec<Range<usize>>, place: Range<usize>, reach: usize, length: usize) {
    let (start, end) = (place.start.saturating_sub(reach), (place.end + reach).min(length));
    match parts.last_mut() {
        Some(part) if start <= part.end => part.end = end,
        _ => parts.push(start..end),
    }
}

fn resolve(
    text: ViewText<'_>,
    part: Range<usize>,
    kinds: Kinds,
    is_last: bool,
    view: &mut DecodedView,
) {
    view.of = part.clone();
    let mut at = part.start;
    while at < part.end {
        let byte = text.bytes[at];
        let step = match kinds.has(byte) {
            true => escape::step_to_end(&text.bytes[at..], is_last),
            false => Step::Plain,
        };
        match step {
            Step::Escape { length, bytes, count } => {
                for byte in &bytes[..count] {
                    view.push(text, *byte, at..at + length);
                }
                at += length;
            }
            Step::Unfinished if !is_last => {
                view.unfinished = Some(at);
                return;
            }
            Step::Plain | Step::Unfinished => {
                view.push(text, byte, at..at + 1);
                at += 1;
            }
        }
    }
}

/// What a byte is to a kind of numbers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ByteClass {
    Other,
    Digit,
    Gap,
}

/// A table of what each byte is.
pub(super) struct Classes([ByteClass; 256]);

impl Classes {
    /// Digits of hexadecimal numbers, and what may stand between two.
    pub(super) fn hexadecimal() -> Classes {
        Classes::new(|byte| byte.is_ascii_hexdigit(), b" \t\r\n:;-_.,|/\\xX%\"'+[]()")
    }

    /// Digits of decimal numbers, and what may stand between two numbers.
    pub(super) fn decimal() -> Classes {
        Classes::new(|byte| byte.is_ascii_digit(), b" \t\r\n:;-_.,|/")
    }

    /// Characters of base64, and what may stand where it is broken into lines.
    pub(super) fn base64() -> Classes {
        Classes::new(|byte| byte.is_ascii_alphanumeric() || b"+/-_".contains(&byte), b" \t\r\n\\")
    }

    fn new(is_digit: impl Fn(u8) -> bool, gaps: &[u8]) -> Classes {
        let mut classes = [ByteClass::Other; 256];
        for (byte, class) in (0..=u8::MAX).zip(&mut classes) {
            if is_digit(byte) {
                *class = ByteClass::Digit;
            } else if gaps.contains(&byte) {
                *class = ByteClass::Gap;
            }
        }
        Classes(classes)
    }

    fn of(&self, byte: u8) -> ByteClass {
        self.0[usize::from(byte)]
    }

    fn belongs(&self, byte: u8) -> bool {
        self.of(byte) != ByteClass::Other
    }
}

/// Which two bytes stand side by side in some forms.
pub(super) struct Pairs(Vec<u64>);

impl Pairs {
    pub(super) fn new<'a>(forms: impl Iterator<Item = &'a [u8]>) -> Pairs {
        let mut bits = vec![0; 1 << 10];
        for pair in forms.flat_map(|form| form.windows(2)) {
            let number = usize::from(pair[0]) << 8 | usize::from(pair[1]);
            bits[number >> 6] |= 1 << (number & 63);
        }
        Pairs(bits)
    }

    fn has(&self, first: u8, second: u8) -> bool {
        let number = usize::from(first) << 8 | usize::from(second);
        self.0[number >> 6] >> (number & 63) & 1 == 1
    }
}

/// The parts of a text that may be UTF-16, with the characters of ASCII alone: where zeros stand
/// between two bytes of some form, and `reach` bytes to either side.
pub(super) fn without_nulls(
    text: ViewText<'_>,
    pairs: &Pairs,
    reach: usize,
    is_last: bool,
) -> Vec<DecodedView> {
    let (bytes, mut at) = (text.bytes, 0);
    let mut parts = Vec::new();
    while let Some(found) = memchr::memchr(0, &bytes[at..]) {
        let start = at + found;
        let more = bytes[start..].iter().position(|byte| *byte != 0);
        at = more.map_or(bytes.len(), |more| start + more);
        let before = start.checked_sub(1).and_then(|before| bytes.get(before));
        let counts = match (before, bytes.get(at)) {
            (Some(before), Some(after)) => pairs.has(*before, *after),
            (Some(_), None) => !is_last,
            (None, _) => false,
        };
        if counts {
            add_around(&mut parts, start..at, reach, bytes.len());
        }
    }
    let without = |part: Range<usize>| {
        let mut view = DecodedView { of: part.clone(), ..DecodedView::default() };
        for place in part.filter(|place| bytes[*place] != 0) {
            view.push(text, bytes[place], place..place + 1);
        }
        view
    };
    parts.into_iter().map(without).collect()
}

/// Which characters stand side by side in some forms of base64.
pub(super) struct Grams {
    bits: Vec<u64>,
}

impl Grams {
    pub(super) fn new<'a>(forms: impl Iterator<Item = &'a [u8]>) -> Grams {
        let mut bits = vec![0; 1 << (GRAM_BITS - 6)];
        for gram in forms.flat_map(|form| form.windows(GRAM)) {
            let number = row(number(gram));
            bits[number >> 6] |= 1 << (number & 63);
        }
        Grams { bits }
    }

    fn has(&self, gram: u32) -> bool {
        let number = row(gram);
        self.bits[number >> 6] >> (number & 63) & 1 == 1
    }
}

fn number(gram: &[u8]) -> u32 {
    gram.first_chunk::<GRAM>().map_or(0, |gram| u32::from_le_bytes(*gram))
}

fn row(gram: u32) -> usize {
    const MULTIPLIER: u32 = 0x9E37_79B1;
    (gram.wrapping_mul(MULTIPLIER) >> (u32::BITS - GRAM_BITS)) as usize
}

/// The parts of a text where base64 may be broken into lines, without what breaks it; `reach` is
/// the length of the longest form.
pub(super) fn without_breaks(
    classes: &Classes,
    grams: &Grams,
    text: ViewText<'_>,
    reach: usize,
    is_last: bool,
) -> Vec<DecodedView> {
    let bytes = text.bytes;
    let mut parts: Vec<Range<usize>> = Vec::new();
    let mut last = 0;
    for place in memchr::memchr3_iter(b'\n', b' ', b'\r', bytes) {
        if bytes.get(place + 1).is_some_and(|after| b"\n\r ".contains(after)) {
            continue;
        }
        let beside = [place.checked_sub(1), Some(place + 1)];
        let is_other = |place: Option<usize>| {
            place.and_then(|place| bytes.get(place)).is_none_or(|byte| !classes.belongs(*byte))
        };
        if beside.into_iter().any(is_other) {
            continue;
        }
        let (around, of) = around(classes, bytes, place);
        if !around[of].windows(GRAM).any(|gram| grams.has(number(gram))) {
            continue;
        }
        let known = parts.last().map_or(0, |part| part.end);
        match parts.last_mut() {
            // As many characters more as lie between the two breaks.
            Some(part) if place < part.end => {
                let more = digits_in(classes, &bytes[last..place]);
                part.end = walk(classes, bytes, part.end, more);
            }
            _ => {
                let start = walk_back(classes, bytes, place, reach, known);
                let end = walk(classes, bytes, place, reach);
                match parts.last_mut() {
                    Some(part) if start == part.end => part.end = end,
                    _ => parts.push(start..end),
                }
            }
        }
        last = place;
    }
    if !is_last {
        let known = parts.last().map_or(0, |part| part.end);
        let start = walk_back(classes, bytes, bytes.len(), reach, known);
        match parts.last_mut() {
            Some(part) if start == part.end => part.end = bytes.len(),
            _ => parts.push(start..bytes.len()),
        }
    }
    parts.into_iter().map(|part| joined(classes, text, part)).collect()
}

fn digits_in(classes: &Classes, bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| classes.of(**byte) == ByteClass::Digit).count()
}

/// The characters of base64 nearest to a gap, as many to either side as a gram has but one.
fn around(classes: &Classes, bytes: &[u8], gap: usize) -> ([u8; 2 * GRAM - 2], Range<usize>) {
    const SIDE: usize = GRAM - 1;
    const FAR: usize = SIDE * (GAP_BYTES_MAX + 1);
    let mut found = [0; 2 * SIDE];
    let (mut start, mut end) = (SIDE, SIDE);
    for byte in bytes[..gap].iter().rev().take(FAR) {
        match classes.of(*byte) {
            ByteClass::Digit if start > 0 => {
                start -= 1;
                found[start] = *byte;
            }
            ByteClass::Gap => {}
            _ => break,
        }
    }
    for byte in bytes[gap..].iter().take(FAR) {
        match classes.of(*byte) {
            ByteClass::Digit if end < found.len() => {
                found[end] = *byte;
                end += 1;
            }
            ByteClass::Gap => {}
            _ => break,
        }
    }
    (found, start..end)
}

/// Where `count` characters of base64 before a place begin; no further back than `known`.
fn walk_back(
    classes: &Classes,
    bytes: &[u8],
    place: usize,
    mut count: usize,
    known: usize,
) -> usize {
    let mut at = place;
    while at > known && count > 0 {
        match classes.of(bytes[at - 1]) {
            ByteClass::Other => break,
            ByteClass::Digit => count -= 1,
            ByteClass::Gap => {}
        }
        at -= 1;
    }
    at
}

/// Where `count` characters of base64 from a place on end.
fn walk(classes: &Classes, bytes: &[u8], place: usize, mut count: usize) -> usize {
    let mut at = place;
    while at < bytes.len() && count > 0 {
        match classes.of(bytes[at]) {
            ByteClass::Other => break,
            ByteClass::Digit => count -= 1,
            ByteClass::Gap => {}
        }
        at += 1;
    }
    at
}

fn joined(classes: &Classes, text: ViewText<'_>, part: Range<usize>) -> DecodedView {
    let mut view = DecodedView { of: part.clone(), ..DecodedView::default() };
    let mut gap = 0;
    for place in part {
        let byte = text.bytes[place];
        let class = classes.of(byte);
        if class == ByteClass::Digit {
            view.push(text, byte, place..place + 1);
            gap = 0;
            continue;
        }
        gap += 1;
        if class == ByteClass::Other || gap == GAP_BYTES_MAX + 1 {
            view.push(text, BREAK, place..place + 1);
        }
    }
    view
}
