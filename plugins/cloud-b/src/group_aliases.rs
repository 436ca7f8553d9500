//! External groups of a login if its role asks for groups: a group for the project, for each folder
//! above the project, and for the organization.

use crate::cloud::CloudClient;
use crate::endpoints::CloudService;
use crate::role::Role;
use bulkhead_sdk::Failure;
use bulkhead_sdk::provider::nonsense;
use bulkhead_sdk::wire::failure::quoted;
use serde::Deserialize;
use serde_json::json;

/// Maximum number of groups; a project can be 10 folders deep.
const MOST: usize = 32;

#[derive(Deserialize)]
struct ProjectAncestry {
    ancestor: Vec<ProjectAncestor>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ProjectAncestor {
    resource_id: ResourceId,
}

#[derive(Deserialize)]
struct ResourceId {
    #[serde(rename = "type")]
    kind: String,
    id: String,
}

/// Returns the groups of a login to `role` from `project`; none unless the role asks for groups.
///
/// # Errors
/// As [`of_project`].
pub(crate) fn of_login(
    cloud: &CloudClient<'_>,
    role: &Role,
    project: &str,
) -> Result<Vec<String>, Failure> {
    if role.add_group_aliases { of_project(cloud, project) } else { Ok(Vec::new()) }
}

/// Returns `project-<id>`, `folder-<id>` and `organization-<id>` for a project, the project first.
///
/// # Errors
/// The failure to fetch the ancestry; unreachable if the answer is about another project.
fn of_project(cloud: &CloudClient<'_>, project: &str) -> Result<Vec<String>, Failure> {
    let url = cloud.url(CloudService::Crm, &["v1", "projects", project])?.verb("getAncestry");
    let shown = quoted(project);
    let ancestry: ProjectAncestry = cloud
        .ask(&url, &json!({}))?
        .map_err(|why| why.about(&format!("find the ancestors of project {shown}")))?;
    let ids = ancestry.ancestor.into_iter().map(|ancestor| ancestor.resource_id);
    let ids: Vec<ResourceId> = ids.take(MOST).collect();
    match ids.first() {
        Some(first) if first.kind == "project" && first.id == project => {}
        _ => return Err(nonsense("the ancestry does not begin with the project itself")),
    }
    ids.iter().map(alias).collect()
}

fn alias(of: &ResourceId) -> Result<String, Failure> {
    let ResourceId { kind, id } = of;
    let is_known = ["project", "folder", "organization"].contains(&kind.as_str());
    match is_known && !id.is_empty() {
        true => Ok(format!("{kind}-{id}")),
        false => Err(nonsense("an ancestor is of an unknown kind, or has no id")),
    }
}
