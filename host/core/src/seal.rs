//! The seal: initialising, unsealing and sealing the store.
//!
//! This file prevents work from running concurrently with a reopened store: a single caller at a
//! time opens or closes the store, and the store is opened only after every request from before the
//! last seal has ended. Shares are kept per client, and clients give shares in turn, so that no
//! client can keep the service sealed for the others. Against guessing of shares, each refusal is
//! logged with its address and, once the audit is open, audited.

use crate::audit::RefusedUnseals;
use crate::core::Core;
use crate::lifecycle;
use crate::process::ProcessState;
use crate::settings::ServiceSettings;
use bulkhead_access::log::cause;
use bulkhead_access::quorum::Quorum;
use bulkhead_access::tokens;
use bulkhead_sandbox::FairSemaphore;
use bulkhead_store::{
    DataDirectory, KeyShare, SealConfig, SealKey, SecretHasher, Store, StoreFault,
};
use bulkhead_wire::client::Client;
use bulkhead_wire::failure::Failure;
use bulkhead_wire::secret::Secret;
use bulkhead_wire::sync;
use std::net::IpAddr;
use std::sync::{Arc, RwLock};
use tokio::sync::{Mutex, OwnedRwLockReadGuard};

/// The seal of a data directory.
pub struct ServiceSeal {
    process: Arc<ProcessState>,
    directory: Arc<DataDirectory>,
    /// The open core; `None` while sealed.
    open: RwLock<Option<Arc<Core>>>,
    /// Lock held while the service is initialised, unsealed or sealed.
    turn: Mutex<()>,
    /// Permit of the client that may wait for `turn` with a share. A client with a thousand shares
    /// delays another client by a single share.
    clients: FairSemaphore<Client>,
    /// Shares received so far. Locked only briefly, because the status reads this field.
    unsealing: std::sync::Mutex<Option<Quorum>>,
    /// Refused attempts that are not audited yet.
    refused: std::sync::Mutex<RefusedUnseals>,
}

