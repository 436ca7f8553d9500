//! Tests of `login.rs` on the test bed.

use crate::fixture::TestMount;
use bulkhead_sdk::FailureKind;
use serde_json::{Value, json};

#[test]
fn login_carries_role_and_secret_id_metadata() {
    let stage = TestMount::new(&json!({"token_policies": "dev", "token_ttl": "1h"}));
    let fields = json!({"metadata": r#"{"owner": "web", "role_name": "admin"}"#});
    let secret_id = stage.secret_id("web", &fields);
    let login = stage.login("web", &secret_id).ok().unwrap();
    assert_eq!(login.alias, stage.role_id("web"));
    assert_eq!((login.display_name.as_str(), login.token.token_ttl), ("", 3_600));
    assert_eq!(login.token.token_policies, ["dev"]);
    let of = |name: &str| login.metadata.get(name).map(String::as_str);
    assert_eq!((of("owner"), of("role_name")), (Some("web"), Some("web")), "the role's own name");
    assert_eq!(login.alias_metadata.len(), 1, "no metadata of a secret id names the identity");
}

#[test]
fn all_that_proves_nothing_gets_one_answer() {
    let stage = TestMount::new(&json!({}));
    let none_yet = stage.log_in(&stage.role_id("web"), &json!("none")).err().unwrap();
    stage.role("ops", &json!({"secret_id_num_uses": 1}));
    let of_web = stage.secret_id("web", &json!({"ttl": 60}));
    let of_ops = stage.secret_id("ops", &json!({}));
    assert!(stage.login("ops", &of_ops).is_ok());
    let spent = stage.login("ops", &of_ops).err().unwrap();
    let of_another = stage.login("ops", &of_web).err().unwrap();
    let unknown_role = stage.log_in("another", &of_web["secret_id"]).err().unwrap();
    let unknown = stage.login("web", &json!({"secret_id": "unknown"})).err().unwrap();
    let missing = stage.login("web", &json!({})).err().unwrap();
    assert!(stage.login("web", &of_web).is_ok());
    stage.bed.host.advance(60);
    let expired = stage.login("web", &of_web).err().unwrap();
    stage.bed.delete("role/web").ok().unwrap();
    for refused in [none_yet, spent, of_another, unknown_role, unknown, missing, expired] {
        assert_eq!(refused.kind, FailureKind::InvalidRequest);
        assert_eq!(refused.message.to_string(), "invalid role or secret ID");
    }
}

#[test]
fn each_use_counts_and_last_removes_secret_id() {
    let stage = TestMount::new(&json!({"secret_id_num_uses": 3}));
    let secret_id = stage.secret_id("web", &json!({}));
    for left in [2, 1] {
        assert!(stage.login("web", &secret_id).is_ok());
        let shown = stage.of_secret("web", "lookup", &secret_id["secret_id"]).ok().unwrap();
        assert_eq!(shown.data["secret_id_num_uses"], json!(left));
    }
    assert!(stage.login("web", &secret_id).is_ok());
    assert!(stage.login("web", &secret_id).is_err());
    assert_eq!(stage.accessors("web"), Vec::<String>::new());
}

#[test]
fn refused_login_from_elsewhere_spends_no_use() {
    for (role, fields) in [
        (json!({"secret_id_bound_cidrs": "10.0.0.0/8"}), json!({"num_uses": 1})),
        (json!({"token_bound_cidrs": "10.0.0.0/8"}), json!({"num_uses": 1})),
        (json!({}), json!({"num_uses": 1, "cidr_list": "10.0.0.0/8"})),
        (json!({}), json!({"num_uses": 1, "token_bound_cidrs": "10.0.0.0/8"})),
    ] {
        let mut stage = TestMount::new(&role);
        let secret_id = stage.secret_id("web", &fields);
        for address in ["192.0.2.1", "::1", "", "10.1.2.3, 192.0.2.1"] {
            stage.bed.caller.remote_address = address.to_owned();
            let refused = stage.login("web", &secret_id).err().unwrap();
            assert_eq!(refused.kind, FailureKind::PermissionDenied, "{role} {fields} {address}");
        }
        stage.bed.caller.remote_address = "::ffff:10.1.2.3".to_owned();
        assert!(stage.login("web", &secret_id).is_ok(), "{role} {fields}");
    }
}

#[test]
fn secret_id_networks_bind_its_token() {
    let stage = TestMount::new(&json!({"token_bound_cidrs": "10.0.0.0/8"}));
    let fields = json!({"token_bound_cidrs": "10.1.0.0/16"});
    let secret_id = stage.secret_id("web", &fields);
    let login = stage.login("web", &secret_id).ok().unwrap();
    assert_eq!(login.token.token_bound_cidrs, ["10.1.0.0/16"]);
    let renewed = stage.bed.renew_login(&login, 0).ok().unwrap();
    assert_eq!(renewed.token.token_bound_cidrs, ["10.1.0.0/16"]);
}

#[test]
fn narrowed_role_networks_bind_earlier_secret_ids() {
    let stage = TestMount::new(&json!({}));
    let fields = json!({"token_bound_cidrs": "10.0.0.0/8,192.0.2.0/24"});
    let secret_id = stage.secret_id("web", &fields);
    let login = stage.login("web", &secret_id).ok().unwrap();
    for (of_role, both) in [
        ("10.1.0.0/16", json!(["10.1.0.0/16"])),
        ("0.0.0.0/0", json!(["10.0.0.0/8", "192.0.2.0/24"])),
        ("10.1.2.3,192.0.2.9", json!(["10.1.2.3", "192.0.2.9"])),
    ] {
        stage.role("web", &json!({"token_bound_cidrs": of_role}));
        let again = stage.login("web", &secret_id).ok().unwrap();
        let renewed = stage.bed.renew_login(&login, 0).ok().unwrap();
        assert_eq!(json!(again.token.token_bound_cidrs), both, "{of_role}");
        assert_eq!(json!(renewed.token.token_bound_cidrs), both, "{of_role}");
    }
    stage.role("web", &json!({"token_bound_cidrs": "192.0.2.7"}));
    assert!(stage.login("web", &secret_id).is_err(), "the address is not in the role's networks");
    stage.role("web", &json!({"token_bound_cidrs": "198.51.100.0/24"}));
    for refused in [
        stage.login("web", &secret_id).err().unwrap(),
        stage.bed.renew_login(&login, 0).err().unwrap(),
    ] {
        assert_eq!(refused.kind, FailureKind::PermissionDenied);
        assert!(refused.message.contains("outside of the role's token_bound_cidrs"), "{refused}");
    }
}

#[test]
fn narrowed_uses_and_ttl_bind_earlier_secret_ids() {
    let stage = TestMount::new(&json!({}));
    let secret_id = stage.secret_id("web", &json!({}));
    assert!(stage.login("web", &secret_id).is_ok());
    stage.role("web", &json!({"secret_id_num_uses": 2}));
    assert!(stage.login("web", &secret_id).is_ok() && stage.login("web", &secret_id).is_ok());
    assert!(stage.login("web", &secret_id).is_err(), "the third login since the change");
    let lasting = stage.secret_id("web", &json!({}));
    stage.role("web", &json!({"secret_id_num_uses": 0, "secret_id_ttl": 60}));
    stage.bed.host.advance(59);
    assert!(stage.login("web", &lasting).is_ok());
    stage.bed.host.advance(1);
    assert!(stage.login("web", &lasting).is_err());
}

#[test]
fn renewal_requires_current_role_constraints() {
    let unproved = json!({"bind_secret_id": false, "secret_id_bound_cidrs": "10.0.0.0/8"});
    let stage = TestMount::new(&unproved);
    let login = stage.log_in(&stage.role_id("web"), &Value::Null).ok().unwrap();
    assert!(stage.bed.renew_login(&login, 0).is_ok());
    stage.role("web", &json!({"secret_id_bound_cidrs": "192.0.2.0/24"}));
    let refused = stage.bed.renew_login(&login, 0).err().unwrap();
    assert_eq!(refused.kind, FailureKind::PermissionDenied, "{}", refused.message);
    stage.role("web", &json!({"secret_id_bound_cidrs": "10.1.2.3", "bind_secret_id": true}));
    let refused = stage.bed.renew_login(&login, 0).err().unwrap();
    assert!(refused.message.contains("demands a secret id by now"), "{}", refused.message);
}

#[test]
fn role_without_secret_ids_is_bound_by_networks() {
    let role = json!({"bind_secret_id": false, "secret_id_bound_cidrs": "10.0.0.0/8"});
    let mut stage = TestMount::new(&role);
    assert!(stage.log_in(&stage.role_id("web"), &Value::Null).is_ok());
    assert!(stage.bed.write("role/web/secret-id", &json!({})).is_err());
    stage.bed.caller.remote_address = "192.0.2.1".to_owned();
    let refused = stage.log_in(&stage.role_id("web"), &Value::Null).err().unwrap();
    assert_eq!(refused.kind, FailureKind::PermissionDenied);
}

#[test]
fn renewal_rereads_role_and_refuses_recreated_role() {
    let stage = TestMount::new(&json!({"token_ttl": 60}));
    let secret_id = stage.secret_id("web", &json!({"metadata": {"owner": "web"}}));
    let login = stage.login("web", &secret_id).ok().unwrap();
    stage.role("web", &json!({"token_ttl": 30}));
    stage.bed.write("role/web/role-id", &json!({"role_id": "of-web"})).ok().unwrap();
    let renewed = stage.bed.renew_login(&login, 0).ok().unwrap();
    assert_eq!((renewed.token.token_ttl, &renewed.metadata), (30, &login.metadata));
    stage.bed.delete("role/web").ok().unwrap();
    assert_eq!(stage.bed.renew_login(&login, 0).err().unwrap().kind, FailureKind::InvalidRequest);
    stage.role("web", &json!({}));
    assert_eq!(stage.bed.renew_login(&login, 0).err().unwrap().kind, FailureKind::InvalidRequest);
    assert!(stage.login("web", &secret_id).is_err(), "a secret id of the role before");
}
