//! The tokens in a line: the caller's token with the policy decision, and an issued token.

use super::{AuditLineWriter, AuditedToken};
use crate::bounds;
use crate::digests::MemberDigests;
use crate::json::{self, JsonObject};
use crate::subject::{ComponentCaller, PolicyDecision, time};
use bulkhead_access::tokens::Caller;
use bulkhead_wire::envelope::AuthBlock;
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;

impl AuditLineWriter<'_> {
    /// Writes the caller, as described by the token.
    pub(crate) fn caller(
        &self,
        caller: &Caller,
        (token, accessor): AuditedToken<'_>,
        out: &mut Vec<u8>,
    ) {
        let (record, mut digests) = (&caller.record, MemberDigests::default());
        let mut auth = JsonObject::begin(out);
        auth.json("client_token", token);
        auth.json("accessor", accessor);
        self.text(&mut auth, "display_name", &record.display_name);
        let own = (&record.policies, record.policies.len());
        let identity = self.subject.identity_policies;
        if identity.is_empty() {
            self.list(&mut auth, &mut digests, "policies", own);
        } else {
            let all: BTreeSet<&String> = record.policies.iter().chain(identity).collect();
            self.list(&mut auth, &mut digests, "policies", (&all, all.len()));
            self.list(&mut auth, &mut digests, "identity_policies", (identity, identity.len()));
        }
        self.list(&mut auth, &mut digests, "token_policies", own);
        if let Some(verdict) = self.subject.verdict {
            self.write_decision(verdict, auth.own_key("policy_results"));
        }
        if !record.meta.is_empty() {
            self.list(&mut auth, &mut digests, "metadata", (&record.meta, record.meta.len()));
        }
        if !record.entity_id.is_empty() {
            self.text(&mut auth, "entity_id", &record.entity_id);
        }
        if let Some(left) = record.uses_left {
            auth.member("remaining_uses", &left);
        }
        auth.member("token_type", caller.kind.word());
        auth.member("token_ttl", &record.creation_ttl);
        auth.member("token_issue_time", &time(record.issued.saturating_mul(1000)));
        digests.write(&mut auth);
        auth.end();
    }

    /// Writes the caller that a component authenticated by a token of its own.
    pub(crate) fn component_caller(&self, caller: &ComponentCaller, out: &mut Vec<u8>) {
        let mut auth = JsonObject::begin(out);
        self.accessor(&caller.accessor, auth.own_key("accessor"));
        self.text(&mut auth, "display_name", &caller.display_name);
        auth.member("token_type", "component");
        auth.end();
    }

    /// Writes a token that was issued or renewed.
    pub(super) fn auth(&self, auth: &AuthBlock, out: &mut Vec<u8>) {
        let (mut object, mut digests) = (JsonObject::begin(out), MemberDigests::default());
        self.write_hashed(auth.client_token.expose(), object.own_key("client_token"));
        self.accessor(&auth.accessor, object.own_key("accessor"));
        for (name, policies) in [
            ("policies", &auth.policies),
            ("token_policies", &auth.token_policies),
            ("identity_policies", &auth.identity_policies),
        ] {
            self.list(&mut object, &mut digests, name, (policies, policies.len()));
        }
        if let Some(metadata) = &auth.metadata {
            self.list(&mut object, &mut digests, "metadata", (metadata, metadata.len()));
        }
        if !auth.entity_id.is_empty() {
            self.text(&mut object, "entity_id", &auth.entity_id);
        }
        object.member("num_uses", &auth.num_uses);
        object.member("token_type", &auth.token_type);
        object.member("token_ttl", &auth.lease_duration);
        digests.write(&mut object);
        object.end();
    }

    /// Writes the wrapping information. The wrapping token hides the wrapped answer, and is itself
    /// hashed.
    pub(super) fn wrapping(&self, wrapped: &Value, out: &mut Vec<u8>) {
        let mut object = JsonObject::begin(out);
        for (name, value) in wrapped.as_object().into_iter().flatten() {
            match (name.as_str(), value.as_str()) {
                ("accessor" | "wrapped_accessor", Some(accessor)) => {
                    self.accessor(accessor, object.key(name))
                }
                ("token", Some(token)) => self.write_hashed(token, object.key(name)),
                (_, Some(text)) => {
                    self.text_within(bounds::CREATION_PATH, text, object.key(name));
                }
                _ => json::value(value, object.key(name)),
            }
        }
        object.end();
    }

    /// Writes the policy decision and the policies that grant the request.
    fn write_decision(&self, verdict: &PolicyDecision, out: &mut Vec<u8>) {
        let mut results = JsonObject::begin(out);
        match verdict {
            PolicyDecision::Denied => results.json("allowed", b"false"),
            PolicyDecision::Allowed(granting) => {
                results.json("allowed", b"true");
                let policy = |name: &Arc<str>| {
                    let (name, kind) = (&**name, "acl");
                    json!({ "name": name, "namespace_id": "root", "type": kind })
                };
                let policies: Vec<Value> = granting.iter().map(policy).collect();
                let mut digests = MemberDigests::default();
                let shown = (&policies, policies.len());
                self.list(&mut results, &mut digests, "granting_policies", shown);
                digests.write(&mut results);
            }
        }
        results.end();
    }

    /// Writes a list of policies, or metadata. A list that is too long becomes a digest with its
    /// length.
    fn list(
        &self,
        object: &mut JsonObject<'_>,
        digests: &mut MemberDigests,
        name: &'static str,
        (list, count): (&(impl Serialize + ?Sized), usize),
    ) {
        let mark = object.next_position();
        if !json::value_within(list, bounds::LIST, object.own_key(name)) {
            object.remove_after(mark);
            digests.add(&self.device.hashing, name, list, count);
        }
    }
}
