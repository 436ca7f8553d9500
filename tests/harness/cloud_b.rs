//! Google Cloud as hosts of a test's internet: published certificates, the token endpoints, IAM
//! (`accounts`), Compute Engine (`compute`) and the resource manager. The hosts enforce the rules
//! of the real services: bearer tokens, keys that work only after a delay, at most ten keys for an
//! account, disabled accounts.
//!
//! ```no_run
//! use bulkhead_tests::cloud_b::{CloudB, Instance};
//! use bulkhead_tests::internet::Internet;
//!
//! let internet = Internet::start();
//! let google = CloudB::on(&internet);
//! let own = google.account("vault", "host-project"); // the account of Bulkhead's mount
//! let credentials = google.credentials(&own.email); // the JSON of a new key of the account
//! let caller = google.account("app", "shop");
//! let signed = google.signed(&caller.email, &google.claims(&caller.email, "dev")); // type iam
//! let vm = google.start_instance(Instance::new("shop", "us-east1-b", "i1", &caller));
//! let identity = google.token(&google.identity(&vm, "dev")); // type gce
//! # let _ = (credentials, signed, identity);
//! ```

mod accounts;
mod compute;
mod tokens;

pub use compute::Instance;

use crate::internet::{Internet, Request, Response, held};
use crate::signer::Signer;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Host of the published certificates.
pub const API: &str = "www.googleapis.com";
/// Host that exchanges assertions for access tokens.
pub const OAUTH: &str = "oauth2.googleapis.com";
/// Host that exchanges tokens of other issuers for access tokens.
pub const STS: &str = "sts.googleapis.com";
/// Host of service accounts and their keys.
pub const IAM: &str = "iam.googleapis.com";
/// Host that issues tokens and signatures in an account's name.
pub const CREDENTIALS: &str = "iamcredentials.googleapis.com";
/// Host of machines and instance groups.
pub const COMPUTE: &str = "compute.googleapis.com";
/// Host of the resource manager, which knows folders and organizations.
pub const CRM: &str = "cloudresourcemanager.googleapis.com";

/// Google Cloud and the state of a test's projects.
pub struct CloudB {
    state: Mutex<CloudState>,
    numbers: AtomicU64,
}

#[derive(Default)]
struct CloudState {
    /// Google's own keys; the first one signs.
    keys: Vec<Signer>,
    /// The accounts, by email address.
    accounts: BTreeMap<String, Account>,
    /// The instances, by project, zone and name.
    instances: BTreeMap<[String; 3], Value>,
    /// Links of instances, by project, `zones/x` or `regions/x`, and name.
    groups: BTreeMap<[String; 3], Vec<String>>,
    /// Kinds and ids of a project's ancestors, nearest first.
    ancestors: BTreeMap<String, Vec<(String, String)>>,
    /// Issued access tokens.
    given: BTreeMap<String, Instant>,
    /// Access tokens from a token exchange, which allow only impersonation.
    exchanged: BTreeMap<String, Instant>,
    /// Delay before the token endpoint knows a new key.
    propagation: Duration,
    /// Federated issuers, by audience of the exchange.
    federated: BTreeMap<String, FederatedCaller>,
}

struct FederatedCaller {
    issuer: String,
    jwks: Value,
    subject: String,
}

#[derive(Clone)]
pub struct Account {
    pub email: String,
    /// Numeric id of 21 digits.
    pub unique_id: String,
    pub project: String,
    pub disabled: bool,
    keys: Vec<AccountKey>,
}

#[derive(Clone)]
struct AccountKey {
    signer: Signer,
    usable: Instant,
    /// Creation time in RFC 3339.
    made: String,
}

impl CloudB {
    pub fn on(internet: &Internet) -> Arc<Self> {
        let state = CloudState { keys: vec![Signer::new("g1")], ..CloudState::default() };
        let cloud = Arc::new(Self { state: Mutex::new(state), numbers: AtomicU64::new(1) });
        type Handler = fn(&CloudB, &Request) -> Response;
        let sites: [(&str, Handler); 7] = [
            (API, tokens::certificates),
            (OAUTH, tokens::for_assertions),
            (STS, tokens::exchange),
            (CREDENTIALS, tokens::impersonate),
            (IAM, accounts::answer),
            (COMPUTE, compute::answer),
            (CRM, ancestry),
        ];
        for (host, handler) in sites {
            let cloud = Arc::clone(&cloud);
            internet.serve(host, move |request| handler(&cloud, request));
        }
        cloud
    }

    /// Creates a service account without a key.
    pub fn account(&self, name: &str, project: &str) -> Account {
        let account = Account {
            email: format!("{name}@{project}.iam.gserviceaccount.com"),
            unique_id: format!("1{:020}", self.next()),
            project: project.to_owned(),
            disabled: false,
            keys: Vec::new(),
        };
        held(&self.state).accounts.insert(account.email.clone(), account.clone());
        account
    }

    pub fn disable(&self, email: &str, disabled: bool) {
        if let Some(account) = held(&self.state).accounts.get_mut(email) {
            account.disabled = disabled;
        }
    }

    pub fn delete(&self, email: &str) {
        held(&self.state).accounts.remove(email);
    }

    pub fn keys(&self, email: &str) -> Vec<String> {
        let state = held(&self.state);
        let keys = state.accounts.get(email).into_iter().flat_map(|account| &account.keys);
        keys.map(|key| key.signer.kid.clone()).collect()
    }

    fn made(&self, email: &str, kid: &str) -> String {
        let state = held(&self.state);
        let keys = state.accounts.get(email).into_iter().flat_map(|account| &account.keys);
        let found = keys.into_iter().find(|key| key.signer.kid == kid);
        found.map(|key| key.made.clone()).unwrap_or_default()
    }

