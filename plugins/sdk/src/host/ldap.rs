//! LDAP directories, reached through the host.

use crate::ldap::{AttributeChange, LdapEntry, LdapFault, LdapTarget, Search};

/// LDAP directories. `?` converts a [`LdapFault`] into a failure; the fault's code has the details.
pub trait Ldap {
    /// Logs in with a new connection and does nothing else.
    ///
    /// # Errors
    /// [`LdapFaultCode::Refused`](crate::ldap::LdapFaultCode::Refused) if the server refuses the
    /// login.
    fn bind(&self, target: &LdapTarget) -> Result<(), LdapFault>;
    /// Returns the entries that match `search`, in the server's order.
    ///
    /// # Errors
    /// [`LdapFaultCode::NotFound`](crate::ldap::LdapFaultCode::NotFound) if the base does not
    /// exist.
    fn search(&self, target: &LdapTarget, search: &Search) -> Result<Vec<LdapEntry>, LdapFault>;
    /// Changes an entry: all changes, or none.
    ///
    /// # Errors
    /// The server's refusal; or a lost answer, see [`may_have_happened`](Fault::may_have_happened).
    fn modify(
        &self,
        target: &LdapTarget,
        dn: &str,
        changes: &[AttributeChange],
    ) -> Result<(), LdapFault>;
    /// Sets a password by the password-modify operation (RFC 3062).
    ///
    /// # Errors
    /// As [`Ldap::modify`].
    fn change_password(
        &self,
        target: &LdapTarget,
        dn: &str,
        current: Option<&str>,
        new: &str,
    ) -> Result<(), LdapFault>;
    /// Closes the sessions that were opened with the login of `target`.
    fn close(&self, target: &LdapTarget);
}
