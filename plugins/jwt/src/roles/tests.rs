//! Tests of `roles.rs` and `role.rs` on the test bed.

use crate::fixture::{Stage, changed, message};
use bulkhead_sdk::FailureKind;
use serde_json::{Value, json};

#[test]
fn role_is_created_shown_listed_changed_and_removed() {
    let stage = Stage::new(&json!({
        "role_type": "jwt", "bound_claims": {"project": ["a", "b"], "flag": true, "n": 7},
        "claim_mappings": {"email": "mail"}, "clock_skew_leeway": "5m", "policies": "b,a",
        "expiration_leeway": -1, "ttl": 60, "allowed_redirect_uris": [], "oidc_scopes": [],
        "max_age": 0, "verbose_oidc_logging": false,
    }));
    let shown = stage.bed.read("role/dev").ok().unwrap().data;
    for (name, value) in [
        ("role_type", json!("jwt")),
        ("bound_audiences", json!(["bulkhead"])),
        ("bound_subject", json!("")),
        ("bound_claims", json!({"project": ["a", "b"], "flag": true, "n": 7})),
        ("bound_claims_type", json!("string")),
        ("user_claim", json!("sub")),
        ("user_claim_json_pointer", json!(false)),
        ("claim_mappings", json!({"email": "mail"})),
        ("groups_claim", json!("")),
        ("expiration_leeway", json!(-1)),
        ("not_before_leeway", json!(0)),
        ("clock_skew_leeway", json!(300)),
        ("allowed_redirect_uris", json!([])),
        ("oidc_scopes", json!([])),
        ("max_age", json!(0)),
        ("verbose_oidc_logging", json!(false)),
        ("token_policies", json!(["a", "b"])),
        ("policies", json!(["a", "b"])),
        ("token_ttl", json!(60)),
        ("ttl", json!(60)),
    ] {
        assert_eq!(shown[name], value, "{name}");
    }
    assert!(!shown.contains_key("id"));
    stage.bed.write("role/dev", &json!({"bound_subject": "web", "clock_skew_leeway": ""})).unwrap();
    let shown = stage.bed.read("role/dev").ok().unwrap().data;
    assert_eq!(
        (&shown["bound_subject"], &shown["clock_skew_leeway"]),
        (&json!("web"), &json!(300))
    );
    assert_eq!(shown["bound_audiences"], json!(["bulkhead"]), "kept");
    assert_eq!(stage.bed.list("role").ok().unwrap().data["keys"], json!(["dev"]));
    stage.bed.delete("role/dev").ok().unwrap();
    assert_eq!(stage.bed.read("role/dev").err().unwrap().kind, FailureKind::NotFound);
    assert!(stage.bed.list("role").is_err());
}

#[test]
fn a_role_binds_at_least_one_thing() {
    let stage = Stage::empty();
    for bound in [
        json!({"bound_audiences": "a"}),
        json!({"bound_subject": "a"}),
        json!({"bound_claims": {"a": "b"}}),
        json!({"token_bound_cidrs": "10.0.0.0/8"}),
    ] {
        let role = changed(json!({"user_claim": "sub"}), &bound);
        assert!(stage.bed.write("role/one", &role).is_ok(), "{bound}");
    }
    for nothing in [
        json!({}),
        json!({"bound_audiences": "", "bound_subject": "", "bound_claims": {}}),
        json!({"bound_audiences": [" "], "bound_claims": ""}),
        json!({"groups_claim": "groups", "token_policies": "dev"}),
    ] {
        let role = changed(json!({"user_claim": "sub"}), &nothing);
        let why = message(stage.bed.write("role/none", &role));
        assert!(why.contains("must have at least one bound constraint"), "{nothing}: {why}");
    }
}

