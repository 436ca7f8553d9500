//! Rotations of the method's own key: on demand and by time, and what is left where a call, the
//! process or the provider ends half-way.

use crate::CloudB;
use crate::fixture::*;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bulkhead_sdk::http::Response;
use bulkhead_sdk::testbed::AuthBed;
use bulkhead_sdk::{Failure, Kind};
use serde_json::{Value, json};

fn keys_at() -> String {
    let own = OWN.replace('@', "%40");
    format!("https://iam.googleapis.com/v1/projects/-/serviceAccounts/{own}/keys")
}

fn listing() -> String {
    format!("GET {}?keyTypes=USER_MANAGED", keys_at())
}

fn key(id: &str, made: &str) -> Value {
    let name = format!("projects/home/serviceAccounts/{OWN}/keys/{id}");
    json!({ "name": name, "validAfterTime": made })
}

fn list(keys: &[Value]) -> Value {
    json!({ "keys": keys })
}

/// What making a key answers.
fn made(id: &str, key: &str) -> Value {
    let file = BASE64_STANDARD.encode(key_file(id, key).to_string());
    let name = format!("projects/home/serviceAccounts/{OWN}/keys/{id}");
    json!({ "name": name, "privateKeyData": file })
}

/// A provider that makes the key `k-new` and ends every key.
fn rotating() -> AuthBed<CloudB> {
    rotating_with(answer(200, &made("k-new", OTHER_KEY)))
}

/// A provider that answers so where a key is to be made.
fn rotating_with(making: Response) -> AuthBed<CloudB> {
    let bed = served();
    bed.host.answer(&listing(), answer(200, &list(&[key("k-own", "2020-01-01T00:00:00Z")])));
    bed.host.answer(&format!("POST {}", keys_at()), making);
    for id in ["k-own", "k-new"] {
        bed.host.answer(&format!("DELETE {}/{id}", keys_at()), answer(200, &json!({})));
    }
    bed.host.steps();
    bed
}

fn rotate(bed: &AuthBed<CloudB>) -> Result<Value, Failure> {
    Ok(Value::Object(bed.write("config/rotate-root", &json!({}))?.data))
}

fn in_use(bed: &AuthBed<CloudB>) -> Value {
    bed.read("config").unwrap().data["private_key_id"].clone()
}

/// The keys that the provider was told to end since the last look.
fn ended(bed: &AuthBed<CloudB>) -> Vec<String> {
    let asked = bed.host.requests().into_iter().filter(|asked| asked.method == "DELETE");
    asked.map(|asked| asked.url.rsplit('/').next().unwrap().to_owned()).collect()
}

/// The bed's time, as the provider writes it.
fn rfc3339(bed: &AuthBed<CloudB>) -> String {
    let seconds = i64::try_from(now(bed)).unwrap();
    let time = time::OffsetDateTime::from_unix_timestamp(seconds).unwrap();
    time.format(&time::format_description::well_known::Rfc3339).unwrap()
}

#[test]
fn a_new_key_takes_the_place_of_the_old_one_which_ends_later() {
    let bed = rotating();
    assert_eq!(rotate(&bed).unwrap(), json!({ "private_key_id": "k-new" }));
    assert_eq!(in_use(&bed), "k-new");
    let asked = bed.host.requests();
    let assertion = asked.iter().rfind(|asked| asked.url.ends_with("/token")).unwrap();
    let form = String::from_utf8(assertion.body.clone()).unwrap();
    assert!(form.contains("assertion="), "the new key was tried");
    assert!(asked.iter().all(|asked| asked.method != "DELETE"));
    assert_eq!(bed.host.stored("intent/root"), None);
    bed.wake("root-keys", 1).unwrap();
    assert_eq!(ended(&bed), ["k-own"]);
    assert_eq!((bed.host.stored("root-keys"), bed.host.timer("root-keys")), (None, None));
    bed.host.answer(&format!("POST {}", keys_at()), answer(200, &made("k-3", ACCOUNT_KEY)));
    rotate(&bed).unwrap();
}

#[test]
fn there_is_nothing_to_rotate_without_credentials() {
    let bed = rotating();
    bed.write("config", &json!({ "credentials": "" })).unwrap();
    let refused = rotate(&bed).err().unwrap();
    assert_eq!(refused.kind, Kind::InvalidRequest);
    assert!(refused.message.starts_with("configuration does not have credentials"), "{refused}");
    assert!(bed.host.requests().is_empty());
}

