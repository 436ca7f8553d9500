//! Tests of `login.rs`, `times.rs` and `source.rs` on the test bed.

mod constraints;
mod forged;
mod published;

use crate::fixture::{DISCOVERY, ISSUER, KEYS, NOW, Stage, answer, key, message, signed};
use bulkhead_sdk::{Failure, FailureKind};
use serde_json::{Value, json};

#[test]
fn login_carries_only_claims_named_by_role() {
    let stage = Stage::new(&json!({
        "token_policies": "dev", "token_ttl": "1h", "groups_claim": "groups",
        "claim_mappings": {"project": "team", "verified": "verified", "missing": "none", "n": "n"},
    }));
    let login = stage.login(&json!({
        "project": "web", "verified": true, "n": 7, "other": "unseen",
        "groups": ["a", "", "b"],
    }));
    let login = login.ok().unwrap();
    assert_eq!((login.alias.as_str(), login.display_name.as_str()), ("web", "web"));
    assert_eq!((login.token.token_ttl, login.renewable), (3_600, true));
    assert_eq!(login.token.token_policies, ["dev"]);
    assert_eq!(login.group_aliases, Some(vec!["a".to_owned(), "b".to_owned()]));
    let shown = json!({"team": "web", "verified": "true", "n": "7"});
    assert_eq!(json!(login.alias_metadata), shown);
    let shown = json!({"team": "web", "verified": "true", "n": "7", "role": "dev"});
    assert_eq!(json!(login.metadata), shown);
}

#[test]
fn login_without_groups_claim_is_in_no_group() {
    let stage = Stage::new(&json!({}));
    assert_eq!(stage.login(&json!({"groups": ["a"]})).ok().unwrap().group_aliases, Some(vec![]));
    stage.role(&json!({"groups_claim": "groups"}));
    let one = stage.login(&json!({"groups": "a"})).ok().unwrap();
    assert_eq!(one.group_aliases, Some(vec!["a".to_owned()]));
    assert!(stage.refusal(&json!({})).contains("\"groups\", the groups_claim of the role, is"));
    for odd in [json!([7]), json!([["a"]]), json!({"a": "b"}), json!(true), json!(["a", null])] {
        let why = stage.refusal(&json!({"groups": odd}));
        assert!(why.contains("neither a text nor a list of texts"), "{odd}: {why}");
    }
}

#[test]
fn user_claim_must_be_non_empty_text() {
    let stage = Stage::new(&json!({"user_claim": "user"}));
    assert!(stage.refusal(&json!({})).contains("claim \"user\", the user_claim of the role, is"));
    for odd in [json!(""), json!(7), json!(true), json!(["a"]), json!({"a": "b"})] {
        let why = stage.refusal(&json!({"user": odd}));
        assert!(why.contains("is not text, or is empty"), "{odd}: {why}");
    }
    assert!(stage.login(&json!({"user": "a\u{0}b"})).is_err());
    assert!(stage.login(&json!({"user": "x".repeat(513)})).is_err());
}

#[test]
fn users_differing_only_in_case_are_two_identities() {
    let stage = Stage::new(&json!({}));
    let alias = |sub: &str| stage.login(&json!({"sub": sub})).ok().unwrap().alias;
    assert_eq!([alias("alice"), alias("Alice"), alias("ALICE")], ["alice", "Alice", "ALICE"]);
    assert_ne!(alias("alice"), alias("alice "));
}

#[test]
fn pointers_lead_to_nested_claims_in_every_setting() {
    let stage = Stage::new(&json!({
        "user_claim": "/pod/name", "user_claim_json_pointer": true, "groups_claim": "/pod/groups",
        "bound_claims": {"/pod/space": "prod"}, "claim_mappings": {"/pod/node~1id": "node"},
    }));
    let pod = json!({"name": "web", "space": "prod", "groups": ["a"], "node/id": "n1"});
    let login = stage.login(&json!({"pod": pod})).ok().unwrap();
    assert_eq!((login.alias.as_str(), login.metadata["node"].as_str()), ("web", "n1"));
    assert_eq!(login.group_aliases, Some(vec!["a".to_owned()]));
    let flat = json!({"/pod/name": "web", "/pod/space": "prod", "/pod/groups": []});
    assert!(stage.login(&flat).is_err(), "names that look like pointers are not nested claims");
    stage.role(&json!({"user_claim": "/pod/name", "user_claim_json_pointer": false,
        "bound_claims": {}, "groups_claim": ""}));
    let login = stage.login(&json!({"/pod/name": "flat", "pod": {"name": "nested"}}));
    assert_eq!(login.ok().unwrap().alias, "flat");
}

#[test]
fn role_lookup_ignores_case_and_uses_default_role() {
    let stage = Stage::new(&json!({}));
    let jwt = stage.token(&json!({}));
    let login = |role: Value| stage.bed.login("login", &json!({"role": role, "jwt": jwt}));
    assert_eq!(login(json!("DEV")).ok().unwrap().metadata["role"], "dev");
    for none in [json!(""), Value::Null] {
        assert!(message(login(none)).contains("role is missing"));
    }
    for unknown in ["ops", "../config", "dev/", "a b", "*"] {
        let why = message(login(json!(unknown)));
        assert!(why.contains("could not be found"), "{unknown}: {why}");
    }
    stage.configure(&json!({"default_role": "Dev"}));
    assert_eq!(login(Value::Null).ok().unwrap().metadata["role"], "dev");
    stage.bed.delete("role/dev").ok().unwrap();
    assert!(message(login(Value::Null)).contains("role \"dev\" could not be found"));
}

#[test]
fn without_a_configuration_no_token_is_accepted() {
    let stage = Stage::empty();
    stage.role(&json!({}));
    assert!(stage.refusal(&json!({})).contains("write config first"));
}

