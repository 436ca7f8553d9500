//! Renewal of a login: compares the current role with the proofs of the login. No request goes to
//! the API server, so that no token ends because the API server is down (decision A11).
//!
//! This file prevents a token from outliving a change of its role: the role must still admit the
//! account, and an audience, or a selector of namespaces, must be the one that was proven at the
//! login.

use crate::login::{LoginProof, login_of};
use crate::role::{NamespaceRule, Role};
use bulkhead_sdk::{Failure, HeldLogin, Host, Login};

/// Checks a login again for its renewal.
///
/// # Errors
/// Invalid request if the role is gone or asks for another audience; permission denied if the role
/// no longer admits the account, or selects its namespace in another way.
pub(crate) fn renew(host: &dyn Host, held_login: &HeldLogin) -> Result<Login, Failure> {
    let proof: LoginProof = held_login.internal()?;
    let role = Role::find(host, &proof.role)?.filter(|role| role.id == proof.role_id);
    let role = HeldLogin::present_role(role, &proof.role)?;
    if let NamespaceRule::Selector(text) = role.admit(&proof.account)?
        && text != proof.namespace_selector
    {
        return Err(Failure::denied(
            "the role has another selector of namespaces by now; log in again",
        ));
    }
    if !role.audience.is_empty() && role.audience != proof.audience {
        return Err(Failure::invalid(
            "the role asks for another audience by now; log in again with a token for this \
             audience",
        ));
    }
    login_of(&held_login.alias, &proof, &role)
}

#[cfg(test)]
mod tests;
