//! IAM: service accounts and their keys.

use super::{Account, CloudB, error};
use crate::internet::message::decoded;
use crate::internet::{Request, Response, held};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// Maximum number of keys of an account.
const KEYS: usize = 10;

pub(super) fn answer(cloud: &CloudB, request: &Request) -> Response {
    if let Err(refused) = cloud.check_bearer(request) {
        return refused;
    }
    let path = decoded(&request.path);
    let parts: Vec<&str> = path.split('/').skip(1).collect();
    let ["v1", "projects", project, "serviceAccounts", name, rest @ ..] = parts.as_slice() else {
        return error(404, "NOT_FOUND", "no such method");
    };
    let Some(account) = find(cloud, project, name) else {
        return error(404, "NOT_FOUND", &format!("Unknown service account {name}"));
    };
    match (request.method.as_str(), rest) {
        ("GET", []) => Response::json(200, &shown(&account)),
        ("GET", ["keys"]) => {
            let named = |kid: &String| {
                let creation_time = cloud.made(&account.email, kid);
                json!({ "name": key_name(&account, kid), "validAfterTime": creation_time })
            };
            let all: Vec<Value> = cloud.keys(&account.email).iter().map(named).collect();
            Response::json(200, &json!({ "keys": all }))
        }
        ("POST", ["keys"]) => create(cloud, request, &account),
        ("DELETE", ["keys", kid]) => delete(cloud, &account, kid),
        _ => error(404, "NOT_FOUND", "no such method"),
    }
}

fn find(cloud: &CloudB, project: &str, name: &str) -> Option<Account> {
    let state = held(&cloud.state);
    let is_meant = |it: &&Account| {
        (it.email == name || it.unique_id == name) && (project == "-" || it.project == project)
    };
    state.accounts.values().find(is_meant).cloned()
}

fn shown(account: &Account) -> Value {
    let Account { email, unique_id, project, disabled, .. } = account;
    json!({
        "name": format!("projects/{project}/serviceAccounts/{email}"), "projectId": project,
        "uniqueId": unique_id, "email": email, "oauth2ClientId": unique_id, "disabled": disabled,
        "etag": "MDEwMjE5MjA=",
    })
}

fn key_name(account: &Account, kid: &str) -> String {
    format!("projects/{}/serviceAccounts/{}/keys/{kid}", account.project, account.email)
}

fn create(cloud: &CloudB, request: &Request, account: &Account) -> Response {
    let body = request.json();
    let kind = body["privateKeyType"].as_str().unwrap_or("TYPE_GOOGLE_CREDENTIALS_FILE");
    if kind != "TYPE_GOOGLE_CREDENTIALS_FILE" {
        return error(400, "INVALID_ARGUMENT", "privateKeyType is not supported");
    }
    if account.keys.len() >= KEYS {
        return error(429, "RESOURCE_EXHAUSTED", "Maximum number of keys on account reached.");
    }
    let propagation = held(&cloud.state).propagation;
    let Some(key) = cloud.new_key(&account.email, propagation) else {
        return error(404, "NOT_FOUND", "Unknown service account");
    };
    let kid = key["private_key_id"].as_str().unwrap_or_default();
    Response::json(
        200,
        &json!({
            "name": key_name(account, kid), "privateKeyType": kind,
            "privateKeyData": STANDARD.encode(key.to_string()),
            "keyAlgorithm": "KEY_ALG_RSA_2048", "keyOrigin": "GOOGLE_PROVIDED",
            "validAfterTime": cloud.made(&account.email, kid),
            "validBeforeTime": "9999-12-31T23:59:59Z",
        }),
    )
}

fn delete(cloud: &CloudB, account: &Account, kid: &str) -> Response {
    match cloud.end_key(&account.email, kid) {
        true => Response::json(200, &json!({})),
        false => error(404, "NOT_FOUND", &format!("Service account key {kid} does not exist.")),
    }
}
