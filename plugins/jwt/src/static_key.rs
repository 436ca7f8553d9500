//! Public keys of the configuration, in PEM.
//!
//! This file prevents two attacks: a token whose algorithm is for another kind of key, and a
//! private key stored in place of its public half.

use bulkhead_sdk::{Failure, Host};
use serde::{Deserialize, Serialize};

/// Maximum number of keys.
const MOST: usize = 100;

/// A written key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StaticKey {
    /// The key or certificate in PEM, as written.
    pub(crate) pem: String,
    /// `rsa`, `ec` or `ed25519`.
    kind: String,
    /// Size of the modulus or of the curve, in bits.
    bits: u32,
}

impl StaticKey {
    /// Reads keys from their PEM texts.
    ///
    /// # Errors
    /// Invalid request with the number of the key.
    pub(crate) fn read_all(host: &dyn Host, texts: &[String]) -> Result<Vec<Self>, Failure> {
        if texts.len() > MOST {
            return Err(Failure::invalid(format!(
                "jwt_validation_pubkeys: there may be at most {MOST} keys"
            )));
        }
        let read = |(number, pem): (usize, &String)| {
            Self::read(host, pem).map_err(|why| Failure {
                message: format!(
                    "jwt_validation_pubkeys: key {} is refused: {}",
                    number + 1,
                    why.message
                ),
                ..why
            })
        };
        texts.iter().enumerate().map(read).collect()
    }

    fn read(host: &dyn Host, pem: &str) -> Result<Self, Failure> {
        if pem.contains("PRIVATE KEY-----") {
            return Err(Failure::invalid("the text is a private key; give the public half"));
        }
        if !pem.trim_start().starts_with("-----BEGIN ") {
            return Err(Failure::invalid(
                "the text is not PEM; give a text with -----BEGIN at the start",
            ));
        }
        let is_certificate = pem.contains("-----BEGIN CERTIFICATE-----");
        let key = match is_certificate {
            true => host.crypto().read_certificate(pem)?.public_key.ok_or_else(|| {
                Failure::invalid("the certificate's key is of an unsupported kind")
            })?,
            false => host.crypto().read_key(pem)?,
        };
        Ok(Self { pem: pem.to_owned(), kind: key.kind, bits: key.bits })
    }

    /// Tells if the key is of the kind, and on the curve, of the algorithm.
    pub(crate) fn is_for(&self, algorithm: &str) -> bool {
        match (self.kind.as_str(), self.bits) {
            ("rsa", _) => algorithm.starts_with("RS") || algorithm.starts_with("PS"),
            ("ec", 256) => algorithm == "ES256",
            ("ec", 384) => algorithm == "ES384",
            ("ec", 521) => algorithm == "ES512",
            ("ed25519", _) => algorithm == "EdDSA",
            _ => false,
        }
    }
}
