//! Tests of `config.rs`, `source.rs`, `static_key.rs` and `key_server.rs` on the test bed.

use crate::fixture::{DISCOVERY, ISSUER, KEYS, Stage, answer, key, key_set, message};
use bulkhead_sdk::http::Response;
use bulkhead_sdk::{Failure, FailureKind};
use serde_json::{Value, json};

const CERTIFICATE: &str = include_str!("../../fixtures/issuer/certificate.pem");

fn shown(stage: &Stage) -> Value {
    Value::Object(stage.bed.read("config").ok().unwrap().data)
}

#[test]
fn config_shows_written_values_and_keeps_absent_fields() {
    let stage = Stage::empty();
    assert_eq!(stage.bed.read("config").err().unwrap().kind, FailureKind::NotFound);
    let pem = &stage.key.public_key.pem;
    stage.configure(&json!({
        "jwt_validation_pubkeys": [pem, CERTIFICATE], "bound_issuer": ISSUER,
        "jwt_supported_algs": "ES256,RS256", "default_role": "Dev",
    }));
    stage.configure(&json!({"default_role": "ops"}));
    assert_eq!(
        shown(&stage),
        json!({
            "oidc_discovery_url": "", "oidc_discovery_ca_pem": "",
            "jwks_url": "", "jwks_ca_pem": "", "jwks_pairs": [],
            "jwt_validation_pubkeys": [pem.trim(), CERTIFICATE.trim()],
            "bound_issuer": ISSUER, "jwt_supported_algs": ["ES256", "RS256"], "default_role": "ops",
            "oidc_client_id": "", "oidc_response_mode": "", "oidc_response_types": [],
            "provider_config": {}, "namespace_in_state": false,
        })
    );
}

#[test]
fn source_replaces_former_and_write_names_one_source() {
    let stage = Stage::new(&json!({}));
    let document = json!({"issuer": ISSUER, "jwks_uri": format!("{ISSUER}/keys")});
    stage.bed.host.answer(DISCOVERY, answer(200, &document));
    stage.publish(&[("k1", &stage.key)]);
    let url = format!("{ISSUER}/keys");
    let pairs = json!([{"jwks_url": url, "jwks_ca_pem": ""}]);
    let sources = [
        ("oidc_discovery_url", json!(ISSUER)),
        ("jwks_url", json!(url)),
        ("jwks_pairs", pairs),
        ("jwt_validation_pubkeys", json!([stage.key.public_key.pem.trim()])),
    ];
    for (name, source) in &sources {
        stage.configure(&json!({*name: source}));
        let shown = shown(&stage);
        for (other, _) in &sources {
            let is_empty = ["", "[]"].contains(&shown[*other].to_string().trim_matches('"'));
            assert_eq!(is_empty, other != name, "{name}: {shown}");
        }
        assert_eq!(&shown[*name], source);
        assert!(stage.login(&json!({})).is_ok(), "{name}");
        let emptied = stage.bed.write("config", &json!({*name: ""}));
        assert!(message(emptied).contains("there is no source of keys"), "{name}");
    }
    for pair in sources.windows(2) {
        let both = json!({pair[0].0: pair[0].1, pair[1].0: pair[1].1});
        let why = message(stage.bed.write("config", &both));
        assert!(why.contains(pair[0].0) && why.contains("a single source"), "{why}");
    }
}

#[test]
fn operator_mistake_is_refused_with_remedy() {
    let stage = Stage::empty();
    let pem = &stage.key.public_key.pem;
    for (config, says) in [
        (json!({}), "there is no source of keys"),
        (json!({"bound_issuer": ISSUER}), "there is no source of keys"),
        (json!({"jwt_validation_pubkeys": ["x"]}), "key 1 is refused: the text is not PEM"),
        (json!({"jwt_validation_pubkeys": [pem, stage.key.private_key]}), "key 2 is refused"),
        (json!({"jwt_validation_pubkeys": [format!("{pem}{pem}")]}), "key 1 is refused"),
        (json!({"jwt_validation_pubkeys": vec![pem; 101]}), "at most 100"),
        (json!({"jwt_validation_pubkeys": pem, "jwt_supported_algs": "HS256"}), "\"HS256\" is not"),
        (json!({"jwt_validation_pubkeys": pem, "jwt_supported_algs": "none"}), "\"none\" is not"),
        (json!({"jwt_validation_pubkeys": pem, "jwks_ca_pem": CERTIFICATE}), "another source"),
        (json!({"jwks_url": "http://issuer.example/keys"}), "does not begin with https://"),
        (json!({"jwks_url": "file:///etc/passwd"}), "does not begin with https://"),
        (json!({"jwks_url": "https://"}), "names no server"),
        (json!({"jwks_url": "https://a:b@issuer.example/"}), "holds credentials"),
        (json!({"jwks_url": "https://issuer.example/ x"}), "has a space"),
        (json!({"jwks_url": format!("https://a/{}", "x".repeat(2_048))}), "longer than 2048"),
        (json!({"oidc_discovery_url": "http://issuer.example"}), "does not begin with https://"),
        (json!({"jwks_pairs": "x"}), "is not a list of 1 to 10 objects"),
        (json!({"jwks_pairs": [{"jwks_url": 7}]}), "is not a list of 1 to 10 objects"),
        (json!({"jwks_pairs": [{"jwks_ca_pem": "x"}]}), "does not begin with https://"),
        (json!({"jwks_pairs": vec![json!({"jwks_url": "https://a/"}); 11]}), "is not a list"),
        (json!({"jwks_pairs": vec![json!({"jwks_url": "https://a/"}); 2]}), "twice"),
    ] {
        let why = message(stage.bed.write("config", &config));
        assert!(why.contains(says), "{config}: {why}");
        assert!(!why.contains("PRIVATE KEY"), "{why}");
    }
    assert!(stage.bed.read("config").is_err(), "nothing is stored");
}

