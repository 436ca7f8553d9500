//! The unsealed service as one value: the nouns it is made of, its start and its end.

use crate::audit::Audit;
use crate::catalog::{Catalog, PluginLoader};
use crate::claims::Claims;
use crate::due;
use crate::guards;
use crate::leases::{self, LeaseRecord};
use crate::log::Log;
use crate::mounts::{self, Builtin, Lifetimes, Marks, Mounts, NewMount, Settings};
use crate::policies::stored::Policies;
use crate::service::Process;
use crate::tokens;
use bulkhead_sandbox::{Maker, Sandbox};
use bulkhead_store::Store;
use bulkhead_wire::failure::{Failure, Kind};
use bulkhead_wire::name::MountPath;
use bulkhead_wire::secret::Secret;
use bulkhead_wire::sync;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// How long requests in flight may take to end when the service is sealed.
const SEAL_PATIENCE: Duration = Duration::from_secs(5);

/// The service while it is unsealed.
pub(crate) struct Core {
    pub(crate) process: Arc<Process>,
    pub(crate) store: Arc<Store>,
    pub(crate) sandbox: Arc<Sandbox>,
    pub(crate) catalog: Catalog,
    pub(crate) mounts: Mounts,
    pub(crate) policies: Policies,
    pub(crate) audit: Audit,
    pub(crate) claims: Arc<Claims>,
    pub(crate) tokens: tokens::Ongoing,
    pub(crate) lifetimes: Lifetimes,
    pub(crate) log: Arc<dyn Log>,
    seal_asked: AtomicBool,
    stopped_writes_told: AtomicBool,
    stop: watch::Sender<bool>,
    due: Mutex<Option<JoinHandle<()>>>,
}

impl Core {
    /// Loads the catalog and the mount table from the open store, and makes due what an earlier
    /// process left half-done. Neither leases nor roles are read.
    ///
    /// # Errors
    /// What keeps the service from starting, in words for the operator.
    pub(crate) async fn open(
        store: Arc<Store>,
        process: Arc<Process>,
    ) -> Result<Arc<Self>, Failure> {
        let settings = &process.settings;
        let sandbox =
            Sandbox::new(Arc::clone(&process.runtime), Arc::clone(&store), &settings.own_addresses);
        let loader = PluginLoader { store: &store, sandbox: &sandbox, compiler: &process.compiler };
        let catalog = Catalog::load(loader, settings).await?;
        let mounts = Mounts::load(&store, &catalog, &settings.log).await?;
        let audit = Audit::open(&store, &settings.audit, &settings.log).await?;
        let core = Arc::new(Self {
            store,
            sandbox,
            catalog,
            mounts,
            policies: Policies::default(),
            audit,
            claims: Arc::default(),
            tokens: tokens::Ongoing::default(),
            lifetimes: Lifetimes {
                default: settings.default_lease_ttl,
                max: settings.max_lease_ttl,
            },
            log: Arc::clone(&settings.log),
            seal_asked: AtomicBool::new(false),
            stopped_writes_told: AtomicBool::new(false),
            stop: watch::channel(false).0,
            due: Mutex::default(),
            process,
        });
        leases::undo_all(&core).await?;
        guards::release_all(&core).await?;
        core.migrate().await?;
        Ok(core)
    }

    /// Starts due work, and goes on with mounts that were being removed or moved.
    pub(crate) fn begin_due_work(self: &Arc<Self>) {
        let worker = tokio::spawn(due::run(Arc::clone(self), self.stop.subscribe()));
        *sync::lock(&self.due) = Some(worker);
        mounts::resume(self);
    }

    /// Default and longest lifetime of tokens: as `auth/token` is tuned, or else the system's.
    pub(crate) fn token_lifetimes(&self) -> Lifetimes {
        self.mounts.builtin(Builtin::Token).settings.lifetimes(self.lifetimes)
    }

    /// What dev mode promises: a root token, and every engine of this binary at its default path.
    pub(crate) async fn provision_dev(&self, root_token: &Secret) -> Result<(), Failure> {
        tokens::ensure_root(&self.store, root_token).await?;
        for kind in self.catalog.official_engines() {
            self.mount_default(&kind).await?;
        }
        Ok(())
    }

    /// Dev mode serves each engine at the contract's default path, which is its name.
    async fn mount_default(&self, kind: &str) -> Result<(), Failure> {
        if self.mounts.route(kind).is_some() {
            return Ok(());
        }
        let path = MountPath::new(kind).map_err(Failure::internal)?;
        let settings =
            Settings { description: "default mount of dev mode".to_owned(), ..Settings::default() };
        let mut unit = self.store.begin();
        let new = NewMount { path, kind: kind.to_owned(), marks: Marks::default(), settings };
        let record = match self.mounts.enable(&mut unit, &self.catalog, new).await {
            Err(taken) if taken.kind == Kind::InvalidRequest => {
                // By a mount whose record does not open: the other mounts are served all the same.
                self.log.line("warn", "default-mount-left-out", &[("cause", taken.message)]);
                return Ok(());
            }
            record => record?,
        };
        unit.commit().await?;
        self.mounts.serve(record, &self.catalog)
    }

    /// Brings the stored data of every mount to the schema of its component. A mount of an uploaded
    /// one that fails in it is left out.
    async fn migrate(self: &Arc<Self>) -> Result<(), Failure> {
        for mount in self.mounts.all() {
            match crate::migrate::run(self, &mount).await {
                Err(failure) if mount.plugin.engine.identity().maker == Maker::Uploaded => {
                    let pairs = [
                        ("mount", mount.record.path.to_string()),
                        ("cause", failure.message.clone()),
                    ];
                    self.log.line("error", "mount-without-plugin", &pairs);
                    self.mounts.strand(mount.record.clone(), failure.message);
                }
                migrated => migrated?,
            }
        }
        Ok(())
    }

    /// What loading a plugin takes.
    pub(crate) fn loader(&self) -> PluginLoader<'_> {
        PluginLoader {
            store: &self.store,
            sandbox: &self.sandbox,
            compiler: &self.process.compiler,
        }
    }

    /// Asks for the service to be sealed once the request that asks is answered.
    pub(crate) fn ask_to_seal(&self) {
        self.seal_asked.store(true, Ordering::SeqCst);
    }

    /// Says once that nothing is written any more.
    pub(crate) fn tell_of_stopped_writes(&self, reason: &str) {
        if !self.stopped_writes_told.swap(true, Ordering::SeqCst) {
            self.log.line("error", "writes-stopped", &[("cause", reason.to_owned())]);
        }
    }

    /// Resolves when due work is to end.
    pub(crate) async fn stopping(&self) {
        // An error means that the core is gone, which is an end, too.
        let _ = self.stop.subscribe().wait_for(|stop| *stop).await;
    }

    pub(crate) fn seal_is_asked(&self) -> bool {
        self.seal_asked.load(Ordering::SeqCst)
    }

    /// Stops due work, waits a little for what is in flight, closes outbound sessions and the
    /// store. What is still under way then cannot commit; what it reserved is undone at the next
    /// unsealing, which waits for its end.
    pub(crate) async fn stop(&self) {
        self.stop.send_replace(true);
        let worker = sync::lock(&self.due).take();
        if let Some(worker) = worker
            && worker.await.is_err()
        {
            self.log.line("error", "due-work-ended-early", &[]);
        }
        if tokio::time::timeout(SEAL_PATIENCE, self.process.in_flight.write()).await.is_err() {
            self.log.line("warn", "sealed-under-requests", &[]);
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
