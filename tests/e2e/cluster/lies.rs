//! Wrong answers of an API server that is broken, overloaded or not an API server: a clear refusal,
//! no object left behind, and the engine's token in no message and at no other server.

use super::liar::{ACCOUNTS, BINDINGS, LyingApiServer, OWN, SIGNATURE, THIEF, refusal};
use bulkhead_tests::internet::{Fault, Response};
use bulkhead_tests::wait::until_true;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Longest wait for the removal of objects whose creation was not answered.
const SOON: Duration = Duration::from_secs(20);

/// The objects of a token, in order, and the request for the token.
const STEPS: [&str; 3] = [BINDINGS, ACCOUNTS, "/api/v1/namespaces/apps/serviceaccounts/v-1/token"];

/// Longer than any answer of a server that answers.
const HELD_UP: Duration = Duration::from_secs(10);

/// Asserts that the fault at each step gives the status and leaves no object.
#[track_caller]
fn refused_at_each_step(liar: &LyingApiServer, case: &str, fault: &Fault, status: u16) {
    let root = &liar.online.root;
    for step in STEPS {
        liar.fail(step, fault.clone());
        let began = Instant::now();
        let refused = root.write("cluster/creds/two", &json!({}));
        assert_eq!(refused.status, status, "{case} at {step}: {refused:?}");
        assert!(began.elapsed() < HELD_UP, "{case} at {step}: {:?}", began.elapsed());
        assert!(!refused.errors().is_empty(), "{case} at {step}");
        liar.internet.heal();
        until_true(&format!("{case} at {step}: nothing is left"), SOON, || {
            liar.objects().is_empty()
        });
    }
}

fn leases(liar: &LyingApiServer) -> usize {
    let listed = liar.online.root.list("sys/leases/lookup/cluster/creds/two");
    listed.body["data"]["keys"].as_array().map_or(0, Vec::len)
}

/// Asserts that log and audit file do not contain the engine's token.
#[track_caller]
fn assert_silent(liar: &LyingApiServer) {
    liar.online.server.assert_silent(SIGNATURE);
    let audited = liar.audited();
    assert!(audited.contains("cluster/creds/two") && !audited.contains(SIGNATURE));
    assert!(liar.internet.asked(THIEF).is_empty(), "another server was asked");
}

#[test]
fn api_server_failure_at_any_step_leaves_nothing() {
    let liar = LyingApiServer::start();
    let elsewhere = format!("https://{THIEF}/api/v1/namespaces/apps/serviceaccounts");
    for (case, fault, status) in [
        ("a status without a word", Fault::Status(500), 502),
        ("not available", Fault::Status(503), 502),
        ("half an answer", Fault::Truncate, 502),
        ("JSON that ends half-way", Fault::Malform, 502),
        ("an answer without end", Fault::Huge, 502),
        ("another server", Fault::Redirect(elsewhere), 502),
        ("a page for people", Fault::Lie(Response::text(201, "<html>welcome</html>")), 502),
        ("a teapot", Fault::Status(418), 400),
    ] {
        refused_at_each_step(&liar, case, &fault, status);
    }
    liar.online.root.write("cluster/creds/two", &json!({})).expect(200);
    assert_silent(&liar);
}

#[test]
fn overloaded_api_server_is_429_with_retry_after() {
    let liar = LyingApiServer::start();
    refused_at_each_step(&liar, "too many", &Fault::RetryAfter(429, 7), 429);
    liar.fail(BINDINGS, Fault::RetryAfter(429, 7));
    let refused = liar.online.root.write("cluster/creds/two", &json!({}));
    assert_eq!((refused.status, refused.retry_after), (429, Some(7)), "{refused:?}");
    assert_silent(&liar);
}

