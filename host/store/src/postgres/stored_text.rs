//! Texts as PostgreSQL stores them, which stores no zero byte, and ranges of such texts.
//!
//! This file prevents the loss or refusal of a record with an unusual key. A zero byte becomes two
//! bytes, 1 and 1, and a byte 1 becomes 1 and 2; every other text is stored as is. The order of the
//! texts stays: 0 is the least byte and 1 the next.

use std::borrow::Cow;
use std::ops::Bound;

use bulkhead_record::range::KeyRange;
use bulkhead_record::record::Space;

/// The character that begins a pair.
const ESCAPE: char = '\u{1}';
const ZERO: &str = "\u{1}\u{1}";
const ONE: &str = "\u{1}\u{2}";

/// Returns the text as stored.
pub(super) fn encode(text: &str) -> Cow<'_, str> {
    if !text.contains(['\0', ESCAPE]) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.replace(ESCAPE, ONE).replace('\0', ZERO))
}

/// Returns the text that was stored. A pair that was never stored stays as is.
pub(super) fn decode(stored: String) -> String {
    if !stored.contains(ESCAPE) {
        return stored;
    }
    let mut text = String::with_capacity(stored.len());
    let mut rest = stored.as_str();
    while let Some((before, pair)) = rest.split_once(ESCAPE) {
        text.push_str(before);
        let (character, after) = match pair.chars().next() {
            Some('\u{1}') => ('\0', pair.get(1..)),
            Some('\u{2}') => (ESCAPE, pair.get(1..)),
            _ => (ESCAPE, Some(pair)),
        };
        text.push(character);
        rest = after.unwrap_or_default();
    }
    text.push_str(rest);
    text
}

/// Returns the number of a kind as the column stores it.
pub(super) fn number(space: Space) -> i16 {
    i16::from(space.number())
}

/// The bounds of a range of rows, by the number of the kind and a text as stored: from `first` up
/// to but not including `end`.
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
            Bound::Included(first) => encode(first).into_owned(),
            // Nothing lies between a text and the same text followed by a zero byte.
            Bound::Excluded(text) => encode(text).into_owned() + ZERO,
            Bound::Unbounded => String::new(),
        };
        let end = match &range.end {
            Some(end) => (space, encode(end).into_owned()),
            // Every row of the kind comes before the first row of the next kind.
            None => (space.saturating_add(1), String::new()),
        };
        RowBounds { first: (space, first), end }
    }
}

#[cfg(test)]
mod tests;
