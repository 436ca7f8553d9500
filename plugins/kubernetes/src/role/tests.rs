//! Tests of `role.rs` on the test bed.

use crate::fixture::TestMount;
use bulkhead_sdk::FailureKind;
use serde_json::json;

#[test]
fn role_is_created_shown_listed_changed_and_removed() {
    let stage = TestMount::empty();
    let role = json!({
        "bound_service_account_names": "app, dev-*", "bound_service_account_namespaces": ["apps"],
        "audience": "bulkhead", "policies": "b, a", "ttl": "1h",
    });
    stage.bed.write("role/web", &role).unwrap();
    let shown = stage.bed.read("role/web").unwrap().data;
    assert_eq!(shown["bound_service_account_names"], json!(["app", "dev-*"]));
    assert_eq!(shown["bound_service_account_namespaces"], json!(["apps"]));
    assert_eq!((&shown["audience"], &shown["token_ttl"]), (&json!("bulkhead"), &json!(3_600)));
    assert_eq!(shown["alias_name_source"], "serviceaccount_uid");
    assert_eq!(
        (&shown["policies"], &shown["token_policies"]),
        (&json!(["a", "b"]), &json!(["a", "b"]))
    );
    assert!(!shown.contains_key("id"));
    assert_eq!(stage.bed.list("role").unwrap().data["keys"], json!(["web"]));
    stage.bed.write("role/web", &json!({"audience": "", "token_max_ttl": "2h"})).unwrap();
    let shown = stage.bed.read("role/web").unwrap().data;
    assert_eq!(shown["bound_service_account_names"], json!(["app", "dev-*"]), "kept");
    assert!(!shown.contains_key("audience"), "cleared");
    stage.bed.delete("role/web").unwrap();
    assert_eq!(stage.bed.read("role/web").err().unwrap().kind, FailureKind::NotFound);
}

#[test]
fn unbound_or_misread_role_is_refused_and_unstored() {
    let stage = TestMount::empty();
    let (names, spaces) = ("bound_service_account_names", "bound_service_account_namespaces");
    for (body, says) in [
        (json!({}), "bound_service_account_names can not be empty"),
        (json!({names: "", spaces: "apps"}), "bound_service_account_names can not be empty"),
        (json!({names: "app"}), "bound_service_account_namespaces can not be empty"),
        (json!({names: "app", spaces: []}), "bound_service_account_namespaces can not be empty"),
        (json!({names: "*,app", spaces: "apps"}), "can not mix \"*\" with values"),
        (json!({names: "app", spaces: ["apps", "*"]}), "can not mix \"*\" with values"),
        (json!({names: "**", spaces: "apps"}), "neither a name nor a pattern"),
        (json!({names: "a:b", spaces: "apps"}), "\"a:b\""),
        (json!({names: "app", spaces: "apps", "alias_name_source": "name"}), "\"name\" is neither"),
        (json!({names: "app", spaces: "apps", "audience": "a\nb"}), "audience"),
        (json!({names: "app", spaces: "apps", "audience": "a".repeat(1_025)}), "1,024"),
        (
            json!({names: "app", spaces: "apps",
                "bound_service_account_namespace_selector": "{\"matchLabel\":{\"a\":\"b\"}}"}),
            "bound_service_account_namespace_selector: there is no key \"matchLabel\"",
        ),
        (json!({names: "app", spaces: "apps", "token_type": "odd"}), "token_type"),
    ] {
        let refused = stage.bed.write("role/web", &body).err().unwrap();
        assert_eq!(refused.kind, FailureKind::InvalidRequest, "{body}");
        assert!(refused.message.contains(says), "{body}: {}", refused.message);
    }
    assert_eq!(stage.bed.list("role").err().unwrap().kind, FailureKind::NotFound);
    let none =
        json!({names: "app", spaces: "apps", "bound_service_account_namespace_selector": ""});
    assert!(stage.bed.write("role/web", &none).is_ok(), "the empty text of Terraform");
}

#[test]
fn a_path_spells_a_role_in_lower_case() {
    let stage = TestMount::empty();
    stage.role("web", &json!({}));
    for path in ["role/Web", "role/WEB"] {
        let written = stage.bed.write(path, &json!({"bound_service_account_names": "*"}));
        for refused in [written.err(), stage.bed.read(path).err(), stage.bed.delete(path).err()] {
            let refused = refused.unwrap();
            assert_eq!(refused.kind, FailureKind::InvalidRequest, "{path}");
            assert!(refused.message.contains("is \"web\""), "{}", refused.message);
        }
    }
    let shown = stage.bed.read("role/web").unwrap().data;
    assert_eq!(shown["bound_service_account_names"], json!(["app"]));
}

#[test]
fn broad_role_is_stored_with_warning() {
    let stage = TestMount::empty();
    let role = |audience: &str, names: &str| {
        let body = json!({
            "bound_service_account_names": names, "bound_service_account_namespaces": "*",
            "audience": audience,
        });
        stage.bed.write("role/web", &body).unwrap().warnings
    };
    assert_eq!(role("bulkhead", "app"), Vec::<String>::new());
    assert!(role("", "app")[0].contains("audience is not set"));
    let misspelled = json!({"audiences": "bulkhead"});
    let warnings = stage.bed.write("role/web", &misspelled).unwrap().warnings;
    assert!(warnings.contains(&"ignored: audiences".to_owned()), "{warnings:?}");
    assert!(role("bulkhead", "*")[0].contains("every service account"));
}
