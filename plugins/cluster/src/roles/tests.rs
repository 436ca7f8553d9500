//! Tests of writing, showing and removing roles, on the test bed.

use crate::Cluster;
use crate::fixture::{OWN, SERVER, answer, empty};
use bulkhead_sdk::FailureKind;
use bulkhead_sdk::testbed::TestBed;
use serde_json::{Value, json};

const RULES: &str = "rules: [{apiGroups: [''], resources: [pods], verbs: [list]}]";

fn with(changes: Value) -> Value {
    let mut body = json!({"allowed_cluster_namespaces": "apps", "cluster_role_name": "pods"});
    body.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    body
}

#[test]
fn a_read_shows_every_field_in_both_vocabularies() {
    let bed = empty();
    let body = json!({
        "allowed_kubernetes_namespaces": ["app3", "app4", "App4"],
        "allowed_kubernetes_namespace_selector": "matchLabels: {team: blue}",
        "kubernetes_role_name": "edit", "kubernetes_role_type": "clusterrole",
        "token_default_ttl": "10m", "token_max_ttl": 3600, "token_default_audiences": "b, a,b",
        "extra_labels": {"team": "blue"}, "extra_annotations": ["why=test"],
        "name_template": "x-{{random 8}}",
    });
    bed.write("roles/two", &body).unwrap();
    let selector = "matchLabels: {team: blue}";
    assert_eq!(
        Value::Object(bed.read("roles/two").unwrap().data),
        json!({
            "name": "two", "additional_metadata": {},
            "allowed_cluster_namespaces": ["app3", "app4"],
            "allowed_kubernetes_namespaces": ["app3", "app4"],
            "allowed_cluster_namespace_selector": selector,
            "allowed_kubernetes_namespace_selector": selector,
            "token_max_ttl": 3600, "token_default_ttl": 600, "token_default_audiences": ["a", "b"],
            "service_account_name": "",
            "cluster_role_name": "edit", "kubernetes_role_name": "edit",
            "cluster_role_type": "ClusterRole", "kubernetes_role_type": "ClusterRole",
            "cluster_role_ref_type": "", "kubernetes_role_ref_type": "",
            "generated_role_rules": "", "name_template": "x-{{random 8}}",
            "extra_annotations": {"why": "test"}, "extra_labels": {"team": "blue"},
        })
    );
    assert_eq!(bed.list("roles").unwrap().data["keys"], json!(["two"]));
    bed.delete("roles/two").unwrap();
    assert_eq!(bed.read("roles/two").err().unwrap().kind, FailureKind::NotFound);
}

#[test]
fn absent_fields_stay_and_mode_switch_names_both() {
    let bed = empty();
    bed.write("roles/one", &with(json!({"token_max_ttl": "1h"}))).unwrap();
    bed.write("roles/one", &json!({"token_default_ttl": 900})).unwrap();
    let stored = bed.host.stored("role/one").unwrap();
    assert_eq!(
        (&stored["token_max_ttl"], &stored["cluster_role_name"]),
        (&json!(3600), &json!("pods"))
    );
    assert!(bed.write("roles/one", &json!({"service_account_name": "app"})).is_err());
    let switch = json!({"service_account_name": "app", "cluster_role_name": ""});
    bed.write("roles/one", &switch).unwrap();
    assert_eq!(bed.host.stored("role/one").unwrap()["service_account_name"], "app");
}

#[test]
fn an_invalid_role_is_refused_and_not_stored() {
    let bed = empty();
    let many = (0..65).map(|n| (format!("k{n}"), json!("v"))).collect::<serde_json::Map<_, _>>();
    for (body, expected) in [
        (with(json!({"service_account_name": "a"})), "one (and only one)"),
        (with(json!({"generated_role_rules": RULES})), "one (and only one)"),
        (with(json!({"cluster_role_name": ""})), "one (and only one)"),
        (with(json!({"allowed_cluster_namespaces": ""})), "one (at least)"),
        (with(json!({"allowed_cluster_namespaces": "apps/secrets"})), "not a name of a namespace"),
        (with(json!({"allowed_cluster_namespace_selector": "{}"})), "every namespace"),
        (with(json!({"token_default_ttl": "11h", "token_max_ttl": "5h"})), "cannot be greater"),
        (with(json!({"cluster_role_type": "Group"})), "'Role' or 'ClusterRole'"),
        (with(json!({"cluster_role_ref_type": "Group"})), "cluster_role_ref_type"),
        (with(json!({"cluster_role_name": "a/b"})), "not a name of a role"),
        (
            with(json!({"cluster_role_name": "", "service_account_name": "a/../b"})),
            "service account",
        ),
        (
            with(json!({"cluster_role_name": "", "generated_role_rules": "rules: [[["})),
            "generated_role_rules",
        ),
        (
            with(json!({"cluster_role_type": "ClusterRole", "cluster_role_ref_type": "Role"})),
            "does not go",
        ),
        (
            with(json!({
                "cluster_role_name": "", "generated_role_rules": RULES,
                "cluster_role_ref_type": "ClusterRole",
            })),
            "must be the same",
        ),
        (with(json!({"name_template": "{{ .Nope"})), "name_template"),
        (with(json!({"extra_labels": {"a b": "c"}})), "not a key"),
        (with(json!({"extra_labels": {"a": "b,c"}})), "not a value"),
        (with(json!({"extra_labels": many})), "at most 64"),
        (with(json!({"extra_annotations": {"/": "c"}})), "not a key"),
        (with(json!({"extra_annotations": {"a": "x".repeat(70_000)}})), "64 KiB"),
        (
            with(json!({
                "cluster_role_name": "", "service_account_name": "app", "token_max_ttl": "5m",
            })),
            "less than 10m",
        ),
    ] {
        let refused = bed.write("roles/x", &body).err().unwrap_or_else(|| panic!("{body}"));
        assert_eq!(refused.kind, FailureKind::InvalidRequest, "{}", refused.message);
        assert!(refused.message.contains(expected), "{}", refused.message);
        assert_eq!(bed.host.stored("role/x"), None);
    }
}

