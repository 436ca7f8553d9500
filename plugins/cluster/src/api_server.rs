//! Client of the Kubernetes API server: requests, and the interpretation of answers.
//!
//! The attack this file prevents: an API server, or an impostor, that answers arbitrary content. A
//! redirect or an answer of unexpected shape is not accepted. From a refusal, only the message of a
//! `ApiStatus` is repeated, shortened and on a single line.

use crate::objects::ObjectKind;
use crate::target::ApiServerTarget;
use bulkhead_sdk::http::Response;
use bulkhead_sdk::reservation::CreationFailure;
use bulkhead_sdk::{Failure, FailureKind, Host};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec, TokenRequestStatus};
use k8s_openapi::api::authorization::v1::SelfSubjectAccessReview;
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::core::params::{DeleteParams, GetParams, PostParams, Preconditions};
use kube::core::request::Error as Unbuilt;
use kube::core::{Request, Resource};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;

/// Maximum length of a repeated API server message, in characters.
const LONGEST_MESSAGE: usize = 500;

/// Maximum length of an object's uid, in bytes: leases store uids.
const LONGEST_UID: usize = 128;

/// An API server, reachable through the host.
pub(crate) struct ApiServer<'a> {
    host: &'a dyn Host,
    target: &'a ApiServerTarget,
}

/// The reason a request to the API server failed.
#[derive(Debug)]
pub(crate) enum ApiServerRefusal {
    /// The API server refused, and nothing was done: status, message, and milliseconds until a
    /// retry.
    Said(u16, String, Option<u64>),
    /// The request was never sent.
    Unasked(Failure),
    /// The request may have taken effect.
    Unclear(Failure),
}

impl ApiServerRefusal {
    /// Converts the refusal to a failure that begins with the attempted operation. A refusal that a
    /// retry cannot change is the caller's to solve (decision P4).
    pub(crate) fn about(self, tried: &str) -> Failure {
        let (kind, message, retry_after) = match self {
            Self::Said(429, message, after) => (FailureKind::RateLimited, message, after),
            Self::Said(401, message, _) => (
                FailureKind::InvalidRequest,
                format!(
                    "{message}: the API server rejects the engine's own token; write a new \
                     service_account_jwt"
                ),
                None,
            ),
            Self::Said(_, message, _) => (FailureKind::InvalidRequest, message, None),
            Self::Unasked(why) | Self::Unclear(why) => (why.kind, why.message, why.retry_after),
        };
        Failure { retry_after, ..Failure::new(kind, format!("failed to {tried}: {message}")) }
    }

    /// Converts the refusal to the outcome of creating an object.
    pub(crate) fn unmade(self, tried: &str) -> CreationFailure {
        match self {
            Self::Unclear(_) => CreationFailure::Perhaps(self.about(tried)),
            _ => CreationFailure::Surely(self.about(tried)),
        }
    }

    /// Returns whether the API server refused with `status`.
    pub(crate) fn is(&self, status: u16) -> bool {
        matches!(self, Self::Said(said, ..) if *said == status)
    }
}

/// The identity of an object. All other members of the answer are ignored.
#[derive(Deserialize)]
struct ApiObject {
    metadata: ObjectMetadata,
}

#[derive(Deserialize)]
struct ObjectMetadata {
    #[serde(default)]
    name: String,
    namespace: Option<String>,
    uid: Option<String>,
    labels: Option<BTreeMap<String, String>>,
}

impl ObjectMetadata {
    /// Returns the object if the answer is about the requested object. Otherwise a lease could
    /// later remove an object named by an unrelated answer.
    fn found(self, namespace: &str, name: &str) -> Result<ExistingObject, ApiServerRefusal> {
        let is_asked_for =
            self.name == name && self.namespace.is_none_or(|place| place == namespace);
        match self.uid {
            Some(uid) if is_asked_for && is_uid(&uid) => {
                Ok(ExistingObject { uid, labels: self.labels.unwrap_or_default() })
            }
            _ => Err(nonsense()),
        }
    }
}

