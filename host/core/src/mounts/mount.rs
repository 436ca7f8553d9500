//! A mount: its record, its component, and the resources that its calls share.

use super::breaker::{Breaker, BreakerChange, BreakerPass, MountRest, RestReading};
use super::class::MountClass;
use super::due_writes::DueWrites;
use super::gate::{ClosedGate, MountGate, PausedGate};
use super::instance_reuse;
use super::record::{MountPhase, MountRecord};
use super::rights::{call_rights, default_grants};
use super::version::COMPUTING_ON_PROBATION;
use crate::catalog::{Catalog, EnginePlugin};
use bulkhead_access::lifecycle_metrics::LifecycleCounts;
use bulkhead_access::lifetimes::Lifetimes;
use bulkhead_access::log::Log;
use bulkhead_access::oidc::TokenHolder;
use bulkhead_audit::subject::AuditedMount;
use bulkhead_sandbox::contract;
use bulkhead_sandbox::{
    Compartment, Grant, GrantPattern, Grants, InstanceReuse, MountablePlugin, Publisher,
    Termination,
};
use bulkhead_store::{Store, StoredLimit, Unit};
use bulkhead_wire::failure::{Failure, FailureKind};
use bulkhead_wire::log_level::LogLevel;
use bulkhead_wire::route::RouteTable;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// Divisor of the byte limit: calls that end leases may store an eighth more.
const ENDS_SHARE: u64 = 8;

/// A mount with its component.
pub struct Mount {
    /// Stored record as of the building of this mount; a newer record replaces the whole mount.
    pub record: MountRecord,
    /// Plugin of the recorded type and version, from the catalog.
    pub plugin: Arc<EnginePlugin>,
    /// The rows of the plugin that the mount serves.
    pub table: Arc<RouteTable>,
    pub(super) grants: Arc<Grants>,
    /// Resources that the mount's calls share.
    pub compartment: Arc<Compartment>,
    breaker: Arc<Breaker>,
    due_writes: Arc<DueWrites>,
    /// Counts of the mount's leases.
    pub lease_counts: Arc<LifecycleCounts>,
    /// Number of failed runs of timers since the start of the process.
    failed_wakes: Arc<AtomicU64>,
    /// The limit of the mount's stored bytes.
    stored: Arc<StoredLimit>,
    /// The higher limit for calls that end leases, which must succeed in a full mount.
    stored_at_ends: Arc<StoredLimit>,
    /// The grants if the mount's record has none.
    usual: Vec<Grant>,
    pub(super) reuse: InstanceReuse,
    /// The gate of requests.
    pub(super) requests: Arc<MountGate>,
    /// The gate of due work. Closed later than the gate of requests, because due work also ends
    /// leases.
    pub(super) work: Arc<MountGate>,
}

/// A mount opened by a permit: its component may be called.
pub struct OpenedMount<'a> {
    /// The component to call.
    pub engine: &'a MountablePlugin,
    /// Acts that the call may do.
    pub grants: Arc<Grants>,
    /// Resources that the call shares with the mount's other calls.
    pub compartment: Arc<Compartment>,
    /// Source of the instance: fresh, or used by earlier calls of the same mount.
    pub reuse: InstanceReuse,
}

/// The plugin that runs behind a mount.
#[derive(Clone, Copy, Debug)]
pub struct RunningPlugin<'a> {
    /// Semantic version.
    pub version: &'a str,
    /// SHA-256 of the component in hexadecimal; empty for the server itself.
    pub digest: &'a str,
    /// True if the component is part of this binary.
    pub is_official: bool,
    /// The grants of a mount if its record has none.
    pub usual: &'a [Grant],
    /// The maximum grants of a mount; `None`: all acts that the plugin asks for.
    pub ceiling: Option<&'a [GrantPattern]>,
}