#[test]
fn operator_mistake_is_refused_with_remedy() {
    let stage = Stage::new(&json!({}));
    let many: serde_json::Map<String, Value> =
        (0..64).map(|number| (format!("c{number}"), json!(format!("m{number}")))).collect();
    for (over, says) in [
        (json!({"user_claim": null}), "user_claim is required"),
        (json!({"user_claim": ""}), "user_claim is required"),
        (json!({"role_type": "oidc"}), "browser logins, which are not served"),
        (json!({"role_type": "saml"}), "\"saml\" is not jwt"),
        (json!({"user_claim_json_pointer": true}), "\"sub\" is not a JSON pointer"),
        (json!({"bound_claims_type": "regex"}), "neither string nor glob"),
        (json!({"bound_claims": ["a"]}), "bound_claims is not an object"),
        (json!({"bound_claims": "a=b"}), "bound_claims is not an object"),
        (json!({"bound_claims": r#"{"a":"b","a":"c"}"#}), "bound_claims is not an object"),
        (json!({"bound_claims": {"a": []}}), "\"a\" has no value"),
        (json!({"bound_claims": {"a": null}}), "\"a\" has a value that is not a text"),
        (json!({"bound_claims": {"a": {"b": "c"}}}), "\"a\" has a value that is not a text"),
        (json!({"bound_claims": {"a": 1.5}}), "\"a\" has a value that is not a text"),
        (
            json!({"bound_claims": {"a": true}, "bound_claims_type": "glob"}),
            "give patterns as texts",
        ),
        (json!({"claim_mappings": {"a": "x", "b": "x"}}), "two claims are mapped to \"x\""),
        (json!({"claim_mappings": {"a": "role"}}), "reserved for the name of the role"),
        (json!({"claim_mappings": {"a": ""}}), "claim_mappings: a login would come"),
        (json!({"claim_mappings": many}), "claim_mappings: a login would come"),
        (json!({"clock_skew_leeway": "soon"}), "clock_skew_leeway \"soon\" is not a time"),
        (json!({"expiration_leeway": "--1"}), "expiration_leeway"),
        (json!({"not_before_leeway": 315_360_001_u64}), "at most ten years"),
        (json!({"max_age": 60}), "max_age belongs to browser logins"),
        (json!({"oidc_scopes": "email"}), "oidc_scopes belongs to browser logins"),
        (json!({"token_type": "batch", "token_num_uses": 1}), "batch"),
    ] {
        let role = changed(json!({"user_claim": "sub", "bound_audiences": "bulkhead"}), &over);
        let why = message(stage.bed.write("role/bad", &role));
        assert!(why.contains(says), "{over}: {why}");
    }
    assert_eq!(stage.bed.list("role").ok().unwrap().data["keys"], json!(["dev"]));
}

#[test]
fn a_path_names_a_role_in_lower_case() {
    let stage = Stage::new(&json!({}));
    let role = json!({"user_claim": "sub", "bound_subject": "other"});
    assert!(message(stage.bed.write("role/Dev", &role)).contains("\"Dev\" is \"dev\""));
    assert!(stage.bed.read("role/DEV").is_err() && stage.bed.delete("role/DEV").is_err());
    assert_eq!(stage.bed.read("role/dev").ok().unwrap().data["bound_subject"], "");
}

#[test]
fn bound_claims_are_read_from_command_line_text() {
    let stage = Stage::new(&json!({"bound_claims": r#"{"project": ["web"], "flag": true}"#}));
    let shown = stage.bed.read("role/dev").ok().unwrap().data;
    assert_eq!(shown["bound_claims"], json!({"project": ["web"], "flag": true}));
    assert!(stage.login(&json!({"project": "web", "flag": true})).is_ok());
    stage.role(&json!({"bound_claims": ""}));
    assert!(stage.login(&json!({})).is_ok());
}

#[test]
fn redirects_required_by_clients_are_kept_with_warning() {
    let stage = Stage::new(&json!({}));
    let role = json!({
        "user_claim": "sub", "bound_audiences": "a", "allowed_redirect_uris": "https://a/callback",
    });
    let warned = stage.bed.write("role/old", &role).ok().unwrap().warnings;
    assert!(warned[0].contains("allowed_redirect_uris is kept, and has no effect"), "{warned:?}");
    let shown = stage.bed.read("role/old").ok().unwrap().data;
    assert_eq!(shown["allowed_redirect_uris"], json!(["https://a/callback"]));
}
