//! Callers whom the component does not know: their costs, their rate, and their trace in the audit
//! log.

use super::blocking::{await_parked, parked, wait_for};
use super::{assert_refused, bed, role, secret, token};
use bulkhead_tests::scheduler::{PlainRequest, Scheduler};
use serde_json::{Value, json};
use std::time::Duration;

/// A token that no region has.
const INVENTED: &str = "12345678-1111-4222-8333-444444444444";

/// Processor time for a request of a stranger. A comparison of all pairs of names takes a minute.
const TIME_OF_ONE: Duration = Duration::from_millis(50);

/// Returns the lines of the audit log about answers to requests for this path.
fn answers_to(scheduler: &Scheduler, path: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(scheduler.server.data().join("audit.log"));
    let text = text.expect("a server in dev mode audits to its data folder");
    let lines =
        text.lines().map(|line| serde_json::from_str::<Value>(line).expect("a line is JSON"));
    let is_meant = |line: &Value| line["type"] == "response" && line["request"]["path"] == path;
    lines.filter(is_meant).collect()
}

/// Returns the body of a token with a list of distinct names that takes `bytes` bytes.
fn body_of_names(bytes: usize) -> Vec<u8> {
    let names: Vec<String> = (0..bytes / 14).map(|number| format!("name-{number:06}")).collect();
    let body = json!({ "Name": "n", "Type": "client", "Policies": names }).to_string();
    body.into_bytes()
}

#[test]
fn long_lists_of_strangers_cost_little_processor_time() {
    let scheduler = bed();
    let send = |token: &str, body: &[u8]| {
        let mut request = PlainRequest::new("PUT", "/v1/acl/token").with_token(token);
        request.body = body.to_vec();
        request.send(scheduler.address())
    };
    let (large, small) = (body_of_names(1 << 20), body_of_names(60 << 10));
    assert!(large.len() > 1_000_000 && small.len() > 55_000, "{} {}", large.len(), small.len());
    // The first requests make the instances.
    assert_eq!(send(INVENTED, &small).status, 403);
    let (before, rounds) = (scheduler.server.processor_time(), 10);
    for _ in 0..rounds {
        for token in ["", INVENTED, "nonsense"] {
            let refused = send(token, &large);
            assert_eq!(refused.status, 413, "{}", refused.text());
            assert!(refused.text().contains("64KiB"), "{}", refused.text());
            assert_refused(&send(token, &small), 403, "Permission denied");
        }
    }
    let used = scheduler.server.processor_time() - before;
    println!("{:?} a request", used / (6 * rounds));
    assert!(used < TIME_OF_ONE * 6 * rounds, "{used:?} for {} requests", 6 * rounds);
    let before = scheduler.server.processor_time();
    let written = send(&scheduler.management, &body_of_names(200 << 10));
    let used = scheduler.server.processor_time() - before;
    assert_eq!(written.status, 200, "a manager may send more than 64 KiB: {}", written.text());
    assert!(used < Duration::from_secs(2), "{used:?} for the list of a manager");
}

#[test]
fn chunked_bodies_of_strangers_are_bounded() {
    let scheduler = bed();
    for (token, bytes, status) in [
        (INVENTED, 70 << 10, 413),
        (INVENTED, 60 << 10, 403),
        (scheduler.management.as_str(), 70 << 10, 200),
    ] {
        let body = body_of_names(bytes);
        let request = PlainRequest::new("PUT", "/v1/acl/token").with_token(token);
        let mut request = request.with_header("Transfer-Encoding", "chunked");
        request.body = format!("{:x}\r\n", body.len()).into_bytes();
        request.body.extend_from_slice(&body);
        request.body.extend_from_slice(b"\r\n0\r\n\r\n");
        let answer = request.send(scheduler.address());
        assert_eq!(answer.status, status, "{bytes} bytes: {}", answer.text());
    }
}

#[test]
fn quotas_limit_plain_requests_in_every_spelling() {
    let scheduler = bed();
    let root = scheduler.server.root();
    root.write("sys/quotas/config", &json!({ "enable_rate_limit_audit_logging": true }))
        .expect(204);
    let quota = json!({ "path": "acl", "rate": 3, "interval": "1h" });
    root.write("sys/quotas/rate-limit/slow", &quota).expect(204);
    let ask = |path: &str| scheduler.ask("GET", path, &scheduler.management, &Value::Null);
    for path in ["/v1/acl/roles", "/v1/acl//roles", "/v1/acl/%72oles"] {
        assert!([200, 307].contains(&ask(path).status), "{path}");
    }
    let refused = ask("/v1/acl/roles");
    assert_eq!(refused.status, 429);
    assert!(refused.text().contains("rate limit quota exceeded"), "{}", refused.text());
    assert!(refused.header("retry-after").is_some());
    let on_the_servers_listener = PlainRequest::new("GET", "/v1/acl/roles");
    let on_the_servers_listener = on_the_servers_listener.with_token(&scheduler.management);
    assert_eq!(on_the_servers_listener.send(scheduler.server.address()).status, 429);
    let refusals = answers_to(&scheduler, "acl/v1/acl/roles");
    let last = refusals.last().expect("refusals of quotas are audited");
    assert!(last["error"].as_str().is_some_and(|error| !error.is_empty()), "{last}");
    root.delete("sys/quotas/rate-limit/slow").expect(204);
    assert_eq!(ask("/v1/acl/roles").status, 200);
}

