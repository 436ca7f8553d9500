//! Constraints of a role that tokens meet or fail.

use super::*;

#[test]
fn token_with_audience_requires_role_with_audiences() {
    let unbound = json!({"bound_audiences": null, "bound_subject": "web"});
    let bound = json!({"bound_audiences": ["bulkhead", "other"]});
    let (found, other) = (Some("no audiences bound to the role"), Some("for another audience"));
    for (role, aud, why) in [
        // CVE-2024-5798: a single audience as a text passed a role without audiences.
        (&unbound, json!("bulkhead"), found),
        (&unbound, json!(""), found),
        (&unbound, json!(["bulkhead"]), found),
        (&unbound, Value::Null, None),
        (&bound, json!("bulkhead"), None),
        (&bound, json!(["third", "other"]), None),
        (&bound, json!("Bulkhead"), other),
        (&bound, json!("bulkhead "), other),
        (&bound, json!("bulkhead,other"), other),
        (&bound, json!("bulk"), other),
        (&bound, json!(["third"]), other),
        (&bound, Value::Null, other),
        (&bound, json!([]), Some("aud is neither")),
        (&bound, json!(["bulkhead", 7]), Some("aud is neither")),
        (&bound, json!({"bulkhead": true}), Some("aud is neither")),
    ] {
        let login = Stage::new(role).login(&json!({"aud": aud}));
        match why {
            None => assert!(login.is_ok(), "{role} {aud}"),
            Some(why) => {
                let said = message(login);
                assert!(said.contains(why), "{role} {aud}: {said}");
            }
        }
    }
}

#[test]
fn star_is_no_audience_subject_or_issuer() {
    let stage = Stage::new(&json!({"bound_audiences": "*", "bound_claims_type": "glob"}));
    assert!(stage.refusal(&json!({})).contains("another audience"));
    stage.role(&json!({"bound_subject": "w*"}));
    assert!(stage.refusal(&json!({})).contains("bound_subject"));
    stage.role(&json!({"bound_subject": ""}));
    stage.configure(&json!({"bound_issuer": "https://*"}));
    assert!(stage.refusal(&json!({})).contains("another issuer"));
}

#[test]
fn issuer_and_subject_are_compared_exactly() {
    let stage = Stage::new(&json!({"bound_subject": "web"}));
    assert!(stage.login(&json!({"iss": null})).is_ok(), "no issuer is bound");
    stage.configure(&json!({"bound_issuer": ISSUER}));
    assert!(stage.login(&json!({})).is_ok());
    for other in [json!("https://issuer.example/"), json!("HTTPS://issuer.example"), Value::Null] {
        assert!(stage.refusal(&json!({"iss": other})).contains("another issuer (iss)"), "{other}");
    }
    for other in [json!("Web"), json!("web "), json!(""), Value::Null] {
        assert!(stage.refusal(&json!({"sub": other})).contains("bound_subject"), "{other}");
    }
    assert!(stage.refusal(&json!({"iss": [ISSUER]})).contains("iss is not a text"));
    assert!(stage.refusal(&json!({"sub": 7})).contains("sub is not a text"));
}

#[test]
fn discovery_issuer_is_bound_unless_another_is_configured() {
    let stage = Stage::discovering(&json!({}));
    assert!(stage.login(&json!({})).is_ok());
    assert!(stage.refusal(&json!({"iss": "https://other.example"})).contains("another issuer"));
    assert!(stage.refusal(&json!({"iss": null})).contains("another issuer"));
    stage.configure(&json!({"bound_issuer": "https://other.example"}));
    assert!(stage.login(&json!({"iss": "https://other.example"})).is_ok());
    assert!(stage.refusal(&json!({})).contains("another issuer"));
}

#[test]
fn every_bound_claim_must_be_met() {
    let stage = Stage::new(&json!({"bound_claims": {"project": ["web", "ops"], "ref": "main"}}));
    assert!(stage.login(&json!({"project": "ops", "ref": "main"})).is_ok());
    assert!(stage.login(&json!({"project": ["x", "web"], "ref": ["main"]})).is_ok());
    assert!(stage.refusal(&json!({"project": "ops"})).contains("no claim \"ref\""));
    assert!(stage.refusal(&json!({"project": "ops", "ref": null})).contains("no claim \"ref\""));
    for (project, main) in [("x", "main"), ("web", "mai"), ("web", "Main"), ("w*", "main")] {
        let why = stage.refusal(&json!({"project": project, "ref": main}));
        assert!(why.contains("matches none of the bound values"), "{project} {main}: {why}");
    }
    stage.role(&json!({"bound_claims": {"ref": "refs/heads/*"}, "bound_claims_type": "glob"}));
    assert!(stage.login(&json!({"ref": "refs/heads/main"})).is_ok());
    assert!(stage.login(&json!({"ref": "refs/tags/1"})).is_err());
}

#[test]
fn mapped_claim_that_cannot_be_shown_is_refused() {
    let stage = Stage::new(&json!({"claim_mappings": {"c": "shown"}}));
    for odd in [json!(["a"]), json!({"a": "b"}), json!(1.5)] {
        let why = stage.refusal(&json!({"c": odd}));
        assert!(why.contains("claim \"c\" is not a text, flag or number"), "{odd}: {why}");
    }
    assert!(stage.login(&json!({"c": "x".repeat(1_025)})).is_err());
    assert!(!stage.login(&json!({"c": null})).ok().unwrap().metadata.contains_key("shown"));
}
