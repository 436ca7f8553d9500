//! The unsealed service as a single value.
//!
//! This file only holds the parts of the service. Start and end of the service are in
//! `lifecycle/open.rs`.

use crate::audit::Audit;
use crate::catalog::{Catalog, Plugin, PluginLoader, Reloads};
use crate::key_holders::KeyHolders;
use crate::leases::Leases;
use crate::mounts::{Builtin, Mount, Mounts};
use crate::paging::Listings;
use crate::parking::Parking;
use crate::process::Process;
use crate::tables::Documents;
use bulkhead_access::background::{Background, Claims};
use bulkhead_access::identity::Standing;
use bulkhead_access::lifetimes::Lifetimes;
use bulkhead_access::lockouts::Lockouts;
use bulkhead_access::log::{Log, cause};
use bulkhead_access::oidc::Provider;
use bulkhead_access::policies::acl::Acl;
use bulkhead_access::policies::stored::Policies;
use bulkhead_access::quotas::Quotas;
use bulkhead_access::sealing::Sealing;
use bulkhead_access::tokens::{self, TokenRecord, Tokens};
use bulkhead_sandbox::Sandbox;
use bulkhead_store::Store;
use bulkhead_wire::failure::Failure;
use bulkhead_wire::sync;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use tokio::task::JoinHandle;

/// The unsealed service.
pub(crate) struct Core {
    pub(crate) process: Arc<Process>,
    pub(crate) store: Arc<Store>,
    pub(crate) sandbox: Arc<Sandbox>,
    pub(crate) catalog: Catalog,
    pub(crate) mounts: Arc<Mounts>,
    pub(crate) policies: Policies,
    pub(crate) oidc: Provider,
    pub(crate) audit: Audit,
    pub(crate) tokens: Arc<Tokens>,
    pub(crate) leases: Arc<Leases>,
    pub(crate) quotas: Quotas,
    pub(crate) listings: Arc<Listings>,
    pub(crate) parking: Parking,
    /// Outcomes of the last reloads of plugins.
    pub(crate) reloads: Reloads,
    pub(crate) background: Arc<Background>,
    pub(crate) claims: Arc<Claims>,
    pub(crate) sealing: Sealing,
    /// Root generation and rekeying, by a quorum of unseal keys.
    pub(crate) key_holders: KeyHolders,
    pub(crate) lifetimes: Lifetimes,
    /// Recent failed logins, by name and auth method.
    pub(crate) lockouts: Lockouts,
    pub(crate) log: Arc<dyn Log>,
    pub(crate) due_work: DueWorker,
    /// Generated documents of `sys/internal/specs/openapi`.
    pub(crate) documents: Documents,
    seal_asked: AtomicBool,
}

/// The parts needed to assemble a core; the core creates every other part.
pub(crate) struct Parts {
    pub(crate) process: Arc<Process>,
    pub(crate) sandbox: Arc<Sandbox>,
    pub(crate) catalog: Catalog,
    pub(crate) mounts: Mounts,
    pub(crate) audit: Audit,
    pub(crate) background: Arc<Background>,
}

/// The access list of a token, and its entity and groups.
pub(crate) struct Rights {
    pub(crate) acl: Arc<Acl>,
    pub(crate) standing: Standing,
}

/// The task for due work; runs from the opening of the service to the seal.
#[derive(Default)]
pub(crate) struct DueWorker(Mutex<Option<JoinHandle<()>>>);

impl DueWorker {
    pub(crate) fn set(&self, task: JoinHandle<()>) {
        *sync::lock(&self.0) = Some(task);
    }

    pub(crate) fn take(&self) -> Option<JoinHandle<()>> {
        sync::lock(&self.0).take()
    }
}

impl Core {
    pub(crate) fn assemble(parts: Parts) -> Arc<Self> {
        let Parts { process, sandbox, catalog, mounts, audit, background } = parts;
        let (settings, mounts) = (&process.settings, Arc::new(mounts));
        Arc::new(Self {
            store: Arc::clone(&background.store),
            sandbox,
            catalog,
            leases: Leases::new(&background, &mounts),
            mounts,
            policies: Policies::default(),
            oidc: Provider::new(&background, [&settings.api_address, &settings.own_url]),
            audit,
            tokens: Tokens::new(&background),
            quotas: Quotas::new(&settings.log),
            listings: Listings::new(settings.request_timeout),
            parking: Parking::default(),
            reloads: Reloads::default(),
            claims: Arc::clone(&background.claims),
            sealing: background.sealing.clone(),
            key_holders: KeyHolders::new(&process.directory, &background.store, &settings.log),
            lifetimes: Lifetimes {
                default: settings.default_lease_ttl,
                max: settings.max_lease_ttl,
            },
            lockouts: Lockouts::default(),
            log: Arc::clone(&settings.log),
            due_work: DueWorker::default(),
            documents: Documents::default(),
            seal_asked: AtomicBool::new(false),
            background,
            process,
        })
    }

    /// Returns the default and maximum lifetime of tokens: the tuning of `auth/token`, or the
    /// system's.
    pub(crate) fn token_lifetimes(&self) -> Lifetimes {
        self.mounts.builtin(Builtin::Token).settings.lifetimes(self.lifetimes)
    }

    /// Returns the rights of a token: from its own policies and from the policies of its entity and
    /// groups.
    ///
    /// # Errors
    /// 403 if the token's entity is disabled or deleted.
    pub(crate) async fn rights_of(&self, token: &TokenRecord) -> Result<Rights, Failure> {
        let standing = tokens::standing(&mut self.store.begin(), token).await?;
        if standing.is_empty() {
            let acl = self.policies.acl(&self.store, &token.policies).await?;
            return Ok(Rights { acl, standing });
        }
        let names = standing.policies_with(&token.policies);
        let (acl, skipped) = self.policies.acl_for(&self.store, &names, &standing.values()).await?;
        for skipped in skipped {
            let policy = ("policy", skipped.policy.clone());
            self.log.line("warn", "policy-rule-skipped", &[policy, cause(&skipped)]);
        }
        Ok(Rights { acl, standing })
    }

    /// Returns the handles for loading a plugin.
    pub(crate) fn loader(&self) -> PluginLoader<'_> {
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
    pub(crate) async fn load_plugin(&self, mount: &Mount) -> Result<(), Failure> {
        if mount.plugin.engine.is_linked() {
            return Ok(());
        }
        let plugin = Plugin::Engine(Arc::clone(&mount.plugin));
        Box::pin(self.catalog.load_code(self.loader(), &plugin)).await
    }

    /// Requests a seal of the service after the current request is answered.
    pub(crate) fn ask_to_seal(&self) {
        self.seal_asked.store(true, Ordering::SeqCst);
    }

    pub(crate) fn seal_is_asked(&self) -> bool {
        self.seal_asked.load(Ordering::SeqCst)
    }
}