#[test]
fn audit_names_callers_and_hides_secrets_in_paths() {
    let scheduler = bed();
    let client = token(&scheduler, &[]);
    let management = scheduler.management.clone();
    let ask = |path: &str, token: &str| scheduler.ask("GET", path, token, &Value::Null);
    ask("/v1/acl/policy/readonly", secret(&client));
    let line = answers_to(&scheduler, "acl/v1/acl/policy/readonly").pop().expect("a line");
    assert_eq!(line["auth"]["display_name"], "client");
    assert_eq!(line["auth"]["token_type"], "component");
    let accessor = client["AccessorID"].as_str().expect("an accessor");
    let hashed =
        scheduler.server.root().write("sys/audit-hash/file", &json!({ "input": accessor }));
    assert_eq!(line["auth"]["accessor"], hashed.expect(200).text("hash"));
    ask("/v1/acl/roles", INVENTED);
    let line = answers_to(&scheduler, "acl/v1/acl/roles").pop().expect("a line");
    assert!(line.get("auth").is_none(), "a stranger has no name: {line}");
    for path in [
        format!("/v1/acl/token/{management}"),
        format!("/v1/acl/token/{management}/"),
        format!("/v1/acl//token/{management}"),
        format!("/v1/acl/%74oken/{management}"),
        format!("/v1/acl/role/{management}"),
        format!("/v1/{management}"),
        format!("/v1/acl/policy/..%2Ftoken%2F{management}"),
    ] {
        ask(&path, &management);
        if !path.starts_with("/v1/acl/") {
            // The server's own listener takes the path for a path of its own API.
            continue;
        }
        let on_the_servers_listener = PlainRequest::new("GET", &path).with_token(&management);
        on_the_servers_listener.send(scheduler.server.address());
    }
    let text = std::fs::read_to_string(scheduler.server.data().join("audit.log")).expect("a file");
    for secret in [management.as_str(), secret(&client), accessor] {
        assert!(!text.contains(secret), "the audit log shows a secret or an accessor");
    }
    assert!(text.contains("acl/v1/acl/token/hmac-sha256:"), "the words are shown");
}

#[test]
fn parked_strangers_leave_places_to_callers_with_tokens() {
    let scheduler = bed();
    let index = scheduler.manage("GET", "/v1/acl/roles", &Value::Null).index();
    let mut waiting = Vec::new();
    let mut refused = 0;
    for _ in 0..100 {
        waiting.push(wait_for(&scheduler, "/v1/acl/roles", "", index));
    }
    await_parked(&scheduler, 100);
    for _ in 0..10 {
        let path = format!("/v1/acl/roles?index={index}&wait=20s");
        let answer = scheduler.ask("GET", &path, "", &Value::Null);
        assert_eq!(answer.status, 429, "{}", answer.text());
        assert!(answer.text().contains("without an accepted token"), "{}", answer.text());
        refused += 1;
    }
    assert_eq!((refused, parked(&scheduler)), (10, 100));
    waiting.push(wait_for(&scheduler, "/v1/acl/roles", &scheduler.management, index));
    await_parked(&scheduler, 101);
    role(&scheduler, "awaited");
    await_parked(&scheduler, 0);
}

#[test]
fn requests_in_flight_hide_secrets_in_paths() {
    let scheduler = bed();
    let created_role = role(&scheduler, "made");
    let id = created_role["ID"].as_str().expect("an identifier");
    let index = created_role["ModifyIndex"].as_u64().expect("an index");
    let path = format!("/v1/acl/role/{id}");
    let _waiting = wait_for(&scheduler, &path, &scheduler.management, index);
    await_parked(&scheduler, 1);
    let listed = scheduler.server.root().read("sys/in-flight-req").expect(200);
    let text = format!("{listed:?}");
    assert!(text.contains("acl/v1/acl/role/***") && !text.contains(id), "{text}");
}
