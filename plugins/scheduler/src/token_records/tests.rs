//! Expiry of tokens, on the test bed.

use crate::fixture::{LOCAL, bed, call, call_with};
use bulkhead_sdk::raw::{RawReply, RunReason};
use serde_json::{Value, json};
use std::time::Duration;

/// Returns a bootstrapped bed with a client token that lives for ten minutes.
fn with_token() -> (bulkhead_sdk::testbed::TestBed<crate::Scheduler>, Value) {
    let bed = bed();
    call(&bed, "POST", "v1/acl/bootstrap", &json!({"BootstrapSecret": LOCAL}));
    let body = json!({"Name": "n", "Type": "client", "Policies": ["p"], "ExpirationTTL": "10m"});
    let reply = call(&bed, "POST", "v1/acl/token", &body);
    (bed, json_of(&reply))
}

fn json_of(reply: &RawReply) -> Value {
    serde_json::from_slice(&reply.body).unwrap()
}

fn text_of(reply: &RawReply) -> String {
    String::from_utf8(reply.body.clone()).unwrap()
}

fn tokens(bed: &bulkhead_sdk::testbed::TestBed<crate::Scheduler>) -> usize {
    json_of(&call(bed, "GET", "v1/acl/tokens", &Value::Null)).as_array().unwrap().len()
}

#[test]
fn expired_token_is_refused_and_removed_after_hour() {
    let (bed, token) = with_token();
    let (accessor, secret) =
        (token["AccessorID"].as_str().unwrap(), token["SecretID"].as_str().unwrap());
    let as_owner = |path: &str| {
        let mut request = bed.raw_request("GET", path, "");
        request.headers = vec![("x-nomad-token".to_owned(), secret.to_owned())];
        bed.serve(&request).unwrap()
    };
    assert_eq!(as_owner("v1/acl/token/self").status, 200);
    bed.host.advance(601);
    for (path, text) in [
        ("v1/acl/token/self", "ACL token expired"),
        ("v1/acl/roles", "Permission denied"),
        ("v1/acl/policies", "Permission denied"),
    ] {
        let refused = as_owner(path);
        assert_eq!((refused.status, text_of(&refused).as_str()), (403, text), "{path}");
    }
    assert_eq!(tokens(&bed), 2, "management still sees it");
    bed.host.advance(3_000);
    bed.wake(&format!("expire/{accessor}"), 1).unwrap();
    assert_eq!(tokens(&bed), 1);
    assert_eq!(as_owner("v1/acl/token/self").status, 403);
}

#[test]
fn early_timer_and_forced_collection_keep_living_tokens() {
    let (bed, token) = with_token();
    let accessor = token["AccessorID"].as_str().unwrap();
    for _ in 0..2 {
        bed.wake(&format!("expire/{accessor}"), 1).expect("the timer is scheduled again");
    }
    assert_eq!(call(&bed, "PUT", "v1/system/gc", &Value::Null).status, 200);
    assert_eq!(tokens(&bed), 2);
    bed.host.advance(601);
    let denied = call_with(&bed, "PUT", "v1/system/gc", &Value::Null, &[]);
    assert_eq!(denied.status, 200);
    assert_eq!(tokens(&bed), 1, "however young");
}

#[test]
fn a_collection_removes_thousands_of_tokens() {
    let (bed, _) = with_token();
    for number in 0..1_500 {
        let accessor = format!("bbbbbbbb-2222-4333-8444-{number:012}");
        let body = json!({
            "AccessorID": accessor, "SecretID": accessor.replace('b', "c"), "Type": "client",
            "Policies": ["p"], "ExpirationTTL": "10m",
        });
        let path = format!("v1/acl/token/{accessor}");
        assert_eq!(call(&bed, "POST", &path, &body).status, 200);
    }
    bed.host.advance(601);
    assert_eq!(call(&bed, "PUT", "v1/system/gc", &Value::Null).status, 200);
    assert_eq!(tokens(&bed), 1);
}

#[test]
fn blocking_read_names_key_and_ends_after_wait() {
    let (bed, _) = with_token();
    let mut request = bed.raw_request("GET", "v1/acl/roles", "index=99&wait=1m");
    request.headers = vec![("x-nomad-token".to_owned(), LOCAL.to_owned())];
    let park = bed.serve(&request).unwrap().park.expect("the index is not reached");
    assert_eq!((park.keys, park.after), (vec!["index/roles".to_owned()], 99));
    let (least, most) = (Duration::from_secs(60), Duration::from_millis(63_750));
    assert!((least..=most).contains(&park.wait), "{:?}", park.wait);
    request.run = RunReason::Elapsed;
    assert_eq!(bed.serve(&request).unwrap().status, 200);
    request.query = "index=0&wait=1m".to_owned();
    assert!(bed.serve(&request).unwrap().park.is_none());
}
