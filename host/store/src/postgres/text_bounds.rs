//! Ranges of texts without zero bytes, which PostgreSQL does not store.
//!
//! This file prevents an error, or a wrong page, for a bound with a zero byte, such as the first
//! text after `a`. No stored text contains a zero byte, so every bound has an equal bound without
//! one: the stored texts after `a` are the texts from `a\u{1}` on.

use std::ops::Bound;

use crate::range::KeyRange;
use crate::record::Space;

/// The least character that a stored text may contain.
const LEAST: char = '\u{1}';

/// The bounds of a range of rows, by the number of the kind and a text: from `first` up to but not
/// including `end`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RowBounds {
    pub(super) first: (i16, String),
    pub(super) end: (i16, String),
}

impl RowBounds {
    /// Returns the bounds of `range`.
    pub(super) fn of(range: &KeyRange) -> RowBounds {
        let space = number(range.space);
        let first = match &range.start {
            Bound::Included(first) => at_or_after(first),
            Bound::Excluded(text) => after(text),
            Bound::Unbounded => String::new(),
        };
        let end = match &range.end {
            Some(end) => (space, at_or_after(end)),
            // Every row of the kind comes before the first row of the next kind.
            None => (space.saturating_add(1), String::new()),
        };
        RowBounds { first: (space, first), end }
    }
}

/// Returns the number of a kind as the column stores it.
pub(super) fn number(space: Space) -> i16 {
    i16::from(space.number())
}

/// Returns whether PostgreSQL can store the text.
pub(super) fn is_storable(text: &str) -> bool {
    !text.contains('\0')
}

/// Returns the least storable text that is not less than `text`.
pub(super) fn at_or_after(text: &str) -> String {
    match text.split_once('\0') {
        Some((before, _)) => after(before),
        None => text.to_owned(),
    }
}

/// Returns the least storable text that is greater than `text`.
pub(super) fn after(text: &str) -> String {
    let storable = text.split_once('\0').map_or(text, |(before, _)| before);
    format!("{storable}{LEAST}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Address;

    #[test]
    fn bounds_contain_the_same_storable_texts() {
        let texts = ["", "\u{1}", "a", "a\u{1}", "a\u{1}b", "a/", "aa", "b", "\u{10ffff}"];
        let bounds = ["", "a", "a\0", "a\0b", "a\u{1}", "aa\0", "\u{10ffff}"];
        for start in bounds {
            for included in [true, false] {
                for end in bounds.iter().map(|end| Some((*end).to_owned())).chain([None]) {
                    let start = start.to_owned();
                    let start =
                        if included { Bound::Included(start) } else { Bound::Excluded(start) };
                    let range = KeyRange { space: Space::Data, start, end };
                    let bounds = RowBounds::of(&range);
                    for text in texts {
                        let row = (number(Space::Data), text.to_owned());
                        let is_within = bounds.first <= row && row < bounds.end;
                        let address = Address::new(Space::Data, text);
                        assert_eq!(is_within, range.contains(&address), "{text:?} in {range:?}");
                    }
                }
            }
        }
    }
}
