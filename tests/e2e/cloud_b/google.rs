//! Google as far as logins and a rotation need it: it signs identity tokens, publishes keys, and
//! serves accounts and instances to those who bring a token that a key of the method's account was
//! exchanged for.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bulkhead_tests::Internet;
use bulkhead_tests::internet::message::decoded;
use bulkhead_tests::internet::{Request, Response};
use bulkhead_tests::signer::Signer;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{SystemTime, UNIX_EPOCH};

pub(super) const OWN: &str = "bulkhead@home.iam.gserviceaccount.com";
pub(super) const EMAIL: &str = "app@p1.iam.gserviceaccount.com";
pub(super) const ID: &str = "112233445566778899001";
pub(super) const INSTANCE: &str = "1234567890123456789";
const LINK: &str =
    "https://www.googleapis.com/compute/v1/projects/p1/zones/us-east1-b/instances/i1";

/// What tests change.
pub(super) struct State {
    /// The keys of the method's own account, by their names.
    pub(super) keys: BTreeMap<String, Signer>,
    pub(super) is_disabled: bool,
    pub(super) labels: Value,
    pub(super) has_member: bool,
}

/// The provider, and who signs.
pub(super) struct Google {
    pub(super) internet: Internet,
    /// Signs identity tokens.
    pub(super) provider: Signer,
    /// A key of the account that logs in.
    pub(super) account: Signer,
    state: Arc<Mutex<State>>,
}

/// Seconds since 1970.
pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs()
}

impl Google {
    pub(super) fn start() -> Self {
        let (internet, provider, account) =
            (Internet::start(), Signer::new("g1"), Signer::new("s1"));
        let keys = BTreeMap::from([("k1".to_owned(), Signer::new("k1"))]);
        let (labels, has_member) = (json!({"team": "blue"}), true);
        let state = State { keys, is_disabled: false, labels, has_member };
        let google = Self { internet, provider, account, state: Arc::new(Mutex::new(state)) };
        google.publish();
        let state = Arc::clone(&google.state);
        google.internet.serve("oauth2.googleapis.com", move |asked| exchange(&state, asked));
        let state = Arc::clone(&google.state);
        google.internet.serve("iam.googleapis.com", move |asked| iam(&state, asked));
        let state = Arc::clone(&google.state);
        google.internet.serve("compute.googleapis.com", move |asked| compute(&state, asked));
        google
    }

    /// The keys that tokens are signed by.
    fn publish(&self) {
        let provider = json!({ "g1": self.provider.certificate() });
        let account = json!({ "s1": self.account.certificate() });
        self.internet.serve("www.googleapis.com", move |asked| {
            let x509 = "/service_accounts/v1/metadata/x509/";
            match decoded(&asked.path).strip_prefix(x509) {
                None if asked.path == "/oauth2/v1/certs" => Response::json(200, &provider),
                Some(name) if [EMAIL, ID].contains(&name) => Response::json(200, &account),
                _ => refused(404, "NOT_FOUND"),
            }
        });
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no test failed with it")
    }

    /// The file of the key that the method is configured with.
    pub(super) fn credentials(&self) -> String {
        key_file(&self.state().keys["k1"]).to_string()
    }

    /// What the account signs, with other claims besides.
    pub(super) fn of_account(&self, change: &Value) -> String {
        let claims = json!({"sub": EMAIL, "aud": "vault/dev", "exp": now() + 600});
        self.account.token(&changed(claims, change))
    }

    /// What the provider signs for the instance, with other claims besides.
    pub(super) fn of_instance(&self, change: &Value) -> String {
        self.provider.token(&identity(change))
    }
}

/// What the provider says of the instance in a token, with other claims besides.
pub(super) fn identity(change: &Value) -> Value {
    let instance = json!({
        "project_id": "p1", "project_number": 123_456, "zone": "us-east1-b",
        "instance_id": INSTANCE, "instance_name": "i1",
        "instance_creation_timestamp": 1_704_190_000,
    });
    let claims = json!({
        "iss": "https://accounts.google.com", "aud": "http://vault/vm", "azp": ID, "sub": ID,
        "email": EMAIL, "email_verified": true, "iat": now(), "exp": now() + 3_600,
        "google": {"compute_engine": instance},
    });
    changed(claims, change)
}

