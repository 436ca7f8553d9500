//! Tokens by all kinds of keys, and tokens that are almost right.

use super::*;
use crate::crypto::GeneratedKey;
use crate::testbed::TestHost;
use serde_json::json;

/// The test's time, in seconds since 1970.
const NOW: u64 = 1_893_456_000;
const EXPECTED: ExpectedClaims<'_> =
    ExpectedClaims { issuer: "https://issuer.example", audience: "bulkhead" };

fn claims(with: Value) -> Map<String, Value> {
    let mut all = json!({
        "iss": "https://issuer.example", "sub": "me", "aud": ["other", "bulkhead"],
        "exp": NOW + 300, "iat": NOW, "roles": ["a"],
    });
    for (name, value) in with.as_object().unwrap() {
        match value {
            Value::Null => drop(all.as_object_mut().unwrap().remove(name)),
            value => all[name] = value.clone(),
        }
    }
    all.as_object().unwrap().clone()
}

fn key(host: &TestHost, kind: &str, bits: u32) -> GeneratedKey {
    host.crypto().generate_key(kind, bits, "pkcs8").ok().unwrap()
}

/// A set with the key under this id.
fn set(named: &[(&str, &GeneratedKey)]) -> Vec<u8> {
    let keys: Vec<Value> = named
        .iter()
        .map(|(id, key)| {
            let mut jwk: Value = serde_json::from_str(&key.public_key.jwk).unwrap();
            jwk["kid"] = (*id).into();
            jwk["x5c"] = json!(["certificate"]);
            jwk
        })
        .collect();
    json!({ "keys": keys }).to_string().into_bytes()
}

fn prove(host: &TestHost, jwt: &str, algorithms: &[&str], set: &[u8]) -> Result<Claims, JwtFault> {
    let token = ParsedToken::read(jwt, algorithms)?;
    let keys = KeySet::read(set)?;
    let key = keys.key_of(&token)?;
    let claims = token.prove(host, key)?;
    claims.check(host.clock().now(), &EXPECTED)?;
    second_opinion::agrees(jwt, key, &EXPECTED, &claims);
    Ok(claims)
}

/// A token signed by an Ed25519 key, with these texts as header and claims.
fn by_hand(host: &TestHost, key: &GeneratedKey, header: &str, claims: &str) -> String {
    let (header, claims) = (URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims));
    let signed = format!("{header}.{claims}");
    let signature = host.crypto().sign("EdDSA", &key.private_key, signed.as_bytes()).unwrap();
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
}

#[test]
fn white_space_around_a_token_is_left_out() {
    let host = TestHost::default();
    let key = key(&host, "ec", 256);
    let jwt = sign(&host, "ES256", Some("a"), &claims(json!({})), &key.private_key).unwrap();
    let set = set(&[("a", &key)]);
    for around in [format!("{jwt}\n"), format!("\r\n{jwt}\t "), jwt.clone()] {
        let token = ParsedToken::read(&around, &["ES256"]).unwrap();
        let keys = KeySet::read(&set).unwrap();
        let proven =
            token.prove(&host, keys.key_of(&ParsedToken::read(&jwt, &["ES256"]).unwrap()).unwrap());
        assert!(proven.is_ok(), "{around:?}");
    }
    for inside in [jwt.replacen('.', ".\n", 1), jwt.replacen('.', " .", 1), format!("{jwt}\u{a0}")]
    {
        assert!(ParsedToken::read(&inside, &["ES256"]).is_err(), "{inside:?}");
    }
}

#[test]
fn signature_is_proven_by_every_public_key_form() {
    let host = TestHost::default();
    for (kind, bits, algorithm) in [
        ("rsa", 0, "RS256"),
        ("rsa", 0, "PS512"),
        ("ec", 256, "ES256"),
        ("ec", 521, "ES512"),
        ("ed25519", 0, "EdDSA"),
    ] {
        let key = key(&host, kind, bits);
        let jwt = sign(&host, algorithm, Some("k1"), &claims(json!({})), &key.private_key).unwrap();
        let proven = prove(&host, &jwt, &["RS256", algorithm], &set(&[("k1", &key)])).unwrap();
        assert_eq!((proven.subject(), proven.expires()), (Some("me"), Some(NOW + 300)));
        assert_eq!(proven.all()["roles"], json!(["a"]));
        let token = ParsedToken::read(&jwt, &[algorithm]).unwrap();
        assert_eq!(token.unverified_claims().issuer(), Some("https://issuer.example"));
        assert!(token.prove(&host, &key.public_key.pem).is_ok(), "a key in PEM proves the token");
    }
}

