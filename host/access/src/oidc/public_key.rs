//! Public keys as members of a JSON Web Key Set.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bulkhead_crypto::{PublicKey, encode_pem};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// A public key. Numbers are in unpadded URL-safe base64.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kty")]
pub(super) enum PublicJwk {
    /// RSA.
    #[serde(rename = "RSA")]
    Rsa { n: String, e: String },
    /// A point on an elliptic curve.
    #[serde(rename = "EC")]
    Ec { crv: String, x: String, y: String },
    /// A key of an Edwards curve.
    #[serde(rename = "OKP")]
    Okp { crv: String, x: String },
}

impl PublicJwk {
    /// Converts the DER structure `RSAPublicKey`; `None` for other bytes and for keys that
    /// `host/crypto` refuses, such as short keys.
    pub(super) fn of_rsa(der: &[u8]) -> Option<Self> {
        let key = PublicKey::read(&encode_pem("RSA PUBLIC KEY", der)).ok()?;
        serde_json::from_str(&key.jwk().ok()?).ok()
    }

    /// Parses an uncompressed point: a 4, and both coordinates; `None` for other bytes.
    pub(super) fn of_point(curve: &str, point: &[u8]) -> Option<Self> {
        let coordinates = point.strip_prefix(&[4])?;
        let (x, y) = coordinates.split_at_checked(coordinates.len() / 2)?;
        (x.len() == y.len()).then(|| Self::Ec {
            crv: curve.to_owned(),
            x: encode_base64(x),
            y: encode_base64(y),
        })
    }

    /// Converts the bytes of an Ed25519 key.
    pub(super) fn of_ed25519(bytes: &[u8]) -> Self {
        Self::Okp { crv: "Ed25519".to_owned(), x: encode_base64(bytes) }
    }
}

impl PublicJwk {
    /// Returns the key as a JSON Web Key.
    pub(super) fn jwk(&self) -> String {
        let jwk = match self {
            Self::Rsa { n, e } => json!({ "kty": "RSA", "n": n, "e": e }),
            Self::Ec { crv, x, y } => json!({ "kty": "EC", "crv": crv, "x": x, "y": y }),
            Self::Okp { crv, x } => json!({ "kty": "OKP", "crv": crv, "x": x }),
        };
        jwk.to_string()
    }
}

/// Decodes unpadded URL-safe base64; `None` for other text.
pub(super) fn bytes(text: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok()
}

/// Encodes unpadded URL-safe base64.
pub(super) fn encode_base64(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns an `RSAPublicKey` with a modulus of 2048 bits and the exponent 65537.
    fn rsa_key() -> Vec<u8> {
        let mut der = vec![0x30, 0x82, 0x01, 0x0a, 0x02, 0x82, 0x01, 0x01, 0];
        der.extend([0xab; 256]);
        der.extend([0x02, 3, 1, 0, 1]);
        der
    }

    #[test]
    fn rsa_modulus_is_read_without_leading_zero() {
        let expected = PublicJwk::Rsa { n: encode_base64(&[0xab; 256]), e: "AQAB".to_owned() };
        assert_eq!(PublicJwk::of_rsa(&rsa_key()), Some(expected));
    }

    #[test]
    fn text_without_rsa_key_reads_as_none() {
        let key_bytes = rsa_key();
        for length in 0..key_bytes.len() {
            assert_eq!(PublicJwk::of_rsa(key_bytes.get(..length).unwrap()), None, "{length}");
        }
        let longer = [key_bytes.as_slice(), &[0]].concat();
        assert_eq!(PublicJwk::of_rsa(&longer), None);
    }

    #[test]
    fn a_point_has_two_coordinates_of_one_length() {
        let point = [4, 1, 2, 3, 4];
        let expected = PublicJwk::Ec {
            crv: "P-256".to_owned(),
            x: encode_base64(&[1, 2]),
            y: encode_base64(&[3, 4]),
        };
        assert_eq!(PublicJwk::of_point("P-256", &point), Some(expected));
        assert_eq!(PublicJwk::of_point("P-256", &[4, 1, 2, 3]), None);
        assert_eq!(PublicJwk::of_point("P-256", &[2, 1, 2]), None, "a point that is folded");
    }
}
