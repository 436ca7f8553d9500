//! Membership of an instance in the instance groups bound by a role.
//!
//! This file prevents two attacks: a group with the bound name in another region (each group is
//! queried only at the instance's own location), and a provider that returns an endless list of
//! pages.

use crate::cloud::CloudClient;
use crate::endpoints::CloudService;
use crate::instance_identity::{InstanceIdentity, place_of};
use crate::role::Role;
use bulkhead_sdk::Failure;
use bulkhead_sdk::provider::{ProviderUrl, nonsense};
use bulkhead_sdk::wire::failure::quoted;
use serde::Deserialize;
use serde_json::json;

/// Maximum number of pages of an answer. With the filter for 1 instance, all pages but 1 are empty.
const PAGES: usize = 10;

/// A page of a group's members.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MemberPage {
    #[serde(default)]
    items: Vec<GroupMember>,
    #[serde(default)]
    next_page_token: String,
}

#[derive(Deserialize)]
struct GroupMember {
    /// A link.
    instance: String,
}

/// Finds a bound group that contains the instance. The group is queried in the instance's zone if
/// this zone or its region is bound, and in the instance's region if the region is bound; groups
/// elsewhere cannot contain the instance.
///
/// # Errors
/// Invalid request if no bound group contains the instance; the failure to query the groups.
pub(crate) fn member(
    cloud: &CloudClient<'_>,
    role: &Role,
    instance: &InstanceIdentity,
    link: &str,
) -> Result<((), String), Failure> {
    if role.bound_instance_groups.is_empty() {
        return Ok(((), "the role is bound to no instance group".to_owned()));
    }
    for group in &role.bound_instance_groups {
        for location in locations(role, instance) {
            if holds(cloud, instance, location, group, link)? {
                let (kind, name) = location;
                return Ok(((), format!("the instance is in group {group} of {kind}/{name}")));
            }
        }
    }
    let groups: Vec<_> =
        role.bound_instance_groups.iter().map(|group| quoted(group).to_string()).collect();
    Err(Failure::invalid(format!("instance is not part of instance groups [{}]", groups.join(" "))))
}

/// Returns the locations, as kind and name, of groups that may contain the instance. Bound zones
/// take precedence over bound regions.
fn locations<'a>(
    role: &Role,
    instance: &'a InstanceIdentity,
) -> impl Iterator<Item = (&'static str, &'a str)> {
    let (zone, region) = (instance.zone.as_str(), instance.region());
    let is_in = |list: &[String], name: &str| list.iter().any(|bound| bound == name);
    let has_zones = !role.bound_zones.is_empty();
    let of_region = !has_zones && is_in(&role.bound_regions, region);
    let of_zone = of_region || is_in(&role.bound_zones, zone);
    let zonal = of_zone.then_some(("zones", zone));
    zonal.into_iter().chain(of_region.then_some(("regions", region)))
}

fn holds(
    cloud: &CloudClient<'_>,
    instance: &InstanceIdentity,
    (kind, location): (&str, &str),
    group: &str,
    link: &str,
) -> Result<bool, Failure> {
    let project = instance.project_id.as_str();
    let path = ["projects", project, kind, location, "instanceGroups", group, "listInstances"];
    let filter = format!("instance eq {link}");
    let listing = cloud.url(CloudService::Compute, &path)?.query("filter", &filter);
    let mut page_token = String::new();
    for _ in 0..PAGES {
        let Some(page) = page(cloud, &listing, &page_token, group)? else { return Ok(false) };
        // The provider's filter is not trusted; names are compared here.
        let wanted = instance.place();
        if page.items.iter().any(|item| place_of(&item.instance).as_ref() == Some(&wanted)) {
            return Ok(true);
        }
        page_token = page.next_page_token;
        if page_token.is_empty() {
            return Ok(false);
        }
    }
    Err(nonsense("a list of the members of an instance group does not end"))
}

/// Returns a page of a group's members, `None` if there is no such group.
fn page(
    cloud: &CloudClient<'_>,
    listing: &ProviderUrl,
    token: &str,
    group: &str,
) -> Result<Option<MemberPage>, Failure> {
    let url = match token {
        "" => listing.clone(),
        token => listing.clone().query("pageToken", token),
    };
    match cloud.ask(&url, &json!({}))? {
        Ok(page) => Ok(Some(page)),
        Err(why) if why.is(404) => Ok(None),
        Err(why) => Err(why.about(&format!("list the instances of group {}", quoted(group)))),
    }
}
