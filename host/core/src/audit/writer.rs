//! What stands in a line: who asks, what is asked, what was answered.
//!
//! The attack this file stops: a token in a place that is not data. Tokens and accessors are hashed
//! wherever they stand, in a path and in what was handed out, too, also where the device shows the
//! rest; no header is written. And a disk that fills up from outside: each part of a line has its
//! bound ([`super::bounds`]). A list that is longer stands as one digest, a text as its hash, and
//! the rest is told by its number. Fields that no endpoint reads are told by their names.

mod token;

use super::bounds;
use super::device::Device;
use super::digests::Digests;
use super::json::{self, Object};
use super::path::SentPath;
use super::redaction::{LeftOut, Redaction, shown_name};
use super::refusal::Refusal;
use super::subject::{Described, Subject};
use crate::mounts::MountRecord;
use bulkhead_wire::description::Operation;
use bulkhead_wire::envelope::Envelope;
use bulkhead_wire::listing::Listing;
use bulkhead_wire::response::{Body, Response};
use serde_json::{Map, Value, json};
use std::ops::Range;

/// Of a request whose sender is not trusted, more than so many bytes of body are told by their
/// number only: hashing them takes time.
const MOST_OF_A_BODY: u64 = 64 << 10;

/// One device's manner of writing one request.
pub(super) struct Writer<'a> {
    pub(super) device: &'a Device,
    pub(super) subject: &'a Subject<'a>,
}

/// The token that was sent and its accessor, as they are written.
pub(super) type Credential<'a> = (&'a [u8], &'a [u8]);

