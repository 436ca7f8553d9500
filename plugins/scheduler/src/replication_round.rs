//! A round of replication: its limits, the list of the authoritative region, and the proofs before
//! a change.
//!
//! This file prevents a weak token from emptying a region (decision F7): a token that may see
//! little must not look like a region with few records. A round applies nothing unless the
//! authoritative region confirms before the listing that the token is management, and deletes
//! nothing unless the region confirms this again after the listing.

mod budget;
pub(crate) mod converge;
pub(crate) mod listing;

use crate::authority::{AuthoritativeRegion, unfit};
use crate::index::RecordTable;
use crate::region_config::RegionConfig;
use budget::RunBudget;
use bulkhead_sdk::database_plugin::StoreTime;
use bulkhead_sdk::host::Storage;
use bulkhead_sdk::http::Response;
use bulkhead_sdk::{Context, Failure, FailureKind, Host, Metric};
use converge::RoundProgress;
use listing::ListingIndex;
use serde::{Deserialize, Serialize};

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
    Metric::counter("replicated_total", "Records written or deleted by replication.")
        .with_label("table", &["policies", "roles", "tokens"]);
/// Rounds that stopped because the token was not proven to be management, or because too many
/// records were missing from an unchanged list.
pub(crate) const REFUSED: Metric = Metric::counter(
    "replication_deletions_refused_total",
    "Rounds of replication stopped because the removal of records was not proven.",
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
    /// Returns the storage key of the state of a table.
    pub(crate) fn key(table: RecordTable) -> String {
        format!("replica/{}", table.name())
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

/// One round of one table.
pub(crate) struct ReplicationRound<'a> {
    pub(crate) host: &'a dyn Host,
    config: &'a RegionConfig,
    table: RecordTable,
    region: AuthoritativeRegion<'a>,
    budget: RunBudget<'a>,
    begun: StoreTime,
    /// `None` before the first round that succeeded.
    state: Option<ReplicaState>,
}

impl<'a> ReplicationRound<'a> {
    /// Begins a round.
    ///
    /// # Errors
    /// Failures of the store.
    pub(crate) fn begin(
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

    /// Sets the gauge before the work, if no round succeeded yet or the last attempt failed. A
    /// round that the host stops at a limit cannot set the gauge any more.
    pub(crate) fn report_doubt(&self, attempt: u32) {
        if attempt > 1 || self.state.is_none() {
            self.host.metrics().set(&FAILING, self.table.name(), 1.0);
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
    pub(crate) fn fetch_record(&self, id: &str) -> Result<Option<Response>, Failure> {
        self.fetch(&format!("{}/{id}", self.table.noun()))
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
            "the replication token is not a management token, and nothing is replicated or \
             deleted; write a management token as replication_token"
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
                "{gone} of {all} records are missing from a list with an unchanged index; nothing \
                 is deleted"
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
    pub(crate) fn finish(
        &self,
        listing: &ListingIndex,
        progress: &RoundProgress,
    ) -> Result<(), Failure> {
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