fn changed(mut claims: Value, change: &Value) -> Value {
    for (name, value) in change.as_object().expect("an object") {
        claims[name] = value.clone();
    }
    claims
}

fn key_file(key: &Signer) -> Value {
    json!({
        "type": "service_account", "client_email": OWN, "client_id": "1", "project_id": "home",
        "private_key_id": key.kid, "private_key": key.private_pem(),
    })
}

fn refused(status: u16, word: &str) -> Response {
    let error = json!({"code": status, "message": "no", "status": word});
    Response::json(status, &json!({ "error": error }))
}

fn locked(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().expect("no site failed with it")
}

/// An access token for what one of the account's keys signed.
fn exchange(state: &Mutex<State>, asked: &Request) -> Response {
    let assertion = asked.form("assertion").unwrap_or_default();
    let claims = locked(state).keys.values().find_map(|key| key.claims(&assertion));
    let is_sound = |claims: &Value| {
        claims["iss"] == OWN && claims["aud"] == "https://oauth2.googleapis.com/token"
    };
    match claims.filter(is_sound) {
        Some(_) => Response::json(200, &json!({"access_token": "t-own", "expires_in": 3599})),
        None => Response::json(400, &json!({"error": "invalid_grant"})),
    }
}

fn iam(state: &Mutex<State>, asked: &Request) -> Response {
    if asked.bearer() != Some("t-own") {
        return refused(401, "UNAUTHENTICATED");
    }
    let path = decoded(&asked.path);
    let name = path.strip_prefix("/v1/projects/-/serviceAccounts/").unwrap_or_default();
    let mut state = locked(state);
    if let Some(rest) = name.strip_prefix(OWN).and_then(|rest| rest.strip_prefix("/keys")) {
        return keys(&mut state, asked.method.as_str(), rest.trim_start_matches('/'));
    }
    match [EMAIL, ID].contains(&name) {
        true => Response::json(
            200,
            &json!({
                "projectId": "p1", "uniqueId": ID, "email": EMAIL, "disabled": state.is_disabled,
            }),
        ),
        false => refused(404, "NOT_FOUND"),
    }
}

fn keys(state: &mut State, method: &str, name: &str) -> Response {
    let full = |name: &str| format!("projects/home/serviceAccounts/{OWN}/keys/{name}");
    match method {
        "GET" => {
            let all: Vec<Value> =
                state.keys.keys().map(|name| json!({ "name": full(name) })).collect();
            Response::json(200, &json!({ "keys": all }))
        }
        "POST" => {
            let key = Signer::new(&format!("k{}", state.keys.len() + 1));
            let file = STANDARD.encode(key_file(&key).to_string());
            let made = json!({"name": full(&key.kid), "privateKeyData": file});
            state.keys.insert(key.kid.clone(), key);
            Response::json(200, &made)
        }
        _ => match state.keys.remove(name) {
            Some(_) => Response::json(200, &json!({})),
            None => refused(404, "NOT_FOUND"),
        },
    }
}

fn compute(state: &Mutex<State>, asked: &Request) -> Response {
    if asked.bearer() != Some("t-own") {
        return refused(401, "UNAUTHENTICATED");
    }
    let state = locked(state);
    match asked.path.strip_prefix("/compute/v1/projects/p1/").unwrap_or_default() {
        "zones/us-east1-b/instances/i1" => Response::json(
            200,
            &json!({
                "id": INSTANCE, "selfLink": LINK, "status": "RUNNING", "labels": state.labels,
                "creationTimestamp": "2024-01-02T02:06:40.678-08:00",
                "serviceAccounts": [{ "email": EMAIL }],
            }),
        ),
        "regions/us-east1/instanceGroups/web/listInstances" if state.has_member => {
            Response::json(200, &json!({"items": [{ "instance": LINK }]}))
        }
        "regions/us-east1/instanceGroups/web/listInstances" => Response::json(200, &json!({})),
        _ => refused(404, "NOT_FOUND"),
    }
}
