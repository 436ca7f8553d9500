//! Rekeying: a quorum of key holders replaces their key and its shares: the unseal key, or the
//! recovery key beside an automatic seal.
//!
//! This file prevents new shares that nobody holds from being the only shares: with verification,
//! the old shares stay valid until a quorum of the new ones was given back.

use super::{ActiveProcedures, GivenShare, KeyHolders, check_nonce, check_optional_nonce};
use bulkhead_access::log::cause;
use bulkhead_access::quorum::Quorum;
use bulkhead_access::random;
use bulkhead_store::{KeyShare, RekeyOutcome, SealConfig, SealKey};
use bulkhead_wire::failure::Failure;
use bulkhead_wire::log_level::LogLevel;
use std::net::IpAddr;

/// Paths that show the progress and the nonce.
const STATUS: &str = "sys/rekey/init or sys/rotate/root/init (for recovery keys, \
    sys/rekey-recovery-key/init or sys/rotate/recovery/init)";
const VERIFICATION: &str = "sys/rekey/verify or sys/rotate/root/verify (for recovery keys, \
    sys/rekey-recovery-key/verify or sys/rotate/recovery/verify)";

/// The key that a caller wants to replace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RekeyTarget {
    /// The unseal key of data that people open.
    Unseal,
    /// The recovery key of data with an automatic seal.
    Recovery,
}

/// A rekey in progress.
pub(super) struct Rekey {
    nonce: String,
    /// The new split.
    config: SealConfig,
    is_verified: bool,
    /// Shares of the old key.
    quorum: Quorum,
    /// The new key, once the old key was proven and until the new shares are verified.
    pending: Option<PendingKey>,
}

/// A new key that is not in use yet.
struct PendingKey {
    nonce: String,
    key: SealKey,
    /// Shares of the new key that were given back.
    quorum: Quorum,
}

/// The progress of a rekey.
pub struct RekeyStatus {
    /// Empty if no rekey is in progress.
    pub nonce: String,
    /// The new split; `None` if no rekey is in progress.
    pub config: Option<SealConfig>,
    /// Number of different shares of the old key given so far; 0 without a rekey.
    pub progress: u8,
    /// Threshold of the unseal key in use: number of old shares to give.
    pub required: u8,
    /// True if a quorum of the new shares must be given back before the new key is used.
    pub is_verified: bool,
    /// Empty unless new shares wait for their verification.
    pub verification_nonce: String,
}

/// New shares. Shown once; the values cannot be shown again.
pub struct NewShares {
    /// Nonce of the rekey that made the shares, not of the verification.
    pub nonce: String,
    /// All shares of the new key, to distribute among the key holders.
    pub shares: Vec<KeyShare>,
    /// Nonce of the verification that puts the shares in use; `None`: the shares are in use.
    pub verification_nonce: Option<String>,
    /// Advice to keep old and new shares; `None` unless the disk failed during the key change.
    pub warning: Option<&'static str>,
}

/// The result of a share of the old key.
pub enum RekeyStep {
    /// The share was taken, and more shares of the old key are needed.
    More(RekeyStatus),
    /// The share completed a correct set, and the new key was made.
    Shares(NewShares),
}

/// The progress of a verification.
pub struct VerificationStatus {
    /// Nonce of the verification, to be sent with each new share; changes at a restart.
    pub nonce: String,
    /// New split of the unseal key: number of shares and threshold.
    pub config: SealConfig,
    /// Number of new shares given back so far, always below the threshold.
    pub progress: u8,
}

/// The result of a new share that was given back.
pub enum VerificationStep {
    /// The verification needs further new shares; the old shares stay valid.
    More(VerificationStatus),
    /// The new shares are in use.
    Complete {
        /// Nonce of the verification that ended.
        nonce: String,
    },
}

/// Warning of a rekey with an unknown outcome.
const IN_DOUBT: &str = "the disk failed while the new key was stored: keep the old and the new \
    shares, and try both at the next unsealing";

impl KeyHolders {
    /// Checks that the holders of this server have a key of this kind.
    ///
    /// # Errors
    /// 400 for the other kind.
    pub async fn check_target(&self, target: RekeyTarget) -> Result<(), Failure> {
        let seals = self.directory.seals().await?;
        let automatic = seals.and_then(|seals| seals.automatic);
        let refusal = match (target, automatic) {
            (RekeyTarget::Unseal, Some(seal)) => format!(
                "a seal of type {} has no unseal key: rekey the recovery key at \
                 sys/rekey-recovery-key or sys/rotate/recovery (bulkhead operator rekey \
                 -target=recovery)",
                seal.kind
            ),
            (RekeyTarget::Recovery, None) => "a seal of type shamir has no recovery key: rekey \
                the unseal key at sys/rekey or sys/rotate/root (bulkhead operator rekey)"
                .to_owned(),
            _ => return Ok(()),
        };
        Err(Failure::invalid(refusal))
    }

