//! Failures of requests to a provider, and the failure that the caller receives (decision P4).

use crate::http::{Request, Response};
use bulkhead_wire::failure::{Failure, FailureKind};
use serde_json::Value;

/// Maximum length of a provider's code that an error repeats, in characters.
const CODE: usize = 64;

/// Failure of a request to a provider. No text repeats more than a code of the provider's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProviderRefusal {
    /// The provider refused; nothing changed.
    Said {
        /// HTTP status, 4xx.
        status: u16,
        /// Code of the provider, such as `ResourceNotFound`; empty if the answer has none.
        code: String,
        /// Server, status and code.
        message: String,
        /// Milliseconds until the provider allows a retry.
        retry_after: Option<u64>,
    },
    /// The host refused to send the request.
    Unasked(Failure),
    /// The provider is unreachable or out of order. The request may have had an effect.
    Down(Failure),
    /// The answer is not as documented, or not from the provider's API. The request may have had an
    /// effect.
    Nonsense(Failure),
}

impl ProviderRefusal {
    /// Returns the failure. The message begins with the attempted action, such as
    /// `look up the virtual machine`.
    #[must_use]
    pub fn about(self, tried: &str) -> Failure {
        let (kind, message, retry_after) = match self {
            Self::Said { status: 429, message, retry_after, .. } => {
                (FailureKind::RateLimited, message, retry_after)
            }
            Self::Said { message, .. } => (FailureKind::InvalidRequest, message, None),
            Self::Unasked(why) | Self::Down(why) | Self::Nonsense(why) => {
                (why.kind, why.message, why.retry_after)
            }
        };
        Failure { retry_after, ..Failure::new(kind, format!("failed to {tried}: {message}")) }
    }

    /// Returns true if the provider refused with this status.
    #[must_use]
    pub fn is(&self, wanted: u16) -> bool {
        matches!(self, Self::Said { status, .. } if *status == wanted)
    }

    /// Returns true if the request certainly changed nothing.
    #[must_use]
    pub fn is_certain(&self) -> bool {
        matches!(self, Self::Said { .. } | Self::Unasked(_))
    }

    /// Returns `Some` if the failure may be temporary, with the provider's delay before a retry in
    /// milliseconds, if known.
    pub(super) fn passes(&self) -> Option<Option<u64>> {
        match self {
            Self::Said { status: 408 | 429, retry_after, .. } => Some(*retry_after),
            Self::Down(why) => Some(why.retry_after),
            _ => None,
        }
    }

    /// Returns the refusal for a request without an answer.
    pub(super) fn unsent(why: Failure, request: &Request) -> Self {
        match why.kind {
            FailureKind::Unreachable | FailureKind::TimedOut => Self::Down(Failure {
                message: format!("{} could not be asked: {}", server(request), why.message),
                ..why
            }),
            FailureKind::Unavailable => Self::Down(why),
            FailureKind::TooLarge => Self::too_large(request),
            _ => Self::Unasked(why),
        }
    }

    /// Returns the refusal for an answer with a status other than success.
    pub(super) fn answered(answer: &Response, request: &Request) -> Self {
        let seconds = answer.header("retry-after").and_then(|after| after.parse::<u64>().ok());
        let retry_after = seconds.map(|seconds| seconds.saturating_mul(1_000));
        let (status, code) = (answer.status, code(answer));
        let said = if code.is_empty() { String::new() } else { format!(" ({code})") };
        let message = format!("{} answered {status}{said}", server(request));
        let unreachable =
            |message| Failure { retry_after, ..Failure::new(FailureKind::Unreachable, message) };
        match status {
            400..=499 => Self::Said { status, code, message, retry_after },
            500..=599 => Self::Down(unreachable(message)),
            300..=399 => Self::Nonsense(unreachable(format!("{message}, which is not followed"))),
            _ => Self::Nonsense(unreachable(message)),
        }
    }

    pub(super) fn too_large(request: &Request) -> Self {
        Self::Nonsense(Failure::new(
            FailureKind::Unreachable,
            format!("{} answered more than 1 MiB", server(request)),
        ))
    }

    pub(super) fn shapeless(request: &Request) -> Self {
        Self::Nonsense(Failure::new(
            FailureKind::Unreachable,
            format!("{} answered with an invalid body", server(request)),
        ))
    }
}

/// Returns host and port of the request's URL.
fn server(request: &Request) -> &str {
    let behind = request.url.split_once("://").map_or("", |(_, behind)| behind);
    behind.split(['/', '?']).next().unwrap_or_default()
}

/// Returns the provider's code for a refusal: Google's `error.status`, Azure's `error.code`, or
/// OAuth's `error` with the number at the beginning of Azure's description.
fn code(answer: &Response) -> String {
    let Ok(body) = serde_json::from_slice::<Value>(&answer.body) else { return String::new() };
    let error = body.get("error").unwrap_or(&Value::Null);
    let word_of_object = || word(error.get("status")).or_else(|| word(error.get("code")));
    let Some(found) = word(Some(error)).or_else(word_of_object) else { return String::new() };
    let described = body.get("error_description").and_then(Value::as_str).unwrap_or_default();
    match described.split(':').next().filter(|first| is_number_of_azure(first)) {
        Some(number) => format!("{found}, {number}"),
        None => found.to_owned(),
    }
}

/// Returns the text if it is a single word of bounded length, which cannot forge a log line.
fn word(value: Option<&Value>) -> Option<&str> {
    let text = value?.as_str()?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    ((1..=CODE).contains(&text.len()) && text.bytes().all(is_plain)).then_some(text)
}

fn is_number_of_azure(text: &str) -> bool {
    let digits = text.strip_prefix("AADSTS").unwrap_or_default();
    (1..=CODE).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit())
}
