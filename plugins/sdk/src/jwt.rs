//! JWTs of others (RFC 7519): read, proven, and held against what is expected; and JWTs of one's
//! own, signed.
//!
//! The three steps are three types, so that no claim is used before its signature: a [`Token`] was
//! read and proves nothing, [`Claims`] come out of it by [`Token::prove`] alone, and
//! [`Claims::check`] is what the caller expects of them.
//!
//! ```
//! use bulkhead_sdk::jwt::{Claims, Expected, Fault, KeySet, Token};
//! use bulkhead_sdk::Host;
//!
//! fn proven(host: &dyn Host, jwt: &str, keys: &[u8]) -> Result<Claims, Fault> {
//!     let token = Token::read(jwt, &["RS256"])?;
//!     let keys = KeySet::read(keys)?;
//!     let key = keys.key_of(&token)?;
//!     let claims = token.prove(host, key)?;
//!     let expected = Expected { issuer: "https://issuer.example", audience: "bulkhead" };
//!     claims.check(host.clock().now(), &expected)?;
//!     Ok(claims)
//! }
//! ```
//!
//! The attacks this module stops: an algorithm that the sender chose (`none`, or a public key taken
//! for a shared secret); keys that the token brings along (`jwk`, `jku`, `x5c` are not looked at);
//! a claim of the wrong type that counts as absent; a key given twice, of which another reader sees
//! the other one; and tokens and key sets that are long or many.

mod claims;
mod keys;

pub use claims::{Claims, Expected};
pub use keys::KeySet;

use crate::host::Host;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bulkhead_wire::failure::{Failure, quoted};
use bulkhead_wire::json;
use serde_json::{Map, Value};
use std::fmt;

/// Bytes of a token.
const TOKEN_BYTES: usize = 16 << 10;
/// Bytes of a key's name.
const KEY_ID_BYTES: usize = 512;
/// What a header may say that a token is (RFC 8725, 9068).
const TYPES: [&str; 2] = ["jwt", "at+jwt"];

/// A token that was read. Nothing of it is proven.
pub struct Token<'a> {
    /// What is signed: the header and the claims, as they were sent.
    signed: &'a str,
    signature: Vec<u8>,
    algorithm: String,
    key_id: Option<String>,
    claims: Claims,
}

/// Why a token proves nothing. No message repeats a claim but those that it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is no JWT, or no set of keys; with what is wrong.
    Malformed(String),
    /// It is signed by another algorithm than those that are allowed.
    Algorithm(String),
    /// There is no such key.
    UnknownKey,
    /// The signature is not of this token and by this key.
    Signature,
    /// Another issuer than the one that is expected.
    Issuer {
        /// Which one was expected.
        expected: String,
        /// Which one it names.
        found: String,
    },
    /// It is for others.
    Audience {
        /// For whom it should be.
        expected: String,
        /// For whom it is.
        found: Vec<String>,
    },
    /// It has ended; at that second since 1970.
    Expired(u64),
    /// It has not begun; it does at that second since 1970.
    Immature(u64),
    /// The host refused what was asked: the key, or the grant.
    Refused(Failure),
}

/// Names nothing that the token says, which is not proven, and so may be a guess of a caller who
/// reads the answer.
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(why) => write!(f, "the token cannot be read: {why}"),
            Self::Algorithm(_) => {
                f.write_str("the token is signed by an algorithm that is not allowed here")
            }
            Self::UnknownKey => f.write_str("the token is signed by a key that is not known"),
            Self::Signature => f.write_str("the token's signature is not that of its issuer's key"),
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

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Refused(failure) => failure,
            other => Self::invalid(other.to_string()),
        }
    }
}

