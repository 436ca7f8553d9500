//! Replication: a timer for each table fetches the records of the authoritative region.
//!
//! Prevents a weak token from emptying a region (decision F7): a token that may see little must not
//! look like a region with few records. A round applies nothing unless the authoritative region
//! confirms before the listing that the token is management, and deletes nothing unless the region
//! confirms this again after the listing. Records are compared by content, because a restored
//! region restarts its indexes.
//!
//! Prevents a round from failing for ever at a limit of its run (decision F10): a round commits in
//! batches, ends before every limit of the run, and the next round goes on behind the last record.

mod budget;
mod converge;
mod listing;
mod policies;
mod roles;
mod tokens;

#[cfg(test)]
mod tests;

use crate::authority::{AuthoritativeRegion, unfit};
use crate::index::RecordTable;
use crate::region_config::RegionConfig;
use budget::RunBudget;
use bulkhead_sdk::database_plugin::StoreTime;
use bulkhead_sdk::host::{LogLevel, Storage};
use bulkhead_sdk::http::Response;
use bulkhead_sdk::{Context, Failure, FailureKind, Host, Metric};
use converge::RoundProgress;
use listing::ListingIndex;
use serde::{Deserialize, Serialize};

/// Key prefix of the timers.
const TIMER: &str = "replicate/";
/// Timeout for one answer, in milliseconds.
const ANSWER_TIMEOUT_MS: u32 = 10_000;
/// Maximum number of records that a round may delete even if they are most of the table and the
/// list's index did not change.
const MAX_UNPROVEN_DELETIONS: usize = 10;

/// 1 while the last round of a table failed, was stopped, or has not succeeded yet.
pub(crate) const FAILING: Metric =
    Metric::gauge("replication_failing", "1 while no round of replication succeeds.")
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

/// The replication of a table so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ReplicaState {
    /// Index of the table in the authoritative region at the start of the last complete pass.
    pub(crate) index: u64,
    /// Store time at the start of the last complete pass.
    pub(crate) confirmed: StoreTime,
    /// The pass that an earlier round began; the next listing is then immediate.
    #[serde(default)]
    pass: Option<ReplicaPass>,
}

/// A pass over the records of a table, in as many rounds as the limits of a run demand.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct ReplicaPass {
    /// Index of the first listing. Later changes are for the next pass.
    index: u64,
    /// Store time at the start of the first round.
    begun: StoreTime,
    /// Identifier of the last handled record.
    after: String,
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

/// Returns the word of a table's records in the paths of single records.
const fn noun_of(table: RecordTable) -> &'static str {
    match table {
        RecordTable::Policies => "policy",
        RecordTable::Roles => "role",
        RecordTable::Tokens => "token",
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
pub(crate) fn run(
    host: &dyn Host,
    context: &Context,
    table: RecordTable,
    attempt: u32,
) -> Result<(), Failure> {
    let config = RegionConfig::stored(host)?;
    if !config.is_replica() {
        return Ok(());
    }
    let round = ReplicationRound::begin(host, context, &config, table)?;
    round.tell_doubt(attempt);
    let done = match table {
        RecordTable::Policies => policies::converge(&round),
        RecordTable::Roles => roles::converge(&round),
        RecordTable::Tokens => tokens::converge(&round),
    };
    match done {
        Ok((progress, listing)) => {
            round.finish(&listing, &progress)?;
            host.metrics().set(&FAILING, name_of(table), 0.0);
            schedule(host, table, 0)
        }
        Err(why) if is_remote(&why) => {
            let (label, region) = (name_of(table), config.authoritative_region.as_str());
            let pairs = [("table", label), ("region", region), ("error", why.message.as_str())];
            host.log().write(LogLevel::Warn, "replication-failed", &pairs);
            host.metrics().set(&FAILING, label, 1.0);
            schedule(host, table, config.replication_backoff)
        }
        Err(why) => Err(why),
    }
}

/// Returns true if the authoritative region caused the failure. All writes before such a failure
/// are committed batches, so the failure leaves no partial change.
fn is_remote(why: &Failure) -> bool {
    matches!(
        why.kind,
        FailureKind::Unreachable | FailureKind::TimedOut | FailureKind::PermissionDenied
    )
}

/// One round of one table.
pub(crate) struct ReplicationRound<'a> {
    host: &'a dyn Host,
    config: &'a RegionConfig,
    table: RecordTable,
    region: AuthoritativeRegion<'a>,
    budget: RunBudget<'a>,
    begun: StoreTime,
    /// `None` before the first round that succeeded.
    state: Option<ReplicaState>,
}

