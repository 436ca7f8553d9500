//! The content of a line: the caller, the request and the answer.
//!
//! This file prevents the disclosure of a token outside the data. Tokens and accessors are hashed
//! everywhere, including paths and answers, even on a device that shows other values; no header is
//! written.
//!
//! This file also prevents clients from filling the disk: each part of a line is bounded
//! ([`super::bounds`]). A longer list becomes a digest, a longer text is hashed, and the line
//! counts the rest. For fields that no endpoint reads, the line shows only the hashes of their
//! names.

mod token;

use super::bounds;
use super::device::AuditDevice;
use super::digests::MemberDigests;
use super::json::{self, JsonObject};
use super::path::SentPath;
use super::redaction::{MemberNames, OmittedMembers, RedactionRules};
use super::refusal::RefusalReason;
use super::subject::{AuditSubject, AuditedMount, RouteDescription};
use bulkhead_wire::description::Operation;
use bulkhead_wire::envelope::Envelope;
use bulkhead_wire::listing::Listing;
use bulkhead_wire::request::AuditedHeader;
use bulkhead_wire::response::{Response, ResponseBody};
use serde_json::{Map, Value, json};
use std::ops::Range;

/// Maximum body size, in bytes, that is examined for an untrusted sender. A line shows only the
/// length of a larger body, because hashing takes time.
const MAX_EXAMINED_BODY: u64 = 64 << 10;

/// A writer of a single request for a single device.
pub(super) struct AuditLineWriter<'a> {
    pub(super) device: &'a AuditDevice,
    pub(super) subject: &'a AuditSubject<'a>,
}

/// The caller's token and its accessor, as the line shows them.
pub(super) type AuditedToken<'a> = (&'a [u8], &'a [u8]);

