//! A mount: its record, its component, and what its calls share.

use super::breaker::{Breaker, CRASHES, Change, Pass};
use super::class::Class;
use super::due_writes::DueWrites;
use super::gate::{Closed, Gate, Paused};
use super::instance_reuse;
use super::record::{MountRecord, Phase};
use super::rights::{rights, usual};
use crate::catalog::{Catalog, EnginePlugin};
use crate::lifetimes::Lifetimes;
use crate::log::Log;
use bulkhead_sandbox::contract;
use bulkhead_sandbox::{Ask, Compartment, Ended, Engine, Grant, Grants, Maker, Reuse};
use bulkhead_store::{Store, StoredLimit, Unit};
use bulkhead_wire::failure::{Failure, Kind};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The part of the limit that calls which end leases may store in addition: an eighth.
const ENDS_SHARE: u64 = 8;

/// A mount with its component.
pub(crate) struct Mount {
    pub(crate) record: MountRecord,
    pub(crate) plugin: Arc<EnginePlugin>,
    pub(super) grants: Arc<Grants>,
    /// What its calls share.
    pub(crate) compartment: Arc<Compartment>,
    breaker: Arc<Breaker>,
    due_writes: Arc<DueWrites>,
    /// The limit of the mount's stored bytes.
    stored: Arc<StoredLimit>,
    /// The limit for calls that end leases, which must go on in a full mount.
    stored_at_ends: Arc<StoredLimit>,
    /// What it is granted while its record says nothing.
    usual: Vec<Grant>,
    pub(super) reuse: Reuse,
    /// Requests that are served.
    pub(super) requests: Arc<Gate>,
    /// Due work. Open longer than the other: leases are ended by it too.
    pub(super) work: Arc<Gate>,
}

/// A mount opened by a permit: its component may be called.
pub(crate) struct Opened<'a> {
    pub(crate) plugin: &'a EnginePlugin,
    pub(crate) grants: Arc<Grants>,
    pub(crate) compartment: Arc<Compartment>,
    pub(crate) reuse: Reuse,
}

/// What runs behind a mount.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Running<'a> {
    /// Semantic version.
    pub(crate) version: &'a str,
    /// SHA-256 of the component in hexadecimal; empty for the server itself.
    pub(crate) digest: &'a str,
    /// Whether the component belongs to this binary.
    pub(crate) is_official: bool,
    /// What a mount of it is granted while its record says nothing.
    pub(crate) usual: &'a [Grant],
    /// What a mount of it may be granted at most; `None`: what it asks for.
    pub(crate) ceiling: Option<&'a [Ask]>,
}

impl<'a> Running<'a> {
    /// That engine behind a mount; `usual` is what it is granted unsaid.
    pub(crate) fn of(engine: &'a Engine, usual: &'a [Grant]) -> Self {
        let identity = engine.identity();
        Self {
            version: &identity.version,
            digest: &identity.digest,
            is_official: identity.maker == Maker::Official,
            usual,
            ceiling: engine.ceiling(),
        }
    }
}

impl Mount {
    /// The mount of `record`, with the gates of the one before. Requests that came to a gate before
    /// it was closed do not get in when the mount serves again: it may serve elsewhere.
    pub(super) fn new(
        record: MountRecord,
        catalog: &Catalog,
        before: Option<&Arc<Self>>,
    ) -> Result<Arc<Self>, Failure> {
        let kind = Class::of(&record.path).plugin_type();
        let plugin = catalog.select(kind, &record.kind, &record.version)?;
        let (grants, limits) = rights(&record, &plugin);
        let usual = usual(&plugin.engine);
        let compartment = match before {
            Some(before) => before.compartment.under(limits),
            None => Compartment::new(&record.uuid, limits),
        };
        let digest = &plugin.engine.identity().digest;
        let breaker = match before {
            Some(before) if before.breaker.is_of(digest) => Arc::clone(&before.breaker),
            _ => Arc::new(Breaker::new(digest)),
        };
        let due_writes = before.map(|before| Arc::clone(&before.due_writes)).unwrap_or_default();
        let more = limits.stored_bytes / ENDS_SHARE;
        let [stored, stored_at_ends] =
            [0, more].map(|more| Arc::new(limits.stored(&grants, &record.uuid, more)));
        let reuse = instance_reuse::of(&record, &plugin.engine);
        let serves = record.phase == Phase::Serving;
        let requests = match before {
            Some(before) if before.requests.is_open() || !serves => Arc::clone(&before.requests),
            _ if serves => Arc::default(),
            _ => Arc::new(Gate::closed()),
        };
        let work = before.map(|before| Arc::clone(&before.work)).unwrap_or_default();
        Ok(Arc::new(Self {
            record,
            plugin,
            grants,
            compartment,
            breaker,
            due_writes,
            stored,
            stored_at_ends,
            usual,
            reuse,
            requests,
            work,
        }))
    }

