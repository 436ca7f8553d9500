//! The keys of a cluster, each sealed by the next: the unseal key opens the root key, the root key
//! opens the keyring, and the newest term of the keyring seals records.
//!
//! This file prevents a key that is never rotated because rotation would re-encrypt everything, and
//! a rotation that needs the unseal key. A rotation adds a term. Old terms stay, so that records
//! sealed by old terms still open, and a row moves to the newest term at its next write.
//!
//! The newest term may be stored before every process of the cluster has read the term. Until then,
//! the keyring seals by an older term, and opens by all.
//!
//! The key of keyed hashes is the same over all terms, so that the names of tokens and leases are
//! found again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use zeroize::Zeroizing;

use crate::cipher::{self, AssociatedData, ClusterId, KEY_BYTES, KeyBytes, TermCipher};
use crate::fault::StoreFault;

/// Length of a term in an encoded keyring, in bytes: number, time of installation, key.
const TERM_BYTES: usize = 4 + 8 + KEY_BYTES;
const FIRST_TERM: u32 = 1;

/// The status of the key that seals new records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyStatus {
    /// The term: 1 after initialisation, 1 more with each rotation.
    pub term: u32,
    /// The start of the term, as store time in milliseconds.
    pub installed: u64,
    /// Number of bodies sealed under the term since the store was opened.
    pub sealed: u64,
}

/// The key that seals the keyring. The key stays in memory while the store is open, so that a
/// rotation does not ask an operator for the unseal key.
pub struct RootKey(KeyBytes);

impl RootKey {
    /// Generates a random key.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the system gives no randomness.
    pub fn generate() -> Result<RootKey, StoreFault> {
        cipher::random_key().map(RootKey)
    }

    /// Creates the key from these bytes; `None` if their number differs.
    pub fn of(bytes: &[u8]) -> Option<RootKey> {
        parse_key(bytes).map(RootKey)
    }

    /// Returns a copy of the key, which is wiped separately.
    pub fn copy(&self) -> RootKey {
        RootKey(self.0.clone())
    }

    /// Returns the raw key, for the seals of the root key.
    pub fn bytes(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }

    /// Seals the keyring with this key.
    ///
    /// # Errors
    /// As [`TermCipher::seal`].
    pub fn seal_keyring(
        &self,
        cluster: &ClusterId,
        keyring: &Keyring,
    ) -> Result<Vec<u8>, StoreFault> {
        self.cipher(cluster)?.seal(AssociatedData::of(cluster, "keyring"), &keyring.encode())
    }

    /// Opens a keyring sealed by [`RootKey::seal_keyring`]; `None` for any other bytes.
    ///
    /// # Errors
    /// As [`TermCipher::derive`].
    pub fn open_keyring(
        &self,
        cluster: &ClusterId,
        sealed: &[u8],
    ) -> Result<Option<Keyring>, StoreFault> {
        let opened = self.cipher(cluster)?.open(AssociatedData::of(cluster, "keyring"), sealed);
        Ok(opened.and_then(|body| Keyring::decode(&body)))
    }

    fn cipher(&self, cluster: &ClusterId) -> Result<TermCipher, StoreFault> {
        TermCipher::derive(&self.0, cluster, "bulkhead: seal of the keyring")
    }
}

/// A key of the keyring.
pub struct KeyTerm {
    cipher: TermCipher,
    installed: u64,
    sealed: AtomicU64,
}

impl KeyTerm {
    fn new(number: u32, installed: u64, key: KeyBytes) -> Arc<KeyTerm> {
        Arc::new(KeyTerm {
            cipher: TermCipher::of_term(number, key),
            installed,
            sealed: AtomicU64::new(0),
        })
    }

    /// Seals a body and counts the call.
    ///
    /// # Errors
    /// As [`TermCipher::seal`].
    pub fn seal(&self, label: AssociatedData, body: &[u8]) -> Result<Vec<u8>, StoreFault> {
        self.sealed.fetch_add(1, Ordering::Relaxed);
        self.cipher.seal(label, body)
    }

    /// As [`TermCipher::open`].
    pub fn open(&self, label: AssociatedData, sealed: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        self.cipher.open(label, sealed)
    }

    /// Returns the status of this term.
    pub fn status(&self) -> KeyStatus {
        let (term, sealed) = (self.cipher.term(), self.sealed.load(Ordering::Relaxed));
        KeyStatus { term, installed: self.installed, sealed }
    }
}

/// All terms and the key of keyed hashes.
#[derive(Clone)]
pub struct Keyring {
    hash_key: KeyBytes,
    /// The terms before the newest, in ascending order.
    older: Vec<Arc<KeyTerm>>,
    newest: Arc<KeyTerm>,
    /// The term that seals new records.
    sealing: Arc<KeyTerm>,
}