#[test]
fn answers_about_other_or_invalid_objects_are_refused() {
    let liar = LyingApiServer::start();
    let object = |metadata: Value| Fault::Lie(Response::json(201, &json!({"metadata": metadata})));
    let (name, other) = (json!("v-1"), json!("kube-root"));
    for (case, fault) in [
        ("no uid", object(json!({ "name": name }))),
        ("an empty uid", object(json!({ "name": name, "uid": "" }))),
        ("a uid of a megabyte", object(json!({ "name": name, "uid": "u".repeat(1 << 20) }))),
        ("a uid that is none", object(json!({ "name": name, "uid": "a b\n" }))),
        ("another name", object(json!({ "name": other, "uid": "u-1" }))),
        (
            "another namespace",
            object(json!({
                "name": name, "namespace": "kube-system", "uid": "u-1",
            })),
        ),
        ("a list", Fault::Lie(Response::json(201, &json!([])))),
    ] {
        for step in [BINDINGS, ACCOUNTS] {
            liar.fail(step, fault.clone());
            liar.online.root.write("cluster/creds/two", &json!({})).expect(502);
            until_true(&format!("{case} at {step}: nothing is left"), SOON, || {
                liar.objects().is_empty()
            });
        }
    }
    assert_silent(&liar);
}

#[test]
fn a_malformed_token_is_not_handed_out() {
    let liar = LyingApiServer::start();
    let status = |status: Value| Response::json(201, &json!({ "status": status }));
    for (case, body) in [
        ("nothing", Response::json(201, &json!({}))),
        ("an empty one", status(json!({ "token": "" }))),
        ("a number", status(json!({ "token": 7 }))),
        (
            "70 KiB",
            status(json!({
                "token": "a".repeat(70 << 10), "expirationTimestamp": "2030-01-01T00:00:00Z",
            })),
        ),
        ("one that never ends", status(json!({ "token": "a.b.c", "expirationTimestamp": "ever" }))),
    ] {
        for (role, account) in [("one", "app"), ("two", "v-1")] {
            liar.fail(&format!("{ACCOUNTS}/{account}/token"), Fault::Lie(body.clone()));
            let refused = liar.online.root.write(&format!("cluster/creds/{role}"), &json!({}));
            assert_eq!(refused.status, 502, "{case} of {role}: {refused:?}");
            until_true(&format!("{case}: nothing is left"), SOON, || liar.objects().is_empty());
        }
    }
    assert_silent(&liar);
}

#[test]
fn the_engines_token_is_redacted_in_a_refusal() {
    let liar = LyingApiServer::start();
    for message in [
        format!("no rights for Bearer {OWN}"),
        format!("{}{OWN}", "x".repeat(500 - OWN.len() / 2)),
        format!("a\r\nx: y\0 {OWN}"),
    ] {
        liar.fail(BINDINGS, Fault::Lie(refusal(403, &message)));
        let refused = liar.online.root.write("cluster/creds/two", &json!({})).expect(400);
        assert!(!refused.errors().contains(['\r', '\n', '\0']), "{}", refused.errors());
    }
    liar.fail(BINDINGS, Fault::Lie(Response::text(403, &format!("no page for Bearer {OWN}"))));
    let refused = liar.online.root.write("cluster/creds/two", &json!({})).expect(400);
    assert!(!refused.errors().contains("no page"), "{}", refused.errors());
    assert_silent(&liar);
}

#[test]
fn revocation_is_retried_after_every_api_server_failure() {
    let liar = LyingApiServer::start();
    let root = &liar.online.root;
    for (fault, status) in [
        (Fault::Status(500), 502),
        (Fault::Lie(refusal(403, "not yours")), 400),
        (Fault::RetryAfter(429, 1), 429),
        (Fault::Redirect(format!("https://{THIEF}/")), 502),
        // A 404 from another server in the API server's place says nothing about the object.
        (Fault::Status(404), 502),
        (Fault::Lie(Response::text(404, "404 page not found")), 502),
        (Fault::Lie(refusal(404, "rolebindings \"v\" not found")), 204),
    ] {
        let given = root.write("cluster/creds/two", &json!({})).expect(200);
        liar.fail(BINDINGS, fault.clone());
        let lease = json!({ "lease_id": given.lease() });
        let ended = root.write("sys/leases/revoke", &lease);
        assert_eq!(ended.status, status, "{fault:?}: {ended:?}");
        liar.internet.heal();
        until_true(&format!("{fault:?}: the lease ends"), SOON, || {
            root.write("sys/leases/revoke", &lease).status == 204 && leases(&liar) == 0
        });
        assert!(liar.objects().is_empty(), "{fault:?}: {:?}", liar.objects());
    }
    assert_silent(&liar);
}
