//! Checks of a role's constraints against a login's proofs, shared by logins, explanations and
//! renewals.

use crate::claims::Principal;
use crate::place::{ProvenResource, ResourceKind};
use crate::role::{Role, is_open};
use bulkhead_sdk::Failure;
use bulkhead_sdk::explain::LoginConstraints;
use bulkhead_sdk::wire::failure::quoted;

type ConstraintResult = Result<((), String), Failure>;

/// Constraints on the place, in the order of the checks.
pub(crate) const OF_PLACE: [&str; 4] =
    ["bound_scale_sets", "bound_subscription_ids", "bound_resource_groups", "bound_locations"];

/// Checks the principal against the role.
///
/// # Errors
/// For a login, the first constraint that fails.
pub(crate) fn hold_principal(
    role: &Role,
    principal: &Principal,
    constraints: &mut LoginConstraints,
) -> Result<(), Failure> {
    if !role.binds_principal() && !role.binds_place() {
        constraints.record::<()>(
            "bound_service_principal_ids",
            Err(Failure::invalid(
                "expected specific bound_group_ids or bound_service_principal_ids; both cannot be \
             empty or '*' where no resource is bound",
            )),
        )?;
    }
    let principals = &role.bound_service_principal_ids;
    if !principals.is_empty() {
        constraints.record("bound_service_principal_ids", is_bound(principals, principal))?;
    }
    if !role.bound_group_ids.is_empty() {
        constraints.record("bound_group_ids", is_in_group(&role.bound_group_ids, principal))?;
    }
    Ok(())
}

/// Checks the place against the role.
///
/// # Errors
/// For a login, the first constraint that fails.
pub(crate) fn hold_place(
    role: &Role,
    place: &ProvenResource,
    constraints: &mut LoginConstraints,
) -> Result<(), Failure> {
    let found = [
        (&role.bound_scale_sets, scale_set(&role.bound_scale_sets, place)),
        (
            &role.bound_subscription_ids,
            one_of(&role.bound_subscription_ids, &place.subscription, "subscription"),
        ),
        (
            &role.bound_resource_groups,
            one_of(&role.bound_resource_groups, &place.group, "resource group"),
        ),
        (&role.bound_locations, location(&role.bound_locations, place)),
    ];
    for (name, (bound, found)) in OF_PLACE.into_iter().zip(found) {
        if !bound.is_empty() {
            constraints.record(name, found)?;
        }
    }
    Ok(())
}

/// Returns the role's constraints on the place.
pub(crate) fn of_place(role: &Role) -> Vec<&'static str> {
    let bound = [
        &role.bound_scale_sets,
        &role.bound_subscription_ids,
        &role.bound_resource_groups,
        &role.bound_locations,
    ];
    OF_PLACE.into_iter().zip(bound).filter(|(_, list)| !list.is_empty()).map(|it| it.0).collect()
}

fn is_bound(bound: &[String], principal: &Principal) -> ConstraintResult {
    let oid = &principal.oid;
    if is_open(bound) {
        return Ok(((), "any service principal is let in".to_owned()));
    }
    match contains(bound, oid) {
        true => Ok(((), format!("service principal {oid} is bound"))),
        false => Err(Failure::invalid(format!("service principal not authorized: {oid}"))),
    }
}

fn is_in_group(bound: &[String], principal: &Principal) -> ConstraintResult {
    if is_open(bound) {
        return Ok(((), "any group is let in".to_owned()));
    }
    if principal.has_more_groups {
        return Err(Failure::invalid(
            "token has a groups overage claim; bound_group_ids cannot be evaluated",
        ));
    }
    match principal.groups.iter().find(|group| contains(bound, group)) {
        Some(group) => Ok(((), format!("group {} is bound", quoted(group)))),
        None => {
            let groups: Vec<_> =
                principal.groups.iter().take(8).map(|group| quoted(group)).collect();
            Err(Failure::invalid(format!("groups not authorized: [{}]", groups.join(" "))))
        }
    }
}

fn one_of(bound: &[String], found: &str, what: &str) -> ConstraintResult {
    match contains(bound, found) {
        true => Ok(((), format!("{what} {} is bound", quoted(found)))),
        false => Err(Failure::invalid(format!("{what} not authorized: {}", quoted(found)))),
    }
}

fn scale_set(bound: &[String], place: &ProvenResource) -> ConstraintResult {
    match (&place.scale_set, place.kind) {
        (Some(found), _) => one_of(bound, found, "scale set"),
        (None, ResourceKind::Machine) => {
            Err(Failure::invalid("bound scale set defined but this vm isn't in a scale set"))
        }
        (None, _) => Err(Failure::invalid("scale set requires the vmss_name field to be set")),
    }
}

/// Checks the location; `West US 2` and `westus2` are the same location.
fn location(bound: &[String], place: &ProvenResource) -> ConstraintResult {
    let plain = |text: &str| text.replace(' ', "").to_ascii_lowercase();
    let Some(found) = place.location.as_deref().filter(|found| !found.is_empty()) else {
        return Err(Failure::invalid("location is empty: none is known of an identity alone"));
    };
    match bound.iter().any(|bound| plain(bound) == plain(found)) {
        true => Ok(((), format!("location {} is bound", quoted(found)))),
        false => Err(Failure::invalid(format!("location not authorized: {}", quoted(found)))),
    }
}

/// Compares whole words, ignoring the case of ASCII letters.
fn contains(bound: &[String], found: &str) -> bool {
    bound.iter().any(|bound| bound.eq_ignore_ascii_case(found))
}
