//! Replication: a timer for each table fetches the records of the authoritative region.
//!
//! Prevents a weak token from emptying a region (decision F7): a token that may see little must not
//! look like a region with few records. A round applies nothing unless the authoritative region
//! confirms before the listing that the token is management, and deletes nothing unless the region
//! confirms this again after the listing. Records are compared by content, because a restored
//! region restarts its indexes.

mod diff;
mod policies;
mod roles;
mod tokens;

#[cfg(test)]
mod tests;

use crate::authority::{AuthoritativeRegion, unfit};
use crate::index::RecordTable;
use crate::region_config::RegionConfig;
use crate::replica::ForwardedMark;
use bulkhead_sdk::database_plugin::StoreTime;
use bulkhead_sdk::host::{LogLevel, Storage};
use bulkhead_sdk::http::Response;
use bulkhead_sdk::{Context, Failure, FailureKind, Host, Metric};
use diff::{RecordChange, batches};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Key prefix of the timers.
const TIMER: &str = "replicate/";
/// Maximum wait of a listing in the authoritative region, in milliseconds.
const LISTING_WAIT_MS: u64 = 10_000;
/// Milliseconds reserved for the rest of a round after the wait.
const ROUND_RESERVE_MS: u64 = 30_000;
/// Timeout for one answer, in milliseconds.
const ANSWER_TIMEOUT_MS: u32 = 10_000;
/// Maximum number of records that a round fetches singly.
const MAX_FETCHED_RECORDS: usize = 500;
/// Number of fetched bytes after which a round fetches no more records.
const MAX_FETCHED_BYTES: usize = 8 << 20;
/// Maximum number of records that a round may delete even if they are most of the table and the
/// list's index did not change.
const MAX_UNPROVEN_DELETIONS: usize = 10;

/// 1 while the last round of a table failed.
pub(crate) const FAILING: Metric =
    Metric::gauge("replication_failing", "1 while the last round of replication failed.")
        .with_label("table", &["policies", "roles", "tokens"]);
/// Records written or deleted by replication.
const APPLIED: Metric =
    Metric::counter("replicated_total", "Records that replication wrote or deleted.")
        .with_label("table", &["policies", "roles", "tokens"]);
/// Rounds that stopped because the token was not proven to be management, or because too many
/// records were missing from an unchanged list.
pub(crate) const REFUSED: Metric = Metric::counter(
    "replication_deletions_refused_total",
    "Rounds of replication that wanted to delete records without proof that they are gone.",
);

/// All metrics of replication.
pub(crate) const METRICS: &[Metric] = &[FAILING, APPLIED, REFUSED];

/// The last successful round of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ReplicaState {
    /// Index of the table in the authoritative region; 0 requests an immediate listing.
    pub(crate) index: u64,
    /// Store time at the start of the last successful round.
    pub(crate) confirmed: StoreTime,
}

bulkhead_sdk::stored!(ReplicaState, "replica-state", reads_stored_replica_states);

impl ReplicaState {
    fn key(table: RecordTable) -> String {
        format!("replica/{}", name_of(table))
    }

    /// Returns the state of a table; `None` before the first round.
    ///
    /// # Errors
    /// Failures of the store.
    pub(crate) fn stored(
        storage: &dyn Storage,
        table: RecordTable,
    ) -> Result<Option<Self>, Failure> {
        storage.get(&Self::key(table))
    }
}

const fn name_of(table: RecordTable) -> &'static str {
    match table {
        RecordTable::Policies => "policies",
        RecordTable::Roles => "roles",
        RecordTable::Tokens => "tokens",
    }
}

/// Returns the timer key of a table.
#[must_use]
pub(crate) fn timer_of(table: RecordTable) -> String {
    format!("{TIMER}{}", name_of(table))
}

/// Returns the table of a timer key.
#[must_use]
pub(crate) fn table_of(key: &str) -> Option<RecordTable> {
    RecordTable::ALL.into_iter().find(|table| timer_of(*table) == key)
}

/// Starts replication by `config`, or stops replication if this region is authoritative. If
/// `is_anew`, forgets the indexes of the previous server.
///
/// # Errors
/// Failures of the store.
pub(crate) fn begin(host: &dyn Host, config: &RegionConfig, is_anew: bool) -> Result<(), Failure> {
    for table in RecordTable::ALL {
        if is_anew {
            host.storage().delete(&ReplicaState::key(table))?;
        }
        if config.is_replica() {
            schedule(host, table, 0)?;
        } else {
            host.clock().cancel(&timer_of(table))?;
        }
    }
    Ok(())
}

