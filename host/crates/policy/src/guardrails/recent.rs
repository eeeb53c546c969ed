//! A map with room for a fixed number of digests, which forgets what was written longest ago.

use std::collections::{BTreeMap, HashMap};

/// The most entries. One takes some 200 bytes, so a map stays under a megabyte.
pub(super) const ENTRIES_MAX: usize = 4_096;

/// A SHA-256.
pub(super) type CallKey = [u8; 32];

/// The entries written last.
#[derive(Debug)]
pub(super) struct Recent<V> {
    /// The values, each with the time when it was written.
    entries: HashMap<CallKey, (u64, V)>,
    /// The keys by the time when they were written.
    order: BTreeMap<u64, CallKey>,
    /// Counts what was ever written; it is the clock.
    time: u64,
}

impl<V> Default for Recent<V> {
    fn default() -> Recent<V> {
        Recent { entries: HashMap::new(), order: BTreeMap::new(), time: 0 }
    }
}

impl<V> Recent<V> {
    pub(super) fn get(&self, key: &CallKey) -> Option<&V> {
        self.entries.get(key).map(|(_, value)| value)
    }

    pub(super) fn insert(&mut self, key: CallKey, value: V) {
        self.remove(&key);
        if self.entries.len() >= ENTRIES_MAX
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.entries.remove(&oldest);
        }
        self.time += 1;
        self.order.insert(self.time, key);
        self.entries.insert(key, (self.time, value));
    }

    pub(super) fn remove(&mut self, key: &CallKey) {
        if let Some((time, _)) = self.entries.remove(key) {
            self.order.remove(&time);
        }
    }

    pub(super) fn clear(&mut self) {
        *self = Recent::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: usize) -> CallKey {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&number.to_le_bytes());
        key
    }

    #[test]
    fn what_was_written_longest_ago_is_forgotten() {
        let mut recent = Recent::default();
        for number in 0..ENTRIES_MAX {
            recent.insert(key(number), number);
        }
        recent.insert(key(0), 7);
        recent.insert(key(ENTRIES_MAX), 8);
        assert_eq!(recent.get(&key(0)), Some(&7));
        assert_eq!(recent.get(&key(1)), None);
        assert_eq!(recent.get(&key(2)), Some(&2));
        assert_eq!((recent.entries.len(), recent.order.len()), (ENTRIES_MAX, ENTRIES_MAX));
        recent.remove(&key(2));
        recent.remove(&key(2));
        assert_eq!((recent.entries.len(), recent.order.len()), (ENTRIES_MAX - 1, ENTRIES_MAX - 1));
        recent.clear();
        assert!(recent.entries.is_empty() && recent.order.is_empty());
    }
}
