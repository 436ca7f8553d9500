//! Bearers of signed tokens log in to the binary that ships: by written keys, and by keys that an
//! issuer publishes over HTTPS.

use bulkhead_tests::cloud_b::now;
use bulkhead_tests::internet::{Fault, Internet, Online, Response};
use bulkhead_tests::signer::Signer;
use bulkhead_tests::{Answer, Bulkhead, Client};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

const HOST: &str = "issuer.example";
const ISSUER: &str = "https://issuer.example";
const KEYS: &str = "https://keys.example/jwks";

/// Usual claims, changed by `over`; null removes a claim.
fn claims(over: &Value) -> Value {
    let mut all = json!({
        "iss": ISSUER, "sub": "web", "aud": "bulkhead", "iat": now(), "exp": now() + 600,
    });
    for (name, value) in over.as_object().expect("an object") {
        match value {
            Value::Null => drop(all.as_object_mut().expect("an object").remove(name)),
            value => all[name] = value.clone(),
        }
    }
    all
}

/// The role of these tests, changed by `over`.
fn role(over: &Value) -> Value {
    let mut role = json!({ "user_claim": "sub", "bound_audiences": "bulkhead" });
    role.as_object_mut().expect("an object").extend(over.as_object().expect("an object").clone());
    role
}

fn login(server: &Bulkhead, jwt: &str) -> Answer {
    server.client(None).write("auth/jwt/login", &json!({ "role": "dev", "jwt": jwt }))
}

/// A server in dev mode, which mounts the method at `auth/jwt`, with a written key.
struct JwtStage {
    server: Bulkhead,
    root: Client,
    signer: Signer,
}

impl JwtStage {
    fn new(over: &Value) -> Self {
        let (server, signer) = (Bulkhead::start(), Signer::new("k1"));
        let root = server.root();
        let config = json!({ "jwt_validation_pubkeys": signer.certificate() });
        root.write("auth/jwt/config", &config).expect(204);
        root.write("auth/jwt/role/dev", &role(over)).expect(204);
        Self { server, root, signer }
    }

    fn login(&self, over: &Value) -> Answer {
        login(&self.server, &self.signer.token(&claims(over)))
    }
}

#[test]
fn bearer_with_configured_key_gets_token_following_role() {
    let stage = JwtStage::new(&json!({
        "token_policies": "dev", "token_ttl": "1h", "claim_mappings": { "email": "mail" },
        "bound_claims": { "project": ["web", "ops"] },
    }));
    let jwt = stage.signer.token(&claims(&json!({ "project": "web", "email": "a@b.example" })));
    let answer = login(&stage.server, &jwt).expect(200);
    let auth = &answer.body["auth"];
    assert_eq!(auth["policies"], json!(["default", "dev"]));
    assert_eq!(auth["metadata"], json!({ "mail": "a@b.example", "role": "dev" }));
    let bearer = stage.server.client(auth["client_token"].as_str());
    let shown = bearer.read("auth/token/lookup-self").expect(200).body["data"].clone();
    assert_eq!(
        (&shown["display_name"], &shown["path"]),
        (&json!("jwt-web"), &json!("auth/jwt/login"))
    );
    bearer.write("auth/token/renew-self", &json!({})).expect(200);
    stage.root.delete("auth/jwt/role/dev").expect(204);
    bearer.write("auth/token/renew-self", &json!({})).expect(400);
    let audit = std::fs::read_to_string(stage.server.data().join("audit.log"));
    let audit = audit.expect("dev mode audits to its folder");
    assert!(audit.contains("auth/jwt/login") && !audit.contains(&jwt));
}

#[test]
fn login_token_may_end_with_line_break() {
    let stage = JwtStage::new(&json!({ "claim_mappings": { "email": "mail" } }));
    let jwt = stage.signer.token(&claims(&json!({ "email": "a@b.example" })));
    for sent in [format!("{jwt}\n"), format!("\t{jwt}\r\n"), format!(" {jwt} ")] {
        login(&stage.server, &sent).expect(200);
    }
    let (signed, signature) = jwt.rsplit_once('.').expect("a token has parts");
    for sent in [format!("{signed}.\n{signature}"), format!("{signed}\n.{signature}")] {
        let refused = login(&stage.server, &sent).expect(400);
        assert!(refused.errors().contains("a part is not base64url"), "{refused:?}");
    }
    let file = stage.server.data().join("token.jwt");
    std::fs::write(&file, format!("{jwt}\n")).expect("a file");
    let from_file = format!("jwt=@{}", file.display());
    let words = ["write", "-field=token", "auth/jwt/login", "role=dev", &from_file];
    let done = stage.server.command(&words).output().expect("the program runs");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let audit = std::fs::read_to_string(stage.server.data().join("audit.log"));
    assert!(!audit.expect("dev mode audits to its folder").contains(signature));
}

