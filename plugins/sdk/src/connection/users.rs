//! The login behind an operation, either the user that manages the others or a user changing
//! itself, and refusals that every kind of server shares.

use crate::database_plugin::{Credential, DatabaseTarget, PoolLimits, Refusal};
use crate::refusal_codes;

/// Maximum lifetime of a session that tries a credential, in milliseconds.
const TRIAL_LIFETIME: u64 = 1000;

refusal_codes! {
    /// A refusal of an operation on a user.
    pub enum Denial, DENIALS {
        Unsupported = "unsupported":
            "this plugin handles passwords and client certificates; set credential_type to \
             password or client_certificate",
        UserNotFound = "user-not-found":
            "the database of connection {connection} has no such user any more: a static role \
             needs the user created again, any other client a new credential",
        ConnectionUser = "connection-user":
            "the user to be removed is the login of connection {connection}; remove the user by \
             hand if necessary",
        SelfManaged = "self-managed":
            "connection {connection} is self-managed and has no user, and users change their own \
             passwords; to do more, give the connection username and password",
        CreationStatementsRequired = "creation-statements-required":
            "creation_statements is required: give statements to create {placeholder}",
    }
}

/// Returns the target with the login that changes `username`: `username` itself if its `current`
/// credential is given, else the connection's own user.
///
/// # Errors
/// As [`log_in_as`] and [`refuse_self_managed`].
pub fn choose_login(
    target: &DatabaseTarget,
    self_managed: bool,
    username: &str,
    current: Option<&Credential>,
) -> Result<DatabaseTarget, Refusal> {
    if let Some(current) = current {
        return log_in_as(target, username, current);
    }
    refuse_self_managed(self_managed)?;
    Ok(target.clone())
}

/// Returns the target with the login of `username`, for a short session.
///
/// # Errors
/// For a credential that is not a password: a certificate's key is not known here.
pub fn log_in_as(
    target: &DatabaseTarget,
    username: &str,
    credential: &Credential,
) -> Result<DatabaseTarget, Refusal> {
    let Credential::Password(password) = credential else {
        return Err(Denial::Unsupported.refusal());
    };
    Ok(DatabaseTarget {
        username: username.to_owned(),
        password: password.clone(),
        pool: PoolLimits {
            max_connections: 1,
            max_lifetime: TRIAL_LIFETIME,
            ..target.pool.clone()
        },
        ..target.clone()
    })
}

/// Refuses an operation that needs a user with rights over other users.
///
/// # Errors
/// If the connection is self-managed and so has no such user.
pub fn refuse_self_managed(self_managed: bool) -> Result<(), Refusal> {
    if self_managed { Err(Denial::SelfManaged.refusal()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn denial_sentences_use_carried_values_only() {
        assert_eq!(refusal_codes::find_mistakes(DENIALS, &["placeholder"]), Vec::<String>::new());
    }
}