impl<'a> RunningPlugin<'a> {
    /// Returns the state of a mount that waits for `version` of its plugin.
    pub fn waiting_for(version: &'a str) -> Self {
        Self { version, digest: "", is_official: false, usual: &[], ceiling: None }
    }

    /// Returns the mount of `record`, behind which the plugin runs, for the lines of the audit.
    pub fn audited_at(self, record: &'a MountRecord) -> AuditedMount<'a> {
        AuditedMount {
            path: &record.path,
            kind: &record.kind,
            accessor: &record.accessor,
            version: self.version,
            digest: self.digest,
            shown_of_requests: &record.settings.audit_non_hmac_request_keys,
            shown_of_responses: &record.settings.audit_non_hmac_response_keys,
        }
    }

    /// Describes a plugin behind a mount; `usual` is the list of grants without an operator's
    /// choice.
    pub fn of(plugin: &'a EnginePlugin, usual: &'a [Grant]) -> Self {
        let identity = plugin.identity();
        Self {
            version: &identity.version,
            digest: &identity.digest,
            is_official: identity.maker == Publisher::Official,
            usual,
            ceiling: plugin.ceiling(),
        }
    }
}

impl Mount {
    /// Makes the mount of `record`, with the gates of the previous mount. If the previous mount is
    /// closed to requests and the new mount serves, it gets a new gate: requests that came to the
    /// closed gate must not enter, because the mount may serve elsewhere.
    pub(super) fn new(
        record: MountRecord,
        catalog: &Catalog,
        before: Option<&Arc<Self>>,
    ) -> Result<Arc<Self>, Failure> {
        let kind = MountClass::of(&record.path).plugin_type();
        let plugin = catalog.select(kind, &record.kind, &record.version)?;
        let (grants, mut limits) = call_rights(&record, &plugin);
        limits.computing = record.before_swap.as_ref().map(|_| COMPUTING_ON_PROBATION);
        let usual = default_grants(&plugin);
        let compartment = match before {
            Some(before) => before.compartment.with_limits(limits),
            None => Compartment::new(&record.uuid, limits),
        };
        let digest = &plugin.identity().digest;
        let breaker = match before {
            Some(before) if before.breaker.is_of(digest) => Arc::clone(&before.breaker),
            _ => Arc::new(Breaker::new(digest)),
        };
        let due_writes = before.map(|before| Arc::clone(&before.due_writes)).unwrap_or_default();
        let lease_counts =
            before.map(|before| Arc::clone(&before.lease_counts)).unwrap_or_default();
        let failed_wakes =
            before.map(|before| Arc::clone(&before.failed_wakes)).unwrap_or_default();
        let more = limits.stored_bytes / ENDS_SHARE;
        let [stored, stored_at_ends] =
            [0, more].map(|more| Arc::new(limits.stored(&grants, &record.uuid, more)));
        let reuse = instance_reuse::of(&record, &plugin);
        let serves = record.phase == MountPhase::Serving;
        let requests = match before {
            Some(before) if before.requests.is_open() || !serves => Arc::clone(&before.requests),
            _ if serves => Arc::default(),
            _ => Arc::new(MountGate::new_closed()),
        };
        let work = before.map(|before| Arc::clone(&before.work)).unwrap_or_default();
        Ok(Arc::new(Self {
            table: plugin.table_for(&record.settings.options),
            record,
            plugin,
            grants,
            compartment,
            breaker,
            due_writes,
            lease_counts,
            failed_wakes,
            stored,
            stored_at_ends,
            usual,
            reuse,
            requests,
            work,
        }))
    }

    /// Returns true if a request that was routed by `found` may enter this mount: the same
    /// component serves the same rows.
    pub(super) fn serves_as(&self, found: &Self) -> bool {
        Arc::ptr_eq(&self.plugin, &found.plugin) && Arc::ptr_eq(&self.table, &found.table)
    }