impl Keyring {
    /// Generates a keyring with a first term, which begins at `installed` (store time,
    /// milliseconds).
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the system gives no randomness.
    pub fn generate(installed: u64) -> Result<Keyring, StoreFault> {
        let newest = KeyTerm::new(FIRST_TERM, installed, cipher::random_key()?);
        let sealing = Arc::clone(&newest);
        Ok(Keyring { hash_key: cipher::random_key()?, older: Vec::new(), newest, sealing })
    }

    /// Returns this keyring with one more term, which begins at `installed` (store time,
    /// milliseconds).
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the system gives no randomness, or after 4 billion terms.
    pub fn with_new_term(&self, installed: u64) -> Result<Keyring, StoreFault> {
        let number = self.newest.cipher.term().checked_add(1).ok_or_else(|| {
            StoreFault::Unavailable("the key was rotated 4294967295 times, the maximum".into())
        })?;
        let newest = KeyTerm::new(number, installed, cipher::random_key()?);
        let older = self.terms().map(Arc::clone).collect();
        let sealing = Arc::clone(&newest);
        Ok(Keyring { hash_key: self.hash_key.clone(), older, newest, sealing })
    }

    /// Returns this keyring as the successor of `present`: the same term as before seals new
    /// records, and terms of both keyrings keep their counts.
    #[must_use]
    pub fn after(&self, present: &Keyring) -> Keyring {
        let with_count = |term: &Arc<KeyTerm>| {
            let same = present.term(term.cipher.term());
            let same = same.filter(|same| same.cipher.key() == term.cipher.key());
            Arc::clone(same.unwrap_or(term))
        };
        let (older, newest) =
            (self.older.iter().map(with_count).collect(), with_count(&self.newest));
        let successor = Keyring { older, sealing: Arc::clone(&newest), newest, ..self.clone() };
        match successor.term(present.sealing.cipher.term()).map(Arc::clone) {
            Some(sealing) => Keyring { sealing, ..successor },
            None => successor,
        }
    }

    /// Returns this keyring with the term `number` as the term that seals new records, unless a
    /// later term does or the keyring lacks the term.
    #[must_use]
    pub fn sealing_by(&self, number: u32) -> Keyring {
        let later = self.term(number).filter(|_| number > self.sealing.cipher.term());
        let sealing = Arc::clone(later.unwrap_or(&self.sealing));
        Keyring { sealing, ..self.clone() }
    }

    /// Returns this keyring with the last term before the newest, if there is one, as the term that
    /// seals new records.
    #[must_use]
    pub fn sealing_by_older(&self) -> Keyring {
        let sealing = Arc::clone(self.older.last().unwrap_or(&self.newest));
        Keyring { sealing, ..self.clone() }
    }

    /// Returns the last term of the keyring.
    pub fn newest(&self) -> &Arc<KeyTerm> {
        &self.newest
    }

    /// Returns the term that seals new records.
    pub fn sealing(&self) -> &Arc<KeyTerm> {
        &self.sealing
    }

    /// Returns the term with this number.
    pub fn term(&self, number: u32) -> Option<&Arc<KeyTerm>> {
        if self.newest.cipher.term() == number {
            return Some(&self.newest);
        }
        let position = self.older.binary_search_by_key(&number, |term| term.cipher.term()).ok()?;
        self.older.get(position)
    }

    /// Returns the key of keyed hashes.
    pub fn hash_key(&self) -> &[u8; KEY_BYTES] {
        &self.hash_key
    }

    /// Returns whether these bytes are a key of the keyring.
    pub fn has_key(&self, bytes: &[u8]) -> bool {
        let mut keys = self.terms().map(|term| term.cipher.key()).chain([self.hash_key()]);
        keys.any(|key| key == bytes)
    }

    /// Returns whether the keyring has every key of another keyring, under the same numbers.
    pub fn contains(&self, other: &Keyring) -> bool {
        other.terms().all(|term| {
            let own = self.term(term.cipher.term());
            own.is_some_and(|own| own.cipher.key() == term.cipher.key())
        })
    }

    fn terms(&self) -> impl Iterator<Item = &Arc<KeyTerm>> {
        self.older.iter().chain([&self.newest])
    }

    /// Encodes the keyring into a buffer of the exact length: a vector that grew would leave an
    /// unwiped copy of keys behind.
    fn encode(&self) -> Zeroizing<Vec<u8>> {
        let mut body =
            Zeroizing::new(Vec::with_capacity(KEY_BYTES + (self.older.len() + 1) * TERM_BYTES));
        body.extend_from_slice(self.hash_key.as_slice());
        for term in self.terms() {
            body.extend_from_slice(&term.cipher.term().to_be_bytes());
            body.extend_from_slice(&term.installed.to_be_bytes());
            body.extend_from_slice(term.cipher.key());
        }
        body
    }

