//! What stands in a line: who asks, what is asked, what was answered.
//!
//! The attack this file stops: a token in a place that is not data. Tokens and accessors are hashed
//! wherever they stand, in a path and in what was handed out, too, whatever the device shows; no
//! header is written.

use super::device::Device;
use super::json::{self, Object};
use super::line::{Described, Subject, Verdict, time};
use super::redaction::Redaction;
use crate::mounts::MountRecord;
use crate::tokens::Caller;
use bulkhead_wire::description::Operation;
use bulkhead_wire::envelope::{Auth, Envelope};
use bulkhead_wire::response::{Body, Response};
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::ops::Range;

/// Of a refused request, whose sender may be anybody, more than so many bytes of body are told by
/// their number only.
const MOST_OF_THE_REFUSED: u64 = 64 << 10;
/// How tokens of ours begin (decision P16).
const TOKENS: [&str; 3] = ["bhs.", "bhb.", "bhr."];

/// One device's manner of writing one request.
pub(super) struct Writer<'a> {
    pub(super) device: &'a Device,
    pub(super) subject: &'a Subject<'a>,
}

/// The token that was sent and its accessor, as they are written.
pub(super) type Credential<'a> = (&'a [u8], &'a [u8]);

impl Writer<'_> {
    /// Who asks, as far as a token of ours tells.
    pub(super) fn caller(
        &self,
        caller: &Caller,
        (token, accessor): Credential<'_>,
        out: &mut Vec<u8>,
    ) {
        let record = &caller.record;
        let mut auth = Object::begin(out);
        auth.json("client_token", token);
        auth.json("accessor", accessor);
        auth.member("display_name", &record.display_name);
        auth.member("policies", &record.policies);
        auth.member("token_policies", &record.policies);
        if let Some(verdict) = self.subject.verdict {
            results(verdict, auth.key("policy_results"));
        }
        if !record.meta.is_empty() {
            auth.member("metadata", &record.meta);
        }
        if !record.entity_id.is_empty() {
            auth.member("entity_id", &record.entity_id);
        }
        if let Some(left) = record.uses_left {
            auth.member("remaining_uses", &left);
        }
        auth.member("token_type", caller.kind.word());
        auth.member("token_ttl", &record.creation_ttl);
        auth.member("token_issue_time", &time(record.issued.saturating_mul(1000)));
        auth.end();
    }

    /// What is asked. Returns where the members are that tell the mount.
    pub(super) fn request(
        &self,
        (token, accessor): Credential<'_>,
        out: &mut Vec<u8>,
    ) -> Range<usize> {
        let Subject { request, operation, .. } = self.subject;
        let mut object = Object::begin(out);
        object.member("id", &request.id);
        object.member("operation", operation.word());
        // Behind the comma.
        let begin = object.written() + 1;
        if let Some(route) = &self.subject.route {
            mount(route, &mut object);
        }
        let mount = begin..object.written();
        for (name, credential) in [("client_token", token), ("client_token_accessor", accessor)] {
            if !credential.is_empty() {
                object.json(name, credential);
            }
        }
        object.json("namespace", br#"{"id":"root","path":""}"#);
        object.member("path", &self.path());
        let has_fields = request.raw.is_none();
        if self.subject.is_refused && has_fields && request.body_bytes > MOST_OF_THE_REFUSED {
            object.member("data", &json!({ "elided_bytes": request.body_bytes }));
        } else if !request.fields.is_empty() {
            self.redaction(shown_of_requests).object(&request.fields, object.key("data"));
        }
        if !has_fields {
            // A body of bytes: nothing of it is shown but its length.
            object.member("body_bytes", &request.body_bytes);
        }
        object.member("remote_address", &request.remote);
        object.member("remote_port", &request.remote_port);
        object.end();
        mount
    }

    /// What was answered.
    pub(super) fn response(&self, response: &Response, mount: &[u8], out: &mut Vec<u8>) {
        let mut object = Object::begin(out);
        object.members(mount);
        match &response.body {
            Body::Envelope(envelope) | Body::Copied(envelope) => {
                self.envelope(envelope, &mut object)
            }
            Body::Raw { content_type, bytes } => {
                let data = json!({ "content_type": content_type, "length": bytes.len(), "status": response.status });
                object.member("data", &data);
            }
            // A document that is the same for everybody, or nothing.
            Body::Empty | Body::Bare(_) | Body::Errors(_) => {}
        }
        object.end();
    }

    fn envelope(&self, envelope: &Envelope, object: &mut Object<'_>) {
        if let Some(auth) = &envelope.auth {
            self.auth(auth, object.key("auth"));
        }
        if !envelope.lease_id.is_empty() {
            object.member("secret", &json!({ "lease_id": envelope.lease_id }));
        }
        if let Some(data) = &envelope.data {
            self.data(data, object.key("data"));
        }
        if !envelope.warnings.is_empty() {
            object.member("warnings", &envelope.warnings);
        }
        if let Some(wrapped) = &envelope.wrap_info {
            self.wrapping(wrapped, object.key("wrap_info"));
        }
    }

    /// A token that was handed out or renewed.
    fn auth(&self, auth: &Auth, out: &mut Vec<u8>) {
        let mut object = Object::begin(out);
        self.hashed(auth.client_token.expose(), object.key("client_token"));
        self.accessor(&auth.accessor, object.key("accessor"));
        object.member("policies", &auth.policies);
        object.member("token_policies", &auth.token_policies);
        object.member("identity_policies", &auth.identity_policies);
        if let Some(metadata) = &auth.metadata {
            object.member("metadata", metadata);
        }
        object.text("entity_id", &auth.entity_id);
        object.member("num_uses", &auth.num_uses);
        object.member("token_type", &auth.token_type);
        object.member("token_ttl", &auth.lease_duration);
        object.end();
    }

    fn data(&self, data: &Map<String, Value>, out: &mut Vec<u8>) {
        let redaction = self.redaction(shown_of_responses);
        if !self.device.settings.elide_list_responses || self.subject.operation != Operation::List {
            return redaction.object(data, out);
        }
        let count = |value: &Value| match value {
            Value::Array(list) => json!(list.len()),
            Value::Object(map) => json!(map.len()),
            other => other.clone(),
        };
        let elided = |(name, value): (&String, &Value)| {
            let is_listed = name == "keys" || name == "key_info";
            (name.clone(), if is_listed { count(value) } else { value.clone() })
        };
        redaction.object(&data.iter().map(elided).collect(), out);
    }

    /// The wrapping token hides what it wraps, and is hidden itself.
    fn wrapping(&self, wrapped: &Value, out: &mut Vec<u8>) {
        let mut object = Object::begin(out);
        for (name, value) in wrapped.as_object().into_iter().flatten() {
            match (name.as_str(), value.as_str()) {
                ("accessor" | "wrapped_accessor", Some(accessor)) => {
                    self.accessor(accessor, object.key(name))
                }
                ("token", Some(token)) => self.hashed(token, object.key(name)),
                _ => object.member(name, value),
            }
        }
        object.end();
    }

    /// The rules for the data; `clear` tells which members a mount shows.
    fn redaction(&self, clear: fn(&MountRecord) -> &[String]) -> Redaction<'_> {
        let route = self.subject.route.as_ref();
        let clear = route.map_or(&[][..], |route| clear(route.mount));
        let device = self.device;
        let table = route.map(|route| route.table);
        Redaction { hashing: &device.hashing, table, clear, raw: device.settings.log_raw }
    }

    /// Ends a line, with what is wrong where something is. A text that may repeat a secret of the
    /// path is not shown.
    pub(super) fn end(&self, error: &str, out: &mut Vec<u8>) {
        if !error.is_empty() {
            out.extend_from_slice(b",\"error\":");
            let hidden = "not shown, because it may repeat the secret that stood in the path";
            json::value(if self.secrets_of_path().is_empty() { error } else { hidden }, out);
        }
        out.push(b'}');
    }

    /// What of the path nobody may read: captures that are marked secret, and tokens that somebody
    /// put there.
    fn secrets_of_path(&self) -> Vec<&str> {
        let captures = self.subject.route.iter().flat_map(|route| {
            route
                .captures
                .iter()
                .filter(|(name, _)| route.table.is_secret(name))
                .map(|(_, text)| text.as_str())
        });
        let is_token = |segment: &&str| TOKENS.iter().any(|mark| segment.starts_with(mark));
        let path = &self.subject.request.path;
        // Peers take tokens in paths below auth/token, which some are still sent to; here no row
        // answers to them.
        let is_unserved = self.subject.route.is_none() && path.starts_with("auth/token/");
        let unserved = path.split('/').skip(if is_unserved { 3 } else { usize::MAX });
        captures.chain(path.split('/').filter(is_token)).chain(unserved).collect()
    }

    /// The path, with hashes in place of its secrets.
    fn path(&self) -> Cow<'_, str> {
        let (mut path, mut end) = (self.subject.request.path.as_str(), String::new());
        let secrets = self.secrets_of_path();
        if secrets.is_empty() {
            return path.into();
        }
        // A capture of several segments is the end of its path.
        if let Some(secret) = secrets.iter().find(|secret| secret.contains('/'))
            && let Some(before) = path.strip_suffix(secret)
        {
            (path, end) = (before, self.device.hashing.hash(secret));
        }
        let shown = |segment: &str| match secrets.contains(&segment) {
            true => self.device.hashing.hash(segment),
            false => segment.to_owned(),
        };
        let path = path.split('/').map(shown).collect::<Vec<_>>().join("/");
        (path + &end).into()
    }

    pub(super) fn accessor(&self, accessor: &str, out: &mut Vec<u8>) {
        if self.device.settings.hmac_accessor && !accessor.is_empty() {
            self.hashed(accessor, out);
        } else {
            json::value(accessor, out);
        }
    }

    pub(super) fn hashed(&self, text: &str, out: &mut Vec<u8>) {
        out.push(b'"');
        self.device.hashing.push(text.as_bytes(), out);
        out.push(b'"');
    }
}

