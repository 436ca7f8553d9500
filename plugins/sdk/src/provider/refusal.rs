//! Why a provider did not do what it was asked, and what that is to the caller (decision P4).

use crate::http::{Request, Response};
use bulkhead_wire::failure::{Failure, Kind};
use serde_json::Value;

/// Longest code of a provider that is repeated, in characters.
const CODE: usize = 64;

/// Why a provider did not do what it was asked. No text holds more of its words than a code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It said no, and nothing was done.
    Said {
        /// The status of its answer: 4xx.
        status: u16,
        /// Its own word for why, such as `ResourceNotFound`; empty where it gave none.
        code: String,
        /// The server, and what it said.
        message: String,
        /// Milliseconds after which it wants to be asked again.
        retry_after: Option<u64>,
    },
    /// It was never asked: the host refused.
    Unasked(Failure),
    /// It cannot be reached, or does not work now. What it did is not known.
    Down(Failure),
    /// What answered is not the provider's API, or not as it should be. What it did is not known.
    Nonsense(Failure),
}

impl Refusal {
    /// The failure, beginning with what was tried: `look up the virtual machine`.
    #[must_use]
    pub fn about(self, tried: &str) -> Failure {
        let (kind, message, retry_after) = match self {
            Self::Said { status: 429, message, retry_after, .. } => {
                (Kind::RateLimited, message, retry_after)
            }
            Self::Said { message, .. } => (Kind::InvalidRequest, message, None),
            Self::Unasked(why) | Self::Down(why) | Self::Nonsense(why) => {
                (why.kind, why.message, why.retry_after)
            }
        };
        Failure { retry_after, ..Failure::new(kind, format!("failed to {tried}: {message}")) }
    }

    /// Whether the provider said so by that status.
    #[must_use]
    pub fn is(&self, wanted: u16) -> bool {
        matches!(self, Self::Said { status, .. } if *status == wanted)
    }

    /// Whether it is certain that nothing was done.
    #[must_use]
    pub fn is_certain(&self) -> bool {
        matches!(self, Self::Said { .. } | Self::Unasked(_))
    }

    /// Whether it may pass by itself, and after how many milliseconds where the provider says so.
    pub(super) fn passes(&self) -> Option<Option<u64>> {
        match self {
            Self::Said { status: 408 | 429, retry_after, .. } => Some(*retry_after),
            Self::Down(why) => Some(why.retry_after),
            _ => None,
        }
    }

    /// The request got no answer.
    pub(super) fn unsent(why: Failure, request: &Request) -> Self {
        match why.kind {
            Kind::Unreachable | Kind::TimedOut => Self::Down(Failure {
                message: format!("{} could not be asked: {}", server(request), why.message),
                ..why
            }),
            Kind::Unavailable => Self::Down(why),
            Kind::TooLarge => Self::too_large(request),
            _ => Self::Unasked(why),
        }
    }

    /// The answer has a status other than success.
    pub(super) fn answered(answer: &Response, request: &Request) -> Self {
        let seconds = answer.header("retry-after").and_then(|after| after.parse::<u64>().ok());
        let retry_after = seconds.map(|seconds| seconds.saturating_mul(1_000));
        let (status, code) = (answer.status, code(answer));
        let said = if code.is_empty() { String::new() } else { format!(" ({code})") };
        let message = format!("{} answered {status}{said}", server(request));
        let unreachable =
            |message| Failure { retry_after, ..Failure::new(Kind::Unreachable, message) };
        match status {
            400..=499 => Self::Said { status, code, message, retry_after },
            500..=599 => Self::Down(unreachable(message)),
            300..=399 => Self::Nonsense(unreachable(format!("{message}, which is not followed"))),
            _ => Self::Nonsense(unreachable(message)),
        }
    }

    pub(super) fn too_large(request: &Request) -> Self {
        Self::Nonsense(Failure::new(
            Kind::Unreachable,
            format!("{} answered more than 1 MiB", server(request)),
        ))
    }

    pub(super) fn shapeless(request: &Request) -> Self {
        Self::Nonsense(Failure::new(
            Kind::Unreachable,
            format!("{} answered what it should not", server(request)),
        ))
    }
}

/// The name of the server that is asked.
fn server(request: &Request) -> &str {
    let behind = request.url.split_once("://").map_or("", |(_, behind)| behind);
    behind.split(['/', '?']).next().unwrap_or_default()
}

/// The provider's own word for a refusal: `error.status` of Google, `error.code` of Azure, `error`
/// of OAuth with the number that Azure puts at the beginning of its description.
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

/// A word that cannot forge a line, and is no sentence.
fn word(value: Option<&Value>) -> Option<&str> {
    let text = value?.as_str()?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    ((1..=CODE).contains(&text.len()) && text.bytes().all(is_plain)).then_some(text)
}

fn is_number_of_azure(text: &str) -> bool {
    let digits = text.strip_prefix("AADSTS").unwrap_or_default();
    (1..=CODE).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit())
}
