//! Verification of a token's signature with the keys of the configuration, before the review.
//!
//! The attack this file prevents: an algorithm chosen by the sender. Only asymmetric algorithms are
//! allowed, so that no public key counts as a shared secret.

use crate::token::AccountToken;
use bulkhead_sdk::{Failure, FailureKind, Host};

/// Algorithms that the auth method of Vault for Kubernetes accepts (0.23.1). API servers use RS256,
/// ES256, ES384 or ES512.
const ALGORITHMS: [&str; 6] = ["RS256", "RS384", "RS512", "ES256", "ES384", "ES512"];

/// Refuses a token that none of `keys` has signed. Without keys, the API server alone decides.
///
/// # Errors
/// Permission denied.
pub(crate) fn check(
    host: &dyn Host,
    keys: &[String],
    token: &AccountToken<'_>,
) -> Result<(), Failure> {
    if keys.is_empty() {
        return Ok(());
    }
    let is_allowed = ALGORITHMS.contains(&token.algorithm.as_str());
    for key in keys.iter().filter(|_| is_allowed) {
        if has_signed(host, key, token)? {
            return Ok(());
        }
    }
    Err(Failure::denied("no key of pem_keys has signed the token"))
}

/// Returns whether `key` has signed the token. A key of another kind than the algorithm's has not.
fn has_signed(host: &dyn Host, key: &str, token: &AccountToken<'_>) -> Result<bool, Failure> {
    let signed = token.signed.as_bytes();
    match host.crypto().verify(&token.algorithm, key, signed, &token.signature) {
        Err(why) if why.kind == FailureKind::InvalidRequest => Ok(false),
        verified => verified,
    }
}
