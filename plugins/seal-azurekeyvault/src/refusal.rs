//! The sentences for refusals of the vault, and of the endpoint for access tokens.
//!
//! This file prevents a text of a service from reaching a log or a caller: status and words decide
//! the sentence, and nothing of the answer is quoted.

use crate::settings::VaultSettings;
use bulkhead_sdk::http::Response;
use bulkhead_sdk::{Failure, FailureKind};
use serde::Deserialize;

/// The body of a refusal of the vault.
#[derive(Default, Deserialize)]
struct ErrorAnswer {
    #[serde(default)]
    error: VaultError,
}

/// An error of the vault. The inner error has the more exact code.
#[derive(Default, Deserialize)]
struct VaultError {
    code: Option<String>,
    message: Option<String>,
    innererror: Option<Box<VaultError>>,
}

impl VaultError {
    /// Reads the body of an answer; an empty error if the body has another form.
    fn of(answer: &Response) -> Self {
        serde_json::from_slice::<ErrorAnswer>(&answer.body).unwrap_or_default().error
    }

    fn has_code(&self, code: &str) -> bool {
        let is_inner = || self.innererror.as_ref().is_some_and(|inner| inner.has_code(code));
        self.code.as_deref() == Some(code) || is_inner()
    }

    /// Returns whether the vault refuses the network, and not the application.
    fn is_of_network(&self) -> bool {
        let message = self.message.as_deref().unwrap_or_default().to_ascii_lowercase();
        ["ForbiddenByFirewall", "ForbiddenByConnection"].iter().any(|code| self.has_code(code))
            || message.contains("not authorized and caller is not")
            || message.contains("public network access is disabled")
    }
}

/// The body of a refusal of the endpoint for access tokens.
#[derive(Default, Deserialize)]
struct TokenError {
    #[serde(default)]
    error_description: String,
    #[serde(default)]
    error_codes: Vec<u64>,
}

impl TokenError {
    /// Returns whether the refusal has the code `AADSTS` with this number. Numbers begin with other
    /// numbers, so that the whole number counts.
    fn has_code(&self, number: u64) -> bool {
        let mut words = self.error_description.split(|c: char| !c.is_ascii_alphanumeric());
        let first = words.next().and_then(|word| word.strip_prefix("AADSTS"));
        self.error_codes.contains(&number) || first == Some(number.to_string().as_str())
    }
}

/// A request to the vault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VaultRequest {
    /// Reads the newest version of the key.
    Get,
    /// Encrypts with a version of the key.
    Wrap,
    /// Decrypts with the version that encrypted.
    Unwrap,
}

impl VaultRequest {
    /// Returns the last part of the path.
    pub(crate) fn operation(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Wrap => "wrapkey",
            Self::Unwrap => "unwrapkey",
        }
    }

    /// Returns words for the key of the request.
    fn key(self, settings: &VaultSettings) -> String {
        match self {
            Self::Get | Self::Wrap => {
                format!("the newest version of the key {}", settings.key_name)
            }
            Self::Unwrap => "the version that wrapped the seal key".to_owned(),
        }
    }
}

fn unavailable(why: String) -> Failure {
    Failure::new(FailureKind::Unavailable, why)
}

fn unreachable(why: String) -> Failure {
    Failure::new(FailureKind::Unreachable, why)
}

