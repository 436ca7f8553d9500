//! Values that are too long for a line, each as one digest.

use super::hashing::Hashing;
use super::json::{self, Object};
use serde::Serialize;

/// Members of an object that a line leaves out, each by its name with the hash of its JSON and the
/// number of the values in it. They stand in `digested`, beside or in that object: no caller can
/// make a value that looks like one.
#[derive(Default)]
pub(super) struct Digests(Vec<u8>);

impl Digests {
    /// Adds the value `name`, in which there are so many `values`.
    pub(super) fn add(
        &mut self,
        hashing: &Hashing,
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
        let mut digest = Object::begin(&mut self.0);
        digest.member("digest", hash);
        digest.member("values", &values);
        digest.end();
    }

    /// Bytes that they take so far.
    pub(super) fn written(&self) -> usize {
        self.0.len()
    }

    /// Takes back what was added after `written` bytes.
    pub(super) fn cut(&mut self, written: usize) {
        self.0.truncate(written);
    }

    /// Writes them as the member `digested`, where there are any.
    pub(super) fn write(&self, object: &mut Object<'_>) {
        if self.0.is_empty() {
            return;
        }
        let mut digested = Object::begin(object.own_key("digested"));
        digested.members(&self.0);
        digested.end();
    }
}
