//! A mount proves its identity to others: tokens of the mount verify against the documents
//! published by the host, before and after each rotation, and no other token does.

use crate::bed::{Bed, error, store_options};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents,
    UnparsedPublicKey,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bulkhead_store::{Address, DataDirectory, IndexColumns, Space};
use bulkhead_wire::description::Verb;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

const ISSUER: &str = "https://bulkhead.example.com:8200";
const KEY: &str = "identity/oidc/key";
const PUBLIC_KEYS: &str = "identity/oidc/plugins/.well-known/keys";

impl Bed {
    /// As [`Bed::new`], with an issuer.
    pub(crate) async fn with_issuer(name: &str) -> Self {
        let bed = Self::new(name).await;
        let (status, answer) = bed.write("identity/oidc/config", json!({"issuer": ISSUER})).await;
        assert!(status == 200 && answer["warnings"].is_array(), "{answer}");
        bed
    }

    /// A token of the probe.
    async fn identity_token(&self, audience: &str, ttl: u64) -> String {
        let fields = json!({"audience": audience, "ttl": ttl});
        let (status, answer) = self.write("probe/identity-token/x", fields).await;
        assert_eq!(status, 200, "{answer}");
        answer["data"]["signed"].as_str().unwrap().to_owned()
    }

    async fn kids(&self) -> Vec<String> {
        let (_, published) = self.read(PUBLIC_KEYS).await;
        let keys = published["keys"].as_array().unwrap();
        keys.iter().map(|key| key["kid"].as_str().unwrap().to_owned()).collect()
    }
}

fn bytes(text: &Value) -> Vec<u8> {
    URL_SAFE_NO_PAD.decode(text.as_str().unwrap()).unwrap()
}

/// Header and claims of a token, not verified.
pub(crate) fn opened(token: &str) -> [Value; 2] {
    let mut parts = token.split('.').map(|part| bytes(&json!(part)));
    [(); 2].map(|()| serde_json::from_slice(&parts.next().unwrap()).unwrap())
}

/// The claims, if a published key verifies the token.
fn verified(token: &str, published: &Value) -> Option<Value> {
    let (message, signature) = token.rsplit_once('.').unwrap();
    let (message, signature) = (message.as_bytes(), bytes(&json!(signature)));
    let [header, claims] = opened(token);
    let keys = published["keys"].as_array().unwrap();
    let key = keys.iter().find(|key| key["kid"] == header["kid"] && key["alg"] == header["alg"])?;
    assert_eq!((&key["use"], key.get("private")), (&json!("sig"), None));
    let is_signed = match key["alg"].as_str().unwrap() {
        "RS256" => {
            let components = RsaPublicKeyComponents { n: bytes(&key["n"]), e: bytes(&key["e"]) };
            components.verify(&RSA_PKCS1_2048_8192_SHA256, message, &signature)
        }
        "ES256" => {
            let point = [vec![4], bytes(&key["x"]), bytes(&key["y"])].concat();
            UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(message, &signature)
        }
        "EdDSA" => UnparsedPublicKey::new(&ED25519, bytes(&key["x"])).verify(message, &signature),
        other => panic!("{other}"),
    };
    is_signed.is_ok().then_some(claims)
}

