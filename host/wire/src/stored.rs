//! Stored records: how a type is written into the store and read again by every release.
//!
//! The fault this file stops: an update after which the service cannot read what the release before
//! it wrote. The rule is one for the host and for components:
//!
//! - A record is a struct that is stored as a JSON object. A field that came after the type's first
//!   release has `#[serde(default)]`: records without it are read.
//! - Fields that a release does not know are ignored, so that going back a release reads, too.
//! - Where the meaning of what is stored changes, the type's version grows by one, and older
//!   records are carried over as they are read. A release refuses records of a version that it does
//!   not know, instead of misunderstanding them.
//!
//! [`stored!`](crate::stored) makes a type a stored one, and gives it the test that reads records
//! as earlier releases wrote them. How to add a field is in `docs/how-to-add-a-field.md`.

#[cfg(test)]
mod tests;
mod written;

pub use written::{check_foreign, check_read};

use crate::failure::Failure;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::fmt;

/// What a record of an earlier version, whose number is given, means in the present one; `None`
/// where it means nothing.
pub type Upgrade = fn(u32, Value) -> Option<Value>;

/// A type that is stored as a record of its own. Implement it by [`stored!`](crate::stored).
///
/// Records of version 1 are plain JSON; those of later versions have `v2`, `v3` … before it, which
/// is JSON to no release.
pub trait Stored: Serialize + DeserializeOwned {
    /// Names the type among those of its crate, and the file of its earlier records.
    const KIND: &'static str;
    /// The version that is written; it grows where the meaning of what is stored changes.
    const VERSION: u32 = 1;

    /// Carries records of earlier versions over to this one.
    const UPGRADE: Upgrade = |_, _| None;

    /// The bytes of the record.
    ///
    /// # Errors
    /// Internal when the record is none that JSON can hold.
    fn to_bytes(&self) -> Result<Vec<u8>, Failure> {
        let mut bytes = Vec::with_capacity(ORDINARY_BYTES);
        if Self::VERSION > 1 {
            bytes.extend_from_slice(format!("v{} ", Self::VERSION).as_bytes());
        }
        serde_json::to_writer(&mut bytes, self)
            .map_err(|error| Failure::internal(error.to_string()))?;
        Ok(bytes)
    }

    /// The record in the bytes.
    ///
    /// # Errors
    /// What is wrong with them, without a word of what they hold: it can be a secret.
    fn from_bytes(bytes: &[u8]) -> Result<Self, Unreadable> {
        let (version, json) = parts(bytes).ok_or(Unreadable::Garbled)?;
        if version == Self::VERSION {
            return serde_json::from_slice(json).map_err(|_| Unreadable::Garbled);
        }
        if version > Self::VERSION {
            return Err(Unreadable::Newer { version, known: Self::VERSION });
        }
        let record = serde_json::from_slice(json).map_err(|_| Unreadable::Garbled)?;
        let record = (Self::UPGRADE)(version, record).ok_or(Unreadable::Garbled)?;
        serde_json::from_value(record).map_err(|_| Unreadable::Garbled)
    }

    /// Some fields of the record in the bytes: what else it holds takes no time.
    ///
    /// # Errors
    /// As [`from_bytes`](Self::from_bytes).
    fn part_from_bytes<P: DeserializeOwned>(bytes: &[u8]) -> Result<P, Unreadable> {
        match parts(bytes) {
            Some((version, json)) if version == Self::VERSION => {
                serde_json::from_slice(json).map_err(|_| Unreadable::Garbled)
            }
            _ => {
                let whole = serde_json::to_value(Self::from_bytes(bytes)?);
                whole.and_then(serde_json::from_value).map_err(|_| Unreadable::Garbled)
            }
        }
    }
}

/// What is reserved for a record at first, as `serde_json` does.
const ORDINARY_BYTES: usize = 128;

/// The version of a record, and its JSON.
fn parts(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let Some(rest) = bytes.strip_prefix(b"v") else { return Some((1, bytes)) };
    let end = rest.iter().position(|byte| *byte == b' ')?;
    let (number, json) = rest.split_at_checked(end)?;
    Some((str::from_utf8(number).ok()?.parse().ok()?, json.get(1..)?))
}

/// Why bytes are not a record of their type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// They have another shape.
    Garbled,
    /// They are a record of a later release.
    Newer {
        /// Of the record.
        version: u32,
        /// The latest that this release knows.
        known: u32,
    },
}

impl Unreadable {
    /// The refusal of the record `what`: `the record of a lease does not parse`.
    pub fn of(self, what: impl fmt::Display) -> Failure {
        Failure::internal(format!("{what} {self}"))
    }
}

/// A predicate for the name of the record.
impl fmt::Display for Unreadable {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Garbled => out.write_str("does not parse"),
            Self::Newer { version, known } => write!(
                out,
                "has version {version} of its shape, and this release knows {known}; \
                 run the release that wrote it, or a later one"
            ),
        }
    }
}

impl std::error::Error for Unreadable {}

/// Makes a type a stored one: `stored!(LeaseRecord, "lease", reads_stored_leases);`.
///
/// The second part is [`Stored::KIND`]. The third is the name of a test which this makes, and which
/// reads the crate's `fixtures/records/<kind>.jsonl`: one record a line, as some release wrote it.
/// Without that file the tests do not compile. Lines are added to it and never changed.
///
/// A type whose meaning changed once also names its version and what carries older records over, as
/// [`Stored::UPGRADE`]: `stored!(LeaseRecord, "lease", reads_stored_leases, 2, upgrade)`.
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
