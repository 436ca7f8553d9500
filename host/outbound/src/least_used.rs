//! A bounded map from fingerprints of texts to the values that were parsed from the texts. The
//! least recently used value is evicted.

use crate::fingerprint::Fingerprint;
use std::collections::BTreeMap;

/// Values by the fingerprint of their source.
pub struct LeastUsed<V> {
    entries: BTreeMap<Fingerprint, LeastUsedEntry<V>>,
    /// Counter of uses; gives each use a unique number.
    uses: u64,
    most: usize,
}

struct LeastUsedEntry<V> {
    value: V,
    used: u64,
}

impl<V: Clone> LeastUsed<V> {
    /// Makes an empty map of at most `most` values.
    pub fn of(most: usize) -> Self {
        Self { entries: BTreeMap::new(), uses: 0, most }
    }

    /// Returns the value of `of`, which becomes the most recently used value.
    pub fn get(&mut self, of: &Fingerprint) -> Option<V> {
        self.uses += 1;
        let entry = self.entries.get_mut(of)?;
        entry.used = self.uses;
        Some(entry.value.clone())
    }

    /// Adds a value, and drops the least recently used value if there are too many.
    pub fn insert(&mut self, of: Fingerprint, value: V) {
        self.uses += 1;
        self.entries.insert(of, LeastUsedEntry { value, used: self.uses });
        while self.entries.len() > self.most {
            let oldest = self.entries.iter().min_by_key(|(_, entry)| entry.used);
            let Some(oldest) = oldest.map(|(of, _)| *of) else { return };
            self.entries.remove(&oldest);
        }
    }

    /// Returns the number of values.
    #[must_use]
    pub fn count(&self) -> usize {
        self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn least_recently_used_entry_gives_way() {
        let mut entries = LeastUsed::of(2);
        let of = |number: u8| Fingerprint::begin().number(number).end();
        entries.insert(of(1), "a");
        entries.insert(of(2), "b");
        assert_eq!(entries.get(&of(1)), Some("a"));
        entries.insert(of(3), "c");
        assert_eq!([1, 2, 3].map(|n| entries.get(&of(n))), [Some("a"), None, Some("c")]);
        entries.insert(of(3), "d");
        assert_eq!([1, 3].map(|n| entries.get(&of(n))), [Some("a"), Some("d")]);
    }
}
