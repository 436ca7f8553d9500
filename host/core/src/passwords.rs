//! Generated passwords.
//!
//! The default policy of the contract: 20 characters with at least one upper-case letter, one
//! lower-case letter, one digit and one dash. Whole candidates are drawn and rejected, so that
//! every password that satisfies the policy is equally likely.

use crate::random;
use bulkhead_wire::failure::{Failure, Kind};

const LENGTH: usize = 20;
const CHARACTERS: &[u8; 63] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-";
/// Bytes at or above it would favour the first characters.
const UNBIASED: u8 = 252;
/// One candidate in about five satisfies the policy: so many failures mean a broken generator.
const CANDIDATES: u32 = 10_000;

/// A password by the named policy; empty means the default one.
pub(crate) fn generate(policy: &str) -> Result<String, Failure> {
    if !policy.is_empty() {
        let message = format!(
            "there is no password policy {policy:?}: this version has the default policy only"
        );
        return Err(Failure::new(Kind::NotFound, message));
    }
    for _ in 0..CANDIDATES {
        let candidate = candidate()?;
        if satisfies(&candidate) {
            return Ok(candidate);
        }
    }
    Err(Failure::internal("no password that satisfies the policy was drawn"))
}

fn candidate() -> Result<String, Failure> {
    let mut text = String::with_capacity(LENGTH);
    while text.len() < LENGTH {
        let drawn = random::bytes::<32>()?;
        let usable = drawn.iter().filter(|byte| **byte < UNBIASED);
        let characters = usable.filter_map(|byte| CHARACTERS.get(usize::from(byte % 63)));
        text.extend(characters.take(LENGTH - text.len()).map(|character| char::from(*character)));
    }
    Ok(text)
}

fn satisfies(candidate: &str) -> bool {
    let has = |wanted: fn(u8) -> bool| candidate.bytes().any(wanted);
    has(|byte| byte.is_ascii_uppercase())
        && has(|byte| byte.is_ascii_lowercase())
        && has(|byte| byte.is_ascii_digit())
        && has(|byte| byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_password_has_twenty_characters_and_one_of_each_kind() {
        for _ in 0..500 {
            let password = generate("").unwrap();
            assert_eq!(password.len(), LENGTH);
            assert!(satisfies(&password), "{password}");
        }
    }

    #[test]
    fn a_policy_that_does_not_exist_is_named() {
        assert!(generate("strict").unwrap_err().message.contains("\"strict\""));
    }
}
