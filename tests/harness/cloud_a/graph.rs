//! Graph: applications and their secrets, which the directory checks.

use super::{CloudA, Secret, StoredApplication, error};
use crate::internet::{Request, Response, held};
use serde_json::{Value, json};
use std::time::Instant;

pub(super) fn answer(cloud: &CloudA, request: &Request) -> Response {
    let audience = format!("https://{}", cloud.environment.graph);
    if let Err(refused) = cloud.check_bearer(request, &[&audience]) {
        return refused;
    }
    let Some(path) = request.path.strip_prefix("/v1.0/applications") else {
        return error(404, "Request_ResourceNotFound", "no such resource");
    };
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    match (request.method.as_str(), parts.as_slice()) {
        ("GET", []) => find(cloud, request),
        ("GET", [object]) => changed(cloud, object, |application, client_id| {
            Response::json(200, &shown(application, client_id))
        }),
        ("POST", [object, "addPassword"]) => add(cloud, request, object),
        ("POST", [object, "removePassword"]) => remove(cloud, request, object),
        _ => error(404, "Request_ResourceNotFound", "no such resource"),
    }
}

/// Answers `$filter=appId eq '…'`.
fn find(cloud: &CloudA, request: &Request) -> Response {
    let filter = request.query("$filter").unwrap_or_default();
    let client_id = filter.strip_prefix("appId eq '").and_then(|rest| rest.strip_suffix('\''));
    let Some(client_id) = client_id.filter(|id| !id.contains('\'')) else {
        return error(400, "BadRequest", "Invalid filter clause");
    };
    let state = held(&cloud.state);
    let found: Vec<Value> = state
        .applications
        .get_key_value(client_id)
        .map(|(client_id, application)| shown(application, client_id))
        .into_iter()
        .collect();
    Response::json(200, &json!({ "value": found }))
}

fn add(cloud: &CloudA, request: &Request, object: &str) -> Response {
    let fields = request.json()["passwordCredential"].clone();
    let (key_id, text) = (cloud.guid(), cloud.number("s3cret~B"));
    let usable = Instant::now() + held(&cloud.state).propagation;
    changed(cloud, object, |application, _| {
        let word = |name: &str| fields[name].as_str().unwrap_or_default().to_owned();
        let secret = Secret {
            key_id,
            display_name: word("displayName"),
            text: text.clone(),
            end: word("endDateTime"),
            usable,
        };
        let mut answer = credential(&secret);
        answer["secretText"] = json!(text);
        application.secrets.push(secret);
        Response::json(200, &answer)
    })
}

fn remove(cloud: &CloudA, request: &Request, object: &str) -> Response {
    let key_id = request.json()["keyId"].as_str().unwrap_or_default().to_owned();
    changed(cloud, object, |application, _| {
        let before = application.secrets.len();
        application.secrets.retain(|secret| secret.key_id != key_id);
        match application.secrets.len() < before {
            true => Response::empty(204),
            false => error(400, "Request_BadRequest", "No password credential found with keyId."),
        }
    })
}

fn changed(
    cloud: &CloudA,
    object: &str,
    change: impl FnOnce(&mut StoredApplication, &str) -> Response,
) -> Response {
    let mut state = held(&cloud.state);
    let found = state.applications.iter_mut().find(|(_, application)| application.object == object);
    match found {
        Some((client_id, application)) => change(application, client_id),
        None => error(404, "Request_ResourceNotFound", "Resource does not exist."),
    }
}

fn shown(application: &StoredApplication, client_id: &str) -> Value {
    let secrets: Vec<Value> = application.secrets.iter().map(credential).collect();
    json!({ "id": application.object, "appId": client_id, "passwordCredentials": secrets })
}

/// A secret as listed, without its text.
fn credential(secret: &Secret) -> Value {
    json!({
        "keyId": secret.key_id, "displayName": secret.display_name,
        "hint": secret.text.get(..3), "startDateTime": "2024-01-01T00:00:00Z",
        "endDateTime": secret.end, "secretText": null,
    })
}