    /// Returns whether the catalog has the plugin of this mount as it serves.
    pub(super) fn is_up_to_date(&self, catalog: &Catalog) -> bool {
        let MountRecord { path, kind, version, .. } = &self.record;
        let plugin_type = MountClass::of(path).plugin_type();
        let found = catalog.select(plugin_type, kind, version);
        found.is_ok_and(|plugin| Arc::ptr_eq(&plugin, &self.plugin))
    }

    /// Returns whether this node migrates the data of the mount.
    pub(super) fn is_paused(&self) -> bool {
        self.requests.is_paused() && self.work.is_paused()
    }

    /// Returns true if sessions and caches that were made for `before` serve this mount.
    pub(super) fn keeps_sessions_of(&self, before: &Self) -> bool {
        Arc::ptr_eq(&self.plugin, &before.plugin)
            && self.record.settings.grants == before.record.settings.grants
    }

    /// Pauses requests and due work until the guards are dropped. Waits until the requests and the
    /// due work inside have ended.
    pub(crate) async fn pause(&self) -> [PausedGate; 2] {
        [self.requests.pause().await, self.work.pause().await]
    }

    /// Admits no further requests, and waits until the requests inside have ended.
    pub(crate) async fn close_requests(&self) {
        drop(self.requests.close().await);
    }

    /// Returns the failure of requests that waited at the gate when the mount was removed.
    pub(crate) fn gone_failure(&self) -> Failure {
        let path = &self.record.path;
        Failure::new(FailureKind::NotFound, format!("the mount {path} was disabled or moved"))
    }

    /// Admits no further due work, and waits until the due work inside has ended. Due work that
    /// arrives before the guard is dropped waits for the drop, and stays outside.
    pub(crate) async fn close_work(&self) -> ClosedGate {
        self.work.close().await
    }

    /// Counts a failed run of a timer: refused by the component, stopped at a limit, or crashed.
    pub(crate) fn count_failed_wake(&self) {
        self.failed_wakes.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of failed runs of timers since the start of the process.
    pub fn failed_wakes(&self) -> u64 {
        self.failed_wakes.load(Ordering::Relaxed)
    }

    /// Describes the plugin that runs behind the mount.
    pub fn running(&self) -> RunningPlugin<'_> {
        RunningPlugin::of(&self.plugin, &self.usual)
    }

    /// Begins the unit of work of a call into the mount's component. Its commits raise the mount's
    /// revision if the component asks for revisions.
    pub fn begin(&self, store: &Arc<Store>) -> Unit {
        self.begin_within(store, &self.stored)
    }

    /// Begins the unit of work of a call that ends a lease.
    pub(crate) fn begin_end(&self, store: &Arc<Store>) -> Unit {
        self.begin_within(store, &self.stored_at_ends)
    }

    fn begin_within(&self, store: &Arc<Store>, limit: &Arc<StoredLimit>) -> Unit {
        let unit = match self.plugin.description().indexed {
            true => store.begin_revised(&self.record.uuid),
            false => store.begin(),
        };
        unit.with_limit(limit)
    }

    /// Returns the mount as identity tokens describe the mount.
    pub(crate) fn token_holder(&self) -> TokenHolder<'_> {
        let record = &self.record;
        TokenHolder {
            accessor: &record.accessor,
            path: record.path.listed(),
            is_auth: record.path.is_auth(),
            is_local: record.marks.local,
            plugin: (&record.kind, &self.plugin.identity().version),
            key: &record.settings.identity_token_key,
        }
    }

    /// Returns the mount for its plugin. `system` has the system's default and maximum lifetime;
    /// `longest` is the maximum lease for this very call.
    pub fn for_plugin(&self, system: Lifetimes, longest: Option<u64>) -> contract::Mount {
        let lifetimes = self.lifetimes(system);
        contract::Mount {
            path: self.record.path.as_str().to_owned(),
            accessor: self.record.accessor.clone(),
            kind: self.record.kind.clone(),
            default_ttl: lifetimes.default,
            max_ttl: lifetimes.max,
            longest_lease: longest.map_or(lifetimes.max, |longest| longest.min(lifetimes.max)),
            options: self.record.settings.options.clone().into_iter().collect(),
            ext: Vec::new(),
        }
    }