#[test]
fn token_of_other_key_or_text_proves_nothing() {
    let host = TestHost::default();
    let (mine, other) = (key(&host, "ec", 256), key(&host, "ec", 256));
    let jwt = sign(&host, "ES256", Some("k1"), &claims(json!({})), &mine.private_key).unwrap();
    let wrong = set(&[("k1", &other), ("k2", &mine)]);
    assert_eq!(prove(&host, &jwt, &["ES256"], &wrong), Err(JwtFault::Signature));
    let set = set(&[("k1", &mine)]);
    let (signed, signature) = jwt.rsplit_once('.').unwrap();
    let (header, _) = signed.split_once('.').unwrap();
    let forged = serde_json::to_vec(&claims(json!({"sub": "root"}))).unwrap();
    let forged = format!("{header}.{}.{signature}", URL_SAFE_NO_PAD.encode(forged));
    assert_eq!(prove(&host, &forged, &["ES256"], &set), Err(JwtFault::Signature));
    for cut in ["", "AAAA", &signature[..80]] {
        let cut = format!("{signed}.{cut}");
        assert_eq!(prove(&host, &cut, &["ES256"], &set), Err(JwtFault::Signature));
    }
}

#[test]
fn sender_chooses_neither_algorithm_nor_key() {
    let host = TestHost::default();
    let key = key(&host, "ed25519", 0);
    let claims = Value::Object(claims(json!({}))).to_string();
    let refused = |header: &str| {
        let jwt = by_hand(&host, &key, header, &claims);
        ParsedToken::read(&jwt, &["EdDSA"]).err()
    };
    for algorithm in ["none", "HS256", "RS256", "eddsa", ""] {
        let header = json!({"alg": algorithm}).to_string();
        assert_eq!(refused(&header), Some(JwtFault::Algorithm(algorithm.to_owned())));
    }
    let own = json!({"alg": "EdDSA", "kid": "k1", "jwk": {"kty": "OKP"}, "jku": "https://evil"});
    assert_eq!(refused(&own.to_string()), None, "keys inside of the token are ignored");
    for header in [
        r#"{"alg":"EdDSA","alg":"EdDSA"}"#,
        r#"{"alg":"EdDSA","crit":[]}"#,
        r#"{"alg":"EdDSA","crit":["b64"],"b64":false}"#,
        r#"{"alg":"EdDSA","typ":"JWE"}"#,
        r#"{"alg":["EdDSA"]}"#,
        r#"{"alg":"EdDSA","kid":7}"#,
        r#"{"alg":"EdDSA","kid":""}"#,
        r#"["EdDSA"]"#,
        "null",
        "",
    ] {
        let fault = refused(header);
        assert!(matches!(fault, Some(JwtFault::Malformed(_))), "{header}: {fault:?}");
    }
}

