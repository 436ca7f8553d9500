//! The reason of a refused request, as an audit line shows it.
//!
//! This file prevents the disclosure of a value in the error text when the same value is hashed in
//! the data.

use bulkhead_wire::failure::Failure;
use bulkhead_wire::response::{Response, ResponseBody};

/// The reason of a refusal, as an audit line shows it.
#[derive(Clone, Debug, Default)]
pub struct RefusalReason {
    /// The readable part.
    pub(super) shown: String,
    /// The rest of the message to the caller. The line hashes it, because it may repeat a value.
    pub(super) hashed: String,
}

impl RefusalReason {
    /// Returns the reason of a failure.
    pub fn of(failure: &Failure) -> Self {
        let Failure { message, recorded, .. } = failure;
        let hashed = if recorded == message { String::new() } else { message.clone() };
        Self { shown: failure.recorded_or_code().to_owned(), hashed }
    }

    /// Returns the error of an answer that did not come from a [`Failure`].
    pub(super) fn in_answer(response: &Response) -> Self {
        match &response.body {
            ResponseBody::Errors(errors) if !errors.is_empty() => {
                Self { shown: response.status.to_string(), hashed: errors.join("; ") }
            }
            ResponseBody::Advice(text) => {
                Self { shown: response.status.to_string(), hashed: text.clone() }
            }
            _ => Self::default(),
        }
    }
}
