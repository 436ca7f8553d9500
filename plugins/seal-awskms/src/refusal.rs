//! The sentences for refusals of the key management service.
//!
//! This file prevents a text of the service from reaching a log or a caller: the name of the error
//! decides the sentence, and nothing of the answer is quoted.

use crate::settings::KmsSettings;
use bulkhead_sdk::http::Response;
use bulkhead_sdk::{Failure, FailureKind};
use serde::Deserialize;

/// A request of this plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KmsRequest {
    /// Encrypts with the key of the settings.
    Encrypt,
    /// Decrypts with the key that encrypted.
    Decrypt,
}

impl KmsRequest {
    /// Returns the name of the operation.
    fn operation(self) -> &'static str {
        match self {
            Self::Encrypt => "Encrypt",
            Self::Decrypt => "Decrypt",
        }
    }

    /// Returns the header `x-amz-target`.
    pub(crate) fn target(self) -> String {
        format!("TrentService.{}", self.operation())
    }

    /// Returns words for the key of the request.
    fn key(self, settings: &KmsSettings) -> String {
        match self {
            Self::Encrypt => format!("the key {}", settings.key_id),
            Self::Decrypt => "the key that wrapped the seal key".to_owned(),
        }
    }
}

/// The part of a refusal that names the error.
#[derive(Default, Deserialize)]
struct ErrorAnswer {
    /// `com.amazonaws.kms#DisabledException`, or without the name space.
    #[serde(default, rename = "__type")]
    kind: String,
    #[serde(default, alias = "Message")]
    message: String,
}

/// Returns the failure for an answer with a status other than 200.
pub(crate) fn refused(settings: &KmsSettings, request: KmsRequest, answer: &Response) -> Failure {
    let (endpoint, operation) = (&settings.endpoint, request.operation());
    let unavailable = |why: String| Failure::new(FailureKind::Unavailable, why);
    if (300..=399).contains(&answer.status) {
        return unavailable(format!(
            "{endpoint} redirects {operation} (status {}), and a seal follows no redirect; check \
             endpoint and region",
            answer.status
        ));
    }
    let error: ErrorAnswer = serde_json::from_slice(&answer.body).unwrap_or_default();
    let kind = error.kind.rsplit('#').next().unwrap_or_default();
    if let Some(failure) = credentials(settings, request, (kind, &error.message)) {
        return failure;
    }
    if let Some(failure) = key(settings, request, kind) {
        return failure;
    }
    match (kind, answer.status) {
        ("ThrottlingException" | "LimitExceededException" | "TooManyRequestsException", _)
        | (_, 429) => unavailable(format!(
            "{endpoint} limits the rate of requests and refused {operation}; try again later, or \
             raise the quota of the account"
        )),
        ("KeyUnavailableException" | "DependencyTimeoutException" | "KMSInternalException", _)
        | (_, 500..=599) => unavailable(format!(
            "{endpoint} cannot serve {operation} at present (status {}); check the state of the \
             service in region {}",
            answer.status, settings.region
        )),
        (_, status) => Failure::new(
            FailureKind::Unreachable,
            format!(
                "{endpoint} answered {operation} with status {status} and no known error; check \
                 that endpoint names the key management service"
            ),
        ),
    }
}

/// Returns the failure for an answer with status 200 of another form than the request has.
pub(crate) fn unreadable(settings: &KmsSettings, request: KmsRequest) -> Failure {
    Failure::new(
        FailureKind::Unreachable,
        format!(
            "{} answered {} with status 200 and another form than the key management service has; \
             check that endpoint names this service, and not a proxy or a login page",
            settings.endpoint,
            request.operation()
        ),
    )
}

/// Returns the failure for an error about the credentials. `error` has name and message.
fn credentials(
    settings: &KmsSettings,
    request: KmsRequest,
    error: (&str, &str),
) -> Option<Failure> {
    let (endpoint, operation) = (&settings.endpoint, request.operation());
    let (kind, message) = error;
    let cause = match kind {
        "AccessDeniedException" | "AccessDenied" => format!(
            " by {}; allow kms:{operation} on this key, in the policy of the key or of the user, \
             and check that the key exists in region {}",
            request.key(settings),
            settings.region
        ),
        "UnrecognizedClientException" | "InvalidClientTokenId" | "InvalidAccessKeyId" => {
            "; access_key does not exist or is inactive, or session_token does not belong to \
             access_key"
                .to_owned()
        }
        "ExpiredTokenException" | "ExpiredToken" => {
            "; session_token has ended: write new credentials into the files of access_key, \
             secret_key and session_token"
                .to_owned()
        }
        "InvalidSignatureException" | "SignatureDoesNotMatch" | "RequestExpired"
            if kind == "RequestExpired" || is_of_clock(message) =>
        {
            "; the clock of this machine differs by more than 5 minutes from the clock of the \
             service: set the clock"
                .to_owned()
        }
        "InvalidSignatureException"
        | "SignatureDoesNotMatch"
        | "IncompleteSignatureException"
        | "MissingAuthenticationTokenException" => format!(
            "; secret_key does not belong to access_key, or the endpoint serves another region \
             than {}",
            settings.region
        ),
        _ => return None,
    };
    Some(Failure::denied(format!(
        "{endpoint} refuses the credentials of the seal for {operation}{cause}"
    )))
}

/// Returns whether the message of an unfit signature begins as for another time of the clock. The
/// rest of a message repeats parts of the request.
fn is_of_clock(message: &str) -> bool {
    ["Signature expired", "Signature not yet current"].iter().any(|text| message.starts_with(text))
}

/// Returns the failure for an error about the key.
fn key(settings: &KmsSettings, request: KmsRequest, kind: &str) -> Option<Failure> {
    let (endpoint, operation) = (&settings.endpoint, request.operation());
    let (key, region) = (request.key(settings), &settings.region);
    let cause = match kind {
        "NotFoundException" => {
            format!("because {key} does not exist in region {region}; check kms_key_id and region")
        }
        "DisabledException" => format!("because {key} is disabled; enable the key"),
        "KMSInvalidStateException" => format!(
            "because {key} is to be deleted, or lacks its key material; cancel the deletion and \
             enable the key"
        ),
        "InvalidKeyUsageException" => format!(
            "because {key} is not a symmetric key for encryption; give a key with the usage \
             ENCRYPT_DECRYPT and the spec SYMMETRIC_DEFAULT"
        ),
        "InvalidCiphertextException" | "IncorrectKeyException" => format!(
            "because no key of this account in region {region} wrapped the seal key; give the \
             region and the credentials that the data were sealed with"
        ),
        "ValidationException" | "InvalidArnException" => {
            "because the request has a wrong form; check kms_key_id".to_owned()
        }
        _ => return None,
    };
    Some(Failure::invalid(format!("{endpoint} refuses {operation}, {cause}")))
}
