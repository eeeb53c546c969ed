//! Finds where one of many forms may begin, several bytes a nanosecond.
//!
//! Few keys, the first eight bytes of forms, are sought by `aho-corasick`'s vector search; it slows
//! down by the key. For more, or where the processor has no such instructions, there is a table by
//! four bytes that says how far the search may skip (Wu and Manber, 1994). It skips the further,
//! the longer the shortest form is.

use aho_corasick::packed;

/// Bytes of a key. No form is shorter.
pub(super) const KEY_BYTES: usize = 8;
/// The most keys that the vector search takes without slowing down.
const FEW: usize = 48;
/// Bytes of a block, which the table is about. Of three, too many blocks of hexadecimal digits
/// occur in any such text.
const BLOCK: usize = 4;
/// The most bytes of each form that the table is about. More blocks than these share rows.
const WINDOW_BYTES_MAX: usize = 16;
/// The table has a row for each value of this many bits.
const TABLE_BITS: u32 = 15;

pub(super) enum Search {
    Few(packed::Searcher),
    Many(SkipTable),
}

impl Search {
    /// Prepares to search for forms, of which those with the same first bytes stand together.
    pub(super) fn new(forms: &[&[u8]]) -> Search {
        let mut keys: Vec<&[u8]> = forms.iter().map(|form| &form[..KEY_BYTES]).collect();
        keys.dedup();
        let few = if keys.len() <= FEW { packed::Searcher::new(keys) } else { None };
        few.map_or_else(|| Search::Many(SkipTable::new(forms)), Search::Few)
    }

    /// The first place from `at` on where a form may begin, with at least [`Search::width`] bytes
    /// behind it. Every place where one begins is found; at some, none does.
    pub(super) fn next(&self, data: &[u8], at: usize) -> Option<usize> {
        match self {
            Search::Few(searcher) => {
                let span = aho_corasick::Span { start: at, end: data.len() };
                searcher.find_in(data, span).map(|found| found.start())
            }
            Search::Many(table) => table.next(data, at),
        }
    }

    /// How many bytes it must see of a form to find it.
    pub(super) fn width(&self) -> usize {
        match self {
            Search::Few(_) => KEY_BYTES,
            Search::Many(table) => table.window_bytes,
        }
    }
}

/// For each block, how far from the end of a window it stands at least; blocks share rows.
pub(super) struct SkipTable {
    skips: Vec<u8>,
    /// How many of the first bytes of each form it is about.
    window_bytes: usize,
}

impl SkipTable {
    fn new(forms: &[&[u8]]) -> SkipTable {
        let shortest = forms.iter().map(|form| form.len()).min().unwrap_or(KEY_BYTES);
        let window_bytes = shortest.min(WINDOW_BYTES_MAX);
        // A block that is in no window: the next window begins behind its first byte.
        let absent = u8::try_from(window_bytes - BLOCK + 1).unwrap_or(1);
        let mut skips = vec![absent; 1 << TABLE_BITS];
        for form in forms {
            for (skip, block) in (0..).zip(form[..window_bytes].windows(BLOCK).rev()) {
                let row = &mut skips[row(block)];
                *row = skip.min(*row);
            }
        }
        SkipTable { skips, window_bytes }
    }

    fn next(&self, data: &[u8], mut at: usize) -> Option<usize> {
        while let Some(window) = data.get(at..at + self.window_bytes) {
            match self.skips[row(&window[self.window_bytes - BLOCK..])] {
                0 => return Some(at),
                skip => at += usize::from(skip),
            }
        }
        None
    }
}

/// The row of a block: the upper bits of its product with a large odd number.
fn row(block: &[u8]) -> usize {
    const MULTIPLIER: u32 = 0x9E37_79B1;
    let block = block.first_chunk::<BLOCK>().map_or(0, |block| u32::from_le_bytes(*block));
    (block.wrapping_mul(MULTIPLIER) >> (u32::BITS - TABLE_BITS)) as usize
}
