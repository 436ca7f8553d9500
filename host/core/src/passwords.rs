//! Generated passwords, and the policies that operators store for them.
//!
//! The fault this file stops: a policy that is stored and cannot be followed. One that does not
//! read, or takes too long, is refused when it is written. A policy is read in the unit of its
//! caller, so that what a request does is done by one state of it.

use crate::random::Run;
use bulkhead_store::{Address, Index, Space, StoreFault, Unit};
use bulkhead_wire::alphabet::Alphabet;
use bulkhead_wire::failure::{Failure, Kind, quoted};
use bulkhead_wire::password_policy::PasswordPolicy;

/// Where policies are stored in [`Space::Core`].
const PREFIX: &str = "password-policy/";

/// Longest password that is made of an alphabet, in characters.
const LONGEST: usize = 1_024;

/// A password by the named policy; empty means the default one.
///
/// # Errors
/// 404 when there is no such policy.
pub(crate) async fn generate(unit: &mut Unit, name: &str) -> Result<String, Failure> {
    let policy =
        if name.is_empty() { PasswordPolicy::default() } else { policy(unit, name).await? };
    let mut run = Run::new();
    policy.generate(&mut || run.byte())
}

/// `length` characters of `alphabet`, each as likely as the others.
///
/// # Errors
/// 400 for a length outside of 1 to 1024, and for what is no alphabet.
pub(crate) fn generate_from(length: usize, alphabet: &str) -> Result<String, Failure> {
    if !(1..=LONGEST).contains(&length) {
        return Err(Failure::invalid(format!(
            "a password of {length} characters was asked for; give 1 to {LONGEST}"
        )));
    }
    let alphabet = Alphabet::of(alphabet)
        .map_err(|why| Failure::invalid(format!("the alphabet of a password: {why}")))?;
    let mut run = Run::new();
    alphabet.password(length, &mut || run.byte())
}

async fn policy(unit: &mut Unit, name: &str) -> Result<PasswordPolicy, Failure> {
    let text = text(unit, name).await?.ok_or_else(|| {
        let message = format!(
            "there is no password policy {}; write it to sys/policies/password first",
            quoted(name)
        );
        Failure::new(Kind::NotFound, message)
    })?;
    PasswordPolicy::parse(&text).map_err(|_| damaged(name))
}

/// The text of a policy.
pub(crate) async fn text(unit: &mut Unit, name: &str) -> Result<Option<String>, Failure> {
    let Some(record) = unit.get(&address(name)).await? else { return Ok(None) };
    String::from_utf8(record.body.to_vec()).map(Some).map_err(|_| damaged(name))
}

fn damaged(name: &str) -> Failure {
    Failure::internal(format!("the stored password policy {} does not parse", quoted(name)))
}

/// Writes a policy into the unit.
///
/// # Errors
/// 400 with line and reason when it does not parse or cannot be followed; nothing is written then.
pub(crate) fn put(unit: &mut Unit, name: &str, text: &str) -> Result<(), Failure> {
    let mut run = Run::new();
    PasswordPolicy::accept(text, &mut || run.byte())?;
    unit.put(address(name), text.as_bytes().to_vec(), Index::default());
    Ok(())
}

/// Deletes a policy; success also when there is none.
pub(crate) fn delete(unit: &mut Unit, name: &str) {
    unit.delete(address(name));
}

/// Names of the policies after `after`, at most `limit`, in order.
pub(crate) async fn names(
    unit: &mut Unit,
    after: &str,
    limit: usize,
) -> Result<Vec<String>, StoreFault> {
    unit.names(Space::Core, PREFIX, after, limit).await
}

fn address(name: &str) -> Address {
    Address::new(Space::Core, format!("{PREFIX}{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_of_an_alphabet_has_its_length_and_nothing_else() {
        let password = generate_from(64, "ab漢").unwrap();
        assert_eq!(password.chars().count(), 64);
        assert!(password.chars().all(|one| "ab漢".contains(one)), "{password}");
        assert_ne!(password, generate_from(64, "ab漢").unwrap());
    }

    #[test]
    fn lengths_and_alphabets_are_bounded() {
        for (length, alphabet, says) in [
            (0, "ab", "0 characters"),
            (LONGEST + 1, "ab", "1025 characters"),
            (usize::MAX, "ab", "give 1 to 1024"),
            (8, "", "no characters"),
            (8, "a\t", "not printable"),
        ] {
            let refused = generate_from(length, alphabet).unwrap_err();
            assert_eq!(refused.kind, Kind::InvalidRequest);
            assert!(refused.message.contains(says), "{}", refused.message);
        }
    }
}
