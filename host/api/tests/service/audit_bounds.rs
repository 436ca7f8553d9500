//! No request of any caller makes a long line, and no answer; and a request that the listener could
//! not read leaves its lines, too.

use crate::audit::{bed, device, folder, only};
use crate::bed::{Bed, error, request};
use bulkhead_audit::{AuditSettings, DeviceSettings};
use bulkhead_wire::description::Verb;
use bulkhead_wire::failure::{Failure, FailureKind};
use bulkhead_wire::request::Request;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// Longest line, in bytes.
const LINE: usize = 64 << 10;

/// Devices that write the same lines in every available manner.
fn devices(path: &Path) -> AuditSettings {
    let main = device("main", path.join("audit.log"));
    let raw = device("raw", path.join("raw.log"));
    let short = device("short", path.join("short.log"));
    let devices = vec![
        main,
        DeviceSettings { log_raw: true, hmac_accessor: false, ..raw },
        DeviceSettings { elide_list_responses: true, ..short },
    ];
    AuditSettings { devices, api_directory: None }
}

/// The longest line of each device, in bytes.
fn longest(bed: &Bed) -> Vec<usize> {
    let files = ["audit.log", "raw.log", "short.log"];
    let text = |file: &&str| fs::read_to_string(bed.directory.join(file)).unwrap();
    let longest = |text: String| text.lines().map(str::len).max().unwrap_or_default();
    files.iter().map(text).map(longest).collect()
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("a-name-not-of-any-secret-{number:05}")).collect()
}

/// Objects of so many levels, one in the other.
fn deep(levels: usize) -> Value {
    (0..levels).fold(json!({}), |inner, level| json!({ level.to_string(): inner, "x": "" }))
}

