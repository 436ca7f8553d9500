//! Public keys as members of a JSON Web Key Set.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// DER tags of an RSA public key.
const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;

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
    /// Parses the DER structure `RSAPublicKey`; `None` for other bytes.
    pub(super) fn of_rsa(der: &[u8]) -> Option<Self> {
        let (inner, nothing) = split_element(der, SEQUENCE)?;
        let (modulus, inner) = split_element(inner, INTEGER)?;
        let (exponent, inner) = split_element(inner, INTEGER)?;
        let is_whole = nothing.is_empty() && inner.is_empty();
        is_whole.then(|| Self::Rsa { n: encode_number(modulus), e: encode_number(exponent) })
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

/// Encodes a positive number, without the zero byte that DER puts before a high first bit.
fn encode_number(bytes: &[u8]) -> String {
    encode_base64(bytes.strip_prefix(&[0]).unwrap_or(bytes))
}

/// Returns the content of the element with this tag at the front of `der`, and the rest.
fn split_element(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (length, content) = length(der.strip_prefix(&[tag])?)?;
    content.split_at_checked(length)
}

/// Returns the length at the front of `der`, and the rest.
fn length(der: &[u8]) -> Option<(usize, &[u8])> {
    let (first, rest) = der.split_first()?;
    if *first < 0x80 {
        return Some((usize::from(*first), rest));
    }
    match (first, rest) {
        (0x81, [length, rest @ ..]) => Some((usize::from(*length), rest)),
        (0x82, [high, low, rest @ ..]) => {
            Some((usize::from(u16::from_be_bytes([*high, *low])), rest))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rsa_modulus_is_read_without_leading_zero() {
        let mut der = vec![SEQUENCE, 0x82, 0x01, 0x0a, INTEGER, 0x82, 0x01, 0x01, 0];
        der.extend([0xab; 256]);
        der.extend([INTEGER, 3, 1, 0, 1]);
        let expected = PublicJwk::Rsa { n: encode_base64(&[0xab; 256]), e: "AQAB".to_owned() };
        assert_eq!(PublicJwk::of_rsa(&der), Some(expected));
    }

    #[test]
    fn text_without_rsa_key_reads_as_none() {
        let key_bytes = [SEQUENCE, 6, INTEGER, 1, 5, INTEGER, 1, 3];
        assert!(PublicJwk::of_rsa(&key_bytes).is_some());
        for length in 0..key_bytes.len() {
            assert_eq!(PublicJwk::of_rsa(key_bytes.get(..length).unwrap()), None, "{length}");
        }
        let longer = [key_bytes.as_slice(), &[0]].concat();
        assert_eq!(PublicJwk::of_rsa(&longer), None);
        assert_eq!(PublicJwk::of_rsa(&[SEQUENCE, 0x84, 0xff, 0xff, 0xff, 0xff]), None);
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