/// Returns the failure of the vault for an answer with a status other than 200.
pub(crate) fn refused(
    settings: &VaultSettings,
    request: VaultRequest,
    answer: &Response,
) -> Failure {
    let (url, operation) = (&settings.vault_url, request.operation());
    let key = request.key(settings);
    let error = VaultError::of(answer);
    match answer.status {
        300..=399 => redirected(url, answer.status),
        400 => Failure::invalid(format!(
            "{url} refuses {operation} by {key}; give an RSA key with the operations wrapKey and \
             unwrapKey, and the key that wrapped the seal key"
        )),
        401 => Failure::denied(format!(
            "{url} refuses the access token of the application {}; check tenant_id, and that \
             resource belongs to the vault",
            settings.client_id
        )),
        403 if error.has_code("KeyDisabled") => disabled(settings, request),
        403 if error.is_of_network() => Failure::denied(format!(
            "{url} refuses the network of this machine; allow the address in the firewall of the \
             vault, or use the private endpoint of the vault"
        )),
        403 => Failure::denied(format!(
            "{url} refuses {operation} to the application {}; allow get, wrapKey and unwrapKey on \
             the key",
            settings.client_id
        )),
        404 | 409 => Failure::invalid(format!(
            "{url} has not {key}, or the key was deleted; recover the key, or check vault_name and \
             key_name"
        )),
        429 => unavailable(format!(
            "{url} limits the rate of requests and refused {operation}; try again later"
        )),
        500..=599 => unavailable(format!(
            "{url} cannot serve {operation} at present (status {}); check the state of Key Vault",
            answer.status
        )),
        status => unreachable(format!(
            "{url} answered {operation} with status {status}; check that vault_name names a vault"
        )),
    }
}

/// Returns the failure for a version that is not enabled.
pub(crate) fn disabled(settings: &VaultSettings, request: VaultRequest) -> Failure {
    Failure::invalid(format!(
        "{} refuses {}, because {} is disabled; enable the version",
        settings.vault_url,
        request.operation(),
        request.key(settings)
    ))
}

/// Returns the failure of the vault for an answer with status 200 of another form.
pub(crate) fn unreadable(settings: &VaultSettings, request: VaultRequest) -> Failure {
    unreachable(format!(
        "{} answered {} with status 200 and another form than Key Vault has; check that the vault \
         is behind this URL, and not a proxy or a login page",
        settings.vault_url,
        request.operation()
    ))
}

/// Returns the failure of the endpoint for access tokens, for a status other than 200.
pub(crate) fn token_refused(settings: &VaultSettings, answer: &Response) -> Failure {
    let VaultSettings { authority_host, tenant_id, client_id, .. } = settings;
    let error: TokenError = serde_json::from_slice(&answer.body).unwrap_or_default();
    let is_any = |codes: &[u64]| codes.iter().any(|code| error.has_code(*code));
    match answer.status {
        300..=399 => redirected(authority_host, answer.status),
        400 | 401 if is_any(&[7_000_215]) => Failure::denied(format!(
            "{authority_host} refuses the secret of the application {client_id}; write the value \
             of a secret, and not its id, into client_secret"
        )),
        400 | 401 if is_any(&[7_000_222]) => Failure::denied(format!(
            "the secret of the application {client_id} has ended; write a new secret into \
             client_secret"
        )),
        400 | 401 if is_any(&[700_016]) => Failure::denied(format!(
            "{authority_host} has no application {client_id} in the directory {tenant_id}; check \
             client_id and tenant_id"
        )),
        400 | 401 if is_any(&[90_002, 900_021, 900_023]) => Failure::denied(format!(
            "{authority_host} has no directory {tenant_id}; check tenant_id and environment"
        )),
        400 | 401 | 403 => Failure::denied(format!(
            "{authority_host} refuses the application {client_id}; check tenant_id, client_id, \
             client_secret and resource"
        )),
        429 | 500..=599 => unavailable(format!(
            "{authority_host} gives no access token at present (status {}); try again later",
            answer.status
        )),
        status => unreachable(format!(
            "{authority_host} answered with status {status}; check environment and tenant_id"
        )),
    }
}

/// Returns the failure for an answer without an access token.
pub(crate) fn token_unreadable(settings: &VaultSettings) -> Failure {
    unreachable(format!(
        "{} answered with status 200 and without an access token; check environment",
        settings.authority_host
    ))
}

fn redirected(url: &str, status: u16) -> Failure {
    unavailable(format!(
        "{url} redirects (status {status}), and a seal follows no redirect; check the URL"
    ))
}
