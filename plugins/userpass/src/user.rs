//! A user of the mount, and the one spelling of a user's name.

use bulkhead_sdk::wire::hexadecimal;
use bulkhead_sdk::{Call, Failure, Host, TokenParams, stored};
use serde::{Deserialize, Serialize};

/// A user, as stored.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct User {
    /// Random id that distinguishes the user from a later user with the same name.
    pub(crate) id: String,
    /// PHC string of argon2id.
    pub(crate) password_hash: String,
    #[serde(flatten)]
    pub(crate) token: TokenParams,
}

stored!(User, "user", reads_stored_users);

impl User {
    /// Returns a user without a password.
    pub(crate) fn new(host: &dyn Host) -> Self {
        Self { id: hexadecimal::text(&host.random().bytes(16)), ..Self::default() }
    }

    /// Returns the user with this name, if any.
    pub(crate) fn find(host: &dyn Host, name: &str) -> Result<Option<Self>, Failure> {
        host.storage().get(&key(name))
    }

    /// Buffers the user under this name.
    pub(crate) fn put(&self, host: &dyn Host, name: &str) -> Result<(), Failure> {
        host.storage().put(&key(name), self)
    }
}

/// Returns the storage key of a user.
pub(crate) fn key(name: &str) -> String {
    format!("user/{name}")
}

/// Returns the canonical spelling of a name. The host admits ASCII names only.
pub(crate) fn canonical(name: &str) -> String {
    name.to_ascii_lowercase()
}

/// Returns the user name in the path of an operator's request.
///
/// # Errors
/// As [`Call::lower_case_name`].
pub(crate) fn name_in_path(call: &Call) -> Result<&str, Failure> {
    call.lower_case_name("username", "users")
}
