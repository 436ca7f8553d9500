//! Compute instances as returned by the provider, and the role's checks on them.
//!
//! This file prevents two attacks: a token of a deleted instance whose name another instance now
//! has (number and creation time are compared), and a token of an account that is not attached to
//! the instance.

use crate::cloud::CloudClient;
use crate::endpoints::CloudService;
use crate::instance_groups;
use crate::instance_identity::{InstanceIdentity, place_of};
use crate::role::Role;
use crate::service_account::ServiceAccount;
use bulkhead_sdk::Failure;
use bulkhead_sdk::explain::LoginConstraints;
use bulkhead_sdk::provider::nonsense;
use bulkhead_sdk::wire::failure::quoted;
use serde::Deserialize;
use std::collections::BTreeMap;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// States in which an instance may log in.
const ALIVE: [&str; 3] = ["PROVISIONING", "RUNNING", "STAGING"];

/// The provider's data about an instance.
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
    service_accounts: Vec<AttachedAccount>,
}

/// An account attached to an instance.
#[derive(Clone, Debug, Deserialize)]
struct AttachedAccount {
    email: String,
}

impl Instance {
    /// Fetches the instance named by an identity and checks that it is the same instance.
    ///
    /// # Errors
    /// Invalid request if there is no such instance or another instance has the name; unreachable
    /// if the provider or its answer is faulty.
    pub(crate) fn find(
        cloud: &CloudClient<'_>,
        wanted: &InstanceIdentity,
    ) -> Result<Self, Failure> {
        let InstanceIdentity { project_id: project, zone, instance_name: name, .. } = wanted;
        let about = format!(
            "find instance (project {}, zone: {}, instance: {})",
            quoted(project),
            quoted(zone),
            quoted(name)
        );
        let path = ["projects", project, "zones", zone, "instances", name];
        let url = cloud.url(CloudService::Compute, &path)?;
        let found: Self = cloud.get(&url)?.map_err(|why| why.about(&about))?;
        found.check(wanted).map_err(|why| Failure {
            message: format!("error when attempting to {about}: {}", why.message),
            ..why
        })?;
        Ok(found)
    }

    fn check(&self, wanted: &InstanceIdentity) -> Result<(), Failure> {
        if place_of(&self.self_link) != Some(wanted.place()) {
            return Err(nonsense("the answer is about another instance"));
        }
        if self.id != wanted.instance_id {
            return Err(Failure::invalid(
                "the instance has another instance_id than the token says",
            ));
        }
        if !ALIVE.contains(&self.status.as_str()) {
            let status = quoted(&self.status);
            return Err(Failure::invalid(format!(
                "authenticating instance found but has invalid status {status}"
            )));
        }
        let creation_time = OffsetDateTime::parse(&self.creation_timestamp, &Rfc3339)
            .map_err(|_| nonsense("the instance's creationTimestamp is not a time"))?;
        if wanted.instance_creation_timestamp.saturating_add(1) < creation_time.unix_timestamp() {
            return Err(Failure::invalid("the token is of an earlier instance with the same name"));
        }
        Ok(())
    }

    /// Checks that the account is attached to the instance.
    ///
    /// # Errors
    /// Invalid request.
    pub(crate) fn check_account(&self, account: &ServiceAccount) -> Result<(), Failure> {
        let email = &account.email;
        match self.service_accounts.iter().any(|attached| attached.email == *email) {
            true => Ok(()),
            false => Err(Failure::invalid(format!(
                "the instance does not run as service account {email}, which the token names"
            ))),
        }
    }
}

/// Refuses an instance outside the role's bound projects.
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

/// Checks an instance against a role, except for project and account.
///
/// # Errors
/// For a login, the first constraint that fails or cannot be checked.
pub(crate) fn admit(
    constraints: &mut LoginConstraints,
    cloud: &CloudClient<'_>,
    role: &Role,
    identity: &InstanceIdentity,
    instance: &Instance,
) -> Result<(), Failure> {
    constraints.record("bound_labels", labelled(role, instance))?;
    if role.bound_zones.is_empty() {
        constraints.record("bound_regions", in_region(role, identity))?;
    } else {
        constraints.record("bound_zones", in_zone(role, identity))?;
    }
    let group = instance_groups::member(cloud, role, identity, &instance.self_link);
    constraints.record("bound_instance_groups", group)?;
    Ok(())
}

fn labelled(role: &Role, instance: &Instance) -> Result<((), String), Failure> {
    let lacks = |(key, value): &(&String, &String)| instance.labels.get(*key) != Some(*value);
    match role.bound_labels.iter().find(lacks) {
        None => Ok(((), "the instance bears all labels of the role".to_owned())),
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
            "instance not in bound zones: the instance is in {}",
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
            "instance not in bound regions: the instance is in {}",
            quoted(region)
        ))),
    }
}
