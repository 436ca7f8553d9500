//! `login`: admits the service account of a token that the API server confirms.
//!
//! This file prevents a login by claims: the token selects the account that the API server is asked
//! about, and alias and metadata are those of the answer. A token that the role could not admit is
//! refused without a request.

use crate::api_server::ApiServer;
use crate::config::ReviewConfig;
use crate::namespace;
use crate::review::review;
use crate::role::{NamespaceRule, Role, selector_of};
use crate::signature;
use crate::token::{AccountToken, ServiceAccount};
use bulkhead_sdk::table::Field;
use bulkhead_sdk::{Answer, Call, Failure, Host, Login, stored, unproven_requests};
use serde::{Deserialize, Serialize};

/// Time limit of a login, in seconds.
pub(crate) const DEADLINE: u64 = 30;

/// Maximum length of a display name, in bytes.
const LONGEST_NAME: usize = 256;

/// Fields of a login.
pub(crate) const FIELDS: &[Field] = &[
    Field::text("role", "the role to log in by").required(),
    Field::text("jwt", "the token of the service account").required().secret(),
];

/// The proofs of a login, stored so that a renewal can check them again without the API server
/// (decision A11).
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct LoginProof {
    pub(crate) role: String,
    pub(crate) role_id: String,
    pub(crate) account: ServiceAccount,
    pub(crate) secret_name: String,
    /// Confirmed audience; empty if the role had none.
    pub(crate) audience: String,
    /// Selector that the labels of the namespace matched; empty if the namespace was in the list.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) namespace_selector: String,
}

stored!(LoginProof, "login", reads_stored_logins);

/// Logs in.
pub(crate) fn write(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let token = AccountToken::read(call.text("jwt"))?;
    let (name, role) = Role::of_login(host, call.text("role"))?;
    role.token.admit_address(call)?;
    let config = ReviewConfig::needed(host, &call.mount.path)?;
    token.claims.check_times(host.clock().now())?;
    config.admit_issuer(&token.claims)?;
    let rule = role.admit(&token.claims.account)?;
    role.admit_audience(&token.claims)?;
    signature::check(host, &config.pem_keys, &token)?;
    let server = ApiServer::of(host, &config)?;
    // A signature that was checked here is a proof; otherwise only the API server can tell.
    let is_unproven = config.pem_keys.is_empty();
    if is_unproven {
        unproven_requests::admit(host, call)?;
    }
    let reviewed = review(host, &server, &token, &role.audience);
    if is_unproven {
        unproven_requests::settle(host, call, &reviewed)?;
    }
    let reviewed = reviewed?;
    if let NamespaceRule::Selector(text) = rule {
        namespace::check(host, &server, &token, &reviewed, &selector_of(text)?)?;
    }
    let secret_name = token.claims.secret_name.clone();
    let proof = LoginProof {
        role: name,
        role_id: role.id.clone(),
        account: reviewed.account().clone(),
        secret_name,
        audience: role.audience.clone(),
        namespace_selector: rule.selector(),
    };
    let alias = role.alias_name_source.alias(reviewed.account());
    Ok(Answer::login(login_of(&alias, &proof, &role)?))
}

/// Builds the login of a confirmed account.
pub(crate) fn login_of(alias: &str, proof: &LoginProof, role: &Role) -> Result<Login, Failure> {
    let ServiceAccount { namespace, name, uid } = &proof.account;
    let mut display_name = format!("{namespace}-{name}");
    display_name.truncate(LONGEST_NAME);
    let mut login = Login::of(alias, &role.token)
        .named(display_name)
        .with("service_account_name", name)
        .with("service_account_namespace", namespace)
        .with("service_account_uid", uid)
        .with("service_account_secret_name", &proof.secret_name);
    login.metadata.insert("role".to_owned(), proof.role.clone());
    login.with_internal(proof)
}

#[cfg(test)]
mod tests;
