//! One look at some bytes in every way in which a value may stand there.

use super::SecretForms;
use crate::secret::views::{
    self, ByteOrigins, DecodedView, GAP_BYTES_MAX, Kinds, LEVELS_MAX, ViewText,
};

/// An occurrence of a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hit {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) secret: usize,
}

/// What is known of some bytes after looking at them in every way.
pub(super) struct Look<'a> {
    patterns: &'a SecretForms,
    pub(super) hits: Vec<Hit>,
    /// Where the first value may begin that is not whole.
    unfinished: usize,
    /// Where escapes stand, each as one.
    escapes: Vec<Vec<ByteOrigins>>,
}

impl Look<'_> {
    /// Of this many bytes nothing is known yet.
    pub(super) fn new(patterns: &SecretForms, length: usize) -> Look<'_> {
        Look { patterns, hits: Vec::new(), unfinished: length, escapes: Vec::new() }
    }

    pub(super) fn look(&mut self, text: ViewText<'_>, kinds: Kinds, level: usize, is_last: bool) {
        let patterns = self.patterns;
        let length = text.bytes.len();
        let ends = |view: &DecodedView| is_last || view.of.end < length;
        self.search(text, is_last);
        for view in patterns.numbers.digits(text, is_last) {
            self.search(view.text(), ends(&view));
            // The zero may be that of `0x`.
            if let Some((b'0', bytes)) = view.bytes.split_last().filter(|_| !ends(&view)) {
                self.search(ViewText { bytes, ..view.text() }, false);
            }
        }
        for view in patterns.numbers.decimals(text, is_last) {
            self.view(text, &view, is_last);
        }
        let (classes, grams) = (&patterns.base64, &patterns.grams);
        for view in views::without_breaks(classes, grams, text, patterns.reach, is_last) {
            self.search(view.text(), ends(&view));
        }
        for view in views::without_nulls(text, &patterns.pairs, patterns.reach, is_last) {
            self.search(view.text(), ends(&view));
        }
        if level == LEVELS_MAX {
            return;
        }
        self.see_through(text, kinds, level + 1, is_last);
    }

    /// Looks at what has escapes without them; and where there are several kinds, without those of
    /// each kind alone, since a value may have what looks like one of another kind.
    fn see_through(&mut self, text: ViewText<'_>, kinds: Kinds, level: usize, is_last: bool) {
        // Between two escapes there may be numbers with gaps.
        let reach = 2 * self.patterns.reach + 4 * GAP_BYTES_MAX;
        for mut view in views::without_escapes(text, kinds, reach, is_last) {
            if self.patterns.folds {
                view.bytes.make_ascii_lowercase();
            }
            self.may_begin(text, view.unfinished);
            let is_last = is_last || view.of.end < text.bytes.len();
            self.look(view.text(), kinds, level, is_last);
            self.escapes.push(view.origins);
        }
        for kind in kinds.present(text.bytes).single() {
            self.see_through(text, kind, level, is_last);
        }
    }

    fn view(&mut self, text: ViewText<'_>, view: &DecodedView, is_last: bool) {
        self.may_begin(text, view.unfinished);
        self.search(view.text(), is_last || view.of.end < text.bytes.len());
    }

    fn may_begin(&mut self, text: ViewText<'_>, place: Option<usize>) {
        if let Some(place) = place {
            let (start, _) = text.origin(&(place..place + 1));
            self.unfinished = self.unfinished.min(start as usize);
        }
    }

    /// Searches for forms as they are.
    fn search(&mut self, text: ViewText<'_>, is_last: bool) {
        let (patterns, data) = (self.patterns, text.bytes);
        let mut at = 0;
        while let Some(start) = patterns.search.next(data, at) {
            let found = patterns.at(&data[start..]);
            if found.unfinished && !is_last {
                self.may_begin(text, Some(start));
                return;
            }
            if let Some((length, secret)) = found.longest {
                let (start, end) = text.origin(&(start..start + length));
                self.hits.push(Hit { start: start as usize, end: end as usize, secret });
            }
            // An occurrence may overlap the one before.
            at = start + 1;
        }
        if !is_last {
            let beginning = patterns.beginning(data);
            self.may_begin(text, (beginning < data.len()).then_some(beginning));
        }
    }

    /// Up to where all is known: no escape goes on there.
    pub(super) fn decided(&self) -> usize {
        let mut decided = self.unfinished;
        loop {
            let before = decided;
            for escapes in &self.escapes {
                let next = escapes.partition_point(|escape| (escape.0 as usize) < decided);
                let escape = next.checked_sub(1).and_then(|last| escapes.get(last));
                if let Some((start, _)) = escape.filter(|escape| escape.1 as usize > decided) {
                    decided = *start as usize;
                }
            }
            if decided == before {
                return decided;
            }
        }
    }
}
