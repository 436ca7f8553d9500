//! Directories, reached through the host.

use crate::ldap::{Change, Entry, Fault, Search, Target};

/// Directories. A [`Fault`] becomes a failure by `?`; who wants to know more looks at its code.
pub trait Ldap {
    /// A fresh login, and nothing else.
    ///
    /// # Errors
    /// [`Code::Refused`](crate::ldap::Code::Refused) when the server does not take it.
    fn bind(&self, target: &Target) -> Result<(), Fault>;
    /// The entries that are searched for, in the server's order.
    ///
    /// # Errors
    /// [`Code::NotFound`](crate::ldap::Code::NotFound) when the base is not there.
    fn search(&self, target: &Target, search: &Search) -> Result<Vec<Entry>, Fault>;
    /// Changes an entry: all of it, or nothing.
    ///
    /// # Errors
    /// What the server refused; or that its answer was lost, see
    /// [`may_have_happened`](Fault::may_have_happened).
    fn modify(&self, target: &Target, dn: &str, changes: &[Change]) -> Result<(), Fault>;
    /// Sets a password by the operation for that (RFC 3062).
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
    /// Forgets the sessions that are logged in as this target says.
    fn close(&self, target: &Target);
}
