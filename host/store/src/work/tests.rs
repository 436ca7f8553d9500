//! The records and ranges that a unit of work relied on.

use super::*;
use crate::Space;

fn range() -> KeyRange {
    KeyRange::new(Space::Data, "m/", "")
}

fn keys(numbers: std::ops::Range<u32>) -> Vec<String> {
    numbers.map(|number| format!("m/{number:04}")).collect()
}

#[test]
fn repeatedly_listed_range_is_remembered_once() {
    let mut reads = ReadSet::default();
    for _ in 0..25_000 {
        reads.remember_range(range(), 9, keys(0..9)).unwrap();
    }
    assert_eq!((reads.listings.len(), reads.checked()), (1, 10));
    reads.remember_range(range(), 4, keys(0..4)).unwrap();
    assert_eq!((reads.listings.len(), reads.checked()), (1, 10), "a shorter page is a part of it");
    reads.remember_range(range(), 20, keys(0..20)).unwrap();
    assert_eq!((reads.listings.len(), reads.checked()), (1, 21), "a longer one takes its place");
    let twice = reads.clone().and(&reads).unwrap();
    assert_eq!((twice.listings.len(), twice.checked()), (1, 21));
}

#[test]
fn range_changed_between_listings_is_conflict() {
    for (limit, changed) in [(9, keys(1..10)), (20, keys(1..10)), (4, keys(1..5)), (9, vec![])] {
        let mut reads = ReadSet::default();
        reads.remember_range(range(), 9, keys(0..9)).unwrap();
        let outcome = reads.remember_range(range(), limit, changed);
        assert_eq!(outcome, Err(ContendedKey::Listing(range())), "limit {limit}");
    }
}
