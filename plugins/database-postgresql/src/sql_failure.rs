//! Translates failures of the database into refusals.
//!
//! Prevents the leak of a password, which the database may repeat in its error message. The message
//! is dropped; the SQLSTATE and the names of the target remain.

use crate::codes::Code;
use bulkhead_sdk::connection::describe_failure;
use bulkhead_sdk::database_plugin::{DatabaseTarget, Refusal, SqlFailure};

/// Translates a failure of the `sql` import and drops its message.
pub(crate) fn refusal(failure: SqlFailure, at: &DatabaseTarget) -> Refusal {
    let code = match (failure.code.as_str(), failure.sqlstate.as_deref()) {
        ("unreachable", _) => Code::Unreachable,
        ("refused", Some("3D000")) => Code::DatabaseMissing,
        ("refused", Some("28000")) => Code::NotAdmitted,
        ("refused", _) => Code::Refused,
        ("timed-out", _) => Code::TimedOut,
        ("conflict", _) => Code::Conflict,
        ("permission-denied", _) => Code::PermissionDenied,
        ("forbidden-address", _) => Code::ForbiddenAddress,
        ("invalid-request", _) => Code::InvalidConfig,
        (_, Some("42710")) => Code::NameTaken,
        (_, Some("54000")) => Code::TooManyDirectGrants,
        (_, Some("42501")) => Code::InsufficientPrivilege,
        _ => Code::StatementFailed,
    };
    describe_failure(code.refusal(), failure, at)
}

/// Tells if a failed transaction certainly left nothing behind: it was not begun, or PostgreSQL
/// answered with an error, which rolls the transaction back. A lost answer, a timeout or an unknown
/// code is uncertain.
pub(crate) fn is_nothing_kept(failure: &SqlFailure) -> bool {
    match failure.code.as_str() {
        "refused" | "permission-denied" | "forbidden-address" | "invalid-request" => true,
        "statement-failed" | "conflict" => failure.sqlstate.is_some(),
        _ => false,
    }
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
    fn codes_that_the_host_acts_on_keep_their_word() {
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
    fn only_what_the_database_said_itself_is_sure() {
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
    fn a_login_is_refused_with_the_cause_that_the_database_told() {
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
    fn a_row_that_is_too_big_is_told_as_too_many_grants() {
        let target =
            ParsedConnection::read(&SqlScript::settings("host=db user=root")).unwrap().target;
        assert_eq!(
            refusal(SqlScript::failure("statement-failed", Some("54000")), &target).code,
            "too-many-direct-grants"
        );
    }
}
