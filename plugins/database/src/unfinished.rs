//! Unfinished changes of a credential: the cause of the last failure, and the state of the
//! passwords meanwhile.
//!
//! This file prevents three faults: a 503 that hides the cause from the operator; a refused
//! candidate that is tried for ever because each request restarts the counter of the timer; and an
//! answer with a password that the database refused.
//!
//! The record stands beside the intent. Each failed attempt of a timer or a request writes the
//! record, and the commit that ends the intent removes the record.

use bulkhead_sdk::{Failure, FailureKind, Host, stored};
use serde::{Deserialize, Serialize};

/// An unfinished change. Fields of later releases need a default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct UnfinishedChange {
    /// The error of the last attempt, as shown to callers: without a secret.
    #[serde(default)]
    pub(crate) cause: String,
    /// Number of refused attempts with the newest candidate.
    #[serde(default)]
    pub(crate) refusals: u32,
    /// `true` if the database took a candidate.
    #[serde(default)]
    pub(crate) is_set: bool,
    /// `true` if the database refused the stored credential as wrong.
    #[serde(default)]
    pub(crate) is_dead: bool,
    /// `true` if the operator deleted the role before the change was finished.
    #[serde(default)]
    pub(crate) is_unwanted: bool,
}

stored!(UnfinishedChange, "unfinished-change", reads_stored_unfinished_changes);

impl UnfinishedChange {
    fn key(intent: &str) -> String {
        format!("unfinished/{intent}")
    }

    /// Returns the record of the change `intent`, if an attempt failed.
    ///
    /// # Errors
    /// Errors of the storage.
    pub(crate) fn find(host: &dyn Host, intent: &str) -> Result<Option<Self>, Failure> {
        host.storage().get(&Self::key(intent))
    }

    /// Changes the record, within the caller's next commit. Returns `true` if the record changed.
    ///
    /// # Errors
    /// Errors of the storage.
    pub(crate) fn note(
        host: &dyn Host,
        intent: &str,
        change: impl FnOnce(&mut Self),
    ) -> Result<bool, Failure> {
        let before = Self::find(host, intent)?.unwrap_or_default();
        let mut now = before.clone();
        change(&mut now);
        let is_changed = now != before;
        if is_changed {
            host.storage().put(&Self::key(intent), &now)?;
        }
        Ok(is_changed)
    }

    /// Notes a failed attempt and commits the note, because the failing call commits nothing else.
    /// `is_set`: the database had taken the candidate. If the note cannot be stored, the caller
    /// still answers `why`, and the next attempt notes its own failure.
    pub(crate) fn note_failure(host: &dyn Host, intent: &str, why: &Failure, is_set: bool) {
        let noted = Self::note(host, intent, |change| {
            change.cause.clone_from(&why.message);
            change.refusals = change.refusals.saturating_add(u32::from(is_refusal(why)));
            change.is_set |= is_set;
        });
        drop(noted.and_then(|_| host.storage().checkpoint()));
    }

    /// Removes the record, in the commit that ends the intent.
    ///
    /// # Errors
    /// Errors of the storage.
    pub(crate) fn forget(host: &dyn Host, intent: &str) -> Result<(), Failure> {
        match Self::find(host, intent)? {
            Some(_) => host.storage().delete(&Self::key(intent)),
            None => Ok(()),
        }
    }

    /// Returns the refusal of a second change beside the change `intent`, which continues when the
    /// call ends. `what` names the change; `otherwise` says how the operator ends the change.
    ///
    /// # Errors
    /// Errors of the storage.
    pub(crate) fn refusal(
        host: &dyn Host,
        intent: &str,
        what: &str,
        otherwise: &str,
    ) -> Result<Failure, Failure> {
        let cause = Self::find(host, intent)?.map(|found| found.cause).unwrap_or_default();
        let detail = match cause.is_empty() {
            true => String::new(),
            false => format!(
                ". The last attempt failed: {cause}. If the failure lasts, correct the cause, or \
                 {otherwise}"
            ),
        };
        let message = format!("{what} is not finished and continues now; try again{detail}");
        Ok(Failure::new(FailureKind::Unavailable, message))
    }
}

/// Returns `true` if the database or its plugin refused the change. For a refusal, no reply was
/// lost.
pub(crate) fn is_refusal(why: &Failure) -> bool {
    matches!(
        why.kind,
        FailureKind::InvalidRequest
            | FailureKind::PermissionDenied
            | FailureKind::PreconditionFailed
    )
}
