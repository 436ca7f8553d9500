//! Tests of `roles.rs` and `setting.rs` on the test bed.

use crate::fixture::TestMount;
use bulkhead_sdk::FailureKind;
use serde_json::{Value, json};

#[test]
fn role_is_created_shown_listed_changed_and_removed() {
    let stage = TestMount::new(&json!({"policies": "b,a", "period": 60, "secret_id_ttl": "10m"}));
    let shown = stage.bed.read("role/web").ok().unwrap().data;
    for (name, value) in [
        ("bind_secret_id", json!(true)),
        ("local_secret_ids", json!(false)),
        ("secret_id_bound_cidrs", json!([])),
        ("secret_id_num_uses", json!(0)),
        ("secret_id_ttl", json!(600)),
        ("token_policies", json!(["a", "b"])),
        ("policies", json!(["a", "b"])),
        ("token_period", json!(60)),
        ("period", json!(60)),
        ("token_type", json!("default")),
    ] {
        assert_eq!(shown[name], value, "{name}");
    }
    assert!(!shown.contains_key("id") && !shown.contains_key("role_id"));
    stage.role("web", &json!({"bind_secret_id": false, "bound_cidr_list": ["10.0.0.0/8"]}));
    let shown = stage.bed.read("role/web").ok().unwrap().data;
    assert_eq!(shown["secret_id_bound_cidrs"], json!(["10.0.0.0/8"]));
    assert_eq!(shown["secret_id_ttl"], json!(600), "kept");
    assert_eq!(stage.bed.list("role").ok().unwrap().data["keys"], json!(["web"]));
    stage.bed.delete("role/web").ok().unwrap();
    assert_eq!(stage.bed.read("role/web").err().unwrap().kind, FailureKind::NotFound);
}

#[test]
fn operator_mistake_is_refused_with_remedy() {
    let stage = TestMount::new(&json!({"local_secret_ids": true}));
    for (path, body, says) in [
        ("role/bad", json!({"bind_secret_id": false}), "at least one constraint"),
        ("role/bad", json!({"secret_id_num_uses": -1}), "secret_id_num_uses cannot be -1"),
        ("role/bad", json!({"secret_id_bound_cidrs": "none"}), "secret_id_bound_cidrs"),
        ("role/bad", json!({"role_id": " "}), "role_id"),
        ("role/bad", json!({"token_type": "batch", "token_num_uses": 1}), "batch"),
        ("role/Bad", json!({}), "\"Bad\" is \"bad\""),
        ("role/web", json!({"local_secret_ids": false}), "when the role is created"),
        ("role/web/bind-secret-id", json!({"bind_secret_id": false}), "at least one constraint"),
        ("role/web/policies", json!({}), "token_policies is required"),
        ("role/web/role-id", json!({}), "role_id is required"),
    ] {
        let refused = stage.bed.write(path, &body).err().unwrap();
        assert_eq!(refused.kind, FailureKind::InvalidRequest, "{path} {body}");
        assert!(refused.message.contains(says), "{path} {body}: {}", refused.message);
    }
    assert_eq!(stage.bed.list("role").ok().unwrap().data["keys"], json!(["web"]));
    let unknown = stage.bed.write("role/bad/policies", &json!({"policies": "a"})).err().unwrap();
    assert_eq!(unknown.kind, FailureKind::NotFound);
}

#[test]
fn role_id_belongs_to_one_role_per_mount() {
    let stage = TestMount::new(&json!({"role_id": "of-web"}));
    assert_eq!(stage.role_id("web"), "of-web");
    let taken = stage.bed.write("role/ops", &json!({"role_id": "of-web"})).err().unwrap();
    assert!(taken.message.contains("in use by another role"), "{}", taken.message);
    stage.role("ops", &json!({}));
    let taken = stage.bed.write("role/ops/role-id", &json!({"role_id": "of-web"})).err().unwrap();
    assert!(taken.message.contains("in use by another role"), "{}", taken.message);
    stage.bed.write("role/web/role-id", &json!({"role_id": "other"})).ok().unwrap();
    stage.bed.write("role/web/role-id", &json!({"role_id": "other"})).ok().unwrap();
    stage.bed.write("role/ops/role-id", &json!({"role_id": "of-web"})).ok().unwrap();
    let of_web = stage.secret_id("web", &json!({}));
    assert!(stage.log_in("of-web", &of_web["secret_id"]).is_err(), "the role id is of ops now");
    assert!(stage.login("web", &of_web).is_ok());
    stage.bed.delete("role/web").ok().unwrap();
    stage.role("new", &json!({"role_id": "other"}));
}

#[test]
fn each_setting_path_shows_changes_and_resets_setting() {
    let stage = TestMount::new(&json!({"token_bound_cidrs": "192.0.2.0/24"}));
    for (path, name, value, reset) in [
        ("policies", "token_policies", json!(["a"]), json!([])),
        ("bind-secret-id", "bind_secret_id", json!(false), json!(true)),
        ("bound-cidr-list", "bound_cidr_list", json!(["10.0.0.0/8"]), json!([])),
        ("secret-id-bound-cidrs", "secret_id_bound_cidrs", json!(["10.0.0.0/8"]), json!([])),
        ("secret-id-num-uses", "secret_id_num_uses", json!(7), json!(0)),
        ("secret-id-ttl", "secret_id_ttl", json!(60), json!(0)),
        ("token-num-uses", "token_num_uses", json!(7), json!(0)),
        ("token-ttl", "token_ttl", json!(60), json!(0)),
        ("token-max-ttl", "token_max_ttl", json!(60), json!(0)),
        ("token-period", "token_period", json!(60), json!(0)),
        ("period", "token_period", json!(60), json!(0)),
        ("token-bound-cidrs", "token_bound_cidrs", json!(["10.0.0.0/8"]), json!([])),
    ] {
        let path = format!("role/web/{path}");
        stage.bed.write(&path, &json!({name: value})).ok().unwrap();
        assert_eq!(stage.bed.read(&path).ok().unwrap().data[name], value, "{path}");
        stage.bed.delete(&path).ok().unwrap();
        let shown = stage.bed.read(&path).ok().unwrap().data;
        assert_eq!(shown, *json!({name: reset}).as_object().unwrap(), "{path}");
    }
    let local = stage.bed.read("role/web/local-secret-ids").ok().unwrap().data;
    assert_eq!(local["local_secret_ids"], json!(false));
    stage.bed.write("role/web/policies", &json!({"policies": "a"})).ok().unwrap();
    let shown = Value::Object(stage.bed.read("role/web/policies").ok().unwrap().data);
    assert_eq!(shown, json!({"policies": ["a"], "token_policies": ["a"]}));
}

#[test]
fn other_settings_change_with_local_secret_ids() {
    let stage = TestMount::new(&json!({"local_secret_ids": true}));
    stage.role("web", &json!({"token_ttl": 60}));
    stage.role("web", &json!({"token_ttl": 30, "local_secret_ids": true}));
    let shown = stage.bed.read("role/web").ok().unwrap().data;
    assert_eq!((&shown["local_secret_ids"], &shown["token_ttl"]), (&json!(true), &json!(30)));
}

#[test]
fn period_paths_show_old_name_in_use() {
    let stage = TestMount::new(&json!({}));
    for path in ["role/web/period", "role/web/token-period"] {
        stage.bed.write(path, &json!({"period": 60})).ok().unwrap();
        let shown = Value::Object(stage.bed.read(path).ok().unwrap().data);
        assert_eq!(shown, json!({"period": 60, "token_period": 60}), "{path}");
        stage.bed.delete(path).ok().unwrap();
    }
}
