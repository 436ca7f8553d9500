//! Tests of `writer.rs`.

use super::super::device::{DeviceOrigin, DeviceParts};
use super::super::file::AuditTarget;
use super::super::hashing::HashingKey;
use super::super::settings::AuditSettings;
use super::*;
use bulkhead_access::log::Log;
use bulkhead_wire::description::{Field, FieldKind, Route, Verb};
use bulkhead_wire::log_level::LogLevel;
use bulkhead_wire::name::MountPath;
use bulkhead_wire::request::{MetricsTerms, RawBody, ReceivedFile, Request};
use bulkhead_wire::route::RouteTable;
use std::path::Path;
use std::sync::Arc;

struct Nobody;

impl Log for Nobody {
    fn line(&self, _: LogLevel, _: &str, _: &[(&str, String)]) {}
}

fn device() -> Arc<AuditDevice> {
    let settings = AuditSettings::for_dev_mode(Path::new("/nonexistent")).devices.pop().unwrap();
    let (place, origin) = (AuditTarget::Nowhere(String::new()), DeviceOrigin::Configuration);
    let log: Arc<dyn Log> = Arc::new(Nobody);
    AuditDevice::new(
        DeviceParts {
            settings,
            place,
            origin,
            hashing: HashingKey::new(b"key"),
            changes: Arc::default(),
        },
        &log,
    )
}

fn hash(text: &str) -> String {
    HashingKey::new(b"key").hash(text)
}

/// Returns a table that marks the capture of `pattern` secret.
fn table(pattern: &str) -> RouteTable {
    let fields = vec![Field::new("token", FieldKind::String, "").secret()];
    RouteTable::new(vec![Route { fields, ..Route::new(Verb::Read, pattern, "") }]).unwrap()
}

