//! Tokens that prove nothing.

use super::*;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bulkhead_sdk::Host;
use bulkhead_sdk::crypto::GeneratedKey;
use bulkhead_sdk::testbed::TestHost;

/// A token of these texts, signed by ES256 under any header.
fn by_hand(header: &str, claims: &str, by: &GeneratedKey) -> String {
    let text = |part: &str| URL_SAFE_NO_PAD.encode(part);
    let signed = format!("{}.{}", text(header), text(claims));
    let host = TestHost::default();
    let signature = (&host as &dyn Host).crypto();
    let signature = signature.sign("ES256", &by.private_key, signed.as_bytes()).unwrap();
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
}

fn usual() -> String {
    Value::Object(crate::fixture::claims(&json!({}))).to_string()
}

#[test]
fn sender_chooses_no_algorithm_without_public_key() {
    let stage = Stage::new(&json!({}));
    for algorithm in ["none", "None", "NONE", "", "HS256", "HS384", "HS512", "es256", "ES256K"] {
        let jwt = by_hand(&json!({"alg": algorithm}).to_string(), &usual(), &stage.key);
        let why = message(stage.login_with(&jwt));
        assert!(why.contains("an algorithm that is not allowed"), "{algorithm}: {why}");
        let bare = format!("{}.", jwt.rsplit_once('.').unwrap().0);
        assert!(stage.login_with(&bare).is_err(), "{algorithm} without a signature");
    }
    for header in ["{}", r#"{"alg":null}"#, r#"{"alg":["ES256"]}"#] {
        assert!(stage.login_with(&by_hand(header, &usual(), &stage.key)).is_err(), "{header}");
    }
}

