//! The seal that the configuration asks for.

use crate::key_wrapper::ExternalSeal;
use bulkhead_store::{AutomaticSeal, DataSeals, SealKey};
use bulkhead_wire::failure::Failure;
use std::fmt;

/// The kind of a static seal, in the configuration, in the data and in answers.
const STATIC: &str = "static";
/// The kind of a seal that people open with shares.
const SHAMIR: &str = "shamir";

/// The seal of the configuration.
#[derive(Debug, Default)]
pub enum SealSetting {
    /// People give shares of the unseal key after each start.
    #[default]
    Shamir,
    /// The server opens the data with a key of its machine.
    Static(StaticSeal),
    /// The server opens the data with a key that another server decrypts.
    External(ExternalSeal),
}

/// The keys of a static seal.
#[derive(Debug)]
pub struct StaticSeal {
    /// The key that seals new data.
    pub current: StaticKey,
    /// The key that sealed the data before; needed until the first start with `current`.
    pub previous: Option<StaticKey>,
}

/// A key and its name.
pub struct StaticKey {
    /// The name, which is stored with the data.
    pub(crate) id: String,
    pub(crate) key: SealKey,
}

impl StaticKey {
    /// Reads a key named `id`: 32 raw bytes, or base64 or hexadecimal with surrounding white space.
    /// `None` for any other content.
    #[must_use]
    pub fn parse(id: &str, content: &[u8]) -> Option<Self> {
        SealKey::parse(content).map(|key| Self { id: id.to_owned(), key })
    }

    /// Compares the keys, regardless of their names, in constant time.
    #[must_use]
    pub fn is_same_key(&self, other: &Self) -> bool {
        self.key.is_same(&other.key)
    }
}

impl fmt::Debug for StaticKey {
    /// Writes the name and nothing of the key.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "StaticKey({:?})", self.id)
    }
}

impl SealSetting {
    /// Returns the kind of the seal.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Shamir => SHAMIR,
            Self::Static(_) => STATIC,
            Self::External(seal) => seal.kind(),
        }
    }

    /// Returns whether the server opens the data by itself.
    #[must_use]
    pub fn is_automatic(&self) -> bool {
        !matches!(self, Self::Shamir)
    }

    /// Returns a new automatic seal and its key; `None` if people open the data.
    ///
    /// # Errors
    /// A failure of the keeper of an external seal.
    pub(crate) async fn new_automatic_key(
        &self,
    ) -> Result<Option<(AutomaticSeal, SealKey)>, Failure> {
        match self {
            Self::Shamir => Ok(None),
            Self::Static(keys) => Ok(Some((keys.description(), keys.current.key.clone()))),
            Self::External(seal) => seal.generate().await.map(Some),
        }
    }

    /// Returns whether the data have a seal of another kind than the configuration. A quorum of key
    /// holders must then migrate the data.
    pub(crate) fn differs_from(&self, seals: &DataSeals) -> bool {
        self.kind() != kind_of(seals)
    }
}

/// Returns the kind of the seal of the data.
pub(crate) fn kind_of(seals: &DataSeals) -> &str {
    seals.automatic.as_ref().map_or(SHAMIR, |seal| seal.kind.as_str())
}

impl StaticSeal {
    /// Returns the key with this name.
    pub(crate) fn key(&self, id: &str) -> Option<&StaticKey> {
        [Some(&self.current), self.previous.as_ref()].into_iter().flatten().find(|key| key.id == id)
    }

    /// Returns the description of the seal with the current key.
    pub(crate) fn description(&self) -> AutomaticSeal {
        AutomaticSeal {
            kind: STATIC.to_owned(),
            key_id: self.current.id.clone(),
            wrapped_key: Vec::new(),
        }
    }
}
