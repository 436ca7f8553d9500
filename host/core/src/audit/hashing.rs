//! How a device names a value without showing it: HMAC-SHA256 under a key of its own.
//!
//! The attack this file stops: values guessed from their hashes, and one device's hashes compared
//! with another's. The key follows from the cluster and the device's name, so that the same value
//! has the same hash for as long as both live, even where keys are rotated, restarted or made anew.

use aws_lc_rs::hmac;
use bulkhead_store::Store;
use bulkhead_wire::hexadecimal;
use serde::Serialize;
use std::io::{self, BufWriter, Write};

/// Stands in front of every hash, so that readers can tell it from a value.
const MARK: &[u8] = b"hmac-sha256:";
/// Bytes of a hash.
const LENGTH: usize = MARK.len() + 64;

/// The hashes of one device.
pub(crate) struct Hashing(hmac::Key);

impl Hashing {
    /// The hashes of the device `name` in the cluster of `store`.
    pub(super) fn of(store: &Store, name: &str) -> Self {
        Self::new(store.keyed_hash(&format!("audit/{name}"), b"salt").as_bytes())
    }

    /// Hashes under `key`. It is scheduled here, once, and not at each value.
    pub(super) fn new(key: &[u8]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, key))
    }

    /// `hmac-sha256:<64 hexadecimal digits>` of `value`.
    pub(crate) fn hash(&self, value: &str) -> String {
        let mut text = Vec::with_capacity(LENGTH);
        self.push(value.as_bytes(), &mut text);
        text.into_iter().map(char::from).collect()
    }

    /// Appends the same to `out`.
    pub(super) fn push(&self, value: &[u8], out: &mut Vec<u8>) {
        out.reserve(LENGTH);
        out.extend_from_slice(MARK);
        hexadecimal::push(hmac::sign(&self.0, value).as_ref(), out);
    }

    /// The hash of the JSON of `value`: without spaces, and with the keys of objects in the order
    /// of their bytes. That JSON is not built in memory.
    pub(super) fn hash_json(&self, value: &(impl Serialize + ?Sized)) -> String {
        let mut hashed = BufWriter::new(Hashed(hmac::Context::with_key(&self.0)));
        let mut text = Vec::with_capacity(LENGTH);
        text.extend_from_slice(MARK);
        // A context takes every byte, and keys are texts: neither of both can fail.
        let written = serde_json::to_writer(&mut hashed, value).is_ok();
        if let (true, Ok(Hashed(context))) = (written, hashed.into_inner()) {
            hexadecimal::push(context.sign().as_ref(), &mut text);
        }
        text.into_iter().map(char::from).collect()
    }
}

/// What is written here is hashed.
struct Hashed(hmac::Context);

impl Write for Hashed {
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
    fn a_hash_is_the_hmac_of_the_value_in_hexadecimal() {
        // RFC 4231, test case 2.
        let hash = Hashing::new(b"Jefe").hash("what do ya want for nothing?");
        assert_eq!(
            hash,
            "hmac-sha256:5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
    }

    #[test]
    fn a_digest_is_the_hash_of_the_json_with_its_keys_in_order() {
        let hashing = Hashing::new(b"key");
        let digest = hashing.hash_json(&serde_json::json!({ "b": ["", 1], "a": null }));
        assert_eq!(digest, hashing.hash(r#"{"a":null,"b":["",1]}"#));
    }

    #[test]
    fn another_key_gives_another_hash() {
        assert_eq!(Hashing::new(b"one").hash("x"), Hashing::new(b"one").hash("x"));
        assert_ne!(Hashing::new(b"one").hash("x"), Hashing::new(b"other").hash("x"));
        assert_ne!(Hashing::new(b"one").hash("x"), Hashing::new(b"one").hash("y"));
    }
}
