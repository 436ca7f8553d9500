//! The seal: initialising, unsealing and sealing the store.
//!
//! This file prevents work from running concurrently with a reopened store: a single caller at a
//! time opens or closes the store, and the store is opened only after every request from before the
//! last seal has ended. Shares are kept per client, and clients give shares in turn, so that no
//! client can keep the service sealed for the others. Against guessing of shares, each refusal is
//! logged with its address and, once the audit is open, audited.

mod automatic;
mod data_swap;
mod rejoining;
mod restoring;
mod unattended;
mod unsealing;
mod waiting;

pub use unattended::SelfInitialisation;
pub use unsealing::UnsealShare;

use crate::core::Core;
use crate::lifecycle;
use crate::process::ProcessState;
use crate::seal_setting::kind_of;
use crate::settings::ServiceSettings;
use bulkhead_access::quorum::Quorum;
use bulkhead_access::tokens;
use bulkhead_audit::RefusedUnseals;
use bulkhead_sandbox::FairSemaphore;
use bulkhead_store::{
    DataDirectory, FirstKeys, KeyShare, SealConfig, SealKey, SecretHasher, Store, StoreFault,
};
use bulkhead_wire::client::Client;
use bulkhead_wire::failure::Failure;
use bulkhead_wire::log_level::LogLevel;
use bulkhead_wire::secret::Secret;
use bulkhead_wire::sync;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, RwLock};
use std::time::Duration;
use tokio::sync::{Mutex, OwnedRwLockReadGuard, watch};

/// The seal of a data directory.
pub struct ServiceSeal {
    /// The state that survives sealing.
    pub process: Arc<ProcessState>,
    directory: Arc<DataDirectory>,
    /// The open core; `None` while sealed.
    open: RwLock<Option<Arc<Core>>>,
    /// Lock held while the service is initialised, unsealed or sealed.
    turn: Mutex<()>,
    swap: data_swap::DataSwap,
    /// Permit of the client that may wait for `turn` with a share. A client with a thousand shares
    /// delays another client by a single share.
    clients: FairSemaphore<Client>,
    /// Shares received so far. Locked only briefly, because the status reads this field.
    unsealing: std::sync::Mutex<Option<Quorum>>,
    /// Refused attempts that are not audited yet.
    refused: std::sync::Mutex<RefusedUnseals>,
    /// Number of openings of the service.
    openings: AtomicU64,
    /// True while a node whose claim was ended opens its data again.
    is_rejoining: AtomicBool,
}

/// The attempts of a node to open its data again.
pub struct Rejoining {
    /// The closed service, whose store has the root key.
    lost: Arc<Core>,
    /// Number of openings until the loss: people may open and seal the service meanwhile.
    openings: u64,
    is_delay_logged: bool,
}

/// Seal state for the status endpoints.
pub struct SealStatus {
    /// True if the data directory contains a cluster.
    pub initialized: bool,
    /// Kind of the seal of the data, or of the configuration before the initialisation.
    pub kind: String,
    /// True if the server opens the data by itself, and shares are of a recovery key.
    pub is_automatic: bool,
    /// True if the data have another seal than the configuration asks for.
    pub awaits_migration: bool,
    /// Split of the unseal key, or of the recovery key. `None` if the service is not initialised,
    /// or nobody holds shares.
    pub config: Option<SealConfig>,
    /// True while the store is closed; also before the initialisation.
    pub sealed: bool,
    /// Number of shares received from all clients.
    pub progress: u8,
    /// True if enough shares were received but do not open the data.
    pub has_wrong_share: bool,
    /// Empty if no share was received.
    pub nonce: String,
    /// `None` if the service is not initialised.
    pub cluster_id: Option<String>,
}

/// Result of the initialisation. Shown once; the values cannot be shown again.
pub struct InitialisationResult {
    /// All shares of the unseal key, or of the recovery key beside an automatic seal, for the key
    /// holders.
    pub shares: Vec<KeyShare>,
    /// Text of the first root token, usable after the first unsealing.
    pub root_token: Secret,
}

impl ServiceSeal {
    /// Returns the closed seal of the directory.
    pub fn new(process: Arc<ProcessState>, directory: Arc<DataDirectory>) -> Self {
        let (open, turn) = (RwLock::default(), Mutex::default());
        let (unsealing, refused) = (std::sync::Mutex::default(), std::sync::Mutex::default());
        let clients = FairSemaphore::new(1);
        let swap = data_swap::DataSwap::default();
        let (openings, is_rejoining) = (AtomicU64::default(), AtomicBool::default());
        Self {
            process,
            directory,
            open,
            turn,
            swap,
            clients,
            unsealing,
            refused,
            openings,
            is_rejoining,
        }
    }

    /// Returns true if the data directory contains a cluster.
    ///
    /// # Errors
    /// If the directory must be inspected and cannot be read.
    pub async fn is_initialised(&self) -> Result<bool, Failure> {
        Ok(self.directory.seals().await?.is_some())
    }

