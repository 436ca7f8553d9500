//! JWTs (RFC 7519): parsing, verification and checks of received tokens, and signing of own tokens.
//!
//! The three steps are three types, so that no claim is used before the signature is verified: a
//! [`ParsedToken`] is parsed and proves nothing, [`ParsedToken::prove`] is the only source of
//! proven [`Claims`], and [`Claims::check`] compares the claims with the caller's expectations.
//!
//! ```
//! use bulkhead_sdk::jwt::{Claims, ExpectedClaims, JwtFault, KeySet, ParsedToken};
//! use bulkhead_sdk::Host;
//!
//! fn proven(host: &dyn Host, jwt: &str, keys: &[u8]) -> Result<Claims, JwtFault> {
//!     let token = ParsedToken::read(jwt, &["RS256"])?;
//!     let keys = KeySet::read(keys)?;
//!     let key = keys.key_of(&token)?;
//!     let claims = token.prove(host, key)?;
//!     let expected = ExpectedClaims { issuer: "https://issuer.example", audience: "bulkhead" };
//!     claims.check(host.clock().now(), &expected)?;
//!     Ok(claims)
//! }
//! ```
//!
//! The attacks this module stops:
//!
//! - An algorithm chosen by the sender (`none`, or a public key taken as a shared secret).
//! - Keys that the token carries (`jwk`, `jku` and `x5c` are ignored).
//! - A claim of the wrong type that counts as absent.
//! - A JSON key given twice, so that two parsers read different values.
//! - Very long tokens, and very large key sets.

mod claims;
mod keys;

pub use claims::{Claims, ExpectedClaims};
pub use keys::KeySet;

use crate::host::Host;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bulkhead_wire::failure::{Failure, quoted};
use bulkhead_wire::json;
use serde_json::{Map, Value};
use std::fmt;

/// Maximum size of a token, in bytes.
const TOKEN_BYTES: usize = 16 << 10;
/// Maximum length of a key id, in bytes.
const KEY_ID_BYTES: usize = 512;
/// Accepted values of the header `typ` (RFC 8725, 9068), compared without case.
const TYPES: [&str; 2] = ["jwt", "at+jwt"];

/// A parsed token. Nothing in the token is proven.
pub struct ParsedToken<'a> {
    /// The signed text: header and claims, as sent.
    signed: &'a str,
    signature: Vec<u8>,
    algorithm: String,
    key_id: Option<String>,
    claims: Claims,
}

/// Reason why a token is not accepted. A message shows no claim of the token except `exp` and
/// `nbf`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JwtFault {
    /// The text is not a JWT, or the key set is not valid; with the reason.
    Malformed(String),
    /// The algorithm is not allowed.
    Algorithm(String),
    /// No known key matches.
    UnknownKey,
    /// The signature does not match the token and the key.
    Signature,
    /// The issuer is not the expected issuer.
    Issuer {
        /// The expected issuer.
        expected: String,
        /// The token's issuer.
        found: String,
    },
    /// The token is for another audience.
    Audience {
        /// The expected audience.
        expected: String,
        /// The token's audiences.
        found: Vec<String>,
    },
    /// The token has expired, at this time in seconds since 1970.
    Expired(u64),
    /// The token is not valid yet; it becomes valid at this time in seconds since 1970.
    Immature(u64),
    /// The host refused the key, or the grant is missing.
    Refused(Failure),
}

/// Shows no issuer, audience or algorithm of the token: these may be unproven, and a caller could
/// use the messages to test guesses.
impl fmt::Display for JwtFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(why) => write!(f, "the token cannot be read: {why}"),
            Self::Algorithm(_) => {
                f.write_str("the token is signed by an algorithm that is not allowed here")
            }
            Self::UnknownKey => f.write_str("the token is signed by a key that is not known"),
            Self::Signature => f.write_str("the token's signature is not by the issuer's key"),
            Self::Issuer { expected, .. } => {
                write!(f, "the token is of another issuer; {} is expected", quoted(expected))
            }
            Self::Audience { expected, .. } => {
                write!(f, "the token is for another audience; {} is expected", quoted(expected))
            }
            Self::Expired(at) => write!(f, "the token has ended at {at}"),
            Self::Immature(at) => write!(f, "the token does not hold before {at}"),
            Self::Refused(failure) => f.write_str(&failure.message),
        }
    }
}

