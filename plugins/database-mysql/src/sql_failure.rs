//! Translates failures of the `sql` import into refusals.
//!
//! Prevents the leak of a statement's text, which the database repeats in its error message. The
//! message is dropped; the error number and the names of the target remain.

use crate::codes::Code;
use bulkhead_sdk::connection::describe_failure;
use bulkhead_sdk::database_plugin::{DatabaseTarget, Refusal, SqlFailure};

/// Error numbers of acts that the connection's user may not do.
const DENIED: [&str; 7] = ["1044", "1142", "1143", "1227", "1370", "1410", "3879"];

/// Error numbers of a password refused by the server's password rules.
const WEAK: [&str; 2] = ["1819", "3638"];

/// Error number of an operation on an account that already exists or does not exist.
pub(crate) const NAME_TAKEN: &str = "1396";

/// Returns the code for a refused login by error number. The server reports a password that must be
/// reset at the login or at the first statement after the login.
fn refused_login(number: Option<&str>) -> Code {
    match number {
        Some("1049") => Code::DatabaseMissing,
        Some("1044") => Code::DatabaseClosed,
        Some("1820" | "1862") => Code::PasswordExpired,
        Some("3118" | "3955" | "4150" | "4151") => Code::AccountLocked,
        Some("1130") => Code::HostNotAdmitted,
        Some("3159") => Code::TlsRequired,
        _ => Code::Refused,
    }
}

/// Translates a failure of the `sql` import and drops its message.
pub(crate) fn refusal(failure: SqlFailure, at: &DatabaseTarget) -> Refusal {
    let is_in =
        |numbers: &[&str]| failure.sqlstate.as_deref().is_some_and(|n| numbers.contains(&n));
    let code = match failure.code.as_str() {
        "unreachable" => Code::Unreachable,
        "refused" => refused_login(failure.sqlstate.as_deref()),
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
    fn a_refusal_is_told_with_the_cause_that_the_server_told() {
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
