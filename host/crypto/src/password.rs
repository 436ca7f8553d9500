//! Password hashes: argon2id (RFC 9106), as PHC strings.
//!
//! The attack this file prevents: a hash constructed to be slow. The parameters are checked before
//! the computation, so memory can be reserved and time is bounded.

use crate::limits::{self, check_length};
use argon2::password_hash::phc::{PasswordHash, Salt};
use argon2::{Algorithm, Argon2, Params, Version};
use argon2::{PasswordHasher, PasswordVerifier};
use bulkhead_wire::failure::Failure;

/// Length of a salt, in bytes.
const SALT_BYTES: usize = 16;

/// Memory and passes of a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashCost {
    memory_kib: u32,
    passes: u32,
}

impl HashCost {
    /// Cost of a new hash: 19 MiB, two passes.
    pub const OF_NEW: Self =
        Self { memory_kib: Params::DEFAULT_M_COST, passes: Params::DEFAULT_T_COST };

    /// Returns the cost of an existing hash.
    ///
    /// # Errors
    /// Invalid request for a text that is not a PHC string of argon2id, or for more than 64 MiB of
    /// memory or 256 MiB of memory times passes.
    pub fn of(hash: &str) -> Result<Self, Failure> {
        Self::of_read(&read(hash)?)
    }

    fn of_read(hash: &PasswordHash) -> Result<Self, Failure> {
        let params = Params::try_from(hash).map_err(|_| unreadable_failure())?;
        let cost = Self { memory_kib: params.m_cost(), passes: params.t_cost() };
        let work = cost.memory_kib.saturating_mul(cost.passes);
        if cost.memory_kib > limits::HASH_MEMORY_KIB || work > limits::HASH_WORK_KIB {
            let (memory, work) = (limits::HASH_MEMORY_KIB, limits::HASH_WORK_KIB);
            return Err(Failure::invalid(format!(
                "the password's hash takes too much: at most m={memory}, and m times t at most \
                 {work}"
            )));
        }
        Ok(cost)
    }

    /// Returns the memory needed, in bytes.
    #[must_use]
    pub fn memory(self) -> usize {
        (self.memory_kib as usize).saturating_mul(1_024)
    }

    /// Returns memory times passes, in bytes.
    #[must_use]
    pub fn work(self) -> usize {
        self.memory().saturating_mul(self.passes as usize)
    }
}

/// Returns a new hash of a password, with a random salt.
///
/// # Errors
/// Invalid request for a password of more than 4 KiB; internal if the host's library fails.
pub fn hash_password(password: &str) -> Result<String, Failure> {
    check_length("the password", password.len(), limits::PASSWORD_BYTES)?;
    let mut salt = [0; SALT_BYTES];
    aws_lc_rs::rand::fill(&mut salt)
        .map_err(|_| Failure::internal("the host's random generator failed"))?;
    let HashCost { memory_kib, passes } = HashCost::OF_NEW;
    let params = Params::new(memory_kib, passes, Params::DEFAULT_P_COST, None);
    let params = params.map_err(|_| hashing_failure())?;
    let hasher = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    let hash = hasher.hash_password_with_salt(password.as_bytes(), &salt);
    hash.map(|hash| hash.to_string()).map_err(|_| hashing_failure())
}

/// Returns whether the hash belongs to the password.
///
/// # Errors
/// As [`HashCost::of`] and [`hash_password`].
pub fn verify_password(password: &str, hash: &str) -> Result<bool, Failure> {
    check_length("the password", password.len(), limits::PASSWORD_BYTES)?;
    let hash = read(hash)?;
    HashCost::of_read(&hash)?;
    match Argon2::default().verify_password(password.as_bytes(), &hash) {
        Ok(()) => Ok(true),
        Err(argon2::password_hash::Error::PasswordInvalid) => Ok(false),
        Err(_) => Err(hashing_failure()),
    }
}

fn read(hash: &str) -> Result<PasswordHash, Failure> {
    check_length("the password's hash", hash.len(), limits::HASH_TEXT_BYTES)?;
    let read = PasswordHash::new(hash).map_err(|_| unreadable_failure())?;
    let is_argon = read.algorithm.as_str() == "argon2id" && read.version == Some(19);
    let salted = read.salt.as_ref().is_some_and(|salt| salt.len() >= Salt::MIN_LENGTH);
    if is_argon && salted && read.hash.is_some() { Ok(read) } else { Err(unreadable_failure()) }
}

fn unreadable_failure() -> Failure {
    Failure::invalid("the password's hash is not a PHC string of argon2id, version 19, with a salt")
}

fn hashing_failure() -> Failure {
    Failure::internal("the host's library made no password hash")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn password_hash_verifies_only_own_password_and_differs() {
        let (one, other) = (hash_password("correct horse"), hash_password("correct horse"));
        let (one, other) = (one.unwrap(), other.unwrap());
        assert_ne!(one, other);
        assert!(one.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{one}");
        assert_eq!(HashCost::of(&one), Ok(HashCost::OF_NEW));
        assert_eq!(verify_password("correct horse", &one), Ok(true));
        assert_eq!(verify_password("correct horsf", &one), Ok(false));
        assert!(hash_password(&"x".repeat(5_000)).is_err());
    }

    /// Made by the reference's program: `echo -n password | argon2 somesalt -id -t 2 -m 16 -p 1`.
    #[test]
    fn hashes_of_other_programs_are_read() {
        let hash = "$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$\
                    CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc";
        assert_eq!(verify_password("password", hash), Ok(true));
        assert_eq!(verify_password("passwort", hash), Ok(false));
    }

    #[test]
    fn slow_or_weak_password_hashes_are_refused() {
        let with =
            |head: &str| format!("{head}$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc");
        for head in [
            "$argon2id$v=19$m=65537,t=1,p=1",
            "$argon2id$v=19$m=4294967295,t=1,p=1",
            "$argon2id$v=19$m=65536,t=5,p=1",
            "$argon2id$v=19$m=8,t=4294967295,p=1",
            "$argon2i$v=19$m=65536,t=2,p=1",
            "$argon2d$v=19$m=65536,t=2,p=1",
            "$argon2id$v=16$m=65536,t=2,p=1",
            "$argon2id$m=65536,t=2,p=1",
            "$scrypt$ln=16,r=8,p=1",
        ] {
            assert!(HashCost::of(&with(head)).is_err(), "{head}");
            assert!(verify_password("password", &with(head)).is_err(), "{head}");
        }
        for text in ["", "$", "$argon2id$", "$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ"] {
            assert!(verify_password("password", text).is_err(), "{text}");
        }
    }
}
