//! Tests of migrations in steps.

use super::*;
use crate::call::Context;
use crate::engine::SecretsEngine;
use crate::mounted_plugin::MountedPlugin;
use crate::table::Row;
use crate::testbed::TestBed;
use bulkhead_wire::failure::FailureKind;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Old {
    text: String,
}

#[derive(Serialize, Deserialize)]
struct New {
    words: usize,
}

impl Stored for Old {
    const KIND: &'static str = "old";
}

impl Stored for New {
    const KIND: &'static str = "new";
}

struct Words;

impl MountedPlugin for Words {
    const NAME: &'static str = "words";
    const VERSION: &'static str = "2.0.0";
    const SCHEMA: u32 = 2;
    const ABOUT: &'static str = "Counts words.";
    const TABLE: &'static [Row] = &[];

    fn migrate(host: &dyn Host, _context: &Context, from: u32) -> Result<(), Failure> {
        assert_eq!(from, 1);
        let mut steps = MigrationSteps::begin(host)?;
        let count =
            |_: &str, old: Old| Ok(Some(New { words: old.text.split_whitespace().count() }));
        steps.table("note/", count)?;
        steps.table_bytes("trash/", |_, _| Ok(None))?;
        steps.table("page/", count)?;
        steps.end()
    }
}

impl SecretsEngine for Words {}

fn bed(notes: u32, pages: u32, text: &str) -> TestBed<Words> {
    let bed = TestBed::new().unwrap();
    let storage = bed.host.storage();
    let old = Old { text: text.to_owned() };
    for number in 0..notes {
        storage.put(&format!("note/{number:05}"), &old).unwrap();
        storage.put(&format!("trash/{number:05}"), &old).unwrap();
    }
    for number in 0..pages {
        storage.put(&format!("page/{number:05}"), &old).unwrap();
    }
    bed.host.commit();
    bed
}

/// Asserts that each record was transformed, exactly once.
fn check(bed: &TestBed<Words>, notes: u32, pages: u32) {
    let storage = bed.host.storage();
    for (prefix, count) in [("note/", notes), ("page/", pages)] {
        let mut found = 0;
        let seen = storage.scan(prefix, |_, entry: crate::host::Entry<New>| {
            assert_eq!(entry.value.words, 2);
            found += 1;
            Ok(())
        });
        assert_eq!((seen, found), (Ok(()), count), "{prefix}");
    }
    assert!(storage.keys("trash/", "", 1).unwrap().is_empty());
}

#[test]
fn few_records_are_migrated_in_one_step() {
    let bed = bed(100, 50, "two words");
    assert_eq!(bed.migrate(1), Ok(1));
    check(&bed, 100, 50);
}

#[test]
fn many_records_migrate_in_steps_through_all_tables() {
    let bed = bed(1_200, 700, "two words");
    assert_eq!(bed.migrate(1), Ok(7), "3,100 records in steps of 500");
    check(&bed, 1_200, 700);
}

#[test]
fn large_records_end_a_step_early() {
    let bed = bed(0, 20, &format!("two {}", "x".repeat(300_000)));
    assert_eq!(bed.migrate(1), Ok(6), "four records of 300 kB a step, and the end");
    check(&bed, 0, 20);
}

#[test]
fn failed_step_keeps_earlier_steps_for_next_migration() {
    let bed = bed(1_200, 0, "two words");
    bed.host.refuse("continue-at", Failure::new(FailureKind::Unavailable, "full"));
    assert!(bed.migrate(1).is_err());
    let first: Option<Old> = bed.host.storage().get("note/00000").unwrap();
    assert!(first.is_some(), "the failed step is rolled back");
    bed.host.die_after("continue-at");
    assert_eq!(bed.migrate(1).err().unwrap().message, "the process died");
    assert_eq!(bed.migrate(1), Ok(5), "2,400 records");
    check(&bed, 1_200, 0);
}

#[test]
fn only_a_migration_has_steps() {
    let bed = bed(0, 0, "");
    assert_eq!(
        MigrationSteps::begin(&bed.host).err().unwrap().kind,
        FailureKind::UnsupportedOperation
    );
    let outside = bed.host.migration().continue_at("0/").unwrap_err();
    assert_eq!(outside.kind, FailureKind::UnsupportedOperation);
}