#[test]
fn settings_of_browser_logins_may_only_be_empty() {
    let stage = Stage::new(&json!({}));
    stage.configure(&json!({
        "oidc_client_id": "", "oidc_client_secret": "", "oidc_response_mode": "",
        "oidc_response_types": [], "provider_config": {}, "namespace_in_state": false,
    }));
    for (name, value) in [
        ("oidc_client_id", json!("app")),
        ("oidc_client_secret", json!("canary")),
        ("oidc_response_mode", json!("query")),
        ("oidc_response_types", json!("code")),
        ("provider_config", json!({"provider": "azure"})),
        ("namespace_in_state", json!(true)),
    ] {
        let why = message(stage.bed.write("config", &json!({name: value})));
        assert!(why.starts_with(name) && why.contains("which are not served"), "{why}");
        assert!(!why.contains("canary"), "{why}");
    }
}

#[test]
fn discovery_document_must_match_configured_issuer_exactly() {
    let url = format!("{ISSUER}/keys");
    for (configured, document, kind, says) in [
        (ISSUER, json!({"issuer": format!("{ISSUER}/"), "jwks_uri": url}), None, "is of issuer"),
        (ISSUER, json!({"issuer": "https://evil.example", "jwks_uri": url}), None, "is of issuer"),
        (ISSUER, json!({"issuer": "", "jwks_uri": url}), None, "is of issuer"),
        (
            "https://issuer.example/",
            json!({"issuer": ISSUER, "jwks_uri": url}),
            None,
            "with or without a slash",
        ),
        (
            ISSUER,
            json!({"issuer": ISSUER, "jwks_uri": "http://issuer.example/keys"}),
            Some(FailureKind::Unreachable),
            "not an https URL",
        ),
        (
            ISSUER,
            json!({"issuer": ISSUER}),
            Some(FailureKind::Unreachable),
            "answered with an invalid body",
        ),
        (ISSUER, json!("text"), Some(FailureKind::Unreachable), "answered with an invalid body"),
    ] {
        let stage = Stage::empty();
        stage.bed.host.answer(DISCOVERY, answer(200, &document));
        stage.publish(&[("k1", &stage.key)]);
        let write = stage.bed.write("config", &json!({"oidc_discovery_url": configured}));
        let refused = write.err().unwrap();
        assert_eq!(refused.kind, kind.unwrap_or(FailureKind::InvalidRequest), "{document}");
        assert!(refused.message.contains(says), "{document}: {}", refused.message);
    }
}

#[test]
fn server_without_usable_keys_is_refused() {
    let key = key("ec", 256);
    let many: Vec<(String, _)> = (0..101).map(|number| (number.to_string(), &key)).collect();
    let many: Vec<_> = many.iter().map(|(id, key)| (id.as_str(), *key)).collect();
    let redirect = Response {
        status: 302,
        headers: vec![("location".to_owned(), "https://evil.example/keys".to_owned())],
        ..Response::default()
    };
    for (answer, says) in [
        (redirect, "302, which is not followed"),
        (answer(200, &json!({"keys": []})), "no key of the set"),
        (answer(200, &json!({"keys": [{"kty": "oct", "k": "AAAA", "kid": "k1"}]})), "no key"),
        (answer(200, &json!({})), "not a set of at most 100 JWKs"),
        (answer(200, &json!("x")), "not a set of at most 100 JWKs"),
        (answer(200, &key_set(&many)), "not a set of at most 100 JWKs"),
        (answer(200, &json!({"keys": ["x".repeat(256 << 10)]})), "not a set of at most 100 JWKs"),
        (answer(200, &json!("x".repeat(1 << 20))), "more than 1 MiB"),
        (answer(404, &json!({})), "answered 404"),
        (answer(500, &json!({})), "answered 500"),
    ] {
        let stage = Stage::empty();
        stage.bed.host.answer(KEYS, answer);
        let write = stage.bed.write("config", &json!({"jwks_url": format!("{ISSUER}/keys")}));
        let why = write.err().unwrap();
        assert!(why.message.contains(says), "{says}: {}", why.message);
        let requests = stage.bed.host.requests();
        assert!(requests.iter().all(|request| request.url.starts_with(ISSUER)), "{says}");
    }
}

