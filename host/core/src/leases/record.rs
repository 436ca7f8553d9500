//! The stored record of a lease or reservation, and its changes after a failed attempt to end it.

use bulkhead_access::background::backoff;
use bulkhead_access::lifecycle_metrics::EndCause;
use bulkhead_sandbox::contract;
use bulkhead_store::{Address, IndexColumns, Record, StoreFault, Unit};
use bulkhead_wire::failure::{Failure, FailureKind, quoted};
use bulkhead_wire::stored;
use bulkhead_wire::stored::Stored;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Number of refusals after which a lease is irrevocable.
const MOST_REFUSALS: u32 = 6;
/// Maximum number of characters of a failure that are stored.
const ERROR_CHARACTERS: usize = 240;
/// Minimum pause before an irrevocable lease is tried again, in milliseconds.
const DAY: u64 = 86_400_000;
/// Owner in the rows of irrevocable leases, for finding them. No token has such a key.
pub(super) const IRREVOCABLE: &str = "irrevocable";

/// Reason for the end of a lease, in the words of the plugin contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EndReason {
    /// The lifetime is over.
    Expired,
    /// An operator or the owner revoked the lease.
    Requested,
    /// The owning token ended.
    TokenEnded,
    /// The call did not confirm its reservation.
    Undo,
}

impl EndReason {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::Requested => "requested",
            Self::TokenEnded => "token-ended",
            Self::Undo => "undo",
        }
    }

    /// Returns the cause under which the end of a lease is counted.
    pub(crate) fn cause(self) -> EndCause {
        match self {
            Self::Expired => EndCause::Expired,
            Self::Requested => EndCause::Revoked,
            Self::TokenEnded => EndCause::TokenEnded,
            Self::Undo => EndCause::Undone,
        }
    }
}

/// The stored record of a lease or reservation. Times are milliseconds of store time.
#[derive(Clone, Serialize, Deserialize)]
pub struct LeaseRecord {
    /// `database/creds/readonly/<24 letters and digits>`.
    pub id: String,
    /// uuid of the mount.
    pub(crate) mount: String,
    /// Key of the owning token; empty without an owner.
    pub(crate) token: String,
    /// Latest end of the lease even if its owner lives on: the end of the batch token that asked
    /// for the lease.
    pub(crate) longest: Option<u64>,
    pub(crate) tag: String,
    pub(crate) lane: String,
    /// JSON text that only the plugin reads.
    pub(crate) internal: String,
    /// Time of the reservation, or of the answer if the call reserved nothing.
    pub issued: u64,
    /// End of the lease unless renewed or revoked; 0 in a reservation.
    pub expires: u64,
    /// True if the plugin's answer allowed renewals; false in a reservation.
    pub renewable: bool,
    /// `None` before the first renewal.
    pub last_renewal: Option<u64>,
    /// Reason for the end, once decided.
    pub reason: Option<EndReason>,
    /// Number of failed attempts.
    pub(crate) attempts: u32,
    /// Attempts that the plugin refused for good, rather than left unanswered.
    pub(crate) refusals: u32,
    /// The last failure, already scrubbed, and the code of its kind; empty before any failure.
    pub error: String,
    pub(crate) error_code: String,
    /// The next attempt is the last: the lease goes even if the attempt fails.
    pub(crate) forced: bool,
    /// Own names of the database plugins reached by the creating call; the end of the lease needs
    /// these plugins. Empty in leases of earlier releases.
    #[serde(default)]
    pub(crate) plugins: BTreeSet<String>,
    /// Due time of the first attempt, once an attempt did not end the lease. `None` in leases of
    /// earlier releases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) first_due: Option<u64>,
    /// Epoch of the process that made the reservation or took over its undo. Empty in leases, and
    /// in reservations of earlier releases.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) epoch: String,
}

stored!(LeaseRecord, "lease", reads_stored_leases);

impl LeaseRecord {
    pub(crate) fn parse(record: &Record) -> Result<Self, Failure> {
        Self::from_bytes(&record.body).map_err(|unreadable| unreadable.of("the record of a lease"))
    }

    /// Returns the lease in the types of the contract.
    pub(crate) fn for_plugin(&self) -> contract::Lease {
        contract::Lease {
            tag: self.tag.clone(),
            internal: self.internal.clone(),
            issued: self.issued,
            expires: self.expires,
            ext: Vec::new(),
        }
    }

