//! Numbers in a text, with whatever stands between them: bytes in hexadecimal and in decimal.
//!
//! A run of numbers is looked at closely once so many of them stand side by side as they do in some
//! value; at the end of a text the end of any run is, since it may go on.

use std::ops::Range;

use super::{
    BREAK, ByteClass, Classes, DecodedView, GAP_BYTES_MAX, Grams, Pairs, ViewText, walk_back,
};
use crate::secret::VALUE_BYTES_MIN;

/// A run of hexadecimal numbers that may have a value in it has at least so many bytes.
const DIGITS_MIN: usize = 2 * VALUE_BYTES_MIN;
/// The same of decimal ones: no byte of a value has fewer than two digits, with a gap between.
const DECIMALS_MIN: usize = 3 * VALUE_BYTES_MIN - 1;
/// A byte is written in no more decimal digits, with zeros before it.
const DECIMAL_DIGITS_MAX: usize = 16;

/// Which numbers stand side by side in some value.
pub(crate) struct Numbers {
    hexadecimal: Classes,
    decimal: Classes,
    /// Of digits, four at a time.
    digits: Grams,
    /// Of bytes, two at a time.
    pairs: Pairs,
    /// The digits from the end of a text on that may be of a value that is not whole.
    digits_max: usize,
    /// The same of decimal ones.
    decimals_max: usize,
    /// Whether letters count in lower case.
    folds: bool,
}

impl Numbers {
    /// `forms` are those that may be written in decimal, `digits` all of them in hexadecimal.
    pub(crate) fn new<'a>(
        forms: impl Iterator<Item = &'a [u8]>,
        digits: impl Iterator<Item = &'a [u8]>,
        folds: bool,
    ) -> Numbers {
        let (forms, digits): (Vec<_>, Vec<_>) = (forms.collect(), digits.collect());
        let longest =
            |forms: &[&[u8]]| forms.iter().map(|form| form.len()).max().unwrap_or_default();
        Numbers {
            hexadecimal: Classes::hexadecimal(),
            decimal: Classes::decimal(),
            // `0x` may stand before each two.
            digits_max: 2 * longest(&digits),
            decimals_max: (DECIMAL_DIGITS_MAX + 1) * (longest(&forms) + 1),
            digits: Grams::new(digits.into_iter()),
            pairs: Pairs::new(forms.into_iter()),
            folds,
        }
    }

    /// The byte that a number stands for.
    fn byte(&self, number: u32) -> u8 {
        let byte = u8::try_from(number).unwrap_or(BREAK);
        if self.folds { byte.to_ascii_lowercase() } else { byte }
    }

    /// The runs of hexadecimal numbers that may have a value: their digits in lower case.
    pub(crate) fn digits(&self, text: ViewText<'_>, is_last: bool) -> Vec<DecodedView> {
        let mut views = Vec::new();
        runs(&self.hexadecimal, text.bytes, DIGITS_MIN, is_last, |run, may_go_on| {
            if self.has_digits(&text.bytes[run.clone()]) {
                views.push(digits_of(&self.hexadecimal, text, run));
            } else if may_go_on {
                let (end, most) = (run.end, self.digits_max);
                let start = walk_back(&self.hexadecimal, text.bytes, end, most, run.start);
                views.push(digits_of(&self.hexadecimal, text, start..end));
            }
        });
        views
    }

    fn has_digits(&self, run: &[u8]) -> bool {
        // Of every fourth four digits, so many are in the shortest value.
        const STREAK: usize = (DIGITS_MIN - 3) / 4;
        // The last digits, how many there are, and how many fours of a value were the last; and the
        // same before the last digit.
        let (mut now, mut before) = ((0_u32, 0_usize, 0), (0, 0, 0));
        let mut gap = 0;
        for byte in run {
            if self.hexadecimal.of(*byte) == ByteClass::Digit {
                before = now;
                now.0 = now.0 >> 8 | u32::from(byte.to_ascii_lowercase()) << 24;
                now.1 += 1;
                if now.1.is_multiple_of(4) {
                    now.2 = if self.digits.has(now.0) { now.2 + 1 } else { 0 };
                    if now.2 == STREAK {
                        return true;
                    }
                }
                gap = 0;
                continue;
            }
            // `0x` begins a number.
            if matches!(byte, b'x' | b'X') && gap == 0 && now.0 >> 24 == u32::from(b'0') {
                now = before;
            }
            gap += 1;
        }
        false
    }

    /// The runs of decimal numbers that may have a value: each number as a byte.
    pub(crate) fn decimals(&self, text: ViewText<'_>, is_last: bool) -> Vec<DecodedView> {
        let mut views = Vec::new();
        runs(&self.decimal, text.bytes, DECIMALS_MIN, is_last, |run, may_go_on| {
            if self.has_decimals(&text.bytes[run.clone()]) {
                views.push(self.decimals_of(text, run, is_last));
            } else if may_go_on {
                let (end, most) = (run.end, self.decimals_max);
                let mut start = walk_back(&self.decimal, text.bytes, end, most, run.start);
                // Not within a number.
                if start > run.start && text.bytes[start - 1].is_ascii_digit() {
                    let rest = &text.bytes[start..end];
                    start += rest.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(0);
                }
                views.push(self.decimals_of(text, start..end, is_last));
            }
        });
        views
    }

    fn has_decimals(&self, run: &[u8]) -> bool {
        const STREAK: usize = VALUE_BYTES_MIN - 1;
        let (mut number, mut before, mut streak) = (None::<u32>, BREAK, 0);
        for byte in run.iter().chain(b" ") {
            if byte.is_ascii_digit() {
                let digit = u32::from(byte - b'0');
                number = Some(number.unwrap_or_default().saturating_mul(10).saturating_add(digit));
            } else if let Some(whole) = number.take() {
                let whole = self.byte(whole);
                streak = if self.pairs.has(before, whole) { streak + 1 } else { 0 };
                if streak >= STREAK {
                    return true;
                }
                before = whole;
            }
        }
        false
    }

    fn decimals_of(&self, text: ViewText<'_>, run: Range<usize>, is_last: bool) -> DecodedView {
        let mut view = DecodedView { of: run, ..DecodedView::default() };
        let (mut bytes, mut origins) = (Vec::new(), Vec::new());
        let mut number: Option<(u32, Range<usize>)> = None;
        let mut gap = 0;
        let mut keep = |number: &mut Option<(u32, Range<usize>)>| {
            if let Some((number, from)) = number.take() {
                let is_long = from.len() > DECIMAL_DIGITS_MAX;
                bytes.push(if is_long { BREAK } else { self.byte(number) });
                origins.push(text.origin(&from));
            }
        };
        for place in view.of.clone() {
            match char::from(text.bytes[place]).to_digit(10) {
                Some(digit) => {
                    if gap > GAP_BYTES_MAX {
                        keep(&mut Some((u32::from(BREAK), place..place)));
                    }
                    gap = 0;
                    let (before, from) = number.take().unwrap_or((0, place..place));
                    let value = before.saturating_mul(10).saturating_add(digit);
                    number = Some((value, from.start..place + 1));
                }
                None => {
                    keep(&mut number);
                    gap += 1;
                }
            }
        }
        match &number {
            Some((_, from)) if from.end == text.bytes.len() && !is_last => {
                // Of one that is too long, as much as shows that it is.
                let known = from.len().saturating_sub(DECIMAL_DIGITS_MAX + 1);
                view.unfinished = Some(from.start + known);
                if known > 0 {
                    keep(&mut number);
                }
            }
            _ => keep(&mut number),
        }
        (view.bytes, view.origins) = (bytes, origins);
        view
    }
}