    /// Returns the progress of the rekey.
    ///
    /// # Errors
    /// If the seal's configuration cannot be read.
    pub async fn rekey_status(&self) -> Result<RekeyStatus, Failure> {
        let procedures = self.procedures.lock().await;
        self.status_of_rekey(procedures.rekey.as_ref()).await
    }

    /// Begins a rekey to `config`.
    ///
    /// # Errors
    /// 400 if a rekey is in progress, and for a dev server, which opens with the key of a file.
    pub async fn start_rekey(
        &self,
        config: SealConfig,
        is_verified: bool,
        remote: IpAddr,
    ) -> Result<RekeyStatus, Failure> {
        let mut procedures = self.procedures.lock().await;
        if let Some(running) = &procedures.rekey {
            return Err(Failure::invalid(format!(
                "a rekey is in progress, with nonce {}: give shares, or cancel the rekey first",
                running.nonce
            )));
        }
        if bulkhead_store::dev_key_file(&self.directory).is_some() {
            return Err(Failure::invalid(
                "this is a dev server: the key file next to the data opens the server, and a rekey \
                 would make the file useless; rekey a server unsealed by operators",
            ));
        }
        let quorum = Quorum::new(self.config().await?)?;
        let rekey = Rekey { nonce: random::uuid()?, config, is_verified, quorum, pending: None };
        let status = self.status_of_rekey(Some(&rekey)).await?;
        procedures.rekey = Some(rekey);
        self.log_act(remote, "rekey-started");
        Ok(status)
    }

    /// Cancels the rekey, if there is one. New shares that wait for their verification are then
    /// worthless.
    ///
    /// # Errors
    /// 400 for a nonce of another rekey.
    pub async fn cancel_rekey(&self, nonce: &str, remote: IpAddr) -> Result<(), Failure> {
        let mut procedures = self.procedures.lock().await;
        if let Some(running) = &procedures.rekey {
            check_optional_nonce(nonce, &running.nonce, STATUS)?;
            procedures.rekey = None;
            self.log_act(remote, "rekey-cancelled");
        }
        Ok(())
    }

    /// Takes a share of the old key. If the share completes a correct set, returns the new shares:
    /// in use at once, or after their verification.
    ///
    /// # Errors
    /// 400 for a wrong nonce, for a text that is not a share of this seal, and if enough shares of
    /// this client are not the unseal key; 503 if the new key could not be stored.
    pub async fn give_to_rekey(&self, share: GivenShare<'_>) -> Result<RekeyStep, Failure> {
        let _its_turn = self.clients.acquire(share.client()).await;
        let step = self.advance_rekey(share).await;
        self.log_refusal(share.remote, step)
    }

    async fn advance_rekey(&self, share: GivenShare<'_>) -> Result<RekeyStep, Failure> {
        let mut procedures = self.procedures.lock().await;
        let Some(running) = &mut procedures.rekey else {
            return Err(Failure::invalid(format!(
                "no rekey is in progress; begin one at {STATUS}"
            )));
        };
        check_nonce(share.nonce, &running.nonce, STATUS)?;
        if running.pending.is_some() {
            return Err(Failure::invalid(format!(
                "the new shares were made and wait for their verification: give the new shares at \
                 {VERIFICATION}, or cancel the rekey"
            )));
        }
        if !self.try_share(&mut running.quorum, share).await? {
            return self.status_of_rekey(procedures.rekey.as_ref()).await.map(RekeyStep::More);
        }
        let (key, config, nonce) = (SealKey::generate()?, running.config, running.nonce.clone());
        let shares = bulkhead_store::split(&key, config)?;
        if running.is_verified {
            let verification = random::uuid()?;
            let quorum = Quorum::new(config)?;
            running.pending = Some(PendingKey { nonce: verification.clone(), key, quorum });
            self.log_act(share.remote, "rekey-awaits-verification");
            let verification_nonce = Some(verification);
            let shares = NewShares { nonce, shares, verification_nonce, warning: None };
            return Ok(RekeyStep::Shares(shares));
        }
        let warning = self.install(&mut procedures, config, &key, share.remote).await?;
        Ok(RekeyStep::Shares(NewShares { nonce, shares, verification_nonce: None, warning }))
    }

    /// Returns the progress of the verification.
    ///
    /// # Errors
    /// 400 if no new shares wait for their verification.
    pub async fn verification_status(&self) -> Result<VerificationStatus, Failure> {
        let mut procedures = self.procedures.lock().await;
        let (config, pending) = pending_of(&mut procedures)?;
        Ok(status_of_verification(config, pending))
    }

