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

#[test]
fn presence_and_stamp_agree_or_conflict() {
    let (record, stamp) = (Address::new(Space::Data, "m/a"), Stamp([7; 16]));
    let conflict = Err(ContendedKey::Record(record.clone()));
    let read = |reads: &mut ReadSet, state: Option<Option<Stamp>>| match state {
        None => reads.remember_presence(&record, true),
        Some(stamp) => reads.remember(&record, stamp),
    };
    let (present, absent, stamped) = (None, Some(None), Some(Some(stamp)));
    for (first, second, outcome) in [
        (present, present, Ok(())),
        (present, stamped, Ok(())),
        (stamped, present, Ok(())),
        (absent, absent, Ok(())),
        (present, absent, conflict.clone()),
        (absent, present, conflict.clone()),
        (stamped, absent, conflict.clone()),
    ] {
        let (mut reads, mut others) = (ReadSet::default(), ReadSet::default());
        read(&mut reads, first).unwrap();
        read(&mut others, second).unwrap();
        let merged = reads.clone().and(&others);
        assert_eq!(
            merged.as_ref().map(ReadSet::checked).map_err(Clone::clone),
            outcome.clone().map(|()| 1)
        );
        assert_eq!(read(&mut reads, second), outcome);
        assert!(reads.has(&record));
    }
}
