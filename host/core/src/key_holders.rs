//! Procedures that a quorum of key holders performs on the open service: root generation and
//! rekeying.
//!
//! This file prevents fewer holders than the threshold from becoming root or from changing the
//! shares, and prevents a stranger with bogus shares from ending the procedure of the holders:
//! shares are kept per client, as for unsealing. The state is in memory and ends when the service
//! is sealed.

mod generation;
mod rekey;

pub use generation::{GenerationStatus, OTP_LENGTH, decode_token};
pub use rekey::{
    NewShares, RekeyStatus, RekeyStep, RekeyTarget, VerificationStatus, VerificationStep,
};

use bulkhead_access::log::{Log, cause};
use bulkhead_access::quorum::Quorum;
use bulkhead_sandbox::FairSemaphore;
use bulkhead_store::{DataDirectory, KeyShare, SealConfig, SealKey, Store};
use bulkhead_wire::client::Client;
use bulkhead_wire::failure::{Failure, quoted};
use bulkhead_wire::log_level::LogLevel;
use generation::RootGeneration;
use rekey::Rekey;
use std::net::IpAddr;
use std::sync::Arc;
use tokio::sync::Mutex;

/// The procedures of an open store.
pub struct KeyHolders {
    directory: Arc<DataDirectory>,
    store: Arc<Store>,
    log: Arc<dyn Log>,
    /// Permit of the client that may wait for `procedures` with a share, so that a client with a
    /// thousand shares delays another client by a single share.
    clients: FairSemaphore<Client>,
    /// Locked for the whole of a step, so that the unseal key never changes under a step.
    procedures: Mutex<ActiveProcedures>,
}

/// The procedures in progress, at most one of each kind.
#[derive(Default)]
struct ActiveProcedures {
    generation: Option<RootGeneration>,
    rekey: Option<Rekey>,
}

/// A share given for a procedure.
#[derive(Clone, Copy)]
pub struct GivenShare<'a> {
    /// Share of the old or the new key, hexadecimal or base64; parsed at the step.
    pub share: &'a str,
    /// The nonce of the procedure that the caller means.
    pub nonce: &'a str,
    /// Address of the client: shares count per client, and refusals are logged with the address.
    pub remote: IpAddr,
}

impl GivenShare<'_> {
    fn client(&self) -> Client {
        Client::of(self.remote)
    }

    /// Adds the share to `quorum`. Returns the keys of all sets that the share completes.
    fn add_to(&self, quorum: &mut Quorum) -> Result<Vec<SealKey>, Failure> {
        if self.share.is_empty() {
            return Err(Failure::invalid(
                "key is required: a share of the unseal or recovery key, hexadecimal or base64",
            ));
        }
        let share =
            KeyShare::parse(self.share).map_err(|why| Failure::invalid(why).recordable())?;
        quorum.add(self.client(), &share)
    }
}

impl KeyHolders {
    pub(crate) fn new(
        directory: &Arc<DataDirectory>,
        store: &Arc<Store>,
        log: &Arc<dyn Log>,
    ) -> Self {
        Self {
            directory: Arc::clone(directory),
            store: Arc::clone(store),
            log: Arc::clone(log),
            clients: FairSemaphore::new(1),
            procedures: Mutex::default(),
        }
    }

    /// Returns the split of the holders' key in use.
    async fn config(&self) -> Result<SealConfig, Failure> {
        let config = self.directory.seal_config().await?;
        config.ok_or_else(|| {
            Failure::invalid(
                "nobody holds a share: this server was initialised without recovery keys",
            )
        })
    }

    /// Adds a share to the quorum. Returns true if the holders' key is proven.
    async fn try_share(&self, quorum: &mut Quorum, share: GivenShare<'_>) -> Result<bool, Failure> {
        let keys = share.add_to(quorum)?;
        if self.directory.has_unseal_key(&self.store, keys).await? {
            return Ok(true);
        }
        quorum.end_if_complete(share.client())?;
        Ok(false)
    }

    /// Logs a step that was refused: guesses of shares leave a trace.
    fn log_refusal<T>(&self, remote: IpAddr, step: Result<T, Failure>) -> Result<T, Failure> {
        if let Err(failure) = &step {
            let pairs = [("remote", remote.to_string()), cause(failure)];
            self.log.line(LogLevel::Warn, "key-share-refused", &pairs);
        }
        step
    }

    fn log_act(&self, remote: IpAddr, event: &str) {
        self.log.line(LogLevel::Info, event, &[("remote", remote.to_string())]);
    }
}

/// Checks that the caller means the procedure in progress.
///
/// # Errors
/// 400 for another nonce.
fn check_nonce(request_nonce: &str, nonce: &str, path: &str) -> Result<(), Failure> {
    if request_nonce == nonce {
        return Ok(());
    }
    let request_nonce =
        if request_nonce.is_empty() { "no nonce".to_owned() } else { quoted(request_nonce) };
    Err(Failure::invalid(format!(
        "{request_nonce} is not the nonce of the procedure in progress; read the nonce at {path}"
    )))
}

/// Checks the nonce of a cancellation, which may be left out.
fn check_optional_nonce(request_nonce: &str, nonce: &str, path: &str) -> Result<(), Failure> {
    if request_nonce.is_empty() { Ok(()) } else { check_nonce(request_nonce, nonce, path) }
}