    /// Returns the mount's lifetimes, or the system's if the mount has none.
    pub fn lifetimes(&self, system: Lifetimes) -> Lifetimes {
        self.record.settings.lifetimes(system)
    }
}

impl Mount {
    /// Returns the right to call the mount's component.
    ///
    /// # Errors
    /// `unavailable` while the mount rests after crashes.
    pub fn may_call(&self) -> Result<BreakerPass<'_>, Failure> {
        self.breaker.may_enter(Instant::now()).map_err(|MountRest { crashes, left }| {
            let (title, path) = (self.plugin.identity().title(), &self.record.path);
            let seconds = left.as_secs().saturating_add(1);
            let message = format!(
                "{title} crashed {crashes} times in a row; mount {path} rests, try again \
                         in {seconds}s"
            );
            let retry_after = u64::try_from(left.as_millis()).ok();
            Failure { retry_after, ..Failure::new(FailureKind::Unavailable, message) }
        })
    }

    /// Lets fewer crashes in a row open the breaker while the version is on probation.
    pub(crate) fn begin_probation(&self, length: Duration) {
        self.breaker.begin_probation(Instant::now() + length);
    }

    /// Lets calls in again at once, as if the component had never crashed.
    pub(crate) fn close_breaker(&self) {
        self.breaker.close();
    }

    /// Returns the rest of the mount after crashes.
    pub(super) fn rest(&self) -> Option<RestReading> {
        self.breaker.rest()
    }

    /// Returns the number of crashes in a row.
    pub(crate) fn crashes_in_a_row(&self) -> u32 {
        self.breaker.crashes()
    }

    /// Returns true while the mount rests after crashes, or a single call tries the component.
    pub fn rests_after_crashes(&self) -> bool {
        self.rest().is_some()
    }

    /// Waits until the breaker opens after too many crashes.
    pub(crate) async fn breaker_opens(&self) {
        self.breaker.opens().await;
    }

    /// Refuses a wake while the mount's due work is over its write budget.
    ///
    /// # Errors
    /// `unavailable`, with the time to wait.
    pub(crate) fn may_wake(&self) -> Result<(), Failure> {
        let Some(wait) = self.due_writes.remaining_wait(Instant::now()) else { return Ok(()) };
        let message = format!("timers of {} wrote more than their share", self.record.path);
        let retry_after = u64::try_from(wait.as_millis()).ok();
        Err(Failure { retry_after, ..Failure::new(FailureKind::Unavailable, message) })
    }

    /// Counts bytes that due work wrote. Logs a line if the mount is over its budget.
    pub(crate) fn count_due_writes(&self, log: &dyn Log, bytes: usize) {
        if self.due_writes.count(bytes, Instant::now()) {
            let effect = "timers of this mount wait; other mounts do not".to_owned();
            let mount = self.record.path.to_string();
            log.line(LogLevel::Warn, "timers-delayed", &[("mount", mount), ("effect", effect)]);
        }
    }

    /// Records the end of a call. Logs a line if the breaker opens or closes.
    pub fn note_end(&self, log: &dyn Log, pass: BreakerPass<'_>, ended: Termination) {
        let Some(change) = pass.end(ended, Instant::now()) else { return };
        let [plugin, version] = self.plugin.identity().log_pairs();
        let about = [("mount", self.record.path.to_string()), plugin, version];
        match change {
            BreakerChange::Opened(length) => {
                let [mount, plugin, version] = about;
                let rest = ("next", format!("{}s", length.as_secs()));
                log.line(LogLevel::Error, "breaker-opened", &[mount, plugin, version, rest]);
            }
            BreakerChange::Closed => log.line(LogLevel::Info, "breaker-closed", &about),
        }
    }
}
