//! Derivation of a token's accessor, and of its row key from the accessor.
//!
//! This file prevents an attacker with the whole database from reading tokens or turning accessors
//! into tokens. The accessor is a keyed hash of the token, and the row key is a keyed hash of the
//! accessor; the hash keys exist only in the open store. So the token leads to its accessor and the
//! accessor to its row, but nothing leads back to the token: for an attacker the accessor is a
//! random text.
//!
//! An accessor has 143 bits. An attacker must query this server for each guess, so neither a
//! collision nor a token with a given accessor can be found. Look-ups use the keyed hash, so the
//! response time reveals nothing about a partially guessed token.

use crate::random;
use bulkhead_store::SecretHasher;
use bulkhead_wire::failure::Failure;
use bulkhead_wire::secret::Secret;

/// Prefix of service tokens, for scanners that search for leaked tokens (decision P16).
const SERVICE: &str = "bhs.";
/// Prefix of batch tokens.
pub(super) const BATCH: &str = "bhb.";
/// Number of letters and digits after the prefix: 190 bits.
const LENGTH: usize = 32;
/// Length of the text of a service token, in characters.
pub const SERVICE_LENGTH: usize = SERVICE.len() + LENGTH;
/// Number of letters and digits of an accessor.
const ACCESSOR: usize = 24;
/// Maximum length of a token text, in bytes, for look-ups and for new tokens.
pub(super) const MAX_TOKEN_LEN: usize = 8 << 10;

/// Purposes of keyed hashes. Part of the stored format.
mod purpose {
    pub(super) const ACCESSOR: &str = "accessor";
    pub(super) const ROW: &str = "token";
    pub(super) const BATCH: &str = "batch token";
}

/// Returns true if a text could be a token. Other texts are not hashed for a look-up.
pub(crate) fn may_be_token(token: &Secret) -> bool {
    let text = token.expose();
    !text.is_empty()
        && text.len() <= MAX_TOKEN_LEN
        && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Returns true if a text could be an accessor.
pub(crate) fn may_be_accessor(text: &str) -> bool {
    text.len() == ACCESSOR && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// Returns true if a text begins like a token of this server.
pub fn bears_our_prefix(text: &str) -> bool {
    [SERVICE, BATCH].iter().any(|prefix| text.starts_with(prefix))
}

/// Returns the accessor of a service token.
pub(crate) fn accessor(hashes: &SecretHasher, token: &Secret) -> String {
    let hash = hashes.keyed_bytes(purpose::ACCESSOR, token.expose().as_bytes());
    // Each half has 128 bits for 71.5 bits of letters, so that no letter is more likely than
    // another by more than 2^-56.
    let (halves, _) = hash.as_chunks();
    let letters = |half: &[u8; 16]| random::base62_digits(u128::from_be_bytes(*half), ACCESSOR / 2);
    halves.iter().map(letters).collect()
}

/// Returns the row key for an accessor.
pub(crate) fn of_accessor(hashes: &SecretHasher, accessor: &str) -> String {
    hashes.keyed_hash(purpose::ROW, accessor.as_bytes())
}

/// Returns the row key of a service token.
pub(crate) fn of_token(hashes: &SecretHasher, token: &Secret) -> String {
    of_accessor(hashes, &accessor(hashes, token))
}

/// Returns the hash that identifies a batch token, which has no row.
pub(super) fn of_batch(hashes: &SecretHasher, token: &Secret) -> String {
    hashes.keyed_hash(purpose::BATCH, token.expose().as_bytes())
}

/// Generates the text of a service token.
///
/// # Errors
/// 500 if the machine's random generator fails.
pub fn generate_text() -> Result<Secret, Failure> {
    Ok(Secret::new(format!("{SERVICE}{}", random::base62(LENGTH)?)))
}

/// Checks a token text chosen by the creator.
///
/// # Errors
/// 400 for a text that could be mistaken for a token of this or another server, or that cannot be
/// sent in a header.
pub fn check_chosen(id: &str) -> Result<Secret, Failure> {
    let token = Secret::new(id);
    if id.contains('.') {
        return Err(Failure::invalid(
            "id holds a dot, which only the server's own tokens have; remove the dot",
        ));
    }
    if !may_be_token(&token) {
        return Err(Failure::invalid(format!(
            "id has characters or a length that no token can have; use at most {MAX_TOKEN_LEN} \
             printable ASCII characters \
             without white space"
        )));
    }
    Ok(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_impossible_token_is_recognised_by_its_form() {
        for token in ["bhs.0", "root", "~!@#", &"x".repeat(MAX_TOKEN_LEN)] {
            assert!(may_be_token(&Secret::new(token)));
        }
        for token in ["", " ", "a b", "a\nb", "a\u{0}", "ü", &"x".repeat(MAX_TOKEN_LEN + 1)] {
            assert!(!may_be_token(&Secret::new(token)), "{token:?}");
        }
    }

    #[test]
    fn an_impossible_accessor_is_recognised_by_its_form() {
        assert!(may_be_accessor("0123456789abcdefghijABCD"));
        for accessor in
            ["", "0123456789abcdefghijABC", "0123456789abcdefghijABCDE", "0123456789abcdefghijABC."]
        {
            assert!(!may_be_accessor(accessor), "{accessor}");
        }
    }

    #[test]
    fn chosen_token_cannot_resemble_server_token() {
        assert_eq!(check_chosen("my-own-token").unwrap(), Secret::new("my-own-token"));
        for id in ["bhs.x", "hvs.x", "s.x", "a.b", "a b", "\t", "ü", &"x".repeat(MAX_TOKEN_LEN + 1)]
        {
            let failure = check_chosen(id).unwrap_err();
            assert!(
                !failure.message.contains(id),
                "a token never stands in a message: {}",
                failure.message
            );
        }
    }

    #[test]
    fn new_token_has_prefix_and_never_repeats() {
        let (one, other) = (generate_text().unwrap(), generate_text().unwrap());
        assert!(one.expose().starts_with("bhs.") && one.expose().len() == 36);
        assert_ne!(one, other);
    }
}
