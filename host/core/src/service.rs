//! The service over its data directory: sealed, or open.
//!
//! Sealed, it answers what its state is, how to initialise it and how to unseal it, and nothing
//! else: the keys are not in memory, so nothing else could be answered. Sealing drops every key,
//! session and claim, with the last request that is still under way; what such a request can no
//! longer store is undone at the next unsealing, which waits for its end.

use crate::api::{self, HostTable};
use crate::audit::{self, AuditSettings};
use crate::catalog::Official;
use crate::core::Core;
use crate::log::Log;
use crate::pipeline;
use crate::random;
use crate::tables::Tables;
use crate::tokens;
use bulkhead_sandbox::Runtime;
use bulkhead_sandbox::compile::Compiler;
use bulkhead_store::failpoint;
use bulkhead_store::{
    DataDirectory, Hashes, Options, Progress, SealConfig, SealKey, Share, ShareCollector, Store,
    StoreFault,
};
use bulkhead_wire::failure::{Failure, Kind};
use bulkhead_wire::request::Request;
use bulkhead_wire::response::Response;
use bulkhead_wire::secret::Secret;
use bulkhead_wire::sync;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, RwLock};
use std::time::Duration;
use tokio::sync::{Mutex, OwnedRwLockReadGuard};

/// What a server is started with.
pub struct Settings {
    /// Where the store lives; made when missing, locked while in use.
    pub directory: PathBuf,
    /// The components of this binary.
    pub officials: Vec<Official>,
    /// The program that compiles uploaded components, which is this build of `bulkhead`.
    pub compiler: PathBuf,
    /// Seconds.
    pub default_lease_ttl: u64,
    /// Seconds.
    pub max_lease_ttl: u64,
    /// How long a call into a component may take that says nothing else of itself.
    pub request_timeout: Duration,
    /// The version that clients switch features on (decision P5).
    pub reported_version: String,
    /// The URL by which clients reach this node, as `sys/leader` tells it; empty when nobody said.
    pub api_address: String,
    /// Where the server listens: no component ever dials it.
    pub own_addresses: Vec<SocketAddr>,
    /// Where requests and answers are recorded.
    pub audit: AuditSettings,
    /// Where lines for the operator go.
    pub log: Arc<dyn Log>,
}

/// What stays the same while the store is opened and sealed again.
pub(crate) struct Process {
    pub(crate) settings: Settings,
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) compiler: Compiler,
    pub(crate) table: HostTable,
    /// Every request and every piece of due work holds it for reading until it has ended. Whoever
    /// opens the store waits for it: what began before a seal must not go on beside what undoes it.
    pub(crate) in_flight: Arc<tokio::sync::RwLock<()>>,
}

/// The running service.
pub struct Service {
    process: Arc<Process>,
    directory: Arc<DataDirectory>,
    /// `None` while sealed.
    open: RwLock<Option<Arc<Core>>>,
    /// Held by whoever initialises, unseals or seals.
    turn: Mutex<()>,
    /// Shares that came in so far. Held for moments only, because whoever asks for the status reads
    /// it.
    unsealing: std::sync::Mutex<Option<Unsealing>>,
}

/// An attempt to unseal, as far as it came.
struct Unsealing {
    /// Names the attempt, so that its shares are not mistaken for those of another.
    nonce: String,
    collector: ShareCollector,
}

/// Where the service stands between uninitialised and open.
pub(crate) struct SealStatus {
    /// `None` until it is initialised.
    pub(crate) config: Option<SealConfig>,
    pub(crate) sealed: bool,
    /// Shares that came in.
    pub(crate) progress: u8,
    /// Empty while there are none.
    pub(crate) nonce: String,
    /// `None` until it is initialised.
    pub(crate) cluster_id: Option<String>,
}

/// What initialising gives, once: nobody can show it again.
pub(crate) struct Initialised {
    pub(crate) shares: Vec<Share>,
    pub(crate) root_token: Secret,
}

impl Service {
    /// Holds the data directory, and serves sealed until [`Service::handle`] or
    /// [`Service::open_dev`] opens it.
    ///
    /// # Errors
    /// What keeps the service from starting, in words for the operator: a directory in use or not
    /// ours, an audit device that cannot be had.
    pub async fn start(settings: Settings) -> Result<Arc<Self>, Failure> {
        let directory = DataDirectory::hold(Options::at(&settings.directory)).await?;
        audit::check(&settings.audit).await?;
        let runtime = Runtime::new().map_err(Failure::internal)?;
        let table = HostTable::new().map_err(Failure::internal)?;
        let compiler = Compiler::new(settings.compiler.clone());
        let process =
            Arc::new(Process { settings, runtime, compiler, table, in_flight: Arc::default() });
        let (open, turn, unsealing) =
            (RwLock::default(), Mutex::default(), std::sync::Mutex::default());
        Ok(Arc::new(Self { process, directory, open, turn, unsealing }))
    }

