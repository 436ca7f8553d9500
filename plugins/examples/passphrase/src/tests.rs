//! Tests of the auth method on the test bed.

use super::Passphrase;
use bulkhead_sdk::testbed::AuthBed;
use bulkhead_sdk::{FailureKind, Host};
use serde_json::json;

fn bed() -> AuthBed<Passphrase> {
    let bed = AuthBed::<Passphrase>::new().unwrap();
    let amy = json!({"passphrase": "open sesame", "policies": "readers", "ttl": "1h"});
    bed.write("users/amy", &amy).ok().unwrap();
    bed
}

#[test]
fn passphrase_login_gives_token_of_user() {
    let login = bed().login("login/amy", &json!({"passphrase": "open sesame"})).ok().unwrap();
    assert_eq!((login.alias.as_str(), login.token.token_ttl), ("amy", 3_600));
    assert_eq!(login.token.token_policies, ["readers"]);
    assert_eq!(login.metadata.get("username").map(String::as_str), Some("amy"));
}

#[test]
fn wrong_passphrase_and_unknown_user_get_same_refusal() {
    let refused = |path: &str, passphrase: &str| {
        let failure = bed().login(path, &json!({"passphrase": passphrase})).err().unwrap();
        (failure.kind, failure.message)
    };
    let wrong = refused("login/amy", "open barley");
    assert_eq!(wrong, refused("login/bob", "open sesame"));
    assert_eq!(wrong.0, FailureKind::InvalidRequest);
}

#[test]
fn renewal_uses_current_user_record() {
    let bed = bed();
    let login = bed.login("login/amy", &json!({"passphrase": "open sesame"})).ok().unwrap();
    bed.write("users/amy", &json!({"passphrase": "open wheat", "token_ttl": 60})).ok().unwrap();
    assert_eq!(bed.renew_login(&login, 0).ok().unwrap().token.token_ttl, 60);
    bed.host.storage().delete("amy").ok().unwrap();
    assert!(bed.renew_login(&login, 0).is_err());
}
