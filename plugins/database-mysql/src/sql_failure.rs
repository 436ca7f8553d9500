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

/// What a failure of the `sql` import means to the caller of the plugin. Its message stays behind.
pub(crate) fn refusal(failure: SqlFailure, at: &Target) -> Refusal {
    let is_in =
        |numbers: &[&str]| failure.sqlstate.as_deref().is_some_and(|n| numbers.contains(&n));
    let code = match failure.code.as_str() {
        "unreachable" => Code::Unreachable,
        "refused" => Code::Refused,
        "timed-out" => Code::TimedOut,
        "conflict" => Code::Conflict,
        "permission-denied" => Code::PermissionDenied,
        "forbidden-address" => Code::ForbiddenAddress,
        "invalid-request" => Code::InvalidConfig,
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
