//! The sentences for refusals of the server with the transit engine.
//!
//! This file prevents a text of the other server from reaching a log or a caller: the server's
//! words decide the sentence, and are never quoted.

use crate::settings::TransitSettings;
use bulkhead_sdk::http::Response;
use bulkhead_sdk::{Failure, FailureKind};
use serde::Deserialize;

/// The body of a refusal.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ErrorAnswer {
    errors: Vec<String>,
}

/// A request of this plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TransitRequest {
    /// Encrypts with the newest version of the key.
    Encrypt,
    /// Decrypts with the version that encrypted.
    Decrypt,
    /// Reads the lifetime of the token.
    LookUp,
    /// Renews the token.
    Renew,
}

impl TransitRequest {
    /// Returns the path of the request below `/v1/`.
    pub(crate) fn path(self, settings: &TransitSettings) -> String {
        let TransitSettings { mount_path, key_name, .. } = settings;
        match self {
            Self::Encrypt => format!("{mount_path}/encrypt/{key_name}"),
            Self::Decrypt => format!("{mount_path}/decrypt/{key_name}"),
            Self::LookUp => "auth/token/lookup-self".to_owned(),
            Self::Renew => "auth/token/renew-self".to_owned(),
        }
    }
}

/// Returns the failure for an answer with a status other than 200.
pub(crate) fn refused(
    settings: &TransitSettings,
    request: TransitRequest,
    answer: &Response,
) -> Failure {
    let (address, path) = (&settings.address, request.path(settings));
    let unavailable = |why: String| Failure::new(FailureKind::Unavailable, why);
    match answer.status {
        300..=399 => unavailable(format!(
            "{address} redirects {path} (status {}), and a seal follows no redirect; give the \
             address of the active server, or of a balancer that forwards requests",
            answer.status
        )),
        400 => Failure::invalid(bad_request(settings, request, answer)),
        403 => Failure::denied(forbidden(settings, request)),
        404 | 405 => Failure::invalid(format!(
            "{address} has no endpoint {path} (status {}); check mount_path, namespace and \
             address, and that the transit engine is enabled",
            answer.status
        )),
        429 => unavailable(format!(
            "{address} limits the rate of requests (status 429) and refused {path}; try again \
             later, or raise the quota for {path}"
        )),
        501 => unavailable(format!(
            "{address} is not initialised (status 501); initialise the server with the transit \
             engine"
        )),
        503 => unavailable(format!(
            "{address} is sealed or stops (status 503) and refused {path}; unseal the server with \
             the transit engine"
        )),
        status => Failure::new(
            FailureKind::Unreachable,
            format!(
                "{address} answered {path} with status {status}; check the log of the other \
                 server, and compare address with the server's own address"
            ),
        ),
    }
}

/// Returns the failure for an answer with status 200 of another form than the request has.
pub(crate) fn unreadable(settings: &TransitSettings, request: TransitRequest) -> Failure {
    let (address, path) = (&settings.address, request.path(settings));
    Failure::new(
        FailureKind::Unreachable,
        format!(
            "{address} answered {path} with status 200 and another form than the transit engine \
             has; check that address names a server with the transit engine, and not a proxy or a \
             login page"
        ),
    )
}

fn forbidden(settings: &TransitSettings, request: TransitRequest) -> String {
    let (address, path) = (&settings.address, request.path(settings));
    match request {
        TransitRequest::Encrypt | TransitRequest::Decrypt => format!(
            "{address} refuses the token of the seal for {path}; the token has ended, or no policy \
             of the token has the capability `update` on {path}, or the key {} does not exist",
            settings.key_name
        ),
        TransitRequest::LookUp | TransitRequest::Renew => format!(
            "{address} refuses the token of the seal for {path}; the token has ended, or no policy \
             of the token allows {path}; give another token, add the policy `default`, or set \
             disable_renewal"
        ),
    }
}

fn bad_request(settings: &TransitSettings, request: TransitRequest, answer: &Response) -> String {
    let TransitSettings { address, key_name, .. } = settings;
    let path = request.path(settings);
    let answer: ErrorAnswer = serde_json::from_slice(&answer.body).unwrap_or_default();
    let errors = answer.errors.join("\n").to_ascii_lowercase();
    let holds = |words: &str| errors.contains(words);
    if holds("(too old)") || holds("disallowed by policy") {
        return format!(
            "{address} refuses {path} (status 400), because the wrapped seal key has a version of \
             the key {key_name} below min_decryption_version; lower min_decryption_version until \
             Bulkhead has started once"
        );
    }
    if holds("version is too new") || holds("no such key version") {
        return format!(
            "{address} refuses {path} (status 400), because the key {key_name} lacks this version; \
             restore the missing versions of the key {key_name} from a backup"
        );
    }
    if holds("encryption key not found") {
        return format!(
            "{address} refuses {path} (status 400), because the key {key_name} does not exist; \
             check key_name, mount_path and namespace"
        );
    }
    match request {
        TransitRequest::Decrypt => format!(
            "{address} cannot decrypt the wrapped seal key (status 400 of {path}); the key \
             {key_name} did not wrap the seal key: check key_name, mount_path and namespace"
        ),
        TransitRequest::Encrypt => format!(
            "{address} refuses {path} (status 400); check that the key {key_name} supports \
             encryption and is not derived"
        ),
        TransitRequest::LookUp | TransitRequest::Renew => format!(
            "{address} refuses {path} (status 400); check that the token can be renewed, or set \
             disable_renewal"
        ),
    }
}
