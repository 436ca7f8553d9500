//! Where the bearer of a token is: the resource that its signed claims prove, and what the manager
//! says of it.
//!
//! The attacks this file stops: a caller who states the machine, group or subscription of another
//! one (what is stated must be what the token was signed for, as a whole id); a machine that shares
//! an identity with the one that is bound, without being it; and an application's id that stands in
//! for the principal (both must be those of one identity).

use crate::arm::{Arm, ResourceIdentity, about};
use crate::arm_id::{ArmId, IDENTITY, MACHINE, SCALE_SET};
use crate::claims::{Ids, Principal, Proven};
use crate::role::Role;
use crate::stated::Stated;
use bulkhead_sdk::Failure;
use bulkhead_sdk::wire::failure::quoted;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Identities of one resource that are asked for one by one.
const MOST_IDENTITIES: usize = 32;
/// Groups in which an identity is looked for.
const MOST_GROUPS: usize = 32;

/// A place that was proven.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Place {
    /// Of what the place was proven.
    pub(crate) kind: Kind,
    pub(crate) subscription: String,
    pub(crate) group: String,
    /// The resource's own name.
    pub(crate) name: String,
    /// The whole id.
    pub(crate) id: String,
    pub(crate) location: Option<String>,
    /// The name of the scale set that the machine is a part of.
    pub(crate) scale_set: Option<String>,
}

/// What was proven to be at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    Machine,
    ScaleSet,
    /// An identity, by itself: of where its machine is nothing is known.
    Identity,
    Other,
}

impl Place {
    /// The place of a resource whose id is proven.
    pub(crate) fn of(id: &ArmId) -> Self {
        let kind = match id.kind().as_str() {
            MACHINE => Kind::Machine,
            SCALE_SET => Kind::ScaleSet,
            IDENTITY => Kind::Identity,
            _ => Kind::Other,
        };
        Self {
            kind,
            subscription: id.subscription().to_owned(),
            group: id.group().to_owned(),
            name: id.name().to_owned(),
            id: id.to_string(),
            location: None,
            scale_set: (kind == Kind::ScaleSet).then(|| id.name().to_owned()),
        }
    }
}

/// A search for the place of one login.
pub(crate) struct Search<'a> {
    pub(crate) arm: &'a Arm<'a>,
    pub(crate) role: &'a Role,
    pub(crate) stated: &'a Stated,
    pub(crate) proven: &'a Proven,
}

