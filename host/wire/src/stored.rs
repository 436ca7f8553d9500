//! Stored records: how a type is written to the store and read again by every release.
//!
//! This file prevents an update after which the service cannot read records of the previous
//! release. The host and components follow the same rules:
//!
//! - A record is a struct stored as a JSON object. A field added after the type's first release has
//!   `#[serde(default)]`, so records without the field can be read.
//! - Fields unknown to a release are ignored, so a downgrade can read newer records.
//! - If the meaning of stored data changes, the type's version grows by 1, and older records are
//!   upgraded when read. A release refuses records of an unknown version instead of misreading
//!   them.
//!
//! [`stored!`](crate::stored) makes a type a stored type, and adds the test that reads records
//! written by earlier releases. See `docs/how-to-add-a-field.md` to add a field.

#[cfg(test)]
mod tests;
mod written;

pub use written::{check_foreign, check_read};

use crate::failure::Failure;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::fmt;

/// Upgrades a record of the given earlier version to the present version; `None` if the record
/// cannot be upgraded.
pub type Upgrade = fn(u32, Value) -> Option<Value>;

/// A type stored as a separate record. Implement this trait with [`stored!`](crate::stored).
///
/// Records of version 1 are plain JSON. Records of later versions start with `v2`, `v3` …, which no
/// release parses as JSON.
pub trait Stored: Serialize + DeserializeOwned {
    /// Name of the type, unique within its crate, and of the file with its earlier records.
    const KIND: &'static str;
    /// The version written. The version grows if the meaning of stored data changes.
    const VERSION: u32 = 1;

    /// Upgrades records of earlier versions.
    const UPGRADE: Upgrade = |_, _| None;

    /// Returns the bytes of the record.
    ///
    /// # Errors
    /// Internal if JSON cannot represent the record.
    fn to_bytes(&self) -> Result<Vec<u8>, Failure> {
        let mut bytes = Vec::with_capacity(INITIAL_BUFFER_BYTES);
        if Self::VERSION > 1 {
            bytes.extend_from_slice(format!("v{} ", Self::VERSION).as_bytes());
        }
        serde_json::to_writer(&mut bytes, self)
            .map_err(|error| Failure::internal(error.to_string()))?;
        Ok(bytes)
    }

    /// Reads a record.
    ///
    /// # Errors
    /// The reason the bytes are unreadable, without any of their content, which can be secret.
    fn from_bytes(bytes: &[u8]) -> Result<Self, UnreadableRecord> {
        let (version, json) = split_version(bytes).ok_or(UnreadableRecord::Garbled)?;
        if version == Self::VERSION {
            return serde_json::from_slice(json).map_err(|_| UnreadableRecord::Garbled);
        }
        if version > Self::VERSION {
            return Err(UnreadableRecord::Newer { version, known: Self::VERSION });
        }
        let record = serde_json::from_slice(json).map_err(|_| UnreadableRecord::Garbled)?;
        let record = (Self::UPGRADE)(version, record).ok_or(UnreadableRecord::Garbled)?;
        serde_json::from_value(record).map_err(|_| UnreadableRecord::Garbled)
    }

    /// Reads some fields of a record. If the record has the present version, all other fields are
    /// skipped cheaply.
    ///
    /// # Errors
    /// As [`from_bytes`](Self::from_bytes).
    fn part_from_bytes<P: DeserializeOwned>(bytes: &[u8]) -> Result<P, UnreadableRecord> {
        match split_version(bytes) {
            Some((version, json)) if version == Self::VERSION => {
                serde_json::from_slice(json).map_err(|_| UnreadableRecord::Garbled)
            }
            _ => {
                let record = serde_json::to_value(Self::from_bytes(bytes)?);
                record.and_then(serde_json::from_value).map_err(|_| UnreadableRecord::Garbled)
            }
        }
    }
}

/// Returns the members of a record of any type and version, for a reader that does not know the
/// type. `None` if the record is not a JSON object.
#[must_use]
pub fn members_of(bytes: &[u8]) -> Option<Map<String, Value>> {
    let (_, json) = split_version(bytes)?;
    serde_json::from_slice(json).ok()
}

/// Initial buffer of a record, in bytes; `serde_json` uses the same size.
const INITIAL_BUFFER_BYTES: usize = 128;

/// Splits a record into its version and its JSON.
fn split_version(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let Some(rest) = bytes.strip_prefix(b"v") else { return Some((1, bytes)) };
    let end = rest.iter().position(|byte| *byte == b' ')?;
    let (number, json) = rest.split_at_checked(end)?;
    Some((str::from_utf8(number).ok()?.parse().ok()?, json.get(1..)?))
}

/// The reason bytes are not a record of their type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnreadableRecord {
    /// The bytes have another shape.
    Garbled,
    /// The record was written by a later release.
    Newer {
        /// Version of the record.
        version: u32,
        /// Latest version known to this release.
        known: u32,
    },
}

impl UnreadableRecord {
    /// Returns the failure to read the record `what`: `the record of a lease does not parse`.
    pub fn of(self, what: impl fmt::Display) -> Failure {
        Failure::internal(format!("{what} {self}"))
    }
}

/// A predicate, to follow the name of the record.
impl fmt::Display for UnreadableRecord {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Garbled => out.write_str("does not parse"),
            Self::Newer { version, known } => write!(
                out,
                "has format version {version}, and this release knows {known}; run the release \
                 that wrote the record, or a later release"
            ),
        }
    }
}

impl std::error::Error for UnreadableRecord {}

/// Makes a type a stored type: `stored!(LeaseRecord, "lease", reads_stored_leases);`.
///
/// The second argument is [`Stored::KIND`]. The third argument names the generated test, which
/// reads the crate's `fixtures/records/<kind>.jsonl`: one record per line, as written by some
/// release. Without the file the tests do not compile. Lines are added to the file and never
/// changed.
///
/// A type whose meaning has changed also gives its version and its [`Stored::UPGRADE`]:
/// `stored!(LeaseRecord, "lease", reads_stored_leases, 2, upgrade)`.
#[macro_export]
macro_rules! stored {
    ($type:ty, $kind:literal, $test:ident) => {
        $crate::stored!($type, $kind, $test, 1, |_, _| None);
    };
    ($type:ty, $kind:literal, $test:ident, $version:literal, $upgrade:expr) => {
        impl $crate::stored::Stored for $type {
            const KIND: &'static str = $kind;
            const VERSION: u32 = $version;
            const UPGRADE: $crate::stored::Upgrade = $upgrade;
        }

        #[cfg(test)]
        #[test]
        fn $test() -> ::core::result::Result<(), ::std::string::String> {
            let written = include_str!(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/fixtures/records/",
                $kind,
                ".jsonl"
            ));
            $crate::stored::check_read::<$type>(written)?;
            $crate::stored::check_foreign::<$type>(written)
        }
    };
}
