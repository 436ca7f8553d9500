//! Translates failures of the `sql` import into refusals.
//!
//! This file prevents the leak of a statement's text, which the database repeats in its error
//! message. The message is dropped; the error number and the names of the target remain.

use crate::codes::Code;
use bulkhead_sdk::connection::{LoginCauses, PasswordVerdict};
use bulkhead_sdk::database_plugin::{DatabaseTarget, Refusal, SqlFailure};

/// Error numbers of acts that the connection's user may not do.
const DENIED: [&str; 7] = ["1044", "1142", "1143", "1227", "1370", "1410", "3879"];

/// Error numbers of a password refused by the server's password rules.
const WEAK: [&str; 2] = ["1819", "3638"];

/// Error number of an operation on an account that already exists or does not exist.
pub(crate) const NAME_TAKEN: &str = "1396";

/// The causes of logins that the server answers with an error. A wrong password, a host without an
/// account and missing TLS have one number. The server reports a password that must be reset at the
/// login or at the first statement after the login.
///
/// Source: sql_authentication.cc of MySQL 8.0 and sql_acl.cc of MariaDB 10.11;
/// `tests/e2e/mysql/login_causes.rs` provokes each row that MariaDB has.
pub(crate) const LOGIN_CAUSES: LoginCauses<Code> = LoginCauses {
    causes: &[
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
    ],
    other: Code::Refused,
    sessions_exhausted: Code::SessionsExhausted,
};

/// Translates a failure of the `sql` import and drops its message.
pub(crate) fn refusal(failure: SqlFailure, at: &DatabaseTarget) -> Refusal {
    LOGIN_CAUSES.refusal(failure, at, answer_code)
}

/// Returns the code of a failure with an answer of the server, except the failure of a login.
fn answer_code(failure: &SqlFailure) -> Code {
    match failure.code.as_str() {
        "unreachable" => Code::TlsFailed,
        "refused" => Code::Refused,
        "conflict" => Code::Conflict,
        "invalid-request" => Code::InvalidConfig,
        _ if failure.has_sqlstate(&["1820"]) => Code::PasswordExpired,
        _ if failure.has_sqlstate(&[NAME_TAKEN]) => Code::NameTaken,
        _ if failure.has_sqlstate(&DENIED) => Code::InsufficientPrivilege,
        _ if failure.has_sqlstate(&WEAK) => Code::PasswordPolicy,
        _ => Code::StatementFailed,
    }
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
