//! Why something was not done: one kind for the machine, one message for the person.
//!
//! This is the only table from kind to HTTP status (decision P4) and to the codes of
//! `wit/types.wit`.
//!
//! The attack this file stops: a value that was sent, read in a record of the refusal. What may be
//! said to the caller is not what may be recorded: a message that was put together may repeat any
//! value, and is recorded only where its author says that it repeats none.

use std::borrow::Cow;
use std::fmt;

/// What kind of refusal or fault this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The caller's mistake, or a refusal of an upstream: 400.
    InvalidRequest,
    /// 403; the message always contains `permission denied`.
    PermissionDenied,
    /// 404.
    NotFound,
    /// 405.
    UnsupportedOperation,
    /// 412.
    PreconditionFailed,
    /// 413.
    TooLarge,
    /// 415.
    UnsupportedMediaType,
    /// 429.
    RateLimited,
    /// 431.
    HeadersTooLarge,
    /// An upstream could not be reached: 502.
    Unreachable,
    /// An upstream or the call itself took too long: 502.
    TimedOut,
    /// Sealed or overloaded: 503.
    Unavailable,
    /// A concurrent change, still there after all retries: 503.
    Conflict,
    /// Our own fault, rolled back: 500.
    Internal,
}

impl Kind {
    /// The HTTP status.
    #[must_use]
    pub fn status(self) -> u16 {
        match self {
            Self::InvalidRequest => 400,
            Self::PermissionDenied => 403,
            Self::NotFound => 404,
            Self::UnsupportedOperation => 405,
            Self::PreconditionFailed => 412,
            Self::TooLarge => 413,
            Self::UnsupportedMediaType => 415,
            Self::RateLimited => 429,
            Self::HeadersTooLarge => 431,
            Self::Internal => 500,
            Self::Unreachable | Self::TimedOut => 502,
            Self::Unavailable | Self::Conflict => 503,
        }
    }

    /// The code that crosses the plugin contract.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::InvalidRequest => "invalid-request",
            Self::PermissionDenied => "permission-denied",
            Self::NotFound => "not-found",
            Self::UnsupportedOperation => "unsupported-operation",
            Self::PreconditionFailed => "precondition-failed",
            Self::TooLarge => "too-large",
            Self::UnsupportedMediaType => "unsupported-media-type",
            Self::RateLimited => "rate-limited",
            Self::HeadersTooLarge => "headers-too-large",
            Self::Unreachable => "unreachable",
            Self::TimedOut => "timed-out",
            Self::Unavailable => "unavailable",
            Self::Conflict => "conflict",
            Self::Internal => "internal",
        }
    }

    /// The kind behind a code; an unknown code is a fault of the component that sent it.
    #[must_use]
    pub fn of_code(code: &str) -> Self {
        match code {
            "invalid-request" => Self::InvalidRequest,
            "permission-denied" => Self::PermissionDenied,
            "not-found" => Self::NotFound,
            "unsupported-operation" => Self::UnsupportedOperation,
            "precondition-failed" => Self::PreconditionFailed,
            "too-large" => Self::TooLarge,
            "unsupported-media-type" => Self::UnsupportedMediaType,
            "rate-limited" => Self::RateLimited,
            "headers-too-large" => Self::HeadersTooLarge,
            "unreachable" => Self::Unreachable,
            "timed-out" => Self::TimedOut,
            "unavailable" => Self::Unavailable,
            "conflict" => Self::Conflict,
            _ => Self::Internal,
        }
    }
}

/// A refusal or fault, with a message that the caller may read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Decides the status and whether anything is tried again.
    pub kind: Kind,
    /// What was wrong, which value, what to do. Empty for an object that does not exist (404,
    /// `errors: []`).
    pub message: String,
    /// Milliseconds after which another attempt makes sense.
    pub retry_after: Option<u64>,
    /// What of the message may be recorded, because it repeats nothing that was sent but names and
    /// paths; empty for nothing.
    pub recorded: String,
}