    /// Holds back requests and due work until the guards are dropped, and waits until the requests
    /// and the due work inside have ended.
    pub(crate) async fn pause(&self) -> [Paused; 2] {
        [self.requests.pause().await, self.work.pause().await]
    }

    /// Lets no request in any more, and waits until those inside have ended.
    pub(crate) async fn close_requests(&self) {
        drop(self.requests.close().await);
    }

    /// The failure of requests that waited behind it when it went.
    pub(crate) fn gone(&self) -> Failure {
        let path = &self.record.path;
        Failure::new(Kind::NotFound, format!("the mount {path} was disabled or moved"))
    }

    /// Lets no due work in any more, and waits until what is inside has ended. Due work that comes
    /// until the guard is dropped waits for that, and stays outside.
    pub(crate) async fn close_work(&self) -> Closed {
        self.work.close().await
    }

    /// What runs behind it.
    pub(crate) fn running(&self) -> Running<'_> {
        Running::of(&self.plugin.engine, &self.usual)
    }

    /// Begins the unit of work of a call into the mount's component. Its commits are numbered where
    /// the component asks for that.
    pub(crate) fn begin(&self, store: &Arc<Store>) -> Unit {
        self.begin_within(store, &self.stored)
    }

    /// Begins the unit of work of a call that ends a lease.
    pub(crate) fn begin_end(&self, store: &Arc<Store>) -> Unit {
        self.begin_within(store, &self.stored_at_ends)
    }

    fn begin_within(&self, store: &Arc<Store>, limit: &Arc<StoredLimit>) -> Unit {
        let unit = match self.plugin.engine.description().indexed {
            true => store.begin_revised(&self.record.uuid),
            false => store.begin(),
        };
        unit.within(limit)
    }

    /// The mount as its plugin sees it. `system` are the system's default and longest lifetime;
    /// `longest` is the longest lease for this very call.
    pub(crate) fn for_plugin(&self, system: Lifetimes, longest: Option<u64>) -> contract::Mount {
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

    /// Its lifetimes, the system's where it has none of its own.
    pub(crate) fn lifetimes(&self, system: Lifetimes) -> Lifetimes {
        self.record.settings.lifetimes(system)
    }
}

impl Mount {
    /// The right to call the mount's component.
    ///
    /// # Errors
    /// `unavailable` while the component rests after crashes.
    pub(crate) fn may_call(&self) -> Result<Pass<'_>, Failure> {
        self.breaker.may_enter(Instant::now()).map_err(|left| {
            let (title, path) = (self.plugin.engine.identity().title(), &self.record.path);
            let seconds = left.as_secs().saturating_add(1);
            let message = format!(
                "{title} crashed {CRASHES} times in a row; mount {path} rests, try again \
                         in {seconds}s"
            );
            let retry_after = u64::try_from(left.as_millis()).ok();
            Failure { retry_after, ..Failure::new(Kind::Unavailable, message) }
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

    /// Crashes in a row that open the breaker now.
    pub(crate) fn crashes_that_open(&self) -> u32 {
        self.breaker.threshold(Instant::now())
    }

    /// Waits until the component crashed so often that the mount rests.
    pub(crate) async fn breaker_opens(&self) {
        self.breaker.opens().await;
    }

    /// Refuses a wake while the mount's due work is over its budget of writes.
    ///
    /// # Errors
    /// `unavailable`, with how long to wait.
    pub(crate) fn may_wake(&self) -> Result<(), Failure> {
        let Some(wait) = self.due_writes.wait(Instant::now()) else { return Ok(()) };
        let message = format!("timers of {} wrote more than their share", self.record.path);
        let retry_after = u64::try_from(wait.as_millis()).ok();
        Err(Failure { retry_after, ..Failure::new(Kind::Unavailable, message) })
    }

    /// Counts bytes that due work wrote, and logs that the mount is over its budget.
    pub(crate) fn count_due_writes(&self, log: &dyn Log, bytes: usize) {
        if self.due_writes.count(bytes, Instant::now()) {
            let effect = "its timers wait; other mounts do not".to_owned();
            let mount = self.record.path.to_string();
            log.line("warn", "timers-held-back", &[("mount", mount), ("effect", effect)]);
        }
    }

    /// Notes how a call of the component ended, and tells the log when that changes whether it
    /// rests.
    pub(crate) fn note_end(&self, log: &dyn Log, pass: Pass<'_>, ended: Ended) {
        let Some(change) = pass.end(ended, Instant::now()) else { return };
        let (mount, plugin) = (self.record.path.to_string(), self.plugin.engine.identity().title());
        let about = [("mount", mount), ("plugin", plugin)];
        match change {
            Change::Opened(length) => {
                let [mount, plugin] = about;
                let rest = ("next", format!("{}s", length.as_secs()));
                log.line("error", "breaker-opened", &[mount, plugin, rest]);
            }
            Change::Closed => log.line("info", "breaker-closed", &about),
        }
    }
}
