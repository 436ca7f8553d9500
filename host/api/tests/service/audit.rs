//! The recorded lines, and the refusal of requests that no device records: devices that work, fill
//! up, and fail at any step.

use crate::bed::{Bed, error, probe, request, store_options};
use crate::probe::set_schema;
use crate::uploads::upload;
use bulkhead_audit::{AuditSettings, DeviceSettings};
use bulkhead_core::tables::PluginDescription;
use bulkhead_store::{DataDirectory, Space};
use bulkhead_wire::description::{Route, Verb};
use serde_json::{Value, json};
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) fn folder(name: &str) -> PathBuf {
    let path =
        std::env::temp_dir().join(format!("bulkhead-core-audit-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&path);
    path
}

pub(crate) fn device(name: &str, file: impl Into<PathBuf>) -> DeviceSettings {
    DeviceSettings {
        name: name.to_owned(),
        file: file.into(),
        mode: 0o600,
        log_raw: false,
        hmac_accessor: true,
        elide_list_responses: false,
        sync: false,
    }
}

pub(crate) fn only(device: DeviceSettings) -> AuditSettings {
    AuditSettings { devices: vec![device], api_directory: None }
}

/// A service with the audit log `audit.log` in the folder of the service.
pub(crate) async fn bed(name: &str) -> Bed {
    let path = folder(name);
    let audit = only(device("main", path.join("audit.log")));
    Bed::audited(path, audit).await.unwrap()
}

pub(crate) fn lines(file: &Path) -> Vec<Value> {
    let text = fs::read_to_string(file).unwrap();
    assert!(text.is_empty() || text.ends_with('\n'), "{text}");
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

impl Bed {
    pub(crate) fn lines(&self) -> Vec<Value> {
        lines(&self.directory.join("audit.log"))
    }

    /// The request line and the response line of `path`.
    pub(crate) fn lines_of(&self, path: &str) -> Vec<Value> {
        self.lines().into_iter().filter(|line| line["request"]["path"] == path).collect()
    }

    /// Returns the hash that the device `main` shows in place of `value`.
    pub(crate) async fn hash(&self, value: &str) -> Value {
        let (status, answer) = self.write("sys/audit-hash/main", json!({ "input": value })).await;
        assert_eq!((status, &answer["hash"]), (200, &answer["data"]["hash"]), "{answer}");
        answer["hash"].clone()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn request_and_answer_are_one_line_each() {
    let bed = bed("lines").await;
    assert_eq!(bed.write("probe/lease/ours", json!({ "ttl": 600, "how": "ok" })).await.0, 200);
    let lines = bed.lines_of("probe/lease/ours");
    let [request_line, response_line] = &lines[..] else { panic!("{lines:?}") };
    assert_eq!(
        (&request_line["type"], &response_line["type"]),
        (&json!("request"), &json!("response"))
    );
    assert_eq!(
        (&request_line["request"], &request_line["auth"]),
        (&response_line["request"], &response_line["auth"])
    );
    assert!(
        request_line.get("error").is_none() && request_line.get("response").is_none(),
        "{request_line}"
    );
    let token = bed.hash("root").await;
    let auth = &request_line["auth"];
    assert_eq!(
        (&auth["client_token"], &auth["policies"]),
        (&token, &json!(["root"])),
        "{request_line}"
    );
    assert_eq!(auth["policy_results"]["allowed"], true);
    let request = &request_line["request"];
    assert_eq!(
        (&request["client_token"], &request["client_token_accessor"]),
        (&token, &auth["accessor"])
    );
    let (operation, ok) = (&request["operation"], bed.hash("ok").await);
    assert_eq!(
        (operation, &request["data"]),
        (&json!("update"), &json!({ "ttl": 600, "how": ok }))
    );
    assert_eq!(
        (&request["mount_point"], &request["mount_type"]),
        (&json!("probe/"), &json!("probe"))
    );
    assert_eq!(
        (&request["remote_address"], &request["remote_port"]),
        (&json!("127.0.0.1"), &json!(40_112))
    );
    assert_eq!(request["namespace"], json!({ "id": "root", "path": "" }));
    let response = &response_line["response"];
    assert_eq!(response["mount_accessor"], request["mount_accessor"]);
    let lease = response["secret"]["lease_id"].as_str().unwrap();
    assert!(lease.starts_with("probe/lease/ours/"), "{response_line}");
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn audit_line_names_entity_policies_beside_token_policies() {
    let bed = bed("identity").await;
    bed.reader("mounts", &["sys/mounts"]).await;
    let amy = bed.signed_in("amy").await;
    let entity = format!("identity/entity/id/{}", amy["entity_id"].as_str().unwrap());
    let token = amy["client_token"].as_str().unwrap();
    let recorded = async |verb: Verb, path: &str| {
        bed.call_as(token, verb, path, json!({})).await;
        bed.lines_of(path).last().unwrap()["auth"].clone()
    };
    let own = recorded(Verb::Read, "auth/token/lookup-self").await;
    assert_eq!(own["policies"], json!(["default"]));
    assert_eq!(own.get("identity_policies"), None);
    bed.written(&entity, json!({"policies": ["mounts", "default"]})).await;
    for path in ["sys/mounts", "sys/auth"] {
        let auth = recorded(Verb::Read, path).await;
        assert_eq!(auth["policies"], json!(["default", "mounts"]), "{path}: {auth}");
        assert_eq!(auth["identity_policies"], json!(["default", "mounts"]), "{path}: {auth}");
        assert_eq!(auth["token_policies"], json!(["default"]), "{path}: {auth}");
    }
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn refusal_is_recorded_with_reason_only() {
    let bed = bed("refused").await;
    let policy = json!({ "policy": "path \"probe/note/mine\" { capabilities = [\"read\"] }" });
    bed.write("sys/policies/acl/reader", policy).await;
    let (_, created_token) = bed.write("auth/token/create", json!({ "policies": "reader" })).await;
    let reader = created_token["auth"]["client_token"].as_str().unwrap().to_owned();
    let secret = "swordfish-4711";
    let body = || json!({ "ttl": "soon", "password": secret, "pin": 4711 });
    let cases = [
        ("root", "probe/lease/bad", 400, Value::Null),
        ("root", "nowhere/at/all", 404, Value::Null),
        (&reader, "probe/lease/denied", 403, json!(false)),
        ("bhs.none-of-ours", "probe/lease/strange", 403, Value::Null),
        ("", "probe/lease/nobody", 403, Value::Null),
    ];
    for (token, path, status, allowed) in &cases {
        let (answered, answer) = bed.call_as(token, Verb::Write, path, body()).await;
        assert_eq!(answered, *status, "{path}: {answer}");
        let lines = bed.lines_of(path);
        let [request_line, response] = &lines[..] else { panic!("{path}: {lines:?}") };
        let expected_error = match status {
            // The message repeats a value.
            400 => {
                let hash = bed.hash(error(&answer)).await;
                json!(format!("invalid-request: {}", hash.as_str().unwrap()))
            }
            _ => json!(error(&answer)),
        };
        assert_eq!(
            (&request_line["error"], &response["error"]),
            (&expected_error, &expected_error),
            "{path}: {request_line}"
        );
        let denied = request_line["auth"]["policy_results"]
            .get("allowed")
            .filter(|allowed| **allowed == false);
        assert_eq!(denied.cloned().unwrap_or_default(), *allowed, "{path}: {request_line}");
        assert_eq!(
            request_line["request"].get("client_token").is_some(),
            !token.is_empty(),
            "{path}: {request_line}"
        );
    }
    // Without a table for the fields, names and numbers are hidden too.
    let unknown = bed.lines_of("nowhere/at/all");
    let pin = bed.hash("pin").await;
    let shown = &unknown[0]["request"]["data"][pin.as_str().unwrap()];
    assert_eq!(*shown, bed.hash("4711").await);
    let text = fs::read_to_string(bed.directory.join("audit.log")).unwrap();
    assert!(
        !text.contains(secret) && !text.contains(&reader) && !text.contains("none-of-ours"),
        "{text}"
    );
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn field_values_appear_in_no_error_or_log() {
    let bed = bed("canary").await;
    let canary = "swordfish-4711";
    let ends_this = ["sys/seal", "auth/token/revoke-self"];
    let tables = bed.service.tables().unwrap();
    let of_components = tables.plugins.into_iter().flat_map(|plugin| match plugin.described {
        PluginDescription::Mountable(described) => described.routes,
        PluginDescription::Database(_) => Vec::new(),
    });
    let below_mount = |row: Route| Route { path: format!("probe/{}", row.path), ..row };
    let rows = tables.host.into_iter().chain(of_components.map(below_mount));
    let writes = rows.filter(|row| row.verb == Verb::Write && !row.raw);
    let mut refused = 0;
    for row in writes.filter(|row| !ends_this.contains(&row.path.as_str())) {
        let captured = |part: &str| if part.starts_with('{') { "probe" } else { part }.to_owned();
        let path = row.path.split('/').map(captured).collect::<Vec<_>>().join("/");
        for field in row.fields.iter().filter(|field| !row.path.contains(&field.name)) {
            for value in [json!(canary), json!([canary]), json!({ "max_ttl": canary })] {
                let mut fields = json!({ "type": "probe", "ttl": "1h" });
                fields[&field.name] = value;
                refused += usize::from(bed.write(&path, fields).await.0 == 400);
            }
        }
    }
    assert!(refused > 100, "{refused} refusals");
    bed.write("auth/token/create", json!({ "ttl": "99999h", "unknown": canary })).await;
    let warned = bed.lines_of("auth/token/create").pop().unwrap()["response"]["warnings"].clone();
    assert!(warned[0].as_str().unwrap().starts_with("hmac-sha256:"), "{warned}");
    for line in bed.lines() {
        let members = json!([line["error"], line["response"]["warnings"], line["request"]]);
        assert!(!members.to_string().contains(canary), "{members}");
    }
    assert_silent(&bed, canary);
    bed.end().await;
}

/// Fails where the log tells `canary`.
fn assert_silent(bed: &Bed, canary: &str) {
    let log = bed.log.0.lock().unwrap().clone();
    assert!(!log.iter().any(|line| line.contains(canary)), "{log:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn component_messages_of_failed_due_work_stay_unlogged() {
    let (canary, path) = ("swordfish-4711", folder("due-canary"));
    let bed = Bed::with(path, Vec::new(), AuditSettings::default()).await.unwrap();
    let component = "sys/plugins/catalog/secret/probe";
    assert_eq!(upload(&bed, component, probe().to_vec()).await.0, 204);
    assert_eq!(bed.write("sys/mounts/probe", json!({ "type": "probe" })).await.0, 204);
    let fields = json!({ "candidate": canary, "how": "ok" });
    assert_eq!(bed.write("probe/rotate/told", fields).await.0, 204);
    bed.write("probe/timer/tells", json!({ "after": 0 })).await;
    assert!(bed.line("timer-delayed").await.contains("invalid-request"));
    bed.write("probe/lease/tells", json!({ "ttl": 1 })).await;
    assert!(bed.line("lease-end-delayed").await.contains("invalid-request"));
    let (_, lease) = bed.write("probe/lease/tells", json!({ "ttl": 600 })).await;
    let revoked = json!({ "lease_id": lease["lease_id"], "sync": true });
    let (status, answer) = bed.write("sys/leases/revoke", revoked).await;
    assert!(
        status == 400 && error(&answer).contains(canary),
        "the answer has no failure of the audit: {answer}"
    );
    assert_silent(&bed, canary);
    let directory = bed.stop().await;
    set_schema(&directory, "probe/", 0).await;
    let bed = Bed::with(directory, Vec::new(), AuditSettings::default()).await.unwrap();
    assert!(bed.line("mount-without-plugin").await.contains("invalid-request"));
    let (status, waits) = bed.read("probe/note/told").await;
    assert!(
        status == 503 && error(&waits).contains(canary),
        "the answer has no failure of the audit: {waits}"
    );
    assert_silent(&bed, canary);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn oversized_request_is_recorded_without_body() {
    let bed = bed("large").await;
    let call =
        request("root", Verb::Write, "probe/count/large", json!({ "padding": "x".repeat(64) }));
    let call = bulkhead_wire::request::Request { body_bytes: 3 << 20, ..call };
    assert_eq!(bed.service.handle(call).await.into_bytes().0, 413);
    let lines = bed.lines_of("probe/count/large");
    let recorded_request = &lines[0]["request"];
    assert_eq!((lines.len(), recorded_request.get("data")), (2, None));
    assert_eq!(
        (&recorded_request["body_bytes"], &recorded_request["elided_members"]),
        (&json!(3 << 20), &json!(1))
    );
    bed.end().await;
}

/// Maximum bytes of audit that a request without a trusted sender writes.
const MAX_UNAUTHENTICATED_BYTES: u64 = 8 << 10;

#[tokio::test(flavor = "multi_thread")]
async fn stranger_audit_bytes_are_bounded_by_request_size() {
    let bed = bed("stranger").await;
    for number in 0..20 {
        let config = json!({ "listing_visibility": "unauth" });
        let mount = json!({ "type": "probe", "description": "d".repeat(99), "config": config });
        assert_eq!(bed.write(&format!("sys/mounts/public-{number}"), mount).await.0, 204);
    }
    let policy = json!({ "policy": "path \"probe/note/mine\" { capabilities = [\"read\"] }" });
    bed.write("sys/policies/acl/narrow", policy).await;
    let (_, answer) = bed.write("auth/token/create", json!({ "policies": "narrow" })).await;
    let narrow = answer["auth"]["client_token"].as_str().unwrap();
    let (zeros, texts) = (json!(vec![0; 8_000]), json!(vec![""; 8_000]));
    let deep = json!({ "a": vec![json!({ "": 0 }); 4_000] });
    let members: Value = (0..4_000).map(|n| (n.to_string(), json!(""))).collect();
    let mut wide = json!({ "a": 0 });
    wide["generic_mount_paths"] = zeros.clone();
    let specs = "sys/internal/specs/openapi";
    let names = format!("x/{}", "bhs./".repeat(4_000));
    let tokens = format!("auth/token/{}x", "a/".repeat(8_000));
    let long = format!("x/{}", "\u{20ac}\"".repeat(4_000));
    let cases = [
        ("", Verb::Write, "nowhere", json!({ "a": zeros })),
        ("", Verb::Read, "nowhere", json!({ "a": texts })),
        ("", Verb::Write, "probe/note/x", deep),
        (narrow, Verb::Write, "probe/note/x", json!({ "a": texts })),
        (narrow, Verb::Write, "nowhere", members.clone()),
        ("wrong", Verb::Write, specs, members),
        ("", Verb::Write, specs, wide.clone()),
        ("root", Verb::Write, specs, wide),
        ("", Verb::Read, "sys/internal/ui/mounts", json!({ "a": texts })),
        ("", Verb::Read, &names[..names.len() - 1], json!({})),
        ("", Verb::Read, &tokens, json!({})),
        (narrow, Verb::Read, &long, json!({})),
    ];
    let file = bed.directory.join("audit.log");
    let size = || fs::metadata(&file).unwrap().len();
    for (token, verb, path, fields) in cases {
        let sent = u64::try_from(path.len() + fields.to_string().len()).unwrap();
        let (before, shown) = (size(), path.get(..40).unwrap_or(path).to_owned());
        let mut call = request(token, verb, path, fields);
        call.body_bytes = sent - u64::try_from(path.len()).unwrap();
        bed.service.handle(call).await;
        let written = size() - before;
        let most = MAX_UNAUTHENTICATED_BYTES.min(4 * sent.max(1 << 10));
        assert!(written > 0 && written <= most, "{shown}: {written} bytes for {sent}");
        let line = bed.lines().pop().unwrap();
        let request = &line["request"];
        let digest_keys = ["elided_members", "elided_path_bytes", "digested", "unknown_fields"];
        assert!(digest_keys.iter().any(|key| request.get(key).is_some()), "{shown}: {line}");
    }
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn oversized_or_mistyped_body_enters_no_open_endpoint() {
    let bed = bed("open").await;
    let path = "sys/internal/specs/openapi";
    let mut large = request("", Verb::Write, path, json!({ "generic_mount_paths": true }));
    large.body_bytes = 2 << 20;
    let wrong = request("", Verb::Write, path, json!({ "generic_mount_paths": [1] }));
    for (call, status) in [(large, 413), (wrong, 400)] {
        assert_eq!(bed.service.handle(call).await.into_bytes().0, status);
        let line = bed.lines_of(path).into_iter().rev().nth(1).unwrap();
        assert!(line.get("error").is_some(), "the line of a refused request has the error: {line}");
    }
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn token_in_path_is_hashed_and_not_repeated() {
    let bed = bed("path").await;
    assert_eq!(bed.read("auth/token/lookup-me/bhs.swordfish").await.0, 404);
    let shown =
        format!("auth/token/lookup-me/{}", bed.hash("bhs.swordfish").await.as_str().unwrap());
    assert_eq!(bed.lines_of(&shown).len(), 2);
    let text = fs::read_to_string(bed.directory.join("audit.log")).unwrap();
    assert!(!text.contains("swordfish"), "{text}");
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn issued_token_is_hashed_in_answer_line() {
    let bed = bed("token").await;
    let (_, answer) = bed
        .write("auth/token/create", json!({ "policies": "default", "meta": { "team": "ops" } }))
        .await;
    let auth = &bed.lines_of("auth/token/create")[1]["response"]["auth"];
    let hash = bed.hash(answer["auth"]["client_token"].as_str().unwrap()).await;
    assert_eq!((&auth["client_token"], &auth["policies"]), (&hash, &json!(["default"])), "{auth}");
    assert_eq!(auth["accessor"], bed.hash(answer["auth"]["accessor"].as_str().unwrap()).await);
    assert_eq!(auth["metadata"], json!({ "team": "ops" }));
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn raw_device_shows_data_without_tokens_and_secrets() {
    let path = folder("raw");
    let raw = DeviceSettings {
        log_raw: true,
        hmac_accessor: false,
        ..device("main", path.join("audit.log"))
    };
    let bed = Bed::audited(path, only(raw)).await.unwrap();
    let (_, answer) = bed.write("auth/token/create", json!({ "display_name": "in clear" })).await;
    let token = answer["auth"]["client_token"].as_str().unwrap();
    bed.write("auth/token/lookup", json!({ "token": token })).await;
    let lines = bed.lines_of("auth/token/create");
    assert_eq!(lines[0]["request"]["data"]["display_name"], "in clear");
    assert_eq!(lines[1]["response"]["auth"]["accessor"], answer["auth"]["accessor"]);
    assert_eq!(
        bed.lines_of("auth/token/lookup")[0]["request"]["data"]["token"],
        bed.hash(token).await
    );
    let lookup = &bed.lines_of("auth/token/lookup")[1]["response"]["data"]["display_name"];
    assert_eq!(lookup, "token-in-clear");
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn eliding_device_records_listing_length_only() {
    let path = folder("elide");
    let eliding =
        DeviceSettings { elide_list_responses: true, ..device("main", path.join("audit.log")) };
    let bed = Bed::audited(path, only(eliding)).await.unwrap();
    assert_eq!(bed.call(Verb::List, "sys/policies/acl", json!({})).await.0, 200);
    assert_eq!(bed.lines_of("sys/policies/acl")[1]["response"]["data"]["keys"], 2);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_runs_again_is_recorded_once() {
    let bed = Arc::new(bed("again").await);
    let racing: Vec<_> = (0..8)
        .map(|_| {
            let bed = Arc::clone(&bed);
            tokio::spawn(async move {
                for _ in 0..10 {
                    bed.write("probe/count/race", json!({})).await;
                }
            })
        })
        .collect();
    for racer in racing {
        racer.await.unwrap();
    }
    let lines = bed.lines_of("probe/count/race");
    let requests = lines.iter().filter(|line| line["type"] == "request").count();
    assert_eq!((requests, lines.len()), (80, 160));
    Arc::into_inner(bed).unwrap().end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_audit_devices_block_requests_except_status() {
    let path = folder("full");
    let bed = Bed::audited(path.clone(), only(device("main", "/dev/full"))).await.unwrap();
    for _ in 0..3 {
        let (status, answer) = bed.write("probe/count/unseen", json!({})).await;
        let message = error(&answer);
        assert!(
            status == 500
                && message.starts_with("internal error: no audit device can be written")
                && message.contains("was not executed")
                && !message.contains("/dev/full"),
            "{answer}"
        );
    }
    assert_eq!(
        bed.call_as("wrong", Verb::Read, "probe/note/x", json!({})).await.0,
        500,
        "a refusal is an answer, too"
    );
    let (status, health) = bed.read("sys/health").await;
    assert_eq!((status, &health["writes"]), (500, &json!(false)));
    assert_eq!(health["degraded"][0]["code"], "audit-stopped", "{health}");
    assert_eq!(bed.read("sys/seal-status").await.0, 200);
    assert_eq!(
        bed.log.0.lock().unwrap().iter().filter(|line| line.contains("audit-failed")).count(),
        1
    );
    bed.stop().await;
    let bed = Bed::open(path).await;
    assert_eq!(
        bed.read("probe/note/unseen").await.0,
        404,
        "an unrecorded request never reaches the component"
    );
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn operator_can_seal_with_full_audit_disk() {
    let bed = Bed::audited(folder("seal"), only(device("main", "/dev/full"))).await.unwrap();
    assert_eq!(bed.call_as("wrong", Verb::Write, "sys/seal", json!({})).await.0, 500);
    assert_eq!(bed.read("sys/seal-status").await.1["sealed"], false);
    assert_eq!(bed.write("sys/seal", json!({})).await.0, 204);
    assert_eq!(bed.read("sys/seal-status").await.1["sealed"], true);
    let line = bed.line("request-not-audited").await;
    assert!(line.contains("sys/seal") && line.contains("127.0.0.1"), "{line}");
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_device_that_records_is_enough() {
    let path = folder("two");
    let devices = vec![device("full", "/dev/full"), device("main", path.join("audit.log"))];
    let bed = Bed::audited(path, AuditSettings { devices, api_directory: None }).await.unwrap();
    assert_eq!(bed.write("probe/count/seen", json!({})).await.0, 204);
    assert_eq!(bed.lines_of("probe/count/seen").len(), 2);
    let hash = bed.write("sys/audit-hash/full", json!({ "input": "x" })).await.1["hash"].clone();
    assert_ne!(hash, bed.hash("x").await, "each device has its own hashes");
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failing_device_degrades_health_until_it_records() {
    let path = folder("degraded");
    fs::create_dir_all(&path).unwrap();
    let failing = path.join("failing.log");
    std::os::unix::fs::symlink("/dev/full", &failing).unwrap();
    let main = device("main", path.join("audit.log"));
    let devices = vec![device("failing", failing.clone()), main];
    let bed = Bed::audited(path, AuditSettings { devices, api_directory: None }).await.unwrap();
    let (status, health) = bed.read("sys/health").await;
    assert_eq!((status, &health["degraded"]), (200, &Value::Null), "{health}");
    assert_eq!(bed.write("probe/count/degraded", json!({})).await.0, 204);
    let line = bed.line("warn health-degraded").await;
    assert!(line.contains("audit-device-failing"), "before any request for the health: {line}");
    for _ in 0..3 {
        let (status, health) = bed.read("sys/health").await;
        assert_eq!((status, &health["writes"]), (200, &json!(true)));
        let [condition] = &health["degraded"].as_array().unwrap()[..] else { panic!("{health}") };
        assert_eq!(condition["code"], "audit-device-failing");
        let message = condition["message"].as_str().unwrap();
        assert!(message.starts_with("1 of 2 ") && !message.contains('/'), "{message}");
    }
    let metrics = bed.read("sys/metrics").await.1.to_string();
    assert!(metrics.contains("bulkhead_health_degraded"), "{metrics}");
    fs::remove_file(&failing).unwrap();
    bed.service.reopen_audit().await;
    assert_eq!(bed.write("probe/count/restored", json!({})).await.0, 204);
    bed.line("info health-restored").await;
    assert_eq!(bed.read("sys/health").await.1["degraded"], Value::Null);
    let count =
        |event: &str| bed.log.0.lock().unwrap().iter().filter(|line| line.contains(event)).count();
    assert_eq!((count("health-degraded"), count("health-restored")), (1, 1));
    bed.end().await;
}

/// A device on a pipe. The test reads the pipe or lets the pipe fill up.
struct Pipe {
    path: PathBuf,
    reader: Option<File>,
}

/// Capacity of a pipe, and size of an atomic write, in bytes.
const CAPACITY: usize = 65_536;
const PIECE: usize = 4_096;

impl Pipe {
    fn new(directory: &Path) -> Self {
        fs::create_dir_all(directory).unwrap();
        let path = directory.join("pipe");
        let status = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(status.success());
        let mut pipe = Self { path, reader: None };
        pipe.open();
        pipe
    }

    fn open(&mut self) {
        let non_blocking = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap();
        self.reader = Some(
            OpenOptions::new().read(true).custom_flags(non_blocking).open(&self.path).unwrap(),
        );
    }

    /// Takes the bytes out of the pipe.
    fn read(&mut self) -> Vec<Value> {
        let (mut text, mut piece) = (Vec::new(), [0; PIECE]);
        while let Ok(length @ 1..) = self.reader.as_ref().unwrap().read(&mut piece) {
            text.extend_from_slice(&piece[..length]);
        }
        let lines = text.split(|byte| *byte == b'\n').filter(|line| line.starts_with(b"{"));
        lines.map(|line| serde_json::from_slice(line).unwrap()).collect()
    }

    /// Leaves room for so many bytes, and no more.
    fn fill_up_to(&self, room: usize) {
        let mut writer = OpenOptions::new().write(true).open(&self.path).unwrap();
        for _ in 1..CAPACITY / PIECE {
            writer.write_all(&[b'\n'; PIECE]).unwrap();
        }
        writer.write_all(&vec![b'\n'; PIECE - room]).unwrap();
    }
}

/// A service with a pipe as the audit log. Returns the length of the request line of `path`.
async fn piped(name: &str, path: &str, fields: Value) -> (Bed, Pipe, usize) {
    let directory = folder(name);
    let mut pipe = Pipe::new(&directory);
    let bed = Bed::audited(directory.join("data"), only(device("main", &pipe.path))).await.unwrap();
    let (status, answer) = bed.write(path, fields).await;
    assert_eq!(status, 200, "{answer}");
    let lines = pipe.read();
    assert_eq!(lines.len(), 2, "{lines:?}");
    (bed, pipe, lines[0].to_string().len() + 1)
}

/// Requests `path` on a device with space for the request line only.
async fn unanswered(bed: &Bed, pipe: &mut Pipe, length: usize, path: &str, fields: Value) {
    // The time may be a digit or two longer.
    pipe.fill_up_to(length + 8);
    let (status, answer) = bed.write(path, fields).await;
    assert!(status == 500 && error(&answer).contains("the answer is withheld"), "{answer}");
    let lines = pipe.read();
    assert_eq!((lines.len(), &lines[0]["request"]["path"]), (1, &json!(path)), "{lines:?}");
}

async fn end(bed: Bed) {
    let data = bed.stop().await;
    fs::remove_dir_all(data.parent().unwrap()).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn lease_of_unrecorded_answer_is_revoked() {
    let fields = || json!({ "ttl": 600 });
    let (bed, mut pipe, length) = piped("lease", "probe/lease/kept", fields()).await;
    unanswered(&bed, &mut pipe, length, "probe/lease/lost", fields()).await;
    bed.line("audit-failed").await;
    let ended = bed.line("lease-ended").await;
    assert!(ended.contains("probe/lease/lost") && ended.contains("undo"), "{ended}");
    assert_eq!(bed.noted("lost").await, "Undo");
    assert_eq!(bed.read("probe/note/kept").await.0, 404, "the other one lives");
    bed.line("audit-recovered").await;
    let log = bed.log.0.lock().unwrap().join("\n");
    assert_eq!(
        (log.matches("audit-failed").count(), log.matches("audit-recovered").count()),
        (1, 1),
        "{log}"
    );
    end(bed).await;
}

/// Tokens in a closed store.
async fn tokens_in(directory: &Path) -> u32 {
    let data_directory = DataDirectory::hold(store_options(directory)).await.unwrap();
    let store =
        data_directory.open(bulkhead_store::dev_key(&data_directory).unwrap()).await.unwrap();
    let count = store.count(Space::Token, "", 99).await.unwrap();
    store.close().await;
    count
}

#[tokio::test(flavor = "multi_thread")]
async fn undelivered_token_is_ended_and_renewed_token_kept() {
    let fields = || json!({ "policies": "default", "ttl": "1h" });
    let (bed, mut pipe, length) = piped("token-lost", "auth/token/create", fields()).await;
    unanswered(&bed, &mut pipe, length, "auth/token/create", fields()).await;
    let (_, answer) = bed.write("auth/token/create", fields()).await;
    let token = json!({ "token": answer["auth"]["client_token"] });
    pipe.read();
    let renewal = || json!({ "token": answer["auth"]["client_token"], "increment": "1h" });
    assert_eq!(bed.write("auth/token/renew", renewal()).await.0, 200);
    let length = pipe.read()[0].to_string().len() + 1;
    unanswered(&bed, &mut pipe, length, "auth/token/renew", renewal()).await;
    assert_eq!(bed.write("auth/token/lookup", token).await.0, 200);
    let data = bed.stop().await;
    // The next service has no pipe to read. Work due at once has ended before work due in a second.
    let bed = Bed::open(data).await;
    assert_eq!(bed.write("probe/lease/short", json!({ "ttl": 1 })).await.0, 200);
    assert_eq!(bed.noted("short").await, "Expired");
    let data = bed.stop().await;
    assert_eq!(tokens_in(&data).await, 3, "the one before, the one after, and root");
    fs::remove_dir_all(data.parent().unwrap()).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn departed_pipe_reader_stops_service_until_return() {
    let (bed, mut pipe, _) = piped("reader", "probe/lease/a", json!({ "ttl": 600 })).await;
    pipe.reader = None;
    assert_eq!(bed.write("probe/count/unseen", json!({})).await.0, 500);
    pipe.open();
    assert_eq!(bed.read("probe/note/unseen").await.0, 404);
    assert_eq!(bed.write("probe/count/seen", json!({})).await.0, 204);
    bed.line("audit-recovered").await;
    end(bed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_flushed_lines_are_all_recorded() {
    let path = folder("sync");
    let sync = DeviceSettings { sync: true, ..device("main", path.join("audit.log")) };
    let bed = Arc::new(Bed::audited(path, only(sync)).await.unwrap());
    let racing: Vec<_> = (0..16)
        .map(|number| {
            let bed = Arc::clone(&bed);
            tokio::spawn(
                async move { bed.write(&format!("probe/count/n{number}"), json!({})).await.0 },
            )
        })
        .collect();
    for racer in racing {
        assert_eq!(racer.await.unwrap(), 204);
    }
    assert_eq!(bed.lines().len(), 32);
    Arc::into_inner(bed).unwrap().end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn moved_file_is_released_on_audit_reopen() {
    let bed = bed("moved").await;
    let (log, old) = (bed.directory.join("audit.log"), bed.directory.join("audit.log.1"));
    bed.read("sys/mounts").await;
    fs::rename(&log, &old).unwrap();
    bed.read("sys/mounts").await;
    bed.service.reopen_audit().await;
    bed.read("sys/mounts").await;
    assert_eq!((lines(&old).len(), lines(&log).len()), (4, 2));
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unusable_device_prevents_service_start() {
    let path = folder("start");
    let refused = async |device: DeviceSettings| {
        Bed::audited(path.clone(), only(device)).await.err().unwrap().message
    };
    let nowhere = refused(device("main", path.join("nowhere/audit.log"))).await;
    assert!(
        nowhere.contains("\"main\"") && nowhere.contains("nowhere/audit.log cannot be opened"),
        "{nowhere}"
    );
    let executable =
        refused(DeviceSettings { mode: 0o755, ..device("main", path.join("audit.log")) }).await;
    assert!(executable.contains("\"0755\" lets the file be executed"), "{executable}");
    let unnamed = refused(device("a/b", path.join("audit.log"))).await;
    assert!(unnamed.contains("is not a name of a device"), "{unnamed}");
    let devices = vec![device("main", path.join("a.log")), device("main", path.join("b.log"))];
    let twice = Bed::audited(path.clone(), AuditSettings { devices, api_directory: None })
        .await
        .err()
        .unwrap();
    assert!(twice.message.contains("is given twice"), "{twice}");
    fs::remove_dir_all(path).unwrap();
}

/// A service with an audit directory `api` in the data folder.
fn api(path: &Path) -> AuditSettings {
    AuditSettings {
        api_directory: Some(path.join("api")),
        ..only(device("main", path.join("audit.log")))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn api_creates_keeps_and_removes_device() {
    let path = folder("api");
    let bed = Bed::audited(path.clone(), api(&path)).await.unwrap();
    let options = json!({ "file_path": "second.log", "log_raw": "true" });
    let fields = json!({ "type": "file", "description": "for the auditors", "options": options });
    assert_eq!(bed.write("sys/audit/second", fields.clone()).await.0, 204);
    assert_eq!(bed.write("sys/audit/second", fields).await.0, 400, "the path is taken");
    let (_, answer) = bed.read("sys/audit").await;
    assert_eq!(answer["second/"], answer["data"]["second/"]);
    let second = json!({
        "type": "file", "description": "for the auditors", "options": options, "local": false,
        "path": "second/",
    });
    assert_eq!(answer["second/"], second);
    let proof = &lines(&path.join("api/second.log"))[0];
    assert_eq!(proof["request"]["path"], "sys/audit/test");
    bed.stop().await;

    let bed = Bed::audited(path.clone(), api(&path)).await.unwrap();
    bed.read("sys/mounts").await;
    let both = || (lines(&path.join("audit.log")).len(), lines(&path.join("api/second.log")).len());
    let (_, before) = both();
    let last = lines(&path.join("api/second.log")).pop().unwrap();
    assert_eq!(last["request"]["path"], "sys/mounts", "it is opened again at each start");
    assert_eq!(bed.call(Verb::Delete, "sys/audit/second", json!({})).await.0, 204);
    assert_eq!(bed.call(Verb::Delete, "sys/audit/second", json!({})).await.0, 204);
    bed.read("sys/mounts").await;
    assert_eq!(both().1, before + 2, "the removal is the last thing that it records");
    let (status, refused) = bed.call(Verb::Delete, "sys/audit/main", json!({})).await;
    assert_eq!(status, 400);
    assert!(error(&refused).contains("declared in the configuration"), "{refused}");
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn service_without_device_warns_at_start_and_removal() {
    let path = folder("none");
    let nothing_declared =
        AuditSettings { api_directory: Some(path.join("api")), devices: Vec::new() };
    let warning_count = |bed: &Bed| {
        let lines = bed.log.0.lock().unwrap();
        lines.iter().filter(|line| line.starts_with("warn audit-without-device")).count()
    };
    for _ in 0..2 {
        let bed = Bed::audited(path.clone(), nothing_declared.clone()).await.unwrap();
        assert_eq!((warning_count(&bed), bed.read("sys/health").await.0), (1, 200));
        bed.stop().await;
    }
    let bed = Bed::audited(path.clone(), nothing_declared.clone()).await.unwrap();
    let fields = json!({ "type": "file", "options": { "file_path": "only.log" } });
    assert_eq!(bed.write("sys/audit/only", fields).await.0, 204);
    bed.stop().await;
    let bed = Bed::audited(path, nothing_declared).await.unwrap();
    assert_eq!(warning_count(&bed), 0);
    assert_eq!(bed.call(Verb::Delete, "sys/audit/only", json!({})).await.0, 204);
    assert_eq!(warning_count(&bed), 1);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn api_refuses_device_at_forbidden_place() {
    let path = folder("not");
    let bed = Bed::audited(path.clone(), api(&path)).await.unwrap();
    let file = |file: &str| json!({ "type": "file", "options": { "file_path": file } });
    fs::create_dir(path.join("api")).unwrap();
    symlink(path.join("victim"), path.join("api/link")).unwrap();
    let refusals = [
        (file("/etc/cron.d/x"), "directly in"),
        (file("../bulkhead.db"), "directly in"),
        (file("link"), "cannot be written to"),
        (json!({ "type": "syslog", "options": {} }), "are not supported; use file"),
        (
            json!({ "type": "file", "options": { "file_path": "a", "prefix": "#!/bin/sh" } }),
            "prefix",
        ),
        (
            json!({ "type": "file", "options": { "file_path": "a", "mode": "0755" } }),
            "never executed",
        ),
        (json!({ "type": "file" }), "file_path is required"),
        (json!({ "options": { "file_path": "a" } }), "type is required"),
    ];
    for (fields, why) in refusals {
        let (status, refused) = bed.write("sys/audit/x", fields.clone()).await;
        assert!(status == 400 && error(&refused).contains(why), "{fields}: {refused}");
    }
    assert!(!path.join("victim").exists());
    assert_eq!(bed.read("sys/audit").await.1["data"].as_object().unwrap().len(), 1);
    bed.stop().await;
    let bed =
        Bed::audited(path.clone(), only(device("main", path.join("audit.log")))).await.unwrap();
    let (status, refused) = bed.write("sys/audit/x", file("a.log")).await;
    assert!(status == 400 && error(&refused).contains("allow_api_audit"), "{refused}");
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unopenable_api_device_stops_service_until_repair() {
    let path = folder("shut");
    let nothing_declared =
        AuditSettings { api_directory: Some(path.join("api")), devices: Vec::new() };
    let bed = Bed::audited(path.clone(), nothing_declared.clone()).await.unwrap();
    let fields = json!({ "type": "file", "options": { "file_path": "only.log" } });
    assert_eq!(bed.write("sys/audit/only", fields).await.0, 204);
    bed.stop().await;
    fs::remove_file(path.join("api/only.log")).unwrap();
    fs::create_dir(path.join("api/only.log")).unwrap();

    let bed = Bed::audited(path.clone(), nothing_declared.clone()).await.unwrap();
    assert_eq!(bed.read("sys/health").await.0, 500, "known before the first request");
    assert_eq!(bed.read("sys/mounts").await.0, 500);
    bed.line("audit-not-opened").await;
    fs::remove_dir(path.join("api/only.log")).unwrap();
    while bed.read("sys/health").await.0 != 200 {
        tokio::task::yield_now().await;
    }
    assert_eq!(
        bed.read("sys/mounts").await.0,
        200,
        "requests are served again once the device works"
    );
    bed.stop().await;

    let bed = Bed::audited(path.clone(), AuditSettings::default()).await.unwrap();
    assert_eq!(
        bed.read("sys/mounts").await.0,
        500,
        "the API lost its directory, and the audit is not left out"
    );
    bed.stop().await;
    let bed =
        Bed::audited(path.clone(), only(device("main", path.join("audit.log")))).await.unwrap();
    assert_eq!(bed.call(Verb::Delete, "sys/audit/only", json!({})).await.0, 204);
    bed.stop().await;
    let bed = Bed::open(path).await;
    assert_eq!(bed.read("sys/mounts").await.0, 200);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn audit_hash_survives_restart_and_key_rotation() {
    let bed = bed("hash").await;
    let before = bed.hash("needle").await;
    bed.write("sys/rotate", json!({})).await;
    assert_eq!(bed.hash("needle").await, before);
    let path = bed.stop().await;
    let bed =
        Bed::audited(path.clone(), only(device("main", path.join("audit.log")))).await.unwrap();
    assert_eq!(bed.hash("needle").await, before);
    assert_eq!(bed.write("sys/audit-hash/none", json!({ "input": "x" })).await.0, 400);
    assert_eq!(bed.write("sys/audit-hash/main", json!({})).await.0, 400);
    bed.end().await;
}
