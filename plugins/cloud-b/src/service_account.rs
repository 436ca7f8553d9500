//! Service accounts as returned by the provider, and the role's checks on them.
//!
//! This file prevents two attacks: an answer about another account than the requested account, and
//! a disabled account whose keys still sign.

use crate::cloud::CloudClient;
use crate::endpoints::CloudService;
use crate::proof::{ProvenToken, TokenSigner};
use crate::role::Role;
use bulkhead_sdk::Failure;
use bulkhead_sdk::explain::LoginConstraints;
use bulkhead_sdk::provider::nonsense;
use bulkhead_sdk::wire::failure::quoted;
use serde::Deserialize;

/// The provider's data about an account.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ServiceAccount {
    pub(crate) project_id: String,
    pub(crate) unique_id: String,
    pub(crate) email: String,
    #[serde(default)]
    disabled: bool,
}

impl ServiceAccount {
    /// Fetches the account by its address or number, which the caller must have checked.
    ///
    /// # Errors
    /// Invalid request if there is no such account; unreachable if the provider or its answer is
    /// faulty.
    pub(crate) fn find(cloud: &CloudClient<'_>, id: &str) -> Result<Self, Failure> {
        let url = cloud.url(CloudService::Iam, &["v1", "projects", "-", "serviceAccounts", id])?;
        let shown = quoted(id);
        let found: Self =
            cloud.get(&url)?.map_err(|why| why.about(&format!("find service account {shown}")))?;
        match found.is_called(id) {
            true => Ok(found),
            false => Err(nonsense("the answer is about another service account")),
        }
    }

    fn is_called(&self, name: &str) -> bool {
        self.unique_id == name || self.email == name
    }

    /// Tells if the account is in a list of addresses and numbers.
    pub(crate) fn is_among(&self, names: &[String]) -> bool {
        names.iter().any(|name| self.is_called(name))
    }

    /// Refuses a token whose issuer is another account, or whose email is another address.
    pub(crate) fn check_claims(&self, proof: &ProvenToken) -> Result<(), Failure> {
        let issuer = proof.claims.issuer().filter(|_| proof.signer == TokenSigner::Account);
        let email =
            proof.claims.all().get("email").filter(|_| proof.signer == TokenSigner::Provider);
        let is_own = issuer.is_none_or(|issuer| self.is_called(issuer));
        if is_own && email.is_none_or(|email| email.as_str() == Some(self.email.as_str())) {
            return Ok(());
        }
        let (email, id) = (quoted(&self.email), &self.unique_id);
        Err(Failure::invalid(format!(
            "the token's issuer or email is not that of service account {email} (id: {id}), the \
             token's subject"
        )))
    }

    /// Checks that the account is enabled.
    ///
    /// # Errors
    /// Invalid request.
    pub(crate) fn check_enabled(&self) -> Result<(), Failure> {
        let email = &self.email;
        match self.disabled {
            true => Err(Failure::invalid(format!("service account {email} is disabled"))),
            false => Ok(()),
        }
    }
}

/// Checks an account against a role for service accounts.
///
/// # Errors
/// For a login, the first constraint that fails.
pub(crate) fn admit(
    constraints: &mut LoginConstraints,
    role: &Role,
    account: &ServiceAccount,
) -> Result<(), Failure> {
    constraints.record("bound_projects", in_project(role, account))?;
    constraints.record("bound_service_accounts", bound(role, account))?;
    Ok(())
}

fn in_project(role: &Role, account: &ServiceAccount) -> Result<((), String), Failure> {
    let (bound, project) = (&role.bound_projects, &account.project_id);
    if bound.is_empty() {
        return Ok(((), "the role is bound to no project".to_owned()));
    }
    if bound.contains(project) {
        return Ok(((), format!("the account is of project {project}")));
    }
    let email = quoted(&account.email);
    Err(Failure::invalid(format!(
        "service account {email} not in bound projects: the account is of project {}",
        quoted(project)
    )))
}

fn bound(role: &Role, account: &ServiceAccount) -> Result<((), String), Failure> {
    let (email, id) = (&account.email, &account.unique_id);
    if role.admits_all_accounts() {
        return Ok(((), "the role admits every account".to_owned()));
    }
    match account.is_among(&role.bound_service_accounts) {
        true => Ok(((), format!("the role admits {email}"))),
        false => Err(Failure::invalid(format!(
            "service account {email} (id: {id}) is not authorized for role"
        ))),
    }
}
