//! The open seal of a cluster: seals and opens records while the store is open, and computes keyed
//! hashes.
//!
//! This file prevents a record sealed under a key that is not on disk yet, or that another process
//! of the cluster does not know yet. A new keyring is stored before use, opens records from then
//! on, and seals records by its newest term only once the caller knows that every process has read
//! the keyring.

use std::collections::BTreeMap;
use std::sync::{Arc, RwLock};

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bulkhead_wire::{hexadecimal, sync};
use zeroize::Zeroizing;

use crate::cipher::{self, AssociatedData, ClusterId, KEY_BYTES, SealKey};
use crate::fault::StoreFault;
use crate::keyring::{KeyStatus, Keyring, RootKey};
use crate::root_seals::{AutomaticRoot, AutomaticSeal, HolderSeal};
use crate::shamir::SealConfig;

/// Length of a keyed hash in bytes (SHA-256).
const HASH_BYTES: usize = 32;

/// A hasher of secret texts. A hash can be looked up but not turned back into the text.
pub struct SecretHasher {
    key: hmac::Key,
    /// Cached keys by purpose. Every request hashes a token, and deriving the key each time would
    /// cost twice as much as the hash. The number of keys is bounded by the service's purposes.
    purposes: RwLock<BTreeMap<String, hmac::Key>>,
}

impl SecretHasher {
    /// Creates a hasher with this key.
    pub fn new(key: &[u8; KEY_BYTES]) -> SecretHasher {
        SecretHasher { key: hmac::Key::new(hmac::HMAC_SHA256, key), purposes: RwLock::default() }
    }

    /// Returns HMAC-SHA256 of `text` under a key specific to this cluster and this `purpose`, as 64
    /// hexadecimal digits. The program or its operator chooses the purpose from a few words, never
    /// a caller.
    pub fn keyed_hash(&self, purpose: &str, text: &[u8]) -> String {
        hexadecimal::text(&self.keyed_bytes(purpose, text))
    }

    /// Returns the hash of [`SecretHasher::keyed_hash`] as bytes.
    pub fn keyed_bytes(&self, purpose: &str, text: &[u8]) -> [u8; HASH_BYTES] {
        let bytes = |tag: hmac::Tag| tag.as_ref().try_into().unwrap_or([0; HASH_BYTES]);
        if let Some(key) = sync::read(&self.purposes).get(purpose) {
            return bytes(hmac::sign(key, text));
        }
        let key =
            hmac::Key::new(hmac::HMAC_SHA256, hmac::sign(&self.key, purpose.as_bytes()).as_ref());
        let hash = bytes(hmac::sign(&key, text));
        sync::write(&self.purposes).insert(purpose.to_owned(), key);
        hash
    }
}

/// The keys of an open store. All keys are wiped from memory when the seal is dropped.
pub struct Seal {
    cluster: ClusterId,
    root: RootKey,
    keyring: RwLock<Arc<Keyring>>,
    hashes: SecretHasher,
}

impl Seal {
    /// Creates the seal of a cluster from the opened keys.
    pub fn new(cluster: ClusterId, root: RootKey, keyring: Keyring) -> Seal {
        let hashes = SecretHasher::new(keyring.hash_key());
        Seal { cluster, root, keyring: RwLock::new(Arc::new(keyring)), hashes }
    }

    /// Returns the id of the cluster.
    pub fn cluster(&self) -> &ClusterId {
        &self.cluster
    }

    /// Returns the key that opens the keyring.
    pub fn root(&self) -> &RootKey {
        &self.root
    }

    /// Starts a label with the kind and place of the sealed bytes.
    pub fn label(&self, what: &str) -> AssociatedData {
        AssociatedData::of(&self.cluster, what)
    }

    /// Encrypts `body` under the sealing term, bound to `label`.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if there is no randomness, or the body is longer than the cipher
    /// allows (256 GiB).
    pub fn seal(&self, label: AssociatedData, body: &[u8]) -> Result<Vec<u8>, StoreFault> {
        self.keyring().sealing().seal(label, body)
    }

    /// Returns whether the bytes are sealed under a later term than all terms of the keyring.
    pub fn lacks_term_of(&self, sealed: &[u8]) -> bool {
        cipher::term_of(sealed).is_some_and(|term| term > self.status().term)
    }

    /// Returns the body sealed under exactly this label, by any term; `None` for any other bytes.
    pub fn open(&self, label: AssociatedData, sealed: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        self.keyring().term(cipher::term_of(sealed)?)?.open(label, sealed)
    }

    /// Seals `body` into a text kept by a holder and not by the store: base64 without padding, safe
    /// in URLs and headers. The label names the `purpose` and differs from every label of a record,
    /// so that neither can replace the other.
    ///
    /// # Errors
    /// As [`Seal::seal`].
    pub fn seal_text(&self, purpose: &str, body: &[u8]) -> Result<String, StoreFault> {
        Ok(URL_SAFE_NO_PAD.encode(self.seal(self.label("text").text(purpose), body)?))
    }

