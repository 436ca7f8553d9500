//! The sentences for refusals of Cloud KMS, and of the endpoint for access tokens.
//!
//! This file prevents a text of a service from reaching a log or a caller: status and words decide
//! the sentence, and nothing of the answer is quoted.

use crate::settings::KmsSettings;
use bulkhead_sdk::http::Response;
use bulkhead_sdk::{Failure, FailureKind};
use serde::Deserialize;

/// The body of a refusal of Cloud KMS.
#[derive(Default, Deserialize)]
struct ErrorAnswer {
    #[serde(default)]
    error: KmsError,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct KmsError {
    status: String,
    message: String,
    details: Vec<ErrorDetail>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ErrorDetail {
    reason: String,
}

impl KmsError {
    /// Reads the body of an answer; an empty error if the body has another form.
    fn of(answer: &Response) -> Self {
        serde_json::from_slice::<ErrorAnswer>(&answer.body).unwrap_or_default().error
    }

    /// Returns whether the API is not enabled in the project.
    fn is_of_project(&self) -> bool {
        self.status == "SERVICE_DISABLED"
            || self.details.iter().any(|detail| detail.reason == "SERVICE_DISABLED")
            || self.message.contains("has not been used in project")
    }

    /// Returns whether the state of the version of the key forbids the request.
    fn is_of_state(&self) -> bool {
        self.status == "FAILED_PRECONDITION" || self.message.contains("is not enabled")
    }
}

/// The body of a refusal of the endpoint for access tokens.
#[derive(Default, Deserialize)]
#[serde(default)]
struct TokenError {
    error_description: String,
}

/// A request to Cloud KMS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KmsRequest {
    /// Encrypts with the primary version of the key.
    Encrypt,
    /// Decrypts with the version that encrypted.
    Decrypt,
}

impl KmsRequest {
    /// Returns the verb behind the name of the key.
    pub(crate) fn verb(self) -> &'static str {
        match self {
            Self::Encrypt => "encrypt",
            Self::Decrypt => "decrypt",
        }
    }

    /// Returns the end of the name of the right.
    fn right(self) -> &'static str {
        match self {
            Self::Encrypt => "useToEncrypt",
            Self::Decrypt => "useToDecrypt",
        }
    }
}

fn unavailable(why: String) -> Failure {
    Failure::new(FailureKind::Unavailable, why)
}

fn unreachable(why: String) -> Failure {
    Failure::new(FailureKind::Unreachable, why)
}

/// Returns the failure of Cloud KMS for an answer with a status other than 200.
pub(crate) fn refused(settings: &KmsSettings, request: KmsRequest, answer: &Response) -> Failure {
    let KmsSettings { endpoint, key_name, client_email, .. } = settings;
    let verb = request.verb();
    let error = KmsError::of(answer);
    match answer.status {
        300..=399 => redirected(endpoint, answer.status),
        400 => Failure::invalid(bad_request(settings, request, &error)),
        401 => Failure::denied(format!(
            "{endpoint} refuses the access token of {client_email} for {verb}; check that \
             token_uri of the credentials belongs to this endpoint"
        )),
        403 if error.is_of_project() => Failure::denied(format!(
            "{endpoint} refuses {verb}, because Cloud KMS is not enabled in the project of \
             {client_email}; enable the API cloudkms.googleapis.com"
        )),
        403 => Failure::denied(format!(
            "{endpoint} refuses {verb} by {key_name} to {client_email}; grant \
             cloudkms.cryptoKeyVersions.{} on the key, and check project, region, key_ring and \
             crypto_key",
            request.right()
        )),
        404 => Failure::invalid(format!(
            "{endpoint} has no key {key_name}; check project, region, key_ring and crypto_key"
        )),
        429 => unavailable(format!(
            "{endpoint} limits the rate of requests and refused {verb}; try again later, or raise \
             the quota of the project"
        )),
        500..=599 => unavailable(format!(
            "{endpoint} cannot serve {verb} at present (status {}); check the state of Cloud KMS",
            answer.status
        )),
        status => unreachable(format!(
            "{endpoint} answered {verb} with status {status}; check that endpoint names Cloud KMS"
        )),
    }
}

