//! Secret texts: tokens, passwords and keys.
//!
//! The attacks this file prevents: a secret printed by a stray `{:?}`, found in freed memory, or
//! guessed from the time of a comparison. A [`Secret`] cannot be serialised; code that sends a
//! secret out calls [`Secret::expose`].

use std::fmt;
use std::hint::black_box;
use zeroize::Zeroize;

/// A secret text, overwritten when dropped.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// Takes ownership of `text`. A `String` is moved, so no copy stays behind.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the secret itself. Call this only where the secret is used.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

/// Compares in constant time for texts of equal length. The length itself is not hidden.
impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        let (mine, theirs) = (self.0.as_bytes(), other.0.as_bytes());
        let difference = mine.iter().zip(theirs).fold(0_u8, |sum, (a, b)| black_box(sum | (a ^ b)));
        (mine.len() == theirs.len()) & (difference == 0)
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(hidden)")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(hidden)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_never_shown() {
        let secret = Secret::new("bhs.0123");
        assert_eq!(format!("{secret} {secret:?} {:#?}", Some(&secret)).find("bhs"), None);
        assert_eq!(secret.expose(), "bhs.0123");
    }

    #[test]
    fn secrets_are_equal_only_when_every_byte_is() {
        let secret = Secret::new("bhs.0123");
        assert_eq!(secret, secret.clone());
        assert_eq!(Secret::new(""), Secret::new(""));
        for other in ["", "bhs.012", "bhs.01234", "bhs.0124", "Bhs.0123", "bhs.0123\0"] {
            assert_ne!(secret, Secret::new(other), "{other:?}");
            assert_ne!(Secret::new(other), secret, "{other:?}");
        }
    }
}