    /// Deletes a key of an account, and returns `false` if there was no such key.
    pub fn end_key(&self, email: &str, kid: &str) -> bool {
        let mut state = held(&self.state);
        let Some(account) = state.accounts.get_mut(email) else { return false };
        let before = account.keys.len();
        account.keys.retain(|key| key.signer.kid != kid);
        account.keys.len() < before
    }

    /// Creates a key that works at once, and returns the key's JSON.
    pub fn credentials(&self, email: &str) -> String {
        self.new_key(email, Duration::ZERO).map(|key| key.to_string()).unwrap_or_default()
    }

    /// Sets the delay before the token endpoint knows keys that IAM creates from now on.
    pub fn propagate_in(&self, time: Duration) {
        held(&self.state).propagation = time;
    }

    /// Signs claims with the account's newest key. Creates a key if there is none.
    pub fn signed(&self, email: &str, claims: &Value) -> String {
        self.key_of(email).token(claims)
    }

    /// Returns the account's newest key. Creates a key if there is none.
    pub fn key_of(&self, email: &str) -> Signer {
        if self.keys(email).is_empty() {
            self.credentials(email);
        }
        let state = held(&self.state);
        let newest = state.accounts.get(email).and_then(|account| account.keys.last());
        newest.expect("the account is there").signer.clone()
    }

    /// Returns the claims with which an account logs in to a role.
    pub fn claims(&self, email: &str, role: &str) -> Value {
        json!({ "sub": email, "aud": format!("vault/{role}"), "exp": now() + 600 })
    }

    pub fn signer(&self) -> Signer {
        held(&self.state).keys[0].clone()
    }

    /// Signs claims with Google's own key.
    pub fn token(&self, claims: &Value) -> String {
        self.signer().token(claims)
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

    /// Sets the ancestors of a project as kinds and ids, nearest first.
    pub fn put_below(&self, project: &str, above: &[(&str, &str)]) {
        let above = above.iter().map(|(kind, id)| ((*kind).to_owned(), (*id).to_owned()));
        held(&self.state).ancestors.insert(project.to_owned(), above.collect());
    }

    /// Exchanges tokens of `issuer` about `subject` for the audience of a pool's provider, such as
    /// `//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/providers/x`.
    pub fn federate(&self, audience: &str, issuer: &str, jwks: &Value, subject: &str) {
        let federated = FederatedCaller {
            issuer: issuer.to_owned(),
            jwks: jwks.clone(),
            subject: subject.to_owned(),
        };
        held(&self.state).federated.insert(audience.to_owned(), federated);
    }

    /// Accepts an access token that a machine's metadata service issued.
    pub fn give(&self, token: &str) {
        let until = Instant::now() + Duration::from_secs(3_600);
        held(&self.state).given.insert(token.to_owned(), until);
    }

    /// Revokes all issued access tokens.
    pub fn revoke_access(&self) {
        held(&self.state).given.clear();
    }

    fn new_key(&self, email: &str, propagation: Duration) -> Option<Value> {
        let signer = Signer::new(&format!("{:040x}", 0xa000_0000_0000_u64 + self.next()));
        let mut state = held(&self.state);
        let account = state.accounts.get_mut(email)?;
        let usable = Instant::now() + propagation;
        let creation_time = OffsetDateTime::now_utc().format(&Rfc3339).expect("a time of this age");
        account.keys.push(AccountKey { signer: signer.clone(), usable, made: creation_time });
        Some(json!({
            "type": "service_account", "project_id": account.project,
            "private_key_id": signer.kid, "private_key": signer.private_pem(),
            "client_email": account.email, "client_id": account.unique_id,
            "auth_uri": "https://accounts.google.com/o/oauth2/auth",
            "token_uri": "https://oauth2.googleapis.com/token",
            "universe_domain": "googleapis.com",
        }))
    }

    /// Returns a refusal if the request has no valid access token.
    fn check_bearer(&self, request: &Request) -> Result<(), Response> {
        let state = held(&self.state);
        let until = request.bearer().and_then(|token| state.given.get(token));
        match until.is_some_and(|until| *until > Instant::now()) {
            true => Ok(()),
            false => Err(error(401, "UNAUTHENTICATED", "Request had invalid credentials.")),
        }
    }

    fn next(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    fn secret(&self, before: &str) -> String {
        format!("{before}{:08x}Zq9xW7kJ4vB2nR", self.next())
    }
}

/// Answers `projects/{p}:getAncestry` of the resource manager.
fn ancestry(cloud: &CloudB, request: &Request) -> Response {
    if let Err(refused) = cloud.check_bearer(request) {
        return refused;
    }
    let project = request
        .path
        .strip_prefix("/v1/projects/")
        .and_then(|rest| rest.strip_suffix(":getAncestry"));
    let (Some(project), "POST") = (project, request.method.as_str()) else {
        return error(404, "NOT_FOUND", "no such method");
    };
    let state = held(&cloud.state);
    let above = state.ancestors.get(project).into_iter().flatten();
    let above = above.map(|(kind, id)| (kind.as_str(), id.as_str()));
    let all: Vec<Value> = std::iter::once(("project", project))
        .chain(above)
        .map(|(kind, id)| json!({ "resourceId": { "type": kind, "id": id } }))
        .collect();
    Response::json(200, &json!({ "ancestor": all }))
}

/// An error in Google's form.
fn error(status: u16, word: &str, message: &str) -> Response {
    let error = json!({ "code": status, "message": message, "status": word });
    Response::json(status, &json!({ "error": error }))
}

pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970").as_secs()
}

#[cfg(test)]
mod tests;
