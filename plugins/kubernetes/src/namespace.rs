//! The namespace of an account: its labels, which a role's selector reads from the API server.
//!
//! This file prevents a login by the labels of another namespace: only the namespace of an account
//! that the API server confirmed is asked for, and the answer must name that namespace.

use crate::api_server::{ApiServer, ReviewerIdentity};
use crate::review::{ReviewedAccount, log, message, no_review, nonsense, unsent};
use crate::token::AccountToken;
use bulkhead_sdk::kubernetes::{LabelSelector, is_label};
use bulkhead_sdk::{Failure, Host};
use serde::Deserialize;
use std::collections::BTreeMap;

const PATH: &str = "/api/v1/namespaces/";

/// Advice for an identity that may review tokens and not read namespaces.
const GRANT: &str = "bind its account to a cluster role with permission to get namespaces";

/// The relevant members of a namespace.
#[derive(Deserialize)]
struct NamespaceObject {
    kind: String,
    metadata: NamespaceMetadata,
}

#[derive(Deserialize)]
struct NamespaceMetadata {
    name: String,
    labels: Option<BTreeMap<String, String>>,
}

/// Checks that the labels of the account's namespace match `selector`.
///
/// # Errors
/// Permission denied if the labels do not match, or the API server refuses the reviewer;
/// unreachable for any other answer.
pub(crate) fn check(
    host: &dyn Host,
    server: &ApiServer,
    token: &AccountToken<'_>,
    reviewed: &ReviewedAccount,
    selector: &LabelSelector,
) -> Result<(), Failure> {
    let name = &reviewed.account().namespace;
    // A name with dots could become another path.
    if !is_label(name) {
        return Err(not_authorized());
    }
    let request = server.read(&format!("{PATH}{name}"), token);
    let answer = host.http().send(&request).map_err(|why| unsent("read the namespace", why))?;
    let found: NamespaceObject = match answer.status {
        200..=299 => serde_json::from_slice(&answer.body).map_err(|_| nonsense())?,
        404 => return Err(not_authorized()),
        401 | 403 => {
            log(host, "namespace-refused", &message(&answer));
            return Err(forbidden(&server.reviewer));
        }
        _ => return Err(no_review(host, &answer)),
    };
    if found.kind != "Namespace" || found.metadata.name != *name {
        return Err(nonsense());
    }
    match selector.matches(&found.metadata.labels.unwrap_or_default()) {
        true => Ok(()),
        false => Err(not_authorized()),
    }
}

/// Returns the refusal of an account whose namespace the role does not admit.
pub(crate) fn not_authorized() -> Failure {
    Failure::denied("namespace not authorized")
}

fn forbidden(reviewer: &ReviewerIdentity) -> Failure {
    let identity = match reviewer {
        ReviewerIdentity::Given(_) => "token_reviewer_jwt",
        ReviewerIdentity::Pod => "the server's pod",
        ReviewerIdentity::Login => "the token itself",
    };
    Failure::denied(format!("the API server does not let {identity} read namespaces: {GRANT}"))
}

#[cfg(test)]
mod tests;