#[tokio::test(flavor = "multi_thread")]
async fn audit_line_is_at_most_64_kib_everywhere() {
    let path = folder("bounds");
    let bed = Bed::audited(path.clone(), devices(&path)).await.unwrap();
    let texts = json!(vec![""; 199_000]);
    let meta: Value = names(3_000).into_iter().map(|name| (name, json!("value"))).collect();
    let long = "x".repeat(700_000);
    let quotes = format!("x/{}", "\"\\".repeat(2_000));
    let text = "x".repeat(30_000);
    let policy = json!({ "policy": format!("# {text}\npath \"x\" {{}}") });
    let many = json!({ "policies": names(3_000), "meta": meta });
    let wide: Value = (0..50_000).map(|number| (number.to_string(), json!(""))).collect();
    for (path, fields) in [
        ("auth/token/renew-self", json!({ "x": texts })),
        ("auth/token/renew-self", wide.clone()),
        ("auth/token/renew-self", json!({ long.as_str(): "" })),
        ("auth/token/create", json!({ "policies": texts, "meta": deep(40) })),
        ("auth/token/create", json!({ "policies": names(3_000), "display_name": long })),
        ("sys/policies/acl/long", policy),
        ("sys/policies/acl/wrong", json!({ "policy": long })),
        ("sys/capabilities-self", json!({ "paths": names(10_000) })),
        ("probe/lease/odd", json!({ "ttl": "\u{1}".repeat(100_000), "how": texts })),
        ("probe/lease/odd", wide),
        (quotes.as_str(), json!({ "x": texts })),
        (quotes.as_str(), json!({})),
    ] {
        bed.write(path, fields).await;
        let shown = path.get(..40).unwrap_or(path);
        assert!(longest(&bed).into_iter().all(|line| line <= LINE), "{shown}: {:?}", longest(&bed));
    }
    // A caller and an answer that are long themselves.
    let (status, answer) = bed.write("auth/token/create", many).await;
    assert_eq!(status, 200, "{answer}");
    let token = answer["auth"]["client_token"].as_str().unwrap();
    bed.call_as(token, Verb::Read, "auth/token/lookup-self", json!({})).await;
    for number in 0..300 {
        let policy = json!({ "policy": format!("path \"{number}\" {{}}") });
        let name = format!("{}{number}", "n".repeat(100));
        assert_eq!(bed.write(&format!("sys/policies/acl/{name}"), policy).await.0, 204);
    }
    for (verb, path) in [
        (Verb::List, "sys/policies/acl"),
        (Verb::Read, "sys/policies/acl/long"),
        (Verb::Read, "sys/internal/specs/openapi"),
        (Verb::Read, "sys/mounts"),
    ] {
        assert_eq!(bed.call(verb, path, json!({})).await.0, 200, "{path}");
    }
    assert!(longest(&bed).into_iter().all(|line| line <= LINE), "{:?}", longest(&bed));
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn long_members_are_digested_and_unread_names_hashed() {
    let bed = bed("digests").await;
    let (list, unknown) = (names(1_000), json!(vec![""; 199_000]));
    let fields = json!({ "policies": list, "x": unknown, "display_name": "amy" });
    let (status, answer) = bed.write("auth/token/create", fields).await;
    assert_eq!(status, 200, "{answer}");
    let [request_line, response_line] = &bed.lines_of("auth/token/create")[..] else {
        panic!("two lines")
    };
    let digest = bed.hash(&json!(list).to_string()).await;
    let request = &request_line["request"];
    assert_eq!(request["unknown_fields"], json!([bed.hash("x").await]));
    assert_eq!(request["data"], json!({ "display_name": bed.hash("amy").await }));
    let digested = json!({ "policies": { "digest": digest, "values": 1_000 } });
    assert_eq!((&request["digested"], request.get("elided_members")), (&digested, None));
    let auth = &response_line["response"]["auth"];
    assert_eq!(auth["digested"]["token_policies"]["values"], 1_001, "default is one more: {auth}");
    assert_eq!((auth.get("policies"), &auth["identity_policies"]), (None, &json!([])));

    let token = answer["auth"]["client_token"].as_str().unwrap();
    bed.call_as(token, Verb::Read, "auth/token/lookup-self", json!({})).await;
    let line = bed.lines_of("auth/token/lookup-self").pop().unwrap();
    for digested in [&line["auth"]["digested"], &line["response"]["digested"]] {
        assert_eq!(digested["policies"], auth["digested"]["policies"], "{line}");
    }
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unreadable_request_leaves_audit_lines() {
    let bed = bed("unread").await;
    let policy = json!({ "policy": "path \"probe/*\" { capabilities = [\"update\"] }" });
    bed.write("sys/policies/acl/narrow", policy).await;
    let fields = json!({ "policies": "narrow", "num_uses": 3 });
    let (_, created_token) = bed.write("auth/token/create", fields).await;
    let narrow = created_token["auth"]["client_token"].as_str().unwrap();
    let canary = "swordfish-4711";
    let invalid = || Failure::invalid(format!("the body is not JSON at {canary}"));
    let large = || Failure::new(FailureKind::TooLarge, "request body too large");
    for (token, path, refusal, status) in [
        ("root", "probe/lease/json", invalid(), 400),
        (narrow, "probe/lease/large", large(), 413),
        (narrow, "sys/mounts/denied", invalid(), 400),
        ("none-of-ours", "probe/lease/strange", invalid(), 400),
        ("root", "nowhere/at/all", invalid(), 400),
    ] {
        let (hash, text) = (bed.hash(&refusal.message).await, refusal.message.clone());
        let refusal = Some(refusal);
        let call =
            Request { refusal, body_bytes: 77, ..request(token, Verb::Write, path, json!({})) };
        let (answered, _, answer) = bed.service.handle(call).await.into_bytes();
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        assert_eq!((answered, error(&answer)), (status, text.as_str()), "{path}");
        let lines = bed.lines_of(path);
        let [request_line, response] = &lines[..] else { panic!("{path}: {lines:?}") };
        let expected_error = match status {
            400 => json!(format!("invalid-request: {}", hash.as_str().unwrap())),
            _ => json!(text),
        };
        assert_eq!(
            (&request_line["error"], &response["error"]),
            (&expected_error, &expected_error),
            "{path}: {request_line}"
        );
        let request = &request_line["request"];
        assert_eq!(request["client_token"], bed.hash(token).await, "{path}: {request_line}");
        assert_eq!((&request["body_bytes"], request.get("data")), (&json!(77), None));
        assert_eq!(
            request_line.get("auth").is_some(),
            token != "none-of-ours",
            "{path}: {request_line}"
        );
        if let Some(auth) = request_line.get("auth") {
            assert_eq!(auth["accessor"], request["client_token_accessor"], "{request_line}");
            assert!(
                auth["accessor"].as_str().unwrap().starts_with("hmac-sha256:"),
                "{request_line}"
            );
        }
    }
    let text = fs::read_to_string(bed.directory.join("audit.log")).unwrap();
    assert!(!text.contains(canary), "{text}");
    // Two of its three uses are taken: a refused request is a request.
    let (status, answer) = bed.call_as(narrow, Verb::Write, "probe/count/third", json!({})).await;
    assert_eq!(status, 204, "{answer}");
    assert_eq!(bed.call_as(narrow, Verb::Write, "probe/count/fourth", json!({})).await.0, 403);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn refusal_of_body_requires_recording_device() {
    let bed = Bed::audited(folder("unread-full"), only(device("main", "/dev/full"))).await.unwrap();
    let refusal = Some(Failure::invalid("the body is not JSON"));
    let call = Request { refusal, ..request("root", Verb::Write, "probe/lease/x", json!({})) };
    assert_eq!(bed.service.handle(call).await.into_bytes().0, 500);
    bed.end().await;
}
