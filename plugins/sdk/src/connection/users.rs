//! Who acts on a connection, the user that manages the others or a user on itself, and what is
//! refused to users alike by every kind of server.

use crate::database_plugin::{Credential, Pool, Refusal, Target};
use crate::refusal_codes;

/// Milliseconds for which a session that tried a credential may be kept.
const TRIAL_LIFETIME: u64 = 1000;

refusal_codes! {
    /// What a user is refused.
    pub enum Denial, DENIALS {
        Unsupported = "unsupported":
            "this plugin handles passwords and client certificates; set credential_type to one of \
             them",
        UserNotFound = "user-not-found":
            "the database of connection {connection} has no such user any more: a static role \
             needs it created again, any other client a new credential",
        ConnectionUser = "connection-user":
            "the user to be removed is the one that connection {connection} logs in with; remove \
             it by hand if it must go",
        SelfManaged = "self-managed":
            "connection {connection} is self-managed: it has no user of its own, and users change \
             their own passwords; give it username and password to let it do more",
    }
}

/// The server as the one that changes `username` reaches it: `username` itself where its `current`
/// credential is given, else the connection's own user.
///
/// # Errors
/// As [`login`] and [`refuse_self_managed`].
pub fn acting(
    target: &Target,
    self_managed: bool,
    username: &str,
    current: Option<&Credential>,
) -> Result<Target, Refusal> {
    if let Some(current) = current {
        return login(target, username, current);
    }
    refuse_self_managed(self_managed)?;
    Ok(target.clone())
}

/// The server as `username` reaches it, for a moment.
///
/// # Errors
/// For a credential that is no password: a certificate's key is not known here.
pub fn login(target: &Target, username: &str, credential: &Credential) -> Result<Target, Refusal> {
    let Credential::Password(password) = credential else {
        return Err(Denial::Unsupported.refusal());
    };
    Ok(Target {
        username: username.to_owned(),
        password: password.clone(),
        pool: Pool { max_connections: 1, max_lifetime: TRIAL_LIFETIME, ..target.pool.clone() },
        ..target.clone()
    })
}

/// For what only a user that manages others can do.
///
/// # Errors
/// Where the connection has none.
pub fn refuse_self_managed(self_managed: bool) -> Result<(), Refusal> {
    if self_managed { Err(Denial::SelfManaged.refusal()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_ask_only_for_what_refusals_carry() {
        assert_eq!(refusal_codes::offences(DENIALS, &[]), Vec::<String>::new());
    }
}
