//! Keys, labels and the cipher that seals and opens bytes.
//!
//! This file prevents reading, moving, exchanging or editing sealed bytes. A label (decision T7)
//! names the kind and place of the sealed bytes. The label is authenticated together with the body,
//! so sealed bytes copied to another place no longer open.
//!
//! Layout of sealed bytes: format (1 byte), term (4 bytes, big-endian), nonce (24 bytes, random),
//! ciphertext with tag.

use aws_lc_rs::{hkdf, rand};
use chacha20poly1305::aead::{Aead, Payload};
use chacha20poly1305::{KeyInit, XChaCha20Poly1305, XNonce};
use zeroize::Zeroizing;

use crate::fault::StoreFault;

/// The id of a store's cluster: random, generated at initialisation.
pub type ClusterId = [u8; 16];

/// Length of every key in bytes.
pub const KEY_BYTES: usize = 32;

/// A key, wiped from memory when dropped.
pub type KeyBytes = Zeroizing<[u8; KEY_BYTES]>;

/// First byte of all sealed bytes, and part of every label: the version of the layout.
const SEALED_FORMAT: u8 = 2;
const NONCE_BYTES: usize = 24;
/// Bytes by which a sealed body is longer than the body: format, term, nonce and tag.
pub const SEAL_OVERHEAD_BYTES: usize = 1 + 4 + NONCE_BYTES + 16;
/// Namespaces are to come (decision P6); until then all records belong to this namespace.
const NAMESPACE: &str = "root";
/// The term of bytes sealed by a key outside the keyring.
const NO_TERM: u32 = 0;

/// The 256-bit key that opens a data directory. Wiped from memory when dropped. The type has no
/// text form, so the key cannot reach a log.
#[derive(Clone)]
pub struct SealKey(KeyBytes);

impl SealKey {
    /// Generates a random key.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the system gives no randomness.
    pub fn generate() -> Result<SealKey, StoreFault> {
        random_key().map(SealKey)
    }

    /// Creates the key from exactly these bytes, which must be random.
    pub fn from_bytes(bytes: [u8; KEY_BYTES]) -> SealKey {
        SealKey(Zeroizing::new(bytes))
    }

    /// Creates the key from a copy of these bytes, which must be random, without a further copy.
    pub fn copy_of(bytes: &[u8; KEY_BYTES]) -> SealKey {
        let mut key = KeyBytes::default();
        key.copy_from_slice(bytes);
        SealKey(key)
    }

    /// Returns the raw key, for its encryption by the keeper of an automatic seal.
    pub fn bytes(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }
}

/// Returns `N` random bytes from the operating system's generator.
///
/// # Errors
/// [`StoreFault::Unavailable`] if the system gives no randomness.
pub fn random<const N: usize>() -> Result<[u8; N], StoreFault> {
    let mut bytes = [0; N];
    rand::fill(&mut bytes).map_err(|_| missing_randomness())?;
    Ok(bytes)
}

/// Generates a random key, only in memory that is wiped when dropped.
///
/// # Errors
/// [`StoreFault::Unavailable`] if the system gives no randomness.
pub fn random_key() -> Result<KeyBytes, StoreFault> {
    let mut key = KeyBytes::default();
    rand::fill(key.as_mut_slice()).map_err(|_| missing_randomness())?;
    Ok(key)
}

/// Returns the fault of a system without randomness.
pub fn missing_randomness() -> StoreFault {
    StoreFault::Unavailable("the operating system gives no random bytes; restart the host".into())
}

/// The authenticated context of sealed bytes: a list of fields, each preceded by its length, so
/// that two different lists never give the same bytes.
pub struct AssociatedData(Vec<u8>);

impl AssociatedData {
    /// Starts a label with the kind of sealed bytes (`record`, `root`, `keyring`) and their place:
    /// format, cluster and namespace.
    pub fn of(cluster: &ClusterId, what: &str) -> AssociatedData {
        AssociatedData(Vec::with_capacity(256))
            .field(&[SEALED_FORMAT])
            .text(what)
            .field(cluster)
            .text(NAMESPACE)
    }

    /// Appends a field.
    pub fn field(mut self, bytes: &[u8]) -> AssociatedData {
        self.0.extend_from_slice(&(bytes.len() as u64).to_be_bytes());
        self.0.extend_from_slice(bytes);
        self
    }

    /// Appends a field of text.
    pub fn text(self, text: &str) -> AssociatedData {
        self.field(text.as_bytes())
    }
}

/// A sealing key and the key's term.
pub struct TermCipher {
    term: u32,
    key: KeyBytes,
}

impl TermCipher {
    /// Creates the cipher of a keyring's term.
    pub fn of_term(term: u32, key: KeyBytes) -> TermCipher {
        TermCipher { term, key }
    }

    /// Derives the cipher of a `purpose` and a cluster. The key `from` encrypts nothing itself;
    /// every purpose has a derived key.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the derivation fails, which no valid input causes.
    pub fn derive(
        from: &[u8; KEY_BYTES],
        cluster: &ClusterId,
        purpose: &'static str,
    ) -> Result<TermCipher, StoreFault> {
        let mut key = KeyBytes::default();
        hkdf::Salt::new(hkdf::HKDF_SHA256, cluster)
            .extract(from)
            .expand(&[purpose.as_bytes()], hkdf::HKDF_SHA256)
            .and_then(|output| output.fill(key.as_mut_slice()))
            .map_err(|_| {
                StoreFault::Unavailable(format!(
                    "deriving the key for {purpose:?} failed; restart the host"
                ))
            })?;
        Ok(TermCipher { term: NO_TERM, key })
    }

    /// Returns the term; 0 for a key outside the keyring.
    pub fn term(&self) -> u32 {
        self.term
    }