#[test]
fn public_key_is_no_hmac_secret() {
    let stage = Stage::new(&json!({}));
    let header = URL_SAFE_NO_PAD.encode(r#"{"alg":"HS256","typ":"JWT"}"#);
    let signed = format!("{header}.{}", URL_SAFE_NO_PAD.encode(usual()));
    let host = TestHost::default();
    for secret in [&stage.key.public_key.pem, &stage.key.public_key.jwk] {
        let host: &dyn Host = &host;
        let mac = host.crypto().hmac("sha256", secret.as_bytes(), signed.as_bytes()).unwrap();
        let jwt = format!("{signed}.{}", URL_SAFE_NO_PAD.encode(mac));
        assert!(message(stage.login_with(&jwt)).contains("an algorithm that is not allowed"));
    }
}

#[test]
fn algorithm_requires_key_of_its_kind_and_curve() {
    for (kind, bits, good) in
        [("ec", 256, "ES256"), ("ec", 384, "ES384"), ("ec", 521, "ES512"), ("ed25519", 0, "EdDSA")]
    {
        let stage = Stage { key: key(kind, bits), ..Stage::new(&json!({})) };
        stage.configure(&json!({"jwt_validation_pubkeys": stage.key.public_key.pem}));
        let jwt = signed(good, None, &json!({}), &stage.key);
        assert!(stage.login_with(&jwt).is_ok(), "{good}");
        let (signed, signature) = jwt.rsplit_once('.').unwrap();
        let (_, claims) = signed.split_once('.').unwrap();
        for other in ["ES256", "ES384", "ES512", "EdDSA", "RS256", "PS256"] {
            let header = URL_SAFE_NO_PAD.encode(json!({"alg": other}).to_string());
            let forged = format!("{header}.{claims}.{signature}");
            assert!(stage.login_with(&forged).is_err(), "{other} by a key for {good}");
        }
    }
}

#[test]
fn a_configuration_narrows_the_algorithms() {
    let stage = Stage::new(&json!({}));
    stage.configure(&json!({"jwt_supported_algs": ["RS256", "EdDSA"]}));
    assert!(stage.refusal(&json!({})).contains("an algorithm that is not allowed"));
    stage.configure(&json!({"jwt_supported_algs": "ES256"}));
    assert!(stage.login(&json!({})).is_ok());
}

#[test]
fn key_inside_token_is_not_used() {
    let (stage, own) = (Stage::new(&json!({})), key("ec", 256));
    let jwk: Value = serde_json::from_str(&own.public_key.jwk).unwrap();
    let header = json!({"alg": "ES256", "jwk": jwk, "jku": "https://evil.example/keys",
        "x5u": "https://evil.example/x", "kid": "https://evil.example/keys"});
    let jwt = by_hand(&header.to_string(), &usual(), &own);
    assert!(message(stage.login_with(&jwt)).contains("signature"));
    let stage = Stage::discovering(&json!({}));
    assert!(message(stage.login_with(&jwt)).contains("a key that is not known"));
    let requests = stage.bed.host.requests();
    assert!(requests.iter().all(|request| request.url.starts_with(ISSUER)));
}

#[test]
fn changed_claims_foreign_keys_and_cut_signatures_fail() {
    let stage = Stage::new(&json!({}));
    let jwt = stage.token(&json!({}));
    let (signed_part, signature) = jwt.rsplit_once('.').unwrap();
    let (header, claims) = signed_part.split_once('.').unwrap();
    let root = Value::Object(crate::fixture::claims(&json!({"sub": "root"})));
    let root = URL_SAFE_NO_PAD.encode(root.to_string());
    for forged in [
        format!("{header}.{root}.{signature}"),
        format!("{header}.{claims}."),
        format!("{header}.{claims}.{}", &signature[..40]),
        signed("ES256", Some("k1"), &json!({}), &key("ec", 256)),
    ] {
        assert!(message(stage.login_with(&forged)).contains("signature"), "{forged}");
    }
}

#[test]
fn a_claim_that_is_given_twice_is_refused() {
    let stage = Stage::new(&json!({}));
    let twice = format!(r#"{{"exp":{},"aud":"bulkhead","sub":"web","sub":"root"}}"#, NOW + 60);
    let why = message(stage.login_with(&by_hand(r#"{"alg":"ES256"}"#, &twice, &stage.key)));
    assert!(why.contains("JSON with each key once"), "{why}");
    let nested =
        format!(r#"{{"exp":{},"aud":"bulkhead","sub":"web","a":{{"b":1,"b":2}}}}"#, NOW + 60);
    assert!(stage.login_with(&by_hand(r#"{"alg":"ES256"}"#, &nested, &stage.key)).is_err());
    let header = r#"{"alg":"ES256","alg":"none"}"#;
    assert!(stage.login_with(&by_hand(header, &usual(), &stage.key)).is_err());
    assert!(
        stage
            .login_with(&by_hand(r#"{"alg":"ES256","crit":["x"]}"#, &usual(), &stage.key))
            .is_err()
    );
}

#[test]
fn long_token_is_refused_before_reading() {
    let stage = Stage::discovering(&json!({}));
    let why = message(stage.login_with(&"A".repeat((16 << 10) + 1)));
    assert!(why.contains("more than 16 KiB"), "{why}");
    for odd in ["", "a", "a.b", "a.b.c", "a.b.c.d", "....", "\u{0}"] {
        assert!(stage.login_with(odd).is_err(), "{odd}");
    }
    assert!(stage.bed.host.requests().is_empty());
}

#[test]
fn refusals_reveal_neither_role_to_forgers_nor_claims() {
    let stage = Stage::new(&json!({"bound_subject": "web", "bound_claims": {"c": "canary-bound"}}));
    let foreign = key("ec", 256);
    for over in [json!({}), json!({"sub": "x"}), json!({"aud": null}), json!({"c": "canary"})] {
        let forged = signed("ES256", None, &over, &foreign);
        assert!(message(stage.login_with(&forged)).contains("signature"), "{over}");
    }
    for over in [
        json!({"sub": "canary"}),
        json!({"aud": "canary"}),
        json!({"c": "canary"}),
        json!({"c": ["canary"]}),
    ] {
        let jwt = stage.token(&over);
        let why = message(stage.login_with(&jwt));
        assert!(!why.contains("canary") && !why.contains(&jwt), "{why}");
    }
}
