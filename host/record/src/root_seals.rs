//! The seals of the root key: one for the people who hold shares of a key, one for a key that the
//! server gets by itself.
//!
//! Each seal encrypts the same root key under its own key, so that a change of one seal rewrites a
//! few rows and no record. Data have at least one of the two seals:
//!
//! - shares alone (`seal "shamir"`): people enter their shares after each start;
//! - an automatic seal with recovery keys: the server opens by itself, and the shares of the
//!   recovery key authorise root generation and rekeying. The recovery keys also open the data if
//!   the key of the automatic seal is lost;
//! - an automatic seal alone: nobody holds a share.
//!
//! This file prevents an edited description of a seal from choosing another key: the description is
//! a part of the label of the sealed root key.

use crate::cipher::{AssociatedData, ClusterId, SealKey, TermCipher};
use crate::fault::StoreFault;
use crate::keyring::RootKey;
use crate::shamir::SealConfig;

/// The description of an automatic seal: everything needed to get the seal's key again, and no
/// secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AutomaticSeal {
    /// The kind of the seal, such as `static`.
    pub kind: String,
    /// The name of the key, given by the operator or by the keeper of the key.
    pub key_id: String,
    /// The seal's key, encrypted by the keeper of the key; empty if the keeper hands out the key
    /// itself.
    pub wrapped_key: Vec<u8>,
}

/// The ways in which data can be opened; at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataSeals {
    /// The split of the unseal key, or of the recovery key beside an automatic seal; `None` if
    /// nobody holds shares.
    pub holders: Option<SealConfig>,
    /// The automatic seal; `None` if only people open the data.
    pub automatic: Option<AutomaticSeal>,
}

