//! Renewal of a login: checks the current role, account and instance again, and reads the groups of
//! the project again. The token's metadata plays no part in the decision; the alias keeps the
//! metadata.

use crate::admitted_caller::AdmittedCaller;
use crate::cloud::CloudClient;
use crate::group_aliases;
use crate::instance::{self, Instance};
use crate::instance_identity::InstanceIdentity;
use crate::login::bound;
use crate::role::Role;
use crate::service_account::{self, ServiceAccount};
use crate::settings::Config;
use bulkhead_sdk::explain::LoginConstraints;
use bulkhead_sdk::wire::failure::quoted;
use bulkhead_sdk::{Context, Failure, HeldLogin, Host, Login};
use std::collections::BTreeSet;

/// Policy added by the host.
const DEFAULT: &str = "default";

/// Returns the login with current data and its existing alias.
///
/// # Errors
/// The reason against a renewal; unreachable if the provider cannot be queried (decision A11).
pub(crate) fn renew(
    host: &dyn Host,
    context: &Context,
    login: &HeldLogin,
) -> Result<Login, Failure> {
    let caller: AdmittedCaller = login.internal()?;
    let role = role_of(host, &caller)?;
    check_policies(&caller, &role, login)?;
    let config = Config::find(host)?;
    let cloud = CloudClient::new(host, &config, context.deadline);
    let account = ServiceAccount::find(&cloud, &caller.account)?;
    account.check_enabled()?;
    match &caller.instance {
        Some(instance) => admit_instance(&cloud, &role, instance, &account),
        None => admit_account(&role, &caller, &account),
    }
    .map_err(|why| refused(why, &caller))?;
    let project = caller.instance.as_ref().map_or(&account.project_id, |found| &found.project_id);
    let groups = group_aliases::of_login(&cloud, &role, project)?;
    let metadata = login.metadata.iter();
    let renewed = Login::of(&login.alias, &role.token).in_groups(groups);
    metadata
        .fold(renewed, |renewed, (name, value)| renewed.with(name, value))
        .with_internal(&caller)
}

/// Returns the login's role if the role still exists with the same type.
fn role_of(host: &dyn Host, caller: &AdmittedCaller) -> Result<Role, Failure> {
    let found = Role::find(host, &caller.role)?;
    let is_same = |role: &Role| {
        role.role_id == caller.role_id && role.is_of_accounts() == caller.instance.is_none()
    };
    found
        .filter(is_same)
        .ok_or_else(|| Failure::invalid(format!("role {} no longer exists", quoted(&caller.role))))
}

fn check_policies(caller: &AdmittedCaller, role: &Role, login: &HeldLogin) -> Result<(), Failure> {
    let own = |policies: &[String]| -> BTreeSet<String> {
        policies.iter().filter(|name| *name != DEFAULT).cloned().collect()
    };
    match own(&login.policies) == own(&role.token.token_policies) {
        true => Ok(()),
        false => Err(Failure::invalid(format!(
            "policies on role {} have changed, cannot renew: log in again",
            quoted(&caller.role)
        ))),
    }
}

fn admit_account(
    role: &Role,
    caller: &AdmittedCaller,
    account: &ServiceAccount,
) -> Result<(), Failure> {
    if caller.is_inferred && !role.allow_gce_inference {
        return Err(Failure::invalid("GCE inference is no longer allowed"));
    }
    service_account::admit(&mut LoginConstraints::for_login(), role, account)
}

fn admit_instance(
    cloud: &CloudClient<'_>,
    role: &Role,
    identity: &InstanceIdentity,
    account: &ServiceAccount,
) -> Result<(), Failure> {
    instance::in_project(role, identity)?;
    let instance = Instance::find(cloud, identity)?;
    instance::admit(&mut LoginConstraints::for_login(), cloud, role, identity, &instance)?;
    instance.check_account(account)?;
    bound(role, account).map(drop)
}

fn refused(why: Failure, caller: &AdmittedCaller) -> Failure {
    let role = &caller.role;
    Failure { message: format!("could not renew token for role {role}: {}", why.message), ..why }
}

#[cfg(test)]
mod tests;
