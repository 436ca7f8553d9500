//! Keys that are due: rotated by the host, one commit each.

use super::algorithm::Algorithm;
use super::key_pair::SigningKey;
use super::named_key::{NamedKey, name_at};
use super::provider::Provider;
use crate::background::Claim;
use bulkhead_wire::failure::Failure;

impl Provider {
    /// Rotates the claimed key, if it is still due.
    ///
    /// # Errors
    /// When nothing could be stored: the key is still due.
    pub(crate) async fn rotate_when_due(&self, claim: &Claim) -> Result<(), Failure> {
        let name = name_at(claim.address());
        let mut finish = self.store.begin().finish();
        loop {
            let unit = finish.restart_host_part();
            let Some(record) = claim.fence(unit).await? else { return Ok(()) };
            if record.index.due.is_none_or(|due| due > self.store.now()) {
                return Ok(());
            }
            let mut key = NamedKey::parse(&record, name)?;
            let next = self.make(key.settings.algorithm).await?;
            let now = self.store.now();
            key.rotate(next, key.settings.verification_ttl, now)?;
            key.put(unit, name)?;
            // An operator who changes the key meanwhile is no reason to put its rotation off.
            if finish.try_commit().await? {
                self.tell_of_rotation(name);
                return Ok(());
            }
        }
    }

    /// Rotates a key because an operator asks for it.
    ///
    /// # Errors
    /// 400 when too many earlier ones are still published.
    pub(crate) async fn rotate(
        &self,
        key: &mut NamedKey,
        verification_ttl: u64,
    ) -> Result<(), Failure> {
        let next = self.make(key.settings.algorithm).await?;
        key.rotate(next, verification_ttl, self.store.now())
    }

    /// Lets keys of the algorithm that the settings name take the place of others.
    ///
    /// # Errors
    /// As [`Provider::rotate`].
    pub(crate) async fn replace(&self, key: &mut NamedKey) -> Result<(), Failure> {
        let keys = self.make_two(key.settings.algorithm).await?;
        key.replace(keys, self.store.now())
    }

    /// Two keys: one that signs, and one that will.
    pub(super) async fn make_two(&self, algorithm: Algorithm) -> Result<[SigningKey; 2], Failure> {
        Ok([self.make(algorithm).await?, self.make(algorithm).await?])
    }
}