impl From<JwtFault> for Failure {
    fn from(fault: JwtFault) -> Self {
        match fault {
            JwtFault::Refused(failure) => failure,
            other => Self::invalid(other.to_string()),
        }
    }
}

/// The parts of a token as text, none of them decoded. For a token that another server verifies.
pub struct TokenParts<'a> {
    /// The signed text: header and claims, with the dot.
    pub signed: &'a str,
    /// The header in base64url.
    pub header: &'a str,
    /// The claims in base64url.
    pub claims: &'a str,
    /// The signature in base64url.
    pub signature: &'a str,
}

impl<'a> TokenParts<'a> {
    /// Splits a token. White space around the token is left out, because the token often comes from
    /// a file that ends with a line break.
    ///
    /// # Errors
    /// [`JwtFault::Malformed`] for a token that is longer than 16 KiB or does not have three parts.
    pub fn split(text: &'a str) -> Result<Self, JwtFault> {
        let text = text.trim_ascii();
        if text.len() > TOKEN_BYTES {
            return Err(malformed("it has more than 16 KiB"));
        }
        let parts = text.rsplit_once('.').and_then(|(signed, signature)| {
            let (header, claims) = signed.split_once('.')?;
            (!claims.contains('.')).then_some(Self { signed, header, claims, signature })
        });
        parts.ok_or_else(|| malformed("the token does not have three parts separated by dots"))
    }
}

impl<'a> ParsedToken<'a> {
    /// Parses a token that is signed by one of `algorithms`, given by their JOSE names.
    ///
    /// # Errors
    /// [`JwtFault::Malformed`] for a token that is longer than 16 KiB, does not have three parts in
    /// base64url, has a JSON key twice, a `crit`, a type other than JWT or a registered claim of
    /// the wrong type, or has no `exp`; [`JwtFault::Algorithm`].
    pub fn read(text: &'a str, algorithms: &[&str]) -> Result<Self, JwtFault> {
        let token = Self::read_unbounded(text, algorithms)?;
        token.claims.check_end()?;
        Ok(token)
    }

    /// Parses a token that may have no `exp`. The caller bounds the time of such a token by its
    /// other times.
    ///
    /// # Errors
    /// As [`ParsedToken::read`].
    pub fn read_unbounded(text: &'a str, algorithms: &[&str]) -> Result<Self, JwtFault> {
        let TokenParts { signed, header, claims, signature } = TokenParts::split(text)?;
        let header = object(header)?;
        let algorithm = text_of(&header, "alg")?.unwrap_or_default();
        if !algorithms.contains(&algorithm.as_str()) {
            return Err(JwtFault::Algorithm(algorithm));
        }
        check_header(&header)?;
        let key_id = text_of(&header, "kid")?;
        if key_id.as_ref().is_some_and(|id| id.is_empty() || id.len() > KEY_ID_BYTES) {
            return Err(malformed("kid is empty, or has more than 512 bytes"));
        }
        let (signature, claims) = (decode(signature)?, Claims::read(object(claims)?)?);
        Ok(Self { signed, signature, algorithm, key_id, claims })
    }

    /// Returns the algorithm that the token states, one of the allowed algorithms.
    #[must_use]
    pub fn algorithm(&self) -> &str {
        &self.algorithm
    }

    /// Returns the key id that the token states.
    #[must_use]
    pub fn key_id(&self) -> Option<&str> {
        self.key_id.as_deref()
    }

    /// Returns the claims without proof. Use them only to find the token's key.
    #[must_use]
    pub fn unverified_claims(&self) -> &Claims {
        &self.claims
    }

