//! Compute Engine: instances, and instance groups in zones and regions.

use super::{Account, CloudB, error, now};
use crate::internet::message::decoded;
use crate::internet::{Request, Response, held};
use serde_json::{Map, Value, json};

const BASE: &str = "https://www.googleapis.com/compute/v1";
/// Number of locations on one page of a list.
const PAGE: usize = 2;

#[derive(Clone, Debug)]
pub struct Instance {
    pub project: String,
    pub zone: String,
    pub name: String,
    pub id: u64,
    /// Email address of the instance's service account.
    pub email: String,
    /// Numeric id of the instance's service account.
    pub unique_id: String,
    labels: Map<String, Value>,
    status: String,
}

impl Instance {
    /// A running instance of `account`.
    pub fn new(project: &str, zone: &str, name: &str, account: &Account) -> Self {
        let fold = |sum: u64, byte: u8| sum.wrapping_mul(0x0100_0000_01b3) ^ u64::from(byte);
        let text = format!("{project}/{zone}/{name}");
        Self {
            project: project.to_owned(),
            zone: zone.to_owned(),
            name: name.to_owned(),
            id: text.bytes().fold(0xcbf2_9ce4_8422_2325, fold) >> 1,
            email: account.email.clone(),
            unique_id: account.unique_id.clone(),
            labels: Map::new(),
            status: "RUNNING".to_owned(),
        }
    }

    #[must_use]
    pub fn labelled(mut self, key: &str, value: &str) -> Self {
        self.labels.insert(key.to_owned(), json!(value));
        self
    }

    /// Sets the state, such as `TERMINATED`.
    #[must_use]
    pub fn in_state(mut self, status: &str) -> Self {
        status.clone_into(&mut self.status);
        self
    }

    /// Sets the id, for an instance that reuses a name.
    #[must_use]
    pub fn numbered(mut self, id: u64) -> Self {
        self.id = id;
        self
    }

    pub fn link(&self) -> String {
        let Self { project, zone, name, .. } = self;
        format!("{BASE}/projects/{project}/zones/{zone}/instances/{name}")
    }

    fn shown(&self) -> Value {
        json!({
            "id": self.id.to_string(), "name": self.name, "status": self.status,
            "zone": format!("{BASE}/projects/{}/zones/{}", self.project, self.zone),
            "selfLink": self.link(), "creationTimestamp": "2024-01-02T03:04:05.678-07:00",
            "labels": self.labels,
            "serviceAccounts": [{
                "email": self.email, "scopes": ["https://www.googleapis.com/auth/cloud-platform"],
            }],
        })
    }
}

impl CloudB {
    pub fn start_instance(&self, instance: Instance) -> Instance {
        let key = [instance.project.clone(), instance.zone.clone(), instance.name.clone()];
        held(&self.state).instances.insert(key, instance.shown());
        instance
    }

    pub fn remove_instance(&self, instance: &Instance) {
        let key = [instance.project.clone(), instance.zone.clone(), instance.name.clone()];
        held(&self.state).instances.remove(&key);
    }

    /// Creates a group of instances in a place such as `zones/us-east1-b` or `regions/us-east1`.
    pub fn group(&self, project: &str, place: &str, name: &str, members: &[&Instance]) {
        let key = [project, place, name].map(str::to_owned);
        let members = members.iter().map(|member| member.link()).collect();
        held(&self.state).groups.insert(key, members);
    }

    /// Returns the claims of an instance's identity token in the long form, for a role.
    pub fn identity(&self, instance: &Instance, role: &str) -> Value {
        let mut claims = self.short_identity(instance, role);
        claims["google"] = json!({ "compute_engine": {
            "project_id": instance.project, "project_number": 123_456, "zone": instance.zone,
            "instance_id": instance.id.to_string(), "instance_name": instance.name,
            "instance_creation_timestamp": 1_704_189_845,
        } });
        claims
    }

