//! Tests of `login.rs` on the test bed.

use crate::Userpass;
use bulkhead_sdk::call::{Call, Caller, Mount};
use bulkhead_sdk::table::Operation;
use bulkhead_sdk::testbed::AuthBed;
use bulkhead_sdk::{AuthMethod, Failure, FailureKind};
use serde_json::{Value, json};

fn bed(more: &Value) -> AuthBed<Userpass> {
    let bed = AuthBed::new().unwrap();
    let mut bob = json!({"password": "open sesame", "token_policies": "dev"});
    bob.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    bed.write("users/bob", &bob).ok().unwrap();
    bed
}

fn right() -> Value {
    json!({"password": "open sesame"})
}

#[test]
fn login_lowercases_user_name_of_any_spelling() {
    let bed = bed(&json!({"token_ttl": 60}));
    for path in ["login/bob", "login/BoB"] {
        let login = bed.login(path, &right()).ok().unwrap();
        assert_eq!((login.alias.as_str(), login.display_name.as_str()), ("bob", "bob"));
        assert_eq!(login.metadata.get("username").map(String::as_str), Some("bob"));
        assert_eq!((login.token.token_ttl, login.renewable), (60, true));
    }
}

#[test]
fn unknown_user_fails_and_hashes_like_wrong_password() {
    let bed = bed(&json!({}));
    let refused = |path: &str, password: &str| {
        let failure = bed.login(path, &json!({"password": password})).err().unwrap();
        (failure.kind, failure.message.to_string())
    };
    let wrong = refused("login/bob", "open barley");
    assert_eq!(wrong, refused("login/eve", "open sesame"));
    assert_eq!(wrong.0, FailureKind::InvalidRequest);
    for path in ["login/bob", "login/eve"] {
        let unavailable = Failure::new(FailureKind::Unavailable, "the host verifies");
        bed.host.refuse("verify-password", unavailable);
        let refused = bed.login(path, &right()).err().unwrap();
        assert_eq!(refused.kind, FailureKind::Unavailable, "{path} verified no password");
    }
}

#[test]
fn all_spellings_of_name_share_one_lockout() {
    let bed = bed(&json!({}));
    let call = |name: &str| Call {
        id: String::new(),
        operation: Operation::Update,
        route: "login/{username}".to_owned(),
        captures: Vec::new(),
        fields: json!({"username": name, "password": "x"}).as_object().unwrap().clone(),
        deadline: 0,
        caller: Caller::default(),
        mount: Mount::default(),
    };
    for name in ["bob", "BOB", "Bob", "eve", "EVE"] {
        let alias = Userpass::alias_lookahead(&bed.host, &call(name)).unwrap();
        assert_eq!(alias, Some(name.to_lowercase()), "whether the user exists or not");
    }
    for name in ["bob ", " bob", "bob%20", "b\u{f6}b", "bob."] {
        let refused = bed.login(&format!("login/{name}"), &right()).err().unwrap();
        assert_eq!(refused.kind, FailureKind::NotFound, "{name:?}");
    }
}

#[test]
fn networks_are_checked_after_the_password() {
    let mut bed = bed(&json!({"token_bound_cidrs": "10.0.0.0/8"}));
    bed.caller.remote_address = "192.0.2.1".to_owned();
    let wrong = bed.login("login/bob", &json!({"password": "x"})).err().unwrap();
    assert_eq!(wrong.message.to_string(), "invalid username or password");
    assert_eq!(bed.login("login/bob", &right()).err().unwrap().kind, FailureKind::PermissionDenied);
    bed.caller.remote_address = "10.1.2.3".to_owned();
    assert!(bed.login("login/bob", &right()).is_ok());
}

#[test]
fn renewal_rereads_user_and_refuses_recreated_user() {
    let bed = bed(&json!({"token_ttl": 60}));
    let login = bed.login("login/bob", &right()).ok().unwrap();
    bed.write("users/bob", &json!({"token_ttl": 30, "token_policies": "ops"})).ok().unwrap();
    let renewed = bed.renew_login(&login, 0).ok().unwrap().token;
    assert_eq!((renewed.token_ttl, renewed.token_policies), (30, vec!["ops".to_owned()]));
    bed.delete("users/bob").ok().unwrap();
    assert_eq!(bed.renew_login(&login, 0).err().unwrap().kind, FailureKind::InvalidRequest);
    bed.write("users/bob", &json!({"password": "other"})).ok().unwrap();
    assert_eq!(bed.renew_login(&login, 0).err().unwrap().kind, FailureKind::InvalidRequest);
}