    /// Verifies the signature with `key`, a JWK or PEM, and returns the claims.
    ///
    /// # Errors
    /// [`JwtFault::Signature`]; [`JwtFault::Refused`] if `key` is not a key for the algorithm.
    pub fn prove(self, host: &dyn Host, key: &str) -> Result<Claims, JwtFault> {
        self.prove_by_any(host, [key])
    }

    /// Verifies the signature with each of `keys`, and returns the claims if one of the keys
    /// matches.
    ///
    /// # Errors
    /// [`JwtFault::UnknownKey`] without any key; otherwise as [`ParsedToken::prove`] with the last
    /// key.
    pub fn prove_by_any<'k>(
        self,
        host: &dyn Host,
        keys: impl IntoIterator<Item = &'k str>,
    ) -> Result<Claims, JwtFault> {
        let (message, signature) = (self.signed.as_bytes(), &self.signature);
        let mut fault = JwtFault::UnknownKey;
        for key in keys {
            match host.crypto().verify(&self.algorithm, key, message, signature) {
                Ok(true) => return Ok(self.claims),
                Ok(false) => fault = JwtFault::Signature,
                Err(refused) => fault = JwtFault::Refused(refused),
            }
        }
        Err(fault)
    }
}

/// Signs claims with the private key `key`, a JWK or PEM.
///
/// # Errors
/// Permission denied without the grant `crypto:sign`; invalid request if `key` is not a key for the
/// algorithm.
pub fn sign(
    host: &dyn Host,
    algorithm: &str,
    key_id: Option<&str>,
    claims: &Map<String, Value>,
    key: &str,
) -> Result<String, Failure> {
    let mut header = Map::from_iter([("alg".to_owned(), algorithm.into())]);
    header.insert("typ".to_owned(), "JWT".into());
    if let Some(key_id) = key_id {
        header.insert("kid".to_owned(), key_id.into());
    }
    let claims = serde_json::to_vec(claims)
        .map_err(|_| Failure::internal("the claims of a token cannot be written"))?;
    let header = URL_SAFE_NO_PAD.encode(Value::Object(header).to_string());
    let signed = format!("{header}.{}", URL_SAFE_NO_PAD.encode(claims));
    let signature = host.crypto().sign(algorithm, key, signed.as_bytes())?;
    Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
}

fn check_header(header: &Map<String, Value>) -> Result<(), JwtFault> {
    if header.contains_key("crit") {
        return Err(malformed("the header has crit, and no critical extension is supported"));
    }
    let kind = text_of(header, "typ")?.unwrap_or_else(|| "JWT".to_owned());
    if TYPES.iter().any(|name| name.eq_ignore_ascii_case(&kind)) {
        return Ok(());
    }
    Err(malformed("typ is neither JWT nor at+jwt"))
}

/// Decodes a part that is a JSON object.
///
/// # Errors
/// [`JwtFault::Malformed`] if the part is not base64url without padding, or not a JSON object with
/// each key once.
pub fn object(part: &str) -> Result<Map<String, Value>, JwtFault> {
    let bytes = decode(part)?;
    if bytes.trim_ascii_start().first() != Some(&b'{') {
        return Err(malformed("a part is not a JSON object"));
    }
    json::object(&bytes).map_err(|_| malformed("a part is not JSON with each key once"))
}

/// Decodes a part.
///
/// # Errors
/// [`JwtFault::Malformed`] if the part is not base64url without padding.
pub fn decode(part: &str) -> Result<Vec<u8>, JwtFault> {
    URL_SAFE_NO_PAD.decode(part).map_err(|_| malformed("a part is not base64url without padding"))
}

/// Returns a text member; `None` if absent.
fn text_of(from: &Map<String, Value>, name: &str) -> Result<Option<String>, JwtFault> {
    match from.get(name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(malformed(&format!("{name} is not a text"))),
    }
}

fn malformed(why: &str) -> JwtFault {
    JwtFault::Malformed(why.to_owned())
}

#[cfg(test)]
mod second_opinion;
#[cfg(test)]
mod tests;
