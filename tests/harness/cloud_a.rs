//! Azure as hosts of a test's internet: the directory that signs tokens (`directory`), the resource
//! manager (`resources`) and Graph (`graph`). The hosts enforce the rules of the real services:
//! audiences, API versions, secrets that work only after a delay, published and unpublished keys.
//!
//! ```no_run
//! use bulkhead_tests::cloud_a::{CloudA, Machine};
//! use bulkhead_tests::internet::{Fault, Internet};
//!
//! let internet = Internet::start();
//! let azure = CloudA::on(&internet);
//! let application = azure.application(); // the identity of Bulkhead's mount in Azure
//! let vm = azure.add(Machine::vm("group", "vm1").in_location("westus2"));
//! let jwt = azure.token(&azure.claims(&vm)); // the machine's token
//! azure.rotate_keys("k2", true); // signs with k2; the old key stays published
//! internet.fail("management.azure.com", "/subscriptions", Fault::Status(500), 3);
//! # let _ = (application.client_id, application.secret, jwt);
//! ```

mod directory;
mod graph;
mod machine;
mod resources;

pub use machine::{Identity, Machine, ResourceKind};

use crate::internet::{Internet, Request, Response, held};
use crate::signer::Signer;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Hosts of one environment of Azure.
#[derive(Clone, Copy, Debug)]
pub struct Environment {
    /// Name of the environment in configurations.
    pub name: &'static str,
    /// Host of discovery, keys and tokens.
    pub login: &'static str,
    /// Host of the resource manager.
    pub arm: &'static str,
    /// Audiences of the resource manager's tokens.
    pub arm_audiences: &'static [&'static str],
    /// Host of Graph.
    pub graph: &'static str,
    /// The part of the issuer before the tenant.
    pub issuer: &'static str,
}

pub const ENVIRONMENTS: [Environment; 4] = [
    Environment {
        name: "AzurePublicCloud",
        login: "login.microsoftonline.com",
        arm: "management.azure.com",
        arm_audiences: &["https://management.azure.com", "https://management.core.windows.net"],
        graph: "graph.microsoft.com",
        issuer: "https://sts.windows.net/",
    },
    Environment {
        name: "AzureUSGovernmentCloud",
        login: "login.microsoftonline.us",
        arm: "management.usgovcloudapi.net",
        arm_audiences: &["https://management.core.usgovcloudapi.net"],
        graph: "graph.microsoft.us",
        issuer: "https://sts.windows.net/",
    },
    Environment {
        name: "AzureChinaCloud",
        login: "login.chinacloudapi.cn",
        arm: "management.chinacloudapi.cn",
        arm_audiences: &["https://management.core.chinacloudapi.cn"],
        graph: "microsoftgraph.chinacloudapi.cn",
        issuer: "https://sts.chinacloudapi.cn/",
    },
    Environment {
        name: "AzureGermanCloud",
        login: "login.microsoftonline.de",
        arm: "management.microsoftazure.de",
        arm_audiences: &["https://management.core.cloudapi.de"],
        graph: "graph.microsoft.de",
        issuer: "https://sts.microsoftonline.de/",
    },
];

/// Id of the only tenant.
pub const TENANT: &str = "7a1f0f3e-9b7c-4f35-8d1e-000000000001";
/// Subscription of machines that name no other.
pub const SUBSCRIPTION: &str = "5b0c1a52-6d3e-4c0f-9a70-000000000002";
/// Audience of tokens for Bulkhead.
pub const AUDIENCE: &str = "https://management.azure.com/";

pub struct CloudA {
    pub environment: Environment,
    state: Mutex<TenantState>,
    numbers: AtomicU64,
}

#[derive(Default)]
struct TenantState {
    /// Signing key first; the others are only published.
    keys: Vec<Signer>,
    applications: BTreeMap<String, StoredApplication>,
    /// The resources, by id in lower case.
    resources: BTreeMap<String, Value>,
    /// Issued access tokens and their audiences.
    given: BTreeMap<String, AccessGrant>,
    /// Delay before a new secret works.
    propagation: Duration,
    /// Keys of assertions that are accepted in place of a secret, by issuer.
    federated: BTreeMap<String, FederatedCredential>,
}

struct AccessGrant {
    audience: String,
    until: Instant,
}

/// A federated credential of an application.
struct FederatedCredential {
    jwks: Value,
    subject: String,
    audience: String,
}

/// An application as the tenant stores it.
#[derive(Default)]
struct StoredApplication {
    object: String,
    secrets: Vec<Secret>,
}

struct Secret {
    key_id: String,
    display_name: String,
    text: String,
    end: String,
    usable: Instant,
}

/// An application and its first secret.
#[derive(Clone, Debug)]
pub struct Application {
    pub client_id: String,
    pub secret: String,
}

impl CloudA {
    /// Serves the public cloud.
    pub fn on(internet: &Internet) -> Arc<Self> {
        Self::of(internet, ENVIRONMENTS[0])
    }

    /// Serves one environment.
    pub fn of(internet: &Internet, environment: Environment) -> Arc<Self> {
        let state = TenantState { keys: vec![Signer::new("k1")], ..TenantState::default() };
        let cloud =
            Arc::new(Self { environment, state: Mutex::new(state), numbers: AtomicU64::new(1) });
        type Handler = fn(&CloudA, &Request) -> Response;
        let sites: [(&str, Handler); 3] = [
            (environment.login, directory::answer),
            (environment.arm, resources::answer),
            (environment.graph, graph::answer),
        ];
        for (host, handler) in sites {
            let cloud = Arc::clone(&cloud);
            internet.serve(host, move |request| handler(&cloud, request));
        }
        cloud
    }

