//! Refusals in the form that the scheduler's clients know: a status and one bare sentence.

use bulkhead_sdk::Failure;
use bulkhead_sdk::raw::RawReply as Sent;
use std::fmt;

/// The reason why a request was not served here.
#[derive(Debug)]
pub(crate) enum ApiRefusal {
    /// An answer of the contract.
    Answered {
        /// HTTP status.
        status: u16,
        /// Plain text without a newline at the end.
        text: String,
    },
    /// The unchanged answer of another region.
    Elsewhere(ForeignReply),
    /// A failure of the host. The host chooses the wording of the answer.
    Failed(Failure),
}

/// The answer of another region.
pub(crate) struct ForeignReply(pub(crate) Sent);

impl fmt::Debug for ForeignReply {
    /// Shows only the status, because the body may contain a token.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "ForeignReply({})", self.0.status)
    }
}

impl From<Failure> for ApiRefusal {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl ApiRefusal {
    /// Creates a 400: the request has to change.
    pub(crate) fn invalid(text: impl Into<String>) -> Self {
        Self::Answered { status: 400, text: text.into() }
    }

    /// Creates a 404 with this text.
    pub(crate) fn not_found(text: impl Into<String>) -> Self {
        Self::Answered { status: 404, text: text.into() }
    }

    /// Creates a 403 with the text that clients look for.
    #[must_use]
    pub(crate) fn denied() -> Self {
        Self::Answered { status: 403, text: "Permission denied".to_owned() }
    }

    /// Creates a 500 for an unknown region, with the text that clients look for.
    #[must_use]
    pub(crate) fn no_path() -> Self {
        Self::Answered { status: 500, text: "No path to region".to_owned() }
    }

    /// Creates a 405: the path does not support the method.
    #[must_use]
    pub(crate) fn method() -> Self {
        Self::Answered { status: 405, text: "Invalid method".to_owned() }
    }
}

/// Problems of one record, collected so that the caller can fix all of them at once.
#[derive(Default)]
pub(crate) struct RecordProblems(Vec<String>);

impl RecordProblems {
    /// Adds `problem` unless `holds`.
    pub(crate) fn demand(&mut self, holds: bool, problem: impl Into<String>) {
        if !holds {
            self.0.push(problem.into());
        }
    }

    /// Refuses the record if there are problems. `subject` begins the message: `role 0 invalid`.
    ///
    /// # Errors
    /// 400 with the list that clients print.
    pub(crate) fn refuse(self, subject: &str) -> Result<(), ApiRefusal> {
        let (count, noun) = match self.0.len() {
            0 => return Ok(()),
            1 => (1, "error"),
            more => (more, "errors"),
        };
        let lines: String = self.0.iter().map(|problem| format!("\t* {problem}\n")).collect();
        Err(ApiRefusal::invalid(format!("{subject}: {count} {noun} occurred:\n{lines}\n")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_are_counted_and_listed() {
        let refused = |problems: &[&str]| {
            let mut list = RecordProblems::default();
            problems.iter().for_each(|problem| list.demand(false, *problem));
            match list.refuse("role 0 invalid") {
                Err(ApiRefusal::Answered { status: 400, text }) => text,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(refused(&["a"]), "role 0 invalid: 1 error occurred:\n\t* a\n\n");
        let two = "role 0 invalid: 2 errors occurred:\n\t* a\n\t* b\n\n";
        assert_eq!(refused(&["a", "b"]), two);
        assert!(RecordProblems::default().refuse("role 0 invalid").is_ok());
    }
}
