//! Self-initialisation: an empty server with an automatic seal sets itself up by the blocks of the
//! configuration, once and in order.
//!
//! This file prevents a server that is half set up: the closed database is copied before each
//! block, and put back if a request of the block fails or the process dies. No root token remains:
//! each block has a token of its own, which ends with the block.

use super::ServiceSeal;
use super::automatic::{OpeningFault, OpeningKey, START_PATIENCE};
use bulkhead_access::tokens;
use bulkhead_store::{Address, FirstKeys, IndexColumns, SecretHasher, Space, Store, StoreFault};
use bulkhead_wire::failure::Failure;
use bulkhead_wire::log_level::LogLevel;
use bulkhead_wire::secret::Secret;
use bulkhead_wire::stored;
use bulkhead_wire::stored::Stored;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

/// The progress of a self-initialisation. Data that a person initialised have none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SelfInitialisation {
    /// Number of blocks that are complete.
    pub completed: u32,
    /// True once no further block runs.
    pub done: bool,
}

stored!(SelfInitialisation, "self-initialisation", reads_stored_self_initialisations);

impl SelfInitialisation {
    fn address() -> Address {
        Address::new(Space::Core, "self-initialisation")
    }

    async fn read(store: &Arc<Store>) -> Result<Option<Self>, Failure> {
        let row = store.begin().get(&Self::address()).await?;
        let progress = row.map(|row| Self::from_bytes(&row.body)).transpose();
        progress.map_err(|unreadable| unreadable.of("the progress of the self-initialisation"))
    }

    async fn write(self, store: &Arc<Store>) -> Result<(), Failure> {
        let mut unit = store.begin();
        unit.put(Self::address(), self.to_bytes()?, IndexColumns::default());
        unit.commit().await?;
        Ok(())
    }
}

impl ServiceSeal {
    /// Returns whether the directory is empty, or its self-initialisation is not complete. If the
    /// server of an external seal does not answer, returns whether a block was interrupted: data
    /// that are set up in part are never served, and a start continues.
    ///
    /// # Errors
    /// If the data cannot be opened with the seal of the configuration.
    pub async fn awaits_self_initialisation(&self) -> Result<bool, Failure> {
        if self.directory.seals().await?.is_none() {
            return Ok(true);
        }
        let opening = match self.opening_key(START_PATIENCE).await {
            Ok(Some(opening)) => opening,
            Ok(None) => return Ok(false),
            Err(OpeningFault::Keeper(_)) => return Ok(self.directory.has_copies().await?),
            Err(OpeningFault::Local(failure)) => return Err(failure),
        };
        match self.progress(&opening).await {
            Ok(progress) => Ok(progress.is_some_and(|progress| !progress.done)),
            Err(OpeningFault::Keeper(_)) => Ok(false),
            Err(OpeningFault::Local(failure)) => Err(failure),
        }
    }

    /// Sets an empty server up with `blocks` blocks, or continues after the last complete block.
    /// `run` gets the number of a block, counted from 0, and a root token; it must end the token.
    /// No due work runs meanwhile, and the service is closed afterwards. Does nothing for data that
    /// are complete, or that a person initialised. If another server keeps the key of the seal and
    /// does not answer, waits for an answer, once: the key is kept for all blocks.
    ///
    /// # Errors
    /// The failure of `run`, after the data are as before the block; the failure of the store; a
    /// key that the keeper refuses.
    pub async fn initialise_unattended<R>(&self, blocks: u32, run: R) -> Result<(), Failure>
    where
        R: AsyncFn(u32, &Secret) -> Result<(), Failure>,
    {
        let opening = match self.directory.seals().await? {
            None => Some(self.create_unattended().await?),
            Some(_) => {
                let key = async || self.opening_key(Duration::MAX).await;
                self.ask_until_answered(key).await?
            }
        };
        let Some(opening) = opening else { return Ok(()) };
        let progress = self.progress(&opening).await?;
        let Some(mut progress) = progress.filter(|progress| !progress.done) else { return Ok(()) };
        self.directory.forget_copy_before(progress.completed).await?;
        if self.directory.put_back(progress.completed).await? {
            self.log_undone(progress.completed);
        }
        while !progress.done {
            let block = progress.completed;
            let next = block.saturating_add(1);
            progress = SelfInitialisation { completed: next, done: next >= blocks };
            self.directory.set_aside(block).await?;
            let run_numbered = async |token: &Secret| run(block, token).await;
            let outcome = self.run_block(&opening, progress, run_numbered).await;
            self.close_if(|_| true).await;
            if let Err(failure) = outcome {
                self.directory.put_back(block).await?;
                self.log_undone(block);
                return Err(failure);
            }
            self.directory.forget_copy(block).await?;
        }
        let pairs = [("blocks", blocks.to_string())];
        self.process.settings.log.line(LogLevel::Info, "self-initialised", &pairs);
        Ok(())
    }