    /// Opens a text sealed by [`Seal::seal_text`] for this `purpose` in this cluster, under any
    /// term; `None` for any other text. A body has many texts, but each text has a single spelling.
    pub fn open_text(&self, purpose: &str, text: &str) -> Option<Zeroizing<Vec<u8>>> {
        self.open(self.label("text").text(purpose), &URL_SAFE_NO_PAD.decode(text).ok()?)
    }

    /// Returns whether a text is sealed under a later term than all terms of the keyring.
    pub fn lacks_term_of_text(&self, text: &str) -> bool {
        URL_SAFE_NO_PAD.decode(text).is_ok_and(|sealed| self.lacks_term_of(&sealed))
    }

    /// Returns the hasher for keyed hashes.
    pub fn hashes(&self) -> &SecretHasher {
        &self.hashes
    }

    /// Returns the status of the newest term.
    pub fn status(&self) -> KeyStatus {
        self.keyring().newest().status()
    }

    /// Creates the successor of the `stored` keyring, with another term that begins at `installed`
    /// (store time, milliseconds). Returns the successor and its sealed form, which must replace
    /// the stored keyring before [`Seal::learn`].
    ///
    /// # Errors
    /// As [`Keyring::with_new_term`]; `None` if the stored keyring does not open.
    pub fn prepare_rotation(
        &self,
        stored: &[u8],
        installed: u64,
    ) -> Result<Option<(Keyring, Vec<u8>)>, StoreFault> {
        let Some(stored) = self.root.open_keyring(&self.cluster, stored)? else { return Ok(None) };
        // Records may be sealed by each term of this process.
        let next = match is_older(&stored, &self.keyring()) {
            true => self.keyring().with_new_term(installed)?,
            false => stored.with_new_term(installed)?,
        };
        let sealed = self.root.seal_keyring(&self.cluster, &next)?;
        Ok(Some((next, sealed)))
    }

    /// Seals the root key with another key of the holders, which is split by `config`.
    ///
    /// # Errors
    /// As [`HolderSeal::make`].
    pub fn seal_for_holders(
        &self,
        config: SealConfig,
        key: &SealKey,
    ) -> Result<HolderSeal, StoreFault> {
        HolderSeal::make(&self.root, &self.cluster, (config, key))
    }

    /// Seals the root key with the key of an automatic seal.
    ///
    /// # Errors
    /// As [`AutomaticRoot::make`].
    pub fn seal_automatically(
        &self,
        seal: AutomaticSeal,
        key: &SealKey,
    ) -> Result<AutomaticRoot, StoreFault> {
        AutomaticRoot::make(&self.root, &self.cluster, (seal, key))
    }

    /// Opens records by all terms of a stored keyring from now on, unless a newer keyring is known.
    /// New records are sealed by the same term as before.
    pub fn learn(&self, stored: &Keyring) {
        let mut present = sync::write(&self.keyring);
        if is_older(&present, stored) {
            *present = Arc::new(stored.after(&present));
        }
    }

    /// Opens a stored keyring and learns its terms like [`Seal::learn`]. Returns `false` for other
    /// bytes.
    ///
    /// # Errors
    /// As [`RootKey::open_keyring`]; [`StoreFault::Unavailable`] if the stored keyring lacks a key
    /// that this process knows: records under this key would be lost with the process.
    pub fn learn_sealed(&self, stored: &[u8]) -> Result<bool, StoreFault> {
        let Some(stored) = self.root.open_keyring(&self.cluster, stored)? else { return Ok(false) };
        if !stored.contains(&self.keyring()) {
            return Err(StoreFault::Unavailable(
                "the keyring in the database lacks a key that this node has read before: the \
                 database has lost commits; bring the lost commits back, or restart each node"
                    .to_owned(),
            ));
        }
        self.learn(&stored);
        Ok(true)
    }

    /// Seals new records by `term` from now on, unless a later term is in use. Every process that
    /// opens records must know the term.
    pub fn seal_by(&self, term: u32) {
        let mut present = sync::write(&self.keyring);
        *present = Arc::new(present.sealing_by(term));
    }

    /// Seals new records by the last term before the newest, if there is one.
    pub fn seal_by_older(&self) {
        let mut present = sync::write(&self.keyring);
        *present = Arc::new(present.sealing_by_older());
    }

    /// Returns whether these bytes are one of the keys, for searches of files.
    pub fn has_key(&self, bytes: &[u8]) -> bool {
        self.root.bytes() == bytes || self.keyring().has_key(bytes)
    }

    fn keyring(&self) -> Arc<Keyring> {
        Arc::clone(&sync::read(&self.keyring))
    }
}

