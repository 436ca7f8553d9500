//! The API server: what is asked of it, and what its answers mean.
//!
//! The attack this file stops: an API server, or what stands in its place, that answers anything. A
//! redirect is none, what is not of the expected shape is none, and of a refusal only the message
//! of a `Status` is repeated, cut and on one line.

use crate::objects::Kind as ObjectKind;
use crate::target::Target;
use bulkhead_sdk::http::Response;
use bulkhead_sdk::reservation::Unmade;
use bulkhead_sdk::{Failure, Host, Kind};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec, TokenRequestStatus};
use k8s_openapi::api::authorization::v1::SelfSubjectAccessReview;
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::core::params::{DeleteParams, GetParams, PostParams, Preconditions};
use kube::core::request::Error as Unbuilt;
use kube::core::{Request, Resource};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;

/// Longest message of the API server that is repeated, in characters.
const LONGEST_MESSAGE: usize = 500;

/// Longest uid of an object, in bytes: a lease keeps it.
const LONGEST_UID: usize = 128;

/// An API server that can be asked.
pub(crate) struct ApiServer<'a> {
    host: &'a dyn Host,
    target: &'a Target,
}

/// Why the API server did not do what it was asked.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// It said no, and nothing was done: status, and its message.
    Said(u16, String, Option<u64>),
    /// It was never asked.
    Unasked(Failure),
    /// What it did is not known.
    Unclear(Failure),
}

impl Refusal {
    /// The failure, beginning with what was tried. A refusal that asking again does not change is
    /// the caller's to solve (decision P4).
    pub(crate) fn about(self, tried: &str) -> Failure {
        let (kind, message, retry_after) = match self {
            Self::Said(429, message, after) => (Kind::RateLimited, message, after),
            Self::Said(401, message, _) => (
                Kind::InvalidRequest,
                format!(
                    "{message}: the API server does not take the engine's own token; write \
                     service_account_jwt anew"
                ),
                None,
            ),
            Self::Said(_, message, _) => (Kind::InvalidRequest, message, None),
            Self::Unasked(why) | Self::Unclear(why) => (why.kind, why.message, why.retry_after),
        };
        Failure { retry_after, ..Failure::new(kind, format!("failed to {tried}: {message}")) }
    }

    /// As the outcome of making something.
    pub(crate) fn unmade(self, tried: &str) -> Unmade {
        match self {
            Self::Unclear(_) => Unmade::Perhaps(self.about(tried)),
            _ => Unmade::Surely(self.about(tried)),
        }
    }

    /// Whether the API server said so by that status.
    pub(crate) fn is(&self, status: u16) -> bool {
        matches!(self, Self::Said(said, ..) if *said == status)
    }
}