#[test]
fn what_the_provider_refuses_is_told_and_leaves_nothing_behind() {
    let bed = served();
    bed.host.answer(&listing(), answer(200, &list(&[])));
    let full = json!({"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "keys"}});
    bed.host.answer(&format!("POST {}", keys_at()), answer(400, &full));
    let refused = rotate(&bed).err().unwrap();
    assert_eq!(refused.kind, Kind::InvalidRequest);
    assert!(refused.message.contains("failed to create new key"), "{refused}");
    assert!(refused.message.contains("RESOURCE_EXHAUSTED"), "{refused}");
    assert_eq!((bed.host.stored("intent/root"), in_use(&bed)), (None, json!("k-own")));
    assert_eq!(bed.run_guards().unwrap(), 0);
}

#[test]
fn a_key_that_the_provider_does_not_know_yet_is_used_once_it_does() {
    let bed = rotating();
    // The token by the old key, then refusals of the new one, and then it works.
    let says = json!({"error": "invalid_grant"});
    let token = json!({"access_token": "t-2", "expires_in": 3599});
    for _ in 0..5 {
        bed.host.answer(TOKENS, answer(400, &says));
    }
    bed.host.answer(TOKENS, answer(200, &token));
    assert_eq!(rotate(&bed).unwrap(), json!({ "private_key_id": "k-new" }));
    assert_eq!(in_use(&bed), "k-own", "the old one still works");
    let refused = rotate(&bed).err().unwrap();
    assert!(refused.message.contains("already in progress"), "{refused}");
    assert_eq!(refused.kind, Kind::InvalidRequest);
    bed.wake("root-keys", 1).unwrap();
    assert_eq!(in_use(&bed), "k-new");
    bed.wake("root-keys", 1).unwrap();
    assert_eq!(ended(&bed), ["k-own"]);
}

#[test]
fn a_key_that_never_works_ends_and_the_old_one_stays() {
    let bed = rotating();
    bed.write("config", &json!({ "rotation_period": "1h" })).unwrap();
    bed.host.advance(3_600);
    bed.host.answer(TOKENS, answer(400, &json!({"error": "invalid_grant"})));
    bed.wake("rotation", 1).unwrap();
    assert_eq!(in_use(&bed), "k-own");
    assert!(bed.wake("root-keys", 1).is_err());
    bed.wake("root-keys", 10).unwrap();
    // The old key works again, once the refusal that is still in line was answered.
    bed.host.answer(TOKENS, answer(200, &json!({"access_token": "t-2", "expires_in": 3599})));
    assert!(bed.wake("root-keys", 1).is_err());
    bed.wake("root-keys", 1).unwrap();
    assert_eq!((ended(&bed), in_use(&bed)), (vec!["k-new".to_owned()], json!("k-own")));
    assert!(bed.host.timer("rotation").is_some(), "the next rotation is due again");
}

#[test]
fn a_process_that_dies_before_the_key_is_made_leaves_nothing_behind() {
    let bed = rotating();
    bed.host.die_after("checkpoint");
    assert!(rotate(&bed).is_err());
    assert!(bed.host.stored("intent/root").is_some());
    assert!(rotate(&bed).is_err(), "one at a time");
    assert_eq!(bed.run_guards().err().unwrap().kind, Kind::Unavailable, "the list may lag");
    bed.host.advance(31);
    bed.host.requests();
    assert_eq!(bed.run_guards().unwrap(), 1);
    assert!(ended(&bed).is_empty());
    assert_eq!((bed.host.stored("intent/root"), in_use(&bed)), (None, json!("k-own")));
}

/// A rotation whose key is made and not answered, or not as a key is, after which those came.
fn lose_making(making: Response, came: &[&str]) -> AuthBed<CloudB> {
    let bed = rotating_with(making);
    let mut all = vec![key("k-own", "2020-01-01T00:00:00Z"), key("k-old", "2021-01-01T00:00:00Z")];
    all.extend(came.iter().map(|id| key(id, &rfc3339(&bed))));
    bed.host.answer(&listing(), answer(200, &list(&all)));
    assert_eq!(rotate(&bed).err().unwrap().kind, Kind::Unreachable);
    assert!(bed.host.stored("root-keys").is_none());
    bed.host.advance(31);
    bed.host.requests();
    bed.host.steps();
    bed
}

#[test]
fn a_key_that_was_made_and_never_learnt_ends() {
    let another = made("k-new", ACCOUNT_KEY).to_string().into_bytes();
    for making in [
        answer(500, &json!({})),
        answer(200, &json!({"privateKeyData": "?"})),
        answer(200, &json!({"privateKeyData": BASE64_STANDARD.encode("{}")})),
        Response { status: 200, body: another[..40].to_vec(), ..Response::default() },
    ] {
        let bed = lose_making(making, &["k-new"]);
        assert_eq!(bed.run_guards().unwrap(), 1);
        assert_eq!(ended(&bed), ["k-new"], "and not the one that was there before");
        assert_eq!((bed.host.stored("intent/root"), in_use(&bed)), (None, json!("k-own")));
    }
}

#[test]
fn where_several_keys_came_none_is_touched_and_it_is_told() {
    let bed = lose_making(answer(500, &json!({})), &["k-new", "k-of-others"]);
    assert_eq!(bed.run_guards().unwrap(), 1);
    let steps = bed.host.steps();
    assert!(steps.iter().any(|step| step.contains("root-key-may-be-left")), "{steps:?}");
    assert!(ended(&bed).is_empty());
    assert_eq!(bed.host.stored("intent/root"), None);
}

#[test]
fn credentials_that_are_written_meanwhile_win_and_the_new_key_ends_by_itself() {
    let bed = rotating();
    let says = json!({"error": "invalid_grant"});
    for _ in 0..5 {
        bed.host.answer(TOKENS, answer(400, &says));
    }
    bed.host.answer(TOKENS, answer(200, &json!({"access_token": "t-2", "expires_in": 3599})));
    rotate(&bed).unwrap();
    let written = key_file("k-operator", OTHER_KEY).to_string();
    bed.write("config", &json!({ "credentials": written })).unwrap();
    bed.host.requests();
    bed.wake("root-keys", 1).unwrap();
    assert_eq!((ended(&bed), in_use(&bed)), (vec!["k-new".to_owned()], json!("k-operator")));
}

#[test]
fn a_key_that_cannot_be_ended_is_tried_again_and_then_named() {
    let bed = rotating();
    rotate(&bed).unwrap();
    let refused = answer(403, &json!({"error": {"status": "PERMISSION_DENIED"}}));
    bed.host.answer(&format!("POST {}", keys_at()), answer(200, &made("k-3", ACCOUNT_KEY)));
    bed.wake("root-keys", 1).unwrap();
    // The next key is `k-new` once more, and then one whose end is refused.
    bed.host.answer(&format!("DELETE {}/k-new", keys_at()), refused.clone());
    rotate(&bed).unwrap();
    bed.wake("root-keys", 1).unwrap();
    rotate(&bed).unwrap();
    assert_eq!(in_use(&bed), "k-3");
    bed.host.steps();
    for attempt in [1, 2, 9] {
        let why = bed.wake("root-keys", attempt).err().unwrap();
        assert!(why.message.contains("PERMISSION_DENIED"), "{why}");
    }
    bed.wake("root-keys", 10).unwrap();
    let steps = bed.host.steps();
    assert!(steps.iter().any(|step| step.contains("root-key-left")), "{steps:?}");
    assert!(bed.host.stored("root-keys").is_none());
}

#[test]
fn a_rotation_comes_by_its_time_and_within_its_window() {
    let bed = rotating();
    bed.write("config", &json!({ "rotation_period": "1h" })).unwrap();
    let due = bed.host.timer("rotation").unwrap();
    bed.wake("rotation", 1).unwrap();
    assert_eq!((in_use(&bed), bed.host.timer("rotation")), (json!("k-own"), Some(due)));
    bed.host.advance(3_600);
    bed.wake("rotation", 1).unwrap();
    assert_eq!(in_use(&bed), "k-new");
    let next = bed.host.timer("rotation").unwrap();
    assert!(next > due, "{next}");
    bed.write("config", &json!({ "rotation_schedule": "0 * * * *", "rotation_window": "1h" }))
        .unwrap();
    bed.host.advance(2 * 3_600 + 1_800);
    bed.host.requests();
    bed.wake("rotation", 1).unwrap();
    assert!(bed.host.requests().is_empty(), "the window is over");
}
