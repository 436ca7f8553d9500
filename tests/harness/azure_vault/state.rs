//! Applications, access tokens and the key of the vault, and its answers. Statuses and codes of
//! refusals are those of Azure, because the component of the seal reads both.

use crate::internet::{Request, Response};
use crate::key_service::ServiceState;
use aws_lc_rs::rand;
use aws_lc_rs::rsa::{
    KeySize, OAEP_SHA256_MGF1SHA256, OaepPrivateDecryptingKey, OaepPublicEncryptingKey,
    PrivateDecryptingKey,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Name of the key.
pub const KEY: &str = "unseal";
/// Directory of the applications.
pub const TENANT: &str = "46646709-b63e-4747-be42-516edeaf1e14";

const SCOPE: &str = "https://vault.azure.net/.default";

/// A refusal: status, code, and code of the inner error.
type Refusal = (u16, &'static str, &'static str);

/// An application with its secret.
#[derive(Clone, Debug)]
pub struct Application {
    pub client_id: String,
    pub client_secret: String,
}

/// Applications, tokens and the versions of the key.
pub struct VaultState {
    registrations: BTreeMap<String, Registration>,
    /// Ids of applications by access token.
    tokens: BTreeMap<String, String>,
    versions: Vec<KeyVersion>,
}

impl Default for VaultState {
    fn default() -> Self {
        let (registrations, tokens) = (BTreeMap::new(), BTreeMap::new());
        let mut state = Self { registrations, tokens, versions: Vec::new() };
        state.rotate();
        state
    }
}

pub(super) struct Registration {
    secret: String,
    pub(super) is_expired: bool,
    /// Operations without a right.
    pub(super) denied: BTreeSet<String>,
}

pub(super) struct KeyVersion {
    id: String,
    key: PrivateDecryptingKey,
    pub(super) is_enabled: bool,
    pub(super) is_lost: bool,
}

impl VaultState {
    pub(super) fn register(&mut self) -> Application {
        let number = self.registrations.len() + 1;
        let client_id = format!("03dc33fc-16d9-4b77-8152-{number:012}");
        let client_secret = format!("8Q~{}", random_text());
        let registration = Registration {
            secret: client_secret.clone(),
            is_expired: false,
            denied: BTreeSet::new(),
        };
        self.registrations.insert(client_id.clone(), registration);
        Application { client_id, client_secret }
    }

    pub(super) fn registration(&mut self, application: &Application) -> &mut Registration {
        self.registrations.get_mut(&application.client_id).expect("an application")
    }

    pub(super) fn rotate(&mut self) {
        let key = PrivateDecryptingKey::generate(KeySize::Rsa2048).expect("an RSA key");
        let id = format!("{:032x}", self.versions.len() + 1);
        self.versions.push(KeyVersion { id, key, is_enabled: true, is_lost: false });
    }

    pub(super) fn version(&mut self, number: usize) -> &mut KeyVersion {
        self.versions.get_mut(number - 1).expect("a version of the key")
    }

    /// Answers `POST /<tenant>/oauth2/v2.0/token`.
    fn token(&mut self, request: &Request) -> Response {
        let refused = |status: u16, error: &str, code: &str| {
            let body = json!({ "error": error, "error_description": format!("{code}: refused.") });
            Response::json(status, &body)
        };
        let field = |name: &str| request.form(name).unwrap_or_default();
        if !request.path.starts_with(&format!("/{TENANT}/")) {
            return refused(400, "invalid_request", "AADSTS90002");
        }
        if field("grant_type") != "client_credentials" {
            return refused(400, "unsupported_grant_type", "AADSTS70003");
        }
        if field("scope") != SCOPE {
            return refused(400, "invalid_resource", "AADSTS500011");
        }
        let client_id = field("client_id");
        let Some(registration) = self.registrations.get(&client_id) else {
            return refused(400, "unauthorized_client", "AADSTS700016");
        };
        if registration.secret != field("client_secret") {
            return refused(401, "invalid_client", "AADSTS7000215");
        }
        if registration.is_expired {
            return refused(401, "invalid_client", "AADSTS7000222");
        }
        let token = format!("eyJ0eXAi.{}", random_text());
        self.tokens.insert(token.clone(), client_id);
        let body = json!({ "access_token": token, "expires_in": 3_599, "token_type": "Bearer" });
        Response::json(200, &body)
    }

    fn answered(&self, request: &Request) -> Result<Response, Refusal> {
        const UNKNOWN: Refusal = (401, "Unauthorized", "");
        let token = request.bearer().ok_or(UNKNOWN)?;
        let registration = self.tokens.get(token).and_then(|id| self.registrations.get(id));
        let registration = registration.ok_or(UNKNOWN)?;
        if request.query("api-version").as_deref() != Some("7.4") {
            return Err((400, "BadParameter", ""));
        }
        let parts: Vec<&str> = request.path.split('/').skip(1).collect();
        let (name, version, operation) = match (request.method.as_str(), &parts[..]) {
            ("GET", ["keys", name]) => (*name, None, "get"),
            ("POST", ["keys", name, version, operation @ ("wrapkey" | "unwrapkey")]) => {
                (*name, Some(*version), *operation)
            }
            _ => return Err((404, "NotFound", "")),
        };
        if registration.denied.contains(operation) {
            return Err((403, "Forbidden", "ForbiddenByRbac"));
        }
        const MISSING: Refusal = (404, "KeyNotFound", "");
        let is_usable = |found: &&KeyVersion| !found.is_lost && name == KEY;
        let newest = || self.versions.iter().rfind(is_usable);
        let found = match version {
            None => newest(),
            Some(id) => self.versions.iter().filter(is_usable).find(|version| version.id == id),
        };
        let found = found.ok_or(MISSING)?;
        let kid = format!("https://kv.vault.azure.net/keys/{KEY}/{}", found.id);
        if operation == "get" {
            let key = json!({ "kid": kid, "kty": "RSA", "key_ops": ["wrapKey", "unwrapKey"] });
            let attributes = json!({ "enabled": found.is_enabled });
            return Ok(Response::json(200, &json!({ "key": key, "attributes": attributes })));
        }
        if !found.is_enabled {
            return Err((403, "Forbidden", "KeyDisabled"));
        }
        let value = found.convert(operation, &request.json()).ok_or((400, "BadParameter", ""))?;
        Ok(Response::json(200, &json!({ "kid": kid, "value": value })))
    }
}

impl KeyVersion {
    /// Wraps or unwraps the value of a request by RSA-OAEP-256.
    fn convert(&self, operation: &str, body: &Value) -> Option<String> {
        let bytes = URL_SAFE_NO_PAD.decode(body["value"].as_str()?).ok()?;
        if body["alg"] != "RSA-OAEP-256" {
            return None;
        }
        let mut converted = vec![0; 512];
        let converted = if operation == "wrapkey" {
            let public = OaepPublicEncryptingKey::new(self.key.public_key()).ok()?;
            public.encrypt(&OAEP_SHA256_MGF1SHA256, &bytes, &mut converted, None).ok()?
        } else {
            let private = OaepPrivateDecryptingKey::new(self.key.clone()).ok()?;
            private.decrypt(&OAEP_SHA256_MGF1SHA256, &bytes, &mut converted, None).ok()?
        };
        Some(URL_SAFE_NO_PAD.encode(converted))
    }
}

impl ServiceState for VaultState {
    fn answer(&mut self, request: &Request) -> Response {
        if request.path.ends_with("/oauth2/v2.0/token") {
            return self.token(request);
        }
        self.answered(request).unwrap_or_else(|(status, code, inner)| {
            let error = json!({ "code": code, "message": "", "innererror": { "code": inner } });
            Response::json(status, &json!({ "error": error }))
        })
    }

    /// Returns `/token`, `/get`, `/wrapkey` or `/unwrapkey`.
    fn fault_path(request: &Request) -> String {
        match (request.method.as_str(), request.path.rsplit_once('/')) {
            ("POST", Some((_, operation))) => format!("/{operation}"),
            _ => "/get".to_owned(),
        }
    }
}

fn random_text() -> String {
    let mut bytes = [0; 24];
    rand::fill(&mut bytes).expect("random bytes");
    URL_SAFE_NO_PAD.encode(bytes)
}