/// What policy says, and which policies say so.
fn results(verdict: &Verdict, out: &mut Vec<u8>) {
    let mut results = Object::begin(out);
    match verdict {
        Verdict::Denied => results.json("allowed", b"false"),
        Verdict::Allowed(granting) => {
            results.json("allowed", b"true");
            let list = results.key("granting_policies");
            list.push(b'[');
            for (index, name) in granting.iter().enumerate() {
                if index > 0 {
                    list.push(b',');
                }
                let mut policy = Object::begin(list);
                policy.member("name", name.as_ref());
                policy.json("namespace_id", b"\"root\"");
                policy.json("type", b"\"acl\"");
                policy.end();
            }
            list.push(b']');
        }
    }
    results.end();
}

/// The members that tell who serves a request.
fn mount(route: &Described<'_>, object: &mut Object<'_>) {
    let MountRecord { path, kind, accessor, .. } = route.mount;
    object.member("mount_point", path.as_str());
    object.member("mount_type", kind);
    object.member("mount_accessor", accessor);
    object.member("mount_running_version", route.running.version);
    if !route.running.digest.is_empty() {
        object.member("mount_running_sha256", route.running.digest);
    }
    object.member("mount_class", if path.is_auth() { "auth" } else { "secret" });
}

/// Members of requests that the mount has shown.
fn shown_of_requests(mount: &MountRecord) -> &[String] {
    &mount.settings.audit_non_hmac_request_keys
}

