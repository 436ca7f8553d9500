//! The `identity` import: tokens that core signs for the mount.

use crate::bindings::secrets_engine::bulkhead::plugin::identity::{Host, IdentityToken};
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
}
