//! Tests of the versions of a secret's data.
use crate::fixture::{message, v2};
use bulkhead_sdk::Host;
use bulkhead_sdk::wire::failure::FailureKind;
use serde_json::{Value, json};

#[test]
fn each_write_creates_readable_version() {
    let bed = v2();
    for number in 1..=3 {
        let written = bed.write("data/a/b", &json!({"data": {"n": number}})).unwrap().data;
        assert_eq!(written["version"], json!(number));
        assert_eq!(written["deletion_time"], json!(""));
        assert_eq!(
            (&written["destroyed"], &written["custom_metadata"]),
            (&json!(false), &Value::Null)
        );
        assert!(written["created_time"].as_str().unwrap().ends_with('Z'));
    }
    let latest = bed.read("data/a/b").unwrap();
    assert!(!latest.is_absent);
    assert_eq!(latest.data["data"], json!({"n": 3}));
    assert_eq!(latest.data["metadata"]["version"], json!(3));
    assert_eq!(bed.read("data/a").err().unwrap().kind, FailureKind::NotFound);
}

#[test]
fn data_must_be_object_and_are_not_repeated() {
    let bed = v2();
    for (body, told) in [
        (json!({}), "no data were given"),
        (json!({"data": null}), "no data were given"),
        (json!({"password": "hunter2"}), "no data were given"),
        (json!({"data": "hunter2"}), "must be an object"),
        (json!({"data": ["hunter2"]}), "must be an object"),
    ] {
        let why = message(bed.write("data/x", &body));
        assert!(why.contains(told) && !why.contains("hunter2"), "{why}");
    }
    bed.write("data/x", &json!({"data": {}})).unwrap();
    assert_eq!(bed.read("data/x").unwrap().data["data"], json!({}));
}

#[test]
fn a_write_with_cas_needs_the_current_version() {
    let bed = v2();
    let write = |cas: Value| bed.write("data/x", &json!({"data": {}, "options": {"cas": cas}}));
    let why = message(write(json!(1)));
    assert!(why.contains("options.cas is 1, and the current version is 0"), "{why}");
    write(json!(0)).unwrap();
    let why = message(write(json!(0)));
    assert!(why.contains("the current version is 1"), "{why}");
    write(json!("1")).unwrap();
    write(Value::Null).unwrap();
    for wrong in [json!(-1), json!("x"), json!(1.5), json!([1])] {
        let why = message(write(wrong));
        assert!(why.contains("options.cas ") && why.contains("whole number from 0"), "{why}");
    }
    let why = message(bed.write("data/x", &json!({"data": {}, "options": "cas"})));
    assert!(why.starts_with("options must be an object"), "{why}");
}

#[test]
fn cas_may_be_required_by_mount_or_secret() {
    let bed = v2();
    let required = json!({"cas_required": true});
    bed.write("metadata/one", &required).unwrap();
    let write = |path: &str| bed.write(&format!("data/{path}"), &json!({"data": {}}));
    assert!(message(write("one")).starts_with("check-and-set parameter required"));
    write("two").unwrap();
    bed.write("config", &required).unwrap();
    assert!(message(write("two")).starts_with("check-and-set parameter required"));
    bed.write("data/two", &json!({"data": {}, "options": {"cas": 1}})).unwrap();
}

#[test]
fn a_patch_changes_the_latest_version() {
    let bed = v2();
    let patch = |data: Value| bed.patch("data/x", &json!({"data": data}));
    assert_eq!(patch(json!({"a": 1})).err().unwrap().kind, FailureKind::NotFound);
    bed.write("data/x", &json!({"data": {"a": 1, "b": {"c": 2}, "d": 3}})).unwrap();
    let written = patch(json!({"a": null, "b": {"e": 4}, "f": 5})).unwrap().data;
    assert_eq!(written["version"], json!(2));
    let data = &bed.read("data/x").unwrap().data["data"];
    assert_eq!(*data, json!({"b": {"c": 2, "e": 4}, "d": 3, "f": 5}));
    let with_cas = json!({"data": {"g": 6}, "options": {"cas": 1}});
    assert!(message(bed.patch("data/x", &with_cas)).contains("current version is 2"));
    bed.delete("data/x").unwrap();
    let gone = patch(json!({"a": 1})).unwrap();
    assert!(gone.is_absent && gone.data["metadata"]["version"] == json!(2));
}

#[test]
fn a_deleted_version_is_absent_with_its_facts() {
    let bed = v2();
    bed.delete("data/x").unwrap();
    bed.write("data/x", &json!({"data": {"n": 1}})).unwrap();
    bed.delete("data/x").unwrap();
    let gone = bed.read("data/x").unwrap();
    assert!(gone.is_absent && gone.data["data"].is_null());
    assert_eq!(gone.data["metadata"]["version"], json!(1));
    assert_eq!(gone.data["metadata"]["destroyed"], json!(false));
    assert_ne!(gone.data["metadata"]["deletion_time"], json!(""));
    let next = bed.write("data/x", &json!({"data": {"n": 2}})).unwrap();
    assert_eq!(next.data["version"], json!(2));
}

#[test]
fn version_with_lifetime_is_deleted_at_end() {
    let bed = v2();
    bed.write("config", &json!({"delete_version_after": "10s"})).unwrap();
    let written = bed.write("data/x", &json!({"data": {"n": 1}})).unwrap().data;
    assert_ne!(written["deletion_time"], json!(""));
    assert!(!bed.read("data/x").unwrap().is_absent);
    bed.host.advance(10);
    assert!(bed.read("data/x").unwrap().is_absent);
}

#[test]
fn the_oldest_versions_are_removed_with_their_data() {
    let bed = v2();
    for number in 1..=12 {
        bed.write("data/x", &json!({"data": {"n": number}})).unwrap();
    }
    let metadata = bed.read("metadata/x").unwrap().data;
    assert_eq!(metadata["oldest_version"], json!(3));
    assert_eq!(metadata["versions"].as_object().unwrap().len(), 10);
    let stored = bed.host.storage().keys("version/", "", 100).unwrap();
    assert_eq!(stored.len(), 10);
}