#[test]
fn namespace_binding_may_refer_to_cluster_role() {
    let bed = empty();
    bed.write("roles/x", &with(json!({"cluster_role_ref_type": "clusterrole"}))).unwrap();
    let stored = bed.host.stored("role/x").unwrap();
    assert_eq!(
        (&stored["cluster_role_type"], &stored["cluster_role_ref_type"]),
        (&json!("Role"), &json!("ClusterRole"))
    );
}

#[test]
fn types_without_effect_are_kept_with_warning() {
    let bed = empty();
    let body = json!({
        "allowed_cluster_namespaces": "*", "service_account_name": "app",
        "cluster_role_type": "ClusterRole",
    });
    let reply = bed.write("roles/one", &body).unwrap();
    assert!(reply.warnings[0].contains("no effect"), "{:?}", reply.warnings);
    let plain = json!({"allowed_cluster_namespaces": "*", "service_account_name": "app"});
    assert!(bed.write("roles/other", &plain).unwrap().warnings.is_empty());
}

#[test]
fn names_of_roles_are_taken_letter_by_letter() {
    let bed = empty();
    bed.write("roles/UPPER", &with(json!({}))).unwrap();
    assert_eq!(bed.read("roles/upper").err().unwrap().kind, FailureKind::NotFound);
}

/// Returns a bed with scripted answers to questions about the engine's own rights.
fn with_rights(allowed: &[bool]) -> TestBed<Cluster> {
    let bed = empty();
    bed.write("config", &json!({"cluster_host": SERVER, "service_account_jwt": OWN})).unwrap();
    let reviews = format!("POST {SERVER}/apis/authorization.k8s.io/v1/selfsubjectaccessreviews");
    for allowed in allowed {
        bed.host.answer(&reviews, answer(201, &json!({"status": {"allowed": allowed}})));
    }
    bed
}

#[test]
fn role_write_names_missing_engine_right() {
    let role = json!({"allowed_cluster_namespaces": "apps", "cluster_role_name": "pods"});
    let bed = with_rights(&[true, false, true]);
    let warnings = bed.write("roles/two", &role).unwrap().warnings;
    assert!(warnings[0].contains("may not get serviceaccounts in namespace apps;"), "{warnings:?}");
    let requests = bed.host.requests();
    assert_eq!(requests.len(), 7);
    let review: Value = serde_json::from_slice(&requests[0].body).unwrap();
    let expected = json!({"namespace": "apps", "verb": "create", "group": "", "name": "",
        "resource": "serviceaccounts", "subresource": ""});
    assert_eq!(review["spec"]["resourceAttributes"], expected);
    assert!(with_rights(&[true]).write("roles/two", &role).unwrap().warnings.is_empty());
    // No warning without an answer of the server.
    assert!(with_rights(&[]).write("roles/two", &role).unwrap().warnings.is_empty());
    let all = json!({"allowed_cluster_namespaces": "*", "service_account_name": "app"});
    let warnings = with_rights(&[false]).write("roles/one", &all).unwrap().warnings;
    assert!(
        warnings[0].contains("create serviceaccounts/token app in all namespaces"),
        "{warnings:?}"
    );
    let rules = "rules: [{apiGroups: [''], resources: [pods], verbs: [list]}]";
    let wide = json!({"allowed_cluster_namespaces": "a,b", "cluster_role_type": "ClusterRole",
        "generated_role_rules": rules});
    let warnings = with_rights(&[false]).write("roles/three", &wide).unwrap().warnings;
    let of_all = warnings[0].matches("clusterroles in all namespaces").count();
    assert!(of_all == 3 && warnings[0].contains("rolebindings in namespace b"), "{warnings:?}");
}
