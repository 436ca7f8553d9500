//! A lease or reservation as it is stored, and how a failed attempt to end it changes it.

use crate::background::backoff;
use bulkhead_sandbox::contract;
use bulkhead_store::{Address, Index, Record, Space, StoreFault, Unit};
use bulkhead_wire::failure::{Failure, Kind, quoted};
use bulkhead_wire::stored;
use bulkhead_wire::stored::Stored;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Refusals after which a lease is irrevocable.
const MOST_REFUSALS: u32 = 6;
/// Characters of a failure that are kept.
const ERROR_CHARACTERS: usize = 240;
/// Milliseconds until an irrevocable lease is tried again, at least.
const DAY: u64 = 86_400_000;
/// Owner of the rows of irrevocable leases, by which they are found. No token is stored under a key
/// like this one.
pub(super) const IRREVOCABLE: &str = "irrevocable";
/// Where the things are written down that may exist outside: in this order, because what is
/// reserved becomes a lease.
pub(crate) const LEASE_SPACES: [Space; 2] = [Space::Reservation, Space::Lease];

/// Why a lease ends: the words of the plugin contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum End {
    /// Its time is over.
    Expired,
    /// An operator or its owner revoked it.
    Requested,
    /// Its token ended.
    TokenEnded,
    /// The call that reserved it did not confirm it.
    Undo,
}

impl End {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::Requested => "requested",
            Self::TokenEnded => "token-ended",
            Self::Undo => "undo",
        }
    }
}

/// A lease or reservation as it is stored. Times are milliseconds of store time.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct LeaseRecord {
    /// `database/creds/readonly/<24 letters and digits>`.
    pub(crate) id: String,
    /// uuid of its mount.
    pub(crate) mount: String,
    /// Key of the token that owns it; empty when it stands alone.
    pub(crate) token: String,
    /// When it ends at the latest although its owner lives on: with the batch token that asked for
    /// it.
    pub(crate) longest: Option<u64>,
    pub(crate) tag: String,
    pub(crate) lane: String,
    /// JSON text that only the plugin reads.
    pub(crate) internal: String,
    pub(crate) issued: u64,
    pub(crate) expires: u64,
    pub(crate) renewable: bool,
    pub(crate) last_renewal: Option<u64>,
    /// Why it ends, once that was decided.
    pub(crate) reason: Option<End>,
    /// Failed attempts to end it.
    pub(crate) attempts: u32,
    /// Attempts that were refused for good, rather than unanswered.
    pub(crate) refusals: u32,
    /// The last failure, already scrubbed, and the code of its kind; empty while none failed.
    pub(crate) error: String,
    pub(crate) error_code: String,
    /// The next attempt is the last one: also if it fails, the lease goes.
    pub(crate) forced: bool,
    /// Database plugins that the call which made it had reached, by their own names: its end needs
    /// them. Empty in leases of earlier releases.
    #[serde(default)]
    pub(crate) plugins: BTreeSet<String>,
}

stored!(LeaseRecord, "lease", reads_stored_leases);

impl LeaseRecord {
    pub(crate) fn parse(record: &Record) -> Result<Self, Failure> {
        Self::from_bytes(&record.body).map_err(|unreadable| unreadable.of("the record of a lease"))
    }

    /// As its plugin sees it.
    pub(crate) fn for_plugin(&self) -> contract::Lease {
        contract::Lease {
            tag: self.tag.clone(),
            internal: self.internal.clone(),
            issued: self.issued,
            expires: self.expires,
            ext: Vec::new(),
        }
    }

    /// Index columns: found when due, by lane, by the token that owns it. An irrevocable lease is
    /// ending even if its token lives on, so that its owner's column is free to say what it is.
    fn index(&self, due: u64) -> Index {
        let owner = if self.is_irrevocable() { IRREVOCABLE } else { &self.token };
        Index { due: Some(due), lane: self.full_lane(), owner: owner.to_owned() }
    }

