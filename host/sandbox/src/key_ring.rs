//! Parsed public keys with which a mount's calls verified: parsing a key takes longer than a
//! verification.
//!
//! This file prevents a component that always verifies with new keys from filling more than its own
//! mount's ring, which evicts the least recently used key. A parsed private key is kept only for
//! the call that signs with it.

use crate::limits;
use bulkhead_crypto::{PrivateKey, SigningKey, VerifyingKey};
use bulkhead_outbound::fingerprint::Fingerprint;
use bulkhead_outbound::least_used::LeastUsed;
use bulkhead_wire::failure::Failure;
use bulkhead_wire::sync;
use std::sync::{Arc, Mutex};

/// The keys of a mount, by their text and their algorithm.
pub(crate) struct KeyRing(Mutex<LeastUsed<Arc<VerifyingKey>>>);

impl Default for KeyRing {
    fn default() -> Self {
        Self(Mutex::new(LeastUsed::of(limits::PARSED_KEYS)))
    }
}

impl KeyRing {
    /// Returns the key of a text for an algorithm. Parses the key if it is not in the ring.
    ///
    /// # Errors
    /// The errors of [`VerifyingKey::read`]; nothing is kept in this case.
    pub(crate) fn read(&self, algorithm: &str, text: &str) -> Result<Arc<VerifyingKey>, Failure> {
        let of = fingerprint(algorithm, text);
        if let Some(key) = sync::lock(&self.0).get(&of) {
            return Ok(key);
        }
        // Parsed without the lock: two concurrent calls may both parse.
        let key = Arc::new(VerifyingKey::read(algorithm, text)?);
        sync::lock(&self.0).insert(of, Arc::clone(&key));
        Ok(key)
    }
}

/// The private key of the call's last signature. A call that signs many texts mostly uses the same
/// key.
#[derive(Default)]
pub(crate) struct LastSigner(Mutex<Option<(Fingerprint, Arc<SigningKey>)>>);

impl LastSigner {
    /// Returns the key of a text for an algorithm.
    ///
    /// # Errors
    /// The errors of [`PrivateKey::read`] and [`SigningKey::read`]; the previous key is kept in
    /// this case.
    pub(crate) fn read(&self, algorithm: &str, text: &str) -> Result<Arc<SigningKey>, Failure> {
        let of = fingerprint(algorithm, text);
        if let Some((last_fingerprint, key)) = &*sync::lock(&self.0)
            && *last_fingerprint == of
        {
            return Ok(Arc::clone(key));
        }
        let key = Arc::new(SigningKey::read(algorithm, &PrivateKey::read(text)?)?);
        *sync::lock(&self.0) = Some((of, Arc::clone(&key)));
        Ok(key)
    }
}

fn fingerprint(algorithm: &str, text: &str) -> Fingerprint {
    Fingerprint::begin().bytes(algorithm).bytes(text).end()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bulkhead_crypto::KeyParameters;

    fn key(kind: &str) -> String {
        KeyParameters::read(kind, 0, "pkcs8")
            .unwrap()
            .generate_key()
            .unwrap()
            .public_key
            .jwk()
            .unwrap()
    }

    fn count(ring: &KeyRing) -> usize {
        sync::lock(&ring.0).count()
    }

    #[test]
    fn a_key_is_read_once_for_each_algorithm() {
        let (ring, rsa) = (KeyRing::default(), key("rsa"));
        let once = ring.read("RS256", &rsa).unwrap();
        assert!(Arc::ptr_eq(&once, &ring.read("RS256", &rsa).unwrap()));
        assert!(!Arc::ptr_eq(&once, &ring.read("PS256", &rsa).unwrap()));
        assert_eq!(count(&ring), 2);
        assert!(ring.read("ES256", &rsa).is_err());
        assert!(ring.read("RS256", "no key").is_err());
        assert_eq!(count(&ring), 2, "a text that is not a key is not cached");
    }

    #[test]
    fn full_key_ring_drops_least_recently_used_key() {
        let ring = KeyRing::default();
        let keys: Vec<String> = (0..=limits::PARSED_KEYS).map(|_| key("ed25519")).collect();
        let (first, others) = keys.split_first().unwrap();
        let first_key = ring.read("EdDSA", first).unwrap();
        for other in others.iter().skip(1) {
            ring.read("EdDSA", other).unwrap();
        }
        assert!(Arc::ptr_eq(&first_key, &ring.read("EdDSA", first).unwrap()), "used again");
        let second = ring.read("EdDSA", &keys[2]).unwrap();
        ring.read("EdDSA", &keys[1]).unwrap();
        assert_eq!(count(&ring), limits::PARSED_KEYS);
        assert!(Arc::ptr_eq(&first_key, &ring.read("EdDSA", first).unwrap()));
        assert!(Arc::ptr_eq(&second, &ring.read("EdDSA", &keys[2]).unwrap()));
    }

    #[test]
    fn last_signing_key_is_reused_for_same_algorithm() {
        let signer = LastSigner::default();
        let new_key =
            || KeyParameters::read("rsa", 0, "pkcs8").unwrap().generate_key().unwrap().private_key;
        let (one, other) = (new_key(), new_key());
        let once = signer.read("RS256", &one).unwrap();
        assert!(Arc::ptr_eq(&once, &signer.read("RS256", &one).unwrap()));
        assert!(signer.read("ES256", &one).is_err());
        assert!(Arc::ptr_eq(&once, &signer.read("RS256", &one).unwrap()), "the last key is cached");
        assert!(!Arc::ptr_eq(&once, &signer.read("PS256", &one).unwrap()));
        let others = signer.read("RS256", &other).unwrap();
        assert_ne!(once.sign(b"text").unwrap(), others.sign(b"text").unwrap());
        assert!(
            !Arc::ptr_eq(&once, &signer.read("RS256", &one).unwrap()),
            "only one key is cached"
        );
    }
}
