//! Translates failures of the `sql` import into refusals.
//!
//! This file prevents the leak of a statement's text, which the database repeats in its error
//! message. The message is dropped; the error number and the names of the target remain.

use crate::codes::Code;
use bulkhead_sdk::connection::describe_failure;
use bulkhead_sdk::database_plugin::{DatabaseTarget, Refusal, SqlFailure};

/// Error numbers of acts that the connection's user may not do.
const DENIED: [&str; 7] = ["1044", "1142", "1143", "1227", "1370", "1410", "3879"];

/// Error numbers of a password refused by the server's password rules.
const WEAK: [&str; 2] = ["1819", "3638"];

/// Error number of an operation on an account that already exists or does not exist.
pub(crate) const NAME_TAKEN: &str = "1396";

/// Conclusion of a refused login about the password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PasswordVerdict {
    /// The server checked the password before the reason of its refusal.
    Right,
    /// The password is wrong, or no account takes logins from here: the server has one number for
    /// both, and for missing TLS.
    Denied,
    /// The server refuses the user with any password.
    Unknown,
    /// The user is at its own limit, or blocked after failed logins.
    Limited,
    /// The server has no free session for anybody.
    Full,
}

/// The cause of a login that the server answers with an error. Proofs of a password and messages
/// about a connection have this one table. The server reports a password that must be reset at the
/// login or at the first statement after the login.
///
/// Source: sql_authentication.cc of MySQL 8.0 and sql_acl.cc of MariaDB 10.11;
/// `tests/e2e/mysql/login_causes.rs` provokes each row that MariaDB has.
const LOGIN_CAUSES: &[(&str, PasswordVerdict, Code)] = &[
    ("1045", PasswordVerdict::Denied, Code::Refused),
    ("1049", PasswordVerdict::Right, Code::DatabaseMissing),
    ("1044", PasswordVerdict::Right, Code::DatabaseClosed),
    ("1820", PasswordVerdict::Right, Code::PasswordExpired),
    ("1862", PasswordVerdict::Right, Code::PasswordExpired),
    ("3118", PasswordVerdict::Unknown, Code::AccountLocked),
    ("4151", PasswordVerdict::Unknown, Code::AccountLocked),
    ("3955", PasswordVerdict::Limited, Code::AccountLocked),
    ("4150", PasswordVerdict::Limited, Code::AccountLocked),
    ("1130", PasswordVerdict::Unknown, Code::HostNotAdmitted),
    ("3159", PasswordVerdict::Unknown, Code::TlsRequired),
    ("1203", PasswordVerdict::Limited, Code::SessionsExhausted),
    ("1226", PasswordVerdict::Limited, Code::SessionsExhausted),
    ("1040", PasswordVerdict::Full, Code::SessionsExhausted),
];

/// Returns what the server's answer to a login says; `None` for another failure.
pub(crate) fn login_cause(failure: &SqlFailure) -> Option<(PasswordVerdict, Code)> {
    let number = failure.sqlstate.as_deref()?;
    let row = LOGIN_CAUSES.iter().find(|(code, _, _)| *code == number);
    let cause = row.map(|(_, verdict, code)| (*verdict, *code));
    match failure.code.as_str() {
        "refused" => cause.or(Some((PasswordVerdict::Unknown, Code::Refused))),
        "unreachable" => cause.filter(|(_, code)| *code == Code::SessionsExhausted),
        _ => None,
    }
}

/// Translates a failure of the `sql` import and drops its message.
pub(crate) fn refusal(failure: SqlFailure, at: &DatabaseTarget) -> Refusal {
    if let Some((_, code)) = login_cause(&failure) {
        return describe_failure(code.refusal(), failure, at);
    }
    let is_in =
        |numbers: &[&str]| failure.sqlstate.as_deref().is_some_and(|n| numbers.contains(&n));
    let code = match failure.code.as_str() {
        "unreachable" if failure.tls.is_some() => Code::TlsFailed,
        "unreachable" => Code::Unreachable,
        "refused" => Code::Refused,
        "timed-out" => Code::TimedOut,
        "conflict" => Code::Conflict,
        "permission-denied" => Code::PermissionDenied,
        "forbidden-address" => Code::ForbiddenAddress,
        "invalid-request" => Code::InvalidConfig,
        _ if is_in(&["1820"]) => Code::PasswordExpired,
        _ if is_in(&[NAME_TAKEN]) => Code::NameTaken,
        _ if is_in(&DENIED) => Code::InsufficientPrivilege,
        _ if is_in(&WEAK) => Code::PasswordPolicy,
        _ => Code::StatementFailed,
    };
    describe_failure(code.refusal(), failure, at)
}

/// Tells if nothing was begun, so that certainly nothing remains.
pub(crate) fn is_nothing_begun(failure: &SqlFailure) -> bool {
    ["refused", "permission-denied", "forbidden-address", "invalid-request"]
        .contains(&failure.code.as_str())
}

/// Tells if the failure has any of these error numbers.
pub(crate) fn has_number(failure: &SqlFailure, numbers: &[&str]) -> bool {
    failure.sqlstate.as_deref().is_some_and(|number| numbers.contains(&number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::ParsedConnection;
    use bulkhead_sdk::sql_script::SqlScript;

    #[test]
    fn refusal_code_follows_server_error_number() {
        let settings = SqlScript::settings("root:x@tcp(db:3306)/orders");
        let target = ParsedConnection::read(&settings).unwrap().target;
        for (kind, number, code) in [
            ("refused", "1045", "refused"),
            ("refused", "1049", "database-missing"),
            ("refused", "1044", "database-closed"),
            ("refused", "1820", "password-expired"),
            ("refused", "1862", "password-expired"),
            ("statement-failed", "1820", "password-expired"),
            ("refused", "3118", "account-locked"),
            ("refused", "3955", "account-locked"),
            ("refused", "4150", "account-locked"),
            ("refused", "4151", "account-locked"),
            ("refused", "1130", "host-not-admitted"),
            ("refused", "3159", "tls-required"),
            ("refused", "1251", "refused"),
            ("unreachable", "1040", "sessions-exhausted"),
            ("unreachable", "1203", "sessions-exhausted"),
            ("unreachable", "1226", "sessions-exhausted"),
            ("unreachable", "1053", "unreachable"),
            ("statement-failed", "1044", "insufficient-privilege"),
            ("statement-failed", "3879", "insufficient-privilege"),
            ("statement-failed", "4166", "statement-failed"),
            ("statement-failed", "1396", "name-taken"),
            ("statement-failed", "1064", "statement-failed"),
        ] {
            let refusal = refusal(SqlScript::failure(kind, Some(number)), &target);
            assert_eq!(refusal.code, code, "{kind} {number}");
            let database = ("database".to_owned(), "orders".to_owned());
            assert!(refusal.ext.contains(&database), "{:?}", refusal.ext);
        }
    }
}