    /// Returns the index columns: due time, lane and owning token. An irrevocable lease is ending
    /// even while the token lives, so the owner column holds [`IRREVOCABLE`] instead.
    fn index(&self, due: u64) -> IndexColumns {
        let owner = if self.is_irrevocable() { IRREVOCABLE } else { &self.token };
        IndexColumns { due: Some(due), lane: self.full_lane(), owner: owner.to_owned() }
    }

    /// Returns the lane, distinct from the lanes of other mounts. A given-up lease has a separate
    /// lane without pauses, and is therefore tried once even if the target does not answer.
    pub(crate) fn full_lane(&self) -> String {
        let beside = if self.forced { "given up/" } else { "" };
        format!("{}/{beside}{}", self.mount, self.lane)
    }

    /// Returns true if the plugin refused the end too often, so that an operator has to help. Such
    /// a lease is tried once a day.
    pub fn is_irrevocable(&self) -> bool {
        self.refusals >= MOST_REFUSALS
    }

    /// Returns the reason for which the lease is not tried now: the last failure, or a silent
    /// target.
    pub(super) fn pending_failure(&self) -> Failure {
        if self.attempts > 0 {
            return self.failure();
        }
        let message = format!("the target of {} does not answer", quoted(&self.lane));
        Failure::new(FailureKind::Unreachable, message)
    }

    /// Returns the failure of the last attempt to end the lease.
    pub(super) fn failure(&self) -> Failure {
        Failure::new(FailureKind::of_code(&self.error_code), self.error.clone())
    }
}

impl LeaseRecord {
    /// Returns the lease, which was due at `due`, after a failed attempt to end it.
    pub(crate) fn after_failure(
        mut self,
        reason: EndReason,
        due: Option<u64>,
        failure: &Failure,
    ) -> Self {
        self.reason = Some(reason);
        self.first_due = self.first_due.or(due);
        self.attempts = self.attempts.saturating_add(1);
        if !backoff::may_pass(failure.kind) {
            self.refusals = self.refusals.saturating_add(1);
        }
        self.note_failure(failure);
        self
    }

    /// Returns the lease, which was due at `due`, after a conflict in our own store. The plugin's
    /// attempt does not count.
    pub(crate) fn after_lost_race(
        mut self,
        reason: EndReason,
        due: Option<u64>,
        failure: &Failure,
    ) -> Self {
        self.reason = Some(reason);
        self.first_due = self.first_due.or(due);
        self.note_failure(failure);
        self
    }

    /// Returns whether the last attempt ended in a conflict, so that the next attempt follows soon.
    pub(super) fn lost_a_race(&self) -> bool {
        self.error_code == FailureKind::Conflict.code()
    }

    fn note_failure(&mut self, failure: &Failure) {
        self.error = failure.message.chars().take(ERROR_CHARACTERS).collect();
        failure.kind.code().clone_into(&mut self.error_code);
    }

    /// Returns the milliseconds until the next attempt.
    pub(crate) fn pause_after(&self, failure: &Failure) -> u64 {
        if self.is_irrevocable() {
            return backoff::backoff_pause(
                &Failure { retry_after: Some(DAY), ..failure.clone() },
                self.attempts,
            );
        }
        backoff::backoff_pause(failure, self.attempts)
    }
}

/// Reads a lease.
pub(crate) async fn read(
    unit: &mut Unit,
    address: &Address,
) -> Result<Option<LeaseRecord>, Failure> {
    unit.get(address).await?.as_ref().map(LeaseRecord::parse).transpose()
}

/// Writes a lease that ends at `due`.
pub(crate) fn put(
    unit: &mut Unit,
    address: &Address,
    record: &LeaseRecord,
    due: u64,
) -> Result<(), Failure> {
    unit.put(address.clone(), record.to_bytes()?, record.index(due));
    Ok(())
}

/// The content at the address of a lease.
pub(super) enum StoredLease {
    Lease(Box<LeaseRecord>),
    Gone,
    /// The reason why a damaged or edited record does not open.
    Damaged(Failure),
}

/// Reads a lease; a record that does not open is not an error.
///
/// # Errors
/// The store's failure.
pub(super) async fn read_tolerantly(
    unit: &mut Unit,
    address: &Address,
) -> Result<StoredLease, Failure> {
    match unit.get(address).await {
        Ok(None) => Ok(StoredLease::Gone),
        Ok(Some(record)) => Ok(LeaseRecord::parse(&record)
            .map_or_else(StoredLease::Damaged, |lease| StoredLease::Lease(Box::new(lease)))),
        Err(damaged @ StoreFault::Damaged(_)) => Ok(StoredLease::Damaged(damaged.into())),
        Err(fault) => Err(fault.into()),
    }
}

#[cfg(test)]
mod tests;
