//! Certificates and private keys in PEM texts.
//!
//! This file prevents a message that quotes a line of a key: the parser's own messages are not
//! used.

use rustls::pki_types::pem::{Error, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::fmt;

/// The reason why a PEM text is not usable. A message puts the name of the text in front.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PemFault {
    /// The text is not PEM, for this reason.
    NotPem(&'static str),
    /// The text holds no certificate.
    NoCertificate,
    /// The text holds no private key.
    NoKey,
    /// The private key is encrypted.
    EncryptedKey,
}

/// Reads the certificates of a text, in order; at least one.
///
/// # Errors
/// The reason why there are no certificates.
pub fn certificates(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, PemFault> {
    let found: Result<Vec<_>, Error> = CertificateDer::pem_slice_iter(text).collect();
    let found = found.map_err(|error| PemFault::of(&error))?;
    if found.is_empty() { Err(PemFault::NoCertificate) } else { Ok(found) }
}

/// Reads the unencrypted private key of a text.
///
/// # Errors
/// The reason why there is no key.
pub(crate) fn private_key(text: &[u8]) -> Result<PrivateKeyDer<'static>, PemFault> {
    const ENCRYPTED: &[u8] = b"ENCRYPTED";
    if text.windows(ENCRYPTED.len()).any(|part| part == ENCRYPTED) {
        return Err(PemFault::EncryptedKey);
    }
    PrivateKeyDer::from_pem_slice(text).map_err(|error| match error {
        Error::NoItemsFound => PemFault::NoKey,
        error => PemFault::of(&error),
    })
}

impl PemFault {
    fn of(error: &Error) -> Self {
        Self::NotPem(match error {
            Error::MissingSectionEnd { .. } => "a block has no END line",
            Error::IllegalSectionStart { .. } => "a BEGIN line is incomplete",
            Error::Base64Decode(_) => "a block is not base64",
            _ => "the text cannot be read",
        })
    }
}

impl fmt::Display for PemFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotPem(why) => write!(f, "is not PEM: {why}; create the PEM text again"),
            Self::NoCertificate => {
                f.write_str("holds no certificate; give PEM with BEGIN CERTIFICATE")
            }
            Self::NoKey => f.write_str("holds no private key; give PEM with BEGIN PRIVATE KEY"),
            Self::EncryptedKey => f.write_str(
                "is encrypted, and nobody is asked for a passphrase; give the key in the clear, as \
                 written by openssl pkey",
            ),
        }
    }
}
