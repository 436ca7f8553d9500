//! A compute instance as the provider knows it, and whether a role admits it.
//!
//! The attacks this file stops: the token of an instance that is gone, whose name another one has
//! now (the number counts, and when it was made), and one of an account that the instance does not
//! run as.

use crate::cloud::Cloud;
use crate::endpoints::Service;
use crate::instance_groups;
use crate::instance_identity::{InstanceIdentity, place_of};
use crate::role::Role;
use crate::service_account::ServiceAccount;
use bulkhead_sdk::Failure;
use bulkhead_sdk::explain::Constraints;
use bulkhead_sdk::provider::nonsense;
use bulkhead_sdk::wire::failure::quoted;
use serde::Deserialize;
use std::collections::BTreeMap;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// What an instance may be doing while it logs in.
const ALIVE: [&str; 3] = ["PROVISIONING", "RUNNING", "STAGING"];

/// What the provider says of an instance.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Instance {
    id: String,
    self_link: String,
    status: String,
    creation_timestamp: String,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    service_accounts: Vec<Attached>,
}

/// An account that an instance runs as.
#[derive(Clone, Debug, Deserialize)]
struct Attached {
    email: String,
}

impl Instance {
    /// The instance that an identity names, where it is that one.
    ///
    /// # Errors
    /// Invalid request where there is none, or another; unreachable where the provider, or its
    /// answer, is not as it should be.
    pub(crate) fn find(cloud: &Cloud<'_>, wanted: &InstanceIdentity) -> Result<Self, Failure> {
        let InstanceIdentity { project_id: project, zone, instance_name: name, .. } = wanted;
        let about = format!(
            "find instance (project {}, zone: {}, instance: {})",
            quoted(project),
            quoted(zone),
            quoted(name)
        );
        let path = ["projects", project, "zones", zone, "instances", name];
        let url = cloud.url(Service::Compute, &path)?;
        let found: Self = cloud.get(&url)?.map_err(|why| why.about(&about))?;
        found.check(wanted).map_err(|why| Failure {
            message: format!("error when attempting to {about}: {}", why.message),
            ..why
        })?;
        Ok(found)
    }

    fn check(&self, wanted: &InstanceIdentity) -> Result<(), Failure> {
        if place_of(&self.self_link) != Some(wanted.place()) {
            return Err(nonsense("it is about another instance than was asked for"));
        }
        if self.id != wanted.instance_id {
            return Err(Failure::invalid(
                "the instance of that name has another instance_id than the token says",
            ));
        }
        if !ALIVE.contains(&self.status.as_str()) {
            let status = quoted(&self.status);
            return Err(Failure::invalid(format!(
                "authenticating instance found but has invalid status {status}"
            )));
        }
        let made = OffsetDateTime::parse(&self.creation_timestamp, &Rfc3339)
            .map_err(|_| nonsense("its creationTimestamp is none"))?;
        if wanted.instance_creation_timestamp.saturating_add(1) < made.unix_timestamp() {
            return Err(Failure::invalid("the token is of an instance that was made before it"));
        }
        Ok(())
    }

    /// Whether it runs as the account.
    ///
    /// # Errors
    /// Invalid request.
    pub(crate) fn check_account(&self, account: &ServiceAccount) -> Result<(), Failure> {
        let email = &account.email;
        match self.service_accounts.iter().any(|attached| attached.email == *email) {
            true => Ok(()),
            false => Err(Failure::invalid(format!(
                "the instance does not run as service account {email}, whom the token is about"
            ))),
        }
    }
}

/// Refuses an instance of a project that the role is not bound to.
pub(crate) fn in_project(
    role: &Role,
    instance: &InstanceIdentity,
) -> Result<((), String), Failure> {
    let (bound, project) = (&role.bound_projects, &instance.project_id);
    if bound.is_empty() {
        return Ok(((), "the role is bound to no project".to_owned()));
    }
    if bound.contains(project) {
        return Ok(((), format!("the instance is of project {project}")));
    }
    let name = quoted(&instance.instance_name);
    let project = quoted(project);
    Err(Failure::invalid(format!("instance {name} (project {project}) not in bound projects")))
}

/// Holds an instance against a role, but for its project and its account.
///
/// # Errors
/// For a login, the first of the role's constraints that does not hold, or cannot be looked at.
pub(crate) fn admit(
    constraints: &mut Constraints,
    cloud: &Cloud<'_>,
    role: &Role,
    identity: &InstanceIdentity,
    instance: &Instance,
) -> Result<(), Failure> {
    constraints.hold("bound_labels", labelled(role, instance))?;
    if role.bound_zones.is_empty() {
        constraints.hold("bound_regions", in_region(role, identity))?;
    } else {
        constraints.hold("bound_zones", in_zone(role, identity))?;
    }
    let group = instance_groups::member(cloud, role, identity, &instance.self_link);
    constraints.hold("bound_instance_groups", group)?;
    Ok(())
}

fn labelled(role: &Role, instance: &Instance) -> Result<((), String), Failure> {
    let lacks = |(key, value): &(&String, &String)| instance.labels.get(*key) != Some(*value);
    match role.bound_labels.iter().find(lacks) {
        None => Ok(((), "the instance bears every label that the role asks for".to_owned())),
        Some((key, value)) => {
            let label = format!("{key}:{value}");
            Err(Failure::invalid(format!("instance missing bound label {}", quoted(&label))))
        }
    }
}

fn in_zone(role: &Role, identity: &InstanceIdentity) -> Result<((), String), Failure> {
    match role.bound_zones.contains(&identity.zone) {
        true => Ok(((), format!("the instance is in zone {}", identity.zone))),
        false => Err(Failure::invalid(format!(
            "instance not in bound zones: it is in {}",
            quoted(&identity.zone)
        ))),
    }
}

fn in_region(role: &Role, identity: &InstanceIdentity) -> Result<((), String), Failure> {
    if role.bound_regions.is_empty() {
        return Ok(((), "the role is bound to no zone and no region".to_owned()));
    }
    let region = identity.region();
    match role.bound_regions.iter().any(|bound| bound == region) {
        true => Ok(((), format!("the instance is in region {region}"))),
        false => Err(Failure::invalid(format!(
            "instance not in bound regions: it is in {}",
            quoted(region)
        ))),
    }
}