    /// Whether there is a cluster in the data directory.
    ///
    /// # Errors
    /// When the directory has to be looked at and cannot be read.
    pub async fn is_initialised(&self) -> Result<bool, Failure> {
        Ok(self.directory.seal_config().await?.is_some())
    }

    /// The file with the key of a dev seal, if one lies beside the data: whoever has the directory
    /// can open it.
    pub fn dev_key_file(&self) -> Option<PathBuf> {
        bulkhead_store::dev_key_file(&self.directory)
    }

    /// Opens the directory with the key that lies beside its data, after initialising an empty one
    /// with it, and makes what dev mode promises: `root_token`, and every engine at its default
    /// path.
    ///
    /// # Errors
    /// What keeps it sealed, in words for the operator.
    pub async fn open_dev(&self, root_token: &Secret) -> Result<(), Failure> {
        let _turn = self.turn.lock().await;
        let key = bulkhead_store::dev_key(&self.directory)?;
        if self.directory.seal_config().await?.is_none() {
            self.directory.initialise(SealConfig::SINGLE, &key, |_| Ok(Vec::new())).await?;
        }
        let store = self.directory.open(key).await.map_err(|fault| self.wrong_dev_key(fault))?;
        let core = self.unlock(store).await?;
        core.provision_dev(root_token).await
    }

    /// The one share of the dev seal, in base64.
    ///
    /// # Errors
    /// When the directory has no dev seal.
    pub async fn dev_unseal_key(&self) -> Result<Secret, Failure> {
        let key = bulkhead_store::dev_key(&self.directory)?;
        Ok(Secret::new(key.share().base64().as_str()))
    }

    /// The tables of what is served; `None` while sealed, when the plugins are not loaded.
    #[must_use]
    pub fn tables(&self) -> Option<Tables> {
        self.core().map(|core| Tables::of(&core))
    }

    /// Serves one request. Never fails: whatever goes wrong is a response.
    pub async fn handle(self: &Arc<Self>, request: Request) -> Response {
        let response = self.answer(&request).await;
        failpoint::reach_only("answer.leaves");
        response
    }

    async fn answer(self: &Arc<Self>, request: &Request) -> Response {
        let found = self.process.table.find(request.verb, &request.path);
        if let Ok(Some((endpoint, _))) = &found
            && let Some(open) = self.process.table.open(*endpoint)
        {
            let answered = api::serve_open(self, open, request).await;
            return answered.unwrap_or_else(|failure| Response::failed(&failure));
        }
        let Some((core, in_flight)) = self.enter().await else {
            return Response::failed(&sealed());
        };
        let response = pipeline::handle(&core, request, found).await;
        drop(in_flight);
        if core.seal_is_asked() {
            self.seal(|open| Arc::ptr_eq(open, &core)).await;
        }
        response
    }

    /// The open core, and the right to work with it. Looked up twice: nobody waits for a seal that
    /// is under way, and nobody gets in behind it.
    async fn enter(&self) -> Option<(Arc<Core>, OwnedRwLockReadGuard<()>)> {
        self.core()?;
        let in_flight = Arc::clone(&self.process.in_flight).read_owned().await;
        Some((self.core()?, in_flight))
    }

    /// Goes over to the audit files that are now at the places of the devices, after somebody moved
    /// the old ones away: for SIGHUP. What cannot be opened is told in the log, and its old file is
    /// kept. While sealed there is nothing to do: unsealing opens the files.
    pub async fn reopen_audit(&self) {
        if let Some(core) = self.core() {
            core.audit.reopen().await;
        }
    }

    /// Seals the service: for the end of the process, and for `sys/seal`. Answers nothing more at
    /// once; requests in flight get a few seconds to end.
    pub async fn stop(&self) {
        self.seal(|_| true).await;
    }

    /// Seals, if what is open is what was meant: a request that asked for it may have been
    /// overtaken by another seal and by those who unsealed again.
    async fn seal(&self, is_meant: impl Fn(&Arc<Core>) -> bool) {
        let _turn = self.turn.lock().await;
        let core = sync::write(&self.open).take_if(|open| is_meant(open));
        if let Some(core) = core {
            core.stop().await;
            core.log.line("info", "sealed", &[]);
        }
    }

    /// Makes a new cluster in the empty directory. It stays sealed.
    ///
    /// # Errors
    /// 400 when it is initialised already.
    pub(crate) async fn initialise(&self, config: SealConfig) -> Result<Initialised, Failure> {
        let _turn = self.turn.lock().await;
        if self.directory.seal_config().await?.is_some() {
            // The text that clients of this API look for.
            return Err(Failure::invalid(
                "Vault is already initialized: unseal it with the shares of its key",
            ));
        }
        let key = SealKey::generate()?;
        let shares = bulkhead_store::split(&key, config)?;
        let root_token = tokens::keys::random()?;
        let now = self.now();
        let first = |hashes: &Hashes| match tokens::first_root(hashes, &root_token, now) {
            Ok(row) => Ok(vec![row]),
            Err(failure) => Err(StoreFault::Unavailable(failure.message)),
        };
        self.directory.initialise(config, &key, first).await?;
        self.process.settings.log.line(
            "info",
            "initialised",
            &[("shares", config.shares.to_string())],
        );
        Ok(Initialised { shares, root_token })
    }