    fn decode(body: &[u8]) -> Option<Keyring> {
        let (hash_key, mut rest) = body.split_at_checked(KEY_BYTES)?;
        let mut older = Vec::new();
        while let Some((number, after)) = rest.split_first_chunk() {
            let (installed, after) = after.split_first_chunk()?;
            let (key, after) = after.split_at_checked(KEY_BYTES)?;
            older.push(KeyTerm::new(
                u32::from_be_bytes(*number),
                u64::from_be_bytes(*installed),
                parse_key(key)?,
            ));
            rest = after;
        }
        let ascending = older.is_sorted_by(|one, next| one.cipher.term() < next.cipher.term());
        let newest = older.pop()?;
        let sealing = Arc::clone(&newest);
        (rest.is_empty() && ascending).then_some(Keyring {
            hash_key: parse_key(hash_key)?,
            older,
            newest,
            sealing,
        })
    }
}

fn parse_key(bytes: &[u8]) -> Option<KeyBytes> {
    bytes.try_into().ok().map(KeyBytes::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: ClusterId = [7; 16];

    #[test]
    fn keyring_round_trip_keeps_terms_and_hash_key() {
        let root = RootKey::generate().unwrap();
        let ring =
            Keyring::generate(100).unwrap().with_new_term(200).unwrap().with_new_term(300).unwrap();
        let sealed = root.seal_keyring(&HERE, &ring).unwrap();
        let back = root.open_keyring(&HERE, &sealed).unwrap().unwrap();
        assert_eq!(back.encode(), ring.encode());
        assert_eq!(back.hash_key(), ring.hash_key());
        assert_eq!(back.newest().status(), KeyStatus { term: 3, installed: 300, sealed: 0 });
        assert_eq!(back.term(1).unwrap().status().installed, 100);
        assert!(back.term(0).is_none() && back.term(4).is_none());
        assert!(root.open_keyring(&[8; 16], &sealed).unwrap().is_none());
        assert!(RootKey::generate().unwrap().open_keyring(&HERE, &sealed).unwrap().is_none());
    }

    #[test]
    fn rotated_keyring_opens_old_terms_and_seals_anew() {
        let first = Keyring::generate(1).unwrap();
        let sealed = first.newest().seal(AssociatedData::of(&HERE, "record"), b"body").unwrap();
        let second = first.with_new_term(2).unwrap();
        let opened =
            second.term(1).unwrap().open(AssociatedData::of(&HERE, "record"), &sealed).unwrap();
        assert_eq!(opened.as_slice(), b"body");
        assert!(second.newest().open(AssociatedData::of(&HERE, "record"), &sealed).is_none());
        assert_ne!(first.newest().cipher.key(), second.newest().cipher.key());
        assert_eq!(second.newest().status().sealed, 0);
        assert_eq!(second.term(1).unwrap().status().sealed, 1);
    }

    #[test]
    fn successor_seals_by_term_of_its_predecessor() {
        let first = Keyring::generate(1).unwrap();
        first.newest().seal(AssociatedData::of(&HERE, "record"), b"body").unwrap();
        let stored = Keyring::decode(&first.with_new_term(2).unwrap().encode()).unwrap();
        let successor = stored.after(&first);
        let status = |term: &KeyTerm| (term.status().term, term.status().sealed);
        assert_eq!((status(successor.sealing()), status(successor.newest())), ((1, 1), (2, 0)));
        assert_eq!(status(successor.sealing_by(2).sealing()), (2, 0));
        assert_eq!(status(successor.sealing_by(3).sealing()), (1, 1));
        assert_eq!(status(stored.sealing_by(1).sealing()), (2, 0), "never back");
        assert_eq!(status(stored.sealing_by_older().sealing()), (1, 0));
        assert_eq!(status(first.sealing_by_older().sealing()), (1, 1), "the only term");
        assert_eq!(successor.encode(), stored.encode());
        let foreign = Keyring::generate(1).unwrap().after(&first);
        assert_eq!(status(foreign.sealing()), (1, 0), "the number is the same, the key is not");
    }

    #[test]
    fn never_written_encoding_is_no_keyring() {
        let ring = Keyring::generate(1).unwrap().with_new_term(2).unwrap();
        let encoding = ring.encode();
        assert!(Keyring::decode(&encoding).is_some());
        for length in 0..encoding.len() {
            let is_whole = length == KEY_BYTES + TERM_BYTES;
            assert_eq!(
                Keyring::decode(&encoding[..length]).is_some(),
                is_whole,
                "first {length} bytes"
            );
        }
        let (head, terms) = encoding.split_at(KEY_BYTES);
        let (one, two) = terms.split_at(TERM_BYTES);
        assert!(Keyring::decode(&[head, two, one].concat()).is_none(), "descending");
        assert!(Keyring::decode(&[head, one, one].concat()).is_none(), "twice the same term");
    }

    #[test]
    fn the_last_term_of_all_cannot_be_rotated() {
        let mut ring = Keyring::generate(1).unwrap();
        ring.newest = KeyTerm::new(u32::MAX, 1, cipher::random_key().unwrap());
        let refused = ring.with_new_term(2).err().unwrap();
        assert!(refused.to_string().contains("4294967295"), "{refused}");
    }
}