    /// Its lane, told apart from those of other mounts. What is given up has one beside it, which
    /// does not rest: it is tried once, whether its target answers or not.
    pub(crate) fn full_lane(&self) -> String {
        let beside = if self.forced { "given up/" } else { "" };
        format!("{}/{beside}{}", self.mount, self.lane)
    }

    /// Its plugin refused to end it so often that only an operator's help will: it is tried once a
    /// day.
    pub(crate) fn is_irrevocable(&self) -> bool {
        self.refusals >= MOST_REFUSALS
    }

    /// Why it is not tried now: the last attempt, or those of others at the same target.
    pub(super) fn unanswered(&self) -> Failure {
        if self.attempts > 0 {
            return self.failure();
        }
        let message = format!("what {} reaches does not answer", quoted(&self.lane));
        Failure::new(Kind::Unreachable, message)
    }

    /// Why the last attempt to end it failed.
    pub(super) fn failure(&self) -> Failure {
        Failure::new(Kind::of_code(&self.error_code), self.error.clone())
    }
}

impl LeaseRecord {
    /// The lease after an attempt to end it that failed.
    pub(crate) fn after_failure(mut self, reason: End, failure: &Failure) -> Self {
        self.reason = Some(reason);
        self.attempts = self.attempts.saturating_add(1);
        if !backoff::may_pass(failure.kind) {
            self.refusals = self.refusals.saturating_add(1);
        }
        self.note(failure);
        self
    }

    /// The lease after an attempt that lost a race for records of our own store: it was not tried.
    pub(crate) fn after_lost_race(mut self, reason: End, failure: &Failure) -> Self {
        self.reason = Some(reason);
        self.note(failure);
        self
    }

    /// Whether the last attempt lost a race, and the next one follows soon.
    pub(super) fn lost_a_race(&self) -> bool {
        self.error_code == Kind::Conflict.code()
    }

    fn note(&mut self, failure: &Failure) {
        self.error = failure.message.chars().take(ERROR_CHARACTERS).collect();
        failure.kind.code().clone_into(&mut self.error_code);
    }

    /// Milliseconds until the next attempt.
    pub(crate) fn pause_after(&self, failure: &Failure) -> u64 {
        if self.is_irrevocable() {
            return backoff::pause(
                &Failure { retry_after: Some(DAY), ..failure.clone() },
                self.attempts,
            );
        }
        backoff::pause(failure, self.attempts)
    }
}

/// Reads a lease.
pub(crate) async fn read(
    unit: &mut Unit,
    address: &Address,
) -> Result<Option<LeaseRecord>, Failure> {
    unit.get(address).await?.as_ref().map(LeaseRecord::parse).transpose()
}

/// Writes a lease, to be ended at `due`.
pub(crate) fn put(
    unit: &mut Unit,
    address: &Address,
    record: &LeaseRecord,
    due: u64,
) -> Result<(), Failure> {
    unit.put(address.clone(), record.to_bytes()?, record.index(due));
    Ok(())
}

/// What is at the address of a lease.
pub(super) enum Opened {
    Lease(Box<LeaseRecord>),
    Gone,
    /// Damaged, or edited in the file: why it does not open.
    Damaged(Failure),
}

/// Reads a lease, also one that does not open.
///
/// # Errors
/// The store's failure.
pub(super) async fn read_tolerantly(unit: &mut Unit, address: &Address) -> Result<Opened, Failure> {
    match unit.get(address).await {
        Ok(None) => Ok(Opened::Gone),
        Ok(Some(record)) => Ok(LeaseRecord::parse(&record)
            .map_or_else(Opened::Damaged, |lease| Opened::Lease(Box::new(lease)))),
        Err(damaged @ StoreFault::Damaged(_)) => Ok(Opened::Damaged(damaged.into())),
        Err(fault) => Err(fault.into()),
    }
}