#[tokio::test(flavor = "multi_thread")]
async fn plugin_token_names_mount_and_verifies_with_jwks() {
    let bed = Bed::with_issuer("who").await;
    assert_eq!(bed.read(PUBLIC_KEYS).await, (200, json!({"keys": []})), "made at its first use");
    let token = bed.identity_token("api://AzureADTokenExchange", 600).await;
    let claims = verified(&token, &bed.read(PUBLIC_KEYS).await.1).unwrap();
    let (_, mount) = bed.read("sys/mounts/probe").await;
    let accessor = mount["data"]["accessor"].as_str().unwrap();
    assert_eq!(claims["iss"], format!("{ISSUER}/v1/identity/oidc/plugins"));
    assert_eq!(claims["sub"], format!("plugin-identity:root:secret:{accessor}"));
    assert_eq!(claims["aud"], json!(["api://AzureADTokenExchange"]));
    assert_eq!(claims["exp"].as_u64().unwrap() - claims["iat"].as_u64().unwrap(), 600);
    let holder = json!({
        "accessor": accessor, "class": "secret", "local": false, "namespace_id": "root",
        "namespace_path": "", "path": "probe/", "plugin": "probe", "version": "v1.0.0",
    });
    assert_eq!(claims["vaultproject.io"], holder);
    assert_eq!(claims.as_object().unwrap().len(), 6, "{claims}");
    let (status, discovered) =
        bed.read("identity/oidc/plugins/.well-known/openid-configuration").await;
    assert_eq!((status, &discovered["issuer"]), (200, &claims["iss"]));
    assert_eq!(discovered["jwks_uri"], format!("{ISSUER}/v1/{PUBLIC_KEYS}"));
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn token_verifies_after_rotation_to_prepublished_key() {
    let bed = Bed::with_issuer("rotated").await;
    let first = bed.identity_token("a", 0).await;
    let old_keys = bed.read(PUBLIC_KEYS).await.1;
    assert_eq!(bed.write(&format!("{KEY}/default/rotate"), json!({})).await.0, 204);
    let second = bed.identity_token("a", 0).await;
    assert_ne!(opened(&first)[0]["kid"], opened(&second)[0]["kid"]);
    assert!(verified(&second, &old_keys).is_some(), "a reader that kept the old document");
    let published = bed.read(PUBLIC_KEYS).await.1;
    assert!(verified(&first, &published).is_some() && verified(&second, &published).is_some());
    let withdrawn = json!({"verification_ttl": 0});
    assert_eq!(bed.write(&format!("{KEY}/default/rotate"), withdrawn).await.0, 204);
    let published = bed.read(PUBLIC_KEYS).await.1;
    assert!(verified(&first, &published).is_some() && verified(&second, &published).is_none());
    bed.end().await;
}

/// Rewrites the stored key as if it signed since 1970.
async fn make_due(directory: &Path, name: &str) {
    let data_directory = DataDirectory::hold(store_options(directory)).await.unwrap();
    let store =
        data_directory.open(bulkhead_store::dev_key(&data_directory).unwrap()).await.unwrap();
    let address = Address::new(Space::Core, format!("oidc-key/{name}"));
    let mut unit = store.begin();
    let stored = unit.get(&address).await.unwrap().unwrap();
    let mut key: Value = serde_json::from_slice(&stored.body).unwrap();
    key["since"] = json!(0);
    unit.put(address, key.to_string().into_bytes(), IndexColumns { due: Some(1), ..stored.index });
    unit.commit().await.unwrap();
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn host_rotates_key_when_due() {
    let bed = Bed::with_issuer("due").await;
    let token = bed.identity_token("a", 0).await;
    let before = bed.kids().await;
    let directory = bed.stop().await;
    make_due(&directory, "default").await;
    let bed = Bed::open(directory).await;
    bed.line("oidc-key-rotated").await;
    let after = bed.kids().await;
    assert_eq!((before.len(), after.len()), (2, 3));
    assert_eq!(after[0], before[1], "the next one signs");
    assert!(verified(&token, &bed.read(PUBLIC_KEYS).await.1).is_some());
    assert_eq!(opened(&bed.identity_token("a", 0).await)[0]["kid"], after[0]);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_first_uses_at_once_make_one_key() {
    let bed = Arc::new(Bed::with_issuer("first-uses").await);
    let tokens: Vec<_> = (0..50)
        .map(|_| {
            let bed = Arc::clone(&bed);
            tokio::spawn(async move { bed.identity_token("a", 0).await })
        })
        .collect();
    let mut kids = BTreeSet::new();
    for token in tokens {
        kids.insert(opened(&token.await.unwrap())[0]["kid"].to_string());
    }
    assert_eq!((kids.len(), bed.kids().await.len()), (1, 2));
    Arc::into_inner(bed).unwrap().end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mount_signs_with_tuned_key_within_verification_time() {
    let bed = Bed::with_issuer("tuned").await;
    let tune = "sys/mounts/probe/tune";
    let unknown = bed.write(tune, json!({"identity_token_key": "team"})).await;
    assert!(unknown.0 == 400 && error(&unknown.1).contains("no key \"team\""), "{unknown:?}");
    let mounted = json!({"type": "probe", "config": {"identity_token_key": "team"}});
    assert_eq!(bed.write("sys/mounts/other", mounted).await.0, 400);
    assert_eq!(bed.read("sys/mounts/other").await.0, 400, "nothing was mounted");
    for algorithm in ["EdDSA", "ES256"] {
        let key = json!({"algorithm": algorithm, "verification_ttl": "2m"});
        assert_eq!(bed.write(&format!("{KEY}/team"), key).await.0, 204);
        let tuned = bed.write(tune, json!({"identity_token_key": "team"})).await;
        assert_eq!(tuned.0, 204, "{tuned:?}");
        let token = bed.identity_token("a", 3_600).await;
        let claims = verified(&token, &bed.read(PUBLIC_KEYS).await.1).unwrap();
        assert_eq!(opened(&token)[0]["alg"], algorithm);
        assert_eq!(claims["exp"].as_u64().unwrap() - claims["iat"].as_u64().unwrap(), 120);
    }
    let in_use = bed.call(Verb::Delete, &format!("{KEY}/team"), json!({})).await;
    assert!(in_use.0 == 400 && error(&in_use.1).contains("mount probe/"), "{in_use:?}");
    assert_eq!(bed.write(tune, json!({"identity_token_key": "default"})).await.0, 204);
    assert_eq!(bed.call(Verb::Delete, &format!("{KEY}/team"), json!({})).await.0, 204);
    assert_eq!(bed.read(&format!("{KEY}/team")).await.0, 404);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn token_and_discovery_document_require_issuer() {
    let bed = Bed::new("no-issuer").await;
    let refused = bed.write("probe/identity-token/x", json!({"audience": "a"})).await;
    assert!(refused.0 == 412 && error(&refused.1).contains("identity/oidc/config"), "{refused:?}");
    let document = "identity/oidc/plugins/.well-known/openid-configuration";
    assert_eq!(bed.read(document).await.0, 404);
    assert_eq!(bed.kids().await, Vec::<String>::new(), "no key was made");
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_oidc_keys_are_refused_without_change() {
    let bed = Bed::with_issuer("bad-keys").await;
    let key = format!("{KEY}/team");
    for (fields, why) in [
        (json!({"algorithm": "HS256"}), "algorithm \"HS256\""),
        (json!({"algorithm": "none"}), "algorithm \"none\""),
        (json!({"algorithm": ""}), "algorithm \"\""),
        (json!({"rotation_period": "59s"}), "rotation_period of 59s"),
        (json!({"verification_ttl": "1s"}), "verification_ttl of 1s"),
        (json!({"rotation_period": "1m", "verification_ttl": "11m"}), "10 times"),
    ] {
        let refused = bed.write(&key, fields.clone()).await;
        assert!(refused.0 == 400 && error(&refused.1).contains(why), "{fields}: {refused:?}");
        assert_eq!(bed.read(&key).await.0, 404);
    }
    let refused = bed.call(Verb::Delete, &format!("{KEY}/default"), json!({})).await;
    assert!(refused.0 == 400 && error(&refused.1).contains("every mount"), "{refused:?}");
    assert_eq!(bed.write(&format!("{KEY}/gone/rotate"), json!({})).await.0, 404);
    let (_, listed) = bed.call(Verb::List, KEY, json!({})).await;
    assert_eq!(listed["data"]["keys"], json!(["default"]));
    let (_, unsaid) = bed.read(&format!("{KEY}/default")).await;
    let expected = json!({"algorithm": "RS256", "allowed_client_ids": ["*"],
                          "rotation_period": 86_400, "verification_ttl": 86_400});
    assert_eq!(unsaid["data"], expected);
    for issuer in ["bulkhead.example.com", "https://a.example/v1", "https://u:p@a.example"] {
        let refused = bed.write("identity/oidc/config", json!({"issuer": issuer})).await;
        assert_eq!(refused.0, 400, "{refused:?}");
    }
    assert_eq!(bed.read("identity/oidc/config").await.1["data"], json!({"issuer": ISSUER}));
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn signing_keys_and_identity_tokens_are_never_disclosed() {
    let bed = Bed::with_issuer("untold").await;
    let fields = json!({"audience": "a"});
    let (status, answer) = bed.write("probe/identity-token/told", fields.clone()).await;
    assert!(status == 400 && !error(&answer).contains("eyJ"), "{answer}");
    for audience in ["", "a\nb", &"a".repeat(1_025)] {
        let refused = bed.write("probe/identity-token/x", json!({"audience": audience})).await;
        assert_eq!(refused.0, 400, "{refused:?}");
    }
    let narrowed = json!({"grants": ["limit:memory=64MiB"]});
    assert_eq!(bed.write("sys/mounts/probe/tune", narrowed).await.0, 204);
    let refused = bed.write("probe/identity-token/x", fields).await;
    assert!(refused.0 == 403 && error(&refused.1).contains("identity:token"), "{refused:?}");
    let published = bed.read(PUBLIC_KEYS).await.1.to_string();
    assert!(!published.contains("private") && !published.contains("\"d\""), "{published}");
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mount_sees_only_own_entity_of_caller() {
    let bed = Bed::new("entities").await;
    let role = json!({"allowed_entity_aliases": "*", "allowed_policies": "prober"});
    assert_eq!(bed.write("auth/token/roles/people", role).await.0, 204);
    let policy = json!({"policy": "path \"probe/*\" { capabilities = [\"read\"] }"});
    assert_eq!(bed.write("sys/policies/acl/prober", policy).await.0, 204);
    let mut people = Vec::new();
    for alias in ["eve", "adam"] {
        let fields = json!({"entity_alias": alias, "policies": "prober"});
        let (status, answer) = bed.write("auth/token/create/people", fields).await;
        assert_eq!(status, 200, "{answer}");
        people.push(answer["auth"].clone());
    }
    let (eve, token) = (&people[0]["entity_id"], people[0]["client_token"].as_str().unwrap());
    let own = bed.call_as(token, Verb::Read, "probe/entity/own", json!({})).await;
    assert_eq!((own.0, &own.1["data"]["id"]), (200, eve), "{own:?}");
    assert!(own.1["data"]["name"].as_str().unwrap().starts_with("entity_"), "{own:?}");
    for other in [people[1]["entity_id"].as_str().unwrap(), "own", "none", "a.b"] {
        let path = format!("probe/entity/{other}");
        let expected = if other == "own" { 200 } else { 404 };
        assert_eq!(bed.call_as(token, Verb::Read, &path, json!({})).await.0, expected, "{other}");
    }
    let of_eve = format!("probe/entity/{}", eve.as_str().unwrap());
    assert_eq!(bed.read(&of_eve).await.0, 404, "root is not eve");
    bed.end().await;
}

impl Bed {
    /// A token of ours for eve, with the right to ask for tokens of roles.
    pub(crate) async fn eve(&self) -> (String, String) {
        let policy = r#"path "identity/oidc/token/*" { capabilities = ["read"] }"#;
        assert_eq!(self.write("sys/policies/acl/signed", json!({"policy": policy})).await.0, 204);
        let people = json!({"allowed_entity_aliases": "*", "allowed_policies": "signed"});
        assert_eq!(self.write("auth/token/roles/people", people).await.0, 204);
        let fields = json!({"entity_alias": "eve", "policies": "signed"});
        let (status, answer) = self.write("auth/token/create/people", fields).await;
        assert_eq!(status, 200, "{answer}");
        let text = |name: &str| answer["auth"][name].as_str().unwrap().to_owned();
        (text("client_token"), text("entity_id"))
    }

    pub(crate) async fn is_active(&self, token: &str, client_id: &str) -> bool {
        let fields = json!({"token": token, "client_id": client_id});
        let (status, answer) = self.write("identity/oidc/introspect", fields).await;
        assert_eq!((status, answer["active"].is_boolean()), (200, true), "{answer}");
        assert_eq!(answer["active"] == true, answer["error"].is_null(), "{answer}");
        answer["active"] == true
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn role_without_client_id_gets_stable_generated_one() {
    let bed = Bed::with_issuer("client-id").await;
    let path = "identity/oidc/role/made";
    let client_id = async |sent: Value| {
        assert_eq!(bed.write(path, sent).await.0, 204);
        bed.read(path).await.1["data"]["client_id"].as_str().unwrap().to_owned()
    };
    let generated_id = client_id(json!({"key": "default", "client_id": ""})).await;
    assert!(
        generated_id.len() == 26 && generated_id.bytes().all(|byte| byte.is_ascii_alphanumeric()),
        "{generated_id}"
    );
    assert_eq!(client_id(json!({"client_id": "", "ttl": "1h"})).await, generated_id);
    assert_eq!(client_id(json!({"client_id": "mine"})).await, "mine");
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn oidc_role_issues_introspectable_token_about_caller() {
    let bed = Bed::with_issuer("role").await;
    let template =
        r#"{"name": {{identity.entity.name}}, "groups": {{identity.entity.groups.names}}}"#;
    let role = json!({"key": "default", "client_id": "web", "template": template, "ttl": "2d"});
    assert_eq!(bed.write("identity/oidc/role/web", role).await.0, 204);
    let (eve, entity) = bed.eve().await;
    let path = "identity/oidc/token/web";
    let (status, answer) = bed.call_as(&eve, Verb::Read, path, json!({})).await;
    let data = &answer["data"];
    assert_eq!((status, &data["client_id"], &data["ttl"]), (200, &json!("web"), &json!(86_400)));
    let token = data["token"].as_str().unwrap();
    let published = bed.read("identity/oidc/.well-known/keys").await.1;
    let claims = verified(token, &published).unwrap();
    assert_eq!(claims["iss"], format!("{ISSUER}/v1/identity/oidc"));
    assert_eq!((&claims["sub"], &claims["aud"]), (&json!(entity), &json!("web")));
    assert_eq!((&claims["groups"], &claims["namespace"]), (&json!([]), &json!("root")));
    assert!(claims["name"].as_str().unwrap().starts_with("entity_"), "{claims}");
    assert!(bed.is_active(token, "web").await && bed.is_active(token, "").await);
    let of_mount = bed.identity_token("web", 0).await;
    let (head, _) = token.rsplit_once('.').unwrap();
    let none = format!("{}.{}.", "eyJhbGciOiJub25lIn0", token.split('.').nth(1).unwrap());
    for wrong in [of_mount.as_str(), &format!("{head}.AAAA"), &none, "x", head] {
        assert!(!bed.is_active(wrong, "").await, "{wrong}");
    }
    assert!(!bed.is_active(token, "ci").await, "a token of another client is inactive");
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn role_refuses_unsuitable_callers_and_keys() {
    let bed = Bed::with_issuer("not-for").await;
    let key = json!({"algorithm": "ES256", "allowed_client_ids": ["ci"]});
    assert_eq!(bed.write(&format!("{KEY}/team"), key).await.0, 204);
    let path = "identity/oidc/role/web";
    for (fields, why) in [
        (json!({}), "key is required"),
        (json!({"key": "none"}), "no key \"none\""),
        (json!({"key": "team", "ttl": 0}), "ttl is 0"),
        (json!({"key": "team", "client_id": "a\nb"}), "client_id"),
        (json!({"key": "team", "template": "{"}), "not a JSON object"),
        (json!({"key": "team", "template": r#"{"sub": "root"}"#}), "sub is set"),
    ] {
        let refused = bed.write(path, fields.clone()).await;
        assert!(refused.0 == 400 && error(&refused.1).contains(why), "{fields}: {refused:?}");
        assert_eq!(bed.read(path).await.0, 404);
    }
    assert_eq!(bed.write(path, json!({"key": "team", "client_id": "web"})).await.0, 204);
    let token = "identity/oidc/token/web";
    let of_root = bed.read(token).await;
    assert!(of_root.0 == 400 && error(&of_root.1).contains("no entity"), "{of_root:?}");
    let (eve, _) = bed.eve().await;
    let refused = bed.call_as(&eve, Verb::Read, token, json!({})).await;
    assert!(refused.0 == 400 && error(&refused.1).contains("allowed_client_ids"), "{refused:?}");
    let in_use = bed.call(Verb::Delete, &format!("{KEY}/team"), json!({})).await;
    assert!(in_use.0 == 400 && error(&in_use.1).contains("role \"web\""), "{in_use:?}");
    assert_eq!(bed.call(Verb::Delete, path, json!({})).await.0, 204);
    assert_eq!(bed.call_as(&eve, Verb::Read, token, json!({})).await.0, 404);
    bed.end().await;
}