impl<'a> Token<'a> {
    /// Reads a token that is signed by one of those algorithms, by their names in JOSE.
    ///
    /// # Errors
    /// [`Fault::Malformed`] for what is longer than 16 KiB, has not three parts in base64url, a key
    /// twice, a `crit` that is not understood, a type other than JWT, or a registered claim of a
    /// wrong type, and without an `exp`; [`Fault::Algorithm`].
    pub fn read(text: &'a str, algorithms: &[&str]) -> Result<Self, Fault> {
        if text.len() > TOKEN_BYTES {
            return Err(malformed("it has more than 16 KiB"));
        }
        let parts = text.rsplit_once('.').and_then(|(signed, signature)| {
            let (header, claims) = signed.split_once('.')?;
            (!claims.contains('.')).then_some((signed, header, claims, signature))
        });
        let (signed, header, claims, signature) =
            parts.ok_or_else(|| malformed("it has not three parts with dots between them"))?;
        let header = object(header)?;
        let algorithm = text_of(&header, "alg")?.unwrap_or_default();
        if !algorithms.contains(&algorithm.as_str()) {
            return Err(Fault::Algorithm(algorithm));
        }
        check_header(&header)?;
        let key_id = text_of(&header, "kid")?;
        if key_id.as_ref().is_some_and(|id| id.is_empty() || id.len() > KEY_ID_BYTES) {
            return Err(malformed("its kid is empty, or has more than 512 bytes"));
        }
        let (signature, claims) = (decode(signature)?, Claims::read(object(claims)?)?);
        Ok(Self { signed, signature, algorithm, key_id, claims })
    }

    /// The algorithm that it says it is signed by: one of those that were allowed.
    #[must_use]
    pub fn algorithm(&self) -> &str {
        &self.algorithm
    }

    /// The name of the key that it says it is signed by.
    #[must_use]
    pub fn key_id(&self) -> Option<&str> {
        self.key_id.as_deref()
    }

    /// What it claims without proof: good for finding its key, and for nothing else.
    #[must_use]
    pub fn unproven(&self) -> &Claims {
        &self.claims
    }

    /// What it claims, where its signature is by that key: a JWK, or PEM.
    ///
    /// # Errors
    /// [`Fault::Signature`]; [`Fault::Refused`] for what is no key for its algorithm.
    pub fn prove(self, host: &dyn Host, key: &str) -> Result<Claims, Fault> {
        let is_signed =
            host.crypto().verify(&self.algorithm, key, self.signed.as_bytes(), &self.signature);
        match is_signed.map_err(Fault::Refused)? {
            true => Ok(self.claims),
            false => Err(Fault::Signature),
        }
    }
}

/// Signs claims by a private key: a JWK, or PEM.
///
/// # Errors
/// Permission denied without the grant `crypto:sign`; invalid request for what is no key for the
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

fn check_header(header: &Map<String, Value>) -> Result<(), Fault> {
    if header.contains_key("crit") {
        return Err(malformed("its header has a crit, none of which is understood"));
    }
    let kind = text_of(header, "typ")?.unwrap_or_else(|| "JWT".to_owned());
    if TYPES.iter().any(|known| known.eq_ignore_ascii_case(&kind)) {
        return Ok(());
    }
    Err(malformed("its typ is neither JWT nor at+jwt"))
}

fn object(part: &str) -> Result<Map<String, Value>, Fault> {
    let bytes = decode(part)?;
    if bytes.trim_ascii_start().first() != Some(&b'{') {
        return Err(malformed("a part of it is not one JSON object"));
    }
    json::object(&bytes).map_err(|_| malformed("a part of it is not JSON with each key once"))
}

fn decode(part: &str) -> Result<Vec<u8>, Fault> {
    URL_SAFE_NO_PAD
        .decode(part)
        .map_err(|_| malformed("a part of it is not base64url without padding"))
}

/// A text that may be absent.
fn text_of(from: &Map<String, Value>, name: &str) -> Result<Option<String>, Fault> {
    match from.get(name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(malformed(&format!("its {name} is not a text"))),
    }
}

fn malformed(why: &str) -> Fault {
    Fault::Malformed(why.to_owned())
}

#[cfg(test)]
mod second_opinion;
#[cfg(test)]
mod tests;
