//! What settings are told apart by: a digest of all their values.
//!
//! The attack this file stops: settings that are taken for others because their values, one behind
//! the other, read the same. Each goes in with its length, and one that is not there is none that
//! could be. They hold passwords and keys, so that nothing is put together in memory first, and a
//! fingerprint is never shown.

use aws_lc_rs::digest::{self, SHA256, SHA256_OUTPUT_LEN};

/// A digest of some values, in their order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Fingerprint([u8; SHA256_OUTPUT_LEN]);

impl Fingerprint {
    /// Of no value yet.
    pub(crate) fn begin() -> Taken {
        Taken(digest::Context::new(&SHA256))
    }
}

/// A fingerprint that is being taken.
pub(crate) struct Taken(digest::Context);

impl Taken {
    /// One more value, which may be absent.
    pub(crate) fn optional(mut self, value: Option<impl AsRef<[u8]>>) -> Self {
        match value {
            Some(value) => self.bytes(value),
            None => {
                self.0.update(&[0]);
                self
            }
        }
    }

    /// One more value.
    pub(crate) fn bytes(mut self, value: impl AsRef<[u8]>) -> Self {
        let value = value.as_ref();
        self.0.update(&[1]);
        self.0.update(&value.len().to_be_bytes());
        self.0.update(value);
        self
    }

    /// One more value.
    pub(crate) fn number(self, value: impl Into<u64>) -> Self {
        self.bytes(value.into().to_be_bytes())
    }

    /// So many values more.
    pub(crate) fn all<V: AsRef<[u8]>>(self, values: impl IntoIterator<Item = V>) -> Self {
        let taken = values.into_iter().fold(self, Self::bytes);
        taken.optional(None::<&str>)
    }

    /// Of all that came.
    pub(crate) fn end(self) -> Fingerprint {
        let mut fingerprint = [0; SHA256_OUTPUT_LEN];
        fingerprint.copy_from_slice(self.0.finish().as_ref());
        Fingerprint(fingerprint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_read_the_same_together_are_told_apart() {
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
        let taken: Vec<Fingerprint> = taken.map(Taken::end).into();
        for (index, one) in taken.iter().enumerate() {
            assert!(taken.iter().skip(index + 1).all(|other| one != other), "{index}");
        }
        assert!(
            Fingerprint::begin().number(1_u8).end() == Fingerprint::begin().number(1_u64).end()
        );
    }
}