/// Finds the runs of numbers that are long enough, and the one at the end, which may go on.
fn runs(
    classes: &Classes,
    bytes: &[u8],
    length_min: usize,
    is_last: bool,
    mut found: impl FnMut(Range<usize>, bool),
) {
    let mut at = 0;
    while at < bytes.len() {
        // A run that counts is longer than a step.
        let probe = (at + length_min - 1).min(bytes.len() - 1);
        let halfway = at + (probe - at) / 2;
        if !classes.belongs(bytes[probe]) {
            at = probe + 1;
            continue;
        }
        if !classes.belongs(bytes[halfway]) {
            at = halfway + 1;
            continue;
        }
        let before = bytes[at..probe].iter().rposition(|byte| !classes.belongs(*byte));
        let start = before.map_or(at, |place| at + place + 1);
        let after = bytes[probe..].iter().position(|byte| !classes.belongs(*byte));
        let end = after.map_or(bytes.len(), |place| probe + place);
        at = end + 1;
        let may_go_on = end == bytes.len() && !is_last;
        if end - start >= length_min || may_go_on {
            found(start..end, may_go_on);
        }
    }
}

fn digits_of(classes: &Classes, text: ViewText<'_>, run: Range<usize>) -> DecodedView {
    let mut view = DecodedView { of: run.clone(), ..DecodedView::default() };
    let mut gap = 0;
    for place in run {
        let byte = text.bytes[place];
        if classes.of(byte) == ByteClass::Digit {
            view.push(text, byte.to_ascii_lowercase(), place..place + 1);
            gap = 0;
            continue;
        }
        // `0x` begins a number.
        if matches!(byte, b'x' | b'X') && gap == 0 && view.bytes.last() == Some(&b'0') {
            view.bytes.pop();
            view.origins.pop();
        }
        gap += 1;
        if gap == GAP_BYTES_MAX + 1 {
            view.push(text, BREAK, place..place + 1);
        }
    }
    view
}