/// Calls `use_mount` with a mount that shows the member `shown` of requests.
fn with_mount<T>(use_mount: impl FnOnce(AuditedMount<'_>) -> T) -> T {
    let (path, shown) = (MountPath::new("database/").unwrap(), ["shown".to_owned()]);
    use_mount(AuditedMount {
        path: &path,
        kind: "database",
        accessor: "database_1",
        version: "1.0.0",
        digest: "",
        shown_of_requests: &shown,
        shown_of_responses: &[],
    })
}

fn request(path: &str) -> Request {
    Request {
        id: "5e1c".to_owned(),
        verb: Verb::Read,
        path: path.to_owned(),
        token: None,
        fields: Map::new(),
        raw: None,
        file: None,
        body_bytes: 0,
        is_unread: false,
        refusal: None,
        audited_headers: Vec::new(),
        wrap_ttl: None,
        remote: "192.0.2.1".parse().unwrap(),
        remote_port: 1,
        metrics: MetricsTerms::default(),
        trace_parent: None,
        required_states: Vec::new(),
    }
}

/// Returns the output of `write` for a request for `path`, with its last part captured as a token.
fn written(
    path: &str,
    captured: &str,
    write: impl Fn(&AuditLineWriter<'_>, &mut Vec<u8>),
) -> Value {
    written_of(&request(path), captured, write)
}

fn written_of(
    request: &Request,
    captured: &str,
    write: impl Fn(&AuditLineWriter<'_>, &mut Vec<u8>),
) -> Value {
    let (device, table) = (device(), table("x/{token+}"));
    let captures = Some(captured).filter(|text| !text.is_empty());
    let captures: Vec<_> =
        captures.map(|text| ("token".to_owned(), text.to_owned())).into_iter().collect();
    let mut out = Vec::new();
    with_mount(|mount| {
        let route = RouteDescription {
            table: &table,
            route: None,
            captures: &captures,
            mount,
            keeps_any_name: false,
        };
        let subject = AuditSubject {
            request,
            hidden_segments: &[],
            operation: Operation::Read,
            caller: None,
            component_caller: None,
            identity_policies: &[],
            route: Some(route),
            verdict: None,
            is_refused: false,
            is_public: false,
            now: 0,
        };
        write(&AuditLineWriter { device: &device, subject: &subject }, &mut out);
    });
    serde_json::from_slice(&out).unwrap()
}

fn answered(response: &Response) -> Value {
    written("x/y", "y", |writer, out| writer.response(response, b"", out))
}

#[test]
fn secret_in_path_is_hashed_in_own_segments() {
    let path = |path: &str, captured: &str| {
        let write = |writer: &AuditLineWriter<'_>, out: &mut Vec<u8>| {
            writer.request((b"", b""), out);
        };
        written(path, captured, write)["path"].clone()
    };
    assert_eq!(path("x/p4ss", "p4ss"), format!("x/{}", hash("p4ss")));
    assert_eq!(path("x/x4", "x4"), format!("x/{}", hash("x4")));
    assert_eq!(path("a/b/a/b", "a/b"), format!("a/b/{}", hash("a/b")));
    assert_eq!(
        path("y/bhs.0123/bhb.4/bhr.5/z", ""),
        format!("y/{}/{}/{}/z", hash("bhs.0123"), hash("bhb.4"), hash("bhr.5"))
    );
    assert_eq!(path("y/z", ""), "y/z");
}

#[test]
fn raw_answers_record_length_and_type_only() {
    let body =
        ResponseBody::Raw { content_type: "text/plain".to_owned(), bytes: b"hunter2".to_vec() };
    let raw = answered(&Response::new(203, body));
    assert_eq!(
        raw,
        json!({ "data": { "content_type": "text/plain", "length": 7, "status": 203 } })
    );
    assert_eq!(answered(&Response::bare(200, json!({ "paths": "hunter2" }))), json!({}));
    assert_eq!(answered(&Response::no_content()), json!({}));
}

#[test]
fn raw_body_records_length_beside_fields() {
    let fields = json!({ "version": "1.0.0" }).as_object().unwrap().clone();
    let raw = Some(RawBody::new(b"hunter2".to_vec()));
    let sent = Request { fields, raw, body_bytes: 7, ..request("sys/plugins/catalog/secret/x") };
    let line = written_of(&sent, "", |writer, out| {
        writer.request((b"", b""), out);
    });
    let data = json!({ hash("version"): hash("1.0.0") });
    assert_eq!((&line["body_bytes"], &line["data"]), (&json!(7), &data));
    assert!(!line.to_string().contains("hunter2"), "{line}");
    let file = Some(ReceivedFile::new("hunter2".into(), Arc::new(())));
    let sent = Request { file, body_bytes: 9, ..request("sys/storage/snapshot") };
    let line = written_of(&sent, "", |writer, out| {
        writer.request((b"", b""), out);
    });
    assert!(line["body_bytes"] == 9 && !line.to_string().contains("hunter2"), "{line}");
    let line = written("x/y", "", |writer, out| {
        writer.request((b"", b""), out);
    });
    assert_eq!(line.get("body_bytes"), None, "{line}");
}

#[test]
fn a_wrapping_token_is_hidden_with_its_accessor() {
    let wrap_info = json!({
        "token": "bhs.0123", "accessor": "acc", "ttl": 60, "creation_time": "2026-11-21T17:33:56Z",
        "creation_path": "sys/wrapping/wrap", "wrapped_accessor": "other",
    });
    let envelope = Envelope { wrap_info: Some(wrap_info), ..Envelope::default() };
    let body = ResponseBody::Envelope(Box::new(envelope));
    let seen = json!({
        "token": hash("bhs.0123"), "accessor": hash("acc"), "ttl": 60,
        "creation_time": "2026-11-21T17:33:56Z",
        "creation_path": "sys/wrapping/wrap", "wrapped_accessor": hash("other"),
    });
    assert_eq!(answered(&Response::new(200, body)), json!({ "wrap_info": seen }));
}

#[test]
fn error_possibly_repeating_path_secret_is_not_shown() {
    let end = |path: &str| {
        written(path, "", |writer, out| {
            out.extend_from_slice(b"{\"a\":1");
            let refusal = RefusalReason { shown: "it is here".to_owned(), hashed: String::new() };
            writer.end(&refusal, out);
        })["error"]
            .clone()
    };
    assert_eq!(end("x/y"), "it is here");
    assert!(end("x/bhs.0123").as_str().unwrap().starts_with("not shown"));
}
