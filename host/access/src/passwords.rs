//! Generated passwords, and the password policies that operators store.
//!
//! This file prevents storing a policy that cannot be followed: a policy that does not parse, or
//! whose generation takes too long, is refused on write. A policy is read in the caller's unit of
//! work, so that a request sees a single version of the policy.

use crate::random::RandomBuffer;
use bulkhead_store::{Address, IndexColumns, Space, StoreFault, Unit};
use bulkhead_wire::alphabet::Alphabet;
use bulkhead_wire::failure::{Failure, FailureKind, quoted};
use bulkhead_wire::password_policy::PasswordPolicy;

/// Key prefix of password policies in [`Space::Core`].
const PREFIX: &str = "password-policy/";

/// Maximum length of a password generated from an alphabet, in characters.
const MAX_PASSWORD_LEN: usize = 1_024;

/// Generates a password by the named policy; an empty name means the default policy.
///
/// # Errors
/// 404 if the policy does not exist.
pub async fn generate(unit: &mut Unit, name: &str) -> Result<String, Failure> {
    let policy =
        if name.is_empty() { PasswordPolicy::default() } else { policy(unit, name).await? };
    let mut run = RandomBuffer::new();
    policy.generate(&mut || run.byte())
}

/// Generates `length` characters of `alphabet`, uniformly distributed.
///
/// # Errors
/// 400 for a length outside of 1 to 1024, and for an invalid alphabet.
pub fn generate_from(length: usize, alphabet: &str) -> Result<String, Failure> {
    if !(1..=MAX_PASSWORD_LEN).contains(&length) {
        return Err(Failure::invalid(format!(
            "a password of {length} characters was asked for; give 1 to {MAX_PASSWORD_LEN}"
        )));
    }
    let alphabet = Alphabet::of(alphabet)
        .map_err(|why| Failure::invalid(format!("the alphabet of a password: {why}")))?;
    let mut run = RandomBuffer::new();
    alphabet.password(length, &mut || run.byte())
}

async fn policy(unit: &mut Unit, name: &str) -> Result<PasswordPolicy, Failure> {
    let text = read_policy_text(unit, name).await?.ok_or_else(|| {
        let message = format!(
            "there is no password policy {}; write the policy to sys/policies/password first",
            quoted(name)
        );
        Failure::new(FailureKind::NotFound, message)
    })?;
    PasswordPolicy::parse(&text).map_err(|_| damaged_failure(name))
}

/// Reads the text of a policy.
pub async fn read_policy_text(unit: &mut Unit, name: &str) -> Result<Option<String>, Failure> {
    let Some(record) = unit.get(&address(name)).await? else { return Ok(None) };
    String::from_utf8(record.body.to_vec()).map(Some).map_err(|_| damaged_failure(name))
}

fn damaged_failure(name: &str) -> Failure {
    Failure::internal(format!("the stored password policy {} does not parse", quoted(name)))
}

/// Writes a policy into the unit of work.
///
/// # Errors
/// 400 with line and reason if the policy does not parse or cannot be followed; nothing is written
/// then.
pub fn put(unit: &mut Unit, name: &str, text: &str) -> Result<(), Failure> {
    let mut run = RandomBuffer::new();
    PasswordPolicy::accept(text, &mut || run.byte())?;
    unit.put(address(name), text.as_bytes().to_vec(), IndexColumns::default());
    Ok(())
}

/// Deletes a policy; succeeds also if the policy does not exist.
pub fn delete(unit: &mut Unit, name: &str) {
    unit.delete(address(name));
}

/// Returns at most `limit` sorted names of policies after `after`.
pub async fn names(unit: &mut Unit, after: &str, limit: usize) -> Result<Vec<String>, StoreFault> {
    unit.names(Space::Core, PREFIX, after, limit).await
}

fn address(name: &str) -> Address {
    Address::new(Space::Core, format!("{PREFIX}{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alphabet_password_has_given_length_and_characters_only() {
        let password = generate_from(64, "ab漢").unwrap();
        assert_eq!(password.chars().count(), 64);
        assert!(password.chars().all(|one| "ab漢".contains(one)), "{password}");
        assert_ne!(password, generate_from(64, "ab漢").unwrap());
    }

    #[test]
    fn lengths_and_alphabets_are_bounded() {
        for (length, alphabet, says) in [
            (0, "ab", "0 characters"),
            (MAX_PASSWORD_LEN + 1, "ab", "1025 characters"),
            (usize::MAX, "ab", "give 1 to 1024"),
            (8, "", "no characters"),
            (8, "a\t", "not printable"),
        ] {
            let refused = generate_from(length, alphabet).unwrap_err();
            assert_eq!(refused.kind, FailureKind::InvalidRequest);
            assert!(refused.message.contains(says), "{}", refused.message);
        }
    }
}
