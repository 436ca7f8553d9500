//! Failures of the `sql` import, and their conversion into refusals.
//!
//! The attack this file stops: a leak of a statement's text, which databases repeat in their error
//! messages. The message is dropped; the codes and the names of the target, user and database are
//! kept.

use super::hosts::addresses;
use crate::database_plugin::{DatabaseTarget, Refusal, SqlFailure};
use crate::refusal_codes;

refusal_codes! {
    /// A failure without an answer of the server.
    pub enum TargetFailure, TARGET_FAILURES {
        Unreachable = "unreachable":
            "the database of connection {connection} did not answer ({targets}); check the \
             database and connection_url",
        TimedOut = "timed-out":
            "the database of connection {connection} ({targets}) did not finish in time; check \
             load and locks, then try again",
        PermissionDenied = "permission-denied":
            "this mount has no grant to reach {targets}; add the address to the mount's grants",
        ForbiddenAddress = "forbidden-address":
            "connection {connection} names an address never dialled ({targets}): link-local, \
             multicast, cloud metadata, or this server itself; give the address of the database",
    }
}

impl TargetFailure {
    /// Returns the code of a failure without an answer of the server. `None` for other failures;
    /// a server with which TLS failed has answered.
    #[must_use]
    pub fn of(failure: &SqlFailure) -> Option<Self> {
        match failure.code.as_str() {
            "unreachable" if failure.tls.is_none() => Some(Self::Unreachable),
            "timed-out" => Some(Self::TimedOut),
            "permission-denied" => Some(Self::PermissionDenied),
            "forbidden-address" => Some(Self::ForbiddenAddress),
            _ => None,
        }
    }
}

impl SqlFailure {
    /// Returns true if the server's own code is one of `states`.
    #[must_use]
    pub fn has_sqlstate(&self, states: &[&str]) -> bool {
        self.sqlstate.as_deref().is_some_and(|state| states.contains(&state))
    }

    /// Returns true if nothing was begun at the server, so that certainly nothing remains.
    #[must_use]
    pub fn is_nothing_begun(&self) -> bool {
        ["refused", "permission-denied", "forbidden-address", "invalid-request"]
            .contains(&self.code.as_str())
    }

    /// Returns true if the server itself refused, so that no statement is still running.
    #[must_use]
    pub fn is_answer(&self) -> bool {
        matches!(self.code.as_str(), "statement-failed" | "conflict") && self.sqlstate.is_some()
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn target_failure_sentences_use_carried_values_only() {
        assert_eq!(refusal_codes::find_mistakes(TARGET_FAILURES, &[]), Vec::<String>::new());
    }
}
