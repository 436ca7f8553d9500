//! LDAP directories, reached through the host.

use crate::ldap::{Change, Entry, Fault, Search, Target};

/// LDAP directories. `?` converts a [`Fault`] into a failure; the fault's code has the details.
pub trait Ldap {
    /// Logs in with a new connection and does nothing else.
    ///
    /// # Errors
    /// [`Code::Refused`](crate::ldap::Code::Refused) if the server refuses the login.
    fn bind(&self, target: &Target) -> Result<(), Fault>;
    /// Returns the entries that match `search`, in the server's order.
    ///
    /// # Errors
    /// [`Code::NotFound`](crate::ldap::Code::NotFound) if the base does not exist.
    fn search(&self, target: &Target, search: &Search) -> Result<Vec<Entry>, Fault>;
    /// Changes an entry: all changes, or none.
    ///
    /// # Errors
    /// The server's refusal; or a lost answer, see [`may_have_happened`](Fault::may_have_happened).
    fn modify(&self, target: &Target, dn: &str, changes: &[Change]) -> Result<(), Fault>;
    /// Sets a password by the password-modify operation (RFC 3062).
    ///
    /// # Errors
    /// As [`Ldap::modify`].
    fn change_password(
        &self,
        target: &Target,
        dn: &str,
        current: Option<&str>,
        new: &str,
    ) -> Result<(), Fault>;
    /// Closes the sessions that were opened with the login of `target`.
    fn close(&self, target: &Target);
}