/// Members of answers that the mount has shown.
fn shown_of_responses(mount: &MountRecord) -> &[String] {
    &mount.settings.audit_non_hmac_response_keys
}

#[cfg(test)]
mod tests {
    use super::super::device::{Origin, Parts};
    use super::super::file::Place;
    use super::super::hashing::Hashing;
    use super::super::settings::AuditSettings;
    use super::*;
    use crate::log::Log;
    use crate::mounts::Builtin;
    use bulkhead_wire::description::{Field, FieldKind, Route, Verb};
    use bulkhead_wire::request::{RawBody, Request};
    use bulkhead_wire::route::Table;
    use std::path::Path;
    use std::sync::Arc;

    struct Nobody;

    impl Log for Nobody {
        fn line(&self, _: &str, _: &str, _: &[(&str, String)]) {}
    }

    fn device() -> Arc<Device> {
        let settings = AuditSettings::within(Path::new("/nonexistent")).devices.pop().unwrap();
        let (place, origin) = (Place::Nowhere(String::new()), Origin::Configuration);
        let log: Arc<dyn Log> = Arc::new(Nobody);
        Device::new(Parts { settings, place, origin, hashing: Hashing::new(b"key") }, &log)
    }

    fn hash(text: &str) -> String {
        Hashing::new(b"key").hash(text)
    }

    /// A table in which the capture of `pattern` is secret.
    fn table(pattern: &str) -> Table {
        let fields = vec![Field::new("token", FieldKind::String, "").secret()];
        Table::new(vec![Route { fields, ..Route::new(Verb::Read, pattern, "") }]).unwrap()
    }

    /// A mount that shows the member `shown` of requests.
    fn record() -> MountRecord {
        let record = json!({
            "path": "database/", "uuid": "", "accessor": "database_1", "kind": "database", "schema": 1, "description": "",
            "options": {}, "default_ttl": 0, "max_ttl": 0, "audit_non_hmac_request_keys": ["shown"],
        });
        serde_json::from_value(record).unwrap()
    }