    /// Registers an application with a secret that works at once.
    pub fn application(&self) -> Application {
        let client_id = self.guid();
        let text = self.number("s3cret~A");
        let secret = Secret {
            key_id: self.guid(),
            display_name: "first".to_owned(),
            text: text.clone(),
            end: "2099-01-01T00:00:00Z".to_owned(),
            usable: Instant::now(),
        };
        let registered = StoredApplication { object: self.guid(), secrets: vec![secret] };
        held(&self.state).applications.insert(client_id.clone(), registered);
        Application { client_id, secret: text }
    }

    /// Returns the ids and texts of an application's secrets.
    pub fn secrets(&self, client_id: &str) -> Vec<(String, String)> {
        let state = held(&self.state);
        let found = state.applications.get(client_id).into_iter();
        let secrets = found.flat_map(|application| &application.secrets);
        secrets.map(|secret| (secret.display_name.clone(), secret.text.clone())).collect()
    }

    /// Sets the delay before secrets work that are added from now on.
    pub fn propagate_in(&self, time: Duration) {
        held(&self.state).propagation = time;
    }

    /// Accepts assertions of `issuer` in place of a secret, if a key of `jwks` signed them and
    /// subject and audience match.
    pub fn federate(&self, issuer: &str, jwks: &Value, subject: &str, audience: &str) {
        let federated = FederatedCredential {
            jwks: jwks.clone(),
            subject: subject.to_owned(),
            audience: audience.to_owned(),
        };
        held(&self.state).federated.insert(issuer.to_owned(), federated);
    }

    /// Accepts an access token that a machine's metadata service issued for this audience.
    pub fn give(&self, token: &str, audience: &str) {
        let until = Instant::now() + Duration::from_secs(3_600);
        let access = AccessGrant { audience: audience.to_owned(), until };
        held(&self.state).given.insert(token.to_owned(), access);
    }

    /// Revokes all issued access tokens.
    pub fn revoke_access(&self) {
        held(&self.state).given.clear();
    }

    pub fn signer(&self) -> Signer {
        held(&self.state).keys[0].clone()
    }

    /// Makes a new signing key. `keeps` leaves the old keys published.
    pub fn rotate_keys(&self, kid: &str, keeps: bool) {
        let key = Signer::new(kid);
        let mut state = held(&self.state);
        if !keeps {
            state.keys.clear();
        }
        state.keys.insert(0, key);
    }

    pub fn add(&self, machine: Machine) -> Machine {
        let mut state = held(&self.state);
        for (id, resource) in machine.resources() {
            state.resources.insert(id.to_ascii_lowercase(), resource);
        }
        machine
    }

    pub fn put(&self, id: &str, resource: Value) {
        held(&self.state).resources.insert(id.to_ascii_lowercase(), resource);
    }

    pub fn remove(&self, id: &str) {
        held(&self.state).resources.remove(&id.to_ascii_lowercase());
    }

    /// Returns the claims that the metadata service gives this machine for [`AUDIENCE`].
    pub fn claims(&self, machine: &Machine) -> Value {
        let now = now();
        let mut claims = json!({
            "aud": AUDIENCE, "iss": self.issuer(), "iat": now - 5, "nbf": now - 5,
            "exp": now + 3_600, "appid": machine.identity.client, "idtyp": "app",
            "oid": machine.identity.principal, "sub": machine.identity.principal, "tid": TENANT,
            "xms_mirid": machine.identity.resource.as_deref().unwrap_or(&machine.id),
            "ver": "1.0",
        });
        if machine.identity.resource.is_some() {
            claims["xms_az_rid"] = json!(machine.id);
        }
        claims
    }

    pub fn token(&self, claims: &Value) -> String {
        self.signer().token(claims)
    }

    pub fn issuer(&self) -> String {
        format!("{}{TENANT}/", self.environment.issuer)
    }

    /// Returns a refusal if the bearer token is unknown or not for one of `audiences`.
    fn check_bearer(&self, request: &Request, audiences: &[&str]) -> Result<(), Response> {
        let state = held(&self.state);
        let access = request.bearer().and_then(|token| state.given.get(token));
        let is_for = |access: &AccessGrant| {
            let audience = access.audience.trim_end_matches('/');
            access.until > Instant::now() && audiences.contains(&audience)
        };
        match access {
            Some(access) if is_for(access) => Ok(()),
            Some(_) => Err(error(401, "InvalidAuthenticationToken", "wrong audience or expired")),
            None => Err(error(401, "AuthenticationFailed", "Authentication failed.")),
        }
    }

    fn guid(&self) -> String {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        format!("0f8fad5b-d9cb-469f-a165-{number:012x}")
    }

    fn number(&self, before: &str) -> String {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        format!("{before}{number:08x}Zq9xW7kJ4vB2nR")
    }
}

/// An error in the form of the resource manager and Graph.
fn error(status: u16, code: &str, message: &str) -> Response {
    Response::json(status, &json!({ "error": { "code": code, "message": message } }))
}

pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970").as_secs()
}

#[cfg(test)]
mod tests;