/// Returns whether a keyring has fewer terms than another keyring of the same cluster.
fn is_older(keyring: &Keyring, other: &Keyring) -> bool {
    keyring.newest().status().term < other.newest().status().term
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seal() -> Seal {
        Seal::new([7; 16], RootKey::generate().unwrap(), Keyring::generate(1).unwrap())
    }

    /// Returns the successor of the keyring of `seal`.
    fn next(seal: &Seal) -> Keyring {
        let stored = seal.root.seal_keyring(&seal.cluster, &seal.keyring()).unwrap();
        seal.prepare_rotation(&stored, 5).unwrap().unwrap().0
    }

    #[test]
    fn bytes_sealed_before_a_rotation_open_after_it() {
        let seal = seal();
        let before = seal.seal(seal.label("record"), b"body").unwrap();
        let rotated = next(&seal);
        assert_eq!(
            seal.status(),
            KeyStatus { term: 1, installed: 1, sealed: 1 },
            "a new key is used only once it is learned"
        );
        seal.learn(&rotated);
        let between = seal.seal(seal.label("record"), b"body").unwrap();
        seal.seal_by(2);
        assert_eq!(seal.status(), KeyStatus { term: 2, installed: 5, sealed: 0 });
        let after = seal.seal(seal.label("record"), b"body").unwrap();
        let terms = [&before, &between, &after].map(|sealed| cipher::term_of(sealed));
        assert_eq!(terms, [Some(1), Some(1), Some(2)]);
        for sealed in [before, between, after] {
            assert_eq!(seal.open(seal.label("record"), &sealed).unwrap().as_slice(), b"body");
        }
        assert_eq!(seal.status().sealed, 1);
    }

    #[test]
    fn older_stored_keyring_takes_no_term_away() {
        let seal = seal();
        let (first, second) = (seal.keyring(), next(&seal));
        seal.learn(&second);
        seal.seal_by(2);
        let sealed = seal.seal(seal.label("record"), b"body").unwrap();
        seal.learn(&first);
        assert_eq!(seal.open(seal.label("record"), &sealed).unwrap().as_slice(), b"body");
        let stored = seal.root.seal_keyring(&seal.cluster, &first).unwrap();
        let (third, _) = seal.prepare_rotation(&stored, 9).unwrap().unwrap();
        seal.learn(&third);
        assert_eq!(seal.status().term, 3);
        assert_eq!(seal.open(seal.label("record"), &sealed).unwrap().as_slice(), b"body");
        assert!(seal.prepare_rotation(b"other", 9).unwrap().is_none());
    }

    #[test]
    fn record_of_missing_keyring_term_does_not_open() {
        let seal = seal();
        let mut sealed = seal.seal(seal.label("record"), b"body").unwrap();
        sealed[4] = 9;
        assert!(seal.open(seal.label("record"), &sealed).is_none());
        assert!(seal.lacks_term_of(&sealed));
        sealed[4] = 0;
        assert!(!seal.lacks_term_of(&sealed));
        assert!(seal.open(seal.label("record"), &sealed).is_none());
    }

    #[test]
    fn rotation_keeps_text_bound_to_purpose_and_cluster() {
        let seal = seal();
        let text = seal.seal_text("batch", b"body").unwrap();
        assert!(
            text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)),
            "{text}"
        );
        seal.learn(&next(&seal));
        seal.seal_by(2);
        assert_eq!(seal.open_text("batch", &text).unwrap().as_slice(), b"body");
        assert_ne!(seal.seal_text("batch", b"body").unwrap(), text);
        assert!(seal.open_text("other", &text).is_none());
        let elsewhere =
            Seal::new([8; 16], RootKey::generate().unwrap(), Keyring::generate(1).unwrap());
        assert!(elsewhere.open_text("batch", &text).is_none());
    }

    #[test]
    fn record_or_changed_text_is_no_sealed_text() {
        let seal = seal();
        let record = seal.seal(seal.label("record").text("batch"), b"body").unwrap();
        assert!(seal.open_text("batch", &URL_SAFE_NO_PAD.encode(record)).is_none());
        let text = seal.seal_text("batch", b"body").unwrap();
        let flipped = |at: usize| {
            let other = if text.as_bytes()[at] == b'A' { "B" } else { "A" };
            format!("{}{other}{}", &text[..at], &text[at + 1..])
        };
        for changed in (0..text.len()).map(flipped) {
            assert!(seal.open_text("batch", &changed).is_none(), "{changed}");
        }
        for end in 0..text.len() {
            assert!(seal.open_text("batch", &text[..end]).is_none(), "first {end} characters");
        }
        for hostile in
            ["=", "%", "\u{0}", "ü", &format!("{text}="), &format!("{text}A"), &format!(" {text}")]
        {
            assert!(seal.open_text("batch", hostile).is_none(), "{hostile:?}");
        }
    }

    #[test]
    fn keyed_hash_depends_only_on_key_purpose_text() {
        let hash = |key, purpose, text: &str| {
            SecretHasher::new(&[key; KEY_BYTES]).keyed_hash(purpose, text.as_bytes())
        };
        let first = hash(1, "token", "bhs.abc");
        assert_eq!(first.len(), 64);
        assert!(first.chars().all(|digit| matches!(digit, '0'..='9' | 'a'..='f')));
        assert_eq!(first, hash(1, "token", "bhs.abc"));
        assert_ne!(first, hash(2, "token", "bhs.abc"));
        assert_ne!(first, hash(1, "lease", "bhs.abc"));
        assert_ne!(first, hash(1, "token", "bhs.abd"));
    }
}
