//! Providers that are slow, refuse, redirect, flood or answer nonsense.

use super::*;
use crate::testbed::TestHost;
use bulkhead_wire::failure::FailureKind;
use serde_json::{Value, json};

const ASKED: &str = "GET https://api.example/things/a";
/// Time of a call, in milliseconds.
const TIME: u64 = 90_000;

fn answer(status: u16, body: &Value) -> Response {
    Response { status, body: serde_json::to_vec(body).unwrap(), ..Response::default() }
}

fn after(seconds: &str, status: u16) -> Response {
    let headers = vec![("retry-after".to_owned(), seconds.to_owned())];
    Response { headers, ..answer(status, &json!({})) }
}

fn ask(host: &TestHost, retries: RetryPolicy) -> Result<Value, Failure> {
    let provider = Provider::new(host, retries, (host as &dyn Host).clock().now() + TIME);
    let request = Request::get(ASKED.trim_start_matches("GET "));
    provider.json(&request).map_err(|why| why.about("find the thing"))
}

/// Returns requests and pauses, in order.
fn steps(host: &TestHost) -> Vec<String> {
    host.steps().into_iter().map(|step| step.replace(ASKED, "thing")).collect()
}

#[test]
fn transient_failures_are_retried_after_growing_pauses() {
    let host = TestHost::default();
    for status in [503, 429, 500] {
        host.answer(ASKED, answer(status, &json!({})));
    }
    host.refuse("send", Failure::new(FailureKind::TimedOut, "slow"));
    host.answer(ASKED, answer(200, &json!({"id": "a"})));
    let retries = RetryPolicy { most: 4, delay: 1_000, longest: 60_000 };
    assert_eq!(ask(&host, retries).unwrap(), json!({"id": "a"}));
    let pauses: Vec<u64> =
        steps(&host).iter().filter_map(|step| step.strip_prefix("pause ")?.parse().ok()).collect();
    assert_eq!(pauses.len(), 4);
    for (pause, due) in pauses.iter().zip([1_000, 3_000, 7_000, 15_000]) {
        assert!((due * 4 / 5..due * 13 / 10).contains(pause), "{pauses:?}");
    }
}

#[test]
fn too_large_answer_is_not_requested_again() {
    let host = TestHost::default();
    host.refuse(
        "send",
        Failure::new(FailureKind::TooLarge, "the answer is over the limit of bytes"),
    );
    let why = ask(&host, RetryPolicy::default()).unwrap_err();
    assert_eq!(why.kind, FailureKind::Unreachable, "{why}");
    assert!(why.message.contains("answered more than 1 MiB"), "{why}");
    assert!(!steps(&host).iter().any(|step| step.starts_with("pause")));
}

#[test]
fn count_deadline_and_retry_after_bound_retries() {
    let down = || {
        let host = TestHost::default();
        host.answer(ASKED, answer(502, &json!({})));
        host
    };
    let sent = |host: &TestHost| steps(host).iter().filter(|step| step.starts_with("send")).count();
    for (most, expected) in [(0, 1), (2, 3)] {
        let host = down();
        let retries = RetryPolicy { most, delay: 10, longest: 60_000 };
        assert_eq!(ask(&host, retries).unwrap_err().kind, FailureKind::Unreachable);
        assert_eq!(sent(&host), expected);
    }
    let host = down();
    let endless = RetryPolicy { most: u32::MAX, delay: 4_000, longest: u64::MAX };
    let begun = (&host as &dyn Host).clock().now();
    assert!(ask(&host, endless).is_err());
    assert!((&host as &dyn Host).clock().now() <= begun + TIME, "the call's time is enough");
    for (seconds, expected) in [("2", 2), ("61", 1)] {
        let host = TestHost::default();
        host.answer(ASKED, after(seconds, 429));
        let why = ask(&host, RetryPolicy { most: 1, delay: 0, longest: 60_000 }).unwrap_err();
        assert_eq!(sent(&host), expected, "{seconds}");
        assert_eq!(
            (why.kind, why.retry_after),
            (FailureKind::RateLimited, Some(seconds.parse::<u64>().unwrap() * 1_000),)
        );
    }
}

#[test]
fn a_change_is_never_sent_twice() {
    let host = TestHost::default();
    host.answer("POST https://api.example/x", answer(503, &json!({})));
    let provider = Provider::new(&host, RetryPolicy::default(), u64::MAX);
    let url = "https://api.example/x";
    assert!(matches!(provider.ask(&Request::post(url)), Err(ProviderRefusal::Down(_))));
    assert_eq!(host.requests().len(), 1);
    assert!(provider.ask(&Request::safe_post(url)).is_err());
    assert_eq!(host.requests().len(), 4, "a request without changes is repeated");
}

