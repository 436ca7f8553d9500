//! `login`: admits the bearer of a token that meets the constraints of a role.
//!
//! This file prevents two attacks: text of the caller in the issued token (alias and metadata
//! contain proven facts and no stated value), and an outbound request to a target of the caller's
//! choice (requests contain only ids that were parsed part by part).

use crate::arm::ResourceManager;
use crate::claims::{Principal, ProvenClaims};
use crate::place::{ProvenResource, ResourceKind, ResourceSearch};
use crate::role::Role;
use crate::settings::EffectiveSettings;
use crate::stated::StatedResource;
use crate::{constraints, credential};
use bulkhead_sdk::explain::LoginConstraints;
use bulkhead_sdk::table::Field;
use bulkhead_sdk::wire::failure::quoted;
use bulkhead_sdk::{Answer, Call, Failure, Host, Login, stored};
use serde::{Deserialize, Serialize};

/// Time limit of a login, including all retries, in seconds.
pub(crate) const LOGIN_TIMEOUT_SECS: u64 = 30;

/// The field that names the role.
pub(crate) const ROLE: &[Field] = &[Field::text("role", "the role to log in by").required()];

/// Fields of a login.
pub(crate) const FIELDS: &[Field] = &[
    Field::text("jwt", "the token of the managed identity").required().secret(),
    Field::text(
        "subscription_id",
        "the machine's subscription, if the token does not name a subscription",
    ),
    Field::text(
        "resource_group_name",
        "the machine's resource group, if the token does not name a group",
    ),
    Field::text("vm_name", "the virtual machine; ignored if vmss_name is given"),
    Field::text("vmss_name", "the scale set"),
    Field::text("resource_id", "any other resource; ignored if vm_name or vmss_name is given"),
];

/// The proofs of a login, stored so that a renewal can check them again without the provider
/// (decision A11).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredLogin {
    pub(crate) role: String,
    /// The role's id; empty in a login of an earlier release.
    #[serde(default)]
    pub(crate) role_id: String,
    pub(crate) principal: Principal,
    pub(crate) place: Option<ProvenResource>,
    /// Set if the provider was asked about the place because the role bound the place.
    pub(crate) is_located: bool,
}

stored!(StoredLogin, "login", reads_stored_logins);

/// Checks the call's token and statements against the role. Returns `None` if an explanation found
/// a constraint that fails and on which later checks depend.
///
/// # Errors
/// For a login, the first constraint that fails.
pub(crate) fn admit(
    host: &dyn Host,
    call: &Call,
    (name, role): (&str, &Role),
    constraints: &mut LoginConstraints,
) -> Result<Option<StoredLogin>, Failure> {
    let stated = StatedResource::read(call)?;
    constraints.record("token_bound_cidrs", role.token.admit_address(call))?;
    let settings = EffectiveSettings::stored(host)?;
    let proven = ProvenClaims::of(host, &settings, call.text("jwt"), call.deadline);
    let proven = proven.map(|proven| {
        let why = format!("the token is of {} and for this service", proven.principal.oid);
        (proven, why)
    });
    let Some(proven) = constraints.record("jwt", proven)? else {
        constraints.record_unchecked(&left_out(role), "jwt");
        return Ok(None);
    };
    constraints::hold_principal(role, &proven.principal, constraints)?;
    let place = match role.binds_place() {
        true => find_place(host, call, &settings, role, (&stated, &proven), constraints)?,
        // Signed but not confirmed by the provider; used for metadata only.
        false => proven.ids().ok().and_then(|ids| ids.resource).as_ref().map(ProvenResource::of),
    };
    let principal = proven.principal;
    let (name, role_id, is_located) = (name.to_owned(), role.id.clone(), role.binds_place());
    Ok(Some(StoredLogin { role: name, role_id, principal, place, is_located }))
}

/// Returns the constraints that cannot be checked without a valid token.
fn left_out(role: &Role) -> Vec<&'static str> {
    let of_principal = [
        ("bound_service_principal_ids", &role.bound_service_principal_ids),
        ("bound_group_ids", &role.bound_group_ids),
    ];
    let bound = of_principal.into_iter().filter(|(_, list)| !list.is_empty()).map(|(name, _)| name);
    bound.chain(constraints::of_place(role)).collect()
}

/// Finds the place through the provider and checks the place against the role.
fn find_place(
    host: &dyn Host,
    call: &Call,
    settings: &EffectiveSettings,
    role: &Role,
    (stated, proven): (&StatedResource, &ProvenClaims),
    constraints: &mut LoginConstraints,
) -> Result<Option<ProvenResource>, Failure> {
    let search = || {
        // Contradictory statements are refused before any request.
        stated.wanted(&proven.ids()?)?;
        let provider = settings.provider(host, call.deadline);
        let access =
            credential::access(provider.clone(), settings, settings.cloud.manager_audience)?;
        let arm = ResourceManager::new(provider, settings.cloud, access);
        ResourceSearch { arm: &arm, role, stated, proven }.run()
    };
    match constraints.record("resource", search())? {
        Some(place) => {
            constraints::hold_place(role, &place, constraints)?;
            Ok(Some(place))
        }
        None => {
            constraints.record_unchecked(&constraints::of_place(role), "resource");
            Ok(None)
        }
    }
}

/// Builds the login: its alias is the object id, and its metadata contains only proven facts.
pub(crate) fn login_of(record: &StoredLogin, role: &Role) -> Result<Login, Failure> {
    let StoredLogin { principal, place, .. } = record;
    let mut login = Login::of(&principal.oid, &role.token);
    if let Some(app_id) = &principal.app_id {
        login = login.with("app_id", app_id);
    }
    for (name, value) in place.iter().flat_map(described) {
        login = login.with(name, value);
    }
    login.metadata.insert("role".to_owned(), record.role.clone());
    if !principal.has_more_groups {
        login = login.in_groups(principal.groups.iter().cloned());
    }
    login.with_internal(record)
}

/// Returns the metadata that describes a place.
fn described(place: &ProvenResource) -> Vec<(&'static str, String)> {
    let mut metadata = vec![
        ("subscription_id", place.subscription.clone()),
        ("resource_group_name", place.group.clone()),
    ];
    metadata.push(match place.kind {
        ResourceKind::Machine => ("vm_name", place.name.clone()),
        ResourceKind::ScaleSet => ("vmss_name", place.name.clone()),
        ResourceKind::Identity | ResourceKind::Other => ("resource_id", place.id.clone()),
    });
    metadata
}

/// Logs in.
pub(crate) fn write(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let name = call.text("role");
    let unknown = || Failure::invalid(format!("invalid role name {}", quoted(name)));
    // A name that no role can have is not a valid storage key.
    let role = match bulkhead_sdk::wire::name::is_name(name) {
        true => Role::find(host, name)?.ok_or_else(unknown)?,
        false => return Err(unknown()),
    };
    let admitted = admit(host, call, (name, &role), &mut LoginConstraints::for_login())?;
    let record =
        admitted.ok_or_else(|| Failure::internal("a login was neither let in nor refused"))?;
    Ok(Answer::login(login_of(&record, &role)?))
}

#[cfg(test)]
mod tests;
