//! Keys that are due: rotated by the host, one commit each.

use super::algorithm::Algorithm;
use super::key_pair::SigningKey;
use super::named_key::{NamedKey, name_at};
use super::provider::Provider;
use crate::background::Claim;
use bulkhead_store::Unit;
use bulkhead_wire::failure::Failure;

impl Provider {
    /// Rotates the claimed key, if it is still due.
    ///
    /// # Errors
    /// When nothing could be stored: the key is still due.
    pub(crate) async fn rotate_when_due(&self, claim: &Claim) -> Result<(), Failure> {
        let name = name_at(claim.address());
        let mut unit = self.store.begin();
        let Some(mut key) = self.due_key(&mut unit, claim).await? else { return Ok(()) };
        let next = self.make(key.settings.algorithm).await?;
        let now = self.store.now();
        key.rotate(next, key.settings.verification_ttl, now)?;
        key.put(&mut unit, name)?;
        unit.commit().await?;
        self.tell_of_rotation(name);
        Ok(())
    }

    async fn due_key(&self, unit: &mut Unit, claim: &Claim) -> Result<Option<NamedKey>, Failure> {
        let found = claim.fence(unit).await?;
        let key = found.map(|record| NamedKey::parse(&record, name_at(claim.address())));
        Ok(key.transpose()?.filter(|key| key.due() <= self.store.now()))
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
