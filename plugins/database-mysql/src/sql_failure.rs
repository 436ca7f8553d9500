//! From a failure of the `sql` import to a refusal.
//!
//! The attack this file stops: a statement's text, which the database repeats in an error. Its
//! words stay behind; its number and the names of what was asked go on.

use crate::codes::Code;
use bulkhead_sdk::connection::failed;
use bulkhead_sdk::database_plugin::{Refusal, SqlFailure, Target};

/// Numbers of what the connection's user may not do.
const DENIED: [&str; 6] = ["1044", "1142", "1143", "1227", "1370", "1410"];

/// Numbers of a password that the server's own rules refuse.
const WEAK: [&str; 3] = ["1819", "3638", "4166"];

/// Number of an operation on an account that is there already, or is not.
pub(crate) const NAME_TAKEN: &str = "1396";

/// Why the server refused a login, by its number. A password that must be reset is told at the
/// login, or at the first statement behind it.
fn refused_login(number: Option<&str>) -> Code {
    match number {
        Some("1049") => Code::DatabaseMissing,
        Some("1044") => Code::DatabaseClosed,
        Some("1820" | "1862") => Code::PasswordExpired,
        Some("3118" | "4151") => Code::AccountLocked,
        Some("1130") => Code::HostNotAdmitted,
        Some("3159") => Code::TlsRequired,
        _ => Code::Refused,
    }
}

/// What a failure of the `sql` import means to the caller of the plugin. Its message stays behind.
pub(crate) fn refusal(failure: SqlFailure, at: &Target) -> Refusal {
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
    failed(code.refusal(), failure, at)
}

/// Whether nothing was begun, so that certainly nothing is left behind.
pub(crate) fn is_nothing_begun(failure: &SqlFailure) -> bool {
    ["refused", "permission-denied", "forbidden-address", "invalid-request"]
        .contains(&failure.code.as_str())
}

/// Whether the server has that error number.
pub(crate) fn has_number(failure: &SqlFailure, numbers: &[&str]) -> bool {
    failure.sqlstate.as_deref().is_some_and(|number| numbers.contains(&number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Connection;
    use bulkhead_sdk::sql_script::SqlScript;

    #[test]
    fn a_refusal_is_told_with_the_cause_that_the_server_told() {
        let settings = SqlScript::settings("root:x@tcp(db:3306)/orders");
        let target = Connection::read(&settings).unwrap().target;
        for (kind, number, code) in [
            ("refused", "1045", "refused"),
            ("refused", "1049", "database-missing"),
            ("refused", "1044", "database-closed"),
            ("refused", "1820", "password-expired"),
            ("refused", "1862", "password-expired"),
            ("statement-failed", "1820", "password-expired"),
            ("refused", "3118", "account-locked"),
            ("refused", "4151", "account-locked"),
            ("refused", "1130", "host-not-admitted"),
            ("refused", "3159", "tls-required"),
            ("statement-failed", "1044", "insufficient-privilege"),
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
