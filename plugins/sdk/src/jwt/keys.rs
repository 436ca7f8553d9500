//! Keys of an issuer, as a set of JWKs (RFC 7517 §5).
//!
//! The attacks this file stops: a set with so many or so large keys that finding a key takes a long
//! time, and keys that are weak or have another purpose.

use super::{JwtFault, ParsedToken, malformed};
use bulkhead_wire::json;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Maximum size of a set, in bytes.
const SET_BYTES: usize = 256 << 10;
/// Maximum number of keys in a set.
const KEYS: usize = 100;
/// Members with the key itself and its purpose. Other members, such as certificates, are dropped.
const MEMBERS: [&str; 8] = ["kty", "crv", "n", "e", "x", "y", "alg", "use"];

/// Keys of an issuer for the verification of signatures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySet(Vec<IssuerKey>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct IssuerKey {
    id: Option<String>,
    /// Prefixes of the supported algorithms: `ES256` is a single algorithm, `RS` stands for all RSA
    /// algorithms with this prefix.
    serves: &'static [&'static str],
    alg: Option<String>,
    /// The JWK as text, for the host.
    text: String,
}

impl KeySet {
    /// Parses a set: a JSON object with the member `keys`. Encryption keys, and keys of kinds that
    /// the host does not support, are dropped.
    ///
    /// # Errors
    /// [`JwtFault::Malformed`] if `set` is not such an object, or has more than 256 KiB or more
    /// than 100 keys.
    pub fn read(set: &[u8]) -> Result<Self, JwtFault> {
        if set.len() > SET_BYTES {
            return Err(malformed("the issuer's set of keys has more than 256 KiB"));
        }
        let set =
            json::object(set).map_err(|_| malformed("the issuer's set of keys is not JSON"))?;
        let Some(Value::Array(keys)) = set.get("keys") else {
            return Err(malformed("the issuer's set of keys has no list of keys"));
        };
        if keys.len() > KEYS {
            let count = keys.len();
            return Err(malformed(&format!(
                "the issuer's set has {count} keys; the most is {KEYS}"
            )));
        }
        Ok(Self(keys.iter().filter_map(Value::as_object).filter_map(IssuerKey::read).collect()))
    }

    /// Returns the keys for an algorithm by id, for [`issuer_keys`](crate::issuer_keys). Keys
    /// without an id and keys with a repeated id are left out.
    #[must_use]
    pub fn by_id(&self, algorithm: &str) -> BTreeMap<String, String> {
        self.unique().filter(|(_, key)| key.is_for(algorithm)).map(named).collect()
    }

    /// Returns the keys for all algorithms by id, as [`by_id`](Self::by_id). The only key of a set
    /// also has the empty id, for tokens that state no key.
    #[must_use]
    pub fn by_any_id(&self) -> BTreeMap<String, String> {
        let mut keys: BTreeMap<String, String> = self.unique().map(named).collect();
        if let [sole] = self.0.as_slice() {
            keys.insert(String::new(), sole.text.clone());
        }
        keys
    }

    /// Returns the keys with an id that no other key has.
    fn unique(&self) -> impl Iterator<Item = (&str, &IssuerKey)> {
        let mut found: BTreeMap<&str, Vec<&IssuerKey>> = BTreeMap::new();
        for key in &self.0 {
            found.entry(key.id.as_deref().unwrap_or_default()).or_default().push(key);
        }
        found.into_iter().filter_map(|(id, keys)| match keys.as_slice() {
            [key] if !id.is_empty() => Some((id, *key)),
            _ => None,
        })
    }

    /// Returns the key that `token` states. If the token states no key, returns the only key for
    /// the token's algorithm.
    ///
    /// # Errors
    /// [`JwtFault::UnknownKey`] if no key or more than one key matches.
    pub fn key_of(&self, token: &ParsedToken<'_>) -> Result<&str, JwtFault> {
        let wanted = token.key_id();
        let is_meant = |key: &&IssuerKey| {
            key.is_for(token.algorithm()) && (wanted.is_none() || key.id.as_deref() == wanted)
        };
        let mut meant = self.0.iter().filter(is_meant);
        match (meant.next(), meant.next()) {
            (Some(key), None) => Ok(&key.text),
            _ => Err(JwtFault::UnknownKey),
        }
    }
}

fn named((id, key): (&str, &IssuerKey)) -> (String, String) {
    (id.to_owned(), key.text.clone())
}

impl IssuerKey {
    /// Reads a signature key of a supported kind.
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
