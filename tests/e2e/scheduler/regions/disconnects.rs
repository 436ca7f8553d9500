//! Clients that disconnect during a forwarded request, and strangers who want one.

use super::{Regions, SOON};
use bulkhead_tests::scheduler::PlainRequest;
use bulkhead_tests::wait::until_true;
use serde_json::Value;
use std::time::{Duration, Instant};

/// Longest time in which a run ends after its client disconnected; a forwarded read may take 15 s.
const END_OF_RUN: Duration = Duration::from_secs(5);

/// Returns whether a plain HTTP read of the roles is in flight in `west`.
fn is_in_flight(regions: &Regions) -> bool {
    let listed = regions.west.server.root().read("sys/in-flight-req").expect(200);
    format!("{listed:?}").contains("acl/v1/acl/roles")
}

#[test]
fn disconnects_end_reads_of_other_regions() {
    let regions = Regions::start();
    regions.link.pause();
    let request =
        PlainRequest::new("GET", "/v1/acl/roles?region=global").with_token(regions.token());
    let stream = request.begin(regions.west.address());
    until_true("the read is in flight", SOON, || is_in_flight(&regions));
    let disconnected = Instant::now();
    drop(stream);
    until_true("the run has ended", SOON, || !is_in_flight(&regions));
    let took = disconnected.elapsed();
    assert!(took < END_OF_RUN, "{took:?}");
    regions.link.restore();
}

#[test]
fn strangers_are_refused_before_a_region_is_asked() {
    let regions = Regions::start();
    regions.link.pause();
    let invented = "12345678-1111-4222-8333-444444444444";
    for token in ["", invented, "nonsense"] {
        let began = Instant::now();
        let body = serde_json::json!({ "Name": "made", "Policies": [] });
        for (method, path, body) in [
            ("GET", "/v1/acl/roles?region=global", &Value::Null),
            ("PUT", "/v1/acl/role", &body),
            ("DELETE", "/v1/acl/policy/readonly", &Value::Null),
        ] {
            let answer = regions.west.ask(method, path, token, body);
            assert_eq!(answer.status, 403, "{method} {path}: {}", answer.text());
        }
        let boot = regions.west.ask("PUT", "/v1/acl/bootstrap", token, &Value::Null);
        assert_eq!(boot.status, 400, "{}", boot.text());
        assert!(boot.text().contains("follows region global"), "{}", boot.text());
        assert!(began.elapsed() < END_OF_RUN, "a region was asked");
    }
    regions.link.restore();
}