    fn request(path: &str) -> Request {
        Request {
            id: "5e1c".to_owned(),
            verb: Verb::Read,
            path: path.to_owned(),
            token: None,
            fields: Map::new(),
            raw: None,
            body_bytes: 0,
            remote: "192.0.2.1".parse().unwrap(),
            remote_port: 1,
        }
    }

    /// What `write` writes of a request for `path`, whose last part was captured as a token.
    fn written(path: &str, captured: &str, write: impl Fn(&Writer<'_>, &mut Vec<u8>)) -> Value {
        written_of(&request(path), captured, write)
    }

    fn written_of(
        request: &Request,
        captured: &str,
        write: impl Fn(&Writer<'_>, &mut Vec<u8>),
    ) -> Value {
        let (device, table) = (device(), table("x/{token+}"));
        let captures = Some(captured).filter(|text| !text.is_empty());
        let captures: Vec<_> =
            captures.map(|text| ("token".to_owned(), text.to_owned())).into_iter().collect();
        let subject = Subject {
            request,
            operation: Operation::Read,
            caller: None,
            route: Some(Described {
                table: &table,
                captures: &captures,
                mount: &record(),
                running: Builtin::running(),
            }),
            verdict: None,
            is_refused: false,
            now: 0,
        };
        let mut out = Vec::new();
        write(&Writer { device: &device, subject: &subject }, &mut out);
        serde_json::from_slice(&out).unwrap()
    }

    fn answered(response: &Response) -> Value {
        written("x/y", "y", |writer, out| writer.response(response, b"", out))
    }

    #[test]
    fn a_secret_of_the_path_is_hashed_in_its_segments_only() {
        let path = |path: &str, captured: &str| {
            let write = |writer: &Writer<'_>, out: &mut Vec<u8>| {
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
    fn of_raw_answers_length_and_type_are_told_and_of_bare_ones_nothing() {
        let body = Body::Raw { content_type: "text/plain".to_owned(), bytes: b"hunter2".to_vec() };
        let raw = answered(&Response { status: 203, body, retry_after: None });
        assert_eq!(
            raw,
            json!({ "data": { "content_type": "text/plain", "length": 7, "status": 203 } })
        );
        assert_eq!(answered(&Response::bare(200, json!({ "paths": "hunter2" }))), json!({}));
        assert_eq!(answered(&Response::no_content()), json!({}));
    }

    #[test]
    fn of_a_body_of_bytes_the_length_is_told_beside_the_fields() {
        let fields = json!({ "version": "1.0.0" }).as_object().unwrap().clone();
        let raw = Some(RawBody::new(b"hunter2".to_vec()));
        let sent =
            Request { fields, raw, body_bytes: 7, ..request("sys/plugins/catalog/secret/x") };
        let line = written_of(&sent, "", |writer, out| {
            writer.request((b"", b""), out);
        });
        assert_eq!(
            (&line["body_bytes"], &line["data"]["version"]),
            (&json!(7), &json!(hash("1.0.0")))
        );
        assert!(!line.to_string().contains("hunter2"), "{line}");
        let line = written("x/y", "", |writer, out| {
            writer.request((b"", b""), out);
        });
        assert_eq!(line.get("body_bytes"), None, "{line}");
    }

    #[test]
    fn what_wraps_an_answer_is_hidden_with_what_it_names() {
        let wrap_info = json!({
            "token": "bhs.0123", "accessor": "acc", "ttl": 60, "creation_time": "2026-11-21T17:33:56Z",
            "creation_path": "sys/wrapping/wrap", "wrapped_accessor": "other",
        });
        let envelope = Envelope { wrap_info: Some(wrap_info), ..Envelope::default() };
        let body = Body::Envelope(Box::new(envelope));
        let seen = json!({
            "token": hash("bhs.0123"), "accessor": hash("acc"), "ttl": 60, "creation_time": "2026-11-21T17:33:56Z",
            "creation_path": "sys/wrapping/wrap", "wrapped_accessor": hash("other"),
        });
        assert_eq!(
            answered(&Response { status: 200, body, retry_after: None }),
            json!({ "wrap_info": seen })
        );
    }

    #[test]
    fn an_error_that_may_repeat_a_secret_of_the_path_is_not_shown() {
        let end = |path: &str| {
            written(path, "", |writer, out| {
                out.extend_from_slice(b"{\"a\":1");
                writer.end("it is here", out);
            })["error"]
                .clone()
        };
        assert_eq!(end("x/y"), "it is here");
        assert!(end("x/bhs.0123").as_str().unwrap().starts_with("not shown"));
    }
}