/// Seal state for the status endpoints.
pub struct SealStatus {
    /// `None` if the service is not initialised.
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
    /// All shares of the unseal key, for the key holders.
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
        Self { process, directory, open, turn, clients, unsealing, refused }
    }

    /// Returns true if the data directory contains a cluster.
    ///
    /// # Errors
    /// If the directory must be inspected and cannot be read.
    pub async fn is_initialised(&self) -> Result<bool, Failure> {
        Ok(self.directory.seal_config().await?.is_some())
    }

    /// Creates a new cluster in the empty directory. The cluster stays sealed.
    ///
    /// # Errors
    /// 400 if the directory is already initialised.
    pub async fn initialise(&self, config: SealConfig) -> Result<InitialisationResult, Failure> {
        let _turn = self.turn.lock().await;
        if self.directory.seal_config().await?.is_some() {
            // Clients of this API search for this text.
            return Err(Failure::invalid(
                "Vault is already initialized: unseal with the shares of the key",
            ));
        }
        let key = SealKey::generate()?;
        let shares = bulkhead_store::split(&key, config)?;
        let root_token = tokens::keys::generate_text()?;
        let now = self.now();
        let first = |hashes: &SecretHasher| match tokens::root_token_row(hashes, &root_token, now) {
            Ok(row) => Ok(vec![row]),
            Err(failure) => Err(StoreFault::Unavailable(failure.message)),
        };
        self.directory.initialise(config, &key, first).await?;
        self.process.settings.log.line(
            "info",
            "initialised",
            &[("shares", config.shares.to_string())],
        );
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

    /// Takes a share from `remote`. If the share completes a correct set, the service is open on
    /// return.
    ///
    /// # Errors
    /// 400 for a text that is not a share of this seal, and if enough shares of this client do not
    /// open the data. The client's attempt is then over; its shares are still combined with later
    /// shares.
    pub async fn unseal(&self, share: &str, remote: IpAddr) -> Result<(), Failure> {
        let client = Client::of(remote);
        let its_turn = self.clients.acquire(client).await;
        let taken = self.take_share(share, client).await;
        drop(its_turn);
        if let Err(failure) = &taken {
            let log = &self.process.settings.log;
            let pairs = [("remote", remote.to_string()), cause(failure)];
            log.line("warn", "unseal-refused", &pairs);
            let why = failure.recorded_or_code().to_owned();
            sync::lock(&self.refused).add(self.now(), remote, why);
        }
        taken
    }

    async fn take_share(&self, share: &str, client: Client) -> Result<(), Failure> {
        let _turn = self.turn.lock().await;
        let share = KeyShare::parse(share).map_err(|why| Failure::invalid(why).recordable())?;
        let Some(config) = self.directory.seal_config().await? else {
            return Err(Failure::invalid(
                "Vault is not initialized: there is nothing to unseal; see sys/init",
            ));
        };
        if self.core().is_some() {
            return Ok(());
        }
        let keys = self.add_share(config, client, &share)?;
        match self.directory.find_key(keys).await? {
            Some(key) => {
                let store = self.directory.open(key).await?;
                self.unlock(store).await?;
                sync::lock(&self.unsealing).take();
                Ok(())
            }
            None => self.end_complete_attempt(client),
        }
    }

    /// Adds a share of `client` to the received shares. Returns the keys of all sets that the share
    /// completes.
    fn add_share(
        &self,
        config: SealConfig,
        client: Client,
        share: &KeyShare,
    ) -> Result<Vec<SealKey>, Failure> {
        let mut unsealing = sync::lock(&self.unsealing);
        let attempt = match unsealing.take() {
            Some(attempt) => attempt,
            None => Quorum::new(config)?,
        };
        unsealing.insert(attempt).add(client, share)
    }

    /// Ends the client's attempt if the client gave enough shares and none of their sets opened the
    /// store.
    fn end_complete_attempt(&self, client: Client) -> Result<(), Failure> {
        let mut unsealing = sync::lock(&self.unsealing);
        unsealing.as_mut().map_or(Ok(()), |attempt| attempt.end_if_complete(client))
    }

    /// Forgets the shares of `remote`'s client. The shares of other clients stay.
    ///
    /// # Errors
    /// 500 if the machine's random generator fails.
    pub fn forget_shares(&self, remote: IpAddr) -> Result<(), Failure> {
        let mut unsealing = sync::lock(&self.unsealing);
        let forgotten = match unsealing.as_mut() {
            Some(attempt) => attempt.forget(Client::of(remote))?,
            None => 0,
        };
        drop(unsealing);
        if forgotten > 0 {
            let pairs = [("remote", remote.to_string()), ("shares", forgotten.to_string())];
            self.process.settings.log.line("warn", "key-shares-discarded", &pairs);
        }
        Ok(())
    }

    /// Returns the seal state, sealed or unsealed, and before the initialisation.
    ///
    /// # Errors
    /// If the directory must be inspected and cannot be read.
    pub async fn status(&self) -> Result<SealStatus, Failure> {
        let (config, cluster_id) =
            (self.directory.seal_config().await?, self.directory.cluster_id().await?);
        let unsealing = sync::lock(&self.unsealing);
        let attempt = unsealing.as_ref().filter(|attempt| attempt.progress() > 0);
        Ok(SealStatus {
            config,
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
        if self.directory.seal_config().await?.is_none() {
            self.directory.initialise(SealConfig::SINGLE, &key, |_| Ok(Vec::new())).await?;
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
        let _turn = self.turn.lock().await;
        let core = sync::write(&self.open).take_if(|open| is_meant(open));
        if let Some(core) = core {
            lifecycle::stop(&core).await;
            core.log.line("info", "sealed", &[]);
        }
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
                self.process.settings.directory.display()
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
        *sync::write(&self.open) = Some(Arc::clone(&core));
        drop(nothing_in_flight);
        lifecycle::begin_due_work(&core);
        core.log.line("info", "unsealed", &[]);
        Ok(core)
    }
}
