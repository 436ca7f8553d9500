//! The resource manager: machines, scale sets, identities and any other resource, by id.

use super::{CloudA, error};
use crate::internet::message::decoded;
use crate::internet::{Request, Response, held};
use serde_json::{Value, json};

/// API version that a request must name, by kind of resource.
const COMPUTE: &str = "2023-07-01";
const IDENTITY: &str = "2023-01-31";
const PROVIDERS: &str = "2021-04-01";
const OTHERS: [&str; 2] = ["2022-08-01", "2022-03-01"];
/// Number of entries on one page of a list.
const PAGE: usize = 2;

pub(super) fn answer(cloud: &CloudA, request: &Request) -> Response {
    if let Err(refused) = cloud.check_bearer(request, cloud.environment.arm_audiences) {
        return refused;
    }
    let Some(version) = request.query("api-version") else {
        return error(400, "MissingApiVersionParameter", "The api-version parameter is required.");
    };
    if request.method != "GET" {
        return error(405, "MethodNotAllowed", "The method is not allowed.");
    }
    let path = decoded(&request.path).to_ascii_lowercase();
    if path.split('/').any(|part| part == "." || part == "..") {
        return error(400, "InvalidResourceId", "The resource id is not normalised.");
    }
    let parts: Vec<&str> = path.split('/').skip(1).collect();
    match parts.as_slice() {
        ["subscriptions", _, "providers", namespace] => provider(namespace, &version),
        [.., "providers", namespace, kind] => {
            let wanted = [IDENTITY];
            check_version(&version, &wanted, || list(cloud, request, &path, namespace, kind))
        }
        [.., "providers", namespace, _, _] => {
            let versions: &[&str] = match *namespace {
                "microsoft.compute" => &[COMPUTE],
                "microsoft.managedidentity" => &[IDENTITY],
                _ => &OTHERS,
            };
            check_version(&version, versions, || get(cloud, &path))
        }
        _ => check_version(&version, &OTHERS, || get(cloud, &path)),
    }
}

fn check_version(version: &str, versions: &[&str], answer: impl FnOnce() -> Response) -> Response {
    match versions.contains(&version) {
        true => answer(),
        false => error(
            400,
            "InvalidApiVersionParameter",
            &format!("The api-version '{version}' is invalid."),
        ),
    }
}

fn get(cloud: &CloudA, path: &str) -> Response {
    match held(&cloud.state).resources.get(path) {
        Some(resource) => Response::json(200, resource),
        None => error(404, "ResourceNotFound", "The resource was not found."),
    }
}

/// Lists the direct children of a collection, page by page.
fn list(cloud: &CloudA, request: &Request, path: &str, namespace: &str, kind: &str) -> Response {
    if (namespace, kind) != ("microsoft.managedidentity", "userassignedidentities") {
        return error(404, "InvalidResourceType", "The resource type could not be found.");
    }
    let below = format!("{path}/");
    let all: Vec<Value> = held(&cloud.state)
        .resources
        .iter()
        .filter(|(id, _)| id.strip_prefix(&below).is_some_and(|name| !name.contains('/')))
        .map(|(_, resource)| resource.clone())
        .collect();
    let skip = request.query("$skiptoken").and_then(|text| text.parse().ok()).unwrap_or(0);
    let page: Vec<&Value> = all.iter().skip(skip).take(PAGE).collect();
    let mut answer = json!({ "value": page });
    if all.len() > skip + PAGE {
        let next = format!(
            "https://{}{}?api-version={IDENTITY}&$skiptoken={}",
            cloud.environment.arm,
            request.path,
            skip + PAGE
        );
        answer["nextLink"] = json!(next);
    }
    Response::json(200, &answer)
}

fn provider(namespace: &str, version: &str) -> Response {
    if version != PROVIDERS {
        return error(400, "InvalidApiVersionParameter", "The api-version is invalid.");
    }
    let kinds: &[&str] = match namespace {
        "microsoft.web" => &["sites", "serverfarms"],
        "microsoft.containerinstance" => &["containerGroups"],
        "microsoft.containerservice" => &["managedClusters"],
        _ => return error(404, "InvalidResourceNamespace", "The namespace is invalid."),
    };
    let versions = ["2022-11-01-preview", OTHERS[0], OTHERS[1]];
    let kinds: Vec<Value> =
        kinds.iter().map(|kind| json!({ "resourceType": kind, "apiVersions": versions })).collect();
    Response::json(200, &json!({ "namespace": namespace, "resourceTypes": kinds }))
}
