//! From a token to its accessor, and from the accessor to its row: one row, found by both.
//!
//! The attack this file stops: reading tokens, or turning accessors into tokens, with the whole
//! database at hand. The accessor is a keyed hash of the token and the row's key a keyed hash of
//! the accessor, under keys that only the open store has. So the token finds its accessor, the
//! accessor finds the row, and nothing finds the token: an accessor says as much of its token as a
//! random text. It has 143 bits: two tokens with the same one are not met, nor is one found for a
//! given accessor, by anyone who would have to ask this server for each try. Look-ups go by keyed
//! hash, so that how long one takes says nothing about how much of a token was guessed.

use crate::random;
use bulkhead_store::Hashes;
use bulkhead_wire::failure::Failure;
use bulkhead_wire::secret::Secret;

/// What service tokens begin with, so that scanners find leaked ones (decision P16).
const SERVICE: &str = "bhs.";
/// What batch tokens begin with.
pub(super) const BATCH: &str = "bhb.";
/// Letters and digits after the prefix: 190 bits.
const LENGTH: usize = 32;
/// Letters and digits of an accessor.
const ACCESSOR: usize = 24;
/// Bytes of the longest text that is looked up, or given out, as a token.
pub(super) const LONGEST: usize = 8 << 10;

/// Purposes of keyed hashes. Part of the stored format.
mod purpose {
    pub(super) const ACCESSOR: &str = "accessor";
    pub(super) const ROW: &str = "token";
    pub(super) const BATCH: &str = "batch token";
}

/// Whether a text could be one of our tokens. What could not is not hashed to find out.
pub(crate) fn may_be_token(token: &Secret) -> bool {
    let text = token.expose();
    !text.is_empty() && text.len() <= LONGEST && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Whether a text could be an accessor.
pub(crate) fn may_be_accessor(text: &str) -> bool {
    text.len() == ACCESSOR && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// Whether a text begins as our tokens do.
pub(crate) fn bears_our_prefix(text: &str) -> bool {
    [SERVICE, BATCH].iter().any(|prefix| text.starts_with(prefix))
}

/// The accessor of a service token.
pub(crate) fn accessor(hashes: &Hashes, token: &Secret) -> String {
    let hash = hashes.keyed_bytes(purpose::ACCESSOR, token.expose().as_bytes());
    // 128 bits for 71.5 of each half, so that no letter is more likely than another by more than
    // 2^-56.
    let (halves, _) = hash.as_chunks();
    let letters = |half: &[u8; 16]| random::letters(u128::from_be_bytes(*half), ACCESSOR / 2);
    halves.iter().map(letters).collect()
}

/// The key of the row that the accessor names.
pub(crate) fn of_accessor(hashes: &Hashes, accessor: &str) -> String {
    hashes.keyed_hash(purpose::ROW, accessor.as_bytes())
}

/// The key of a service token's row.
pub(crate) fn of_token(hashes: &Hashes, token: &Secret) -> String {
    of_accessor(hashes, &accessor(hashes, token))
}

/// What stands for a batch token, which has no row.
pub(super) fn of_batch(hashes: &Hashes, token: &Secret) -> String {
    hashes.keyed_hash(purpose::BATCH, token.expose().as_bytes())
}

/// A new service token's text.
///
/// # Errors
/// 500 when the machine gives no randomness.
pub(crate) fn random() -> Result<Secret, Failure> {
    Ok(Secret::new(format!("{SERVICE}{}", random::base62(LENGTH)?)))
}

/// A token's text that its maker chose.
///
/// # Errors
/// 400 for what could be mistaken for a token of ours or of a peer, or never be sent in a header.
pub(crate) fn check_chosen(id: &str) -> Result<Secret, Failure> {
    let token = Secret::new(id);
    if id.contains('.') {
        return Err(Failure::invalid(
            "id holds a dot, which only tokens made by a server have; leave it out",
        ));
    }
    if !may_be_token(&token) {
        return Err(Failure::invalid(format!(
            "id has characters or a length that no token can have; use at most {LONGEST} printable \
             ASCII characters \
             without white space"
        )));
    }
    Ok(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_a_token_is_told_by_its_shape() {
        for token in ["bhs.0", "root", "~!@#", &"x".repeat(LONGEST)] {
            assert!(may_be_token(&Secret::new(token)));
        }
        for token in ["", " ", "a b", "a\nb", "a\u{0}", "ü", &"x".repeat(LONGEST + 1)] {
            assert!(!may_be_token(&Secret::new(token)), "{token:?}");
        }
    }

    #[test]
    fn what_cannot_be_an_accessor_is_told_by_its_shape() {
        assert!(may_be_accessor("0123456789abcdefghijABCD"));
        for accessor in
            ["", "0123456789abcdefghijABC", "0123456789abcdefghijABCDE", "0123456789abcdefghijABC."]
        {
            assert!(!may_be_accessor(accessor), "{accessor}");
        }
    }

    #[test]
    fn a_chosen_token_can_be_mistaken_for_none_that_a_server_made() {
        assert_eq!(check_chosen("my-own-token").unwrap(), Secret::new("my-own-token"));
        for id in ["bhs.x", "hvs.x", "s.x", "a.b", "a b", "\t", "ü", &"x".repeat(LONGEST + 1)] {
            let failure = check_chosen(id).unwrap_err();
            assert!(
                !failure.message.contains(id),
                "a token never stands in a message: {}",
                failure.message
            );
        }
    }

    #[test]
    fn a_new_token_has_its_prefix_and_never_comes_twice() {
        let (one, other) = (random().unwrap(), random().unwrap());
        assert!(one.expose().starts_with("bhs.") && one.expose().len() == 36);
        assert_ne!(one, other);
    }
}