    /// Checks that the self-initialisation of the open store is complete, if there was one, and
    /// removes a copy that a killed process left.
    ///
    /// # Errors
    /// A self-initialisation that was interrupted.
    pub(super) async fn check_completeness(&self, store: &Arc<Store>) -> Result<(), Failure> {
        let Some(progress) = SelfInitialisation::read(store).await? else { return Ok(()) };
        if !progress.done {
            return Err(Failure::internal(format!(
                "the data are set up in part: {} blocks of the self-initialisation are complete; \
                 start with the initialize blocks in the configuration, or with an empty data \
                 directory",
                progress.completed
            ))
            .recordable());
        }
        Ok(self.directory.forget_copy_before(progress.completed).await?)
    }

    fn log_undone(&self, block: u32) {
        let pairs = [
            ("block", block.saturating_add(1).to_string()),
            ("replaced-data", self.directory.replaced_data()),
        ];
        self.process.settings.log.line(LogLevel::Warn, "self-initialisation-undone", &pairs);
    }

    /// Opens the data, runs a block, and stores that the block is complete.
    async fn run_block(
        &self,
        opening: &OpeningKey,
        complete: SelfInitialisation,
        run: impl AsyncFnOnce(&Secret) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let core = {
            let _turn = self.turn.lock().await;
            let store = self.open_with(opening).await?;
            self.unlock_without_due_work(store).await?
        };
        let token = tokens::keys::generate_text()?;
        tokens::ensure_root(&core.store, &token).await?;
        run(&token).await?;
        complete.write(&core.store).await
    }

    /// Creates a cluster that opens by its seal alone, without a root token. Returns the key of the
    /// seal.
    async fn create_unattended(&self) -> Result<OpeningKey, Failure> {
        let new_key = async || self.new_automatic_key().await.map_err(OpeningFault::Keeper);
        let Some((seal, key)) = self.ask_until_answered(new_key).await? else {
            return Err(Failure::internal(
                "a server with seal \"shamir\" cannot initialise itself: nobody would have the \
                 unseal keys; write seal \"static\" or seal \"transit\", or leave the initialize \
                 blocks out",
            ));
        };
        let progress = SelfInitialisation { completed: 0, done: false };
        let body = progress.to_bytes()?;
        let keys = FirstKeys::automatic(seal.clone(), &key, None);
        let first = |_: &SecretHasher| {
            Ok::<_, StoreFault>(vec![(
                SelfInitialisation::address(),
                body,
                IndexColumns::default(),
            )])
        };
        self.directory.initialise(keys, first).await?;
        Ok(OpeningKey::of_new(seal, key))
    }

    /// Reads the progress without opening the service.
    async fn progress(
        &self,
        opening: &OpeningKey,
    ) -> Result<Option<SelfInitialisation>, OpeningFault> {
        let _turn = self.turn.lock().await;
        let store = self.open_with(opening).await?;
        let progress = SelfInitialisation::read(&store).await;
        store.close().await;
        Ok(progress?)
    }
}
