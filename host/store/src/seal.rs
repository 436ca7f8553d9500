//! The seal: from one key to encrypted records that open only where they were written.
//!
//! The attacks this file stops: reading the database file, and moving, exchanging or editing what is in it. A record's
//! label (decision T7, and the index columns) is authenticated with its body, so a row that was copied to another
//! address, put back from an earlier write or given another due time no longer opens.
//!
//! The key that is given encrypts nothing itself; every purpose has a key of its own, derived from it.

use aws_lc_rs::{hkdf, hmac, rand};
use chacha20poly1305::aead::{Aead, Payload};
use chacha20poly1305::{KeyInit, XChaCha20Poly1305, XNonce};
use zeroize::Zeroizing;

use crate::fault::StoreFault;

/// Which cluster a store belongs to: random, drawn when its database is made.
pub(crate) type ClusterId = [u8; 16];

/// Bytes of a key of the seal.
pub(crate) const KEY_BYTES: usize = 32;
const NONCE_BYTES: usize = 24;
/// First byte of everything sealed, and part of its label: says how the rest is to be read.
const SEALED_FORMAT: u8 = 1;
/// Namespaces are to come (decision P6); until then all records are in this one.
const NAMESPACE: &str = "root";

/// The 256-bit key from which a store's keys are derived. Wiped from memory when dropped; it has no text form, so it
/// cannot reach a log.
pub struct SealKey(Zeroizing<[u8; KEY_BYTES]>);

impl SealKey {
    /// A new random key.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] when the system gives no randomness.
    pub fn generate() -> Result<SealKey, StoreFault> {
        Ok(SealKey(Zeroizing::new(random()?)))
    }

    /// The key made of exactly these bytes, which must be random.
    pub fn from_bytes(bytes: [u8; KEY_BYTES]) -> SealKey {
        SealKey(Zeroizing::new(bytes))
    }

    /// The raw key, for the one place that keeps it: the dev seal's file.
    pub(crate) fn bytes(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }
}

/// `N` random bytes from the operating system's generator.
///
/// # Errors
/// [`StoreFault::Unavailable`] when the system gives no randomness.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], StoreFault> {
    let mut bytes = [0; N];
    rand::fill(&mut bytes)
        .map_err(|_| StoreFault::Unavailable("the operating system gives no random bytes; restart the host".into()))?;
    Ok(bytes)
}

/// What a sealed body is bound to: a list of fields, each preceded by its length, so that no two different lists
/// give the same bytes.
pub(crate) struct Label(Vec<u8>);

impl Label {
    /// The label with one more field.
    pub(crate) fn field(mut self, bytes: &[u8]) -> Label {
        self.0.extend_from_slice(&(bytes.len() as u64).to_be_bytes());
        self.0.extend_from_slice(bytes);
        self
    }

    /// The label with one more field of text.
    pub(crate) fn text(self, text: &str) -> Label {
        self.field(text.as_bytes())
    }
}

/// The derived keys of one cluster's store.
pub(crate) struct Seal {
    cluster: ClusterId,
    records: XChaCha20Poly1305,
    hashes: hmac::Key,
}

impl Seal {
    /// Derives the keys of the cluster with this id. The given key itself is not kept.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] when derivation fails, which no valid input causes.
    pub(crate) fn new(key: &SealKey, cluster: ClusterId) -> Result<Seal, StoreFault> {
        let root = hkdf::Salt::new(hkdf::HKDF_SHA256, &cluster).extract(key.bytes());
        let records = derive(&root, "bulkhead: seal of records")?;
        let hashes = derive(&root, "bulkhead: keyed hashes")?;
        Ok(Seal {
            cluster,
            records: XChaCha20Poly1305::new((&*records).into()),
            hashes: hmac::Key::new(hmac::HMAC_SHA256, &*hashes),
        })
    }

    /// A label that begins with what is sealed (`record`, `canary`) and where: format, cluster and namespace.
    pub(crate) fn label(&self, what: &str) -> Label {
        Label(Vec::with_capacity(256)).field(&[SEALED_FORMAT]).text(what).field(&self.cluster).text(NAMESPACE)
    }

    /// Encrypts `body` and binds it to `label`.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] when there is no randomness, or the body is longer than the cipher allows (256 GiB).
    pub(crate) fn seal(&self, label: &Label, body: &[u8]) -> Result<Vec<u8>, StoreFault> {
        let nonce: [u8; NONCE_BYTES] = random()?;
        let payload = Payload { msg: body, aad: &label.0 };
        let encrypted = self.records.encrypt(&XNonce::from(nonce), payload).map_err(|_| {
            StoreFault::Unavailable(format!("a record of {} bytes is longer than can be sealed", body.len()))
        })?;
        let mut sealed = Vec::with_capacity(1 + NONCE_BYTES + encrypted.len());
        sealed.push(SEALED_FORMAT);
        sealed.extend_from_slice(&nonce);
        sealed.extend_from_slice(&encrypted);
        Ok(sealed)
    }