fn schedule(host: &dyn Host, table: RecordTable, pause: u64) -> Result<(), Failure> {
    let timer = timer_of(table);
    host.clock().schedule(&timer, host.clock().now().saturating_add(pause), &timer)
}

/// Runs one round. Logs a failure of the authoritative region and retries after the configured
/// pause.
///
/// # Errors
/// Failures of the store; the host then runs the round again.
pub(crate) fn run(host: &dyn Host, context: &Context, table: RecordTable) -> Result<(), Failure> {
    let config = RegionConfig::stored(host)?;
    if !config.is_replica() {
        return Ok(());
    }
    let round = ReplicationRound {
        host,
        config: &config,
        table,
        begun: host.clock().now(),
        deadline: context.deadline,
    };
    // A listing writes nothing, so every failure can be retried later.
    let answered = round.listing().map_err(|why| unfit(why.message));
    // If the configuration was changed meanwhile, a new round starts at once.
    if RegionConfig::stored(host)? != config {
        return schedule(host, table, 0);
    }
    let done = answered.and_then(|listing| match table {
        RecordTable::Policies => policies::converge(&round, &listing),
        RecordTable::Roles => roles::converge(&round, &listing),
        RecordTable::Tokens => tokens::converge(&round, &listing),
    });
    let label = name_of(table);
    match done {
        Ok(applied) => {
            host.metrics().set(&FAILING, label, 0.0);
            host.metrics().count(&APPLIED, label, u64::try_from(applied).unwrap_or(u64::MAX));
            schedule(host, table, 0)
        }
        Err(why) if is_remote(&why) => {
            let region = config.authoritative_region.as_str();
            let pairs = [("table", label), ("region", region), ("error", why.message.as_str())];
            host.log().write(LogLevel::Warn, "replication-failed", &pairs);
            host.metrics().set(&FAILING, label, 1.0);
            schedule(host, table, config.replication_backoff)
        }
        Err(why) => Err(why),
    }
}

/// Returns true if the authoritative region caused the failure. A round finishes all requests
/// before its first write, so such a failure leaves no partial changes.
fn is_remote(why: &Failure) -> bool {
    matches!(
        why.kind,
        FailureKind::Unreachable | FailureKind::TimedOut | FailureKind::PermissionDenied
    )
}

/// A listing of the authoritative region.
pub(crate) struct RegionListing {
    body: Vec<u8>,
    index: u64,
    /// The table's index differs from that of the last round.
    is_moved: bool,
}

/// One round of one table.
pub(crate) struct ReplicationRound<'a> {
    host: &'a dyn Host,
    config: &'a RegionConfig,
    table: RecordTable,
    begun: StoreTime,
    deadline: StoreTime,
}

/// Count and size of the records that a round has fetched singly.
#[derive(Default)]
struct FetchTotals {
    records: usize,
    bytes: usize,
}

impl FetchTotals {
    fn add(&mut self, bytes: usize) {
        self.records += 1;
        self.bytes = self.bytes.saturating_add(bytes);
    }

    const fn records(&self) -> usize {
        self.records
    }
}

