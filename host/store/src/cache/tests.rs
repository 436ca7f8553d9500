//! Tests of the records in memory.

use super::*;
use crate::IndexColumns;
use crate::RecordBody;
use crate::work::{ReadSet, WriteSet};

/// The last read of changes that began.
const NOW: ReadNumber = ReadNumber(1);
/// A later read of changes.
const LATER: ReadNumber = ReadNumber(2);

fn address() -> Address {
    Address::new(Space::Data, "role")
}

fn found(body: &[u8]) -> StampedRecord {
    Some((
        Stamp([1; 16]),
        Record::unwritten(RecordBody::new(body.to_vec()), IndexColumns::default()),
    ))
}

fn body(cache: &RecordCache) -> Option<Vec<u8>> {
    let stamped_record = cache.find(&address()).ok()?;
    stamped_record.map(|(_, record)| record.body.to_vec())
}

#[test]
fn read_record_is_cached_until_written() {
    let cache = RecordCache::default();
    let commits = cache.find(&address()).err().unwrap();
    cache.keep((commits, NOW), &address(), &found(b"old"));
    assert_eq!(body(&cache).unwrap(), b"old");
    cache.begin_writing([address()].iter());
    assert_eq!(body(&cache).unwrap(), b"old");
    cache.end_writing([].iter(), NOW);
    assert_eq!(body(&cache), None);
}

#[test]
fn written_record_is_cached_only_after_old_removal() {
    let cache = RecordCache::default();
    let commits = cache.find(&address()).err().unwrap();
    cache.begin_writing([address()].iter());
    cache.keep((commits, NOW), &address(), &found(b"new"));
    let other = Address::new(Space::Data, "another");
    cache.keep((commits, NOW), &other, &None);
    assert_eq!(body(&cache), None);
    assert!(matches!(cache.find(&other), Ok(None)));
}

#[test]
fn reads_hold_only_if_all_are_cached_unchanged() {
    let cache = RecordCache::default();
    cache.keep((0, NOW), &address(), &found(b"x"));
    cache.keep((0, NOW), &Address::new(Space::Data, "absent"), &None);
    let holds_after = |stamps: &[(&str, Option<Stamp>)], ended| {
        let stamps = stamps.iter().map(|(key, stamp)| (Address::new(Space::Data, *key), *stamp));
        cache.holds(&stamps.collect(), ended)
    };
    let holds = |stamps: &[(&str, Option<Stamp>)]| holds_after(stamps, LATER);
    assert!(!holds_after(&[("absent", None)], NOW), "not settled");
    assert!(holds(&[("role", Some(Stamp([1; 16]))), ("absent", None)]));
    assert!(!holds(&[("role", Some(Stamp([2; 16]))), ("absent", None)]));
    assert!(!holds(&[("role", None)]));
    assert!(!holds(&[("absent", Some(Stamp([1; 16])))]));
    assert!(!holds(&[("role", Some(Stamp([1; 16]))), ("unknown", None)]));
}

#[test]
fn change_of_other_process_outlasts_own_commit() {
    let cache = RecordCache::default();
    let (reads, writes) = (ReadSet::default(), WriteSet::default());
    let mut work = CommitRequest { reads, writes, limits: Vec::new(), turn: None };
    let Some((stamp, record)) = found(b"own") else { panic!("a record") };
    work.writes.in_use.push((address(), stamp, record));
    // The answer of the commit comes after the change of another process.
    cache.begin_writing([address()].iter());
    cache.evict([address()].iter());
    cache.end_writing([&work].into_iter(), NOW);
    assert_eq!(body(&cache), None);
    cache.begin_writing([address()].iter());
    cache.end_writing([&work].into_iter(), NOW);
    assert_eq!(body(&cache).unwrap(), b"own");
}

#[test]
fn read_begun_before_commit_is_not_cached() {
    let cache = RecordCache::default();
    let commits = cache.find(&address()).err().unwrap();
    cache.begin_writing([].iter());
    cache.end_writing([].iter(), NOW);
    cache.keep((commits, NOW), &address(), &found(b"old"));
    assert_eq!(body(&cache), None);
}

#[test]
fn nothing_is_cached_while_commit_is_undecided() {
    let cache = RecordCache::default();
    cache.begin_writing([address()].iter());
    cache.begin_doubt();
    cache.end_writing([].iter(), NOW);
    let commits = cache.find(&address()).err().unwrap();
    cache.keep((commits, NOW), &address(), &found(b"old"));
    assert_eq!(body(&cache), None);
    cache.end_doubt();
    cache.keep((commits, NOW), &address(), &found(b"old"));
    assert_eq!(body(&cache), None, "the read began before the decision");
    let commits = cache.find(&address()).err().unwrap();
    cache.keep((commits, NOW), &address(), &found(b"new"));
    assert_eq!(body(&cache).as_deref(), Some(b"new".as_slice()));
}

#[test]
fn absence_is_cached_and_leases_are_not() {
    let cache = RecordCache::default();
    cache.keep((0, NOW), &address(), &None);
    assert!(matches!(cache.find(&address()), Ok(None)));
    let lease = Address::new(Space::Lease, "a");
    cache.keep((0, NOW), &lease, &found(b"x"));
    assert!(cache.find(&lease).is_err());
    let token = Address::new(Space::Token, "invented");
    cache.keep((0, NOW), &token, &None);
    assert!(cache.find(&token).is_err(), "whoever invents tokens fills no memory");
    cache.keep((0, NOW), &token, &found(b"x"));
    assert!(cache.find(&token).is_ok());
    cache.clear();
    assert!(cache.find(&token).is_err() && cache.find(&address()).is_err());
}

#[test]
fn it_starts_anew_when_it_is_full() {
    let cache = RecordCache::default();
    for number in 0..70 {
        let large = vec![0; 1 << 20];
        cache.keep((0, NOW), &Address::new(Space::Data, number.to_string()), &found(&large));
    }
    let contents = cache.lock();
    assert!(
        contents.bytes <= MOST_BYTES && !contents.records.is_empty(),
        "{} bytes",
        contents.bytes
    );
}