    /// The body that was sealed under exactly this label; `None` for anything else.
    pub(crate) fn open(&self, label: &Label, sealed: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        let (&SEALED_FORMAT, rest) = sealed.split_first()? else {
            return None;
        };
        let (nonce, encrypted) = rest.split_first_chunk::<NONCE_BYTES>()?;
        let payload = Payload { msg: encrypted, aad: &label.0 };
        self.records.decrypt(&XNonce::from(*nonce), payload).ok().map(Zeroizing::new)
    }

    /// HMAC-SHA256 of `text` under a key that only `purpose` has, in hexadecimal.
    pub(crate) fn keyed_hash(&self, purpose: &str, text: &[u8]) -> String {
        let purpose_key = hmac::Key::new(hmac::HMAC_SHA256, hmac::sign(&self.hashes, purpose.as_bytes()).as_ref());
        hexadecimal(hmac::sign(&purpose_key, text).as_ref())
    }
}

fn derive(root: &hkdf::Prk, purpose: &str) -> Result<Zeroizing<[u8; KEY_BYTES]>, StoreFault> {
    let mut key = Zeroizing::new([0; KEY_BYTES]);
    root.expand(&[purpose.as_bytes()], hkdf::HKDF_SHA256)
        .and_then(|output| output.fill(&mut *key))
        .map_err(|_| StoreFault::Unavailable(format!("deriving the key for {purpose:?} failed; restart the host")))?;
    Ok(key)
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 0x0f])
        .filter_map(|digit| char::from_digit(u32::from(digit), 16))
        .collect()
}

#[cfg(test)]
#[allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests fail by panicking"
)]
mod tests {
    use super::*;

    fn seal_with(byte: u8) -> Seal {
        Seal::new(&SealKey::from_bytes([byte; KEY_BYTES]), [7; 16]).unwrap()
    }

    fn label(fields: &[&str]) -> Label {
        fields.iter().fold(seal_with(1).label("record"), |label, field| label.text(field))
    }

    #[test]
    fn what_was_sealed_opens_under_the_same_label() {
        let seal = seal_with(1);
        let sealed = seal.seal(&label(&["a", "b"]), b"hunter2").unwrap();
        assert_eq!(seal.open(&label(&["a", "b"]), &sealed).unwrap().as_slice(), b"hunter2");
    }

    #[test]
    fn fields_that_join_to_the_same_text_are_different_labels() {
        let seal = seal_with(1);
        let sealed = seal.seal(&label(&["ab", "c"]), b"body").unwrap();
        for other in [label(&["a", "bc"]), label(&["abc"]), label(&["ab", "c", ""]), label(&["c", "ab"])] {
            assert!(seal.open(&other, &sealed).is_none());
        }
    }

    #[test]
    fn another_key_or_another_cluster_opens_nothing() {
        let sealed = seal_with(1).seal(&label(&["a"]), b"body").unwrap();
        assert!(seal_with(2).open(&label(&["a"]), &sealed).is_none());
        let elsewhere = Seal::new(&SealKey::from_bytes([1; KEY_BYTES]), [8; 16]).unwrap();
        assert!(elsewhere.open(&label(&["a"]), &sealed).is_none());
    }

    #[test]
    fn every_changed_byte_and_every_shortened_text_is_refused() {
        let seal = seal_with(1);
        let sealed = seal.seal(&label(&["a"]), b"body").unwrap();
        for position in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[position] ^= 1;
            assert!(seal.open(&label(&["a"]), &changed).is_none(), "byte {position}");
            assert!(seal.open(&label(&["a"]), &sealed[..position]).is_none(), "first {position} bytes");
        }
    }

    #[test]
    fn sealing_twice_gives_different_bytes() {
        let seal = seal_with(1);
        assert_ne!(seal.seal(&label(&["a"]), b"body").unwrap(), seal.seal(&label(&["a"]), b"body").unwrap());
    }

    #[test]
    fn a_keyed_hash_depends_on_key_purpose_and_text_and_on_nothing_else() {
        let hash = seal_with(1).keyed_hash("token", b"bhs.abc");
        assert_eq!(hash.len(), 64);
        assert!(hash.chars().all(|digit| matches!(digit, '0'..='9' | 'a'..='f')));
        assert_eq!(hash, seal_with(1).keyed_hash("token", b"bhs.abc"));
        assert_ne!(hash, seal_with(2).keyed_hash("token", b"bhs.abc"));
        assert_ne!(hash, seal_with(1).keyed_hash("lease", b"bhs.abc"));
        assert_ne!(hash, seal_with(1).keyed_hash("token", b"bhs.abd"));
    }

    #[test]
    fn generated_keys_differ() {
        assert_ne!(SealKey::generate().unwrap().bytes(), SealKey::generate().unwrap().bytes());
    }
}
