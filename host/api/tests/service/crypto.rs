//! Keys, tokens, certificates and passwords of components: granted operations are done, and no text
//! shows their secrets.

use crate::bed::{Bed, error};
use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair, KeyUsagePurpose};
use serde_json::{Value, json};

/// 2100.
const FAR: u64 = 4_102_444_800;

async fn done(bed: &Bed, path: &str, fields: Value) -> Value {
    let (status, answer) = bed.write(&format!("probe/{path}"), fields).await;
    assert_eq!(status, 200, "{path}: {answer}");
    answer["data"].clone()
}

async fn refused(bed: &Bed, path: &str, fields: Value) -> (u16, String) {
    let (status, answer) = bed.write(&format!("probe/{path}"), fields).await;
    assert!(status >= 400, "{path}: {answer}");
    (status, error(&answer).to_owned())
}

/// A set with the key under the name that the probe signs with.
fn set(key: &Value) -> String {
    let mut jwk: Value = serde_json::from_str(key["jwk"].as_str().unwrap()).unwrap();
    jwk["kid"] = "k1".into();
    json!({ "keys": [jwk] }).to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn engine_signed_token_verifies_only_by_public_key() {
    let bed = Bed::new("crypto-tokens").await;
    for (kind, bits, algorithm) in
        [("rsa", 2_048, "RS256"), ("ec", 384, "ES384"), ("ed25519", 0, "EdDSA")]
    {
        let fields = json!({"kind": kind, "bits": bits, "form": "traditional"});
        let (mine, other) = (
            done(&bed, "generate/a", fields.clone()).await,
            done(&bed, "generate/a", fields).await,
        );
        let claims = json!({"iss": "me", "aud": "you", "exp": FAR});
        let fields = json!({"key": mine["private"], "algorithm": algorithm, "claims": claims});
        let token = done(&bed, "sign/a", fields).await["token"].clone();
        let prove = |keys: Value, audience: &str| {
            json!({"jwt": token, "keys": keys, "algorithm": algorithm, "issuer": "me",
                   "audience": audience})
        };
        let proven = done(&bed, "prove/a", prove(set(&mine).into(), "you")).await;
        assert_eq!(proven["claims"]["aud"], "you");
        done(&bed, "prove/a", prove(mine["public"].clone(), "you")).await;
        for (keys, audience, why) in [
            (set(&other).into(), "you", "the token's signature is not"),
            (set(&mine).into(), "them", "is expected"),
            ("no key".into(), "you", "is not PEM"),
            (mine["private"].clone(), "you", "give the public half"),
        ] {
            let (status, message) = refused(&bed, "prove/a", prove(keys, audience)).await;
            assert_eq!(status, 400);
            assert!(message.contains(why), "{message}");
        }
    }
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn private_key_use_and_generation_require_grants() {
    let bed = Bed::new("crypto-grants").await;
    let key = done(&bed, "generate/a", json!({"kind": "ed25519"})).await;
    assert_eq!(bed.write("sys/mounts/probe/tune", json!({"grants": []})).await.0, 204);
    let sign = json!({"key": key["private"], "algorithm": "EdDSA", "claims": {"exp": FAR}});
    let issue = json!({"authority": "", "authority_key": "", "public_key": ""});
    for (path, fields, line) in [
        ("sign/a", sign.clone(), "crypto:sign"),
        ("generate/a", json!({}), "crypto:generate-key"),
        ("certify/a", issue, "crypto:issue-certificate"),
    ] {
        let (status, message) = refused(&bed, path, fields).await;
        assert_eq!(status, 403, "{message}");
        assert!(message.ends_with(&format!("tune --grant '{line}' probe/")), "{message}");
    }
    let hash = done(&bed, "hash/a", json!({"password": "correct horse"})).await["hash"].clone();
    let (status, warned) =
        bed.write("sys/mounts/probe/tune", json!({"add_grants": "crypto:sign"})).await;
    assert_eq!((status, &warned), (204, &Value::Null), "the line has an effect, and no warning");
    done(&bed, "sign/a", sign).await;
    assert_eq!(refused(&bed, "generate/a", json!({})).await.0, 403);
    for (password, is_right) in [("correct horse", true), ("correct house", false)] {
        let fields = json!({"password": password, "hash": hash});
        assert_eq!(done(&bed, "hash/a", fields).await["is_right"], is_right);
    }
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn private_key_and_password_appear_in_no_text() {
    let bed = Bed::new("crypto-secrets").await;
    let key = done(&bed, "generate/a", json!({"kind": "ec"})).await["private"].clone();
    let body: Vec<&str> =
        key.as_str().unwrap().lines().filter(|line| !line.starts_with("-----")).collect();
    let fields = json!({"key": key, "algorithm": "ES256", "claims": {"exp": FAR}, "how": "told"});
    let (_, message) = refused(&bed, "sign/a", fields).await;
    assert!(message.contains("[secret]"), "{message}");
    assert!(body.iter().all(|line| !message.contains(line)), "{message}");
    let (_, message) = refused(&bed, "generate/a", json!({"kind": "ec", "how": "told"})).await;
    let long = message.lines().find(|line| line.len() >= 48 && !line.contains('-'));
    assert!(message.contains("[secret]") && long.is_none(), "{message}");
    let fields = json!({"password": "correct-horse-battery", "how": "told"});
    let (_, message) = refused(&bed, "hash/a", fields).await;
    assert!(message.contains("[secret]") && !message.contains("horse"), "{message}");
    let (status, message) =
        refused(&bed, "sign/a", json!({"key": "hunter2-no-key-at-all", "claims": {}})).await;
    assert!(status == 400 && !message.contains("hunter2"), "{message}");
    let lines = bed.log.0.lock().unwrap().join("\n");
    assert!(!lines.contains("horse") && body.iter().all(|line| !lines.contains(line)));
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn certificate_stays_within_authority_lifetime_and_verifies() {
    let bed = Bed::new("crypto-certificates").await;
    let key = done(&bed, "generate/a", json!({"kind": "ec"})).await;
    let pair = KeyPair::from_pem(key["private"].as_str().unwrap()).unwrap();
    let mut root = CertificateParams::default();
    root.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    root.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    root.not_after = rcgen::date_time_ymd(2099, 1, 1);
    let authority = root.self_signed(&pair).unwrap().pem();
    let client = done(&bed, "generate/a", json!({"kind": "rsa"})).await["public"].clone();
    let wish = |ttl: &str| {
        json!({"authority": authority, "authority_key": key["private"], "public_key": client,
               "common_name": "reader", "ttl": ttl})
    };
    let issued = done(&bed, "certify/a", wish("1h")).await;
    assert_eq!(
        (&issued["subject"], &issued["usages"]),
        (&json!("CN=reader"), &json!(["client-auth"]))
    );
    let (status, message) = refused(&bed, "certify/a", wish("1000000h")).await;
    assert!(status == 400 && message.contains("outlive its authority's"), "{message}");
    bed.end().await;
}
