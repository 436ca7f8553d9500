//! Signatures of components: the policy of the configuration, and its trusted keys.
//!
//! The attacks this file prevents: a component that nobody of the operator's choice has signed, and
//! a signature of another component. A signature is of the component's digest, so that it covers
//! all bytes, the name and the version included. Signatures are checked when a component is
//! registered and again whenever the service opens, against the keys that are trusted then.

use super::origin::ComponentOrigin;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bulkhead_crypto::VerifyingKey;
use bulkhead_wire::component_signature::{key_line, key_pem, signed_text};
use bulkhead_wire::failure::{Failure, quoted};
use std::fmt;
use std::sync::Arc;

/// Maximum length of a key or a signature in its text form, in bytes.
const TEXT_BYTES: usize = 128;

/// The treatment of components without a trusted signature.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SignaturePolicy {
    /// Components need no signature.
    #[default]
    None,
    /// A component without a trusted signature is registered with a warning.
    Warn,
    /// A component without a trusted signature is refused.
    Require,
}

impl SignaturePolicy {
    /// Every policy.
    pub const ALL: [Self; 3] = [Self::None, Self::Warn, Self::Require];

    /// Returns the word of the configuration.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Warn => "warn",
            Self::Require => "require",
        }
    }
}

/// An Ed25519 key that may sign components.
#[derive(Clone)]
pub struct TrustedKey {
    line: String,
    key: Arc<VerifyingKey>,
}

impl TrustedKey {
    /// Reads a key in the form that `bulkhead plugin keygen` prints.
    ///
    /// # Errors
    /// The text is not an Ed25519 public key.
    pub fn parse(text: &str) -> Result<Self, String> {
        let line = key_line(text);
        let is_short = line.len() <= TEXT_BYTES;
        let key = is_short.then(|| VerifyingKey::read("EdDSA", &key_pem(&line)).ok()).flatten();
        let key = key.ok_or_else(|| {
            format!(
                "{} is not a public key for signatures; write the line from `bulkhead plugin \
                 keygen`",
                quoted(text)
            )
        })?;
        Ok(Self { line, key: Arc::new(key) })
    }

    /// Returns the key in a single line.
    #[must_use]
    pub fn line(&self) -> &str {
        &self.line
    }
}

impl fmt::Debug for TrustedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TrustedKey({})", self.line)
    }
}

/// The rules for signatures of components.
#[derive(Clone, Debug, Default)]
pub struct SignatureRules {
    /// Treatment of components without a trusted signature.
    pub policy: SignaturePolicy,
    /// Keys that may sign components.
    pub trusted_keys: Vec<TrustedKey>,
}

impl SignatureRules {
    /// Checks the signature of a component that is registered. Returns the origin with the signing
    /// key, and a warning if the policy asks for a warning.
    ///
    /// # Errors
    /// 400 for a signature of no trusted key, and for a missing signature if the policy requires
    /// one.
    pub(super) fn admit(
        &self,
        digest: &str,
        origin: ComponentOrigin,
    ) -> Result<(ComponentOrigin, Option<String>), Failure> {
        if origin.signature.is_empty() {
            let origin = ComponentOrigin { signed_by: String::new(), ..origin };
            return match self.policy {
                SignaturePolicy::None => Ok((origin, None)),
                SignaturePolicy::Warn => Ok((origin, Some(unsigned_message(digest)))),
                SignaturePolicy::Require => Err(Failure::invalid(unsigned_message(digest))),
            };
        }
        let signed_by = self.signer(digest, &origin.signature).map_err(Failure::invalid)?;
        Ok((ComponentOrigin { signed_by, ..origin }, None))
    }

    /// Checks the signature of a stored component when the service opens. Returns a warning if the
    /// policy asks for a warning.
    ///
    /// # Errors
    /// The component has no signature of a key that is trusted now, and the policy requires one.
    pub(super) fn check_stored(
        &self,
        digest: &str,
        origin: &ComponentOrigin,
    ) -> Result<Option<String>, String> {
        if self.policy == SignaturePolicy::None {
            return Ok(None);
        }
        let why = match origin.signature.as_str() {
            "" => unsigned_message(digest),
            signature => match self.signer(digest, signature) {
                Ok(_) => return Ok(None),
                Err(why) => why,
            },
        };
        match self.policy {
            SignaturePolicy::Require => Err(why),
            SignaturePolicy::None | SignaturePolicy::Warn => Ok(Some(why)),
        }
    }

    /// Returns the trusted key that made the signature.
    fn signer(&self, digest: &str, signature: &str) -> Result<String, String> {
        if self.trusted_keys.is_empty() {
            return Err("the component is signed, and this server trusts no key: add the key to \
                 plugin_signatures { trusted_keys } in the configuration, or leave signature out"
                .to_owned());
        }
        let bytes = match signature.len() {
            0..=TEXT_BYTES => STANDARD.decode(signature).ok().filter(|bytes| bytes.len() == 64),
            _ => None,
        };
        let bytes = bytes.ok_or_else(|| {
            "signature is not an Ed25519 signature in base64; give the text from `bulkhead plugin \
             sign`"
                .to_owned()
        })?;
        let text = signed_text(digest);
        let is_signer =
            |key: &&TrustedKey| key.key.verify(text.as_bytes(), &bytes).unwrap_or(false);
        let found = self.trusted_keys.iter().find(is_signer).map(|key| key.line.clone());
        found.ok_or_else(|| {
            format!(
                "the signature is by no key that this server trusts, or of another component than \
                 {digest}: sign this component with a trusted key, or add the signer's key to \
                 plugin_signatures {{ trusted_keys }} in the configuration"
            )
        })
    }
}

fn unsigned_message(digest: &str) -> String {
    format!(
        "the component {digest} is not signed, and the configuration (plugin_signatures) asks for \
         a signature: sign it with `bulkhead plugin sign`, and register it with the signature"
    )
}

#[cfg(test)]
mod tests;
