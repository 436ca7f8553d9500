//! Digests of values that are too long for a line.

use super::hashing::HashingKey;
use super::json::{self, JsonObject};
use serde::Serialize;

/// Digests of the members that a line leaves out: name, hash of the JSON, number of values.
///
/// The line shows the digests in the member `digested`, beside or inside the object, so no caller
/// can send a value that looks like a digest.
#[derive(Default)]
pub(super) struct MemberDigests(Vec<u8>);

impl MemberDigests {
    /// Adds the value `name`, which contains `values` values.
    pub(super) fn add(
        &mut self,
        hashing: &HashingKey,
        name: &str,
        value: &(impl Serialize + ?Sized),
        values: usize,
    ) {
        self.add_hash(&hashing.hash_json(value), name, values);
    }

    /// Adds the value `name` by its hash.
    pub(super) fn add_hash(&mut self, hash: &str, name: &str, values: usize) {
        if !self.0.is_empty() {
            self.0.push(b',');
        }
        json::value(name, &mut self.0);
        self.0.push(b':');
        let mut digest = JsonObject::begin(&mut self.0);
        digest.member("digest", hash);
        digest.member("values", &values);
        digest.end();
    }

    /// Returns the length of the digests in bytes, so far.
    pub(super) fn written(&self) -> usize {
        self.0.len()
    }

    /// Removes the digests that were added after `written` bytes.
    pub(super) fn cut(&mut self, written: usize) {
        self.0.truncate(written);
    }

    /// Writes the digests as the member `digested`, if there are any.
    pub(super) fn write(&self, object: &mut JsonObject<'_>) {
        if self.0.is_empty() {
            return;
        }
        let mut digested = JsonObject::begin(object.own_key("digested"));
        digested.members(&self.0);
        digested.end();
    }
}
