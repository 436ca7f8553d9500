//! Texts that PostgreSQL does not store as they are.

use super::*;
use bulkhead_record::record::Address;

const TEXTS: [&str; 14] = [
    "",
    "\0",
    "\0\0",
    "\0\u{1}",
    "\u{1}",
    "\u{1}\0",
    "\u{2}",
    "a",
    "a\0",
    "a\0b",
    "a\u{1}",
    "a\u{1}b",
    "aa",
    "\u{10ffff}",
];

#[test]
fn any_text_returns_and_none_contains_zero() {
    for text in TEXTS {
        let stored = encode(text).into_owned();
        assert!(!stored.contains('\0'));
        assert_eq!(decode(stored), text);
    }
    assert_eq!(decode("edited \u{1}x \u{1}".into()), "edited \u{1}x \u{1}");
}

#[test]
fn stored_texts_keep_the_order_of_texts() {
    for text in TEXTS {
        for other in TEXTS {
            assert_eq!(text.cmp(other), encode(text).cmp(&encode(other)), "{text:?} {other:?}");
        }
    }
}

#[test]
fn bounds_contain_the_same_texts_as_range() {
    for start in TEXTS {
        for is_included in [true, false] {
            for end in TEXTS.iter().map(|end| Some((*end).to_owned())).chain([None]) {
                let start = start.to_owned();
                let start =
                    if is_included { Bound::Included(start) } else { Bound::Excluded(start) };
                let range = KeyRange { space: Space::Data, start, end };
                let bounds = RowBounds::of(&range);
                for text in TEXTS {
                    let row = (number(Space::Data), encode(text).into_owned());
                    let is_within = bounds.first <= row && row < bounds.end;
                    let address = Address::new(Space::Data, text);
                    assert_eq!(is_within, range.contains(&address), "{text:?} in {range:?}");
                }
            }
        }
    }
}
