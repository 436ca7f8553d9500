//! Unsealing by people: shares are collected until the shares open the data, with the migration to
//! another seal if a migration is awaited.
//!
//! This file prevents a client with wrong shares from ending the attempt of other clients: shares
//! count per client, and each refusal is logged with the address.

use super::ServiceSeal;
use crate::seal_setting::kind_of;
use bulkhead_access::log::cause;
use bulkhead_access::quorum::Quorum;
use bulkhead_store::{DataSeals, KeyShare, SealConfig, SealKey, Store, StoreFault};
use bulkhead_wire::client::Client;
use bulkhead_wire::failure::{Failure, quoted};
use bulkhead_wire::log_level::LogLevel;
use bulkhead_wire::sync;
use std::net::IpAddr;

/// A share given to unseal.
#[derive(Clone, Copy)]
pub struct UnsealShare<'a> {
    /// The share, hexadecimal or base64.
    pub share: &'a str,
    /// True if the data shall get the seal of the configuration.
    pub migrate: bool,
    /// Address of the client.
    pub remote: IpAddr,
}

impl ServiceSeal {
    /// Takes a share from a client. If the share completes a correct set, the service is open on
    /// return.
    ///
    /// # Errors
    /// 400 for a text that is not a share of this seal, if enough shares of this client do not open
    /// the data, and if the share is meant for a migration and none is awaited, or the reverse; a
    /// failure of the keeper of the seal of a migration, after which any share tries again. The
    /// client's attempt is then over; its shares are still combined with later shares.
    pub async fn unseal(&self, given: UnsealShare<'_>) -> Result<(), Failure> {
        let (remote, client) = (given.remote, Client::of(given.remote));
        let its_turn = self.clients.acquire(client).await;
        let taken = self.take_share(given).await;
        drop(its_turn);
        if let Err(failure) = &taken {
            let log = &self.process.settings.log;
            let pairs = [("remote", remote.to_string()), cause(failure)];
            log.line(LogLevel::Warn, "unseal-refused", &pairs);
            let why = failure.recorded_or_code().to_owned();
            sync::lock(&self.refused).add(self.now(), remote, why);
        }
        taken
    }

    async fn take_share(&self, given: UnsealShare<'_>) -> Result<(), Failure> {
        let client = Client::of(given.remote);
        let _turn = self.turn.lock().await;
        let share =
            KeyShare::parse(given.share).map_err(|why| Failure::invalid(why).recordable())?;
        let unusable = |fault: StoreFault| {
            self.process.settings.log.line(LogLevel::Error, "not-unsealed", &[cause(&fault)]);
            self.directory.answer(fault)
        };
        let Some(seals) = self.directory.seals().await.map_err(unusable)? else {
            return Err(Failure::invalid(
                "Vault is not initialized: there is nothing to unseal; see sys/init",
            ));
        };
        if self.core().is_some() {
            return Ok(());
        }
        let config = self.check_way(&seals, given.migrate)?;
        let keys = self.add_share(config, client, &share)?;
        let Some(key) = self.directory.find_key(keys).await.map_err(unusable)? else {
            return self.end_complete_attempt(client);
        };
        let automatic = if given.migrate { self.new_automatic_key().await? } else { None };
        let store = self.directory.open(key).await.map_err(unusable)?;
        if given.migrate
            && let Err(failure) = self.migrate(&store, automatic).await
        {
            Store::close(&store).await;
            return Err(failure);
        }
        self.unlock(store).await?;
        sync::lock(&self.unsealing).take();
        Ok(())
    }

    /// Checks that shares open data with these seals, with or without a migration. Returns the
    /// split of the holders' key.
    fn check_way(&self, seals: &DataSeals, migrate: bool) -> Result<SealConfig, Failure> {
        let setting = &self.process.settings.seal;
        let (here, wanted) = (kind_of(seals), setting.kind());
        let refusal = match (setting.differs_from(seals), migrate) {
            (true, false) => format!(
                "the data have the seal {} and the configuration asks for {}: give the shares with \
                 migrate (bulkhead operator unseal -migrate), or configure the seal {}",
                quoted(here),
                quoted(wanted),
                quoted(here)
            ),
            (false, true) => format!(
                "no migration is awaited: the data have the seal {} of the configuration; leave \
                 migrate out",
                quoted(here)
            ),
            (false, false) if setting.is_automatic() => format!(
                "the seal {} opens by itself when the server starts; recovery keys unseal only in \
                 a migration: configure seal \"shamir\" and give the keys with migrate",
                quoted(here)
            ),
            _ => {
                return seals.holders.ok_or_else(|| {
                    Failure::invalid(
                        "nobody holds a share: the data were initialised without recovery keys, \
                         and only their seal opens them; configure the seal of the data",
                    )
                });
            }
        };
        Err(Failure::invalid(refusal))
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
            self.process.settings.log.line(LogLevel::Warn, "key-shares-discarded", &pairs);
        }
        Ok(())
    }
}
