//! Tests of metadata.
use crate::fixture::{message, v2};
use bulkhead_sdk::Host;
use bulkhead_sdk::wire::failure::FailureKind;
use serde_json::{Value, json};

#[test]
fn metadata_show_versions_and_rules() {
    let bed = v2();
    assert_eq!(bed.read("metadata/x").err().unwrap().kind, FailureKind::NotFound);
    bed.write("data/x", &json!({"data": {}})).unwrap();
    let rules = json!({
        "max_versions": 5, "cas_required": true, "delete_version_after": "30m",
        "custom_metadata": {"owner": "blue", "level": 3},
    });
    bed.write("metadata/x", &rules).unwrap();
    let shown = bed.read("metadata/x").unwrap().data;
    assert_eq!(shown["max_versions"], json!(5));
    assert_eq!(shown["cas_required"], json!(true));
    assert_eq!(shown["delete_version_after"], json!("30m0s"));
    assert_eq!(shown["custom_metadata"], json!({"owner": "blue", "level": "3"}));
    assert_eq!((&shown["current_version"], &shown["oldest_version"]), (&json!(1), &json!(0)));
    assert_eq!(shown["versions"]["1"]["destroyed"], json!(false));
    let data = bed.read("data/x").unwrap().data;
    assert_eq!(data["metadata"]["custom_metadata"]["owner"], json!("blue"));
}

#[test]
fn secret_may_have_metadata_before_first_version() {
    let bed = v2();
    bed.write("metadata/x", &json!({})).unwrap();
    let shown = bed.read("metadata/x").unwrap().data;
    assert_eq!((&shown["current_version"], &shown["versions"]), (&json!(0), &json!({})));
    assert_eq!(bed.read("data/x").err().unwrap().kind, FailureKind::NotFound);
    let first = json!({"data": {}, "options": {"cas": 0}});
    assert_eq!(bed.write("data/x", &first).unwrap().data["version"], json!(1));
}

#[test]
fn a_patch_changes_single_pairs_and_null_unsets() {
    let bed = v2();
    assert_eq!(bed.patch("metadata/x", &json!({})).err().unwrap().kind, FailureKind::NotFound);
    let before = json!({"max_versions": 3, "cas_required": true, "delete_version_after": "1h",
        "custom_metadata": {"a": "1", "b": "2"}});
    bed.write("metadata/x", &before).unwrap();
    bed.patch("metadata/x", &json!({"custom_metadata": {"a": null, "c": "3"}})).unwrap();
    let shown = bed.read("metadata/x").unwrap().data;
    assert_eq!(shown["custom_metadata"], json!({"b": "2", "c": "3"}));
    assert_eq!(shown["max_versions"], json!(3));
    let nothing = json!({"max_versions": null, "cas_required": null,
        "delete_version_after": null, "custom_metadata": null});
    bed.patch("metadata/x", &nothing).unwrap();
    let shown = bed.read("metadata/x").unwrap().data;
    assert_eq!((&shown["max_versions"], &shown["cas_required"]), (&json!(0), &json!(false)));
    assert_eq!(shown["delete_version_after"], json!("0s"));
    assert_eq!(shown["custom_metadata"], Value::Null);
}

#[test]
fn custom_metadata_are_few_short_texts() {
    let bed = v2();
    let many: Value = (0..65).map(|n| (n.to_string(), json!("x"))).collect();
    for wrong in [
        json!("text"),
        json!({"a": ["b"]}),
        json!({"a": "x".repeat(513)}),
        json!({"k".repeat(129): "x"}),
        json!({"": "x"}),
        many,
    ] {
        let why = message(bed.write("metadata/x", &json!({"custom_metadata": wrong})));
        assert!(why.starts_with("custom_metadata"), "{why}");
    }
    assert!(bed.read("metadata/x").is_err());
}

#[test]
fn removed_metadata_take_all_versions_along() {
    let bed = v2();
    for path in ["x", "x/y"] {
        bed.write(&format!("data/{path}"), &json!({"data": {}})).unwrap();
        bed.write(&format!("data/{path}"), &json!({"data": {}})).unwrap();
    }
    bed.delete("metadata/x").unwrap();
    bed.delete("metadata/absent").unwrap();
    assert_eq!(bed.host.storage().keys("version/", "", 9).unwrap(), ["x/y/1", "x/y/2"]);
    assert_eq!(bed.list("metadata").unwrap().data["keys"], json!(["x/"]));
    assert_eq!(bed.list("metadata/x").unwrap().data["keys"], json!(["y"]));
    let again = bed.write("data/x", &json!({"data": {}, "options": {"cas": 0}})).unwrap();
    assert_eq!(again.data["version"], json!(1));
}

#[test]
fn a_secret_with_thousands_of_versions_is_deleted() {
    let bed = v2();
    bed.write("data/x", &json!({"data": {}})).unwrap();
    let mut metadata = bed.host.stored("meta/x").unwrap();
    let storage = (&bed.host as &dyn Host).storage();
    for number in 1..=2_500 {
        metadata["versions"][number.to_string()] = metadata["versions"]["1"].clone();
        storage.put_bytes(&format!("version/x/{number}"), b"{}".to_vec()).unwrap();
        if number % 500 == 0 {
            storage.put_bytes("meta/x", metadata.to_string().into_bytes()).unwrap();
            storage.checkpoint().unwrap();
        }
    }
    bed.delete("metadata/x").unwrap();
    assert_eq!(bed.read("metadata/x").err().unwrap().kind, FailureKind::NotFound);
    assert_eq!(storage.keys("", "", 10).unwrap(), Vec::<String>::new());
}
