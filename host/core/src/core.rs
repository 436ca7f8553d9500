//! The service as one value: the nouns it is made of, its start and its end.

use crate::api::HostTable;
use crate::catalog::{Catalog, Official};
use crate::claims::Claims;
use crate::due;
use crate::leases::{self, LeaseRecord};
use crate::log::Log;
use crate::mounts::{Lifetimes, Mounts, NewMount};
use crate::pipeline;
use crate::policies::stored::Policies;
use crate::tokens;
use bulkhead_sandbox::Sandbox;
use bulkhead_store::{Options, Store};
use bulkhead_wire::failure::Failure;
use bulkhead_wire::name::MountPath;
use bulkhead_wire::request::Request;
use bulkhead_wire::response::Response;
use bulkhead_wire::secret::Secret;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// What a dev server is started with.
pub struct Settings {
    /// Where the store lives; made when missing, locked while in use.
    pub directory: PathBuf,
    /// The components of this binary.
    pub officials: Vec<Official>,
    /// A token with the root policy, kept from then on.
    pub root_token: Secret,
    /// Seconds.
    pub default_lease_ttl: u64,
    /// Seconds.
    pub max_lease_ttl: u64,
    /// The version that clients switch features on (decision P5).
    pub reported_version: String,
    /// Where lines for the operator go.
    pub log: Arc<dyn Log>,
}

/// The running service.
pub struct Core {
    pub(crate) store: Arc<Store>,
    pub(crate) sandbox: Arc<Sandbox>,
    pub(crate) catalog: Catalog,
    pub(crate) mounts: Mounts,
    pub(crate) policies: Policies,
    pub(crate) claims: Arc<Claims>,
    pub(crate) table: HostTable,
    pub(crate) lifetimes: Lifetimes,
    pub(crate) reported_version: String,
    pub(crate) log: Arc<dyn Log>,
    stop: watch::Sender<bool>,
    due: Mutex<Option<JoinHandle<()>>>,
}

impl Core {
    /// Opens the store, loads the catalog and the mount table, and starts due work. Neither leases nor
    /// roles are read.
    ///
    /// # Errors
    /// What keeps the service from starting, in words for the operator.
    pub async fn start(settings: Settings) -> Result<Arc<Self>, Failure> {
        let key = bulkhead_store::dev_key(&settings.directory)?;
        let store = Store::open(Options { directory: settings.directory.clone() }, key).await?;
        let sandbox = Sandbox::new(Arc::clone(&store)).map_err(Failure::internal)?;
        let catalog = Catalog::load(&store, &sandbox, &settings.officials).await?;
        let mounts = Mounts::load(&store, &catalog).await?;
        let core = Arc::new(Self {
            store,
            sandbox,
            catalog,
            mounts,
            policies: Policies::default(),
            claims: Arc::default(),
            table: HostTable::new().map_err(Failure::internal)?,
            lifetimes: Lifetimes { default: settings.default_lease_ttl, max: settings.max_lease_ttl },
            reported_version: settings.reported_version,
            log: settings.log,
            stop: watch::channel(false).0,
            due: Mutex::default(),
        });
        core.prepare(&settings.root_token).await?;
        let worker = tokio::spawn(due::run(Arc::clone(&core), core.stop.subscribe()));
        *core.due.lock().unwrap_or_else(PoisonError::into_inner) = Some(worker);
        Ok(core)
    }

    async fn prepare(self: &Arc<Self>, root_token: &Secret) -> Result<(), Failure> {
        tokens::ensure_root(&self.store, root_token).await?;
        leases::undo_all(&self.store).await?;
        self.migrate().await?;
        for kind in self.catalog.engines() {
            self.mount_default(kind).await?;
        }
        Ok(())
    }

    /// Dev mode serves each engine at the contract's default path, which is its name.
    async fn mount_default(&self, kind: &str) -> Result<(), Failure> {
        if self.mounts.route(kind).is_some() {
            return Ok(());
        }
        let path = MountPath::new(kind).map_err(Failure::internal)?;
        let (kind, description) = (kind.to_owned(), "default mount of dev mode".to_owned());
        let mut unit = self.store.begin();
        let new = NewMount { path, kind, description, default_ttl: 0, max_ttl: 0 };
        let record = self.mounts.enable(&mut unit, &self.catalog, new).await?;
        unit.commit().await?;
        self.mounts.serve(record, &self.catalog)
    }

    /// Brings the stored data of every mount to the schema of its component.
    async fn migrate(self: &Arc<Self>) -> Result<(), Failure> {
        for mount in self.mounts.all() {
            crate::migrate::run(self, &mount).await?;
        }
        Ok(())
    }

    /// Serves one request. Never fails: whatever goes wrong is a response.
    pub async fn handle(self: &Arc<Self>, request: Request) -> Response {
        pipeline::handle(self, &request).await
    }

    /// Stops due work, closes outbound sessions and the store.
    pub async fn stop(&self) {
        self.stop.send_replace(true);
        let worker = self.due.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(worker) = worker
            && worker.await.is_err()
        {
            self.log.line("error", "due-work-ended-early", &[]);
        }
        self.sandbox.close().await;
        self.store.close().await;
    }

    pub(crate) fn log_lease(&self, level: &str, event: &str, lease: &LeaseRecord, why: &str) {
        // The id without its last part, which is as good as the lease.
        let path = lease.id.rsplit_once('/').map_or("", |(path, _)| path);
        let pairs = [
            ("lease", path.to_owned()),
            ("tag", lease.tag.clone()),
            ("attempts", lease.attempts.to_string()),
            ("cause", why.to_owned()),
        ];
        self.log.line(level, event, &pairs);
    }
}
