//! What a line says is wrong.
//!
//! The attack this file stops: a refusal that repeats, readable, what the line beside it hashes. What
//! the caller reads is one text, and what may be recorded is another.

use bulkhead_wire::failure::Failure;
use bulkhead_wire::response::{Body, Response};

/// What is wrong, as a line tells it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Refusal {
    /// What may be read in a line.
    pub(super) shown: String,
    /// What the caller reads beside it, which is hashed like every text that may be a value.
    pub(super) hashed: String,
}

impl Refusal {
    /// The reason of a failure.
    pub(crate) fn of(failure: &Failure) -> Self {
        let Failure { kind, message, recorded, .. } = failure;
        if recorded == message {
            return Self { shown: message.clone(), hashed: String::new() };
        }
        let shown = if recorded.is_empty() { kind.code() } else { recorded };
        Self { shown: shown.to_owned(), hashed: message.clone() }
    }

    /// What an answer says is wrong that was no failure.
    pub(super) fn in_answer(response: &Response) -> Self {
        match &response.body {
            Body::Errors(errors) if !errors.is_empty() => {
                Self { shown: response.status.to_string(), hashed: errors.join("; ") }
            }
            _ => Self::default(),
        }
    }
}
