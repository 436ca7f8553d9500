//! Tests of `users.rs` on the test bed.

use crate::Userpass;
use bulkhead_sdk::FailureKind;
use bulkhead_sdk::testbed::AuthBed;
use serde_json::json;

fn bed() -> AuthBed<Userpass> {
    AuthBed::new().unwrap()
}

#[test]
fn user_is_created_shown_listed_changed_and_removed() {
    let bed = bed();
    let bob = json!({"password": "open sesame", "policies": "b, a", "ttl": "1h"});
    bed.write("users/bob", &bob).ok().unwrap();
    let shown = bed.read("users/bob").ok().unwrap().data;
    assert_eq!(
        (&shown["token_policies"], &shown["policies"]),
        (&json!(["a", "b"]), &json!(["a", "b"]))
    );
    assert_eq!((&shown["token_ttl"], &shown["ttl"]), (&json!(3_600), &json!(3_600)));
    assert!(!shown.contains_key("password") && !shown.contains_key("password_hash"));
    assert_eq!(bed.list("users").ok().unwrap().data["keys"], json!(["bob"]));
    bed.write("users/bob", &json!({"token_max_ttl": 7_200})).ok().unwrap();
    let shown = bed.read("users/bob").ok().unwrap().data;
    assert_eq!((&shown["token_ttl"], &shown["token_max_ttl"]), (&json!(3_600), &json!(7_200)));
    assert!(bed.login("login/bob", &json!({"password": "open sesame"})).is_ok(), "kept");
    bed.delete("users/bob").ok().unwrap();
    assert_eq!(bed.read("users/bob").err().unwrap().kind, FailureKind::NotFound);
    bed.delete("users/bob").ok().unwrap();
}

#[test]
fn password_and_policies_have_paths_of_their_own() {
    let bed = bed();
    bed.write("users/bob", &json!({"password": "one"})).ok().unwrap();
    bed.write("users/bob/password", &json!({"password": "two"})).ok().unwrap();
    bed.write("users/bob/policies", &json!({"token_policies": "dev"})).ok().unwrap();
    assert!(bed.login("login/bob", &json!({"password": "one"})).is_err());
    let login = bed.login("login/bob", &json!({"password": "two"})).ok().unwrap();
    assert_eq!(login.token.token_policies, ["dev"]);
    bed.write("users/bob/policies", &json!({"policies": ""})).ok().unwrap();
    assert_eq!(bed.read("users/bob").ok().unwrap().data["token_policies"], json!([]));
}

#[test]
fn operator_mistake_is_refused_with_remedy() {
    let bed = bed();
    bed.write("users/bob", &json!({"password": "one"})).ok().unwrap();
    for (path, body, says) in [
        ("users/eve", json!({}), "password is required"),
        ("users/eve", json!({"password": ""}), "password is empty"),
        ("users/bob", json!({"password": ""}), "password is empty"),
        ("users/eve", json!({"password": "x".repeat(5_000)}), "4"),
        ("users/eve", json!({"password": "a", "password_hash": "b"}), "exclude each other"),
        ("users/eve", json!({"password_hash": "$2b$12$abcdefghijklmnopqrstuv"}), "bcrypt"),
        ("users/eve", json!({"password_hash": "$argon2id$v=19$m=19456,t=2,p=1$"}), "bcrypt"),
        ("users/Eve", json!({"password": "a"}), "\"Eve\" is \"eve\""),
        ("users/eve", json!({"password": "a", "token_ttl": 2, "token_max_ttl": 1}), "token_ttl"),
        ("users/eve", json!({"password": "a", "token_bound_cidrs": "none"}), "token_bound_cidrs"),
        ("users/eve/password", json!({"password": "a"}), "there is no user \"eve\""),
        ("users/eve/policies", json!({"policies": "a"}), "there is no user \"eve\""),
        ("users/bob/password", json!({}), "password is required"),
        ("users/bob/policies", json!({}), "token_policies is required"),
    ] {
        let refused = bed.write(path, &body).err().unwrap();
        assert_eq!(refused.kind, FailureKind::InvalidRequest, "{path} {body}");
        assert!(refused.message.contains(says), "{path} {body}: {}", refused.message);
    }
    assert_eq!(bed.list("users").ok().unwrap().data["keys"], json!(["bob"]));
    assert!(bed.login("login/bob", &json!({"password": "one"})).is_ok());
    assert_eq!(bed.read("users/Bob").err().unwrap().kind, FailureKind::InvalidRequest);
    assert_eq!(bed.delete("users/Bob").err().unwrap().kind, FailureKind::InvalidRequest);
}

#[test]
fn external_hash_of_usual_cost_is_accepted() {
    let bed = bed();
    let hash = bulkhead_sdk::Host::crypto(&bed.host).hash_password("open sesame").unwrap();
    bed.write("users/bob", &json!({"password_hash": hash})).ok().unwrap();
    assert!(bed.login("login/bob", &json!({"password": "open sesame"})).is_ok());
}
