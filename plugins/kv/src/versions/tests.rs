//! Tests of changes of given versions.
use crate::KeyValue;
use crate::fixture::{message, v2};
use bulkhead_sdk::Host;
use bulkhead_sdk::testbed::TestBed;
use serde_json::{Value, json};

fn with_versions(count: u64) -> TestBed<KeyValue> {
    let bed = v2();
    for number in 1..=count {
        bed.write("data/x", &json!({"data": {"n": number}})).unwrap();
    }
    bed
}

fn versions(bed: &TestBed<KeyValue>) -> Value {
    bed.read("metadata/x").unwrap().data["versions"].clone()
}

#[test]
fn versions_are_deleted_and_brought_back() {
    let bed = with_versions(3);
    bed.write("delete/x", &json!({"versions": [1, "3"]})).unwrap();
    let after = versions(&bed);
    assert_ne!(after["1"]["deletion_time"], json!(""));
    assert_eq!(after["2"]["deletion_time"], json!(""));
    assert!(bed.read("data/x").unwrap().is_absent);
    bed.write("undelete/x", &json!({"versions": "1,3"})).unwrap();
    assert_eq!(versions(&bed)["1"]["deletion_time"], json!(""));
    assert_eq!(bed.read("data/x").unwrap().data["data"], json!({"n": 3}));
}

#[test]
fn destroyed_data_are_removed_despite_undelete() {
    let bed = with_versions(2);
    bed.write("destroy/x", &json!({"versions": [2]})).unwrap();
    assert_eq!(bed.host.storage().keys("version/", "", 9).unwrap(), ["x/1"]);
    bed.write("undelete/x", &json!({"versions": [2]})).unwrap();
    let gone = bed.read("data/x").unwrap();
    assert!(gone.is_absent && gone.data["metadata"]["destroyed"] == json!(true));
    assert_eq!(versions(&bed)["2"]["destroyed"], json!(true));
}

#[test]
fn versions_that_are_not_there_are_left_out() {
    let bed = with_versions(1);
    for action in ["delete", "undelete", "destroy"] {
        bed.write(&format!("{action}/x"), &json!({"versions": [7]})).unwrap();
        bed.write(&format!("{action}/absent"), &json!({"versions": [1]})).unwrap();
        let why = message(bed.write(&format!("{action}/x"), &json!({})));
        assert!(why.starts_with("no version number was given"), "{why}");
        for wrong in [json!([0]), json!(["x"]), json!([-1])] {
            let why = message(bed.write(&format!("{action}/x"), &json!({"versions": wrong})));
            assert!(why.starts_with("versions: "), "{why}");
        }
    }
    assert_eq!(bed.read("data/x").unwrap().data["data"], json!({"n": 1}));
}