#[test]
fn case_distinguishes_subjects_and_groups_come_from_token() {
    let stage = JwtStage::new(&json!({ "groups_claim": "groups" }));
    let rules = r#"path "auth/jwt/role/dev" { capabilities = ["read"] }"#;
    stage.root.write("sys/policies/acl/builders", &json!({ "policy": rules })).expect(204);
    let group = json!({ "name": "builders", "type": "external", "policies": ["builders"] });
    let group = stage.root.write("identity/group", &group).expect(200);
    let mounts = stage.root.read("sys/auth").expect(200);
    let alias = json!({
        "name": "builders", "canonical_id": group.body["data"]["id"],
        "mount_accessor": mounts.body["data"]["jwt/"]["accessor"],
    });
    stage.root.write("identity/group-alias", &alias).expect(200);
    let entity = |sub: &str, groups: &Value| {
        let answer = stage.login(&json!({ "sub": sub, "groups": groups })).expect(200);
        (answer.body["auth"]["entity_id"].clone(), answer)
    };
    let (lower, member) = entity("alice", &json!(["builders"]));
    let (upper, other) = entity("Alice", &json!(["Builders", "others"]));
    assert_ne!(lower, upper);
    let reads = |answer: &Answer| {
        let client = stage.server.client(answer.body["auth"]["client_token"].as_str());
        client.read("auth/jwt/role/dev").status
    };
    assert_eq!((reads(&member), reads(&other)), (200, 403));
    let (_, left) = entity("alice", &json!([]));
    assert_eq!(reads(&left), 403, "a login has only the groups of its token");
}

/// An issuer with a discovery document, whose keys are on another host.
struct Issuer {
    internet: Internet,
    keys: Arc<Mutex<Vec<Signer>>>,
}

impl Issuer {
    fn start(signer: &Signer) -> Self {
        let internet = Internet::start();
        let keys = Arc::new(Mutex::new(vec![signer.clone()]));
        internet.serve(HOST, |request| match request.path.as_str() {
            "/.well-known/openid-configuration" => {
                Response::json(200, &json!({ "issuer": ISSUER, "jwks_uri": KEYS }))
            }
            _ => Response::json(404, &json!({})),
        });
        let published = Arc::clone(&keys);
        internet.serve("keys.example", move |_| {
            let keys = published.lock().expect("no test panics with it");
            let keys: Vec<Value> = keys.iter().map(Signer::jwk).collect();
            Response::json(200, &json!({ "keys": keys }))
        });
        Self { internet, keys }
    }

    /// A server with the method at `auth/jwt`, which knows this issuer, and the role `dev`.
    fn server(&self) -> Online {
        let online = self.internet.server("");
        online.root.write("sys/auth/jwt", &json!({ "type": "jwt" })).expect(204);
        let config = json!({ "oidc_discovery_url": ISSUER });
        online.root.write("auth/jwt/config", &config).expect(204);
        online.root.write("auth/jwt/role/dev", &role(&json!({}))).expect(204);
        online
    }
}

#[test]
fn discovered_issuer_keys_are_cached_until_new_key() {
    let (old, new) = (Signer::new("k1"), Signer::new("k2"));
    let issuer = Issuer::start(&old);
    let mut online = issuer.server();
    issuer.internet.forget();
    for _ in 0..3 {
        login(&online.server, &old.token(&claims(&json!({})))).expect(200);
    }
    assert_eq!(issuer.internet.requests().len(), 2, "the document and the keys");
    *issuer.keys.lock().expect("no test panics with it") = vec![new.clone()];
    login(&online.server, &new.token(&claims(&json!({})))).expect(200);
    let forged = Signer::new("k3");
    for _ in 0..9 {
        let refused = login(&online.server, &forged.token(&claims(&json!({})))).expect(400);
        assert!(refused.errors().contains("signed by a key that is not known"), "{refused:?}");
    }
    assert_eq!(issuer.internet.requests().len(), 3, "one request a minute for unknown keys");
    online.restart();
    issuer.internet.fail("keys.example", "/", Fault::Status(503), 10);
    let down = login(&online.server, &new.token(&claims(&json!({})))).expect(502);
    assert!(down.errors().contains("fetch the keys of the issuer"), "{down:?}");
    issuer.internet.heal();
    login(&online.server, &new.token(&claims(&json!({})))).expect(200);
}

