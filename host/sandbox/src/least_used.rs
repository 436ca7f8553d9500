//! What was read of texts before, by their digests: so many of them, of which the one that was used
//! longest ago gives way.

use std::collections::BTreeMap;

/// Values by digests of what they were read from.
pub(crate) struct LeastUsed<V> {
    entries: BTreeMap<[u8; 32], Entry<V>>,
    /// Counts uses, so that each has a number of its own.
    uses: u64,
    most: usize,
}

struct Entry<V> {
    value: V,
    used: u64,
}

impl<V: Clone> LeastUsed<V> {
    /// Of at most so many.
    pub(crate) fn of(most: usize) -> Self {
        Self { entries: BTreeMap::new(), uses: 0, most }
    }

    pub(crate) fn get(&mut self, digest: &[u8; 32]) -> Option<V> {
        self.uses += 1;
        let entry = self.entries.get_mut(digest)?;
        entry.used = self.uses;
        Some(entry.value.clone())
    }

    pub(crate) fn insert(&mut self, digest: [u8; 32], value: V) {
        self.uses += 1;
        self.entries.insert(digest, Entry { value, used: self.uses });
        while self.entries.len() > self.most {
            let oldest = self.entries.iter().min_by_key(|(_, entry)| entry.used);
            let Some(oldest) = oldest.map(|(digest, _)| *digest) else { return };
            self.entries.remove(&oldest);
        }
    }

    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_one_that_was_used_longest_ago_gives_way() {
        let mut kept = LeastUsed::of(2);
        kept.insert([1; 32], "a");
        kept.insert([2; 32], "b");
        assert_eq!(kept.get(&[1; 32]), Some("a"));
        kept.insert([3; 32], "c");
        assert_eq!([1, 2, 3].map(|n| kept.get(&[n; 32])), [Some("a"), None, Some("c")]);
        kept.insert([3; 32], "d");
        assert_eq!([1, 3].map(|n| kept.get(&[n; 32])), [Some("a"), Some("d")]);
    }
}
