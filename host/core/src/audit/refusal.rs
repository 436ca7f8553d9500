//! What is wrong with a request, as a line tells it.
//!
//! The attack this file stops: a value that was sent, hashed in the data of a line and read in its
//! error.

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
        let Failure { message, recorded, .. } = failure;
        let hashed = if recorded == message { String::new() } else { message.clone() };
        Self { shown: failure.recorded_or_code().to_owned(), hashed }
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