impl Writer<'_> {
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

    /// What was sent: of fields that no endpoint reads the names, of a body of bytes the length.
    fn fields(&self, object: &mut Object<'_>) {
        let Subject { request, .. } = self.subject;
        let is_trusted = self.subject.is_trusted();
        let mut left_out = LeftOut::default();
        if !is_trusted && request.raw.is_none() && request.body_bytes > MOST_OF_A_BODY {
            left_out.members = request.fields.len();
        } else {
            let (known, unknown): (Vec<_>, Vec<_>) =
                request.fields.iter().partition(|(name, _)| self.subject.reads(name));
            if !known.is_empty() {
                let most = if is_trusted { bounds::DATA } else { bounds::DATA_OF_A_STRANGER };
                let redaction = self.redaction(shown_of_requests);
                left_out = redaction.object(known, most, object.own_key("data"));
            }
            let names = unknown.into_iter().map(|(name, _)| name);
            left_out.members += self.unknown_fields(names, object);
        }
        let LeftOut { members, digests } = left_out;
        digests.write(object);
        if members > 0 {
            object.member("elided_members", &members);
        }
        let is_unread = request.is_unread || (request.refusal.is_some() && request.body_bytes > 0);
        if request.raw.is_some() || is_unread || members > 0 {
            object.member("body_bytes", &request.body_bytes);
        }
    }

    /// The names of fields that no endpoint reads. Returns how many are left out.
    fn unknown_fields<'a>(
        &self,
        names: impl Iterator<Item = &'a String>,
        object: &mut Object<'_>,
    ) -> usize {
        let (mut list, mut left_out) = (Vec::new(), 0);
        for name in names {
            let before = list.len();
            list.extend_from_slice(if before == 0 { b"" } else { b"," });
            let room = bounds::UNKNOWN_FIELDS.saturating_sub(list.len());
            let shown = shown_name(&self.device.hashing, name);
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

    /// What was answered.
    pub(super) fn response(&self, response: &Response, mount: &[u8], out: &mut Vec<u8>) {
        let mut object = Object::begin(out);
        object.members(mount);
        match &response.body {
            Body::Envelope(envelope) | Body::Copied(envelope) => {
                self.envelope(envelope, &mut object)
            }
            Body::Listed(envelope, listing) => {
                self.listing(listing, &mut object);
                self.envelope(envelope, &mut object);
            }
            Body::Raw { content_type, bytes } => {
                let mut data = Object::begin(object.own_key("data"));
                self.text(&mut data, "content_type", content_type);
                data.member("length", &bytes.len());
                data.member("status", &response.status);
                data.end();
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
            let mut secret = Object::begin(object.own_key("secret"));
            self.text_within(bounds::LEASE_ID, &envelope.lease_id, secret.own_key("lease_id"));
            secret.end();
        }
        if let Some(data) = &envelope.data {
            let LeftOut { members, digests } = self.data(data, object.own_key("data"));
            digests.write(object);
            if members > 0 {
                object.member("elided_members", &members);
            }
        }
        if !envelope.warnings.is_empty() {
            // They may repeat what was sent, as errors may.
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

    /// The data of a listing: as any other data, or as digests of its texts where it is long.
    fn listing(&self, listing: &Listing, object: &mut Object<'_>) {
        let is_elided = self.device.settings.elide_list_responses;
        let data = match listing.bytes() > bounds::DATA || is_elided {
            true => None,
            false => read_listing(listing),
        };
        if let Some(data) = data {
            let LeftOut { digests, .. } = self.data(&data, object.own_key("data"));
            return digests.write(object);
        }
        let texts = [("keys", Some(&listing.keys)), ("key_info", listing.key_info.as_ref())];
        let texts = texts.into_iter().filter_map(|(name, text)| Some((name, text?)));
        let (mut counts, mut digests) = (Map::new(), Digests::default());
        for (name, text) in texts {
            match is_elided {
                true => drop(counts.insert(name.to_owned(), json!(listing.entries))),
                false => digests.add_hash(&self.device.hashing.hash(text), name, listing.entries),
            }
        }
        object.member("data", &counts);
        digests.write(object);
    }

    /// The data of an answer. Returns what is left out.
    fn data(&self, data: &Map<String, Value>, out: &mut Vec<u8>) -> LeftOut {
        let redaction = self.redaction(shown_of_responses);
        let most = match self.subject.caller {
            Some(_) => bounds::DATA,
            None => bounds::DATA_OF_A_STRANGER,
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

    /// The wrapping token hides what it wraps, and is hidden itself.
    fn wrapping(&self, wrapped: &Value, out: &mut Vec<u8>) {
        let mut object = Object::begin(out);
        for (name, value) in wrapped.as_object().into_iter().flatten() {
            match (name.as_str(), value.as_str()) {
                ("accessor" | "wrapped_accessor", Some(accessor)) => {
                    self.accessor(accessor, object.key(name))
                }
                ("token", Some(token)) => self.write_hashed(token, object.key(name)),
                (_, Some(text)) => self.text_within(bounds::TEXT, text, object.key(name)),
                _ => json::value(value, object.key(name)),
            }
        }
        object.end();
    }

    /// The members that tell who serves a request.
    fn mount(&self, route: &Described<'_>, object: &mut Object<'_>) {
        let MountRecord { path, kind, accessor, .. } = route.mount;
        self.text(object, "mount_point", path.as_str());
        self.text(object, "mount_type", kind);
        self.text(object, "mount_accessor", accessor);
        self.text(object, "mount_running_version", route.running.version);
        if !route.running.digest.is_empty() {
            object.member("mount_running_sha256", route.running.digest);
        }
        object.member("mount_class", if path.is_auth() { "auth" } else { "secret" });
    }

    /// A text that is no data.
    pub(super) fn text(&self, object: &mut Object<'_>, name: &'static str, text: &str) {
        self.text_within(bounds::TEXT, text, object.own_key(name));
    }

    fn text_within(&self, most: usize, text: &str, out: &mut Vec<u8>) {
        if !json::value_within(text, most, out) {
            self.write_hashed(text, out);
        }
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

/// A short listing as the data that it is.
fn read_listing(listing: &Listing) -> Option<Map<String, Value>> {
    let mut text = Vec::with_capacity(bounds::DATA);
    listing.write(&mut text);
    bulkhead_wire::json::object(&text).ok()
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
