//! Identity tokens of a mount: a verifier with only the issuer's documents accepts them, also after
//! a rotation and a restart.

use aws_lc_rs::signature::{RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bulkhead_tests::leaks::assert_sealed;
use bulkhead_tests::operators::open;
use bulkhead_tests::paths::guest;
use bulkhead_tests::{Bulkhead, Client};
use serde_json::{Value, json};

const DISCOVERY: &str = "identity/oidc/plugins/.well-known/openid-configuration";
const ROTATE: &str = "identity/oidc/key/default/rotate";

/// Mounts the probe at `cloud/` with the grant to sign.
#[track_caller]
fn mounted(root: &Client) {
    root.upload("sys/plugins/catalog/secret/probe", &guest("probe")).expect(204);
    let mount = json!({ "type": "probe", "config": { "grants": ["identity:token"] } });
    root.write("sys/mounts/cloud", &mount).expect(204);
}

/// Returns a token of the mount for a cloud's audience.
#[track_caller]
fn signed(root: &Client) -> String {
    let body = json!({ "audience": "sts.example.com", "ttl": "10m" });
    root.write("cloud/identity-token/any", &body).expect(200).text("signed").to_owned()
}

fn decoded(part: &str) -> Vec<u8> {
    URL_SAFE_NO_PAD.decode(part).expect("base64 for URLs, without padding")
}

fn json_of(part: &str) -> Value {
    serde_json::from_slice(&decoded(part)).expect("JSON")
}

/// Returns the claims of a token, verified like a cloud that knows only the issuer.
#[track_caller]
fn believed(server: &Bulkhead, token: &str) -> Value {
    let stranger = server.client(None);
    let discovered = stranger.read(DISCOVERY).expect(200).body;
    let (issuer, keys) = (&discovered["issuer"], discovered["jwks_uri"].as_str().expect("a URL"));
    assert_eq!(*issuer, format!("{}/v1/identity/oidc/plugins", server.url()));
    let keys = keys
        .strip_prefix(&format!("{}/v1/", server.url()))
        .expect("the keys are below this server's address");
    let published = stranger.read(keys).expect(200).body;
    let parts: Vec<&str> = token.split('.').collect();
    let [header, claims, signature] = parts.as_slice() else { panic!("three parts") };
    let (signed_by, claimed) = (json_of(header), json_of(claims));
    let keys = published["keys"].as_array().expect("a list");
    let key = keys
        .iter()
        .find(|key| key["kid"] == signed_by["kid"])
        .expect("the signing key is published");
    assert_eq!((&key["kty"], &key["alg"]), (&json!("RSA"), &json!("RS256")));
    let number = |name: &str| decoded(key[name].as_str().expect("a number"));
    RsaPublicKeyComponents { n: number("n"), e: number("e") }
        .verify(
            &RSA_PKCS1_2048_8192_SHA256,
            format!("{header}.{claims}").as_bytes(),
            &decoded(signature),
        )
        .expect("the published key verifies it");
    assert_eq!((&claimed["iss"], &claimed["aud"]), (issuer, &json!(["sts.example.com"])));
    claimed
}

#[test]
fn verifier_with_published_keys_accepts_mount_token() {
    let (mut server, operators) = open();
    let root = operators.root(&server);
    mounted(&root);
    let token = signed(&root);
    let accessor = root.read("sys/mounts/cloud").expect(200).text("accessor").to_owned();
    let subject = format!("plugin-identity:root:secret:{accessor}");
    assert_eq!(believed(&server, &token)["sub"], subject);
    root.write(ROTATE, &json!({})).expect(204);
    assert_eq!(believed(&server, &token)["sub"], subject, "after a rotation");
    assert_eq!(
        believed(&server, &signed(&root))["sub"],
        subject,
        "tokens of the next key are accepted"
    );
    let issuer = json!({ "issuer": server.url() });
    server.kill();
    server.start_again();
    operators.unseal(&server);
    let root = operators.root(&server);
    // A new port is a new issuer, unless an operator has configured the issuer.
    root.write("identity/oidc/config", &json!({ "issuer": server.url() })).expect(200);
    believed(&server, &signed(&root));
    root.write("identity/oidc/config", &issuer).expect(200);
    let stranger = server.client(None);
    let discovered = stranger.read(DISCOVERY).expect(200).body;
    assert_eq!(
        discovered["issuer"],
        format!("{}/v1/identity/oidc/plugins", issuer["issuer"].as_str().expect("a text"))
    );
    assert_sealed(server.data(), "\"private\"");
    assert!(!server.printed().contains(&token), "a token in the log");
}

#[test]
fn ungranted_mount_cannot_sign_and_error_names_grant() {
    let (server, operators) = open();
    let root = operators.root(&server);
    root.upload("sys/plugins/catalog/secret/probe", &guest("probe")).expect(204);
    root.write("sys/mounts/cloud", &json!({ "type": "probe" })).expect(204);
    let body = json!({ "audience": "sts.example.com" });
    let refused = root.write("cloud/identity-token/any", &body).expect(403);
    assert!(refused.errors().contains("'identity:token' cloud/"), "{}", refused.errors());
    let keys = server.client(None).read("identity/oidc/plugins/.well-known/keys").expect(200);
    assert_eq!(keys.body, json!({ "keys": [] }), "no key was made for it");
}