    /// Returns the raw key, to be sealed by another key.
    pub fn key(&self) -> &[u8; KEY_BYTES] {
        &self.key
    }

    /// Encrypts `body`, bound to `label` and the term.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if there is no randomness, or the body is longer than the cipher
    /// allows (256 GiB).
    pub fn seal(&self, label: AssociatedData, body: &[u8]) -> Result<Vec<u8>, StoreFault> {
        let nonce: [u8; NONCE_BYTES] = random()?;
        let term = self.term.to_be_bytes();
        let payload = Payload { msg: body, aad: &label.field(&term).0 };
        let encrypted = self.cipher().encrypt(&XNonce::from(nonce), payload).map_err(|_| {
            StoreFault::Unavailable(format!(
                "a record of {} bytes is longer than can be sealed",
                body.len()
            ))
        })?;
        let mut sealed = Vec::with_capacity(1 + term.len() + NONCE_BYTES + encrypted.len());
        sealed.push(SEALED_FORMAT);
        sealed.extend_from_slice(&term);
        sealed.extend_from_slice(&nonce);
        sealed.extend_from_slice(&encrypted);
        Ok(sealed)
    }

    /// Returns the body that this key sealed under exactly this label; `None` for any other bytes.
    pub fn open(&self, label: AssociatedData, sealed: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        let (term, rest) = split_term(sealed)?;
        if term != self.term {
            return None;
        }
        let (nonce, encrypted) = rest.split_first_chunk::<NONCE_BYTES>()?;
        let payload = Payload { msg: encrypted, aad: &label.field(&term.to_be_bytes()).0 };
        self.cipher().decrypt(&XNonce::from(*nonce), payload).ok().map(Zeroizing::new)
    }

    fn cipher(&self) -> XChaCha20Poly1305 {
        XChaCha20Poly1305::new((&*self.key).into())
    }
}

/// Returns the term in sealed bytes; `None` if the bytes have another format.
pub fn term_of(sealed: &[u8]) -> Option<u32> {
    split_term(sealed).map(|(term, _)| term)
}

fn split_term(sealed: &[u8]) -> Option<(u32, &[u8])> {
    let (&SEALED_FORMAT, rest) = sealed.split_first()? else {
        return None;
    };
    let (term, rest) = rest.split_first_chunk()?;
    Some((u32::from_be_bytes(*term), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: ClusterId = [7; 16];

    fn cipher(byte: u8) -> TermCipher {
        TermCipher::of_term(1, KeyBytes::new([byte; KEY_BYTES]))
    }

    fn label(fields: &[&str]) -> AssociatedData {
        fields.iter().fold(AssociatedData::of(&HERE, "record"), |label, field| label.text(field))
    }

    #[test]
    fn sealed_bytes_open_under_the_same_label() {
        let sealed = cipher(1).seal(label(&["a", "b"]), b"hunter2").unwrap();
        assert_eq!(cipher(1).open(label(&["a", "b"]), &sealed).unwrap().as_slice(), b"hunter2");
        assert_eq!(term_of(&sealed), Some(1));
    }

    #[test]
    fn fields_joining_to_same_text_give_different_labels() {
        let sealed = cipher(1).seal(label(&["ab", "c"]), b"body").unwrap();
        for other in
            [label(&["a", "bc"]), label(&["abc"]), label(&["ab", "c", ""]), label(&["c", "ab"])]
        {
            assert!(cipher(1).open(other, &sealed).is_none());
        }
    }

    #[test]
    fn other_key_cluster_or_purpose_opens_nothing() {
        let sealed = cipher(1).seal(label(&[]), b"body").unwrap();
        assert!(cipher(2).open(label(&[]), &sealed).is_none());
        assert!(cipher(1).open(AssociatedData::of(&[8; 16], "record"), &sealed).is_none());
        assert!(cipher(1).open(AssociatedData::of(&HERE, "keyring"), &sealed).is_none());
        let derived =
            |cluster, purpose| TermCipher::derive(&[1; KEY_BYTES], cluster, purpose).unwrap();
        let sealed = derived(&HERE, "one").seal(label(&[]), b"body").unwrap();
        assert!(derived(&HERE, "one").open(label(&[]), &sealed).is_some());
        assert!(derived(&HERE, "two").open(label(&[]), &sealed).is_none());
        assert!(derived(&[8; 16], "one").open(label(&[]), &sealed).is_none());
    }

    #[test]
    fn the_same_key_under_another_term_opens_nothing() {
        let key = || KeyBytes::new([1; KEY_BYTES]);
        let mut sealed = TermCipher::of_term(1, key()).seal(label(&[]), b"body").unwrap();
        assert!(TermCipher::of_term(2, key()).open(label(&[]), &sealed).is_none());
        sealed[4] = 2;
        assert_eq!(term_of(&sealed), Some(2));
        assert!(
            TermCipher::of_term(2, key()).open(label(&[]), &sealed).is_none(),
            "the term is in the label"
        );
    }

    #[test]
    fn every_changed_byte_or_shortened_text_is_refused() {
        let sealed = cipher(1).seal(label(&["a"]), b"body").unwrap();
        for position in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[position] ^= 1;
            assert!(cipher(1).open(label(&["a"]), &changed).is_none(), "byte {position}");
            assert!(
                cipher(1).open(label(&["a"]), &sealed[..position]).is_none(),
                "first {position} bytes"
            );
        }
    }

    #[test]
    fn sealing_twice_gives_different_bytes() {
        assert_ne!(
            cipher(1).seal(label(&[]), b"body").unwrap(),
            cipher(1).seal(label(&[]), b"body").unwrap()
        );
    }

    #[test]
    fn generated_keys_differ() {
        assert_ne!(SealKey::generate().unwrap().bytes(), SealKey::generate().unwrap().bytes());
    }
}