/// A message for the caller, and what of it may be recorded: all of a text that stands in the
/// program, nothing of one that was put together.
pub struct Message {
    said: String,
    recorded: String,
}

impl From<&'static str> for Message {
    fn from(text: &'static str) -> Self {
        Self { said: text.to_owned(), recorded: text.to_owned() }
    }
}

impl From<String> for Message {
    fn from(said: String) -> Self {
        Self { said, recorded: String::new() }
    }
}

/// As a text that was put together, wherever it comes from.
impl From<Cow<'_, str>> for Message {
    fn from(said: Cow<'_, str>) -> Self {
        Self::from(said.into_owned())
    }
}

impl Failure {
    /// A failure of `kind`.
    pub fn new(kind: Kind, message: impl Into<Message>) -> Self {
        let Message { said, recorded } = message.into();
        Self { kind, message: said, retry_after: None, recorded }
    }

    /// The same, whose message may be recorded: it repeats nothing that was sent but names and
    /// paths.
    #[must_use]
    pub fn recordable(self) -> Self {
        Self { recorded: self.message.clone(), ..self }
    }

    /// 400.
    pub fn invalid(message: impl Into<Message>) -> Self {
        Self::new(Kind::InvalidRequest, message)
    }

    /// 403. The text that clients match stands in front.
    pub fn denied(why: impl Into<Message>) -> Self {
        let Message { said, recorded } = why.into();
        let denied = "permission denied";
        let told = match recorded.is_empty() {
            true => denied.to_owned(),
            false => format!("{denied}: {recorded}"),
        };
        let message = format!("{denied}: {said}");
        Self { kind: Kind::PermissionDenied, message, retry_after: None, recorded: told }
    }

    /// 404 for an object that does not exist: an empty list of errors, as clients expect.
    #[must_use]
    pub fn absent() -> Self {
        Self::new(Kind::NotFound, "")
    }

    /// 500. Say what failed, never with what values.
    pub fn internal(message: impl Into<Message>) -> Self {
        Self::new(Kind::Internal, message)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind.code(), self.message)
    }
}

impl std::error::Error for Failure {}

/// A text from outside as it stands in a message: quoted, control characters escaped, cut after 64
/// characters.
///
/// Never for a secret.
#[must_use]
pub fn quoted(text: &str) -> String {
    let mut shown: String = text.chars().take(64).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    format!("{shown:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_found_again_by_its_code() {
        let kinds = [
            Kind::InvalidRequest,
            Kind::PermissionDenied,
            Kind::NotFound,
            Kind::UnsupportedOperation,
            Kind::PreconditionFailed,
            Kind::TooLarge,
            Kind::UnsupportedMediaType,
            Kind::RateLimited,
            Kind::HeadersTooLarge,
            Kind::Unreachable,
            Kind::TimedOut,
            Kind::Unavailable,
            Kind::Conflict,
            Kind::Internal,
        ];
        for kind in kinds {
            assert_eq!(Kind::of_code(kind.code()), kind);
        }
        assert_eq!(Kind::of_code("Not-Found"), Kind::Internal);
    }

    #[test]
    fn a_message_that_was_put_together_is_recorded_only_where_its_author_says_so() {
        assert_eq!(Failure::invalid("key is required").recorded, "key is required");
        let together = Failure::invalid(format!("ttl: {} is no duration", quoted("hunter2")));
        assert_eq!(together.recorded, "");
        let more = Failure { message: format!("config.{}", together.message), ..together };
        assert_eq!(more.recorded, "");
        let path = Failure::denied("this token may not read x").recordable();
        assert_eq!(path.recorded, path.message);
    }

    #[test]
    fn a_quoted_text_is_short_and_cannot_forge_a_line() {
        assert_eq!(quoted("a\nlevel=error \u{1b}[2J\""), r#""a\nlevel=error \u{1b}[2J\"""#);
        assert_eq!(quoted(&"ü".repeat(65)), format!("\"{}…\"", "ü".repeat(64)));
        assert_eq!(quoted(&"ü".repeat(64)), format!("\"{}\"", "ü".repeat(64)));
    }
}