#[test]
fn refusals_are_caller_errors_and_faults_provider_errors() {
    let oauth = json!({
        "error": "invalid_client",
        "error_description": "AADSTS7000215: Invalid client secret provided: 'hunter2'.",
    });
    let google = json!({"error": {"code": 404, "message": "hunter2", "status": "NOT_FOUND"}});
    let azure = json!({"error": {"code": "ResourceNotFound", "message": "hunter2"}});
    let forged = json!({"error": {"code": "a\nlevel=error forged"}});
    let api = "failed to find the thing: api.example answered";
    for (status, body, kind, message) in [
        (401, oauth, FailureKind::InvalidRequest, "401 (invalid_client, AADSTS7000215)"),
        (404, google, FailureKind::InvalidRequest, "404 (NOT_FOUND)"),
        (404, azure, FailureKind::InvalidRequest, "404 (ResourceNotFound)"),
        (403, forged, FailureKind::InvalidRequest, "403"),
        (302, json!({}), FailureKind::Unreachable, "302, which is not followed"),
        (500, json!({}), FailureKind::Unreachable, "500"),
        (200, json!([1]), FailureKind::Unreachable, "with an invalid body"),
    ] {
        let host = TestHost::default();
        host.answer(ASKED, answer(status, &body));
        let provider = Provider::new(&host, RetryPolicy::NONE, u64::MAX);
        let request = Request::get("https://api.example/things/a");
        let reply: Result<serde_json::Map<String, Value>, ProviderRefusal> =
            provider.json(&request);
        let why = reply.unwrap_err().about("find the thing");
        assert_eq!((why.kind, why.message), (kind, format!("{api} {message}")));
    }
}

#[test]
fn answers_of_more_than_a_megabyte_are_none() {
    let host = TestHost::default();
    let body = format!("\"{}\"", "x".repeat(1 << 20)).into_bytes();
    host.answer(ASKED, Response { status: 200, body, ..Response::default() });
    let why = ask(&host, RetryPolicy::NONE).unwrap_err();
    assert!(why.message.ends_with("answered more than 1 MiB"), "{}", why.message);
}

#[test]
fn host_refusals_are_passed_on_without_retry() {
    let host = TestHost::default();
    host.refuse("send", Failure::denied("mount x was not granted http:https://api.example:443"));
    let why = ask(&host, RetryPolicy::default()).unwrap_err();
    assert_eq!(why.kind, FailureKind::PermissionDenied);
    assert!(why.message.contains("http:https://api.example:443"), "{}", why.message);
}

#[test]
fn no_part_of_a_url_leaves_its_place() {
    let url =
        ProviderUrl::of("https://api.example/").path(&["v1", "a/../b?c#d%2e\\é", "-"]).unwrap();
    let url = url.verb("sign").query("$filter", "id eq 'a&b'").query("v", "1");
    assert_eq!(
        url.text(),
        "https://api.example/v1/a%2F..%2Fb%3Fc%23d%252e%5C%C3%A9/-:sign\
         ?%24filter=id%20eq%20%27a%26b%27&v=1"
    );
    for segment in ["", ".", ".."] {
        assert!(
            ProviderUrl::of("https://api.example").path(&["v1", segment]).is_err(),
            "{segment:?}"
        );
    }
}

#[test]
fn requests_beyond_call_limits_are_refused() {
    for (limits, allowed) in [
        (CallLimits::DEFAULT, 16),
        (CallLimits { http_calls: 200, ..CallLimits::DEFAULT }, 180),
        (CallLimits { http_bytes: 1 << 20, ..CallLimits::DEFAULT }, 0),
    ] {
        let host = TestHost::default();
        host.set_limits(CallLimits { host_calls: 100_000, ..limits });
        host.answer(ASKED, answer(200, &json!({"id": "a"})));
        let end = (&host as &dyn Host).clock().now() + TIME;
        let provider = Provider::new(&host, RetryPolicy::NONE, end).within(limits);
        let request = Request::get(ASKED.trim_start_matches("GET "));
        // A clone, as of the access to the provider, shares the limits.
        let ask = || provider.clone().ask(&request);
        assert_eq!((0..999).take_while(|_| ask().is_ok()).count(), allowed);
        let why = ask().map(drop).unwrap_err().about("find the thing");
        assert_eq!(why.kind, FailureKind::InvalidRequest);
        assert!(why.message.contains("bind the role to fewer groups"), "{why}");
    }
}
