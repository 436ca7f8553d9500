//! The `identity` import: tokens that core signs for the mount, and the entities visible to the
//! mount.

use crate::bindings::secrets_engine::bulkhead::plugin::identity::{Entity, Host, IdentityToken};
use crate::contract::Failure;
use crate::grants::Act;
use crate::limits;
use crate::state::{CallState, refusal};

impl Host for CallState {
    async fn token(
        &mut self,
        audience: String,
        ttl: u64,
    ) -> wasmtime::Result<Result<IdentityToken, Failure>> {
        granted!(self, Act::IdentityToken);
        self.charge_work(limits::SIGNATURE_BYTES)?;
        let signed = match self.context.services.identity_token(&audience, ttl).await {
            Ok(signed) => signed,
            Err(refused) => return Ok(Err(refusal(&refused))),
        };
        self.context.tree.secrets.add(&signed.token);
        let (token, expires) = (signed.token, signed.expires);
        Ok(Ok(IdentityToken { token, expires, ext: Vec::new() }))
    }

    async fn find_entity(
        &mut self,
        id: String,
    ) -> wasmtime::Result<Result<Option<Entity>, Failure>> {
        granted!(self, Act::Entities);
        let found = match self.context.services.entity(&id).await {
            Ok(Some(found)) => found,
            Ok(None) => return Ok(Ok(None)),
            Err(refused) => return Ok(Err(refusal(&refused))),
        };
        let metadata = found.metadata.iter().map(|(key, value)| key.len() + value.len());
        self.charge_row(metadata.sum::<usize>().saturating_add(found.name.len()))?;
        let (id, name, metadata) = (found.id, found.name, found.metadata);
        Ok(Ok(Some(Entity { id, name, metadata, ext: Vec::new() })))
    }
}
