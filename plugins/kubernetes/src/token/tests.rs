//! Tests of `token.rs`: tokens that are none, and tokens that could be read in two ways.

use super::AccountToken;
use crate::fixture::{UID, claims, jwt, legacy_claims};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use bulkhead_sdk::FailureKind;
use serde_json::{Value, json};

fn refused(text: &str) -> String {
    let why = AccountToken::read(text).err().unwrap_or_else(|| panic!("{text} was read"));
    assert_eq!(why.kind, FailureKind::InvalidRequest, "{}", why.message);
    why.message
}

fn with(pointer: &str, value: Value) -> String {
    let mut claims = claims();
    *claims.pointer_mut(pointer).expect("a claim") = value;
    jwt(&claims)
}

fn raw(claims: &str) -> String {
    format!("eyJhbGciOiJSUzI1NiJ9.{}.c2ln", BASE64_URL_SAFE_NO_PAD.encode(claims))
}

#[test]
fn both_forms_of_tokens_name_one_account() {
    for (text, secret) in [(jwt(&claims()), ""), (jwt(&legacy_claims()), "app-token-x")] {
        let token = AccountToken::read(&text).unwrap();
        let account = &token.claims.account;
        assert_eq!((account.namespace.as_str(), account.name.as_str()), ("apps", "app"));
        assert_eq!((account.uid.as_str(), token.claims.secret_name.as_str()), (UID, secret));
        assert_eq!(account.username(), "system:serviceaccount:apps:app");
    }
}

#[test]
fn non_token_text_is_refused_and_not_repeated() {
    let good = jwt(&claims());
    for text in [
        "",
        "hunter2",
        "a.b",
        "a.b.c.d",
        "..",
        "e30.e30.",
        "e30..c2ln",
        "!.!.!",
        "bnVsbA.bnVsbA.c2ln",
        &raw("[]"),
        &raw("null"),
        &raw(""),
        &raw("{}"),
        &raw(r#"{"sub":"system:serviceaccount:apps:app"}"#),
        &format!("{good}="),
        &good.replace('.', ".."),
        &format!("a.{}.c", "e".repeat(20_000)),
    ] {
        let why = refused(text);
        assert!(why.starts_with("jwt: the token cannot be read"), "{why}");
        assert!(!why.contains("hunter2") && !why.contains("serviceaccount"), "{why}");
    }
}

#[test]
fn token_readable_in_two_ways_is_refused() {
    let mut both = claims();
    both.as_object_mut().unwrap().extend(legacy_claims().as_object().unwrap().clone());
    assert!(refused(&jwt(&both)).contains("in two ways"));
    let twice = claims().to_string().replacen('{', r#"{"aud":"bulkhead","#, 1);
    assert!(refused(&raw(&twice)).contains("each key once"));
    let inner =
        claims().to_string().replacen(r#""name":"app","#, r#""name":"app","name":"root","#, 1);
    assert!(refused(&raw(&inner)).contains("each key once"));
}

#[test]
fn account_impossible_in_any_cluster_is_refused() {
    let (name, uid) = ("/kubernetes.io/serviceaccount/name", "/kubernetes.io/serviceaccount/uid");
    for (pointer, value) in [
        ("/kubernetes.io/namespace", json!("")),
        ("/kubernetes.io/namespace", json!("a:b")),
        ("/kubernetes.io/namespace", json!("a/b")),
        ("/kubernetes.io/namespace", json!("Apps")),
        ("/kubernetes.io/namespace", json!("a".repeat(64))),
        (name, json!("")),
        (name, json!("app:x")),
        (name, json!("*")),
        (name, json!("app\u{0}")),
        (name, json!("a".repeat(254))),
        (uid, json!("")),
        (uid, json!("a b")),
        (uid, json!("u".repeat(129))),
    ] {
        assert!(refused(&with(pointer, value.clone())).contains("no cluster"), "{pointer} {value}");
    }
}

#[test]
fn claim_of_wrong_type_is_not_absent() {
    for (pointer, value) in [
        ("/kubernetes.io", json!("apps")),
        ("/kubernetes.io/namespace", json!(["apps"])),
        ("/kubernetes.io/serviceaccount", json!("app")),
        ("/kubernetes.io/serviceaccount/uid", json!(7)),
        ("/aud", json!(7)),
        ("/aud", json!(["bulkhead", 7])),
        ("/exp", json!("4102444800")),
        ("/exp", json!(-1)),
        ("/exp", Value::Null),
        ("/nbf", json!(true)),
        ("/iss", json!({})),
    ] {
        refused(&with(pointer, value));
    }
}