#[test]
fn source_write_refuses_redirect_other_issuer_missing_grant() {
    let issuer = Issuer::start(&Signer::new("k1"));
    let online = issuer.internet.server("");
    let root = &online.root;
    let narrow = json!({ "type": "jwt", "grants": ["http:https://issuer.example:443"] });
    root.write("sys/auth/narrow", &narrow).expect(204);
    let config = json!({ "oidc_discovery_url": ISSUER });
    let refused = root.write("auth/narrow/config", &config).expect(403);
    assert!(refused.errors().contains("http:https://keys.example:443"), "{refused:?}");
    assert!(issuer.internet.asked("keys.example").is_empty());
    root.write("sys/auth/jwt", &json!({ "type": "jwt" })).expect(204);
    let with_slash = json!({ "oidc_discovery_url": format!("{ISSUER}/") });
    let refused = root.write("auth/jwt/config", &with_slash).expect(400);
    assert!(refused.errors().contains("exactly as the issuer"), "{refused:?}");
    let elsewhere = Fault::Redirect("https://evil.example/jwks".to_owned());
    issuer.internet.fail("keys.example", "/", elsewhere, 1);
    let refused = root.write("auth/jwt/config", &json!({ "jwks_url": KEYS })).expect(502);
    assert!(refused.errors().contains("which is not followed"), "{refused:?}");
    assert!(issuer.internet.asked("evil.example").is_empty());
    root.read("auth/jwt/config").expect(404);
    root.write("auth/jwt/config", &json!({ "jwks_url": KEYS })).expect(204);
}

/// The weakness, the token, and words of the refusal.
type WeakToken = (&'static str, String, &'static str);

const NOT_ALLOWED: &str = "signed by an algorithm that is not allowed";
const NOT_THE_KEY: &str = "signature is not by the issuer's key";
const OTHER_AUDIENCE: &str = "the token is for another audience (aud)";

