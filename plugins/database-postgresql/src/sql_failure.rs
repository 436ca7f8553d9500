//! Translates failures of the database into refusals.
//!
//! This file prevents the leak of a password, which the database may repeat in its error message.
//! The message is dropped; the SQLSTATE and the names of the target remain.

use crate::codes::Code;
use bulkhead_sdk::connection::{LoginCauses, PasswordVerdict};
use bulkhead_sdk::database_plugin::{DatabaseTarget, Refusal, SqlFailure};

/// The causes of logins that PostgreSQL answers with an error.
///
/// A wrong and an expired password have one SQLSTATE, and so have the limits of sessions of the
/// server and of the user. Source: auth.c and postinit.c of PostgreSQL 18;
/// `tests/e2e/postgres/login_causes.rs` provokes each row.
pub(crate) const LOGIN_CAUSES: LoginCauses<Code> = LoginCauses {
    causes: &[
        ("28P01", PasswordVerdict::Denied, Code::Refused),
        ("28000", PasswordVerdict::Unknown, Code::NotAdmitted),
        ("3D000", PasswordVerdict::Right, Code::DatabaseMissing),
        ("42501", PasswordVerdict::Right, Code::ConnectRevoked),
        ("55000", PasswordVerdict::Right, Code::DatabaseClosed),
        ("53300", PasswordVerdict::Limited, Code::SessionsExhausted),
    ],
    other: Code::LoginFailed,
    sessions_exhausted: Code::SessionsExhausted,
};

/// Translates a failure of the `sql` import and drops its message.
pub(crate) fn refusal(failure: SqlFailure, at: &DatabaseTarget) -> Refusal {
    LOGIN_CAUSES.refusal(failure, at, answer_code)
}

/// Returns the code of a failure with an answer of the server, except the failure of a login.
fn answer_code(failure: &SqlFailure) -> Code {
    match (failure.code.as_str(), failure.sqlstate.as_deref()) {
        ("unreachable", _) => Code::TlsFailed,
        ("refused", _) => Code::Refused,
        ("conflict", _) => Code::Conflict,
        ("invalid-request", _) => Code::InvalidConfig,
        (_, Some("42710")) => Code::NameTaken,
        (_, Some("54000")) => Code::TooManyDirectGrants,
        (_, Some("42501")) => Code::InsufficientPrivilege,
        _ => Code::StatementFailed,
    }
}

/// Tells if a failed transaction certainly left nothing behind: it was not begun, or PostgreSQL
/// answered with an error, which rolls the transaction back. A lost answer, a timeout or an unknown
/// code is uncertain.
pub(crate) fn is_nothing_kept(failure: &SqlFailure) -> bool {
    failure.is_nothing_begun() || failure.is_answer()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::ParsedConnection;
    use bulkhead_sdk::sql_script::SqlScript;

    #[test]
    fn the_words_of_the_database_stay_behind() {
        let target =
            ParsedConnection::read(&SqlScript::settings("host=db user=root password=rootpass"))
                .unwrap()
                .target;
        for code in [
            "unreachable",
            "refused",
            "timed-out",
            "conflict",
            "statement-failed",
            "invalid-request",
            "new",
        ] {
            let refusal = refusal(SqlScript::failure(code, Some("XX000")), &target);
            assert!(!format!("{refusal:?}").contains("canary"), "{code}");
            assert!(!format!("{refusal:?}").contains("rootpass"), "{code}");
        }
    }

    #[test]
    fn failure_codes_handled_by_host_stay_unchanged() {
        let target =
            ParsedConnection::read(&SqlScript::settings("host=db user=root")).unwrap().target;
        for code in [
            "unreachable",
            "refused",
            "timed-out",
            "conflict",
            "statement-failed",
            "permission-denied",
        ] {
            assert_eq!(refusal(SqlScript::failure(code, None), &target).code, code);
        }
    }

    #[test]
    fn only_definite_refusals_prove_unchanged_state() {
        for (code, state, is_sure) in [
            ("statement-failed", Some("42710"), true),
            ("conflict", Some("40001"), true),
            ("refused", Some("28P01"), true),
            ("permission-denied", None, true),
            ("forbidden-address", None, true),
            ("invalid-request", None, true),
            ("statement-failed", None, false),
            ("conflict", None, false),
            ("unreachable", None, false),
            ("unreachable", Some("40003"), false),
            ("unreachable", Some("57P01"), false),
            ("timed-out", None, false),
            ("timed-out", Some("57014"), false),
            ("new", Some("XX000"), false),
        ] {
            assert_eq!(
                is_nothing_kept(&SqlScript::failure(code, state)),
                is_sure,
                "{code} {state:?}"
            );
        }
    }

    #[test]
    fn login_refusal_code_follows_sqlstate() {
        let target =
            ParsedConnection::read(&SqlScript::settings("host=db user=root dbname=orders"))
                .unwrap();
        for (state, code) in
            [("3D000", "database-missing"), ("28000", "not-admitted"), ("28P01", "refused")]
        {
            let refusal = refusal(SqlScript::failure("refused", Some(state)), &target.target);
            assert_eq!(refusal.code, code, "{state}");
            let database = ("database".to_owned(), "orders".to_owned());
            assert!(refusal.ext.contains(&database), "{:?}", refusal.ext);
        }
    }

    #[test]
    fn oversized_row_is_reported_as_too_many_grants() {
        let target =
            ParsedConnection::read(&SqlScript::settings("host=db user=root")).unwrap().target;
        assert_eq!(
            refusal(SqlScript::failure("statement-failed", Some("54000")), &target).code,
            "too-many-direct-grants"
        );
    }
}
