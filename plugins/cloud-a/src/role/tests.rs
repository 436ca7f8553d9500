//! Roles: required constraints, and the fields shown by reads.

use crate::fixture::ready;
use bulkhead_sdk::FailureKind;
use serde_json::{Value, json};

#[test]
fn a_role_binds_something_and_shows_every_list() {
    let bed = ready();
    for nothing in [json!({}), json!({"bound_locations": []}), json!({"token_ttl": 60})] {
        let refused = bed.write("role/dev", &nothing).err().unwrap();
        assert_eq!(
            refused.message,
            "must have at least one bound constraint when creating/updating a role"
        );
    }
    let role =
        json!({"bound_resource_groups": "Apps, other", "token_ttl": "1h", "policies": "dev"});
    assert!(bed.write("role/dev", &role).unwrap().warnings.is_empty());
    let shown = Value::Object(bed.read("role/dev").unwrap().data);
    assert_eq!(
        shown,
        json!({
            "bound_service_principal_ids": [], "bound_group_ids": [], "bound_locations": [],
            "bound_subscription_ids": [], "bound_resource_groups": ["Apps", "other"],
            "bound_scale_sets": [], "policies": ["dev"], "token_policies": ["dev"],
            "token_ttl": 3_600, "token_max_ttl": 0, "token_explicit_max_ttl": 0, "token_period": 0,
            "token_num_uses": 0, "token_bound_cidrs": [], "token_no_default_policy": false,
            "token_type": "default",
        })
    );
}

#[test]
fn role_update_keeps_absent_fields_and_clears_lists() {
    let bed = ready();
    let role = json!({"bound_group_ids": ["g"], "bound_locations": ["westus"], "token_ttl": 60});
    bed.write("role/dev", &role).unwrap();
    bed.write("role/dev", &json!({"bound_locations": []})).unwrap();
    let shown = bed.read("role/dev").unwrap().data;
    assert_eq!((&shown["bound_group_ids"], &shown["token_ttl"]), (&json!(["g"]), &json!(60)));
    assert_eq!(shown["bound_locations"], json!([]));
    assert!(bed.write("role/dev", &json!({"bound_group_ids": ""})).is_err());
    assert_eq!(bed.read("role/dev").unwrap().data["bound_group_ids"], json!(["g"]));
}

#[test]
fn ineffective_or_unmeetable_role_settings_are_reported() {
    let bed = ready();
    let role = json!({"bound_service_principal_ids": "*", "max_jwt_exp": "15m"});
    let warnings = bed.write("role/dev", &role).unwrap().warnings;
    assert!(warnings[0].starts_with("max_jwt_exp is kept"), "{warnings:?}");
    assert!(warnings[1].starts_with("no login can meet this role"), "{warnings:?}");
    assert_eq!(bed.read("role/dev").unwrap().data["max_jwt_exp"], "15m");
}

#[test]
fn roles_are_listed_and_removed() {
    let bed = ready();
    assert_eq!(bed.list("role").err().unwrap().kind, FailureKind::NotFound);
    for name in ["dev", "Ops"] {
        bed.write(&format!("role/{name}"), &json!({"bound_locations": "westus"})).unwrap();
    }
    assert_eq!(bed.list("role").unwrap().data["keys"], json!(["Ops", "dev"]));
    bed.delete("role/dev").unwrap();
    bed.delete("role/dev").unwrap();
    assert_eq!(bed.read("role/dev").err().unwrap().kind, FailureKind::NotFound);
}

#[test]
fn lists_have_a_bound() {
    let bed = ready();
    let many: Vec<String> = (0..1_001).map(|number| number.to_string()).collect();
    let refused = bed.write("role/dev", &json!({"bound_group_ids": many})).err().unwrap();
    assert!(refused.message.contains("at most 1000"), "{}", refused.message);
}