    /// Creates a new cluster in the empty directory. `split` is the split of the unseal key; with
    /// an automatic seal, of the recovery key, or `None` for no recovery key. The cluster stays
    /// sealed unless an automatic seal opens the cluster.
    ///
    /// # Errors
    /// 400 if the directory is already initialised, and for an unseal key without a split; a
    /// failure of the keeper of an external seal.
    pub async fn initialise(
        &self,
        split: Option<SealConfig>,
    ) -> Result<InitialisationResult, Failure> {
        let _turn = self.turn.lock().await;
        if self.directory.seals().await?.is_some() {
            // Clients of this API search for this text.
            return Err(Failure::invalid(
                "Vault is already initialized: unseal with the shares of the key",
            ));
        }
        let key = SealKey::generate()?;
        let holders = split.map(|config| (config, &key));
        let automatic = self.new_automatic_key().await?;
        let keys = match (&automatic, holders) {
            (Some((seal, key)), holders) => FirstKeys::automatic(seal.clone(), key, holders),
            (None, Some((config, key))) => FirstKeys::of_holders(config, key),
            (None, None) => {
                return Err(Failure::invalid("an unseal key needs a number of shares"));
            }
        };
        let shares = match split {
            Some(config) => bulkhead_store::split(&key, config)?,
            None => Vec::new(),
        };
        let root_token = tokens::keys::generate_text()?;
        let now = self.now();
        let first = |hashes: &SecretHasher| match tokens::root_token_row(hashes, &root_token, now) {
            Ok(row) => Ok(vec![row]),
            Err(failure) => Err(StoreFault::Unavailable(failure.message)),
        };
        self.directory.initialise(keys, first).await?;
        let pairs = [
            ("seal", self.process.settings.seal.kind().to_owned()),
            ("shares", split.map_or(0, |config| config.shares).to_string()),
        ];
        self.process.settings.log.line(LogLevel::Info, "initialised", &pairs);
        self.process.note_change();
        if let Some((_, key)) = &automatic {
            self.open_initialised(key).await;
        }
        Ok(InitialisationResult { shares, root_token })
    }

    /// Checks the rate limit of a sender without a token before the request's body is read.
    ///
    /// # Errors
    /// 429 if the client is over the limit.
    pub async fn check_stranger(&self, remote: IpAddr) -> Result<(), Failure> {
        self.process.unauthenticated_limits.check(remote, &*self.process.settings.log).await
    }

    /// Counts a request of a sender without a token against the rate limit.
    ///
    /// # Errors
    /// 429 if the client is over the limit.
    pub async fn admit_stranger(&self, remote: IpAddr) -> Result<(), Failure> {
        self.process.unauthenticated_limits.admit(remote, &*self.process.settings.log).await
    }

    /// Returns the seal state, sealed or unsealed, and before the initialisation.
    ///
    /// # Errors
    /// If the directory must be inspected and cannot be read.
    pub async fn status(&self) -> Result<SealStatus, Failure> {
        let (seals, cluster_id) =
            (self.directory.seals().await?, self.directory.cluster_id().await?);
        let setting = &self.process.settings.seal;
        let kind = seals.as_ref().map_or(setting.kind(), kind_of).to_owned();
        let unsealing = sync::lock(&self.unsealing);
        let attempt = unsealing.as_ref().filter(|attempt| attempt.progress() > 0);
        Ok(SealStatus {
            initialized: seals.is_some(),
            is_automatic: seals
                .as_ref()
                .map_or(setting.is_automatic(), |seals| seals.automatic.is_some()),
            awaits_migration: seals.as_ref().is_some_and(|seals| setting.differs_from(seals)),
            config: seals.and_then(|seals| seals.holders),
            kind,
            sealed: self.core().is_none(),
            progress: attempt.map_or(0, Quorum::progress),
            has_wrong_share: attempt.is_some_and(Quorum::has_wrong_share),
            nonce: attempt.map(|attempt| attempt.nonce.clone()).unwrap_or_default(),
            cluster_id,
        })
    }

    /// Opens the directory with the dev key file beside the data, initialising an empty directory
    /// first. Then provides the dev-mode setup: `root_token`, and every engine at its default path.
    ///
    /// # Errors
    /// The reason the service stays sealed, worded for the operator.
    pub async fn open_dev(&self, root_token: &Secret) -> Result<(), Failure> {
        let _turn = self.turn.lock().await;
        let key = bulkhead_store::dev_key(&self.directory)?;
        if self.directory.seals().await?.is_none() {
            let keys = FirstKeys::of_holders(SealConfig::SINGLE, &key);
            self.directory.initialise(keys, |_| Ok(Vec::new())).await?;
        }
        let store = self.directory.open(key).await.map_err(|fault| self.wrong_dev_key(fault))?;
        self.process.begin_dev_mode();
        let core = self.unlock(store).await?;
        lifecycle::provision_dev(&core, root_token).await
    }

