//! The unsealed service as a single value.
//!
//! This file only holds the parts of the service. Start and end of the service are in
//! `lifecycle/open.rs`.

use crate::catalog::{Catalog, Plugin, PluginLoader, ReloadHistory};
use crate::followed_tables::FollowedTables;
use crate::health::{HealthCondition, HealthWatch};
use crate::key_holders::KeyHolders;
use crate::leases::Leases;
use crate::mounts::{BuiltinMount, Mount, Mounts};
use crate::process::ProcessState;
use crate::snapshots::SnapshotWatch;
use crate::tables::DocumentCache;
use bulkhead_access::activity::ClientActivity;
use bulkhead_access::background::{BackgroundState, Claims, DueWorkSuspension};
use bulkhead_access::identity::EntityContext;
use bulkhead_access::in_flight::InFlightRequests;
use bulkhead_access::lifetimes::Lifetimes;
use bulkhead_access::lockouts::Lockouts;
use bulkhead_access::log::{Log, cause};
use bulkhead_access::oidc::OidcProvider;
use bulkhead_access::paging::ListingSlots;
use bulkhead_access::parking::ParkedRequests;
use bulkhead_access::policies::acl::Acl;
use bulkhead_access::policies::stored::Policies;
use bulkhead_access::quotas::Quotas;
use bulkhead_access::request_metrics::RequestMetrics;
use bulkhead_access::row_counts::RowCounter;
use bulkhead_access::sealing::SealSignal;
use bulkhead_access::timestamp::timestamp;
use bulkhead_access::tokens::{self, TokenRecord, Tokens};
use bulkhead_audit::Audit;
use bulkhead_sandbox::Sandbox;
use bulkhead_store::{PreparedRestore, SnapshotOrigin, SnapshotStream, Store};
use bulkhead_wire::failure::{Failure, FailureKind};
use bulkhead_wire::log_level::LogLevel;
use bulkhead_wire::sync;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use tokio::task::JoinHandle;

/// The unsealed service.
pub struct Core {
    /// Settings and limits of the process, which survive sealing and unsealing.
    pub process: Arc<ProcessState>,
    /// The open store; closed when the service is sealed.
    pub store: Arc<Store>,
    /// Executor of plugin calls, with the idle instances; closed when the service is sealed.
    pub sandbox: Arc<Sandbox>,
    /// Official and uploaded plugins in all versions, with the pins.
    pub catalog: Catalog,
    /// Table of all mounts, and the only access to the components behind the mounts.
    pub mounts: Arc<Mounts>,
    /// Cache of parsed policies and of the access lists of tokens.
    pub policies: Policies,
    /// Signer of identity tokens, with the public keys for verification.
    pub oidc: OidcProvider,
    /// Audit devices in use, and the request headers to record.
    pub audit: Audit,
    /// Authentication, creation, renewal and end of tokens.
    pub tokens: Arc<Tokens>,
    /// Look-up, listing and revocation of leases.
    pub leases: Arc<Leases>,
    /// Rate-limit and lease-count quotas, held in memory.
    pub quotas: Quotas,
    /// Numbers of leases, tokens and identities, for monitoring.
    pub row_counts: RowCounter,
    /// Slots for long listings, which bound the memory of listings under construction.
    pub listings: Arc<ListingSlots>,
    /// Plain HTTP requests parked until a change, without an instance of the component.
    pub parking: ParkedRequests,
    /// Counts of served requests.
    pub traffic: RequestMetrics,
    /// The clients of each month.
    pub activity: ClientActivity,
    /// The requests that are being served.
    pub requests: InFlightRequests,
    /// Outcomes of the last reloads of plugins.
    pub reloads: ReloadHistory,
    /// State of background work, with the counts of its runs.
    pub background: Arc<BackgroundState>,
    /// Exclusive rights to work on rows, shared by requests and due work.
    pub claims: Arc<Claims>,
    /// Signal for background work to end when the service is being sealed.
    pub sealing: SealSignal,
    /// Root generation and rekeying, by a quorum of unseal keys.
    pub key_holders: KeyHolders,
    /// The system's default and maximum lifetimes, in seconds; a mount's tuning has precedence.
    pub lifetimes: Lifetimes,
    /// Recent failed logins, by name and auth method.
    pub lockouts: Lockouts,
    /// Sink of log lines for the operator; must not receive secrets.
    pub log: Arc<dyn Log>,
    /// The tables above that follow the changes by other nodes.
    pub(crate) followed: FollowedTables,
    pub(crate) due_work: DueWorker,
    /// The conditions of store, audit and clock that are in the log.
    pub(crate) health: HealthWatch,
    /// The outcomes of scheduled snapshots.
    pub snapshots: SnapshotWatch,
    /// Generated documents of `sys/internal/specs/openapi`.
    pub documents: DocumentCache,
    seal_asked: AtomicBool,
    restore_asked: AskedRestore,
}