/// Tokens whose header or form proves nothing, with usual claims.
fn weak_forms(signer: &Signer) -> Vec<WeakToken> {
    let usual = claims(&json!({})).to_string();
    let of = |header: &str| signer.token_of(header, &usual);
    let none = of(r#"{"alg":"none"}"#);
    let (unsigned, _) = none.rsplit_once('.').expect("a token");
    let twice = usual.replacen('{', r#"{"sub":"root","#, 1);
    let good = signer.token(&claims(&json!({})));
    let (signed, signature) = good.rsplit_once('.').expect("a token");
    let (header, _) = signed.split_once('.').expect("a token");
    let other = signer.token(&claims(&json!({ "name": "root" })));
    let others = other.split('.').nth(1).expect("a token");
    vec![
        ("no algorithm", none.clone(), NOT_ALLOWED),
        ("no algorithm and no signature", format!("{unsigned}."), NOT_ALLOWED),
        ("a public key as a secret", of(r#"{"alg":"HS256"}"#), NOT_ALLOWED),
        ("an algorithm of another padding", of(r#"{"alg":"PS256"}"#), NOT_THE_KEY),
        (
            "an algorithm of another kind of key",
            of(r#"{"alg":"ES256"}"#),
            "signed by a key that is not known",
        ),
        (
            "an extension that is not understood",
            of(r#"{"alg":"RS256","crit":["b64"],"b64":false}"#),
            "the header has crit",
        ),
        (
            "the last of two claims",
            signer.token_of(r#"{"alg":"RS256"}"#, &twice),
            "a part is not JSON with each key once",
        ),
        ("other claims", format!("{header}.{others}.{signature}"), NOT_THE_KEY),
        ("no signature", format!("{signed}."), NOT_THE_KEY),
        ("a long text", "e30.".repeat(10_000), "it has more than 16 KiB"),
    ]
}

/// Tokens with claims that the role or the time does not admit, and a token of another key.
fn weak_claims(signer: &Signer) -> Vec<WeakToken> {
    let of = |over: Value| signer.token(&claims(&over));
    vec![
        ("another subject", of(json!({ "sub": "Web" })), "is not the bound_subject"),
        ("another audience", of(json!({ "aud": ["other"] })), OTHER_AUDIENCE),
        ("no audience", of(json!({ "aud": null })), OTHER_AUDIENCE),
        ("an end in the past", of(json!({ "exp": now() - 90 })), "the token has expired (exp)"),
        (
            "a beginning in the future",
            of(json!({ "nbf": now() + 600 })),
            "the token is not valid yet (nbf)",
        ),
        ("no time", of(json!({ "exp": null, "iat": null })), "the token has no time"),
        (
            "an end that is a text",
            of(json!({ "exp": "9999999999" })),
            "exp is not a number of seconds",
        ),
        ("another key", Signer::new("k1").token(&claims(&json!({}))), NOT_THE_KEY),
    ]
}

#[test]
fn no_token_passes_that_proves_nothing() {
    let stage = JwtStage::new(&json!({ "bound_subject": "web" }));
    let signer = &stage.signer;
    for (weakness, jwt, words) in [weak_forms(signer), weak_claims(signer)].concat() {
        let answer = login(&stage.server, &jwt);
        assert_eq!(answer.status, 400, "{weakness}: {answer:?}");
        assert!(answer.errors().contains(words), "{weakness}: {answer:?}");
        assert!(answer.body["auth"].is_null() && !answer.errors().contains(&jwt), "{weakness}");
    }
    login(&stage.server, &signer.token(&claims(&json!({})))).expect(200);
}

#[test]
fn role_without_audiences_refuses_token_with_audience() {
    let stage = JwtStage::new(&json!({ "bound_audiences": [], "bound_subject": "web" }));
    for audience in [json!("bulkhead"), json!(["bulkhead"]), json!("")] {
        let refused = stage.login(&json!({ "aud": audience })).expect(400);
        assert!(refused.errors().contains("no audiences bound to the role"), "{refused:?}");
    }
    stage.login(&json!({ "aud": null })).expect(200);
}

pub(super) fn bad_settings_and_tokens_are_refused_and_not_stored() {
    let stage = JwtStage::new(&json!({}));
    let read = |path: &str| stage.root.read(path).expect(200).body["data"].clone();
    let before = (read("auth/jwt/config"), read("auth/jwt/role/dev"));
    let key = stage.signer.private_pem();
    for (path, body, says) in [
        ("config", json!({ "jwt_validation_pubkeys": "nonsense" }), "is not PEM"),
        ("config", json!({ "jwt_validation_pubkeys": key }), "is a private key"),
        ("config", json!({ "jwt_validation_pubkeys": [[]] }), "jwt_validation_pubkeys"),
        ("config", json!({ "jwks_url": "http://127.0.0.1/keys" }), "https://"),
        ("config", json!({ "jwks_url": "https://169.254.169.254/keys" }), "169.254.169.254"),
        ("config", json!({ "jwks_url": { "a": 1 } }), "jwks_url"),
        ("config", json!({ "jwks_pairs": [1] }), "jwks_pairs"),
        ("config", json!({ "oidc_client_id": "app" }), "browser logins"),
        ("config", json!({ "jwt_supported_algs": "none" }), "not supported"),
        ("role/bad", json!({ "user_claim": "sub" }), "at least one bound constraint"),
        ("role/bad", json!({ "bound_subject": "a" }), "user_claim is required"),
        ("role/bad", role(&json!({ "role_type": "oidc" })), "browser logins"),
        ("role/bad", role(&json!({ "bound_claims": { "a": {} } })), "bound_claims"),
        ("role/bad", role(&json!({ "bound_claims_type": "regex" })), "bound_claims_type"),
        ("role/bad", role(&json!({ "claim_mappings": { "a": "role" } })), "reserved"),
        ("role/bad", role(&json!({ "clock_skew_leeway": "1e9" })), "clock_skew_leeway"),
        ("role/DEV", role(&json!({})), "lower case"),
        ("login", json!({ "role": "dev" }), "jwt is required"),
        ("login", json!({ "role": "none", "jwt": "e30.e30.AAAA" }), "could not be found"),
        ("login", json!({ "role": "../dev", "jwt": "e30.e30.AAAA" }), "could not be found"),
        ("login", json!({ "jwt": "e30.e30.AAAA" }), "role is missing"),
        ("login", json!({ "role": "dev", "jwt": ["a"] }), "jwt"),
        ("login", json!({ "role": "dev", "jwt": "nonsense" }), "three parts"),
    ] {
        let answer = stage.root.write(&format!("auth/jwt/{path}"), &body);
        assert_eq!(answer.status, 400, "{path} {body}: {answer:?}");
        assert!(answer.errors().contains(says), "{path} {body}: {answer:?}");
        assert!(!answer.errors().contains("PRIVATE KEY"), "{answer:?}");
    }
    assert_eq!(stage.root.list("auth/jwt/role").body["data"]["keys"], json!(["dev"]));
    assert_eq!((read("auth/jwt/config"), read("auth/jwt/role/dev")), before);
}
