//! Tests of `secret_ids.rs` on the test bed.

use crate::fixture::TestMount;
use bulkhead_sdk::{FailureKind, Host};
use serde_json::json;

#[test]
fn secret_id_is_generated_listed_looked_up_destroyed() {
    let stage = TestMount::new(&json!({"secret_id_num_uses": 5, "secret_id_ttl": "1h"}));
    let answer = stage.secret_id("web", &json!({"num_uses": 2, "metadata": {"owner": "web"}}));
    assert_eq!(
        (&answer["secret_id_ttl"], &answer["secret_id_num_uses"]),
        (&json!(3_600), &json!(2))
    );
    assert_eq!(answer.as_object().unwrap().len(), 4);
    let accessor = &answer["secret_id_accessor"];
    assert_eq!(stage.accessors("web"), [accessor.as_str().unwrap()]);
    let shown = stage.of_secret("web", "lookup", &answer["secret_id"]).ok().unwrap().data;
    assert_eq!(shown, stage.of_accessor("web", "lookup", accessor).ok().unwrap().data);
    assert_eq!(shown["metadata"], json!({"owner": "web"}));
    assert_eq!((&shown["cidr_list"], &shown["token_bound_cidrs"]), (&json!([]), &json!([])));
    for name in ["creation_time", "last_updated_time", "expiration_time"] {
        assert!(shown[name].as_str().unwrap().ends_with('Z'), "{name}");
    }
    assert!(!shown.contains_key("secret_id"));
    stage.of_secret("web", "destroy", &answer["secret_id"]).ok().unwrap();
    assert!(stage.accessors("web").is_empty() && stage.login("web", &answer).is_err());
    let other = stage.secret_id("web", &json!({}));
    stage.of_accessor("web", "destroy", &other["secret_id_accessor"]).ok().unwrap();
    assert!(stage.accessors("web").is_empty() && stage.login("web", &other).is_err());
}

#[test]
fn only_keyed_hash_of_secret_id_is_stored() {
    let stage = TestMount::new(&json!({}));
    let answer = stage.secret_id("web", &json!({}));
    let secret_id = answer["secret_id"].as_str().unwrap();
    let mut after = String::new();
    while let Some(key) = stage.bed.host.storage().keys("", &after, 1).unwrap().pop() {
        let value = stage.bed.host.storage().get_bytes(&key).unwrap().unwrap();
        let value = String::from_utf8(value).unwrap();
        assert!(!key.contains(secret_id) && !value.contains(secret_id), "{key}");
        after = key;
    }
    assert!(!after.is_empty());
}

#[test]
fn role_cannot_reach_secret_id_of_other_role() {
    let stage = TestMount::new(&json!({}));
    stage.role("ops", &json!({}));
    let of_ops = stage.secret_id("ops", &json!({}));
    let (secret_id, accessor) = (&of_ops["secret_id"], &of_ops["secret_id_accessor"]);
    assert!(stage.of_secret("web", "lookup", secret_id).ok().unwrap().data.is_empty());
    stage.of_secret("web", "destroy", secret_id).ok().unwrap();
    for act in ["lookup", "destroy"] {
        let text = accessor.as_str().unwrap();
        for accessor in
            [text.to_owned(), format!("../ops/{text}"), format!("{text}/"), "..".to_owned()]
        {
            let refused = stage.of_accessor("web", act, &json!(accessor)).err().unwrap();
            assert_eq!(refused.kind, FailureKind::NotFound, "{act} {accessor}");
        }
    }
    assert!(stage.login("ops", &of_ops).is_ok(), "nothing was removed");
    assert_eq!(stage.accessors("ops").len(), 1);
}

#[test]
fn a_secret_id_stays_within_its_role() {
    let stage = TestMount::new(&json!({
        "secret_id_num_uses": 5, "secret_id_ttl": 60, "secret_id_bound_cidrs": "10.0.0.0/8",
        "token_bound_cidrs": "10.0.0.0/8",
    }));
    for (fields, says) in [
        (json!({"num_uses": 6}), "num_uses cannot be 6: the role's secret_id_num_uses is 5"),
        (json!({"num_uses": 0}), "num_uses cannot be 0"),
        (json!({"num_uses": -1}), "num_uses cannot be -1"),
        (json!({"ttl": 61}), "ttl cannot be 61"),
        (json!({"ttl": 0}), "ttl cannot be 0"),
        (json!({"cidr_list": "0.0.0.0/0"}), "cidr_list: 0.0.0.0/0 is not within"),
        (json!({"cidr_list": "10.0.0.0/8,11.0.0.0/8"}), "cidr_list: 11.0.0.0/8 is not within"),
        (json!({"token_bound_cidrs": "::/0"}), "token_bound_cidrs: ::/0 is not within"),
        (json!({"cidr_list": "none"}), "cidr_list: error parsing address"),
        (json!({"metadata": "{"}), "metadata is not a set of texts"),
        (json!({"metadata": {"": "x"}}), "metadata"),
    ] {
        let refused = stage.bed.write("role/web/secret-id", &fields).err().unwrap();
        assert_eq!(refused.kind, FailureKind::InvalidRequest, "{fields}");
        assert!(refused.message.contains(says), "{fields}: {}", refused.message);
    }
    assert!(stage.accessors("web").is_empty());
    let answer = stage.secret_id("web", &json!({"cidr_list": ["10.1.2.3/32"], "ttl": 30}));
    let shown = stage.of_secret("web", "lookup", &answer["secret_id"]).ok().unwrap().data;
    assert_eq!(shown["cidr_list"], json!(["10.1.2.3/32"]), "the list is shown as written");
    assert!(stage.login("web", &answer).is_ok());
    let unknown = stage.bed.write("role/none/secret-id", &json!({})).err().unwrap();
    assert_eq!(unknown.kind, FailureKind::NotFound);
}