/// The keys that seal new data.
pub struct FirstKeys<'a> {
    /// The split of the key of the people, and the key; `None` if nobody holds shares.
    pub holders: Option<(SealConfig, &'a SealKey)>,
    /// The automatic seal and its key; `None` if only people open the data.
    pub automatic: Option<(AutomaticSeal, &'a SealKey)>,
}

impl<'a> FirstKeys<'a> {
    /// A key that the caller splits by `config` ([`crate::shamir::split`]) for people.
    pub fn of_holders(config: SealConfig, key: &'a SealKey) -> FirstKeys<'a> {
        FirstKeys { holders: Some((config, key)), automatic: None }
    }

    /// The key of an automatic seal, and the recovery key with its split, if people hold shares.
    pub fn automatic(
        seal: AutomaticSeal,
        key: &'a SealKey,
        recovery: Option<(SealConfig, &'a SealKey)>,
    ) -> FirstKeys<'a> {
        FirstKeys { holders: recovery, automatic: Some((seal, key)) }
    }
}

/// The root key, sealed by the key of the holders.
#[derive(Clone, PartialEq, Eq)]
pub struct HolderSeal {
    /// The split of the key.
    pub config: SealConfig,
    /// The sealed root key.
    pub root: Vec<u8>,
}

impl HolderSeal {
    /// Seals `root` with `key`. The label contains the split, so that an edited number of shares or
    /// threshold does not open.
    ///
    /// # Errors
    /// As [`TermCipher::seal`].
    pub fn make(
        root: &RootKey,
        cluster: &ClusterId,
        (config, key): (SealConfig, &SealKey),
    ) -> Result<HolderSeal, StoreFault> {
        let label = HolderSeal::label(cluster, config);
        Ok(HolderSeal {
            config,
            root: HolderSeal::cipher(key, cluster)?.seal(label, root.bytes())?,
        })
    }

    /// Opens the root key; `None` if the key, the cluster or the split differ.
    ///
    /// # Errors
    /// As [`TermCipher::derive`].
    pub fn open(&self, key: &SealKey, cluster: &ClusterId) -> Result<Option<RootKey>, StoreFault> {
        let label = HolderSeal::label(cluster, self.config);
        let opened = HolderSeal::cipher(key, cluster)?.open(label, &self.root);
        Ok(opened.and_then(|body| RootKey::of(&body)))
    }

    fn cipher(key: &SealKey, cluster: &ClusterId) -> Result<TermCipher, StoreFault> {
        TermCipher::derive(key.bytes(), cluster, "bulkhead: seal of the root key")
    }

    fn label(cluster: &ClusterId, config: SealConfig) -> AssociatedData {
        AssociatedData::of(cluster, "root").field(&[config.shares]).field(&[config.threshold])
    }
}

/// The root key, sealed by the key of an automatic seal.
#[derive(Clone, PartialEq, Eq)]
pub struct AutomaticRoot {
    /// The seal.
    pub seal: AutomaticSeal,
    /// The sealed root key.
    pub root: Vec<u8>,
}

impl AutomaticRoot {
    /// Seals `root` with `key`, which `seal` describes.
    ///
    /// # Errors
    /// As [`TermCipher::seal`].
    pub fn make(
        root: &RootKey,
        cluster: &ClusterId,
        (seal, key): (AutomaticSeal, &SealKey),
    ) -> Result<AutomaticRoot, StoreFault> {
        let label = AutomaticRoot::label(cluster, &seal);
        let root = AutomaticRoot::cipher(key, cluster)?.seal(label, root.bytes())?;
        Ok(AutomaticRoot { seal, root })
    }

    /// Opens the root key; `None` if the key, the cluster or the description differ.
    ///
    /// # Errors
    /// As [`TermCipher::derive`].
    pub fn open(&self, key: &SealKey, cluster: &ClusterId) -> Result<Option<RootKey>, StoreFault> {
        let label = AutomaticRoot::label(cluster, &self.seal);
        let opened = AutomaticRoot::cipher(key, cluster)?.open(label, &self.root);
        Ok(opened.and_then(|body| RootKey::of(&body)))
    }

    fn cipher(key: &SealKey, cluster: &ClusterId) -> Result<TermCipher, StoreFault> {
        TermCipher::derive(key.bytes(), cluster, "bulkhead: automatic seal of the root key")
    }

    fn label(cluster: &ClusterId, seal: &AutomaticSeal) -> AssociatedData {
        AssociatedData::of(cluster, "automatic root")
            .text(&seal.kind)
            .text(&seal.key_id)
            .field(&seal.wrapped_key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cipher::KEY_BYTES;

    const HERE: ClusterId = [7; 16];
    const THREE_OF_FIVE: SealConfig = SealConfig { shares: 5, threshold: 3 };

    fn key(byte: u8) -> SealKey {
        SealKey::from_bytes([byte; KEY_BYTES])
    }

    fn seal() -> AutomaticSeal {
        AutomaticSeal { kind: "static".into(), key_id: "one".into(), wrapped_key: b"w".to_vec() }
    }

    #[test]
    fn root_key_needs_exact_key_cluster_and_configuration() {
        let root = RootKey::generate().unwrap();
        let sealed = HolderSeal::make(&root, &HERE, (THREE_OF_FIVE, &key(1))).unwrap();
        let open = |byte, cluster: &ClusterId, shares, threshold| {
            let config = SealConfig { shares, threshold };
            let edited = HolderSeal { config, ..sealed.clone() };
            edited.open(&key(byte), cluster).unwrap()
        };
        assert_eq!(open(1, &HERE, 5, 3).unwrap().bytes(), root.bytes());
        assert!(open(2, &HERE, 5, 3).is_none());
        assert!(open(1, &[8; 16], 5, 3).is_none());
        assert!(open(1, &HERE, 5, 2).is_none());
        assert!(open(1, &HERE, 6, 3).is_none());
        assert!(open(1, &HERE, 3, 5).is_none());
    }

    #[test]
    fn automatic_root_needs_exact_key_cluster_and_description() {
        let root = RootKey::generate().unwrap();
        let sealed = AutomaticRoot::make(&root, &HERE, (seal(), &key(1))).unwrap();
        let open = |byte, cluster: &ClusterId, seal| {
            let edited = AutomaticRoot { seal, ..sealed.clone() };
            edited.open(&key(byte), cluster).unwrap()
        };
        assert_eq!(open(1, &HERE, seal()).unwrap().bytes(), root.bytes());
        assert!(open(2, &HERE, seal()).is_none());
        assert!(open(1, &[8; 16], seal()).is_none());
        assert!(open(1, &HERE, AutomaticSeal { kind: "transit".into(), ..seal() }).is_none());
        assert!(open(1, &HERE, AutomaticSeal { key_id: "two".into(), ..seal() }).is_none());
        assert!(open(1, &HERE, AutomaticSeal { wrapped_key: Vec::new(), ..seal() }).is_none());
    }

    #[test]
    fn sealed_root_key_opens_by_own_seal_alone() {
        let root = RootKey::generate().unwrap();
        let holders = HolderSeal::make(&root, &HERE, (THREE_OF_FIVE, &key(1))).unwrap();
        let automatic = AutomaticRoot::make(&root, &HERE, (seal(), &key(1))).unwrap();
        let moved = AutomaticRoot { seal: seal(), root: holders.root.clone() };
        assert!(moved.open(&key(1), &HERE).unwrap().is_none());
        let moved = HolderSeal { config: THREE_OF_FIVE, root: automatic.root };
        assert!(moved.open(&key(1), &HERE).unwrap().is_none());
    }
}
