//! Secret parts of keys, for redaction.

use crate::jwk::{self, Jwk};
use zeroize::Zeroizing;

/// Returns whether a text is, or may be, a private key.
#[must_use]
pub fn is_private(text: &str) -> bool {
    match jwk::is_json(text) {
        true => Jwk::read(text).map_or(true, |jwk| jwk.secrets().next().is_some()),
        false => text.contains("PRIVATE KEY-----") || !text.contains("-----BEGIN "),
    }
}

/// Returns the secret parts of a private key's text: the lines of PEM without the labels, or
/// members of a JWK. For any other text, everything is secret.
#[must_use]
pub fn secrets_of(text: &str) -> Vec<Zeroizing<String>> {
    if jwk::is_json(text) {
        return match Jwk::read(text) {
            Ok(jwk) => jwk.secrets().map(|part| Zeroizing::new(part.to_owned())).collect(),
            Err(_) => vec![Zeroizing::new(text.to_owned())],
        };
    }
    let is_body = |line: &&str| !line.is_empty() && !line.starts_with("-----");
    let lines = text.lines().map(str::trim).filter(is_body);
    lines.map(|line| Zeroizing::new(line.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_body_is_secret_but_pem_armour_not() {
        let parts = secrets_of("-----BEGIN PRIVATE KEY-----\nAAAABBBB\nCC==\n-----END PRIVATE KEY");
        let parts: Vec<&str> = parts.iter().map(|part| part.as_str()).collect();
        assert_eq!(parts, ["AAAABBBB", "CC=="]);
        let parts = secrets_of(r#"{"kty":"OKP","crv":"Ed25519","x":"public","d":"private"}"#);
        assert_eq!(parts.iter().map(|part| part.as_str()).collect::<Vec<_>>(), ["private"]);
        assert_eq!(secrets_of("{broken").len(), 1);
    }
}
