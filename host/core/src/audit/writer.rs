//! What stands in a line: who asks, what is asked, what was answered.
//!
//! The attack this file stops: a token in a place that is not data. Tokens and accessors are hashed
//! wherever they stand, in a path and in what was handed out, too, also where the device shows the
//! rest; no header is written. And a disk that fills up from outside: what a stranger sends, and
//! what is refused, takes so many bytes of a line, however it is written, and the rest is told by
//! its number.

use super::device::Device;
use super::json::{self, Object};
use super::path::SentPath;
use super::redaction::Redaction;
use super::refusal::Refusal;
use super::subject::{Described, Subject, Verdict, time};
use crate::mounts::MountRecord;
use crate::tokens::Caller;
use bulkhead_wire::description::Operation;
use bulkhead_wire::envelope::{Auth, Envelope};
use bulkhead_wire::response::{Body, Response};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::ops::Range;

/// Of a request whose sender is not trusted, more than so many bytes of body are told by their
/// number only: hashing them takes time.
const MOST_OF_A_BODY: u64 = 64 << 10;
/// So many bytes of a line show the data of a request whose sender is not trusted, or of an answer
/// to a stranger.
const MOST_OF_DATA: usize = 1 << 10;
/// So many bytes of a line say what is wrong, before escapes. Refusals repeat what was sent.
const MOST_OF_AN_ERROR: usize = 512;

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
        let identity = self.subject.identity_policies;
        if identity.is_empty() {
            auth.member("policies", &record.policies);
        } else {
            let all: BTreeSet<&String> = record.policies.iter().chain(identity).collect();
            auth.member("policies", &all);
            auth.member("identity_policies", &identity);
        }
        auth.member("token_policies", &record.policies);
        if let Some(verdict) = self.subject.verdict {
            results(verdict, auth.own_key("policy_results"));
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
        self.path(&mut object);
        self.fields(&mut object);
        object.member("remote_address", &request.remote);
        object.member("remote_port", &request.remote_port);
        object.end();
        mount
    }

    /// The path, and how much of it is not shown.
    fn path(&self, object: &mut Object<'_>) {
        let (path, elided) = SentPath::of(self.subject).shown(&self.device.hashing);
        object.member("path", &path);
        if elided > 0 {
            object.member("elided_path_bytes", &elided);
        }
    }

    /// What was sent. Of a body of bytes nothing is shown but its length.
    fn fields(&self, object: &mut Object<'_>) {
        let Subject { request, .. } = self.subject;
        let is_trusted = self.subject.is_trusted();
        let mut elided = 0;
        if !is_trusted && request.raw.is_none() && request.body_bytes > MOST_OF_A_BODY {
            elided = request.fields.len();
        } else if !request.fields.is_empty() {
            let most = if is_trusted { usize::MAX } else { MOST_OF_DATA };
            let redaction = self.redaction(shown_of_requests);
            elided = redaction.object(&request.fields, most, object.own_key("data"));
        }
        if elided > 0 {
            object.member("elided_members", &elided);
        }
        if request.raw.is_some() || request.is_unread || elided > 0 {
            object.member("body_bytes", &request.body_bytes);
        }
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
                let (length, status) = (bytes.len(), response.status);
                let data = json!({
                    "content_type": content_type, "length": length, "status": status
                });
                object.member("data", &data);
            }
            // A document that is the same for every caller, or nothing.
            Body::Empty
            | Body::Bare(_)
            | Body::Published { .. }
            | Body::Document(_)
            | Body::Errors(_) => {}
        }
        object.end();
    }

    fn envelope(&self, envelope: &Envelope, object: &mut Object<'_>) {
        if let Some(auth) = &envelope.auth {
            self.auth(auth, object.own_key("auth"));
        }
        if !envelope.lease_id.is_empty() {
            object.member("secret", &json!({ "lease_id": envelope.lease_id }));
        }
        if let Some(data) = &envelope.data {
            let elided = self.data(data, object.own_key("data"));
            if elided > 0 {
                object.member("elided_members", &elided);
            }
        }
        if !envelope.warnings.is_empty() {
            // They may repeat what was sent, as errors may.
            let hash = |warning: &String| self.device.hashing.hash(warning);
            let hashes: Vec<String> = envelope.warnings.iter().map(hash).collect();
            object.member("warnings", &hashes);
        }
        if let Some(wrapped) = &envelope.wrap_info {
            self.wrapping(wrapped, object.own_key("wrap_info"));
        }
    }

    /// A token that was handed out or renewed.
    fn auth(&self, auth: &Auth, out: &mut Vec<u8>) {
        let mut object = Object::begin(out);
        self.write_hashed(auth.client_token.expose(), object.own_key("client_token"));
        self.accessor(&auth.accessor, object.own_key("accessor"));
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

    /// The data of an answer. Returns how many members are left out.
    fn data(&self, data: &Map<String, Value>, out: &mut Vec<u8>) -> usize {
        let redaction = self.redaction(shown_of_responses);
        let most = if self.subject.caller.is_some() { usize::MAX } else { MOST_OF_DATA };
        if !self.device.settings.elide_list_responses || self.subject.operation != Operation::List {
            return redaction.object(data, most, out);
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
        redaction.object(&data.iter().map(elided).collect(), most, out)
    }

    /// The wrapping token hides what it wraps, and is hidden itself.
    fn wrapping(&self, wrapped: &Value, out: &mut Vec<u8>) {
        let mut object = Object::begin(out);
        for (name, value) in wrapped.as_object().into_iter().flatten() {
            match (name.as_str(), value.as_str()) {
                ("accessor" | "wrapped_accessor", Some(accessor)) => {
                    self.accessor(accessor, object.key(name))
                }
                ("token", Some(token)) => self.write_hashed(token, object.key(name)),
                _ => json::value(value, object.key(name)),
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

    /// Ends a line, with what is wrong where something is: what may be read of it, and a hash of
    /// what the caller was told beside. A text that may repeat a secret of the path is not shown.
    pub(super) fn end(&self, refusal: &Refusal, out: &mut Vec<u8>) {
        let error = match (refusal.shown.as_str(), refusal.hashed.as_str()) {
            (shown, "") => shown.to_owned(),
            (shown, hashed) => format!("{shown}: {}", self.device.hashing.hash(hashed)),
        };
        if !error.is_empty() {
            out.extend_from_slice(b",\"error\":");
            let hidden = "not shown, because it may repeat the secret that stood in the path";
            let shown = match SentPath::of(self.subject).has_secrets() {
                true => hidden,
                false => {
                    error.get(..error.floor_char_boundary(MOST_OF_AN_ERROR)).unwrap_or_default()
                }
            };
            json::value(shown, out);
        }
        out.push(b'}');
    }

    pub(super) fn accessor(&self, accessor: &str, out: &mut Vec<u8>) {
        if self.device.settings.hmac_accessor && !accessor.is_empty() {
            self.write_hashed(accessor, out);
        } else {
            json::value(accessor, out);
        }
    }

    pub(super) fn write_hashed(&self, text: &str, out: &mut Vec<u8>) {
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
            let list = results.own_key("granting_policies");
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
mod tests;