fn bad_request(settings: &KmsSettings, request: KmsRequest, error: &KmsError) -> String {
    let KmsSettings { endpoint, key_name, .. } = settings;
    let verb = request.verb();
    let is_state = error.is_of_state();
    match request {
        KmsRequest::Encrypt if is_state => format!(
            "{endpoint} refuses {verb}, because the primary version of {key_name} is not enabled; \
             enable the version, or make another version the primary one"
        ),
        KmsRequest::Decrypt if is_state => format!(
            "{endpoint} refuses {verb}, because the version of {key_name} that wrapped the seal \
             key is not enabled; enable or restore the version"
        ),
        KmsRequest::Encrypt => format!(
            "{endpoint} refuses {verb} by {key_name}; give a key with the purpose ENCRYPT_DECRYPT"
        ),
        KmsRequest::Decrypt => format!(
            "{endpoint} cannot decrypt the wrapped seal key; {key_name} did not wrap the seal key: \
             check project, region, key_ring and crypto_key"
        ),
    }
}

/// Returns the failure of Cloud KMS for an answer with status 200 of another form.
pub(crate) fn unreadable(settings: &KmsSettings, request: KmsRequest) -> Failure {
    unreachable(format!(
        "{} answered {} with status 200 and another form than Cloud KMS has; check that endpoint \
         names this service, and not a proxy or a login page",
        settings.endpoint,
        request.verb()
    ))
}

/// Returns the failure for a checksum that does not fit.
pub(crate) fn damaged(settings: &KmsSettings, request: KmsRequest) -> Failure {
    unreachable(format!(
        "{} answered {} with a checksum that does not fit; the bytes changed on their way: try \
         again, and check proxies in between",
        settings.endpoint,
        request.verb()
    ))
}

/// Returns the failure of the endpoint for access tokens, for a status other than 200.
pub(crate) fn token_refused(settings: &KmsSettings, answer: &Response) -> Failure {
    let KmsSettings { token_uri, client_email, .. } = settings;
    let error: TokenError = serde_json::from_slice(&answer.body).unwrap_or_default();
    let description = error.error_description.to_ascii_lowercase();
    let holds = |words: &str| description.contains(words);
    match answer.status {
        300..=399 => redirected(token_uri, answer.status),
        400 | 401 if holds("check your iat") || holds("reasonable timeframe") => {
            Failure::denied(format!(
                "{token_uri} refuses the assertion of {client_email}, because the clock of this \
             machine differs; set the clock"
            ))
        }
        400 | 401 if holds("invalid jwt signature") => Failure::denied(format!(
            "{token_uri} refuses the key of {client_email}; the key was deleted: write a new key \
             file of the service account into credentials"
        )),
        400 | 401 | 403 => Failure::denied(format!(
            "{token_uri} refuses the service account {client_email}; the account does not exist or \
             is disabled: check credentials"
        )),
        429 | 500..=599 => unavailable(format!(
            "{token_uri} gives no access token at present (status {}); try again later",
            answer.status
        )),
        status => unreachable(format!(
            "{token_uri} answered with status {status}; check token_uri of the credentials"
        )),
    }
}

/// Returns the failure for an answer without an access token.
pub(crate) fn token_unreadable(settings: &KmsSettings) -> Failure {
    unreachable(format!(
        "{} answered with status 200 and without an access token; check token_uri of the \
         credentials",
        settings.token_uri
    ))
}

fn redirected(url: &str, status: u16) -> Failure {
    unavailable(format!(
        "{url} redirects (status {status}), and a seal follows no redirect; check the URL"
    ))
}