/// The parts needed to assemble a core; the core creates every other part.
pub(crate) struct CoreParts {
    pub(crate) process: Arc<ProcessState>,
    pub(crate) sandbox: Arc<Sandbox>,
    pub(crate) catalog: Catalog,
    pub(crate) mounts: Mounts,
    pub(crate) audit: Audit,
    pub(crate) background: Arc<BackgroundState>,
    pub(crate) followed: FollowedTables,
}

/// The access list of a token, and its entity and groups.
pub struct CallerRights {
    /// Rules from the policies of the token, of the entity and of the groups.
    pub acl: Arc<Acl>,
    /// Entity and groups of the token; empty for a token without an entity.
    pub entity: EntityContext,
}

/// The task for due work; runs from the opening of the service to the seal.
#[derive(Default)]
pub(crate) struct DueWorker {
    task: Mutex<Option<JoinHandle<()>>>,
    /// True once the unfinished work of an earlier process was resumed.
    has_resumed: AtomicBool,
}

impl DueWorker {
    pub(crate) fn set(&self, task: JoinHandle<()>) {
        *sync::lock(&self.task) = Some(task);
    }

    pub(crate) fn take(&self) -> Option<JoinHandle<()>> {
        sync::lock(&self.task).take()
    }

    /// Returns true at the first call.
    pub(crate) fn begin_resuming(&self) -> bool {
        !self.has_resumed.swap(true, Ordering::SeqCst)
    }
}

/// A restore that waits for the end of the request that asked.
#[derive(Default)]
struct AskedRestore {
    /// True while a restore waits, so that other requests take no lock.
    is_waiting: AtomicBool,
    /// Id of the request, and the prepared data.
    waiting: Mutex<Option<(String, PreparedRestore)>>,
}

impl Core {
    pub(crate) fn assemble(parts: CoreParts) -> Arc<Self> {
        let CoreParts { process, sandbox, catalog, mounts, audit, background, followed } = parts;
        let (settings, mounts) = (&process.settings, Arc::new(mounts));
        Arc::new(Self {
            store: Arc::clone(&background.store),
            sandbox,
            catalog,
            leases: Leases::new(&background, &mounts),
            mounts,
            policies: Policies::default(),
            oidc: OidcProvider::new(&background, [&settings.api_address, &settings.own_url]),
            audit,
            tokens: Tokens::new(&background),
            quotas: Quotas::new(&settings.log),
            row_counts: RowCounter::default(),
            listings: ListingSlots::new(settings.request_timeout),
            parking: ParkedRequests::default(),
            traffic: RequestMetrics::default(),
            activity: ClientActivity::new(&settings.log),
            requests: InFlightRequests::default(),
            reloads: ReloadHistory::default(),
            claims: Arc::clone(&background.claims),
            sealing: background.sealing.clone(),
            key_holders: KeyHolders::new(&process.directory, &background.store, &settings.log),
            lifetimes: Lifetimes {
                default: settings.default_lease_ttl,
                max: settings.max_lease_ttl,
            },
            lockouts: Lockouts::of(&background.store),
            log: Arc::clone(&settings.log),
            followed,
            due_work: DueWorker::default(),
            health: HealthWatch::new(&settings.log),
            snapshots: SnapshotWatch::default(),
            documents: DocumentCache::default(),
            seal_asked: AtomicBool::new(false),
            restore_asked: AskedRestore::default(),
            background,
            process,
        })
    }

    /// Returns the default and maximum lifetime of tokens: the tuning of `auth/token`, or the
    /// system's.
    pub fn token_lifetimes(&self) -> Lifetimes {
        self.mounts.builtin(BuiltinMount::Token).settings.lifetimes(self.lifetimes)
    }