    /// Forgets the new shares given back so far. The new shares stay the same.
    ///
    /// # Errors
    /// As [`KeyHolders::verification_status`], and 400 for a wrong nonce.
    pub async fn restart_verification(&self, nonce: &str) -> Result<VerificationStatus, Failure> {
        let mut procedures = self.procedures.lock().await;
        let (config, pending) = pending_of(&mut procedures)?;
        check_optional_nonce(nonce, &pending.nonce, VERIFICATION)?;
        (pending.quorum, pending.nonce) = (Quorum::new(config)?, random::uuid()?);
        Ok(status_of_verification(config, pending))
    }

    /// Takes back a new share. If the share completes a correct set, the new shares replace the old
    /// shares.
    ///
    /// # Errors
    /// 400 for a wrong nonce, for a text that is not a share, and if enough shares of this client
    /// are not the new key; 503 if the new key could not be stored.
    pub async fn give_to_verification(
        &self,
        share: GivenShare<'_>,
    ) -> Result<VerificationStep, Failure> {
        let _its_turn = self.clients.acquire(share.client()).await;
        let step = self.advance_verification(share).await;
        self.log_refusal(share.remote, step)
    }

    async fn advance_verification(
        &self,
        share: GivenShare<'_>,
    ) -> Result<VerificationStep, Failure> {
        let mut procedures = self.procedures.lock().await;
        let (config, pending) = pending_of(&mut procedures)?;
        check_nonce(share.nonce, &pending.nonce, VERIFICATION)?;
        let keys = share.add_to(&mut pending.quorum)?;
        let Some(key) = keys.into_iter().find(|key| key.is_same(&pending.key)) else {
            pending.quorum.end_if_complete(share.client())?;
            return Ok(VerificationStep::More(status_of_verification(config, pending)));
        };
        let nonce = pending.nonce.clone();
        match self.install(&mut procedures, config, &key, share.remote).await? {
            None => Ok(VerificationStep::Complete { nonce }),
            Some(warning) => Err(Failure::internal(warning)),
        }
    }

    /// Puts a new key in use, and ends the procedures that collect shares of the old key. Returns a
    /// warning if the outcome is unknown.
    async fn install(
        &self,
        procedures: &mut ActiveProcedures,
        config: SealConfig,
        key: &SealKey,
        remote: IpAddr,
    ) -> Result<Option<&'static str>, Failure> {
        let outcome = self.directory.rekey(&self.store, config, key).await?;
        *procedures = ActiveProcedures::default();
        match outcome {
            RekeyOutcome::Stored => {
                let pairs = [
                    ("remote", remote.to_string()),
                    ("shares", config.shares.to_string()),
                    ("threshold", config.threshold.to_string()),
                ];
                self.log.line(LogLevel::Info, "rekeyed", &pairs);
                Ok(None)
            }
            RekeyOutcome::InDoubt(fault) => {
                self.log.line(LogLevel::Error, "rekey-outcome-unknown", &[cause(&fault)]);
                Ok(Some(IN_DOUBT))
            }
        }
    }

    async fn status_of_rekey(&self, running: Option<&Rekey>) -> Result<RekeyStatus, Failure> {
        let pending = running.and_then(|rekey| rekey.pending.as_ref());
        Ok(RekeyStatus {
            nonce: running.map(|rekey| rekey.nonce.clone()).unwrap_or_default(),
            config: running.map(|rekey| rekey.config),
            progress: running.map_or(0, |rekey| rekey.quorum.progress()),
            required: self.config().await?.threshold,
            is_verified: running.is_some_and(|rekey| rekey.is_verified),
            verification_nonce: pending.map(|pending| pending.nonce.clone()).unwrap_or_default(),
        })
    }
}

fn pending_of(procedures: &mut ActiveProcedures) -> Result<(SealConfig, &mut PendingKey), Failure> {
    let Some(running) = &mut procedures.rekey else {
        return Err(Failure::invalid(format!("no rekey is in progress; begin one at {STATUS}")));
    };
    let config = running.config;
    let pending = running.pending.as_mut();
    let pending = pending.ok_or_else(|| {
        Failure::invalid(format!(
            "no new shares wait for a verification; give shares of the old key at first, see \
             {STATUS}"
        ))
    })?;
    Ok((config, pending))
}

fn status_of_verification(config: SealConfig, pending: &PendingKey) -> VerificationStatus {
    let (nonce, progress) = (pending.nonce.clone(), pending.quorum.progress());
    VerificationStatus { nonce, config, progress }
}
