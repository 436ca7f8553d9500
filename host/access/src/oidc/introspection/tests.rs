//! Tests of `introspection.rs`: tokens of the provider, and tokens with small defects.

use super::super::key_pair::TokenSigningKey;
use super::super::public_key;
use super::*;
use crate::oidc::TokenAlgorithm;
use serde_json::json;

const EXPECTED: ExpectedClaims<'_> = ExpectedClaims { issuer: "https://a", client_id: "web" };

fn claims() -> Value {
    json!({"iss": "https://a", "sub": "5e1c", "aud": "web", "exp": 100, "iat": 50})
}

/// Returns a token with exactly these texts as header and claims, signed by the key.
fn by_hand(key: &TokenSigningKey, header: &str, claims: &str) -> String {
    let part = |text: &str| public_key::encode_base64(text.as_bytes());
    let message = format!("{}.{}", part(header), part(claims));
    let signature = key.sign(message.as_bytes()).unwrap();
    format!("{message}.{}", public_key::encode_base64(&signature))
}

fn header(key: &TokenSigningKey) -> Value {
    json!({"alg": key.published.alg, "kid": key.published.kid, "typ": "JWT"})
}

/// Returns the subject of a token after parsing, verification with the key, and a check at time 99.
fn subject(token: &str, key: &TokenSigningKey) -> Result<String, &'static str> {
    crypto_provider::install().unwrap();
    let unproven =
        UnverifiedToken::read(token).ok_or("the text is not a signed token of this provider")?;
    let claims = unproven.prove(&key.published, &EXPECTED)?;
    check(&claims, &EXPECTED, 99)
}

#[test]
fn each_algorithm_token_verifies_only_with_own_key() {
    for alg in TokenAlgorithm::ALL {
        let key = TokenSigningKey::make(alg).unwrap();
        let token = by_hand(&key, &header(&key).to_string(), &claims().to_string());
        assert_eq!(subject(&token, &key).as_deref(), Ok("5e1c"), "{alg:?}");
        assert_eq!(subject(&token, &TokenSigningKey::make(alg).unwrap()), Err(UNSIGNED), "{alg:?}");
        let (message, _) = token.rsplit_once('.').unwrap();
        assert_eq!(subject(&format!("{message}.AAAA"), &key), Err(UNSIGNED), "{alg:?}");
        for other in TokenAlgorithm::ALL.into_iter().filter(|other| *other != alg) {
            let header = json!({"alg": other, "kid": "k"}).to_string();
            let token = by_hand(&key, &header, &claims().to_string());
            assert_eq!(subject(&token, &key), Err(UNSIGNED), "{alg:?} as {other:?}");
        }
    }
}

#[test]
fn malformed_claims_are_refused_before_jwt_library_call() {
    let key = TokenSigningKey::make(TokenAlgorithm::EdDsa).unwrap();
    let (plain, named) = (claims().to_string(), header(&key).to_string());
    let twice = plain.replace("{", r#"{"role":"a","role":"b","#);
    let crit = named.replace("{", r#"{"crit":["exp"],"#);
    for (header, claims) in [
        (&named, twice),
        (&crit, plain.clone()),
        (&named, "[]".to_owned()),
        (&named, String::new()),
    ] {
        let token = by_hand(&key, header, &claims);
        assert_eq!(
            subject(&token, &key),
            Err("the text is not a signed token of this provider"),
            "{header} {claims}"
        );
    }
    for (name, value) in [
        ("iss", json!(["https://a"])),
        ("aud", json!(["web"])),
        ("exp", json!(100.4)),
        ("exp", json!("100")),
        ("sub", json!(null)),
        ("sub", json!(7)),
    ] {
        let mut wrong = claims();
        wrong[name] = value;
        let token = by_hand(&key, &named, &wrong.to_string());
        assert_eq!(subject(&token, &key), Err(NOT_OURS), "{wrong}");
    }
}

#[test]
fn token_check_requires_issuer_client_and_unexpired_time() {
    let claims = claims();
    let check = |issuer, client_id, now| {
        check(claims.as_object().unwrap(), &ExpectedClaims { issuer, client_id }, now)
    };
    assert_eq!(check("https://a", "", 99).as_deref(), Ok("5e1c"));
    assert_eq!(check("https://a", "web", 99).as_deref(), Ok("5e1c"));
    for (issuer, client, now) in
        [("https://b", "", 99), ("https://a", "ci", 99), ("https://a", "", 100)]
    {
        assert!(check(issuer, client, now).is_err(), "{issuer} {client} {now}");
    }
}

#[test]
fn non_token_text_is_parsed_without_harm() {
    for wrong in ["", ".", "..", "a.b.c", "e30.e30", "e30.W10.e30", "e30.e30.!", "e30.e30.AA"] {
        assert!(UnverifiedToken::read(wrong).is_none(), "{wrong}");
    }
    let header = public_key::encode_base64(br#"{"alg":"EdDSA","kid":"k"}"#);
    assert!(UnverifiedToken::read(&format!("{header}.e30.AA")).is_some());
    assert!(
        UnverifiedToken::read(&format!("{header}.e30.{}", "A".repeat(MAX_TOKEN_LEN))).is_none()
    );
}
