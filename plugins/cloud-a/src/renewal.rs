//! Renewal of a login: checks the current role against the stored proofs of the login. No request
//! goes to the provider, so that no token ends because the provider is down (decision A11).
//!
//! This file prevents a token from outliving a change of its role. The role's current constraints
//! must match the proofs made at login; a constraint on a fact that was not proven at login fails.

use crate::constraints;
use crate::login::{StoredLogin, login_of};
use crate::role::Role;
use bulkhead_sdk::explain::LoginConstraints;
use bulkhead_sdk::{Failure, HeldLogin, Host, Login};

/// Checks a login again for its renewal.
///
/// # Errors
/// Invalid request if the role is gone or no longer admits the login.
pub(crate) fn renew(host: &dyn Host, login: &HeldLogin) -> Result<Login, Failure> {
    let record: StoredLogin = login.internal()?;
    let role = Role::find(host, &record.role)?.filter(|role| role.id == record.role_id);
    let role = HeldLogin::present_role(role, &record.role)?;
    if record.principal.oid != login.alias {
        return Err(Failure::invalid("the login is of another identity; log in again"));
    }
    let mut constraints = LoginConstraints::for_login();
    constraints::hold_principal(&role, &record.principal, &mut constraints)?;
    if role.binds_place() {
        let place = record.place.as_ref().filter(|_| record.is_located);
        let place = place.ok_or_else(|| {
            Failure::invalid(
                "the role now binds resources, and this login proved none; log in again",
            )
        })?;
        constraints::hold_place(&role, place, &mut constraints)?;
    }
    login_of(&record, &role)
}
