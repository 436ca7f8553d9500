//! Hashes of values in audit lines: HMAC-SHA256 under a key of the device.
//!
//! This file prevents a reader from guessing values from hashes, and from comparing the hashes of
//! two devices. The key is derived from the cluster and the device's name, so the same value keeps
//! the same hash across restarts and key rotations, and even if the device is deleted and created
//! again.

use aws_lc_rs::hmac;
use bulkhead_store::Store;
use bulkhead_wire::hexadecimal;
use serde::Serialize;
use std::io::{self, BufWriter, Write};

/// Prefix of every hash, so that readers can tell a hash from a value.
const MARK: &[u8] = b"hmac-sha256:";
/// Length of a hash in bytes.
const LENGTH: usize = MARK.len() + 64;

/// The hashing key of a device.
pub struct HashingKey(hmac::Key);

impl HashingKey {
    /// Returns the hashing of the device `name` in the cluster of `store`.
    pub(super) fn of(store: &Store, name: &str) -> Self {
        Self::new(store.keyed_hash(&format!("audit/{name}"), b"salt").as_bytes())
    }

    /// Returns a hashing under `key`. Prepares the key schedule once instead of for each value.
    pub(super) fn new(key: &[u8]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, key))
    }

    /// Returns `hmac-sha256:<64 hexadecimal digits>` of `value`.
    pub fn hash(&self, value: &str) -> String {
        let mut text = Vec::with_capacity(LENGTH);
        self.push(value.as_bytes(), &mut text);
        text.into_iter().map(char::from).collect()
    }

    /// Appends the hash of `value` to `out`, in the same form.
    pub(super) fn push(&self, value: &[u8], out: &mut Vec<u8>) {
        out.reserve(LENGTH);
        out.extend_from_slice(MARK);
        hexadecimal::push(hmac::sign(&self.0, value).as_ref(), out);
    }

    /// Hashes the JSON of `value`, without spaces and with object keys in byte order. Does not
    /// build the JSON in memory.
    pub(super) fn hash_json(&self, value: &(impl Serialize + ?Sized)) -> String {
        let mut hashed = BufWriter::new(HashingWriter(hmac::Context::with_key(&self.0)));
        let mut text = Vec::with_capacity(LENGTH);
        text.extend_from_slice(MARK);
        // Neither step can fail: the writer takes every byte, and all keys are texts.
        let written = serde_json::to_writer(&mut hashed, value).is_ok();
        if let (true, Ok(HashingWriter(context))) = (written, hashed.into_inner()) {
            hexadecimal::push(context.sign().as_ref(), &mut text);
        }
        text.into_iter().map(char::from).collect()
    }
}

/// A writer that hashes all bytes.
struct HashingWriter(hmac::Context);

impl Write for HashingWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_is_hexadecimal_hmac_of_value() {
        // RFC 4231, test case 2.
        let hash = HashingKey::new(b"Jefe").hash("what do ya want for nothing?");
        assert_eq!(
            hash,
            "hmac-sha256:5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
    }

    #[test]
    fn digest_is_hash_of_json_with_sorted_keys() {
        let hashing = HashingKey::new(b"key");
        let digest = hashing.hash_json(&serde_json::json!({ "b": ["", 1], "a": null }));
        assert_eq!(digest, hashing.hash(r#"{"a":null,"b":["",1]}"#));
    }

    #[test]
    fn another_key_gives_another_hash() {
        assert_eq!(HashingKey::new(b"one").hash("x"), HashingKey::new(b"one").hash("x"));
        assert_ne!(HashingKey::new(b"one").hash("x"), HashingKey::new(b"other").hash("x"));
        assert_ne!(HashingKey::new(b"one").hash("x"), HashingKey::new(b"one").hash("y"));
    }
}