impl ReplicationRound<'_> {
    /// Fetches the table's list, after proving that the token may see every record.
    fn listing(&self) -> Result<RegionListing, Failure> {
        let state = ReplicaState::stored(self.host.storage(), self.table)?.unwrap_or_default();
        self.prove()?;
        let left = self.deadline.saturating_sub(self.begun);
        let wait = LISTING_WAIT_MS.min(left.saturating_sub(ROUND_RESERVE_MS)).max(1);
        let (name, region) = (name_of(self.table), &self.config.authoritative_region);
        let global = if self.table == RecordTable::Tokens { "&global=true" } else { "" };
        let index = state.index;
        let path = format!("/v1/acl/{name}?region={region}&index={index}&wait={wait}ms{global}");
        // The region extends the wait by up to a sixteenth.
        let timeout = u32::try_from(wait + wait / 16).unwrap_or(u32::MAX);
        let answer = self.read(&path, timeout.saturating_add(ANSWER_TIMEOUT_MS))?;
        if answer.status != 200 {
            return Err(unfit(format!("region {region} has no list of {name}")));
        }
        let index = answer.header("x-nomad-index").and_then(|text| text.parse().ok());
        let index: u64 =
            index.ok_or_else(|| unfit(format!("region {region} lists {name} without an index")))?;
        Ok(RegionListing { body: answer.body, index, is_moved: index != state.index })
    }

    fn read(&self, path: &str, timeout: u32) -> Result<Response, Failure> {
        AuthoritativeRegion::of(self.host, self.config).read(path, timeout)
    }

    /// Fetches one record; `None` if the record was deleted meanwhile.
    fn fetch(&self, path: &str) -> Result<Option<Response>, Failure> {
        let region = &self.config.authoritative_region;
        let answer = self.read(&format!("/v1/acl/{path}?region={region}"), ANSWER_TIMEOUT_MS)?;
        Ok((answer.status == 200).then_some(answer))
    }

    /// Returns true if the round may fetch another record. The next round fetches the rest.
    fn may_fetch(&self, fetched: &FetchTotals) -> bool {
        let left = self.deadline.saturating_sub(self.host.clock().now());
        fetched.records < MAX_FETCHED_RECORDS
            && fetched.bytes < MAX_FETCHED_BYTES
            && left > 2 * u64::from(ANSWER_TIMEOUT_MS)
    }

    /// Applies the changes in as many commits as needed. The last batch is left to the commit of
    /// the round.
    fn apply<T>(
        &self,
        changes: Vec<RecordChange<T>>,
        bytes: impl Fn(&RecordChange<T>) -> usize,
        apply: impl Fn(&[RecordChange<T>]) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let storage = self.host.storage();
        for (place, batch) in batches(changes, bytes).iter().enumerate() {
            if place > 0 {
                storage.checkpoint()?;
            }
            apply(batch)?;
            self.table.touch(storage)?;
        }
        Ok(())
    }

    /// Checks that the token is a management token in the authoritative region.
    ///
    /// # Errors
    /// Unreachable if not.
    fn prove(&self) -> Result<(), Failure> {
        #[derive(Deserialize)]
        #[serde(rename_all = "PascalCase")]
        struct OwnToken {
            r#type: String,
        }
        let is_management = self
            .fetch("token/self")?
            .and_then(|answer| answer.json::<OwnToken>().ok())
            .is_some_and(|own| own.r#type == "management");
        if is_management {
            return Ok(());
        }
        self.host.metrics().count(&REFUSED, "", 1);
        Err(unfit(
            "the replication token is not a management token, so that nothing is replicated and \
             nothing is deleted; write one as replication_token"
                .to_owned(),
        ))
    }

    /// Checks that `gone` of `all` local records may be deleted.
    ///
    /// # Errors
    /// Unreachable if most records are missing although the list's index did not change, or if the
    /// token is not management.
    fn permit_deletions(
        &self,
        gone: usize,
        all: usize,
        listing: &RegionListing,
    ) -> Result<(), Failure> {
        if gone == 0 {
            return Ok(());
        }
        if gone > MAX_UNPROVEN_DELETIONS && gone * 2 > all && !listing.is_moved {
            self.host.metrics().count(&REFUSED, "", 1);
            return Err(unfit(format!(
                "{gone} of {all} records are missing from a list whose index did not change; \
                 nothing is deleted"
            )));
        }
        self.prove()
    }

    /// Returns the identifiers of records that a forwarded write stored after the listing was made.
    /// Deletes expired marks.
    fn ahead(&self, listing: &RegionListing) -> Result<BTreeSet<String>, Failure> {
        let (folder, now) = (ForwardedMark::folder(self.table), self.host.clock().now());
        let (mut ahead, mut over) = (BTreeSet::new(), Vec::new());
        self.host.storage().scan::<ForwardedMark>(folder, |id, entry| {
            if entry.value.is_ahead_of(listing.index, now) {
                ahead.insert(id.to_owned());
            } else {
                over.push(id.to_owned());
            }
            Ok(())
        })?;
        for id in over {
            self.host.storage().delete(&format!("{folder}{id}"))?;
        }
        Ok(ahead)
    }

    /// Stores the end of the round. If records were left out, the next listing is immediate.
    fn finish(&self, listing: &RegionListing, is_complete: bool) -> Result<(), Failure> {
        let index = if is_complete { listing.index } else { 0 };
        let state = ReplicaState { index, confirmed: self.begun };
        self.host.storage().put(&ReplicaState::key(self.table), &state)
    }
}