#[test]
fn claim_of_wrong_type_is_refused_not_absent() {
    let host = TestHost::default();
    let key = key(&host, "ed25519", 0);
    for with in [
        json!({"exp": null}),
        json!({"exp": "1893456300"}),
        json!({"exp": -1}),
        json!({"exp": 1e300}),
        json!({"nbf": "0"}),
        json!({"nbf": [0]}),
        json!({"iat": true}),
        json!({"iss": ["https://issuer.example"]}),
        json!({"sub": 7}),
        json!({"aud": []}),
        json!({"aud": [7]}),
        json!({"aud": {"a": "bulkhead"}}),
    ] {
        let all = claims(with.clone());
        let jwt = sign(&host, "EdDSA", None, &all, &key.private_key).unwrap();
        let fault = ParsedToken::read(&jwt, &["EdDSA"]).err();
        assert!(matches!(fault, Some(JwtFault::Malformed(_))), "{with}: {fault:?}");
    }
    let twice = r#"{"exp":1893456300,"sub":"me","sub":"root"}"#;
    let jwt = by_hand(&host, &key, r#"{"alg":"EdDSA"}"#, twice);
    assert!(matches!(ParsedToken::read(&jwt, &["EdDSA"]).err(), Some(JwtFault::Malformed(_))));
}

#[test]
fn profile_checks_issuer_audience_and_store_time() {
    let host = TestHost::default();
    let key = key(&host, "ed25519", 0);
    let set = set(&[("k1", &key)]);
    let checked = |with: Value| {
        let jwt = sign(&host, "EdDSA", None, &claims(with), &key.private_key).unwrap();
        prove(&host, &jwt, &["EdDSA"], &set).err().map(|fault| fault.to_string())
    };
    for (with, why) in [
        (json!({}), None),
        (json!({"aud": "bulkhead"}), None),
        (json!({"exp": NOW - 59}), None),
        (json!({"exp": NOW - 60}), Some("the token has ended at 1893455940")),
        (json!({"exp": (NOW + 1) as f64 + 0.5}), None),
        (json!({"nbf": NOW}), None),
        (json!({"nbf": NOW + 1}), Some("the token does not hold before 1893456001")),
        (
            json!({"iss": "https://issuer.example/"}),
            Some("the token is of another issuer; \"https://issuer.example\""),
        ),
        (json!({"iss": null}), Some("the token is of another issuer; \"https://issuer.example\"")),
        (json!({"aud": null}), Some("the token is for another audience; \"bulkhead\" is")),
        (json!({"aud": "bulkhead2"}), Some("the token is for another audience; \"bulkhead\" is")),
    ] {
        let found = checked(with.clone());
        match (found, why) {
            (None, None) => {}
            (Some(found), Some(why)) => assert!(found.starts_with(why), "{with}: {found}"),
            (found, _) => panic!("{with}: {found:?}"),
        }
    }
}

#[test]
fn texts_that_are_no_tokens_are_refused() {
    for text in ["", ".", "..", "...", "a.b", "e30.e30.", "e30=.e30.AAAA", "e30.e30.AAAA.AAAA"] {
        assert!(ParsedToken::read(text, &["RS256"]).is_err(), "{text}");
    }
    let long = format!("{}.e30.AAAA", "A".repeat(16 << 10));
    let fault = ParsedToken::read(&long, &["RS256"]).err();
    assert_eq!(fault, Some(JwtFault::Malformed("it has more than 16 KiB".to_owned())));
}

#[test]
fn only_meant_key_of_set_is_used() {
    let host = TestHost::default();
    let (one, other) = (key(&host, "ec", 256), key(&host, "ec", 256));
    let jwt =
        |id: Option<&str>| sign(&host, "ES256", id, &claims(json!({})), &one.private_key).unwrap();
    let both = set(&[("k1", &one), ("k2", &other)]);
    assert!(prove(&host, &jwt(Some("k1")), &["ES256"], &both).is_ok());
    for (id, keys) in [
        (Some("k3"), both.clone()),
        (None, both),
        (Some("k1"), set(&[("k1", &one), ("k1", &other)])),
        (Some("k1"), set(&[])),
        (Some("k1"), set(&[("k1", &key(&host, "ec", 384))])),
    ] {
        assert_eq!(prove(&host, &jwt(id), &["ES256"], &keys), Err(JwtFault::UnknownKey));
    }
    for change in [json!({"use": "enc"}), json!({"alg": "ES384"}), json!({"kty": "oct"})] {
        let mut keys: Value = serde_json::from_slice(&set(&[("k1", &one)])).unwrap();
        for (name, value) in change.as_object().unwrap() {
            keys["keys"][0][name] = value.clone();
        }
        let keys = keys.to_string().into_bytes();
        let refused = prove(&host, &jwt(Some("k1")), &["ES256"], &keys);
        assert_eq!(refused, Err(JwtFault::UnknownKey), "{change}");
    }
}

#[test]
fn key_lookup_needs_unique_id_and_matching_algorithm() {
    let host = TestHost::default();
    let (one, other) = (key(&host, "ec", 256), key(&host, "ec", 384));
    let all = set(&[("k1", &one), ("k2", &one), ("k2", &other), ("k3", &other), ("", &one)]);
    let ids = |algorithm: &str| {
        let keys = KeySet::read(&all).unwrap().by_id(algorithm);
        keys.into_keys().collect::<Vec<_>>()
    };
    assert_eq!(ids("ES256"), ["k1"]);
    assert_eq!(ids("ES384"), ["k3"]);
    assert!(ids("RS256").is_empty());
}

#[test]
fn sole_key_of_set_serves_token_without_id() {
    let host = TestHost::default();
    let (one, other) = (key(&host, "ec", 256), key(&host, "ed25519", 0));
    let ids = |named: &[(&str, &GeneratedKey)]| {
        let keys = KeySet::read(&set(named)).unwrap().by_any_id();
        keys.into_keys().collect::<Vec<_>>()
    };
    assert_eq!(ids(&[("k1", &one)]), ["", "k1"]);
    assert_eq!(ids(&[("", &one)]), [""]);
    assert_eq!(ids(&[("k1", &one), ("k2", &other)]), ["k1", "k2"]);
    assert_eq!(ids(&[("k1", &one), ("k1", &other), ("", &other)]), Vec::<String>::new());
}

#[test]
fn any_key_of_same_kind_proves_token() {
    let host = TestHost::default();
    let (mine, other) = (key(&host, "ec", 256), key(&host, "ec", 256));
    let large = key(&host, "ec", 384);
    let jwt = sign(&host, "ES256", None, &claims(json!({})), &mine.private_key).unwrap();
    let prove = |keys: &[&GeneratedKey]| {
        let token = ParsedToken::read(&jwt, &["ES256"]).unwrap();
        token.prove_by_any(&host, keys.iter().map(|key| key.public_key.pem.as_str()))
    };
    assert!(prove(&[&large, &other, &mine]).is_ok());
    assert_eq!(prove(&[&large, &other]), Err(JwtFault::Signature));
    assert!(matches!(prove(&[&large]), Err(JwtFault::Refused(_))));
    assert_eq!(prove(&[]), Err(JwtFault::UnknownKey));
}

#[test]
fn token_without_end_passes_only_caller_bounded_reading() {
    let host = TestHost::default();
    let key = key(&host, "ed25519", 0);
    let all = claims(json!({"exp": null, "nbf": NOW}));
    let jwt = sign(&host, "EdDSA", None, &all, &key.private_key).unwrap();
    assert!(ParsedToken::read(&jwt, &["EdDSA"]).is_err());
    let token = ParsedToken::read_unbounded(&jwt, &["EdDSA"]).unwrap();
    let claims = token.prove(&host, &key.public_key.pem).unwrap();
    assert_eq!((claims.expires(), claims.begins(), claims.issued()), (None, Some(NOW), Some(NOW)));
    let fault = claims.check(host.clock().now(), &EXPECTED);
    assert_eq!(fault, Err(JwtFault::Malformed("it has no exp".to_owned())));
}

#[test]
fn sets_of_keys_by_the_thousand_are_refused() {
    let host = TestHost::default();
    let key = key(&host, "ed25519", 0);
    let many: Vec<(&str, &GeneratedKey)> = (0..101).map(|_| ("k", &key)).collect();
    let why = KeySet::read(&set(&many)).unwrap_err().to_string();
    assert!(why.contains("101 keys; the most is 100"), "{why}");
    let many: Vec<(&str, &GeneratedKey)> = (0..10_000).map(|_| ("k", &key)).collect();
    let why = KeySet::read(&set(&many)).unwrap_err().to_string();
    assert!(why.contains("256 KiB"), "{why}");
    for text in ["", "{}", "[]", "{\"keys\":{}}", "{\"keys\":[],\"keys\":[]}"] {
        assert!(KeySet::read(text.as_bytes()).is_err(), "{text}");
    }
}

#[test]
fn weak_issuer_keys_are_named_as_weak() {
    let host = TestHost::default();
    let n = URL_SAFE_NO_PAD.encode([0xff; 128]);
    let keys = json!({"keys": [{"kty": "RSA", "kid": "k1", "n": n, "e": "AQAB"}]}).to_string();
    let header = URL_SAFE_NO_PAD.encode(r#"{"alg":"RS256","kid":"k1"}"#);
    let body = URL_SAFE_NO_PAD.encode(Value::Object(claims(json!({}))).to_string());
    let jwt = format!("{header}.{body}.AAAA");
    let why = prove(&host, &jwt, &["RS256"], keys.as_bytes()).unwrap_err().to_string();
    assert_eq!(why, "the RSA key has 1024 bits; give one of 2048 to 8192");
}

#[test]
fn refusals_of_the_host_are_passed_on_unchanged() {
    let host = TestHost::default();
    let key = key(&host, "ed25519", 0);
    host.refuse("sign", Failure::denied("mount x was not granted crypto:sign"));
    let refused = sign(&host, "EdDSA", None, &claims(json!({})), &key.private_key).unwrap_err();
    assert_eq!(refused.kind, crate::FailureKind::PermissionDenied);
    let jwt = sign(&host, "EdDSA", None, &claims(json!({})), &key.private_key).unwrap();
    host.refuse("verify-signature", Failure::new(crate::FailureKind::Unavailable, "sealed"));
    let fault = ParsedToken::read(&jwt, &["EdDSA"]).unwrap().prove(&host, &key.public_key.pem);
    assert_eq!(Failure::from(fault.unwrap_err()).kind, crate::FailureKind::Unavailable);
}
