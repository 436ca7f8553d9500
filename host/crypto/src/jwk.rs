//! Keys as JSON Web Keys (RFC 7517, 7518, 8037).

use crate::limits::{self, check_length};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bulkhead_wire::failure::Failure;
use serde::{Deserialize, Deserializer};
use zeroize::{Zeroize, Zeroizing};

/// A JSON Web Key. Members not about the key are ignored.
#[derive(Deserialize)]
pub(crate) struct Jwk {
    pub(crate) kty: String,
    pub(crate) crv: Option<String>,
    /// Permitted use of the key: `sig` or `enc`.
    #[serde(rename = "use")]
    pub(crate) purpose: Option<String>,
    pub(crate) alg: Option<String>,
    pub(crate) n: Option<SecretText>,
    pub(crate) e: Option<SecretText>,
    pub(crate) x: Option<SecretText>,
    pub(crate) y: Option<SecretText>,
    pub(crate) d: Option<SecretText>,
    pub(crate) p: Option<SecretText>,
    pub(crate) q: Option<SecretText>,
    pub(crate) dp: Option<SecretText>,
    pub(crate) dq: Option<SecretText>,
    pub(crate) qi: Option<SecretText>,
}

/// A possibly secret text, wiped when dropped.
pub(crate) struct SecretText(String);

impl SecretText {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl Drop for SecretText {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl<'de> Deserialize<'de> for SecretText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self)
    }
}

/// Returns whether the text is JSON rather than PEM.
pub(crate) fn is_json(text: &str) -> bool {
    text.trim_start().starts_with('{')
}

impl Jwk {
    pub(crate) fn read(text: &str) -> Result<Self, Failure> {
        check_length("the key", text.len(), limits::JWK_BYTES)?;
        let jwk: Self = serde_json::from_str(text).map_err(|_| {
            Failure::invalid(
                "the key is not a JWK: one JSON object with a kty, and each member once",
            )
        })?;
        match jwk.purpose.as_deref() {
            None | Some("sig") => Ok(jwk),
            Some(_) => {
                Err(Failure::invalid("the key's use is not sig, and such a key signs nothing"))
            }
        }
    }

    /// Returns the secret members.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = &str> {
        let parts = [&self.d, &self.p, &self.q, &self.dp, &self.dq, &self.qi];
        parts.into_iter().flatten().map(SecretText::as_str)
    }
}

/// Returns the bytes of a required member.
pub(crate) fn member(name: &str, text: Option<&SecretText>) -> Result<Zeroizing<Vec<u8>>, Failure> {
    let text = text.ok_or_else(|| Failure::invalid(format!("the JWK lacks the member {name}")))?;
    let bytes = URL_SAFE_NO_PAD.decode(text.as_str()).map_err(|_| {
        Failure::invalid(format!("the JWK's member {name} is not base64url without padding"))
    })?;
    Ok(Zeroizing::new(bytes))
}

/// Encodes bytes for a member.
pub(crate) fn encode(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}