impl<'a> ReplicationRound<'a> {
    fn begin(
        host: &'a dyn Host,
        context: &Context,
        config: &'a RegionConfig,
        table: RecordTable,
    ) -> Result<Self, Failure> {
        let probes = if config.addresses.len() > 1 { config.addresses.len() } else { 0 };
        Ok(Self {
            host,
            config,
            table,
            region: AuthoritativeRegion::of(host, config),
            budget: RunBudget::of(host, context, table, probes),
            begun: host.clock().now(),
            state: ReplicaState::stored(host.storage(), table)?,
        })
    }

    /// Sets the gauge before the work, if no round succeeded yet or the last attempt failed. A round
    /// that the host stops at a limit cannot set the gauge any more.
    fn tell_doubt(&self, attempt: u32) {
        if attempt > 1 || self.state.is_none() {
            self.host.metrics().set(&FAILING, name_of(self.table), 1.0);
        }
    }

    /// Sends a GET request, if the limits of the run allow the request.
    fn ask(&self, path: &str, timeout: u32) -> Result<Response, Failure> {
        if !self.budget.may_request(timeout) {
            return Err(self.budget.too_small());
        }
        let answer = self.region.ask(path, timeout);
        self.budget.count_request(match &answer {
            Ok(answer) => Some(answer.body.len()),
            Err(why) if why.kind == FailureKind::TooLarge => None,
            Err(_) => Some(0),
        });
        answer
    }

    /// Fetches a record of the table; `None` if the record does not exist there.
    fn fetch_record(&self, id: &str) -> Result<Option<Response>, Failure> {
        self.fetch(&format!("{}/{id}", noun_of(self.table)))
    }

    /// Fetches one record; `None` if the record does not exist there.
    fn fetch(&self, path: &str) -> Result<Option<Response>, Failure> {
        let region = &self.config.authoritative_region;
        let answer = self.ask(&format!("/v1/acl/{path}?region={region}"), ANSWER_TIMEOUT_MS);
        let answer = self.region.accept(answer.map_err(|why| unfit(why.message))?)?;
        Ok((answer.status == 200).then_some(answer))
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
        listing: &ListingIndex,
    ) -> Result<(), Failure> {
        if gone == 0 {
            return Ok(());
        }
        if gone > MAX_UNPROVEN_DELETIONS && gone * 2 > all && !self.is_moved(listing) {
            self.host.metrics().count(&REFUSED, "", 1);
            return Err(unfit(format!(
                "{gone} of {all} records are missing from a list whose index did not change; \
                 nothing is deleted"
            )));
        }
        self.prove()
    }

    /// Returns true if the table's index differs from that of the last complete pass.
    fn is_moved(&self, listing: &ListingIndex) -> bool {
        listing.index != self.state.as_ref().map_or(0, |state| state.index)
    }

    /// Identifier behind which this round goes on; empty at the begin of a pass.
    fn resumed_after(&self) -> &str {
        let pass = self.state.as_ref().and_then(|state| state.pass.as_ref());
        pass.map_or("", |pass| pass.after.as_str())
    }

    /// Stores the end of the round.
    fn finish(&self, listing: &ListingIndex, progress: &RoundProgress) -> Result<(), Failure> {
        let before = self.state.clone().unwrap_or_else(|| ReplicaState {
            confirmed: self.config.since,
            ..ReplicaState::default()
        });
        let pass = before.pass.clone().unwrap_or_else(|| ReplicaPass {
            index: listing.index,
            begun: self.begun,
            after: String::new(),
        });
        let state = match progress {
            RoundProgress::Complete => {
                ReplicaState { index: pass.index, confirmed: pass.begun, pass: None }
            }
            RoundProgress::Stopped { after } => {
                let pass = ReplicaPass { after: after.clone(), ..pass };
                ReplicaState { pass: Some(pass), ..before }
            }
        };
        self.host.storage().put(&ReplicaState::key(self.table), &state)
    }
}