impl Search<'_> {
    /// The place, and the words for why it is proven.
    ///
    /// # Errors
    /// Invalid request for what is not proven; what the provider refused.
    pub(crate) fn run(&self) -> Result<(Place, String), Failure> {
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

    /// The place of the wanted resource, which must be what the token was signed for.
    fn at_resource(&self, wanted: &ArmId, ids: &Ids) -> Result<Place, Failure> {
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

    /// How the token's claims speak of the wanted resource.
    fn match_claims(&self, wanted: &ArmId, ids: &Ids) -> Result<Signed, Failure> {
        let mismatch = || {
            let field = self.stated.field();
            Failure::invalid(format!(
                "token claims xms_az_rid and xms_mirid do not match {field} in its group"
            ))
        };
        if wanted.kind() == IDENTITY {
            return match &ids.identity {
                Some(identity) if identity == wanted => Ok(Signed::Yes),
                Some(_) => Err(mismatch()),
                None if ids.resource.is_some() => Err(mismatch()),
                None => Ok(Signed::No),
            };
        }
        let Some(found) = &ids.resource else { return Ok(Signed::No) };
        let is_instance = wanted.kind() == SCALE_SET
            && (found.parent().as_ref() == Some(wanted) || is_named_after(found, wanted));
        match found == wanted || is_instance {
            true => Ok(Signed::Yes),
            false => Err(mismatch()),
        }
    }

    fn at_machine(&self, id: &ArmId, signed: Signed) -> Result<Place, Failure> {
        let what = "virtual machine";
        let machine = self.arm.machine(id).map_err(|why| about(why, id, what))?;
        self.check_principal(machine.resource.identity.as_ref(), signed, what)?;
        let scale_set = machine.scale_set().map(|set| set.name().to_owned());
        Ok(Place { location: machine.resource.location, scale_set, ..Place::of(id) })
    }

    fn at_scale_set(&self, id: &ArmId, signed: Signed) -> Result<Place, Failure> {
        let what = "virtual machine scale set";
        let found = self.arm.scale_set(id).map_err(|why| about(why, id, what))?;
        self.check_principal(found.identity.as_ref(), signed, what)?;
        Ok(Place { location: found.location, ..Place::of(id) })
    }

    fn at_other(&self, id: &ArmId, signed: Signed) -> Result<Place, Failure> {
        let found = self.arm.resource(id).map_err(|why| about(why, id, "resource"))?;
        self.check_principal(found.identity.as_ref(), signed, "resource")?;
        Ok(Place { location: found.location, ..Place::of(id) })
    }

    /// A machine that is named after a flexible scale set must be a part of it. Where it may not be
    /// read its name has to do: the principal is one of the scale set's own, as was found.
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

    /// The principal must be an identity of the resource: its own one, or, where the token was
    /// signed for the resource, one that was given to it.
    fn check_principal(
        &self,
        identity: Option<&ResourceIdentity>,
        signed: Signed,
        what: &str,
    ) -> Result<(), Failure> {
        let Some(identity) = identity else {
            return Err(Failure::invalid(format!("the {what} has no identity")));
        };
        if self.is_own(identity.principal_id.as_deref()) {
            return Ok(());
        }
        let given = identity.given.iter().flatten().take(MOST_IDENTITIES);
        for (id, known) in given.filter(|_| signed == Signed::Yes) {
            match known.as_ref().and_then(|known| known.principal_id.as_deref()) {
                Some(principal) if self.is_own(Some(principal)) => return Ok(()),
                Some(_) => {}
                None if self.is_given(id)? => return Ok(()),
                None => {}
            }
        }
        Err(Failure::invalid(format!(
            "token object id does not match expected identities of the {what}: {}",
            self.principal().oid
        )))
    }

    /// Whether the principal is that of the identity with that id, which the manager did not say.
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

    /// The place of an identity that is not asked for by a machine, such as one of a cluster's.
    fn at_identity(&self, ids: &Ids) -> Result<Place, Failure> {
        if let Some(id) = &ids.identity {
            return self.at_known_identity(id);
        }
        let Some(subscription) = self.stated.subscription.as_deref() else {
            return Err(Failure::invalid("subscription_id and resource_group_name are required"));
        };
        let app_id = self.app_id()?;
        for group in self.groups_to_search() {
            let is_wanted = |found: &crate::arm::Identity| {
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
                return Ok(Place::of(&id));
            }
        }
        Err(unmatched())
    }

    /// The place of an identity whose id is known.
    fn at_known_identity(&self, id: &ArmId) -> Result<Place, Failure> {
        let app_id = self.app_id()?;
        let found = self.arm.identity(id).map_err(|why| about(why, id, "identity"))?;
        let is_app = found.client_id().is_some_and(|id| id.eq_ignore_ascii_case(app_id));
        match is_app && self.is_own(found.principal_id()) {
            true => Ok(Place::of(id)),
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

    /// The groups that the role binds, and the stated one where the role allows it.
    fn groups_to_search(&self) -> BTreeSet<String> {
        let bound = &self.role.bound_resource_groups;
        let stated = self.stated.group.iter();
        let stated = stated.filter(|_| bound.is_empty());
        let all = bound.iter().chain(stated).map(|group| group.to_ascii_lowercase());
        all.take(MOST_GROUPS).collect()
    }
}

/// Whether the token was signed for the resource.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Signed {
    Yes,
    /// It names no resource.
    No,
}

/// Whether the machine is in the scale set's group and has its name before a `_`, as the machines
/// of flexible scale sets do.
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
