//! Passwords: hashed by the host with argon2id, and never stored or shown.
//!
//! This file prevents an answer time that tells whether a user exists: all stored hashes and
//! [`DUMMY`] have the same cost, and a login of an unknown user verifies its password against
//! [`DUMMY`].

use bulkhead_sdk::table::Field;
use bulkhead_sdk::{Call, Failure, Host};

/// Fields that set a password.
pub(crate) const FIELDS: &[Field] = &[
    Field::text("password", "the password").secret(),
    Field::text("password_hash", "argon2id hash of the password, as PHC string").secret(),
];

/// Beginning of a hash with the host's cost: argon2id, 19 MiB, two passes.
const COST: &str = "$argon2id$v=19$m=19456,t=2,p=1$";

/// Hash of no known password. Its salt and its output have the lengths of the host's hashes.
const DUMMY: &str = "$argon2id$v=19$m=19456,t=2,p=1$bm90IG9mIGFueSB1c2VyIQ$\
                     bm90aGluZyB0aGF0IGFueWJvZHkga25vd3MsIGV2ZXI";

/// Returns the hash for the password of the call, or `None` if the call gives neither a password
/// nor a hash.
///
/// # Errors
/// Invalid request for an empty or too long password, and for a foreign hash of another kind or
/// cost.
pub(crate) fn hash_given(host: &dyn Host, call: &Call) -> Result<Option<String>, Failure> {
    if call.is_given("password") {
        return match call.text("password") {
            "" => Err(Failure::invalid("password is empty; give a password")),
            password => host.crypto().hash_password(password).map(Some),
        };
    }
    match call.text("password_hash") {
        "" => Ok(None),
        hash => foreign(host, hash).map(Some),
    }
}

/// Verifies `password` against the hash of a user, or against [`DUMMY`] for an unknown user.
///
/// # Errors
/// Invalid request for a password of more than 4 KiB.
pub(crate) fn verify(host: &dyn Host, password: &str, hash: Option<&str>) -> Result<bool, Failure> {
    let matches = host.crypto().verify_password(password, hash.unwrap_or(DUMMY))?;
    Ok(matches && hash.is_some())
}

/// Returns a hash that was made elsewhere, if a login can verify it at the usual cost.
fn foreign(host: &dyn Host, hash: &str) -> Result<String, Failure> {
    let refused = || {
        Failure::invalid(format!(
            "password_hash is not an argon2id hash with the parameters \"{COST}\"; bcrypt and \
             other costs are not supported, because their answer times would tell which users \
             exist: give password instead"
        ))
    };
    if !hash.starts_with(COST) {
        return Err(refused());
    }
    host.crypto().verify_password("", hash).map_err(|_| refused())?;
    Ok(hash.to_owned())
}

#[cfg(test)]
mod tests {
    use super::{COST, DUMMY, verify};
    use bulkhead_sdk::Host;
    use bulkhead_sdk::testbed::TestHost;

    #[test]
    fn unknown_user_costs_usual_password_verification() {
        let host = TestHost::default();
        let own = host.crypto().hash_password("open sesame").unwrap();
        assert!(own.starts_with(COST) && DUMMY.starts_with(COST));
        let lengths = |hash: &str| hash.split('$').skip(4).map(str::len).collect::<Vec<_>>();
        assert_eq!(lengths(&own), lengths(DUMMY), "salt and output");
        assert!(verify(&host, "open sesame", Some(&own)).unwrap());
        assert!(!verify(&host, "open barley", Some(&own)).unwrap());
        assert!(!verify(&host, "open sesame", None).unwrap());
    }
}