    /// Takes one share. With enough of them the service is open when this returns.
    ///
    /// # Errors
    /// 400 for what is no share of this seal, and when shares do not open the data: all of them are
    /// then forgotten.
    pub(crate) async fn unseal(&self, share: &str) -> Result<(), Failure> {
        let _turn = self.turn.lock().await;
        let share = Share::parse(share).map_err(Failure::invalid)?;
        let Some(config) = self.directory.seal_config().await? else {
            return Err(Failure::invalid(
                "Vault is not initialized: there is nothing to unseal; see sys/init",
            ));
        };
        if self.core().is_some() {
            return Ok(());
        }
        match self.gather(config, share)? {
            Progress::Enough(key) => {
                let store = self.directory.open(key).await.map_err(wrong_shares)?;
                self.unlock(store).await.map(drop)
            }
            Progress::More(_) => Ok(()),
        }
    }

    /// Adds a share to those that came in, or begins an attempt with it. The attempt ends with the
    /// last share that it needs, whatever comes of them.
    fn gather(&self, config: SealConfig, share: Share) -> Result<Progress, Failure> {
        let mut unsealing = sync::lock(&self.unsealing);
        let mut attempt = match unsealing.take() {
            Some(attempt) => attempt,
            None => Unsealing { nonce: random::uuid()?, collector: ShareCollector::new(config) },
        };
        let progress = attempt.collector.add(share);
        if !matches!(progress, Ok(Progress::Enough(_))) && attempt.collector.count() > 0 {
            *unsealing = Some(attempt);
        }
        progress.map_err(Failure::invalid)
    }

    /// Forgets the shares that came in.
    pub(crate) fn forget_shares(&self) {
        sync::lock(&self.unsealing).take();
    }

    pub(crate) async fn seal_status(&self) -> Result<SealStatus, Failure> {
        let (progress, nonce) = self.progress();
        Ok(SealStatus {
            config: self.directory.seal_config().await?,
            sealed: self.core().is_none(),
            progress,
            nonce,
            cluster_id: self.directory.cluster_id().await?,
        })
    }

    /// Shares that came in, and the name of the attempt.
    fn progress(&self) -> (u8, String) {
        let unsealing = sync::lock(&self.unsealing);
        unsealing
            .as_ref()
            .map(|attempt| (attempt.collector.count(), attempt.nonce.clone()))
            .unwrap_or_default()
    }

    /// Store time, in milliseconds.
    pub(crate) fn now(&self) -> u64 {
        self.directory.now()
    }

    /// A dev seal has no shares that somebody could give again.
    fn wrong_dev_key(&self, fault: StoreFault) -> Failure {
        match fault {
            StoreFault::WrongKey => Failure::internal(format!(
                "the key file in {} does not open the data there: they were sealed with another key or for another \
                 cluster; put back the files that belong together, or choose another data directory",
                self.process.settings.directory.display()
            )),
            other => other.into(),
        }
    }

    pub(crate) fn process(&self) -> &Process {
        &self.process
    }

    /// The open core; `None` while sealed.
    pub(crate) fn core(&self) -> Option<Arc<Core>> {
        sync::read(&self.open).clone()
    }

    /// Begins to serve from the open store, once all that began before the last seal has ended. The
    /// caller has the turn.
    async fn unlock(&self, store: Arc<Store>) -> Result<Arc<Core>, Failure> {
        let nothing_in_flight = self.process.in_flight.write().await;
        let core = match Core::open(Arc::clone(&store), Arc::clone(&self.process)).await {
            Ok(core) => core,
            Err(failure) => {
                Store::close(&store).await;
                return Err(failure);
            }
        };
        *sync::write(&self.open) = Some(Arc::clone(&core));
        drop(nothing_in_flight);
        core.begin_due_work();
        core.log.line("info", "unsealed", &[]);
        Ok(core)
    }
}

fn wrong_shares(fault: StoreFault) -> Failure {
    match fault {
        StoreFault::WrongKey => Failure::invalid(
            "the shares do not open this data: at least one is wrong or of another cluster; \
             all were forgotten, begin again with the first",
        ),
        other => other.into(),
    }
}

/// The words that clients of this API look for (`spec/core.md` §1.5).
pub(crate) fn sealed() -> Failure {
    Failure::new(Kind::Unavailable, "Vault is sealed")
}