#[test]
fn token_times_follow_store_time_and_role_leeways() {
    let none = json!({"clock_skew_leeway": -1, "expiration_leeway": -1, "not_before_leeway": -1});
    let wide = json!({"clock_skew_leeway": 10, "expiration_leeway": "5m", "not_before_leeway": 20});
    let usual = json!({"clock_skew_leeway": 0, "expiration_leeway": 0, "not_before_leeway": 0});
    let (expired, early, future) = (Some("has expired"), Some("not valid yet"), Some("future"));
    for (leeways, claims, why) in [
        (&usual, json!({"iat": null, "exp": null}), Some("has no time")),
        (&usual, json!({"iat": null, "exp": NOW - 59}), None),
        (&usual, json!({"iat": null, "exp": NOW - 60}), expired),
        (&usual, json!({"iat": null, "exp": 0}), expired),
        (&usual, json!({"iat": NOW - 209, "exp": null}), None),
        (&usual, json!({"iat": NOW - 210, "exp": null}), expired),
        (&usual, json!({"iat": NOW - 900, "nbf": NOW - 209, "exp": null}), None),
        (&usual, json!({"iat": null, "nbf": NOW - 210, "exp": null}), expired),
        (&usual, json!({"iat": NOW - 900, "nbf": NOW + 60}), None),
        (&usual, json!({"iat": NOW - 900, "nbf": NOW + 61}), early),
        (&usual, json!({"iat": NOW + 60}), None),
        (&usual, json!({"iat": NOW + 61}), early),
        (&usual, json!({"iat": NOW + 61, "nbf": NOW}), future),
        (&usual, json!({"iat": null, "exp": NOW + 210}), None),
        (&usual, json!({"iat": null, "exp": NOW + 211}), early),
        (&none, json!({"iat": null, "exp": NOW}), expired),
        (&none, json!({"exp": NOW + 1}), None),
        (&none, json!({"iat": NOW, "exp": null}), expired),
        (&none, json!({"iat": null, "exp": NOW + 1}), early),
        (&none, json!({"iat": NOW + 1}), early),
        (&wide, json!({"iat": NOW - 309, "exp": null}), None),
        (&wide, json!({"iat": NOW - 310, "exp": null}), expired),
        (&wide, json!({"iat": null, "exp": NOW + 30}), None),
        (&wide, json!({"iat": null, "exp": NOW + 31}), early),
        (&wide, json!({"exp": NOW - 9}), None),
        (&wide, json!({"exp": NOW - 10}), expired),
    ] {
        let stage = Stage::new(leeways);
        match (stage.login(&claims), why) {
            (Ok(_), None) => {}
            (login, Some(why)) => {
                let said = message(login);
                assert!(said.contains(why), "{leeways} {claims}: {said}");
            }
            (Err(refused), None) => panic!("{leeways} {claims}: {}", refused.message),
        }
    }
}

#[test]
fn a_login_from_elsewhere_is_refused() {
    let mut stage =
        Stage::new(&json!({"bound_audiences": null, "token_bound_cidrs": "10.0.0.0/8"}));
    stage.bed.caller.remote_address = "192.0.2.1".to_owned();
    let refused = stage.login(&json!({"aud": null})).err().unwrap();
    assert_eq!(refused.kind, FailureKind::PermissionDenied);
    stage.bed.caller.remote_address = "10.1.2.3".to_owned();
    assert!(stage.login(&json!({"aud": null})).is_ok());
}

#[test]
fn renewal_rereads_role_and_refuses_recreated_role() {
    let stage = Stage::new(&json!({"token_ttl": 60, "claim_mappings": {"iss": "issuer"}}));
    let login = stage.login(&json!({})).ok().unwrap();
    stage.role(&json!({"token_ttl": 30, "user_claim": "email"}));
    let renewed = stage.bed.renew_login(&login, 0).ok().unwrap();
    assert_eq!((renewed.token.token_ttl, &renewed.metadata), (30, &login.metadata));
    assert_eq!((&renewed.alias_metadata, renewed.group_aliases), (&login.alias_metadata, None));
    stage.bed.delete("role/dev").ok().unwrap();
    assert!(message(stage.bed.renew_login(&login, 0)).contains("does not exist during renewal"));
    stage.role(&json!({}));
    assert!(
        stage.bed.renew_login(&login, 0).is_err(),
        "a role that was written again refuses renewals"
    );
}

#[test]
fn renewal_needs_claims_admitted_by_present_role() {
    let bound = json!({"bound_claims": {"project": ["web", "ops"], "/team/id": "7"}});
    let stage = Stage::new(&bound);
    let login = stage.login(&json!({"project": "web", "team": {"id": 7}, "env": "dev"}));
    let login = login.ok().unwrap();
    for admitted in [
        bound.clone(),
        json!({"bound_claims": {"project": "w*"}, "bound_claims_type": "glob"}),
        json!({"bound_subject": "web", "bound_claims": {}, "bound_claims_type": "string"}),
        json!({"bound_audiences": ["other", "bulkhead"]}),
    ] {
        stage.role(&admitted);
        assert!(stage.bed.renew_login(&login, 0).is_ok(), "{admitted}");
    }
    for (narrowed, why) in [
        (json!({"bound_claims": {"project": "ops"}}), "claim \"project\" matches none"),
        (json!({"bound_claims": {"env": "dev"}}), "no claim \"env\""),
        (json!({"bound_claims": {}, "bound_subject": "ops"}), "bound_subject"),
        (json!({"bound_subject": "", "bound_audiences": "other"}), "another audience"),
    ] {
        stage.role(&narrowed);
        let said = message(stage.bed.renew_login(&login, 0));
        assert!(said.contains(why) && said.ends_with("log in again"), "{narrowed}: {said}");
    }
}