/// Of an object, what tells it from others. An answer holds far more, which is skipped.
#[derive(Deserialize)]
struct Object {
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Metadata {
    #[serde(default)]
    name: String,
    namespace: Option<String>,
    uid: Option<String>,
    labels: Option<BTreeMap<String, String>>,
}

impl Metadata {
    /// The object, if it is the one that was asked for: what a lease removes later must not be
    /// named by an answer about something else.
    fn found(self, namespace: &str, name: &str) -> Result<Found, Refusal> {
        let is_asked_for =
            self.name == name && self.namespace.is_none_or(|place| place == namespace);
        match self.uid {
            Some(uid) if is_asked_for && is_uid(&uid) => {
                Ok(Found { uid, labels: self.labels.unwrap_or_default() })
            }
            _ => Err(nonsense()),
        }
    }
}

fn is_uid(text: &str) -> bool {
    (1..=LONGEST_UID).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Of a request for a token, what came of it.
#[derive(Deserialize)]
struct Tokens {
    status: Option<TokenRequestStatus>,
}

/// Of a refusal, what is told.
#[derive(Deserialize)]
struct Status {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    message: String,
}

/// Of what answers a removal, what keeps the object there.
#[derive(Deserialize)]
struct Removed {
    metadata: Option<RemovedMetadata>,
}

#[derive(Deserialize)]
struct RemovedMetadata {
    #[serde(default)]
    finalizers: Vec<String>,
}

/// Of a question about the asker's own rights, the answer.
#[derive(Deserialize)]
struct Review {
    status: Allowed,
}

#[derive(Deserialize)]
struct Allowed {
    #[serde(default)]
    allowed: bool,
}

/// An object that is there.
pub(crate) struct Found {
    pub(crate) uid: String,
    pub(crate) labels: BTreeMap<String, String>,
}

impl<'a> ApiServer<'a> {
    /// `target`, reached through `host`.
    pub(crate) fn new(host: &'a dyn Host, target: &'a Target) -> Self {
        Self { host, target }
    }

    /// The labels of a namespace, whose name must have been checked.
    pub(crate) fn namespace_labels(&self, name: &str) -> Result<BTreeMap<String, String>, Refusal> {
        let request = Request::new(Namespace::url_path(&(), None)).get(name, &GetParams::default());
        let found: Object = self.ask(request, false)?;
        Ok(found.metadata.labels.unwrap_or_default())
    }

    /// Makes an object, and gives its uid.
    pub(crate) fn create(
        &self,
        kind: ObjectKind,
        namespace: &str,
        name: &str,
        object: Vec<u8>,
    ) -> Result<String, Refusal> {
        let request = Request::new(kind.path(namespace)).create(&PostParams::default(), object);
        let made: Object = self.ask(request, false)?;
        Ok(made.metadata.found(namespace, name)?.uid)
    }

    /// The object of that name, if there is one.
    pub(crate) fn find(
        &self,
        kind: ObjectKind,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Found>, Refusal> {
        let request = Request::new(kind.path(namespace)).get(name, &GetParams::default());
        match self.ask::<Object>(request, false) {
            Ok(object) => object.metadata.found(namespace, name).map(Some),
            Err(refusal) if refusal.is(404) => Ok(None),
            Err(refusal) => Err(refusal),
        }
    }

    /// Removes the object that has that uid. One that is gone, and another that took its name, are
    /// success; a conflict about one that is still there is none, and neither is an object that
    /// waits for its finalizers: a binding gives its rights until then.
    pub(crate) fn delete(
        &self,
        kind: ObjectKind,
        namespace: &str,
        name: &str,
        uid: &str,
    ) -> Result<(), Refusal> {
        let only = Preconditions { uid: Some(uid.to_owned()), ..Preconditions::default() };
        let how = DeleteParams::background().preconditions(only);
        let request = Request::new(kind.path(namespace)).delete(name, &how);
        match self.ask::<Removed>(request, false) {
            Ok(Removed { metadata: Some(left) }) if !left.finalizers.is_empty() => {
                Err(waits(&left.finalizers))
            }
            Err(refusal) if refusal.is(404) => Ok(()),
            Err(refusal) if refusal.is(409) => {
                let there = self.find(kind, namespace, name)?;
                if there.is_some_and(|there| there.uid == uid) { Err(refusal) } else { Ok(()) }
            }
            answered => answered.map(drop),
        }
    }

    /// Whether the engine's own account may do that, as the API server decides it.
    pub(crate) fn may(&self, asked: &serde_json::Value) -> Result<bool, Refusal> {
        let path = SelfSubjectAccessReview::url_path(&(), None);
        let body = serde_json::to_vec(asked).map_err(|_| unwritable())?;
        let request = Request::new(path).create(&PostParams::default(), body);
        let answered: Review = self.ask(request, true)?;
        Ok(answered.status.allowed)
    }

    /// A token of the service account for `seconds`; no audiences leave them to the cluster. It
    /// makes no object, so that it may be asked again.
    pub(crate) fn token(
        &self,
        namespace: &str,
        account: &str,
        audiences: Vec<String>,
        seconds: u64,
    ) -> Result<TokenRequestStatus, Refusal> {
        let spec = TokenRequestSpec {
            audiences,
            expiration_seconds: i64::try_from(seconds).ok(),
            bound_object_ref: None,
        };
        let asked = TokenRequest { spec, ..TokenRequest::default() };
        let body = serde_json::to_vec(&asked).map_err(|_| unwritable())?;
        let path = ServiceAccount::url_path(&(), Some(namespace));
        let request =
            Request::new(path).create_subresource("token", account, &PostParams::default(), body);
        let answered: Tokens = self.ask(request, true)?;
        answered.status.filter(|status| !status.token.is_empty()).ok_or_else(nonsense)
    }

    fn ask<T: DeserializeOwned>(
        &self,
        request: Result<http::Request<Vec<u8>>, Unbuilt>,
        is_safe: bool,
    ) -> Result<T, Refusal> {
        let (head, body) = request.map_err(|_| unwritable())?.into_parts();
        let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
        let mut sent = self.target.request(head.method.as_str(), path.trim_end_matches('?'));
        for (name, value) in &head.headers {
            sent = sent.header(name.as_str(), value.to_str().unwrap_or_default());
        }
        sent.safe = is_safe;
        sent.body = body;
        let answer = self.host.http().send(&sent).map_err(unsent)?;
        match answer.status {
            200..=299 => serde_json::from_slice(&answer.body).map_err(|_| nonsense()),
            404 if !says_not_found(&answer) => Err(nonsense()),
            400..=499 if answer.status != 408 => Err(said(&answer)),
            status => Err(Refusal::Unclear(Failure::new(
                Kind::Unreachable,
                format!("the API server answered {status}{}", told(&answer)),
            ))),
        }
    }
}

/// Whether it is the API server that says so: what stands in its place answers 404 to everything,
/// and an object that is taken for gone on that word stays.
fn says_not_found(answer: &Response) -> bool {
    serde_json::from_slice::<Status>(&answer.body)
        .is_ok_and(|status| status.kind == "Status" && status.reason == "NotFound")
}

/// What keeps an object there, which others have to take away.
fn waits(finalizers: &[String]) -> Refusal {
    let named: String = finalizers.join(", ").chars().take(LONGEST_MESSAGE).collect();
    let named: String = named.chars().map(on_one_line).collect();
    Refusal::Unclear(Failure::new(
        Kind::Unavailable,
        format!("it is there until its finalizers are removed: {named}"),
    ))
}

/// Whether a request that gave no answer may have arrived. The host does not know the field from
/// which it has the authorities.
fn unsent(why: Failure) -> Refusal {
    let message = why.message.replace("tls.root-certificates", "cluster_ca_cert");
    let why = Failure { message: message.replace("root-certificates", "cluster_ca_cert"), ..why };
    match why.kind {
        Kind::PermissionDenied | Kind::InvalidRequest | Kind::Unavailable => Refusal::Unasked(why),
        Kind::TooLarge => nonsense(),
        _ => Refusal::Unclear(why),
    }
}

fn said(answer: &Response) -> Refusal {
    let seconds = answer.header("retry-after").and_then(|after| after.parse::<u64>().ok());
    let status = answer.status;
    let message = match message(answer) {
        Some(message) => message,
        None => format!("the API server answered {status}"),
    };
    Refusal::Said(status, message, seconds.map(|seconds| seconds.saturating_mul(1_000)))
}

fn told(answer: &Response) -> String {
    message(answer).map(|message| format!(": {message}")).unwrap_or_default()
}

/// The message of a `Status`, on one line and not too long. What else stands in a body is not
/// repeated.
fn message(answer: &Response) -> Option<String> {
    let status: Status = serde_json::from_slice(&answer.body).ok()?;
    let message: String = status.message.chars().take(LONGEST_MESSAGE).map(on_one_line).collect();
    (!message.is_empty()).then_some(message)
}

fn on_one_line(letter: char) -> char {
    if letter.is_control() { ' ' } else { letter }
}

fn nonsense() -> Refusal {
    Refusal::Unclear(Failure::new(
        Kind::Unreachable,
        "the server's answer is not what an API server answers",
    ))
}

fn unwritable() -> Refusal {
    Refusal::Unasked(Failure::internal("the request to the API server cannot be written"))
}
