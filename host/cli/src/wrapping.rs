//! Effect of a wrapping time (`-wrap-ttl`, `BULKHEAD_WRAP_TTL`, `VAULT_WRAP_TTL`) on a command.
//!
//! This file prevents a secret in the clear where the caller asked for a wrapping token: every
//! command states its effect, and requests are built in one place that reads the statement.

use crate::client::ServerAnswer;
use crate::output;
use crate::problem::CommandProblem;

/// The effect of a wrapping time on a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnswerWrapping {
    /// The request whose answer is printed asks for a wrapped answer. Requests whose answers the
    /// command reads itself do not.
    Sent,
    /// As [`Self::Sent`]. The server never wraps the answer, which everybody may read and which
    /// holds no secret.
    Public,
    /// A wrapping time is refused for this reason.
    Refused(&'static str),
    /// The command asks no server. The option is refused, and the variables have no effect.
    Offline,
}

/// Reason of commands whose answers hold keys for callers without a token.
pub(crate) const NEVER_WRAPPED: &str =
    "the server wraps no answer for callers without a token, and the keys would be shown";

impl AnswerWrapping {
    /// Checks that an answer may be asked for with a wrapping time.
    ///
    /// # Errors
    /// A command that refuses the wrapping time, with the reason.
    pub(crate) fn check(self) -> Result<(), CommandProblem> {
        let Self::Refused(reason) = self else { return Ok(()) };
        Err(CommandProblem::usage(format!(
            "this answer cannot be wrapped: {reason}; leave -wrap-ttl out, and give -wrap-ttl= if \
             BULKHEAD_WRAP_TTL or VAULT_WRAP_TTL is set"
        )))
    }

    /// Returns the warning about an answer that is not wrapped although wrapping was asked for.
    pub(crate) fn warning(self, answer: &ServerAnswer) -> Option<&'static str> {
        let is_clear = !answer.body.is_null() && !output::is_wrapped(&answer.body);
        (self == Self::Sent && is_clear).then_some("warning: the server did not wrap this answer")
    }
}
