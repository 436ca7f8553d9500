//! Signature algorithms of tokens.

use bulkhead_wire::failure::{Failure, quoted};
use serde::{Deserialize, Serialize};

/// A signature algorithm, under its JOSE name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum TokenAlgorithm {
    /// RSA of 2048 bits with SHA-256, which every verifier supports.
    #[default]
    #[serde(rename = "RS256")]
    Rs256,
    /// RSA of 2048 bits with SHA-384.
    #[serde(rename = "RS384")]
    Rs384,
    /// RSA of 2048 bits with SHA-512.
    #[serde(rename = "RS512")]
    Rs512,
    /// P-256 with SHA-256.
    #[serde(rename = "ES256")]
    Es256,
    /// P-384 with SHA-384.
    #[serde(rename = "ES384")]
    Es384,
    /// P-521 with SHA-512.
    #[serde(rename = "ES512")]
    Es512,
    /// Ed25519.
    #[serde(rename = "EdDSA")]
    EdDsa,
}

impl TokenAlgorithm {
    /// All algorithms, in display order.
    pub(crate) const ALL: [Self; 7] =
        [Self::Rs256, Self::Rs384, Self::Rs512, Self::Es256, Self::Es384, Self::Es512, Self::EdDsa];

    /// Returns the JOSE name.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Rs256 => "RS256",
            Self::Rs384 => "RS384",
            Self::Rs512 => "RS512",
            Self::Es256 => "ES256",
            Self::Es384 => "ES384",
            Self::Es512 => "ES512",
            Self::EdDsa => "EdDSA",
        }
    }

    /// Parses a JOSE name.
    ///
    /// # Errors
    /// 400 that lists the known names.
    pub fn of_word(word: &str) -> Result<Self, Failure> {
        Self::ALL.into_iter().find(|one| one.word() == word).ok_or_else(|| {
            let words = Self::ALL.map(Self::word).join(", ");
            Failure::invalid(format!("algorithm {} is unknown: give one of {words}", quoted(word)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn algorithm_is_stored_and_requested_by_token_name() {
        for one in TokenAlgorithm::ALL {
            assert_eq!(TokenAlgorithm::of_word(one.word()), Ok(one));
            assert_eq!(serde_json::to_value(one).unwrap(), one.word());
        }
        for wrong in ["none", "HS256", "rs256", ""] {
            let refused = TokenAlgorithm::of_word(wrong).unwrap_err();
            assert!(refused.message.contains("RS256, RS384"), "{refused}");
        }
    }
}