    /// Returns the open core and the right to work with the core. The core is read twice: a request
    /// neither waits for a seal that is under way, nor enters after the seal.
    pub async fn enter(&self) -> Option<(Arc<Core>, OwnedRwLockReadGuard<()>)> {
        self.core()?;
        let in_flight = Arc::clone(&self.process.in_flight).read_owned().await;
        Some((self.core()?, in_flight))
    }

    /// Answers every request that waits for a change with `failure`, and ends the migrations of
    /// mounts: for the end of the process. Migrations of a service that is being opened end, too.
    pub fn end_waiting(&self, failure: &Failure) {
        self.process.ending.begin();
        if let Some(core) = self.core() {
            core.parking.close(failure);
            core.sandbox.end_migrations();
        }
    }

    /// Seals the service if `is_meant` accepts the open core. Another seal and unseal may have
    /// happened since the request for this seal.
    pub async fn close_if(&self, is_meant: impl Fn(&Arc<Core>) -> bool) {
        self.close(is_meant, lifecycle::SEAL_PATIENCE).await;
    }

    /// Seals the service for the end of the process. Requests in flight get at most `patience` to
    /// end, and at most the time of any seal.
    pub async fn close_within(&self, patience: Duration) {
        self.close(|_| true, patience.min(lifecycle::SEAL_PATIENCE)).await;
    }

    async fn close(&self, is_meant: impl Fn(&Arc<Core>) -> bool, patience: Duration) {
        let _turn = self.turn.lock().await;
        self.close_locked(is_meant, patience).await;
    }

    /// Seals the service like [`ServiceSeal::close_if`]. The caller holds `turn`.
    async fn close_locked(&self, is_meant: impl Fn(&Arc<Core>) -> bool, patience: Duration) {
        let core = sync::write(&self.open).take_if(|open| is_meant(open));
        if let Some(core) = core {
            lifecycle::stop(&core, patience).await;
            core.log.line(LogLevel::Info, "sealed", &[]);
            self.process.note_change();
        }
    }

    /// Notes that the process was asked to stop: `sys/health` says so, and requests are still
    /// served.
    pub fn begin_stopping(&self) {
        self.process.begin_stopping();
    }

    /// Returns true if the process was asked to stop.
    pub fn is_stopping(&self) -> bool {
        self.process.is_stopping()
    }

    /// Returns true while this node is drained after `sys/step-down`.
    pub fn is_drained(&self) -> bool {
        self.process.is_drained()
    }

    /// Returns a receiver that is notified when the service is initialised, unsealed or sealed, or
    /// begins to stop.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.process.changes()
    }

    /// Returns store time, in milliseconds.
    pub fn now(&self) -> u64 {
        self.directory.now()
    }

    /// Rewords a wrong key in dev mode, where no operator has shares to give again.
    fn wrong_dev_key(&self, fault: StoreFault) -> Failure {
        match fault {
            StoreFault::WrongKey => Failure::internal(format!(
                "the key file in {} does not open the data there: the data were sealed with \
                 another key or for another cluster; restore a key file and data of one backup, or \
                 choose another data directory",
                self.process.settings.store.directory.display()
            )),
            other => other.into(),
        }
    }

    /// Returns the start settings, available even while sealed.
    pub fn settings(&self) -> &ServiceSettings {
        &self.process.settings
    }

    /// Returns the open core; `None` while sealed.
    pub fn core(&self) -> Option<Arc<Core>> {
        sync::read(&self.open).clone()
    }

    /// Starts the service on the open store, after all work from before the last seal has ended.
    /// The caller holds `turn`.
    async fn unlock(&self, store: Arc<Store>) -> Result<Arc<Core>, Failure> {
        let core = self.unlock_without_due_work(store).await?;
        self.begin_work(&core);
        Ok(core)
    }

    /// Begins the due work of the open service.
    fn begin_work(&self, core: &Arc<Core>) {
        lifecycle::begin_due_work(core);
        self.process.settings.log.line(LogLevel::Info, "unsealed", &[]);
    }

    /// Starts the service on the open store like [`ServiceSeal::unlock`], without due work.
    async fn unlock_without_due_work(&self, store: Arc<Store>) -> Result<Arc<Core>, Failure> {
        let nothing_in_flight = self.process.in_flight.write().await;
        let core = match lifecycle::open(Arc::clone(&store), Arc::clone(&self.process)).await {
            Ok(core) => core,
            Err(failure) => {
                Store::close(&store).await;
                return Err(failure);
            }
        };
        let refused = std::mem::take(&mut *sync::lock(&self.refused));
        core.audit.record_refused_unseals(&refused).await;
        self.openings.fetch_add(1, Ordering::SeqCst);
        *sync::write(&self.open) = Some(Arc::clone(&core));
        drop(nothing_in_flight);
        self.process.note_change();
        Ok(core)
    }
}
