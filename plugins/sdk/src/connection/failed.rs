//! What a failure of the `sql` import becomes.
//!
//! The attack this file stops: a statement's text, which databases repeat in errors. Their words
//! stay behind; their codes and the names of what was asked go on.

use super::hosts::addresses;
use crate::database_plugin::{Refusal, SqlFailure, Target};

/// `refusal`, with what may be told of the failure and of the target that it happened at.
#[must_use]
pub fn failed(refusal: Refusal, failure: SqlFailure, at: &Target) -> Refusal {
    let what = failure
        .statement
        .map_or_else(|| "a statement".to_owned(), |at| format!("statement {}", u64::from(at) + 1));
    let named = [
        ("targets".to_owned(), addresses(at).join(", ")),
        ("user".to_owned(), at.username.clone()),
        ("database".to_owned(), at.database.clone()),
        ("what".to_owned(), what),
    ];
    let mut refusal =
        Refusal { statement: failure.statement, vendor_code: failure.sqlstate, ..refusal };
    refusal.ext.extend(named);
    refusal
}
