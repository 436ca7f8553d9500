//! Refusals and faults: a kind for programs, and a message for people.
//!
//! This is the only table from kind to HTTP status (decision P4) and to the codes of
//! `wit/types.wit`.
//!
//! The attack this file prevents: reading a submitted value in the record of a refusal. The caller
//! may read more than may be recorded: a formatted message can repeat any value, and is recorded
//! only if its author declares it free of values.

use std::borrow::Cow;
use std::fmt;

/// The kind of a refusal or fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
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
    /// A conflict with a concurrent change that persisted through all retries: 503.
    Conflict,
    /// Stored data that another version of Bulkhead wrote and this version does not read: 503. Only
    /// the host fails so.
    OtherVersion,
    /// A bug or fault of the server, rolled back: 500.
    Internal,
}

impl FailureKind {
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
            Self::Unavailable | Self::Conflict | Self::OtherVersion => 503,
        }
    }

    /// Returns the code, as in the contract of components and in logs.
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
            Self::OtherVersion => "other-version",
            Self::Internal => "internal",
        }
    }

    /// Returns the kind of a code. An unknown code, or a code of the host alone, is a fault of the
    /// component that sent the code.
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

/// A refusal or fault, with a message for the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Decides the status, and whether the operation is retried.
    pub kind: FailureKind,
    /// The mistake, the value, and the remedy. Empty for an object that does not exist (404,
    /// `errors: []`).
    pub message: String,
    /// Milliseconds until the client should retry.
    pub retry_after: Option<u64>,
    /// The part of the message that may be recorded, because it repeats no submitted value except
    /// names and paths. May be empty.
    pub recorded: String,
    /// The message also leaves as a warning. Published clients show the warnings of a 404 and pass
    /// over its errors.
    pub is_warning: bool,
}

/// A message for the caller, with its recordable part: all of a text literal, nothing of a
/// formatted text.
pub struct FailureMessage {
    said: String,
    recorded: String,
}

impl From<&'static str> for FailureMessage {
    fn from(text: &'static str) -> Self {
        Self { said: text.to_owned(), recorded: text.to_owned() }
    }
}

impl From<String> for FailureMessage {
    fn from(said: String) -> Self {
        Self { said, recorded: String::new() }
    }
}

/// Treated as a formatted text, even if borrowed.
impl From<Cow<'_, str>> for FailureMessage {
    fn from(said: Cow<'_, str>) -> Self {
        Self::from(said.into_owned())
    }
}

impl Failure {
    /// Returns a failure of `kind`.
    pub fn new(kind: FailureKind, message: impl Into<FailureMessage>) -> Self {
        let FailureMessage { said, recorded } = message.into();
        Self { kind, message: said, retry_after: None, recorded, is_warning: false }
    }

    /// Returns the recordable text, or the code of the kind if there is none.
    #[must_use]
    pub fn recorded_or_code(&self) -> &str {
        if self.recorded.is_empty() { self.kind.code() } else { &self.recorded }
    }

    /// Declares the whole message recordable: the message repeats no submitted value except names
    /// and paths.
    #[must_use]
    pub fn recordable(self) -> Self {
        Self { recorded: self.message.clone(), ..self }
    }

    /// Returns 400.
    pub fn invalid(message: impl Into<FailureMessage>) -> Self {
        Self::new(FailureKind::InvalidRequest, message)
    }

    /// Returns 403. The message begins with the text matched by clients.
    pub fn denied(why: impl Into<FailureMessage>) -> Self {
        let FailureMessage { said, recorded } = why.into();
        let denied = "permission denied";
        let record_text = match recorded.is_empty() {
            true => denied.to_owned(),
            false => format!("{denied}: {recorded}"),
        };
        let message = format!("{denied}: {said}");
        let refused = Self::new(FailureKind::PermissionDenied, message);
        Self { recorded: record_text, ..refused }
    }

    /// Returns 404 for an object that does not exist: an empty list of errors, as clients expect.
    #[must_use]
    pub fn absent() -> Self {
        Self::new(FailureKind::NotFound, "")
    }

    /// Returns 404 for a path that is served elsewhere: the message names the other path.
    pub fn moved(message: impl Into<FailureMessage>) -> Self {
        Self { is_warning: true, ..Self::new(FailureKind::NotFound, message) }
    }

    /// Returns 500. The message must name the failed operation, never any values.
    pub fn internal(message: impl Into<FailureMessage>) -> Self {
        Self::new(FailureKind::Internal, message)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind.code(), self.message)
    }
}

impl std::error::Error for Failure {}

/// Returns outside text for a message: quoted, control characters escaped, cut after 64 characters.
///
/// Never use this for a secret.
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
            FailureKind::InvalidRequest,
            FailureKind::PermissionDenied,
            FailureKind::NotFound,
            FailureKind::UnsupportedOperation,
            FailureKind::PreconditionFailed,
            FailureKind::TooLarge,
            FailureKind::UnsupportedMediaType,
            FailureKind::RateLimited,
            FailureKind::HeadersTooLarge,
            FailureKind::Unreachable,
            FailureKind::TimedOut,
            FailureKind::Unavailable,
            FailureKind::Conflict,
            FailureKind::Internal,
        ];
        for kind in kinds {
            assert_eq!(FailureKind::of_code(kind.code()), kind);
        }
        for unknown in ["Not-Found", FailureKind::OtherVersion.code()] {
            assert_eq!(FailureKind::of_code(unknown), FailureKind::Internal);
        }
    }

    #[test]
    fn assembled_message_is_recorded_only_if_author_allows() {
        assert_eq!(Failure::invalid("key is required").recorded, "key is required");
        let together = Failure::invalid(format!("ttl: {} is not a duration", quoted("hunter2")));
        assert_eq!(together.recorded, "");
        let more = Failure { message: format!("config.{}", together.message), ..together };
        assert_eq!(more.recorded, "");
        let path = Failure::denied("this token may not read x").recordable();
        assert_eq!(path.recorded, path.message);
    }

    #[test]
    fn quoted_text_is_short_and_forges_no_line() {
        assert_eq!(quoted("a\nlevel=error \u{1b}[2J\""), r#""a\nlevel=error \u{1b}[2J\"""#);
        assert_eq!(quoted(&"ü".repeat(65)), format!("\"{}…\"", "ü".repeat(64)));
        assert_eq!(quoted(&"ü".repeat(64)), format!("\"{}\"", "ü".repeat(64)));
    }
}
