//! Keys that an issuer publishes, changes, withdraws or does not answer.

use super::*;

#[test]
fn keys_are_fetched_once_never_for_bad_tokens() {
    let stage = Stage::discovering(&json!({}));
    for bad in [json!({"exp": NOW - 900}), json!({"iss": "https://other.example"})] {
        assert!(stage.login(&bad).is_err());
    }
    assert!(stage.bed.host.requests().is_empty());
    for _ in 0..3 {
        assert!(stage.login(&json!({})).is_ok());
    }
    assert_eq!(stage.bed.host.requests().len(), 2, "the document and the keys");
}

#[test]
fn minutely_request_for_unknown_id_learns_new_key() {
    let stage = Stage::discovering(&json!({}));
    assert!(stage.login(&json!({})).is_ok());
    stage.bed.host.requests();
    let other = key("ec", 256);
    for number in 0..9 {
        let jwt = signed("ES256", Some(&format!("forged-{number}")), &json!({}), &other);
        assert!(message(stage.login_with(&jwt)).contains("a key that is not known"));
    }
    assert_eq!(stage.bed.host.requests().len(), 1);
    // The last arranged answer stays, so that the second one follows the first request.
    stage.publish(&[("k1", &stage.key), ("k2", &other)]);
    stage.publish(&[("k1", &stage.key), ("k2", &other)]);
    stage.bed.host.advance(61);
    let jwt = signed("ES256", Some("k2"), &json!({}), &other);
    let first = stage.login_with(&jwt).is_ok();
    stage.bed.host.advance(61);
    assert!(first || stage.login_with(&jwt).is_ok());
}

#[test]
fn token_without_key_id_needs_sole_key() {
    let stage = Stage::discovering(&json!({}));
    let jwt = signed("ES256", None, &json!({}), &stage.key);
    assert!(stage.login_with(&jwt).is_ok());
    let two = Stage::empty();
    let sets = json!({"jwks_url": format!("{ISSUER}/keys")});
    two.publish(&[("k1", &two.key), ("k2", &key("ec", 256))]);
    two.configure(&sets);
    two.role(&json!({}));
    let jwt = signed("ES256", None, &json!({}), &two.key);
    assert!(message(two.login_with(&jwt)).contains("a key that is not known"));
    assert!(two.login(&json!({})).is_ok());
}

#[test]
fn withdrawn_key_proves_nothing_after_configuration_write() {
    let stage = Stage::empty();
    stage.publish(&[("k1", &stage.key)]);
    stage.publish(&[("k1", &stage.key)]);
    stage.publish(&[("k2", &key("ec", 256))]);
    stage.configure(&json!({"jwks_url": format!("{ISSUER}/keys")}));
    stage.role(&json!({}));
    assert!(stage.login(&json!({})).is_ok());
    stage.configure(&json!({"default_role": "dev"}));
    assert!(stage.refusal(&json!({})).contains("a key that is not known"));
}

#[test]
fn key_for_other_algorithm_or_purpose_proves_nothing() {
    for change in [json!({"alg": "ES384"}), json!({"use": "enc"})] {
        let stage = Stage::empty();
        let mut set = crate::fixture::key_set(&[("k1", &stage.key), ("k2", &key("ec", 256))]);
        for (name, value) in change.as_object().unwrap() {
            set["keys"][0][name] = value.clone();
        }
        stage.bed.host.answer(KEYS, answer(200, &set));
        stage.configure(&json!({"jwks_url": format!("{ISSUER}/keys")}));
        stage.role(&json!({}));
        assert!(stage.login(&json!({})).is_err(), "{change}");
    }
}

#[test]
fn several_key_sets_are_asked_despite_one_outage() {
    let stage = Stage::empty();
    let other = key("ec", 256);
    let urls = ["https://a.example/keys", "https://b.example/keys"];
    let set = |key| crate::fixture::key_set(&[("k1", key)]);
    stage.bed.host.answer("GET https://a.example/keys", answer(200, &set(&other)));
    stage.bed.host.answer("GET https://a.example/keys", answer(503, &json!({})));
    stage.bed.host.answer("GET https://b.example/keys", answer(200, &set(&stage.key)));
    let pairs = urls.map(|url| json!({"jwks_url": url}));
    stage.configure(&json!({"jwks_pairs": pairs}));
    stage.role(&json!({}));
    assert!(stage.login(&json!({})).is_ok());
    let unknown = signed("ES256", Some("k9"), &json!({}), &other);
    assert_eq!(stage.login_with(&unknown).err().unwrap().kind, FailureKind::Unreachable);
}

#[test]
fn issuer_outage_is_reported_as_unreachable() {
    let stage = Stage::discovering(&json!({}));
    let down = Failure::new(FailureKind::Unreachable, "connection refused");
    for _ in 0..9 {
        stage.bed.host.refuse("send", down.clone());
    }
    let refused = stage.login(&json!({})).err().unwrap();
    assert_eq!(refused.kind, FailureKind::Unreachable);
    assert!(refused.message.contains("fetch the discovery document"), "{}", refused.message);
}

#[test]
fn discovery_document_with_changed_issuer_proves_nothing() {
    let stage = Stage::discovering(&json!({}));
    let other = json!({"issuer": "https://evil.example", "jwks_uri": format!("{ISSUER}/keys")});
    stage.bed.host.answer(DISCOVERY, answer(200, &other));
    stage.configure(&json!({"default_role": "dev"}));
    assert!(stage.refusal(&json!({})).contains("is of issuer"));
}
