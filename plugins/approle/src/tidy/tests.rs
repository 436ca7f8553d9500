//! Tests of `tidy.rs` on the test bed.

use super::PAGE;
use crate::fixture::TestMount;
use bulkhead_sdk::Host;
use serde_json::json;

fn keys(stage: &TestMount, prefix: &str) -> usize {
    stage.bed.host.storage().keys(prefix, "", 1_000).unwrap().len()
}

/// Runs a timer until it is not set again, as the host does.
fn run(stage: &TestMount, key: &str) {
    let runs = (0..100).take_while(|_| stage.bed.wake(key, 1).is_ok()).count();
    assert!((1..100).contains(&runs), "{key} ran {runs} times");
}

#[test]
fn secret_id_is_removed_only_at_its_end() {
    let stage = TestMount::new(&json!({}));
    stage.secret_id("web", &json!({"ttl": 60}));
    let hash = stage.bed.host.storage().keys("secret/", "", 1).unwrap().remove(0);
    let key = format!("end/{hash}");
    assert!(stage.bed.host.timer(&key).is_some());
    stage.bed.wake(&key, 1).unwrap();
    assert_eq!(keys(&stage, "secret/"), 1, "tidy removes nothing before the end");
    stage.secret_id("web", &json!({"ttl": 60}));
    stage.bed.host.advance(60);
    let hash = stage.bed.host.storage().keys("secret/", "", 2).unwrap();
    let left = hash.iter().find(|hash| stage.bed.host.timer(&format!("end/{hash}")).is_some());
    stage.bed.wake(&format!("end/{}", left.unwrap()), 1).unwrap();
    assert_eq!((keys(&stage, "secret/"), keys(&stage, "accessor/")), (1, 1));
    assert!(stage.bed.wake("another", 1).is_err());
}

#[test]
fn tidy_removes_expired_secret_ids_only() {
    let stage = TestMount::new(&json!({}));
    let valid = stage.secret_id("web", &json!({}));
    let longer = stage.secret_id("web", &json!({"ttl": 120}));
    (0..3).for_each(|_| drop(stage.secret_id("web", &json!({"ttl": 60}))));
    stage.bed.host.advance(60);
    let started = stage.bed.write("tidy/secret-id", &json!({})).ok().unwrap();
    assert_eq!(started.warnings.len(), 1);
    run(&stage, "tidy-expired/");
    run(&stage, "tidy-dangling/");
    assert_eq!((keys(&stage, "secret/"), keys(&stage, "accessor/")), (2, 2));
    assert!(stage.login("web", &valid).is_ok() && stage.login("web", &longer).is_ok());
}

#[test]
fn secret_ids_of_removed_role_are_removed_pagewise() {
    let stage = TestMount::new(&json!({}));
    stage.role("ops", &json!({}));
    let of_ops = stage.secret_id("ops", &json!({}));
    for number in 0..250 {
        // The random numbers of the test bed repeat, so the secret ids are chosen.
        let fields = json!({"ttl": 60, "secret_id": format!("chosen-secret-id-{number:04}")});
        stage.bed.write("role/web/custom-secret-id", &fields).ok().unwrap();
    }
    let id = stage.bed.host.stored("role/web").unwrap()["id"].as_str().unwrap().to_owned();
    stage.bed.delete("role/web").ok().unwrap();
    stage.role("web", &json!({}));
    let of_new = stage.secret_id("web", &json!({}));
    run(&stage, &format!("removal/{id}"));
    assert_eq!((keys(&stage, "secret/"), keys(&stage, "accessor/")), (2, 2));
    assert!(stage.login("ops", &of_ops).is_ok() && stage.login("web", &of_new).is_ok());
}

/// A mount with one secret id more than tidy looks at in a call; each ends after a minute.
fn with_two_pages() -> TestMount {
    let stage = TestMount::new(&json!({}));
    for number in 0..=PAGE {
        let fields = json!({"ttl": 60, "secret_id": format!("chosen-secret-id-{number:04}")});
        stage.bed.write("role/web/custom-secret-id", &fields).ok().unwrap();
    }
    stage
}

/// Runs the timers of all pages of `records`; returns the number of pages.
fn run_pages(stage: &TestMount, timer: &str, records: &str) -> usize {
    let (mut after, mut pages) = (String::new(), 0);
    loop {
        let page = stage.bed.host.storage().keys(records, &after, PAGE).unwrap();
        stage.bed.wake(&format!("{timer}{after}"), 1).unwrap();
        let Some(last) = page.last() else { return pages };
        (after, pages) = (last.clone(), pages + 1);
    }
}

#[test]
fn tidy_looks_at_every_page_of_secret_ids() {
    let stage = with_two_pages();
    stage.bed.host.advance(60);
    stage.bed.write("tidy/secret-id", &json!({})).ok().unwrap();
    assert_eq!(run_pages(&stage, "tidy-expired/", "secret/"), 2);
    assert_eq!((keys(&stage, "secret/"), keys(&stage, "accessor/")), (0, 0));
}

#[test]
fn tidy_removes_accessors_without_secret_id() {
    let stage = with_two_pages();
    let hashes = stage.bed.host.storage().keys("secret/", "", 1_000).unwrap();
    for hash in &hashes[1..] {
        stage.bed.host.storage().delete(&format!("secret/{hash}")).unwrap();
    }
    stage.bed.write("tidy/secret-id", &json!({})).ok().unwrap();
    assert_eq!(run_pages(&stage, "tidy-dangling/", "accessor/"), 2);
    assert_eq!((keys(&stage, "secret/"), keys(&stage, "accessor/")), (1, 1));
}