    /// Returns the rights of a token: from its own policies and from the policies of its entity and
    /// groups.
    ///
    /// # Errors
    /// 403 if the token's entity is disabled or deleted.
    pub async fn rights_of(&self, token: &TokenRecord) -> Result<CallerRights, Failure> {
        let entity = tokens::read_token_context(&mut self.store.begin(), token).await?;
        if entity.is_empty() {
            let acl = self.policies.acl(&self.store, &token.policies).await?;
            return Ok(CallerRights { acl, entity });
        }
        let names = entity.policies_with(&token.policies);
        let (acl, skipped) = self.policies.acl_for(&self.store, &names, &entity.values()).await?;
        for skipped in skipped {
            let policy = ("policy", skipped.policy.clone());
            self.log.line(LogLevel::Warn, "policy-rule-skipped", &[policy, cause(&skipped)]);
        }
        Ok(CallerRights { acl, entity })
    }

    /// Returns the handles for loading a plugin.
    pub fn loader(&self) -> PluginLoader<'_> {
        PluginLoader {
            store: &self.store,
            sandbox: &self.sandbox,
            compiler: &self.process.compiler,
            signatures: &self.process.settings.plugin_signatures,
            log: &self.log,
        }
    }

    /// Loads the code of a mount's plugin before the first call.
    ///
    /// # Errors
    /// 503 while the code is being compiled, or if the store cannot be read.
    pub async fn load_plugin(&self, mount: &Mount) -> Result<(), Failure> {
        if mount.plugin.is_linked() {
            return Ok(());
        }
        let plugin = Plugin::Engine(Arc::clone(&mount.plugin));
        Box::pin(self.catalog.load_code(self.loader(), &plugin)).await
    }

    /// Returns the conditions under which the service refuses or degrades, and logs each condition
    /// that began or ended. Writes nothing to store or audit.
    pub fn review_health(&self) -> Vec<HealthCondition> {
        let others = || {
            let suspended = self.due_work_suspension().map(HealthCondition::DueWorkSuspended);
            let mounts = self.mounts.count_conditions().into_iter();
            let mounts =
                mounts.map(|(condition, mounts)| HealthCondition::Mounts { condition, mounts });
            suspended.into_iter().chain(mounts)
        };
        self.health.review(&self.store, &self.audit, &self.snapshots, others)
    }

    /// Begins a snapshot of the store, whose manifest shows the store time `store_time`, in
    /// milliseconds since 1970.
    ///
    /// # Errors
    /// 503 if two snapshots are being taken already, or the database cannot be read.
    pub async fn take_snapshot(&self, store_time: u64) -> Result<SnapshotStream, Failure> {
        let taken_at = timestamp(store_time / 1_000).as_str().unwrap_or_default().to_owned();
        let server_version = env!("CARGO_PKG_VERSION").to_owned();
        let origin = SnapshotOrigin { server_version, store_time, taken_at };
        Ok(self.store.snapshot(origin).await?)
    }

    /// Returns the reason for which due work waits; `None` if due work runs.
    pub fn due_work_suspension(&self) -> Option<DueWorkSuspension> {
        self.background.gate.suspension()
    }

    /// Requests the replacement of all data by `prepared` after the request `request_id` is
    /// answered.
    ///
    /// # Errors
    /// 503 if another restore waits for the end of its request.
    pub fn ask_restore(&self, request_id: &str, prepared: PreparedRestore) -> Result<(), Failure> {
        let mut waiting = sync::lock(&self.restore_asked.waiting);
        if waiting.is_some() {
            let message = "another restore is in progress; nothing was changed; wait for its end";
            return Err(Failure::new(FailureKind::Unavailable, message));
        }
        *waiting = Some((request_id.to_owned(), prepared));
        self.restore_asked.is_waiting.store(true, Ordering::SeqCst);
        Ok(())
    }

    /// Returns the data for which the request `request_id` asked; the server looks after each
    /// answer.
    pub fn take_restore(&self, request_id: &str) -> Option<PreparedRestore> {
        if !self.restore_asked.is_waiting.load(Ordering::SeqCst) {
            return None;
        }
        let mut waiting = sync::lock(&self.restore_asked.waiting);
        let (_, prepared) = waiting.take_if(|(id, _)| id == request_id)?;
        self.restore_asked.is_waiting.store(false, Ordering::SeqCst);
        Some(prepared)
    }

    /// Requests a seal of the service after the current request is answered.
    pub fn ask_to_seal(&self) {
        self.seal_asked.store(true, Ordering::SeqCst);
    }

    /// Returns true after [`Core::ask_to_seal`]; the server checks after each answer.
    pub fn seal_is_asked(&self) -> bool {
        self.seal_asked.load(Ordering::SeqCst)
    }
}
