//! Ranges of keys: a prefix and a continuation key as bounds that an index understands.
//!
//! Uses bounds instead of `LIKE`: a key could contain the wild cards of `LIKE`, and no index
//! supports `LIKE`.

use std::ops::Bound;

use crate::record::{Address, Space};

/// The keys of a kind of record with a given prefix, after a given key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KeyRange {
    /// The kind of record.
    pub space: Space,
    /// The start of the range; never unbounded.
    pub start: Bound<String>,
    /// The first text after all texts with the prefix; `None` if there is no such text.
    pub end: Option<String>,
}

impl KeyRange {
    /// Returns the range of keys of `space` that begin with `prefix` and are greater than `after`.
    /// An empty `after` means from the first key.
    pub fn new(space: Space, prefix: &str, after: &str) -> KeyRange {
        let start = if after.is_empty() || after < prefix {
            Bound::Included(prefix.to_owned())
        } else {
            Bound::Excluded(after.to_owned())
        };
        KeyRange { space, start, end: end_of(prefix) }
    }

    /// Returns `true` if `address` lies in the range.
    pub fn contains(&self, address: &Address) -> bool {
        let begun = match &self.start {
            Bound::Included(first) => address.key >= *first,
            Bound::Excluded(after) => address.key > *after,
            Bound::Unbounded => true,
        };
        address.space == self.space
            && begun
            && self.end.as_ref().is_none_or(|end| address.key < *end)
    }
}

/// Returns the least text greater than every text that begins with `prefix`, in the order of UTF-8
/// bytes, which is the order of code points.
fn end_of(prefix: &str) -> Option<String> {
    let mut end = prefix.to_owned();
    while let Some(last) = end.pop() {
        if let Some(next) = following(last) {
            end.push(next);
            return Some(end);
        }
    }
    None
}

/// Returns the next character, skipping surrogates, which are not characters.
fn following(character: char) -> Option<char> {
    match character {
        '\u{d7ff}' => Some('\u{e000}'),
        other => char::from_u32(u32::from(other) + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(range: &KeyRange, key: &str) -> bool {
        range.contains(&Address::new(Space::Data, key))
    }

    #[test]
    fn prefix_range_contains_keys_with_prefix_only() {
        let range = KeyRange::new(Space::Data, "roles/", "");
        for key in ["roles/", "roles/a", "roles/\u{10ffff}", "roles/%", "roles/a/b"] {
            assert!(holds(&range, key), "{key}");
        }
        for key in ["role", "roles", "roles0", "rolesa", "ROLES/a", "s", ""] {
            assert!(!holds(&range, key), "{key}");
        }
        assert!(!range.contains(&Address::new(Space::Core, "roles/a")));
    }

    #[test]
    fn range_continues_after_given_key() {
        let range = KeyRange::new(Space::Data, "roles/", "roles/b");
        assert!(!holds(&range, "roles/b"));
        assert!(holds(&range, "roles/b\0"));
        assert!(holds(&range, "roles/c"));
    }

    #[test]
    fn continuation_outside_prefix_does_not_widen_range() {
        let before = KeyRange::new(Space::Data, "roles/", "a");
        assert!(holds(&before, "roles/") && !holds(&before, "b"));
        let beyond = KeyRange::new(Space::Data, "roles/", "z");
        assert!(!holds(&beyond, "roles/a") && !holds(&beyond, "zz"));
    }

    #[test]
    fn wild_cards_of_sql_are_ordinary_characters() {
        let range = KeyRange::new(Space::Data, "a%_", "");
        assert!(holds(&range, "a%_b"));
        assert!(!holds(&range, "aXYb"));
    }

    #[test]
    fn prefix_end_skips_surrogates_and_last_character() {
        assert_eq!(end_of("a\u{d7ff}"), Some("a\u{e000}".to_owned()));
        assert_eq!(end_of("a\u{10ffff}\u{10ffff}"), Some("b".to_owned()));
        assert_eq!(end_of("\u{10ffff}"), None);
        assert_eq!(end_of(""), None);
    }
}
