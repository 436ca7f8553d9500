//! Conversion of a failure of the `sql` import into a refusal.
//!
//! The attack this file stops: a leak of a statement's text, which databases repeat in their error
//! messages. The message is dropped; the codes and the names of the target, user and database are
//! kept.

use super::hosts::addresses;
use crate::database_plugin::{DatabaseTarget, Refusal, SqlFailure};

/// Adds the failure's codes, and the names of the target, to `refusal`.
#[must_use]
pub fn describe_failure(refusal: Refusal, failure: SqlFailure, at: &DatabaseTarget) -> Refusal {
    let work = failure
        .statement
        .map_or_else(|| "a statement".to_owned(), |at| format!("statement {}", u64::from(at) + 1));
    let named = [
        ("targets".to_owned(), addresses(at).join(", ")),
        ("user".to_owned(), at.username.clone()),
        ("database".to_owned(), at.database.clone()),
        ("work".to_owned(), work),
    ];
    let mut refusal =
        Refusal { statement: failure.statement, vendor_code: failure.sqlstate, ..refusal };
    refusal.ext.extend(named);
    refusal.ext.extend(failure.tls.map(|reason| ("tls".to_owned(), reason)));
    refusal
}
