//! Finds where one of many keys of eight bytes may stand, several bytes a nanosecond.
//!
//! Few keys are sought by `aho-corasick`'s vector search; it slows down by the key. For more, or
//! where the processor has no such instructions, there is a table by three bytes that says how far
//! the search may skip (Wu and Manber, 1994); its speed hardly depends on the keys or the data.

use aho_corasick::packed;

/// Bytes of a key.
pub(super) const KEY_BYTES: usize = 8;
/// The most keys that the vector search takes without slowing down.
const FEW: usize = 48;
/// Bytes of a block, which the table is about.
const BLOCK: usize = 3;
/// The table has a row for each value of this many bits.
const TABLE_BITS: u32 = 15;

pub(super) enum Search {
    Few(packed::Searcher),
    Many(SkipTable),
}

impl Search {
    pub(super) fn new(keys: &[[u8; KEY_BYTES]]) -> Search {
        let few = if keys.len() <= FEW { packed::Searcher::new(keys) } else { None };
        few.map_or_else(|| Search::Many(SkipTable::new(keys)), Search::Few)
    }

    /// The first place from `at` on where a key may stand, and all of its bytes do. Every place
    /// where one stands is found; at some, none does.
    pub(super) fn next(&self, data: &[u8], at: usize) -> Option<usize> {
        match self {
            Search::Few(searcher) => {
                let span = aho_corasick::Span { start: at, end: data.len() };
                searcher.find_in(data, span).map(|found| found.start())
            }
            Search::Many(table) => table.next(data, at),
        }
    }
}

/// For each block, how far from the end of a key it stands at least; blocks share rows.
pub(super) struct SkipTable {
    skips: Vec<u8>,
}

impl SkipTable {
    fn new(keys: &[[u8; KEY_BYTES]]) -> SkipTable {
        // A block that is in no key: the next key begins behind its first byte.
        const ABSENT: u8 = (KEY_BYTES - BLOCK + 1) as u8;
        let mut skips = vec![ABSENT; 1 << TABLE_BITS];
        for key in keys {
            for (skip, block) in (0..).zip(key.windows(BLOCK).rev()) {
                let row = &mut skips[row(block[0], block[1], block[2])];
                *row = skip.min(*row);
            }
        }
        SkipTable { skips }
    }

    fn next(&self, data: &[u8], mut at: usize) -> Option<usize> {
        while let Some(window) = data.get(at..at + KEY_BYTES) {
            match self.skips[row(window[5], window[6], window[7])] {
                0 => return Some(at),
                skip => at += usize::from(skip),
            }
        }
        None
    }
}

/// The row of a block: the upper bits of its product with a large odd number.
fn row(first: u8, second: u8, third: u8) -> usize {
    const MULTIPLIER: u32 = 0x9E37_79B1;
    let block = u32::from_le_bytes([first, second, third, 0]);
    (block.wrapping_mul(MULTIPLIER) >> (u32::BITS - TABLE_BITS)) as usize
}
