//! The keys of an issuer, as a set of JWKs (RFC 7517 §5).
//!
//! The attack this file stops: a set of so many or so large keys that finding one takes a while,
//! and one whose keys are weak, or meant for something else.

use super::{Fault, Token, malformed};
use bulkhead_wire::json;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Bytes of a set.
const SET_BYTES: usize = 256 << 10;
/// Keys of a set.
const KEYS: usize = 100;
/// Members that make a key, and what it is for. Others, such as certificates, are left out.
const MEMBERS: [&str; 8] = ["kty", "crv", "n", "e", "x", "y", "alg", "use"];

/// The keys of an issuer that signatures can be checked with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySet(Vec<Key>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Key {
    id: Option<String>,
    /// The beginnings of the algorithms that it is for: `ES256` alone, or all that begin with `RS`.
    serves: &'static [&'static str],
    alg: Option<String>,
    /// The JWK, for the host.
    text: String,
}

impl KeySet {
    /// Reads a set: one JSON object with its `keys`. Keys for encryption, and of kinds that the
    /// host does not serve, are left out.
    ///
    /// # Errors
    /// [`Fault::Malformed`] for what is no such set, has more than 256 KiB, or more than 100 keys.
    pub fn read(set: &[u8]) -> Result<Self, Fault> {
        if set.len() > SET_BYTES {
            return Err(malformed("its issuer's set of keys has more than 256 KiB"));
        }
        let set =
            json::object(set).map_err(|_| malformed("its issuer's set of keys is not JSON"))?;
        let Some(Value::Array(keys)) = set.get("keys") else {
            return Err(malformed("its issuer's set of keys has no list of keys"));
        };
        if keys.len() > KEYS {
            let count = keys.len();
            return Err(malformed(&format!(
                "its issuer's set has {count} keys; the most is {KEYS}"
            )));
        }
        Ok(Self(keys.iter().filter_map(Value::as_object).filter_map(Key::read).collect()))
    }

    /// The keys for one algorithm by their ids, for [`issuer_keys`](crate::issuer_keys): of those
    /// that have one, and no other key has it.
    #[must_use]
    pub fn by_id(&self, algorithm: &str) -> BTreeMap<String, String> {
        let mut found: BTreeMap<&str, Vec<&Key>> = BTreeMap::new();
        for key in &self.0 {
            found.entry(key.id.as_deref().unwrap_or_default()).or_default().push(key);
        }
        let sole = found.into_iter().filter_map(|(id, keys)| match keys.as_slice() {
            [key] if !id.is_empty() && key.is_for(algorithm) => {
                Some((id.to_owned(), key.text.clone()))
            }
            _ => None,
        });
        sole.collect()
    }

    /// The key that a token says it is signed by; the only one for its algorithm where it names
    /// none.
    ///
    /// # Errors
    /// [`Fault::UnknownKey`] where there is none, or no telling which.
    pub fn key_of(&self, token: &Token<'_>) -> Result<&str, Fault> {
        let wanted = token.key_id();
        let is_meant = |key: &&Key| {
            key.is_for(token.algorithm()) && (wanted.is_none() || key.id.as_deref() == wanted)
        };
        let mut meant = self.0.iter().filter(is_meant);
        match (meant.next(), meant.next()) {
            (Some(key), None) => Ok(&key.text),
            _ => Err(Fault::UnknownKey),
        }
    }
}

impl Key {
    /// A key that is for signatures, of a kind that is served.
    fn read(jwk: &Map<String, Value>) -> Option<Self> {
        let text = |name: &str| jwk.get(name).and_then(Value::as_str);
        if text("use").is_some_and(|purpose| purpose != "sig") {
            return None;
        }
        let serves: &[&str] = match (text("kty")?, text("crv")) {
            ("RSA", _) => &["RS", "PS"],
            ("EC", Some("P-256")) => &["ES256"],
            ("EC", Some("P-384")) => &["ES384"],
            ("EC", Some("P-521")) => &["ES512"],
            ("OKP", Some("Ed25519")) => &["EdDSA"],
            _ => return None,
        };
        let members = MEMBERS.iter().filter_map(|name| Some(((*name).to_owned(), jwk.get(*name)?)));
        let members: Map<_, _> = members.map(|(name, value)| (name, value.clone())).collect();
        Some(Self {
            id: text("kid").map(str::to_owned),
            serves,
            alg: text("alg").map(str::to_owned),
            text: Value::Object(members).to_string(),
        })
    }

    fn is_for(&self, algorithm: &str) -> bool {
        let serves = self.serves.iter().any(|served| algorithm.starts_with(served));
        serves && self.alg.as_deref().is_none_or(|alg| alg == algorithm)
    }
}
