//! Location of a token's bearer: the resource named by the signed claims, with the resource
//! manager's data about that resource.
//!
//! This file prevents these attacks: a caller states the machine, group or subscription of another
//! bearer (the stated id must equal the signed id as a whole); a machine that shares an identity
//! with the bound machine logs in as the bound machine; an application id stands in for the
//! principal (application and principal must belong to the same identity).

use crate::arm::{ResourceIdentity, ResourceManager, about};
use crate::arm_id::{ArmId, IDENTITY, MACHINE, SCALE_SET};
use crate::claims::{Principal, ProvenClaims, SignedResourceIds};
use crate::role::Role;
use crate::stated::StatedResource;
use bulkhead_sdk::Failure;
use bulkhead_sdk::wire::failure::quoted;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Maximum number of user-assigned identities of a resource that a login checks.
const MOST_IDENTITIES: usize = 32;
/// Maximum number of resource groups in which a login searches for an identity.
const MOST_GROUPS: usize = 32;

/// A proven place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProvenResource {
    /// Kind of the resource at this place.
    pub(crate) kind: ResourceKind,
    pub(crate) subscription: String,
    pub(crate) group: String,
    /// The resource's own name.
    pub(crate) name: String,
    /// The resource's complete id.
    pub(crate) id: String,
    pub(crate) location: Option<String>,
    /// Name of the scale set that the machine belongs to.
    pub(crate) scale_set: Option<String>,
}

/// Kind of a proven resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ResourceKind {
    Machine,
    ScaleSet,
    /// An identity alone; the location of its machine is unknown.
    Identity,
    Other,
}

impl ProvenResource {
    /// Returns the place for a proven resource id.
    pub(crate) fn of(id: &ArmId) -> Self {
        let kind = match id.kind().as_str() {
            MACHINE => ResourceKind::Machine,
            SCALE_SET => ResourceKind::ScaleSet,
            IDENTITY => ResourceKind::Identity,
            _ => ResourceKind::Other,
        };
        Self {
            kind,
            subscription: id.subscription().to_owned(),
            group: id.group().to_owned(),
            name: id.name().to_owned(),
            id: id.to_string(),
            location: None,
            scale_set: (kind == ResourceKind::ScaleSet).then(|| id.name().to_owned()),
        }
    }
}

/// Search for the place of a login.
pub(crate) struct ResourceSearch<'a> {
    pub(crate) arm: &'a ResourceManager<'a>,
    pub(crate) role: &'a Role,
    pub(crate) stated: &'a StatedResource,
    pub(crate) proven: &'a ProvenClaims,
}