impl AuditLineWriter<'_> {
    /// Writes the request. Returns the position of the mount's members.
    pub(super) fn request(
        &self,
        (token, accessor): AuditedToken<'_>,
        out: &mut Vec<u8>,
    ) -> Range<usize> {
        let AuditSubject { request, operation, .. } = self.subject;
        let mut object = JsonObject::begin(out);
        object.member("id", &request.id);
        object.member("operation", operation.word());
        // The position after the comma.
        let begin = object.written() + 1;
        if let Some(route) = &self.subject.route {
            self.mount(route, &mut object);
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
        self.headers(&mut object);
        object.member("remote_address", &request.remote);
        object.member("remote_port", &request.remote_port);
        if let Some(ttl) = request.wrap_ttl {
            object.member("wrap_ttl", &ttl);
        }
        object.end();
        mount
    }

    /// Writes the headers that an operator wants, each as a list of one text.
    fn headers(&self, object: &mut JsonObject<'_>) {
        let headers = &self.subject.request.audited_headers;
        if headers.is_empty() {
            return;
        }
        let mut members = JsonObject::begin(object.own_key("headers"));
        for AuditedHeader { name, value, is_hashed } in headers.iter().take(bounds::HEADERS) {
            let out = members.key(name);
            out.push(b'[');
            match is_hashed {
                true => self.write_hashed(value, out),
                false => self.text_within(bounds::HEADER, value, out),
            }
            out.push(b']');
        }
        members.end();
    }

    /// Writes the path, and the number of its bytes that are left out.
    fn path(&self, object: &mut JsonObject<'_>) {
        let (path, elided) = SentPath::of(self.subject).render_path(&self.device.hashing);
        object.member("path", &path);
        if elided > 0 {
            object.member("elided_path_bytes", &elided);
        }
    }

    /// Writes the fields that the endpoint reads, hashes of the names of all other fields, and the
    /// body length of a raw, stored, unread or partly shown body.
    fn fields(&self, object: &mut JsonObject<'_>) {
        let AuditSubject { request, .. } = self.subject;
        let is_trusted = self.subject.is_trusted();
        let mut left_out = OmittedMembers::default();
        if !is_trusted && request.raw.is_none() && request.body_bytes > MAX_EXAMINED_BODY {
            left_out.members = request.fields.len();
        } else {
            let (known_fields, unknown): (Vec<_>, Vec<_>) =
                request.fields.iter().partition(|(name, _)| self.subject.reads(name));
            if !known_fields.is_empty() {
                let most = if is_trusted { bounds::DATA } else { bounds::UNTRUSTED_DATA };
                let redaction = self.redaction(shown_of_requests, self.subject.request_names());
                left_out = redaction.object(known_fields, most, object.own_key("data"));
            }
            let names = unknown.into_iter().map(|(name, _)| name);
            left_out.members += self.unknown_fields(names, object);
        }
        let OmittedMembers { members, digests } = left_out;
        digests.write(object);
        if members > 0 {
            object.member("elided_members", &members);
        }
        let is_unread = request.is_unread || (request.refusal.is_some() && request.body_bytes > 0);
        let has_bytes = request.raw.is_some() || request.file.is_some();
        if has_bytes || is_unread || members > 0 {
            object.member("body_bytes", &request.body_bytes);
        }
    }

    /// Writes hashes of the names of fields that no endpoint reads: such a name may be a misplaced
    /// secret. Returns the number of names left out.
    fn unknown_fields<'a>(
        &self,
        names: impl Iterator<Item = &'a String>,
        object: &mut JsonObject<'_>,
    ) -> usize {
        let (mut list, mut left_out) = (Vec::new(), 0);
        for name in names {
            let before = list.len();
            list.extend_from_slice(if before == 0 { b"" } else { b"," });
            let room = bounds::UNKNOWN_FIELDS.saturating_sub(list.len());
            let shown = self.device.hashing.hash(name);
            if left_out > 0 || !json::value_within(&shown, room, &mut list) {
                list.truncate(before);
                left_out += 1;
            }
        }
        if !list.is_empty() {
            let out = object.own_key("unknown_fields");
            out.push(b'[');
            out.extend_from_slice(&list);
            out.push(b']');
        }
        left_out
    }

    /// Writes the answer.
    pub(super) fn response(&self, response: &Response, mount: &[u8], out: &mut Vec<u8>) {
        let mut object = JsonObject::begin(out);
        object.members(mount);
        self.body(&response.body, response.status, &mut object);
        object.end();
    }

    /// Writes the members of a body. A wrapped answer is written like an answer that is not
    /// wrapped, when it is wrapped and when it is unwrapped.
    fn body(&self, body: &ResponseBody, status: u16, object: &mut JsonObject<'_>) {
        match body {
            ResponseBody::Envelope(envelope) | ResponseBody::Copied(envelope) => {
                self.envelope(envelope, self.subject.answer_names(), object)
            }
            ResponseBody::Listed(envelope, listing) => {
                self.listing(listing, object);
                self.envelope(envelope, MemberNames::Shown, object);
            }
            ResponseBody::Wrapped { envelope, hidden } => {
                self.body(hidden, status, object);
                self.envelope(envelope, MemberNames::Shown, object);
            }
            // Any caller may have wrapped the fields, under names of its choice.
            ResponseBody::Unwrapped { content_type, bytes } => match Envelope::read(bytes) {
                Some(envelope) => self.envelope(&envelope, MemberNames::Hidden, object),
                None => self.raw((content_type, Some(bytes.len())), status, object),
            },
            ResponseBody::Raw { content_type, bytes } => {
                self.raw((content_type, Some(bytes.len())), status, object);
            }
            ResponseBody::Streamed { content_type, .. } => {
                self.raw((content_type, None), status, object);
            }
            // These bodies are the same for every caller, are errors (written as the line's error),
            // or are empty.
            ResponseBody::Empty
            | ResponseBody::Bare(_)
            | ResponseBody::Published { .. }
            | ResponseBody::Document(_)
            | ResponseBody::Errors(_)
            | ResponseBody::Advice(_) => {}
        }
    }

    /// Writes type and length of bytes that are not an envelope; a stream has no length yet.
    fn raw(&self, bytes: (&str, Option<usize>), status: u16, object: &mut JsonObject<'_>) {
        let (content_type, length) = bytes;
        let mut data = JsonObject::begin(object.own_key("data"));
        self.text(&mut data, "content_type", content_type);
        if let Some(length) = length {
            data.member("length", &length);
        }
        data.member("status", &status);
        data.end();
    }

    fn envelope(&self, envelope: &Envelope, names: MemberNames<'_>, object: &mut JsonObject<'_>) {
        if let Some(auth) = &envelope.auth {
            self.auth(auth, object.own_key("auth"));
        }
        if !envelope.lease_id.is_empty() {
            let mut secret = JsonObject::begin(object.own_key("secret"));
            self.text_within(bounds::LEASE_ID, &envelope.lease_id, secret.own_key("lease_id"));
            secret.end();
        }
        if let Some(data) = &envelope.data {
            let data = self.data(data, names, object.own_key("data"));
            let OmittedMembers { members, digests } = data;
            digests.write(object);
            if members > 0 {
                object.member("elided_members", &members);
            }
        }
        if !envelope.warnings.is_empty() {
            // Warnings may repeat values of the request, like errors.
            let hash = |warning: &String| self.device.hashing.hash(warning);
            let shown = envelope.warnings.iter().take(bounds::WARNINGS);
            object.member("warnings", &shown.map(hash).collect::<Vec<_>>());
            if envelope.warnings.len() > bounds::WARNINGS {
                let elided = envelope.warnings.len() - bounds::WARNINGS;
                object.member("elided_warnings", &elided);
            }
        }
        if let Some(wrapped) = &envelope.wrap_info {
            self.wrapping(wrapped, object.own_key("wrap_info"));
        }
    }

    /// Writes the data of a listing: like any other data; as digests of the texts if the listing is
    /// long; as counts if the device elides listings.
    fn listing(&self, listing: &Listing, object: &mut JsonObject<'_>) {
        let is_elided = self.device.settings.elide_list_responses;
        let data = match listing.bytes() > bounds::DATA || is_elided {
            true => None,
            false => read_listing(listing),
        };
        if let Some(data) = data {
            let out = object.own_key("data");
            let OmittedMembers { digests, .. } = self.data(&data, MemberNames::Shown, out);
            return digests.write(object);
        }
        let texts = [("keys", Some(&listing.keys)), ("key_info", listing.key_info.as_ref())];
        let texts = texts.into_iter().filter_map(|(name, text)| Some((name, text?)));
        let (mut counts, mut digests) = (Map::new(), MemberDigests::default());
        for (name, text) in texts {
            match is_elided {
                true => drop(counts.insert(name.to_owned(), json!(listing.entries))),
                false => digests.add_hash(&self.device.hashing.hash(text), name, listing.entries),
            }
        }
        object.member("data", &counts);
        digests.write(object);
    }

    /// Writes the data of an answer. Returns the omitted members.
    fn data(
        &self,
        data: &Map<String, Value>,
        names: MemberNames<'_>,
        out: &mut Vec<u8>,
    ) -> OmittedMembers {
        let redaction = self.redaction(shown_of_responses, names);
        let most = match self.subject.caller {
            Some(_) => bounds::DATA,
            None => bounds::UNTRUSTED_DATA,
        };
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
        redaction.object(&data.iter().map(elided).collect::<Map<_, _>>(), most, out)
    }

    /// Writes the members that describe the mount.
    fn mount(&self, route: &RouteDescription<'_>, object: &mut JsonObject<'_>) {
        let AuditedMount { path, kind, accessor, version, digest, .. } = route.mount;
        self.text(object, "mount_point", path.as_str());
        self.text(object, "mount_type", kind);
        self.text(object, "mount_accessor", accessor);
        self.text(object, "mount_running_version", version);
        if !digest.is_empty() {
            object.member("mount_running_sha256", digest);
        }
        object.member("mount_class", if path.is_auth() { "auth" } else { "secret" });
    }

    /// Writes a text that is not data.
    pub(super) fn text(&self, object: &mut JsonObject<'_>, name: &'static str, text: &str) {
        self.text_within(bounds::TEXT, text, object.own_key(name));
    }

    fn text_within(&self, most: usize, text: &str, out: &mut Vec<u8>) {
        if !json::value_within(text, most, out) {
            self.write_hashed(text, out);
        }
    }

    /// Returns the redaction rules; `clear` returns the members that a mount shows.
    fn redaction<'a>(
        &'a self,
        clear: fn(AuditedMount<'_>) -> &[String],
        names: MemberNames<'a>,
    ) -> RedactionRules<'a> {
        let route = self.subject.route.as_ref();
        let clear = route.map_or(&[][..], |route| clear(route.mount));
        let device = self.device;
        let table = route.map(|route| route.table);
        let (hashing, raw) = (&device.hashing, device.settings.log_raw);
        RedactionRules { hashing, table, names, clear, raw }
    }

    /// Ends a line. Adds the reason of a refusal: the readable part, and a hash of the rest of the
    /// message. If the path contains a secret, the reason is not shown, because it may repeat the
    /// secret.
    pub(super) fn end(&self, refusal: &RefusalReason, out: &mut Vec<u8>) {
        let error = match (refusal.shown.as_str(), refusal.hashed.as_str()) {
            (shown, "") => shown.to_owned(),
            (shown, hashed) => format!("{shown}: {}", self.device.hashing.hash(hashed)),
        };
        if !error.is_empty() {
            out.extend_from_slice(b",\"error\":");
            let hidden = "not shown, because the error may repeat the secret in the path";
            let shown = match SentPath::of(self.subject).has_secrets() {
                true => hidden,
                false => error.get(..error.floor_char_boundary(bounds::ERROR)).unwrap_or_default(),
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

/// Returns the data of a short listing.
fn read_listing(listing: &Listing) -> Option<Map<String, Value>> {
    let mut text = Vec::with_capacity(bounds::DATA);
    listing.write(&mut text);
    bulkhead_wire::json::object(&text).ok()
}

/// Returns the members of requests that the mount shows.
fn shown_of_requests(mount: AuditedMount<'_>) -> &[String] {
    mount.shown_of_requests
}

/// Returns the members of answers that the mount shows.
fn shown_of_responses(mount: AuditedMount<'_>) -> &[String] {
    mount.shown_of_responses
}

#[cfg(test)]
mod tests;
