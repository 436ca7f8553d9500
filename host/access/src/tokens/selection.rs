//! Selection of a new token's policies.
//!
//! This file prevents a token from creating a more powerful token. Only sudo, a token role or a
//! root token can grant policies that the parent does not have, and only a root token can grant
//! root.

use super::record::TokenRecord;
use super::roles::TokenRole;
use crate::policies::{DEFAULT, RESPONSE_WRAPPING, ROOT};
use bulkhead_wire::failure::{Failure, quoted};
use std::collections::BTreeSet;

/// The policies that the creator of a token requests.
pub struct RequestedPolicies<'a> {
    /// Canonical names; an empty set requests the role's policies, or else the parent's.
    pub policies: BTreeSet<String>,
    /// Excludes the policy `default`.
    pub no_default_policy: bool,
    /// The creating token.
    pub parent: &'a TokenRecord,
    /// True if the creating token has sudo on the path, or is root.
    pub has_sudo: bool,
    /// The token role, if the token is created with a role.
    pub role: Option<&'a TokenRole>,
}

/// Returns the sorted policies of the new token (decision H7).
///
/// # Errors
/// 400 naming the first policy that the token cannot have.
pub fn select(request: &RequestedPolicies<'_>) -> Result<Vec<String>, Failure> {
    let no_default =
        request.no_default_policy || request.role.is_some_and(|role| role.no_default_policy);
    let mut chosen = match request.role.filter(|role| role.rules_policies()) {
        Some(role) => by_role(request, role, no_default)?,
        None => by_parent(request, no_default)?,
    };
    // A role declines `default` for tokens whose creator does not ask for the policy.
    if request.no_default_policy || (no_default && !request.policies.contains(DEFAULT)) {
        chosen.remove(DEFAULT);
    }
    if chosen.contains(RESPONSE_WRAPPING) {
        return Err(Failure::invalid(
            "policy response-wrapping belongs to wrapping tokens and cannot be given out",
        ));
    }
    if chosen.contains(ROOT) && !request.parent.is_root() {
        return Err(Failure::invalid(
            "policy root is given by root tokens only, which this token is not",
        ));
    }
    if chosen.contains(ROOT) && chosen.len() > 1 {
        return Err(Failure::invalid(
            "root allows everything and cannot be combined with other policies",
        ));
    }
    Ok(chosen.into_iter().collect())
}

/// Selects policies without a role's rules: the parent's policies, or any policy with sudo.
fn by_parent(
    request: &RequestedPolicies<'_>,
    no_default: bool,
) -> Result<BTreeSet<String>, Failure> {
    let has = |name: &str| request.parent.policies.iter().any(|own| own == name);
    let mut chosen = request.policies.clone();
    if chosen.is_empty() {
        chosen.extend(request.parent.policies.iter().cloned());
    }
    if let Some(name) = chosen.iter().find(|name| !request.has_sudo && !has(name)) {
        return Err(Failure::invalid(format!(
            "child policies must be subset of parent: this token does not have policy {}",
            quoted(name)
        )));
    }
    if !no_default && !chosen.contains(ROOT) && (request.has_sudo || has(DEFAULT)) {
        chosen.insert(DEFAULT.to_owned());
    }
    Ok(chosen)
}

/// Selects policies by the rules of the role, without regard to the parent.
fn by_role(
    request: &RequestedPolicies<'_>,
    role: &TokenRole,
    no_default: bool,
) -> Result<BTreeSet<String>, Failure> {
    let adds_default = !no_default && !role.forbids(DEFAULT);
    let mut chosen = request.policies.clone();
    if chosen.is_empty() {
        let source =
            if role.allows_by_list() { &role.allowed_policies } else { &request.parent.policies };
        chosen.extend(source.iter().cloned());
    }
    if adds_default && !chosen.contains(ROOT) {
        chosen.insert(DEFAULT.to_owned());
    }
    let is_allowed = |name: &str| role.allows(name) || (adds_default && name == DEFAULT);
    if let Some(name) = chosen.iter().find(|name| !is_allowed(name)) {
        return Err(Failure::invalid(format!(
            "policy {} is not among those that the token role allows",
            quoted(name)
        )));
    }
    if let Some(name) = chosen.iter().find(|name| role.forbids(name)) {
        return Err(Failure::invalid(format!(
            "policy {} is disallowed by the token role",
            quoted(name)
        )));
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests;
