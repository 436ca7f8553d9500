//! The trait of an auth method.

use crate::call::{Call, Context};
use crate::database_plugin::StoreTime;
use crate::host::Host;
use crate::login::Login;
use crate::mounted_plugin::{self, MountedPlugin};
use bulkhead_wire::description::ComponentDescription;
use bulkhead_wire::failure::{Failure, FailureKind, quoted};
use bulkhead_wire::stored::Stored;
use std::collections::BTreeMap;

/// An auth method: a plugin with logins, which the method renews.
///
/// Rows marked [`login`](crate::table::Row::login) need no token and answer
/// [`Answer::login`](crate::answer::Answer::login). An auth method has neither leases nor database
/// plugins: these interfaces of [`Host`] refuse every call.
pub trait AuthMethod: MountedPlugin {
    /// Builds the description that the host reads at registration.
    #[must_use]
    fn description() -> ComponentDescription {
        mounted_plugin::description::<Self>("auth-method")
    }

    /// Checks again, from the stored data, that a login may live longer, and returns the login in
    /// its present form. The host uses the lifetimes of this login. The alias must be the same; if
    /// the policies differ, the host refuses the renewal. `increment` is the lifetime that the
    /// caller asks for, in seconds from now; the host applies it.
    ///
    /// # Errors
    /// The reason against a renewal: the role is gone, or the identity is not admitted any more.
    /// Unsupported by default.
    fn renew_login(
        _host: &dyn Host,
        _context: &Context,
        _held: &HeldLogin,
        _increment: u64,
    ) -> Result<Login, Failure> {
        let message = format!("{} does not renew logins; log in again", Self::NAME);
        Err(Failure::new(FailureKind::UnsupportedOperation, message))
    }

    /// Returns the alias that a login would be for, from the caller's unproven input. Refused
    /// logins count against this alias, and too many refusals lock the alias. A method with a proof
    /// that cannot be guessed, such as a signed token, keeps the default.
    ///
    /// # Errors
    /// Those of the host; none by default, because the default returns `None`.
    fn alias_lookahead(_host: &dyn Host, _call: &Call) -> Result<Option<String>, Failure> {
        Ok(None)
    }
}

/// A valid login, as the host stored it. No `Debug`: the internal data may be a secret.
#[derive(Clone, PartialEq)]
pub struct HeldLogin {
    /// Alias of the proven identity.
    pub alias: String,
    /// Policies that the login gave.
    pub policies: Vec<String>,
    /// Metadata that the login gave.
    pub metadata: BTreeMap<String, String>,
    /// Internal data of the login, as text.
    pub internal: String,
    /// Time of the login.
    pub issued: StoreTime,
    /// End of the login's token, unless renewed.
    pub expires: StoreTime,
}

impl HeldLogin {
    /// Reads the internal data of the login as a `T`.
    ///
    /// # Errors
    /// Internal if the data is not a `T`, or of a later version.
    pub fn internal<T: Stored>(&self) -> Result<T, Failure> {
        T::from_bytes(self.internal.as_bytes()).map_err(|_| {
            Failure::internal("the login was made by another version and cannot be read")
        })
    }

    /// Returns the role of the login for a renewal. `found` is the present role called `name`, if
    /// it is the role of the login and no later role of the same name.
    ///
    /// # Errors
    /// Invalid request without such a role.
    pub fn present_role<R>(found: Option<R>, name: &str) -> Result<R, Failure> {
        found.ok_or_else(|| {
            let name = quoted(name);
            Failure::invalid(format!("role {name} does not exist during renewal; log in again"))
        })
    }
}