#[test]
fn missing_grant_is_reported_in_host_words() {
    let stage = Stage::empty();
    let said = "mount auth/jwt/ has no grant http:https://issuer.example:443";
    stage.bed.host.refuse("send", Failure::denied(said));
    let write = stage.bed.write("config", &json!({"oidc_discovery_url": ISSUER}));
    let refused = write.err().unwrap();
    assert_eq!(refused.kind, FailureKind::PermissionDenied);
    assert!(refused.message.contains(said), "{}", refused.message);
}

#[test]
fn source_roots_are_used_for_requests_and_kept() {
    let stage = Stage::empty();
    stage.publish(&[("k1", &stage.key)]);
    let url = format!("{ISSUER}/keys");
    stage.configure(&json!({"jwks_url": url, "jwks_ca_pem": CERTIFICATE}));
    stage.configure(&json!({"default_role": "dev"}));
    stage.role(&json!({}));
    assert!(stage.login(&json!({})).is_ok());
    let requests = stage.bed.host.requests();
    let roots =
        requests.iter().map(|request| request.tls.clone().and_then(|tls| tls.root_certificates));
    assert_eq!(roots.collect::<Vec<_>>(), vec![Some(CERTIFICATE.to_owned()); 3]);
    stage.configure(&json!({"jwks_ca_pem": ""}));
    assert_eq!(shown(&stage)["jwks_ca_pem"], "");
    stage.configure(&json!({"jwks_url": url, "jwks_ca_pem": CERTIFICATE}));
    stage.configure(&json!({"jwks_url": url}));
    assert_eq!(shown(&stage)["jwks_ca_pem"], CERTIFICATE);
    stage.configure(&json!({"jwt_validation_pubkeys": stage.key.public_key.pem}));
    stage.configure(&json!({"jwks_url": url}));
    assert_eq!(shown(&stage)["jwks_ca_pem"], "", "another source in between");
}

#[test]
fn certificate_is_key_and_each_key_proves_tokens() {
    let stage = Stage::new(&json!({}));
    let pem = &stage.key.public_key.pem;
    let others = [key("ec", 384).public_key.pem, key("ec", 256).public_key.pem];
    stage.configure(&json!({"jwt_validation_pubkeys": [CERTIFICATE, others[0], others[1], pem]}));
    assert!(stage.login(&json!({})).is_ok());
    stage.configure(&json!({"jwt_validation_pubkeys": [CERTIFICATE, others[0], others[1]]}));
    assert!(stage.refusal(&json!({})).contains("signature"));
    stage.configure(&json!({"jwt_validation_pubkeys": [CERTIFICATE]}));
    assert!(stage.refusal(&json!({})).contains("a key that is not known"));
}

/// Algorithms of signatures in the registry of JOSE (RFC 7518, 8037, 8812 and 9864, and
/// ML-DSA), and whether the peers' library accepts them. Recorded on 2026-11-27.
const REGISTERED: [(&str, bool); 20] = [
    ("none", false),
    ("HS256", false),
    ("HS384", false),
    ("HS512", false),
    ("RS256", true),
    ("RS384", true),
    ("RS512", true),
    ("PS256", true),
    ("PS384", true),
    ("PS512", true),
    ("ES256", true),
    ("ES384", true),
    ("ES512", true),
    ("ES256K", false),
    ("EdDSA", true),
    ("Ed25519", false),
    ("Ed448", false),
    ("ML-DSA-44", false),
    ("ML-DSA-65", false),
    ("ML-DSA-87", false),
];

#[test]
fn every_registered_algorithm_is_configured_or_refused() {
    for (name, is_accepted) in REGISTERED {
        let stage = Stage::empty();
        let config = json!({
            "jwt_validation_pubkeys": [stage.key.public_key.pem], "jwt_supported_algs": [name],
        });
        let written = stage.bed.write("config", &config);
        assert_eq!(written.is_ok(), is_accepted, "{name}");
    }
    assert_eq!(REGISTERED.iter().filter(|(_, is_accepted)| *is_accepted).count(), 10);
}