fn is_uid(text: &str) -> bool {
    (1..=LONGEST_UID).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// The answer to a token request.
#[derive(Deserialize)]
struct TokenRequestAnswer {
    status: Option<TokenRequestStatus>,
}

/// The relevant members of a refusal.
#[derive(Deserialize)]
struct ApiStatus {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    message: String,
}

/// The answer to a deletion, with the finalizers that keep the object.
#[derive(Deserialize)]
struct DeletionAnswer {
    metadata: Option<DeletionMetadata>,
}

#[derive(Deserialize)]
struct DeletionMetadata {
    #[serde(default)]
    finalizers: Vec<String>,
}

/// The answer to a question about the engine's own rights.
#[derive(Deserialize)]
struct AccessReview {
    status: AccessReviewStatus,
}

#[derive(Deserialize)]
struct AccessReviewStatus {
    #[serde(default)]
    allowed: bool,
}

/// An existing object.
pub(crate) struct ExistingObject {
    pub(crate) uid: String,
    pub(crate) labels: BTreeMap<String, String>,
}

impl<'a> ApiServer<'a> {
    /// Returns a client for `target`, reached through `host`.
    pub(crate) fn new(host: &'a dyn Host, target: &'a ApiServerTarget) -> Self {
        Self { host, target }
    }

    /// Returns the labels of a namespace. The caller must have validated the name.
    pub(crate) fn namespace_labels(
        &self,
        name: &str,
    ) -> Result<BTreeMap<String, String>, ApiServerRefusal> {
        let request = Request::new(Namespace::url_path(&(), None)).get(name, &GetParams::default());
        let found: ApiObject = self.ask(request, false)?;
        Ok(found.metadata.labels.unwrap_or_default())
    }

    /// Creates an object, and returns its uid.
    pub(crate) fn create(
        &self,
        kind: ObjectKind,
        namespace: &str,
        name: &str,
        object: Vec<u8>,
    ) -> Result<String, ApiServerRefusal> {
        let request = Request::new(kind.path(namespace)).create(&PostParams::default(), object);
        let answer: ApiObject = self.ask(request, false)?;
        Ok(answer.metadata.found(namespace, name)?.uid)
    }

    /// Returns the object with this name, if any.
    pub(crate) fn find(
        &self,
        kind: ObjectKind,
        namespace: &str,
        name: &str,
    ) -> Result<Option<ExistingObject>, ApiServerRefusal> {
        let request = Request::new(kind.path(namespace)).get(name, &GetParams::default());
        match self.ask::<ApiObject>(request, false) {
            Ok(object) => object.metadata.found(namespace, name).map(Some),
            Err(refusal) if refusal.is(404) => Ok(None),
            Err(refusal) => Err(refusal),
        }
    }

    /// Removes the object with this uid. If the object is gone, or another object has taken the
    /// name, the removal succeeds. If the object still exists after a conflict, or waits for its
    /// finalizers, the removal fails: a binding grants its rights until the object is gone.
    pub(crate) fn delete(
        &self,
        kind: ObjectKind,
        namespace: &str,
        name: &str,
        uid: &str,
    ) -> Result<(), ApiServerRefusal> {
        let only = Preconditions { uid: Some(uid.to_owned()), ..Preconditions::default() };
        let how = DeleteParams::background().preconditions(only);
        let request = Request::new(kind.path(namespace)).delete(name, &how);
        match self.ask::<DeletionAnswer>(request, false) {
            Ok(DeletionAnswer { metadata: Some(left) }) if !left.finalizers.is_empty() => {
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

    /// Returns whether the API server permits an action to the engine's own account.
    pub(crate) fn is_permitted(
        &self,
        review: &serde_json::Value,
    ) -> Result<bool, ApiServerRefusal> {
        let path = SelfSubjectAccessReview::url_path(&(), None);
        let body = serde_json::to_vec(review).map_err(|_| unwritable())?;
        let request = Request::new(path).create(&PostParams::default(), body);
        let answered: AccessReview = self.ask(request, true)?;
        Ok(answered.status.allowed)
    }

    /// Requests a token of the service account for `seconds`. Without audiences, the cluster
    /// chooses the audiences. The request creates no object, so the host may retry.
    pub(crate) fn token(
        &self,
        namespace: &str,
        account: &str,
        audiences: Vec<String>,
        seconds: u64,
    ) -> Result<TokenRequestStatus, ApiServerRefusal> {
        let spec = TokenRequestSpec {
            audiences,
            expiration_seconds: i64::try_from(seconds).ok(),
            bound_object_ref: None,
        };
        let token_request = TokenRequest { spec, ..TokenRequest::default() };
        let body = serde_json::to_vec(&token_request).map_err(|_| unwritable())?;
        let path = ServiceAccount::url_path(&(), Some(namespace));
        let request =
            Request::new(path).create_subresource("token", account, &PostParams::default(), body);
        let answered: TokenRequestAnswer = self.ask(request, true)?;
        answered.status.filter(|status| !status.token.is_empty()).ok_or_else(nonsense)
    }

    fn ask<T: DeserializeOwned>(
        &self,
        request: Result<http::Request<Vec<u8>>, Unbuilt>,
        is_safe: bool,
    ) -> Result<T, ApiServerRefusal> {
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
            400..=499 if answer.status != 408 => Err(read_refusal(&answer)),
            status => Err(ApiServerRefusal::Unclear(Failure::new(
                FailureKind::Unreachable,
                format!("the API server answered {status}{}", describe_refusal(&answer)),
            ))),
        }
    }
}

/// Returns whether the API server itself says that the object does not exist. An impostor may
/// answer 404 to everything, and an object wrongly taken for gone would never be removed.
fn says_not_found(answer: &Response) -> bool {
    serde_json::from_slice::<ApiStatus>(&answer.body)
        .is_ok_and(|status| status.kind == "Status" && status.reason == "NotFound")
}

/// Returns the failure for an object kept by finalizers of other controllers.
fn waits(finalizers: &[String]) -> ApiServerRefusal {
    let named: String = finalizers.join(", ").chars().take(LONGEST_MESSAGE).collect();
    let named: String = named.chars().map(on_one_line).collect();
    ApiServerRefusal::Unclear(Failure::new(
        FailureKind::Unavailable,
        format!("the object remains until all finalizers are removed: {named}"),
    ))
}

/// Converts a failure without an answer, and decides whether the request may have arrived. The host
/// does not know the field for the root certificates, so its message is reworded.
fn unsent(why: Failure) -> ApiServerRefusal {
    let message = why.message.replace("tls.root-certificates", "cluster_ca_cert");
    let why = Failure { message: message.replace("root-certificates", "cluster_ca_cert"), ..why };
    match why.kind {
        FailureKind::PermissionDenied | FailureKind::InvalidRequest | FailureKind::Unavailable => {
            ApiServerRefusal::Unasked(why)
        }
        FailureKind::TooLarge => nonsense(),
        _ => ApiServerRefusal::Unclear(why),
    }
}

fn read_refusal(answer: &Response) -> ApiServerRefusal {
    let seconds = answer.header("retry-after").and_then(|after| after.parse::<u64>().ok());
    let status = answer.status;
    let message = match message(answer) {
        Some(message) => message,
        None => format!("the API server answered {status}"),
    };
    ApiServerRefusal::Said(status, message, seconds.map(|seconds| seconds.saturating_mul(1_000)))
}

fn describe_refusal(answer: &Response) -> String {
    message(answer).map(|message| format!(": {message}")).unwrap_or_default()
}

/// Returns the message of an `ApiStatus`, on a single line and shortened. Nothing else in the body
/// is repeated.
fn message(answer: &Response) -> Option<String> {
    let status: ApiStatus = serde_json::from_slice(&answer.body).ok()?;
    let message: String = status.message.chars().take(LONGEST_MESSAGE).map(on_one_line).collect();
    (!message.is_empty()).then_some(message)
}

fn on_one_line(letter: char) -> char {
    if letter.is_control() { ' ' } else { letter }
}

fn nonsense() -> ApiServerRefusal {
    ApiServerRefusal::Unclear(Failure::new(
        FailureKind::Unreachable,
        "the answer is not in the format of an API server",
    ))
}

fn unwritable() -> ApiServerRefusal {
    ApiServerRefusal::Unasked(Failure::internal("the request to the API server cannot be written"))
}