    /// Returns the claims in the short form, without facts about the instance.
    pub fn short_identity(&self, instance: &Instance, role: &str) -> Value {
        let now = now();
        json!({
            "iss": "https://accounts.google.com", "aud": format!("http://vault/{role}"),
            "azp": instance.unique_id, "sub": instance.unique_id, "email": instance.email,
            "email_verified": true, "iat": now - 5, "exp": now + 3_595,
        })
    }
}

pub(super) fn answer(cloud: &CloudB, request: &Request) -> Response {
    if let Err(refused) = cloud.check_bearer(request) {
        return refused;
    }
    let path = decoded(&request.path);
    let parts: Vec<&str> = path.split('/').skip(1).collect();
    let ["compute", "v1", "projects", project, rest @ ..] = parts.as_slice() else {
        return error(404, "NOT_FOUND", "no such method");
    };
    match (request.method.as_str(), rest) {
        ("GET", ["zones", zone, "instances", name]) => {
            let key = [*project, *zone, *name].map(str::to_owned);
            match held(&cloud.state).instances.get(&key) {
                Some(instance) => Response::json(200, instance),
                None => error(404, "NOT_FOUND", "The resource was not found"),
            }
        }
        ("GET", ["aggregated", "instanceGroups"]) => aggregated(cloud, request, project),
        (
            "POST",
            [kind @ ("zones" | "regions"), place, "instanceGroups", name, "listInstances"],
        ) => {
            let key = [(*project).to_owned(), format!("{kind}/{place}"), (*name).to_owned()];
            members(cloud, request, &key)
        }
        _ => error(404, "NOT_FOUND", "no such method"),
    }
}

/// Lists every group of a project, two places per page. A field mask without `nextPageToken` hides
/// that member, as in the real service.
fn aggregated(cloud: &CloudB, request: &Request, project: &str) -> Response {
    let state = held(&cloud.state);
    let mut places: Map<String, Value> = Map::new();
    places.insert(
        "zones/asia-east1-a".to_owned(),
        json!({ "warning": { "code": "NO_RESULTS_ON_PAGE" } }),
    );
    for [of, place, name] in state.groups.keys().filter(|[of, ..]| of == project) {
        let at = places.entry(place.clone()).or_insert_with(|| json!({ "instanceGroups": [] }));
        let link = format!("{BASE}/projects/{of}/{place}/instanceGroups/{name}");
        if let Some(groups) = at["instanceGroups"].as_array_mut() {
            groups.push(json!({ "name": name, "selfLink": link }));
        }
    }
    let skip = request.query("pageToken").and_then(|text| text.parse().ok()).unwrap_or(0);
    let more = places.len() > skip + PAGE;
    let page: Map<String, Value> = places.into_iter().skip(skip).take(PAGE).collect();
    let mut answer = json!({ "items": page });
    let mask = request.query("fields").unwrap_or_default();
    if more && (mask.is_empty() || mask.contains("nextPageToken")) {
        answer["nextPageToken"] = json!((skip + PAGE).to_string());
    }
    Response::json(200, &answer)
}

/// Lists the members of a group, or the member that a filter names.
fn members(cloud: &CloudB, request: &Request, key: &[String; 3]) -> Response {
    let state = held(&cloud.state);
    let Some(members) = state.groups.get(key) else {
        return error(404, "NOT_FOUND", "The resource was not found");
    };
    let filter = request.query("filter").unwrap_or_default();
    let wanted = filter.strip_prefix("instance eq ").map(|link| link.trim_matches('"'));
    let found: Vec<Value> = members
        .iter()
        .filter(|link| wanted.is_none_or(|wanted| wanted == *link))
        .map(|link| json!({ "instance": link, "status": "RUNNING" }))
        .collect();
    Response::json(
        200,
        &match found.is_empty() {
            true => json!({}),
            false => json!({ "items": found }),
        },
    )
}
