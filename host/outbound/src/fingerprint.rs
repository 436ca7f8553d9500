//! Fingerprints of settings: a digest of all values.
//!
//! This file prevents two settings from being mistaken for each other because their concatenated
//! values are the same. Each value is hashed with its length, and an absent value differs from
//! every present value. Settings hold passwords and keys, so the values are not joined in memory
//! first, and a fingerprint is never shown.

use aws_lc_rs::digest::{self, SHA256, SHA256_OUTPUT_LEN};

/// A digest of some values, in order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fingerprint([u8; SHA256_OUTPUT_LEN]);

impl Fingerprint {
    /// Begins a fingerprint without values.
    pub fn begin() -> FingerprintBuilder {
        FingerprintBuilder(digest::Context::new(&SHA256))
    }
}

/// A fingerprint in progress.
pub struct FingerprintBuilder(digest::Context);

impl FingerprintBuilder {
    /// Adds a value that may be absent.
    pub(crate) fn optional(mut self, value: Option<impl AsRef<[u8]>>) -> Self {
        match value {
            Some(value) => self.bytes(value),
            None => {
                self.0.update(&[0]);
                self
            }
        }
    }

    /// Adds a value.
    pub fn bytes(mut self, value: impl AsRef<[u8]>) -> Self {
        let value = value.as_ref();
        self.0.update(&[1]);
        self.0.update(&value.len().to_be_bytes());
        self.0.update(value);
        self
    }

    /// Adds a number.
    pub(crate) fn number(self, value: impl Into<u64>) -> Self {
        self.bytes(value.into().to_be_bytes())
    }

    /// Adds a list of values, with a mark at the end.
    pub(crate) fn all<V: AsRef<[u8]>>(self, values: impl IntoIterator<Item = V>) -> Self {
        let taken = values.into_iter().fold(self, Self::bytes);
        taken.optional(None::<&str>)
    }

    /// Returns the digest of all values.
    pub fn end(self) -> Fingerprint {
        let mut fingerprint = [0; SHA256_OUTPUT_LEN];
        fingerprint.copy_from_slice(self.0.finish().as_ref());
        Fingerprint(fingerprint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_distinguish_values_with_equal_concatenation() {
        let taken = [
            Fingerprint::begin(),
            Fingerprint::begin().bytes("ab"),
            Fingerprint::begin().bytes("a").bytes("b"),
            Fingerprint::begin().bytes("").bytes("ab"),
            Fingerprint::begin().optional(None::<&str>).bytes("ab"),
            Fingerprint::begin().bytes("ab").optional(None::<&str>),
            Fingerprint::begin().all(["a"]).all(["b"]),
            Fingerprint::begin().all(["a", "b"]).all([""; 0]),
            Fingerprint::begin().all([""; 0]).all(["a", "b"]),
            Fingerprint::begin().number(1_u8),
            Fingerprint::begin().bytes("1"),
        ];
        let taken: Vec<Fingerprint> = taken.map(FingerprintBuilder::end).into();
        for (index, one) in taken.iter().enumerate() {
            assert!(taken.iter().skip(index + 1).all(|other| one != other), "{index}");
        }
        assert!(
            Fingerprint::begin().number(1_u8).end() == Fingerprint::begin().number(1_u64).end()
        );
    }
}
