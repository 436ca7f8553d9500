//! Causes of refused logins, and the trial of a credential by a login.
//!
//! This file prevents a password from being taken for wrong if the server refused the user for
//! another reason. Such a password may be the only valid password, and must not be lost.

use super::failed::{TargetFailure, describe_failure};
use super::users::log_in_as;
use crate::database_plugin::{Credential, DatabaseTarget, Refusal, SqlFailure, SqlHost};

/// Conclusion of a refused login about the password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PasswordVerdict {
    /// The server checked the password before the reason of its refusal.
    Right,
    /// The password is wrong, or another reason with the same code of the server applies.
    Denied,
    /// The server refuses the user with any password.
    Unknown,
    /// A limit is reached that may be the user's own, or the user is blocked after failed logins.
    Limited,
    /// The server has no free session for anybody.
    Full,
}

/// The causes of the logins that a kind of server answers with an error, with the codes `C` of the
/// plugin's refusals. Proofs of a password and messages about a connection have this one table.
pub struct LoginCauses<C: 'static> {
    /// The server's own code of each cause, its conclusion, and the code of its refusal.
    pub causes: &'static [(&'static str, PasswordVerdict, C)],
    /// Code of the refusal for any other answer to a login.
    pub other: C,
    /// Code of the causes that the host also reports as `unreachable`.
    pub sessions_exhausted: C,
}

impl<C: Copy + PartialEq + Into<Refusal> + 'static> LoginCauses<C> {
    /// Translates a failure of the `sql` import and drops its message. `answer_code` returns the
    /// code of a failure that is neither a refused login nor a [`TargetFailure`].
    pub fn refusal(
        &self,
        failure: SqlFailure,
        at: &DatabaseTarget,
        answer_code: impl FnOnce(&SqlFailure) -> C,
    ) -> Refusal {
        let refusal = match (self.find(&failure), TargetFailure::of(&failure)) {
            (Some((_, code)), _) => code.into(),
            (None, Some(code)) => code.into(),
            (None, None) => answer_code(&failure).into(),
        };
        describe_failure(refusal, failure, at)
    }

    /// Returns the conclusion and the code of the server's answer to a login; `None` for another
    /// failure.
    #[must_use]
    pub fn find(&self, failure: &SqlFailure) -> Option<(PasswordVerdict, C)> {
        let state = failure.sqlstate.as_deref()?;
        let row = self.causes.iter().find(|(code, _, _)| *code == state);
        let cause = row.map(|(_, verdict, code)| (*verdict, *code));
        match failure.code.as_str() {
            "refused" => cause.or(Some((PasswordVerdict::Unknown, self.other))),
            "unreachable" => cause.filter(|(_, code)| *code == self.sessions_exhausted),
            _ => None,
        }
    }
}

/// A login that tried a credential and failed. No `Debug`: the target holds the password.
pub struct FailedLogin {
    /// The failure of the login.
    pub failure: SqlFailure,
    /// The target with the login that was tried.
    pub target: DatabaseTarget,
    /// True if the connection has a user of its own that is not the tried user. Otherwise, no query
    /// is possible with the connection's own user, because its password is in question.
    pub is_another: bool,
}

/// Asks if the database accepts a login of `username` with `credential`. `conclude` explains a
/// login that failed. `None`: the server refuses the user for a reason other than the password, or
/// the credential is a certificate, whose key is not known here.
///
/// # Errors
/// As [`log_in_as`], and those of `conclude`.
pub fn try_credential(
    host: &dyn SqlHost,
    target: &DatabaseTarget,
    self_managed: bool,
    username: &str,
    credential: &Credential,
    conclude: impl FnOnce(FailedLogin) -> Result<Option<bool>, Refusal>,
) -> Result<Option<bool>, Refusal> {
    if matches!(credential, Credential::SubjectDn(_)) {
        return Ok(None);
    }
    let tried = log_in_as(target, username, credential)?;
    let Err(failure) = host.ping(&tried) else { return Ok(Some(true)) };
    let is_another = !self_managed && target.username != username;
    conclude(FailedLogin { failure, target: tried, is_another })
}
