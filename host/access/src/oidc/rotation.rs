//! Rotation of due keys. The host rotates each key in its own commit.

use super::algorithm::TokenAlgorithm;
use super::key_pair::TokenSigningKey;
use super::named_key::{NamedKey, name_at};
use super::provider::OidcProvider;
use crate::background::{Claim, DueOutcome};
use bulkhead_wire::failure::Failure;

impl OidcProvider {
    /// Rotates the claimed key, unless the key is not due any more.
    ///
    /// # Errors
    /// Nothing was stored, and the key is still due.
    pub async fn rotate_when_due(&self, claim: &Claim) -> Result<DueOutcome, Failure> {
        let name = name_at(claim.address());
        let mut finish = self.store.begin().finish();
        loop {
            let unit = finish.restart_host_part();
            let Some(record) = claim.fence(unit).await? else { return Ok(DueOutcome::Moot) };
            if record.index.due.is_none_or(|due| due > self.store.now()) {
                return Ok(DueOutcome::Moot);
            }
            let mut key = NamedKey::parse(&record, name)?;
            let next = self.make(key.settings.algorithm).await?;
            let now = self.store.now();
            key.rotate(next, key.settings.verification_ttl, now)?;
            key.put(unit, name)?;
            // On a conflict with an operator's change of the key, the rotation is retried at once.
            if finish.try_commit().await? {
                self.log_rotation(name);
                return Ok(DueOutcome::Done);
            }
        }
    }

    /// Rotates a key on an operator's request.
    ///
    /// # Errors
    /// 400 when too many retired keys are still published.
    pub async fn rotate(&self, key: &mut NamedKey, verification_ttl: u64) -> Result<(), Failure> {
        let next = self.make(key.settings.algorithm).await?;
        key.rotate(next, verification_ttl, self.store.now())
    }

    /// Replaces the keys by keys of the algorithm in the settings.
    ///
    /// # Errors
    /// Errors of [`OidcProvider::rotate`].
    pub async fn replace(&self, key: &mut NamedKey) -> Result<(), Failure> {
        let keys = self.make_two(key.settings.algorithm).await?;
        key.replace(keys, self.store.now())
    }

    /// Creates a signing key and the next key.
    pub(super) async fn make_two(
        &self,
        algorithm: TokenAlgorithm,
    ) -> Result<[TokenSigningKey; 2], Failure> {
        Ok([self.make(algorithm).await?, self.make(algorithm).await?])
    }
}