impl ResourceSearch<'_> {
    /// Returns the place, and a text that explains the proof.
    ///
    /// # Errors
    /// Invalid request if the place cannot be proven; the provider's refusal.
    pub(crate) fn run(&self) -> Result<(ProvenResource, String), Failure> {
        let ids = self.proven.ids()?;
        let place = match self.stated.wanted(&ids)? {
            Some(wanted) => self.at_resource(&wanted, &ids)?,
            None => self.at_identity(&ids)?,
        };
        let why = format!("the token is of {}", place.id);
        Ok((place, why))
    }

    fn principal(&self) -> &Principal {
        &self.proven.principal
    }

    /// Returns the place of the wanted resource after matching that resource against the signed
    /// claims.
    fn at_resource(
        &self,
        wanted: &ArmId,
        ids: &SignedResourceIds,
    ) -> Result<ProvenResource, Failure> {
        let signed = self.match_claims(wanted, ids)?;
        let place = match wanted.kind().as_str() {
            MACHINE => self.at_machine(wanted, signed)?,
            SCALE_SET => self.at_scale_set(wanted, signed)?,
            IDENTITY => return self.at_known_identity(wanted),
            _ => self.at_other(wanted, signed)?,
        };
        match (wanted.kind() == SCALE_SET, &ids.resource) {
            (true, Some(machine)) if machine.kind() == MACHINE => {
                self.check_membership(machine, wanted)?;
            }
            _ => {}
        }
        Ok(place)
    }

    /// Compares the token's claims with the wanted resource.
    fn match_claims(
        &self,
        wanted: &ArmId,
        ids: &SignedResourceIds,
    ) -> Result<TokenBinding, Failure> {
        let mismatch = || {
            let field = self.stated.field();
            Failure::invalid(format!(
                "token claims xms_az_rid and xms_mirid do not match {field} in its group"
            ))
        };
        if wanted.kind() == IDENTITY {
            return match &ids.identity {
                Some(identity) if identity == wanted => Ok(TokenBinding::Yes),
                Some(_) => Err(mismatch()),
                None if ids.resource.is_some() => Err(mismatch()),
                None => Ok(TokenBinding::No),
            };
        }
        let Some(found) = &ids.resource else { return Ok(TokenBinding::No) };
        let is_instance = wanted.kind() == SCALE_SET
            && (found.parent().as_ref() == Some(wanted) || is_named_after(found, wanted));
        match found == wanted || is_instance {
            true => Ok(TokenBinding::Yes),
            false => Err(mismatch()),
        }
    }

    fn at_machine(&self, id: &ArmId, signed: TokenBinding) -> Result<ProvenResource, Failure> {
        let what = "virtual machine";
        let machine = self.arm.machine(id).map_err(|why| about(why, id, what))?;
        self.check_principal(machine.resource.identity.as_ref(), signed, what)?;
        let scale_set = machine.scale_set().map(|set| set.name().to_owned());
        Ok(ProvenResource {
            location: machine.resource.location,
            scale_set,
            ..ProvenResource::of(id)
        })
    }

    fn at_scale_set(&self, id: &ArmId, signed: TokenBinding) -> Result<ProvenResource, Failure> {
        let what = "virtual machine scale set";
        let found = self.arm.scale_set(id).map_err(|why| about(why, id, what))?;
        self.check_principal(found.identity.as_ref(), signed, what)?;
        Ok(ProvenResource { location: found.location, ..ProvenResource::of(id) })
    }

    fn at_other(&self, id: &ArmId, signed: TokenBinding) -> Result<ProvenResource, Failure> {
        let found = self.arm.resource(id).map_err(|why| about(why, id, "resource"))?;
        self.check_principal(found.identity.as_ref(), signed, "resource")?;
        Ok(ProvenResource { location: found.location, ..ProvenResource::of(id) })
    }

    /// Checks that a machine named after a flexible scale set belongs to that scale set.
    ///
    /// If the machine may not be read, its name is sufficient, because
    /// [`check_principal`](Self::check_principal) has already found the principal among the scale
    /// set's own identities.
    fn check_membership(&self, machine: &ArmId, wanted: &ArmId) -> Result<(), Failure> {
        match self.arm.machine(machine) {
            Ok(found) if found.scale_set().as_ref() == Some(wanted) => Ok(()),
            Ok(_) => Err(Failure::invalid(format!(
                "the machine {} is not a part of vmss_name",
                quoted(machine.name())
            ))),
            Err(refusal) if refusal.is(403) => {
                self.arm.note_unread_machine(machine);
                Ok(())
            }
            Err(refusal) => Err(about(refusal, machine, "virtual machine")),
        }
    }

    /// Checks that the principal is an identity of the resource: the system-assigned identity or,
    /// if the token was signed for this resource, a user-assigned identity.
    fn check_principal(
        &self,
        identity: Option<&ResourceIdentity>,
        signed: TokenBinding,
        noun: &str,
    ) -> Result<(), Failure> {
        let Some(identity) = identity else {
            return Err(Failure::invalid(format!("the {noun} has no identity")));
        };
        if self.is_own(identity.principal_id.as_deref()) {
            return Ok(());
        }
        let given = identity.given.iter().flatten().take(MOST_IDENTITIES);
        for (id, details) in given.filter(|_| signed == TokenBinding::Yes) {
            match details.as_ref().and_then(|details| details.principal_id.as_deref()) {
                Some(principal) if self.is_own(Some(principal)) => return Ok(()),
                Some(_) => {}
                None if self.is_given(id)? => return Ok(()),
                None => {}
            }
        }
        Err(Failure::invalid(format!(
            "token object id does not match expected identities of the {noun}: {}",
            self.principal().oid
        )))
    }

    /// Tells if the identity `id` has this principal, for answers of the manager that name only the
    /// identity's id.
    fn is_given(&self, id: &str) -> Result<bool, Failure> {
        let Some(id) = ArmId::parse(id).filter(|id| id.kind() == IDENTITY) else {
            return Ok(false);
        };
        let found = self.arm.identity(&id).map_err(|why| about(why, &id, "identity"))?;
        Ok(self.is_own(found.principal_id()))
    }

    fn is_own(&self, principal: Option<&str>) -> bool {
        principal.is_some_and(|id| id.eq_ignore_ascii_case(&self.principal().oid))
    }

    /// Returns the place of an identity that logs in without a machine, such as a cluster's
    /// identity.
    fn at_identity(&self, ids: &SignedResourceIds) -> Result<ProvenResource, Failure> {
        if let Some(id) = &ids.identity {
            return self.at_known_identity(id);
        }
        let Some(subscription) = self.stated.subscription.as_deref() else {
            return Err(Failure::invalid("subscription_id and resource_group_name are required"));
        };
        let app_id = self.app_id()?;
        for group in self.groups_to_search() {
            let is_wanted = |found: &crate::arm::UserAssignedIdentity| {
                self.is_own(found.principal_id())
                    && found.client_id().is_some_and(|id| id.eq_ignore_ascii_case(app_id))
            };
            let found = self.arm.find_identity(subscription, &group, is_wanted);
            let found = found.map_err(|why| why.about(&format!("list identities of {group:?}")))?;
            let is_there = |id: &ArmId| {
                id.kind() == IDENTITY
                    && id.group() == group
                    && id.subscription().eq_ignore_ascii_case(subscription)
            };
            if let Some(id) = found.and_then(|found| found.arm_id()).filter(is_there) {
                return Ok(ProvenResource::of(&id));
            }
        }
        Err(unmatched())
    }

    /// Returns the place of an identity whose id is known.
    fn at_known_identity(&self, id: &ArmId) -> Result<ProvenResource, Failure> {
        let app_id = self.app_id()?;
        let found = self.arm.identity(id).map_err(|why| about(why, id, "identity"))?;
        let is_app = found.client_id().is_some_and(|id| id.eq_ignore_ascii_case(app_id));
        match is_app && self.is_own(found.principal_id()) {
            true => Ok(ProvenResource::of(id)),
            false => Err(unmatched()),
        }
    }

    fn app_id(&self) -> Result<&str, Failure> {
        self.principal().app_id.as_deref().ok_or_else(|| {
            Failure::invalid(
                "one of vm_name, vmss_name, resource_id, or an appid JWT claim must be provided",
            )
        })
    }

    /// Returns the groups that the role binds. The stated group counts only if the role binds no
    /// group.
    fn groups_to_search(&self) -> BTreeSet<String> {
        let bound = &self.role.bound_resource_groups;
        let stated = self.stated.group.iter();
        let stated = stated.filter(|_| bound.is_empty());
        let all = bound.iter().chain(stated).map(|group| group.to_ascii_lowercase());
        all.take(MOST_GROUPS).collect()
    }
}

/// Tells if the token was signed for the resource.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TokenBinding {
    Yes,
    /// The token names no resource.
    No,
}

/// Tells if the machine is in the scale set's group and its name is the scale set's name plus `_…`,
/// as in flexible scale sets.
fn is_named_after(machine: &ArmId, scale_set: &ArmId) -> bool {
    let (name, prefix) = (machine.name(), scale_set.name());
    let is_prefixed = name.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('_'));
    machine.kind() == MACHINE && machine.is_beside(scale_set) && is_prefixed
}

fn unmatched() -> Failure {
    Failure::invalid("neither token object id nor token app id match expected identities")
}

#[cfg(test)]
mod tests;