#[test]
fn a_lifetime_ends_at_the_mounts_maximum() {
    let mut stage = TestMount::new(&json!({}));
    stage.bed.mount.max_ttl = 100;
    let answer = stage.bed.write("role/web/secret-id", &json!({"ttl": 200})).ok().unwrap();
    assert_eq!(answer.data["secret_id_ttl"], json!(100));
    assert_eq!(answer.warnings.len(), 1, "{:?}", answer.warnings);
}

#[test]
fn a_chosen_secret_id_is_long_and_new() {
    let stage = TestMount::new(&json!({}));
    let add = |secret_id: &str, ttl: u64| {
        let fields = json!({"secret_id": secret_id, "ttl": ttl});
        stage.bed.write("role/web/custom-secret-id", &fields)
    };
    for secret_id in ["", "short", &"x".repeat(5_000)] {
        assert_eq!(add(secret_id, 0).err().unwrap().kind, FailureKind::InvalidRequest);
    }
    let answer = add("a-secret-id-of-our-own", 60).ok().unwrap();
    assert_eq!(answer.data["secret_id"], "a-secret-id-of-our-own");
    assert!(answer.warnings.is_empty());
    assert!(add("a-secret-id-of-our-own", 60).err().unwrap().message.contains("already"));
    stage.bed.host.advance(60);
    add("a-secret-id-of-our-own", 60).ok().unwrap();
    assert_eq!(stage.accessors("web").len(), 1, "the accessor of the expired one is gone");
    assert_eq!(add("testsecretid", 0).ok().unwrap().warnings.len(), 1);
}

#[test]
fn metadata_may_be_a_list_of_pairs() {
    let stage = TestMount::new(&json!({}));
    let answer = stage.secret_id("web", &json!({"metadata": ["owner=web", "size = 3"]}));
    let shown = stage.of_secret("web", "lookup", &answer["secret_id"]).ok().unwrap().data;
    assert_eq!(shown["metadata"], json!({"owner": "web", "size": "3"}));
    for metadata in [json!(7), json!(["owner"]), json!([7])] {
        let fields = json!({"metadata": metadata});
        let refused = stage.bed.write("role/web/secret-id", &fields).err().unwrap();
        assert!(refused.message.contains("metadata is not a set of texts"), "{metadata}");
    }
}

#[test]
fn times_of_a_secret_id_are_shown_exactly() {
    let stage = TestMount::new(&json!({"secret_id_num_uses": 2}));
    let lasting = stage.secret_id("web", &json!({}));
    let ending = stage.secret_id("web", &json!({"ttl": "1h"}));
    let times = |answer: &serde_json::Value| {
        let shown = stage.of_secret("web", "lookup", &answer["secret_id"]).ok().unwrap().data;
        ["creation_time", "last_updated_time", "expiration_time"].map(|name| shown[name].clone())
    };
    // The clock of the test bed begins with the year 2030.
    let start = "2030-01-01T00:00:00Z";
    assert_eq!(times(&lasting), [start, start, "0001-01-01T00:00:00Z"]);
    assert_eq!(times(&ending), [start, start, "2030-01-01T01:00:00Z"]);
    stage.bed.host.advance(90);
    assert!(stage.login("web", &ending).is_ok());
    assert_eq!(times(&ending), [start, "2030-01-01T00:01:30Z", "2030-01-01T01:00:00Z"]);
}

#[test]
fn a_mount_without_maximum_shortens_no_lifetime() {
    let mut stage = TestMount::new(&json!({}));
    stage.bed.mount.max_ttl = 0;
    let answer = stage.bed.write("role/web/secret-id", &json!({"ttl": 200})).ok().unwrap();
    assert_eq!((&answer.data["secret_id_ttl"], answer.warnings.len()), (&json!(200), 0));
}

#[test]
fn lengths_of_chosen_secret_ids_are_bounded() {
    let stage = TestMount::new(&json!({}));
    for (length, warnings) in
        [(11, None), (12, Some(1)), (19, Some(1)), (20, Some(0)), (4_096, Some(0)), (4_097, None)]
    {
        let fields = json!({"secret_id": "x".repeat(length)});
        let added = stage.bed.write("role/web/custom-secret-id", &fields);
        assert_eq!(added.ok().map(|answer| answer.warnings.len()), warnings, "{length}");
    }
}
